"""What an engine promises, and the plain data that goes in and out.

There is one in this process (`engine`) and one over HTTP (`remote`); faces know only this.
Whatever an engine cannot do it says with an error of `pilothouse.errors`, the same over HTTP.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Any, Final, Literal, Protocol

from msgspec import Meta, Raw, Struct, field

from pilothouse.errors import UsageError
from pilothouse.protocol.permissions import PermissionMode

from .answers import Answer

__all__ = [
    "AllStopped",
    "Answered",
    "Ask",
    "Asked",
    "Batch",
    "Cancelled",
    "Caps",
    "ContextUsed",
    "CostLine",
    "CostReport",
    "DryRun",
    "DryRunLine",
    "Engine",
    "Event",
    "Fork",
    "Gap",
    "Health",
    "Interrupted",
    "Listed",
    "Listing",
    "ModeSet",
    "Option",
    "PolicyReport",
    "Posed",
    "Question",
    "Queued",
    "RateLimit",
    "Retry",
    "Rewound",
    "Runner",
    "RunnerAdded",
    "Said",
    "Say",
    "SessionOptions",
    "Start",
    "Started",
    "State",
    "Status",
    "Stopped",
    "Subagent",
    "Tokens",
    "ToolRun",
    "Via",
    "Waiting",
    "Way",
]

State = Literal["active", "awaiting_input", "done", "error", "interrupted"]
Via = Literal["relay", "stdio", "sdk-url", "sdk-url-hybrid"]
"""How a CLI is reached: through a relay that outlives the engine, as a child of the engine, or by
its own WebSocket, which CLIs up to 2.1.120 have (hybrid: what it says comes by HTTP POST)."""
QuestionKind = Literal["tool", "plan", "questions", "elicitation"]
QuestionState = Literal["open", "answered", "withdrawn", "expired"]
QuestionFilter = Literal["decidable", "open", "answered", "withdrawn", "expired", "any"]
"""Which questions are listed; `decidable` are those that take an answer."""
JsonObject = dict[str, Any]
Content = str | list[JsonObject]
"""A text, or content blocks as the Messages API has them."""
ID: Final = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"
"""What the id of a session, of a question or of a message looks like."""
ID_HAS: Final = "it has letters, digits and . _ : - alone"
_id = re.compile(ID.replace("$", r"\Z"))
MAX_WHOLE: Final = 2**53 - 1

LONGEST_WAIT: Final = 60
"""Seconds that one `ask` waits at most."""
ENDING: Final = "the server ends; ask the next one again"
"""What whoever waits for an answer is told by a server that ends."""
LONGEST_WORD: Final = 256
Word = Annotated[str, Meta(min_length=1, max_length=LONGEST_WORD)]
"""A label or an idempotency key."""
Dollars = Annotated[float, Meta(gt=0)]


def is_id(words: str) -> bool:
    """Whether anything can have this id. Such an id has no character that a path could use."""
    return _id.match(words) is not None


class _Given(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a caller gives. A name that is not known is an error, not a silence."""


class _Told(Struct, frozen=True, kw_only=True):
    """What an engine tells."""


# Starting and talking


class Caps(_Given, frozen=True):
    """Where spending stops: before the next turn once the sum is reached."""

    session_usd: Dollars | None = None

    def __post_init__(self) -> None:
        # One that was made here must be readable where it is read again.
        if self.session_usd is not None and not self.session_usd > 0:
            raise UsageError("caps.session_usd is above 0; leave it out for no limit")


class SessionOptions(_Given, frozen=True):
    """How a session's CLI is started, now and at every resume. Only what is set reaches it."""

    model: str | None = None
    fallback_model: str | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    max_thinking_tokens: int | None = None
    mode: PermissionMode | None = None
    allowed_tools: list[str] = field(default_factory=list[str])
    disallowed_tools: list[str] = field(default_factory=list[str])
    tools: list[str] | None = None
    add_dirs: list[str] = field(default_factory=list[str])
    max_turns: int | None = None
    max_budget_usd: float | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    agents: dict[str, JsonObject] | None = None
    mcp_servers: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    strict_mcp_config: bool = False
    settings: JsonObject | None = None
    setting_sources: list[Literal["user", "project", "local"]] | None = None
    json_schema: JsonObject | None = None
    env: dict[str, str] = field(default_factory=dict[str, str])
    machine: Word | None = None
    """The runner to start it on; the engine's own machine if left out."""
    via: Via | None = None
    """How it is reached; the engine's own choice if left out."""
    flags: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    """Some flags of the CLI that have no name here: without dashes -> value, null for a switch."""


class Start(_Given, frozen=True):
    """A new session with its first prompt."""

    prompt: Content
    cwd: str
    options: SessionOptions = SessionOptions()
    label: Word | None = None
    """A word of the caller's own, for lists and for the policy."""
    caps: Caps = Caps()
    key: Word | None = None
    """An idempotency key: the same key with the same request starts one session."""


