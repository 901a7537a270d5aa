"""What stands in the journal: the CLI's own lines, and the engine's records between them.

    cli                 a line of the CLI's, byte for byte
    partial             such a line that is a piece of a message; not kept beyond its turn
    noise               a line of the CLI's that is no message, as a JSON string
    session.started     SessionStarted
    session.stopped     SessionStopped
    session.linked      SessionLinked
    options.changed     OptionsChanged
    prompt.said         PromptSaid
    prompt.sent         PromptSent
    prompt.withdrawn    PromptWithdrawn
    interrupt.asked     InterruptAsked
    cli.started         CLIStarted
    cli.ended           CLIEnded
    question.opened     QuestionOpened
    question.closed     QuestionClosed
    question.decided    QuestionDecided
    turn.ended          TurnEnded
    rules.kept          RulesKept
    lines.lost          LinesLost
    session.archived    SessionArchived

Everything the engine knows about a session follows from these alone.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field

from pilothouse.protocol.permissions import PermissionMode
from pilothouse.protocol.strict import clean, is_strict, strict
from pilothouse.protocol.wire import as_object, encode_json, parse

from .answers import Answer
from .questions import Question
from .requests import Caps, SessionOptions
from .statuses import ModelSpent, Tokens
from .values import Content, Reached

__all__ = [
    "CLI",
    "KINDS",
    "NOISE",
    "PARTIAL",
    "AnyRecord",
    "CLIEnded",
    "CLIStarted",
    "InterruptAsked",
    "LinesLost",
    "OptionsChanged",
    "PromptSaid",
    "PromptSent",
    "PromptWithdrawn",
    "QuestionClosed",
    "QuestionDecided",
    "QuestionOpened",
    "Record",
    "RulesKept",
    "SessionArchived",
    "SessionLinked",
    "SessionStarted",
    "SessionStopped",
    "TurnEnded",
    "Unreadable",
    "decode_record",
    "encode_record",
    "kind_of",
    "storable",
]

CLI: Final = "cli"
PARTIAL: Final = "partial"
NOISE: Final = "noise"


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="record"):
    """One of the engine's own records. An older engine reads past members it does not know."""


class SessionStarted(Record, frozen=True, tag="session.started"):
    """The session exists from here on, for this engine."""

    cwd: str
    options: SessionOptions = SessionOptions()
    label: str | None = None
    caps: Caps = Caps()
    origin: Literal["start", "fork", "plan", "adopted", "foreign"] = "start"
    parent: str | None = None
    fork_from: str | None = None
    """The conversation of the parent that it begins with."""
    fork_at: str | None = None
    title: str | None = None
    claude_session_id: str | None = None
    """The conversation to resume, of a session that was made elsewhere."""
    simulated: bool = False
    scratch: str | None = None
    """The folder that its CLI works in, in place of `cwd`."""


class SessionStopped(Record, frozen=True, tag="session.stopped"):
    """A caller ended its CLI on purpose."""


class SessionLinked(Record, frozen=True, tag="session.linked"):
    """Another session goes on with what this one planned."""

    successor: str


class SessionArchived(Record, frozen=True, tag="session.archived"):
    """A person has put it into the archive, or taken it out."""

    archived: bool = True


class OptionsChanged(Record, frozen=True, tag="options.changed"):
    """What the next start of a CLI will be given."""

    options: SessionOptions
    mode: PermissionMode | None = None
    """The mode it was switched to, if it was: perhaps back to the one in the options."""


class PromptSaid(Record, frozen=True, tag="prompt.said"):
    """A message was accepted. Its id is the uuid the CLI will know it by."""

    id: str
    content: Content
    priority: str | None = None
    by: str = "person"
    """`person`, or `engine` for a message that states a decision or starts a plan."""


class PromptSent(Record, frozen=True, tag="prompt.sent"):
    """It was written to the CLI that is alive now."""

    id: str


class PromptWithdrawn(Record, frozen=True, tag="prompt.withdrawn"):
    """It was taken back before any turn took it."""

    id: str
    because: str | None = None
    """Why, where it was the engine that took it back."""


class InterruptAsked(Record, frozen=True, tag="interrupt.asked"):
    """A caller asked for the running turn to be stopped."""


class CLIStarted(Record, frozen=True, tag="cli.started"):
    """A CLI is alive for this session."""

    pid: int | None = None
    version: str | None = None
    resumed: bool = False
    simulated: bool = False
    run: str = ""
    """Names this life of it to whoever carries its lines; empty: it is a child of the engine."""
    via: Reached = "stdio"
    machine: str = ""
    """The runner that looks after it; empty: the engine's own machine."""


