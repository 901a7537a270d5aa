"""What there is to know about a session at this moment."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from .questions import Question
from .requests import Caps
from .values import MAX_WHOLE, JsonObject, Reached, ResultData, State

__all__ = [
    "ContextUsed",
    "Listed",
    "Listing",
    "ModelSpent",
    "Queued",
    "RateLimit",
    "Retry",
    "SessionChanges",
    "SignIn",
    "Status",
    "Subagent",
    "Tokens",
    "ToolRun",
    "Waiting",
]


class Waiting(ResultData, frozen=True):
    what: Literal["api", "tool", "person", "hook", "background", "start", "machine"]
    detail: str = ""


class Retry(ResultData, frozen=True):
    attempt: int
    max_retries: int
    delay_ms: int
    error: str
    error_status: int | None = None


class RateLimit(ResultData, frozen=True):
    at: int
    info: JsonObject


class ContextUsed(ResultData, frozen=True):
    tokens: int
    window: int | None = None
    percent: float | None = None


class Tokens(ResultData, frozen=True):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def plus(self, other: Tokens) -> Tokens:
        """The sum, within what every reader of JSON has as a whole number."""
        return Tokens(
            input=min(self.input + other.input, MAX_WHOLE),
            output=min(self.output + other.output, MAX_WHOLE),
            cache_read=min(self.cache_read + other.cache_read, MAX_WHOLE),
            cache_write=min(self.cache_write + other.cache_write, MAX_WHOLE),
        )


class ModelSpent(ResultData, frozen=True):
    """What one model has used and cost."""

    cost_usd: float = 0.0
    tokens: Tokens = Tokens()

    def plus(self, other: ModelSpent) -> ModelSpent:
        """The sum of both."""
        return ModelSpent(
            cost_usd=self.cost_usd + other.cost_usd, tokens=self.tokens.plus(other.tokens)
        )


class SignIn(ResultData, frozen=True):
    """The CLI signs in, or cannot."""

    at: int
    is_signing_in: bool = False
    output: list[str] = field(default_factory=list[str])
    """What it tells the person who signs in: an address, say."""
    error: str | None = None


class ToolRun(ResultData, frozen=True):
    id: str
    name: str
    state: Literal["running", "completed", "failed", "denied"]
    detail: str = ""
    since: int = 0
    agent: str | None = None
    elapsed_s: float | None = None
    """How long it has been running, as the CLI last reported."""


class Subagent(ResultData, frozen=True):
    id: str
    kind: str
    description: str
    since: int = 0
    tool_use_id: str | None = None
    """The tool call that it belongs to."""
    last_tool: str | None = None
    tool_uses: int = 0
    tokens: int = 0
    duration_ms: int = 0


class Queued(ResultData, frozen=True):
    prompt_id: str
    text: str
    said_at: int
    sent: bool
    """False: no CLI has it; the next start of one sends it first."""
    priority: str | None = None


class Status(ResultData, frozen=True):
    """Everything a person wants to know about a session at this moment."""

    session_id: str
    state: State
    cwd: str
    live: bool
    started_at: int
    updated_at: int
    cursor: int
    """The journal as far as this status knows it: `watch(after=cursor)` goes on from here."""
    claude_session_id: str | None = None
    """The CLI's id for the conversation; differs from ours after /clear."""
    reason: str | None = None
    """Why it is in `error` or was interrupted, and that a question has expired since the last
    message."""
    label: str | None = None
    title: str | None = None
    model: str | None = None
    mode: str | None = None
    max_thinking_tokens: int | None = None
    """None: as the CLI decides."""
    pid: int | None = None
    cli_version: str | None = None
    simulated: bool = False
    scratch: str | None = None
    """The folder that a simulated session works in, in place of `cwd`."""
    machine: str | None = None
    """The runner its CLI is on; None: the engine's own machine."""
    via: Reached = "stdio"
    waiting_on: Waiting | None = None
    retry: Retry | None = None
    rate_limit: RateLimit | None = None
    context: ContextUsed | None = None
    compacting: bool = False
    """The conversation is being summarised."""
    sign_in: SignIn | None = None
    """Set while the CLI signs in, and when it could not."""
    cost_usd: float = 0.0
    tokens: Tokens = Tokens()
    models: dict[str, ModelSpent] = field(default_factory=dict[str, ModelSpent])
    """What each model has used and cost."""
    turns: int = 0
    running_tools: list[ToolRun] = field(default_factory=list[ToolRun])
    recent_tools: list[ToolRun] = field(default_factory=list[ToolRun])
    """The last tools that ended: ten, or all so far where output is asked for, up to 200."""
    tools_ended: int = 0
    """How many have ended so far."""
    subagents: list[Subagent] = field(default_factory=list[Subagent])
    questions: list[Question] = field(default_factory=list[Question])
    """Those that take an answer, oldest first."""
    queued: list[Queued] = field(default_factory=list[Queued])
    result: str | None = None
    """The text of the last turn that ended."""
    structured_output: Any = None
    """What it gave for the `json_schema` of the session, up to 20,000 characters of JSON."""
    output: list[str] = field(default_factory=list[str])
    """The last lines of text of the model's, when they were asked for."""
    output_cut: bool = False
    """There is more after the cursor that was given than the lines that were asked for, or than
    was looked through."""
    foreign: bool = False
    """Its CLI is not the engine's; it asks here, and can be told nothing else while it is there."""
    parent: str | None = None
    """The session it was forked from, or whose plan it implements."""
    successor: str | None = None
    caps: Caps = Caps()
    resumable: bool = True
    """False: it keeps no transcript, so it ends for good with its CLI."""
    source: Literal["engine", "transcript"] = "engine"
    """`transcript`: no engine of ours has touched it, and this is what its transcript shows.
    Whether it is at work elsewhere is not known."""