class Started(_Told, frozen=True):
    session_id: str
    state: State
    prompt_id: str | None = None
    repeated: bool = False
    """The key was known: this is the answer that was given then."""


class Say(_Given, frozen=True):
    """A message to a session, also to one that is at rest or was made elsewhere."""

    content: Content
    mode: PermissionMode | None = None
    """Switch to this mode first."""
    priority: Literal["now", "next", "later"] | None = None
    key: Word | None = None


class Said(_Told, frozen=True):
    session_id: str
    prompt_id: str
    state: State
    resumed: bool = False
    """No CLI was alive: one was started for this message, with the session's own options."""
    queued: bool = False
    """A turn was running: the CLI takes the message into it or after it."""
    repeated: bool = False


class Cancelled(_Told, frozen=True):
    prompt_id: str
    cancelled: bool
    """False: it had left the queue."""


class Interrupted(_Told, frozen=True):
    session_id: str
    state: State
    was_running: bool
    still_queued: list[str] = field(default_factory=list[str])


class ModeSet(_Told, frozen=True):
    session_id: str
    mode: PermissionMode
    how: Literal["in_place", "restarted", "at_next_start"]


class Fork(_Given, frozen=True):
    """A new session that begins with this one's conversation."""

    prompt: Content
    at: str | None = None
    """The uuid of the message to branch from; the end if left out."""
    options: SessionOptions | None = None
    label: Word | None = None
    key: Word | None = None


class Rewound(_Told, frozen=True):
    possible: bool
    files: list[str] = field(default_factory=list[str])
    insertions: int | None = None
    deletions: int | None = None
    done: bool = False
    reason: str | None = None


class Stopped(_Told, frozen=True):
    session_id: str
    state: State
    was_live: bool


class AllStopped(_Told, frozen=True):
    sessions: list[str]
    """Those that had a CLI, and have none now."""


# Other machines


class Runner(_Told, frozen=True):
    """A machine that starts CLIs when it is asked to."""

    name: str
    state: Literal["connected", "draining", "away", "lost"]
    """`away`: not connected, and not for long; `draining`: takes no new session."""
    since: int
    """When it came into this state, in milliseconds since the epoch."""
    host: str = ""
    version: str = ""
    cli_version: str | None = None
    sessions: list[str] = field(default_factory=list[str])
    """Those whose CLI is on it."""


class RunnerAdded(_Told, frozen=True):
    name: str
    token: str
    """Told this once. Whoever has it can be this runner."""


# Questions


class Option(_Told, frozen=True):
    """One choice of a question of the model's."""

    label: str
    description: str = ""
    preview: str | None = None


class Posed(_Told, frozen=True):
    """One of the model's questions."""

    question: str
    header: str = ""
    options: list[Option] = field(default_factory=list[Option])
    multi_select: bool = False


class Way(_Told, frozen=True):
    """One answer a face can offer, ready to be sent: `answer` completed by what `needs` names."""

    id: str
    label: str
    answer: JsonObject
    """The answer as it is sent; `kind` and what this way fixes of it."""
    needs: list[str] = field(default_factory=list[str])
    """The members a person fills in: `reason`, `feedback`, `input`, `plan`, `answers`, ..."""


class Question(_Told, frozen=True):
    """Something a session waits on a person for. What every face shows."""

    id: str
    session_id: str
    kind: QuestionKind
    state: QuestionState
    title: str
    """One line: what is asked."""
    text: str = ""
    """What a person has to see to decide: the command, the diff, the plan."""
    format: Literal["text", "command", "diff", "markdown", "url"] = "text"
    tool_name: str | None = None
    tool_use_id: str | None = None
    agent_id: str | None = None
    input: JsonObject = field(default_factory=dict[str, Any])
    reason: str | None = None
    """Why the CLI asks, in its own words."""
    posed: list[Posed] = field(default_factory=list[Posed])
    plan: str | None = None
    plan_file: str | None = None
    allowed_prompts: list[JsonObject] = field(default_factory=list[JsonObject])
    server_name: str | None = None
    url: str | None = None
    schema: JsonObject | None = None
    ways: list[Way] = field(default_factory=list[Way])
    opened_at: int = 0
    """Milliseconds since the epoch, as every time here."""
    closed_at: int | None = None
    expires_at: int | None = None
    answer: Answer | None = None
    answered_by: str | None = None
    """`person`, `policy`, or the name a face gave."""
    rule: str | None = None
    """The policy's rule that decided, or that said to ask."""
    closed_because: str | None = None
    decidable: bool = True
    """It takes an answer: it is open, or its CLI died before anybody had answered."""
    foreign: bool = False
    """The CLI that asks is not the engine's."""
    cwd: str | None = None
    label: str | None = None
    mode: str | None = None


