"""What a person reads of a session, item by item.

    PromptItem       what was said to the session, and whether a turn has it
    TextItem         what the model says
    ThinkingItem     what it thinks
    ToolItem         a tool call: input, progress, result, and the task that it started
    QuestionItem     what a person was asked, and who or which rule answered
    TurnItem         how a turn ended and what it cost
    CompactionItem   the conversation was summarised
    RetryItem        the API failed and is asked again
    LimitItem        a rate limit, and when it resets
    SignInItem       trouble with signing in
    HookItem         a hook of the user's ran
    FilesItem        files were stored
    NoticeItem       anything else worth a line
    GapItem          lines that nobody has any more

An item has the same id in a live session, after a restart and in Claude's own transcript: ids are
made of the CLI's own ids. Texts are bounded; `cut` says how many characters were left out, and the
entry `seq` has them all.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Raw, Struct, field

from .events import Event
from .questions import Question
from .statuses import Tokens
from .tool_views import ToolView
from .values import JsonObject, ResultData

__all__ = [
    "CompactionItem",
    "ConversationPage",
    "ConversationPatches",
    "FilesItem",
    "GapItem",
    "Hit",
    "HookItem",
    "Item",
    "ItemSource",
    "LimitItem",
    "ModelShare",
    "NoticeItem",
    "Patch",
    "PromptItem",
    "QuestionItem",
    "RetryItem",
    "SignInItem",
    "TaskRun",
    "TextItem",
    "ThinkingItem",
    "ToolItem",
    "TurnItem",
]


class _Item(Struct, kw_only=True, omit_defaults=True, tag_field="kind"):
    id: str
    seq: int
    """The entry of the journal that has it; below 0, the line of Claude's own transcript."""
    at: int = 0
    """Milliseconds since the epoch; 0 where nobody wrote it down."""
    agent: str | None = None
    """The tool call whose subagent it belongs to; None: the session's own."""


class PromptItem(_Item, tag="prompt"):
    """Something that was said to the session."""

    text: str = ""
    images: int = 0
    state: Literal["queued", "sent", "taken", "withdrawn"] = "taken"
    by: str = "person"
    """`person`, `engine` for the statement of a decision, or `cli` for the CLI's own message."""
    priority: str | None = None
    because: str | None = None
    """Why it was withdrawn, where nobody asked for that."""
    cut: int = 0


class TextItem(_Item, tag="text"):
    """Text of the model's; Markdown."""

    text: str = ""
    state: Literal["streaming", "done", "aborted", "retracted"] = "done"
    model: str | None = None
    error: str | None = None
    """The class of an API error, where this is what the CLI says of it."""


class ThinkingItem(_Item, tag="thinking"):
    """What the model thinks; empty where only the API can read it."""

    text: str = ""
    state: Literal["streaming", "done", "aborted", "retracted"] = "done"
    duration_ms: int | None = None


