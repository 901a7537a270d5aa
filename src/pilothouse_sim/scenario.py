"""What the model says, as data: steps, replies, and the rules for who gets which reply.

A scenario says nothing about HTTP or the CLI's wire, so that the same file can feed the scripted
model behind a real CLI and anything else that needs a model's part played.

    Scenario(
        replies=[
            reply("Let me look.", tool("Bash", command="touch x")),
            reply("Done."),
        ]
    )

Texts and the inputs of tools may hold `{{cwd}}`, `{{home}}`, `{{config_dir}}` and `{{plan_file}}`:
paths that only the asking side knows, filled in when the reply is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "AnyReply",
    "ApiError",
    "Branch",
    "Broken",
    "Computed",
    "Gate",
    "ModelRequest",
    "Pause",
    "Raw",
    "Reply",
    "Scenario",
    "ScenarioError",
    "Script",
    "Step",
    "Text",
    "Thinking",
    "ToolCall",
    "Usage",
    "When",
    "computed",
    "gate",
    "load",
    "reply",
    "save",
    "text",
    "thinking",
    "tool",
]


class ScenarioError(ValueError):
    """A file that is no scenario; the text says which file, what is wrong, and where."""


class Text(
    msgspec.Struct,
    frozen=True,
    tag="text",
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """Words of the model, in deltas of `chunk` characters (0: one delta) or as `chunks` says."""

    text: str = ""
    chunk: int = 0
    chunks: tuple[str, ...] = ()
    delay: float = 0.0
    """Seconds between two deltas."""

    def pieces(self) -> tuple[str, ...]:
        """The deltas, in order."""
        return self.chunks or _cut(self.text, self.chunk)


class Thinking(
    msgspec.Struct,
    frozen=True,
    tag="thinking",
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """A thinking block. The CLI sends the signature back unread, so any will do."""

    thinking: str
    signature: str = "c2lnbmF0dXJl"
    chunk: int = 0

    def pieces(self) -> tuple[str, ...]:
        """The deltas, in order."""
        return _cut(self.thinking, self.chunk)


class ToolCall(
    msgspec.Struct,
    frozen=True,
    tag="tool",
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """A call of a tool; its id is made up when the scenario gives none."""

    name: str
    input: dict[str, Any] = {}
    id: str | None = None
    chunk: int = 0

    def pieces(self) -> tuple[str, ...]:
        """The deltas of the input's JSON, in order."""
        return _cut(msgspec.json.encode(self.input).decode(), self.chunk)


class Gate(msgspec.Struct, frozen=True, tag="gate", forbid_unknown_fields=True):
    """The model falls silent here until somebody opens the gate of this name."""

    name: str


class Pause(msgspec.Struct, frozen=True, tag="pause", forbid_unknown_fields=True):
    """The model falls silent for a while. For demonstrations; tests use gates."""

    seconds: float


class Raw(msgspec.Struct, frozen=True, tag="raw", forbid_unknown_fields=True):
    """One event of the model's stream, passed on as it is."""

    event: dict[str, Any]


Step = Text | Thinking | ToolCall | Gate | Pause | Raw


class Usage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tokens a reply claims to have cost."""

    input_tokens: int = 100
    output_tokens: int = 5
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0


class Reply(
    msgspec.Struct,
    frozen=True,
    tag="reply",
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """One message of the model."""

    steps: tuple[Step, ...] = ()
    stop_reason: str | None = None
    """Follows from the steps when it is not given."""
    usage: Usage = Usage()

    @property
    def stopped_by(self) -> str:
        """Why the message ends."""
        calls = any(isinstance(step, ToolCall) for step in self.steps)
        return self.stop_reason or ("tool_use" if calls else "end_turn")


class ApiError(
    msgspec.Struct,
    frozen=True,
    tag="api_error",
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """The API refuses the call."""

    status: int
    error: str = ""
    """The error's type; the one that belongs to the status when it is not given."""
    message: str = "The scenario says no."
    headers: dict[str, str] = {}

    @property
    def error_type(self) -> str:
        """The type that stands in the error's body."""
        return self.error or _ERROR_TYPES.get(self.status, "api_error")