class Answered(_Told, frozen=True):
    question: Question
    state: State
    """The state of the session."""
    session_id: str
    resumed: bool = False
    """The CLI that had asked is gone: the decision was said to the session as a message."""
    repeated: bool = False
    new_session_id: str | None = None
    """The session that implements the plan, after `clear_context`."""


class Ask(_Given, frozen=True):
    """What a CLI asks that is not the engine's: somebody else started it, with a permission tool.

    Who asks comes again with the same request as long as it waits. Once nobody does, the question
    is withdrawn.
    """

    tool_name: Word
    tool_use_id: Word
    """With the session it names the ask: the same ask is the same question."""
    input: JsonObject
    cwd: str
    session_id: Annotated[str, Meta(pattern=ID)]
    """The CLI's own id of its conversation, or one that whoever asks has made for it."""
    label: Word | None = None
    wait_s: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 25.0
    """How long to wait for an answer before the question is told as it is."""


class Asked(_Told, frozen=True):
    question: Question
    response: JsonObject | None = None
    """What the CLI is told, as its permission tool's result; None: nobody has answered yet."""


# Status


class Waiting(_Told, frozen=True):
    what: Literal["api", "tool", "person", "hook", "background", "start", "machine"]
    detail: str = ""


class Retry(_Told, frozen=True):
    attempt: int
    max_retries: int
    delay_ms: int
    error: str
    error_status: int | None = None


class RateLimit(_Told, frozen=True):
    at: int
    info: JsonObject


class ContextUsed(_Told, frozen=True):
    tokens: int
    window: int | None = None
    percent: float | None = None


class Tokens(_Told, frozen=True):
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


class ToolRun(_Told, frozen=True):
    id: str
    name: str
    state: Literal["running", "completed", "failed", "denied"]
    detail: str = ""
    since: int = 0
    agent: str | None = None


class Subagent(_Told, frozen=True):
    id: str
    kind: str
    description: str
    since: int = 0


class Queued(_Told, frozen=True):
    prompt_id: str
    text: str
    said_at: int
    sent: bool
    """False: no CLI has it; the next start of one sends it first."""


class Status(_Told, frozen=True):
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
    """Why it is in `error` or was interrupted."""
    label: str | None = None
    title: str | None = None
    model: str | None = None
    mode: str | None = None
    pid: int | None = None
    cli_version: str | None = None
    simulated: bool = False
    machine: str | None = None
    """The runner its CLI is on; None: the engine's own machine."""
    via: Via = "stdio"
    waiting_on: Waiting | None = None
    retry: Retry | None = None
    rate_limit: RateLimit | None = None
    context: ContextUsed | None = None
    cost_usd: float = 0.0
    tokens: Tokens = Tokens()
    turns: int = 0
    running_tools: list[ToolRun] = field(default_factory=list[ToolRun])
    recent_tools: list[ToolRun] = field(default_factory=list[ToolRun])
    subagents: list[Subagent] = field(default_factory=list[Subagent])
    questions: list[Question] = field(default_factory=list[Question])
    """Those that take an answer, oldest first."""
    queued: list[Queued] = field(default_factory=list[Queued])
    result: str | None = None
    """The text of the last turn that ended."""
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


class Listed(_Told, frozen=True):
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
    interactive: bool = False
    foreign: bool = False
    """Its CLI is not the engine's, and asks here."""
    source: Literal["engine", "transcript"] = "engine"


class Listing(_Told, frozen=True):
    sessions: list[Listed]
    unreadable: list[str] = field(default_factory=list[str])
    """Files that could not be read, each with the reason."""
    total: int = 0


# Events


class Event(Struct, frozen=True, gc=False, omit_defaults=True):
    """One entry of the journal."""

    seq: int
    session_id: str
    kind: str
    """`cli`, `partial`, `noise`, or a record of the engine's: see `entries`."""
    at: int
    body: Raw
    raw: bytes | None = None
    """The line of the CLI's byte for byte, where it is one that not every reader of JSON takes and
    `body` is what every reader does; in base64."""


class Gap(_Told, frozen=True):
    """Events that were there and are no more: `count` of them between the two cursors.

    After `damage` nobody knows how many: it is 0. So it is after `reset`: the cursor was of another
    journal, or of this one before a backup was put back, and `first` is where this one goes on.
    """

    first: int
    last: int
    count: int
    reason: Literal["partials", "retention", "damage", "reset"]


class Batch(_Told, frozen=True):
    """Events in order, and where to go on."""

    events: Sequence[Event]
    cursor: int
    gaps: list[Gap] = field(default_factory=list[Gap])


# Policy, cost, health


