"""What a caller gives to an engine."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct, field

from pilothouse.errors import UsageError
from pilothouse.protocol.permissions import PermissionMode

from .values import ID, Content, JsonObject, RequestData, Via, Word

__all__ = [
    "LONGEST_WAIT",
    "AddRunner",
    "Ask",
    "Caps",
    "Compact",
    "ControlCall",
    "DialIn",
    "Dollars",
    "DryRunText",
    "Enable",
    "Fork",
    "McpMessage",
    "Members",
    "ModeChange",
    "ModelChange",
    "Rewind",
    "RunnerDrain",
    "Say",
    "Servers",
    "SessionOptions",
    "Start",
    "ThinkingChange",
    "Withdraw",
]

LONGEST_WAIT: Final = 60
"""Seconds that one `ask` waits at most."""
LONGEST_EXPECTED: Final = 86_400
"""Seconds that a CLI is waited for at most."""
Dollars = Annotated[float, Meta(gt=0)]


class Caps(RequestData, frozen=True):
    """Where spending stops: before the next turn once the sum is reached."""

    session_usd: Dollars | None = None

    def __post_init__(self) -> None:
        # One that was made here must be readable where it is read again.
        if self.session_usd is not None and not self.session_usd > 0:
            raise UsageError("caps.session_usd is above 0; leave it out for no limit")


class SessionOptions(RequestData, frozen=True):
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
    permission_timeout_ms: Annotated[int, Meta(ge=0, le=2**48)] | None = None
    """How long its questions stay open before they expire, 0 for ever; the engine's own setting if
    left out."""
    env: dict[str, str] = field(default_factory=dict[str, str])
    persist_session: bool = True
    """False: the CLI writes no transcript, and nothing goes on with the session once it ends."""
    machine: Word | None = None
    """The runner to start it on; the engine's own machine if left out."""
    via: Via | None = None
    """How it is reached; the engine's own choice if left out."""
    simulate_in_cwd: bool = False
    """On the simulator: work in `cwd` itself, and not in a folder that stands for it."""
    flags: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    """Some flags of the CLI that have no name here: without dashes -> value, null for a switch."""


class Start(RequestData, frozen=True):
    """A new session with its first prompt."""

    prompt: Content
    cwd: str
    options: SessionOptions = SessionOptions()
    label: Word | None = None
    """A word of the caller's own, for lists and for the policy."""
    caps: Caps = Caps()
    continue_latest: bool = False
    """Go on with the session that was last used in `cwd`, as the CLI does with `--continue`. It has
    options, a label and caps of its own: of these, `options.mode` alone may be given."""
    key: Word | None = None
    """An idempotency key: the same key with the same request starts one session."""


class Say(RequestData, frozen=True):
    """A message to a session, also to one that is at rest or was made elsewhere."""

    content: Content
    mode: PermissionMode | None = None
    """Switch to this mode first."""
    priority: Literal["now", "next", "later"] | None = None
    key: Word | None = None


class Fork(RequestData, frozen=True):
    """A new session that begins with this one's conversation."""

    prompt: Content
    at: str | None = None
    """The uuid of the message to branch from; the end if left out."""
    options: SessionOptions | None = None
    label: Word | None = None
    key: Word | None = None


class DialIn(RequestData, frozen=True):
    """A CLI that somebody is about to start by hand, and that becomes a session once it dials."""

    cwd: str
    mode: PermissionMode | None = None
    model: str | None = None
    label: Word | None = None
    caps: Caps = Caps()
    prompt: Content | None = None
    """What to say to it as soon as it is there."""
    expires_s: Annotated[int, Meta(ge=1, le=LONGEST_EXPECTED)] = 600
    """How long to wait for it."""


class Ask(RequestData, frozen=True):
    """What a CLI asks that is not the engine's: somebody else started it, with a permission tool.

    The asker repeats the request as long as it waits. When it stops, the question is withdrawn.
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
    """How long to wait for an answer before the question is returned as it is."""


class Members(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a request carries. A name that is not known is an error, not a silence."""


class Rewind(Members, frozen=True):
    """Take the files back to where they were before this message."""

    prompt_id: Annotated[str, Meta(max_length=256)]
    preview: bool = False


class Compact(Members, frozen=True):
    """Summarise the conversation, perhaps with a word on what to keep."""

    instructions: str | None = None


class ModeChange(Members, frozen=True):
    """The permission mode to work in."""

    mode: PermissionMode


class ModelChange(Members, frozen=True):
    """The model to use; null for the CLI's default."""

    model: str | None


class ThinkingChange(Members, frozen=True):
    """How many tokens a thought may have; null for the CLI's default."""

    tokens: Annotated[int, Meta(ge=0, le=2**31)] | None


class Servers(Members, frozen=True):
    """MCP servers by name, in place of those that were set before."""

    servers: dict[str, JsonObject]


class Enable(Members, frozen=True):
    """Whether an MCP server is in use."""

    enabled: bool


class McpMessage(Members, frozen=True):
    """A message of JSON-RPC that an MCP server would have sent to the CLI, a notification say."""

    message: JsonObject


class ControlCall(Members, frozen=True):
    """A control request of the CLI's protocol that is on the list of allowed ones."""

    subtype: Annotated[str, Meta(min_length=1, max_length=128)]
    fields: JsonObject = field(default_factory=dict[str, Any])


class AddRunner(Members, frozen=True):
    """The name under which a machine is let in."""

    name: Annotated[str, Meta(max_length=256)]


class RunnerDrain(Members, frozen=True):
    """Whether a runner is to take no new sessions."""

    draining: bool = True


class Withdraw(Members, frozen=True):
    """Why an answer is no longer wanted."""

    because: Annotated[str, Meta(min_length=1, max_length=1000)]


class Archive(Members, frozen=True):
    """Whether a session is to be in the archive."""

    archived: bool = True


class PolicyText(Members, frozen=True):
    """A policy file's text, to be written."""

    text: str
    replaces: str | None = None
    """The text that it was made from. If the file has another one by now, nothing is written."""


class DryRunText(Members, frozen=True):
    """A policy file's text, to be tried on past questions."""

    text: str