class TaskRun(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The work that a tool call started: a subagent, or a command in the background."""

    id: str
    type: str = ""
    """The subagent's type, or the CLI's name for another kind of task."""
    description: str = ""
    state: str = "running"
    """`running`, or as the CLI says: `completed`, `failed`, `stopped`, `killed`."""
    background: bool = False
    last_tool: str | None = None
    tool_uses: int = 0
    tokens: int = 0
    duration_ms: int = 0
    summary: str | None = None


class ToolItem(_Item, tag="tool"):
    """A call of a tool."""

    tool: str
    input: JsonObject = field(default_factory=dict)
    state: Literal[
        "writing", "running", "asking", "done", "failed", "denied", "interrupted", "retracted"
    ] = "running"
    """`writing`: the model is still writing the input."""
    written: int = 0
    """Characters of the input so far, while it is being written."""
    elapsed_s: float = 0.0
    result: str | None = None
    """What the model is told of it."""
    result_seq: int | None = None
    """The entry that has all of the result."""
    cut: int = 0
    """Characters of the result that were left out."""
    images: int = 0
    """How many the result has; the entry has them."""
    ended_at: int | None = None
    reason: str | None = None
    """Why it was denied, where the CLI or an answer says so."""
    question: str | None = None
    """The id of the question that was asked about it."""
    task: TaskRun | None = None
    view: ToolView | None = None


class QuestionItem(_Item, tag="question"):
    """What a person was asked. `answered_by` and `rule` of the question say who decided."""

    question: Question


class ModelShare(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one model did in a turn."""

    cost_usd: float = 0.0
    tokens: Tokens = Tokens()


class TurnItem(_Item, tag="turn"):
    """How a turn ended."""

    outcome: Literal["finished", "interrupted", "failed", "cancelled"] = "finished"
    reason: str = ""
    error: str | None = None
    cost_usd: float = 0.0
    tokens: Tokens = Tokens()
    models: dict[str, ModelShare] = field(default_factory=dict)
    duration_ms: int = 0
    api_ms: int = 0
    steps: int = 0
    """How often the model was asked."""
    denials: list[str] = field(default_factory=list)
    """The tool calls that were denied."""
    structured_output: Any = None


class CompactionItem(_Item, tag="compaction"):
    """The conversation before this is a summary from here on."""

    state: Literal["running", "done", "failed"] = "done"
    trigger: str = ""
    tokens_before: int | None = None
    tokens_after: int | None = None
    duration_ms: int | None = None
    error: str | None = None
    summary: str | None = None
    cut: int = 0


class RetryItem(_Item, tag="retry"):
    """Calls of the API that failed, and are tried again."""

    state: Literal["waiting", "over"] = "waiting"
    attempt: int = 0
    max_retries: int = 0
    delay_ms: int = 0
    error: str = ""
    status: int | None = None
    """The HTTP status; None where there was no answer."""


class LimitItem(_Item, tag="limit"):
    """A rate limit of the account."""

    status: str = ""
    limit: str | None = None
    resets_at: int | None = None
    """Milliseconds since the epoch."""
    utilization: float | None = None


class SignInItem(_Item, tag="sign_in"):
    """The CLI signs in, or cannot."""

    state: Literal["running", "done", "failed"] = "running"
    output: list[str] = field(default_factory=list)
    error: str | None = None


class HookItem(_Item, tag="hook"):
    """A hook of the user's settings."""

    name: str = ""
    event: str = ""
    state: Literal["running", "done"] = "running"
    outcome: str = ""
    exit_code: int | None = None
    output: str = ""
    cut: int = 0


class FilesItem(_Item, tag="files"):
    """Files that were stored, or could not be."""

    files: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


class NoticeItem(_Item, tag="notice"):
    """A line worth reading."""

    level: Literal["info", "warning", "error", "output", "unknown"] = "info"
    """`output`: what a command of the CLI's own printed. `unknown`: a message of a kind that this
    version does not know; the entry has it."""
    text: str = ""
    tag: str = ""
    """A word for programs: what kind of notice it is."""
    cut: int = 0


class GapItem(_Item, tag="gap"):
    """Something is missing here."""

    reason: str = ""
    count: int = 0
    """How many entries; 0 where nobody knows."""


Item = (
    PromptItem
    | TextItem
    | ThinkingItem
    | ToolItem
    | QuestionItem
    | TurnItem
    | CompactionItem
    | RetryItem
    | LimitItem
    | SignInItem
    | HookItem
    | FilesItem
    | NoticeItem
    | GapItem
)


class Patch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One item's change: it is new, some of its members are others, a text grew, or it is gone."""

    id: str
    item: Item | None = None
    """All of it, where it is new to the reader."""
    set: dict[str, Any] = field(default_factory=dict)
    """The members that changed, by name."""
    append: str = ""
    """What is added to its `text`, after `set`."""
    removed: bool = False
    """It is gone; with `item`, it stands behind all others now."""


class ConversationPatches(ResultData, frozen=True, omit_defaults=True):
    """What changed of a conversation up to the cursor, in the order in which to apply it.

    Members of an item that the reader does not have are of an earlier page: it leaves them.
    """

    cursor: int
    patches: list[Patch]
    unfinished: list[str] | None = None
    """The items that are still being written, where the server does not know what the reader has:
    any other that it has as `streaming` or `writing` is gone."""


class ItemSource(ResultData, frozen=True):
    """The lines that an item was made of."""

    item: Item
    entries: list[Event] = field(default_factory=list[Event])
    """The journal's: where it began, or where it was whole, and what has its result."""
    transcript: list[Raw] = field(default_factory=list[Raw])
    """Those of Claude's own transcript, of what was said before the session was the engine's."""


class Hit(ResultData, frozen=True, omit_defaults=True):
    """An item that has the words of a search."""

    id: str
    kind: str
    text: str
    """A piece of it, around the first place."""
    at: int = 0
    agent: str | None = None


class ConversationPage(ResultData, frozen=True):
    """Items in order, as they are at the cursor. A search has hits instead, the newest first."""

    items: list[Item]
    cursor: int
    hits: list[Hit] = field(default_factory=list[Hit])
    earlier: bool = False
    """There are items before these: ask for those `before` the id of the first."""
    later: bool = False
    """There are items behind these: ask for those `after` the id of the last."""