class PolicyReport(_Told, frozen=True):
    path: str | None
    rules: int
    error: str | None = None
    """What is wrong with the file as it is now; the last good one stays in force."""
    loaded_at: int | None = None
    text: str = ""


class DryRunLine(_Told, frozen=True):
    question_id: str
    session_id: str
    tool_name: str
    title: str
    before: str
    after: str
    before_rule: str | None = None
    after_rule: str | None = None


class DryRun(_Told, frozen=True):
    examined: int
    differ: list[DryRunLine] = field(default_factory=list[DryRunLine])
    older: int = 0
    """How many more differ: those that were asked before the first of these."""


class CostLine(_Told, frozen=True):
    group: str
    usd: float
    turns: int
    tokens: Tokens


class CostReport(_Told, frozen=True):
    by: Literal["turn", "session", "project", "day"]
    lines: list[CostLine]
    total_usd: float
    today_usd: float
    day_cap_usd: float | None = None
    older: int = 0
    """How many lines there are before the first of these."""


class Health(_Told, frozen=True):
    ok: bool
    version: str
    live: int
    sessions: int
    questions: int
    cursor: int
    simulated: bool
    started_at: int
    problem: str | None = None
    lack: str | None = None
    """Why sessions run on the simulator although nobody wanted that: no CLI, or not signed in."""
    states: dict[str, int] = field(default_factory=dict[str, int])
    """How many of the sessions are in each state."""


# The engine


class Engine(Protocol):
    """Owns sessions and their journal."""

    async def start(self, request: Start) -> Started: ...
    async def say(self, session_id: str, request: Say) -> Said: ...
    async def cancel(self, session_id: str, prompt_id: str) -> Cancelled: ...
    async def answer(self, question_id: str, answer: Answer, *, by: str = "person") -> Answered: ...
    async def ask(self, request: Ask) -> Asked: ...
    async def withdraw(self, question_id: str, because: str) -> Question: ...
    async def interrupt(self, session_id: str) -> Interrupted: ...
    async def stop(self, session_id: str) -> Stopped: ...
    async def stop_all(self) -> AllStopped: ...
    async def fork(self, session_id: str, request: Fork) -> Started: ...
    async def rewind(
        self, session_id: str, prompt_id: str, *, preview: bool = False
    ) -> Rewound: ...
    async def compact(self, session_id: str, instructions: str | None = None) -> Said: ...

    async def set_mode(self, session_id: str, mode: PermissionMode) -> ModeSet: ...
    async def set_model(self, session_id: str, model: str | None) -> Status: ...
    async def set_thinking(self, session_id: str, tokens: int | None) -> Status: ...

    async def mcp_status(self, session_id: str) -> list[JsonObject]: ...
    async def mcp_reconnect(self, session_id: str, server: str) -> list[JsonObject]: ...
    async def mcp_toggle(
        self, session_id: str, server: str, *, enabled: bool
    ) -> list[JsonObject]: ...
    async def mcp_set(self, session_id: str, servers: dict[str, JsonObject]) -> JsonObject: ...
    async def context_usage(self, session_id: str) -> JsonObject: ...
    async def commands(self, session_id: str) -> list[JsonObject]: ...
    async def models(self, session_id: str) -> list[JsonObject]: ...
    async def control(self, session_id: str, subtype: str, fields: JsonObject) -> JsonObject: ...

    async def status(
        self, session_id: str, *, output_lines: int = 0, after: int | None = None
    ) -> Status: ...
    async def list(
        self, *, cwd: str | None = None, limit: int = 50, offset: int = 0, live: bool = False
    ) -> Listing: ...
    async def questions(
        self,
        *,
        session_id: str | None = None,
        state: QuestionFilter = "decidable",
        limit: int = 500,
        before: str | None = None,
    ) -> Sequence[Question]: ...
    async def question(self, question_id: str) -> Question: ...

    async def read(
        self, after: int = 0, *, session_id: str | None = None, limit: int = 500
    ) -> Batch: ...
    def watch(
        self, after: int | None = None, *, session_id: str | None = None
    ) -> AsyncGenerator[Batch]: ...

    async def policy(self) -> PolicyReport: ...
    async def policy_dry_run(self, text: str) -> DryRun: ...
    async def cost(
        self,
        by: Literal["turn", "session", "project", "day"] = "session",
        *,
        session_id: str | None = None,
        since: int | None = None,
        limit: int = 1000,
        before: str | None = None,
    ) -> CostReport: ...
    async def runners(self) -> list[Runner]: ...
    async def add_runner(self, name: str) -> RunnerAdded: ...
    async def drain_runner(self, name: str, *, draining: bool = True) -> Runner: ...
    async def revoke_runner(self, name: str) -> Runner: ...

    async def settings(self) -> JsonObject: ...
    async def health(self) -> Health: ...
    async def aclose(self) -> None: ...
