"""Where words stand in an item, with a piece of the text around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from msgspec import Struct

from pilothouse.api.items import (
    CompactionItem,
    FilesItem,
    GapItem,
    Hit,
    HookItem,
    Item,
    NoticeItem,
    PromptItem,
    QuestionItem,
    RetryItem,
    SignInItem,
    TaskRun,
    TextItem,
    ThinkingItem,
    ToolItem,
    TurnItem,
)
from pilothouse.api.questions import Question

__all__ = ["find_words"]

BEFORE: Final = 40
AFTER: Final = 120
"""Characters of the piece before and behind where the words begin."""
DEEPEST: Final = 20

_READ: Final[dict[type[Any], tuple[str, ...]]] = {
    CompactionItem: ("summary", "error"),
    FilesItem: ("files", "failed"),
    GapItem: ("reason",),
    HookItem: ("name", "event", "output"),
    NoticeItem: ("text",),
    PromptItem: ("text",),
    Question: ("title",),
    QuestionItem: ("question",),
    RetryItem: ("error",),
    SignInItem: ("output", "error"),
    TaskRun: ("description", "summary"),
    TextItem: ("text",),
    ThinkingItem: ("text",),
    ToolItem: ("tool", "input", "view", "result", "reason", "task"),
    TurnItem: ("reason", "error"),
}
"""What is read of each; of other structs all members, of other items nothing."""


def find_words(item: Item, wanted: str) -> Hit | None:
    """The first place in an item that has these words, which are given in folded case."""
    for text in _texts(item, 0):
        # Not by an expression: the time of that is the product of both lengths.
        at = text.casefold().find(wanted)
        if at >= 0:
            return Hit(
                id=item.id,
                kind=str(item.__struct_config__.tag),
                text=_piece(text, at),
                at=item.at,
                agent=item.agent,
            )
    return None


def _piece(text: str, at: int) -> str:
    first, end = max(at - BEFORE, 0), at + AFTER
    words = " ".join(text[first:end].split())
    return f"{'…' if first else ''}{words}{'…' if end < len(text) else ''}"


def _texts(value: object, depth: int) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Struct():
            for name in _READ.get(type(value), value.__struct_fields__):
                yield from _texts(getattr(value, name), depth + 1)
        case dict() if depth < DEEPEST:
            for each in cast("dict[str, object]", value).values():
                yield from _texts(each, depth + 1)
        case list() | tuple() if depth < DEEPEST:
            for each in cast("list[object]", value):
                yield from _texts(each, depth + 1)
        case _:
            pass