class CLIEnded(Record, frozen=True, tag="cli.ended"):
    """It is gone. `orderly`: we closed it, or it came to its own end."""

    orderly: bool
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None


class QuestionOpened(Record, frozen=True, tag="question.opened"):
    """A question as it was asked; for `plan` the text of that moment."""

    question: Question


class QuestionClosed(Record, frozen=True, tag="question.closed"):
    """No longer open. The first of these for a question is the one that counts."""

    id: str
    state: Literal["answered", "withdrawn", "expired"]
    answer: Answer | None = None
    by: str | None = None
    rule: str | None = None
    because: str | None = None
    decidable: bool = False
    """Withdrawn because its CLI died: a decision may still be told to the session."""


class QuestionDecided(Record, frozen=True, tag="question.decided"):
    """What was decided about a question whose CLI had died before."""

    id: str
    answer: Answer
    by: str = "person"
    prompt_id: str | None = None
    """The message that states the decision."""


class TurnEnded(Record, frozen=True, tag="turn.ended"):
    """What a turn came to. The CLI's totals are sums; these are this turn's own."""

    outcome: Literal["finished", "interrupted", "failed", "cancelled"]
    reason: str
    cost_usd: float = 0.0
    tokens: Tokens = Tokens()
    prompts: list[str] = field(default_factory=list[str])
    text: str = ""
    models: dict[str, ModelSpent] = field(default_factory=dict[str, ModelSpent])
    structured_output: Any = None
    duration_ms: int = 0


class RulesKept(Record, frozen=True, tag="rules.kept"):
    """What is allowed, denied and asked for the whole session. A CLI forgets it when it ends."""

    rules: list[str]
    """As the CLI's settings have them: `Bash(make test)`."""
    deny: list[str] = field(default_factory=list[str])
    ask: list[str] = field(default_factory=list[str])
    directories: list[str] = field(default_factory=list[str])
    """Where it may work beside its own directory."""
    is_whole: bool = False
    """This is all that is kept; otherwise it is added to what was."""


class LinesLost(Record, frozen=True, tag="lines.lost"):
    """Lines of the CLI's were lost on their way, and nobody can bring them back."""

    because: str


class Unreadable(Struct, frozen=True):
    """In the place of a record that cannot be understood: it is set aside, and nothing else."""

    why: str


AnyRecord = (
    SessionStarted
    | SessionStopped
    | SessionLinked
    | OptionsChanged
    | PromptSaid
    | PromptSent
    | PromptWithdrawn
    | InterruptAsked
    | CLIStarted
    | CLIEnded
    | QuestionOpened
    | QuestionClosed
    | QuestionDecided
    | TurnEnded
    | RulesKept
    | LinesLost
    | SessionArchived
)

_RECORDS: Final[dict[str, type[Record]]] = {
    str(each.__struct_config__.tag): each for each in AnyRecord.__args__
}

KINDS: Final = (CLI, PARTIAL, NOISE, *_RECORDS)
"""Every kind there is."""

_decoder: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)


def kind_of(record: Record) -> str:
    """The kind of the entry that a record becomes."""
    return str(record.__struct_config__.tag)


def encode_record(record: Record) -> tuple[str, bytes]:
    """The kind and the body of an entry."""
    return kind_of(record), encode_json(record)


def storable(record: AnyRecord) -> tuple[AnyRecord, bytes]:
    """The record and its body, without what no reader would take: a CLI's words are in it."""
    _, body = encode_record(record)
    if is_strict(body):
        return record, body
    body = strict(body)
    again = decode_record(body)
    return (record if isinstance(again, Unreadable) else again), body


def decode_record(body: Any) -> AnyRecord | Unreadable:
    """The record in the body of an entry whose kind is none of the CLI's."""
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _salvage(as_object(clean(parse(body))))


def _salvage(given: dict[str, Any]) -> AnyRecord | Unreadable:
    """As much of a record as can be read: a member that does not fit keeps its default."""
    kind = _RECORDS.get(str(given.get("record")))
    if kind is None:
        return Unreadable("no record of this version")
    types = {each.encode_name: each.type for each in msgspec.structs.fields(kind)}
    misfits = {name for name, value in given.items() if not _fits(value, types.get(name, Any))}
    try:
        return msgspec.convert({k: v for k, v in given.items() if k not in misfits}, AnyRecord)
    except msgspec.ValidationError as error:
        return Unreadable(str(error))


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True