class Broken(
    msgspec.Struct,
    frozen=True,
    tag="broken",
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """A reply whose stream goes wrong after some events."""

    reply: Reply
    after: int
    how: Literal["cut", "malformed", "stall"] = "cut"
    """cut: the connection ends. malformed: one event is no JSON, then it goes on.
    stall: silence until the gate opens, then it goes on."""
    gate: str = "stall"


class Computed(msgspec.Struct, frozen=True, tag="computed"):
    """A reply that depends on what the model was asked. Python only: it cannot be loaded."""

    answer: Callable[..., Any]

    def resolve(self, request: ModelRequest) -> AnyReply:
        """The reply to this request."""
        return cast("AnyReply", self.answer(request))


AnyReply = Reply | ApiError | Broken | Computed


class When(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A rule about one request; every condition that is given must hold."""

    prompt_contains: str | None = None
    """Somewhere in the texts of the conversation's first user message."""
    last_contains: str | None = None
    """Somewhere in the texts or tool results of the last user message."""
    system_contains: str | None = None
    has_tool: str | None = None
    lacks_tool: str | None = None
    model_contains: str | None = None

    def holds(self, request: ModelRequest) -> bool:
        """Whether the rule speaks of this request."""
        return (
            _within(self.prompt_contains, request.prompt)
            and _within(self.last_contains, request.last)
            and _within(self.system_contains, request.system)
            and _within(self.model_contains, request.model)
            and (self.has_tool is None or self.has_tool in request.tools)
            and (self.lacks_tool is None or self.lacks_tool not in request.tools)
        )


class Branch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Replies of their own for the requests a rule picks, such as a sub-agent's conversation."""

    when: When
    replies: tuple[AnyReply, ...]


class Scenario(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The model's part in one session."""

    name: str = ""
    replies: list[AnyReply] = []
    branches: list[Branch] = []


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the model is asked, reduced to what rules and computed replies look at."""

    model: str = ""
    system: str = ""
    prompt: str = ""
    last: str = ""
    tools: tuple[str, ...] = ()
    max_tokens: int = 0
    stream: bool = False
    body: dict[str, Any] = {}
    facts: dict[str, str] = {}
    """What placeholders stand for; one without a fact stays as it is."""

    @classmethod
    def parse(cls, body: dict[str, Any]) -> ModelRequest:
        """Read the body of a Messages API call."""
        messages = cast("list[dict[str, Any]]", body.get("messages") or [])
        users = [message for message in messages if message.get("role") == "user"]
        return cls(
            model=str(body.get("model", "")),
            system=_texts(body.get("system")),
            prompt=_texts(users[0].get("content")) if users else "",
            last=_texts(users[-1].get("content")) if users else "",
            tools=tuple(str(entry.get("name", "")) for entry in body.get("tools") or ()),
            max_tokens=int(body.get("max_tokens", 0)),
            stream=bool(body.get("stream")),
            body=body,
            facts=_facts(body),
        )

    @property
    def is_compaction(self) -> bool:
        """Whether the CLI asks for a summary that shall replace the conversation."""
        return "create a detailed summary of" in self.last

    @property
    def is_naming(self) -> bool:
        """Whether the CLI asks for the title of a session and nothing else."""
        wanted: Any = self.body.get("output_config")
        for name in ("format", "schema", "properties"):
            wanted = cast("dict[str, Any]", wanted).get(name) if isinstance(wanted, dict) else None
        return not self.tools and isinstance(wanted, dict) and wanted.keys() == {"title"}

    @property
    def is_aside(self) -> bool:
        """Whether the CLI asks for its own purposes: a probe, a title, a classification.

        A conversation on a small model without any tool looks the same; give it a branch.
        """
        is_small = not self.tools and "haiku" in self.model
        return self.max_tokens == 1 or is_small or self.is_naming


class Script:
    """Plays one scenario: each request gets the next reply of the branch it belongs to."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.unscripted: list[ModelRequest] = []
        """Requests that came after the last reply of their branch."""
        self._main = iter(scenario.replies)
        self._branches = [(branch.when, iter(branch.replies)) for branch in scenario.branches]

    def next(self, request: ModelRequest) -> Reply | ApiError | Broken:
        """The reply to this request."""
        for when, replies in self._branches:
            if when.holds(request):
                return self._take(replies, request)
        if request.is_compaction:
            return reply("<summary>The conversation so far, in short.</summary>")
        if request.is_aside:
            return reply('{"title": "Scripted session"}')
        return self._take(self._main, request)

    def skip(self, replies: int) -> None:
        """Pass over replies that an earlier run has given."""
        for _ in zip(range(replies), self._main, strict=False):
            pass

    def _take(
        self, replies: Iterator[AnyReply], request: ModelRequest
    ) -> Reply | ApiError | Broken:
        found = next(replies, None)
        while isinstance(found, Computed):
            found = found.resolve(request)
        if found is None:
            self.unscripted.append(request)
            return reply("The scenario ends here.")
        return _resolved(found, request.facts)


def text(words: str, /, *, chunk: int = 0, delay: float = 0.0) -> Text:
    """Words of the model."""
    return Text(text=words, chunk=chunk, delay=delay)


def thinking(thought: str, /, *, chunk: int = 0) -> Thinking:
    """A thought of the model."""
    return Thinking(thinking=thought, chunk=chunk)


def tool(name: str, /, **arguments: Any) -> ToolCall:
    """A call of a tool; `ToolCall` itself takes an id as well."""
    return ToolCall(name=name, input=arguments)


def gate(name: str, /) -> Gate:
    """A place where the model waits to be released."""
    return Gate(name)


def reply(*steps: Step | str, stop_reason: str | None = None, usage: Usage | None = None) -> Reply:
    """One message of the model. A plain string is a text step."""
    parts = tuple(text(step) if isinstance(step, str) else step for step in steps)
    return Reply(steps=parts, stop_reason=stop_reason, usage=usage or Usage())


def computed(answer: Callable[[ModelRequest], AnyReply], /) -> Computed:
    """A reply made from the request it answers."""
    return Computed(answer)


def load(path: Path) -> Scenario:
    """Read a scenario from a JSON file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Scenario)
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from error
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        at = where.strip("`").removeprefix("$").removeprefix(".") or "the top"
        raise ScenarioError(f"{path}: not a scenario: {what} (at {at})") from error
    except msgspec.DecodeError as error:
        raise ScenarioError(f"{path}: not JSON: {error}") from error


def save(scenario: Scenario, path: Path) -> None:
    """Write a scenario to a JSON file; computed replies cannot be written."""
    if any(isinstance(entry, Computed) for entry in _all_replies(scenario)):
        raise ScenarioError(f"{path}: a computed reply is code, and cannot be written to a file")
    path.write_bytes(msgspec.json.encode(scenario))


_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


# Where a real CLI tells the model of its folders.
_FACTS = {
    "cwd": re.compile(r"working directory: (/[^\s\"'`\\]+)"),
    "plan_file": re.compile(r"(/[^\s\"'`\\]*/plans/[^\s\"'`\\/]+\.md)"),
    "config_dir": re.compile(r"(/[^\s\"'`\\]*)/(?:plans|projects/[^\s\"'`\\/]+/memory)/"),
}
_PLACEHOLDER = re.compile(r"\{\{(cwd|home|config_dir|plan_file)\}\}")


def _facts(body: dict[str, Any]) -> dict[str, str]:
    messages = cast("list[dict[str, Any]]", body.get("messages") or [])
    told = "\n".join(_texts(each) for each in (body.get("system"), messages))
    found = {name: pattern.search(told) for name, pattern in _FACTS.items()}
    facts = {name: match[1] for name, match in found.items() if match}
    config_dir = facts.get("config_dir", "")
    if config_dir.endswith("/.claude"):
        facts["home"] = config_dir.removesuffix("/.claude")
    return facts


def _resolved(found: Reply | ApiError | Broken, facts: dict[str, str]) -> Reply | ApiError | Broken:
    match found:
        case Reply():
            steps = tuple(_resolved_step(step, facts) for step in found.steps)
            return msgspec.structs.replace(found, steps=steps)
        case Broken():
            return msgspec.structs.replace(found, reply=_resolved(found.reply, facts))
        case ApiError():
            return found


def _resolved_step(step: Step, facts: dict[str, str]) -> Step:
    match step:
        case Text():
            chunks = tuple(_filled(piece, facts) for piece in step.chunks)
            return msgspec.structs.replace(step, text=_filled(step.text, facts), chunks=chunks)
        case ToolCall():
            return msgspec.structs.replace(step, input=_filled(step.input, facts))
        case _:
            return step


def _filled(value: Any, facts: dict[str, str]) -> Any:
    match value:
        case str():
            return _PLACEHOLDER.sub(lambda found: facts.get(found[1], found[0]), value)
        case dict():
            members = cast("dict[str, Any]", value)
            return {key: _filled(member, facts) for key, member in members.items()}
        case list() | tuple():
            return [_filled(member, facts) for member in cast("list[Any]", value)]
        case _:
            return value


def _all_replies(scenario: Scenario) -> list[AnyReply]:
    return [*scenario.replies, *(entry for one in scenario.branches for entry in one.replies)]


def _cut(words: str, size: int) -> tuple[str, ...]:
    step = size if size > 0 else max(len(words), 1)
    return tuple(words[at : at + step] for at in range(0, len(words), step))


def _within(needle: str | None, hay: str) -> bool:
    return needle is None or needle in hay


def _texts(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    entries = cast("list[Any]", content)
    blocks = [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)]
    return "\n".join(_texts(block.get("text", block.get("content"))) for block in blocks)