class Listed(ResultData, frozen=True):
    """One session in a list, ours or found on disk."""

    session_id: str
    cwd: str | None
    title: str
    updated_at: int
    state: State | None = None
    """None: no engine of ours has touched it."""
    live: bool = False
    machine: str | None = None
    label: str | None = None
    questions: int = 0
    cost_usd: float | None = None
    tokens: Tokens | None = None
    model: str | None = None
    mode: str | None = None
    context_percent: int | None = None
    """How full its context is."""
    since: int | None = None
    """When it came into its present state."""
    waiting_on: Waiting | None = None
    last_line: str | None = None
    """What runs now, or else the last line that the model wrote; 200 characters of it."""
    reason: str | None = None
    """Why it is in `error` or was interrupted, and that a question has expired since the last
    message."""
    interactive: bool = False
    foreign: bool = False
    """Its CLI is not the engine's, and asks here."""
    simulated: bool = False
    resumable: bool = True
    """False: it keeps no transcript, so it ends for good with its CLI."""
    archived: bool = False
    source: Literal["engine", "transcript"] = "engine"

    @property
    def search_text(self) -> str:
        """What a search looks through, in one case."""
        shown = (self.title, self.cwd, self.label, self.machine, self.last_line, self.model)
        return "\n".join([*filter(None, shown), self.session_id]).casefold()


class Listing(ResultData, frozen=True):
    sessions: list[Listed]
    unreadable: list[str] = field(default_factory=list[str])
    """Files that could not be read, each with the reason."""
    total: int = 0
    cursor: int = 0
    """The journal as far as this list knows it: `follow_sessions(after=cursor)` goes on from
    here."""


class SessionChanges(ResultData, frozen=True):
    """What changed of the list of sessions, and where to go on."""

    cursor: int
    changed: list[Listed] = field(default_factory=list[Listed])
    """Whole rows, as they are now: new ones among them."""
    questions: list[Question] = field(default_factory=list[Question])
    """Those that were asked or settled since, as they are now."""
    removed: list[str] = field(default_factory=list[str])
    """The ids of sessions that are no longer in the list."""
    reset: bool = False
    """Too much has changed, or is gone: list the sessions again. The cursor is where to go on."""
