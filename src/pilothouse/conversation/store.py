"""The items of a conversation, where they stand, and what changed of them since when."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeVar

from msgspec import Struct

from pilothouse.api.items import Item, Patch, TextItem, ThinkingItem, ToolItem

__all__ = ["ItemStore"]

Kind = TypeVar("Kind", bound=Item)
Streamed = TextItem | ThinkingItem
STREAMED: Final = (TextItem, ThinkingItem)
"""What comes in pieces."""

NEAR_THE_END: Final = 1000
"""What is being written is among the last items, however many subagents write."""


class _Dates(Struct, frozen=True, gc=False):
    added: int
    changed: int


class ItemStore:
    """Items in the order in which they began. Every change is noted for the next `patches`."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._order: list[str | None] = []
        """Ids as they were added; None where one was removed."""
        self._places: dict[str, int] = {}
        self._dates: dict[str, _Dates] = {}
        """At which entry an item was new, and up to which cursor it was last other or was removed;
        what changed last stands last."""
        self._new: set[str] = set()
        self._changed: dict[str, set[str]] = {}
        self._removed: set[str] = set()
        self._gone: dict[str, int] = {}
        """Items that were removed since the last patches, sent or not, and where they began."""
        self._pieces: dict[str, list[str]] = {}
        """Text that has come since the item was last looked at."""
        self._appended: dict[str, list[str]] = {}
        """Text that has come since the last patches."""

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return self.after(None)

    def after(self, item_id: str | None) -> Iterator[Item]:
        """The items behind one, or all of them. Raises KeyError where there is none of that id."""
        first = 0 if item_id is None else self._places[item_id] + 1
        return self._found(islice(self._order, first, None))

    def before(self, item_id: str | None) -> Iterator[Item]:
        """The items before one, or all of them, from the last to the first. KeyError as above."""
        end = len(self._order) if item_id is None else self._places[item_id]
        return self._found(self._order[place] for place in range(end - 1, -1, -1))

    def _found(self, ids: Iterable[str | None]) -> Iterator[Item]:
        for item_id in ids:
            if item_id is not None:
                item = self._items[item_id]
                if item_id in self._pieces:
                    self._join_text(item)
                yield item

    def get(self, item_id: str) -> Item | None:
        return self._items.get(item_id)

    def of_kind(self, item_id: str | None, kind: type[Kind]) -> Kind | None:
        """The item, if there is one of this kind."""
        found = self._items.get(item_id or "")
        return found if isinstance(found, kind) else None

    def add(self, item: Kind, *, is_first: bool = False) -> Kind:
        """Have it behind the others, or before. One of the same id gives way: it was said again."""
        item_id = item.id
        if item_id in self._items:
            self._forget(item_id)
        if is_first:
            self._order.insert(0, item_id)
            self._places = {each: place for place, each in enumerate(self._order) if each}
        elif item_id not in self._items:
            self._places[item_id] = len(self._order)
            self._order.append(item_id)
        self._items[item_id] = item
        self._new.add(item_id)
        return item

    def change(self, item: Item, **members: Any) -> None:
        """Give members of an item other values."""
        if item.id in self._new:
            for name, value in members.items():
                setattr(item, name, value)
            return
        changed = self._changed.get(item.id)
        for name, value in members.items():
            if getattr(item, name) != value:
                setattr(item, name, value)
                if changed is None:
                    changed = self._changed[item.id] = set()
                changed.add(name)

    def mark(self, item: Item, name: str) -> None:
        """Note that a member of an item was changed."""
        item_id = item.id
        if item_id not in self._new:
            self._changed.setdefault(item_id, set()).add(name)

    def append(self, item: Streamed, text: str) -> None:
        """Add to the text of an item. What has come is joined when somebody looks."""
        item_id = item.id
        try:
            self._pieces[item_id].append(text)
        except KeyError:
            self._pieces[item_id] = [text]
        if item_id not in self._new:
            self._appended.setdefault(item_id, []).append(text)

    def finish_text(self, item: Streamed, text: str, **members: Any) -> None:
        """Give an item the whole text; nothing is sent again of what was appended."""
        self._join_text(item)
        if item.text != text:
            self._appended.pop(item.id, None)
        self.change(item, text=text, **members)

    def remove(self, item_id: str) -> None:
        """Take an item out."""
        item = self._items.pop(item_id, None)
        if item is None:
            return
        self._gone[item_id] = item.seq
        self._order[self._places.pop(item_id)] = None
        self._forget(item_id)
        if item_id not in self._new:
            self._removed.add(item_id)
        self._new.discard(item_id)

    def patches(self, cursor: int) -> list[Patch]:
        """What changed since this was last called, one patch an item; it is as of the cursor."""
        patches = [self._patch(item_id) for item_id in self._touched()]
        self.settle(cursor)
        return patches

    def settle(self, cursor: int) -> None:
        """Count what changed as known up to the cursor, where nobody wants the patches."""
        for item_id in self._touched():
            known = self._dates.pop(item_id, None)
            item = self._items.get(item_id)
            if item is not None:
                added = item.seq if known is None or item_id in self._removed else known.added
                self._dates[item_id] = _Dates(added, cursor)
        for item_id, began in self._gone.items():
            if item_id not in self._items:
                # A reader of another fold may have it, although nobody of this one was sent it.
                self._dates[item_id] = _Dates(began, cursor)
        self._gone.clear()
        self._new.clear()
        self._changed.clear()
        self._appended.clear()
        self._removed.clear()

    def changed_since(self, cursor: int) -> list[Patch]:
        """Whole items for a reader of whom only the cursor is known: those that are others since.

        One that was there at the cursor comes as its members, for who has it, or as removed; any
        other as new.
        """
        changed: list[str] = []
        for item_id in reversed(self._dates):
            if self._dates[item_id].changed <= cursor:
                break
            changed.append(item_id)
        there = sorted(self._places.keys() & changed, key=self._places.__getitem__)
        gone = [
            Patch(id=item_id, removed=True)
            for item_id in changed
            if item_id not in self._places and self._dates[item_id].added <= cursor
        ]
        return gone + [self._whole(item_id, cursor) for item_id in there]

    def unfinished(self) -> list[str]:
        """The ids of what is still being written."""
        return [item.id for item in islice(self.before(None), NEAR_THE_END) if is_unfinished(item)]

    def _touched(self) -> Iterable[str]:
        # A new one stands in its place in the list, so that patches add items in their order.
        new = sorted(self._new, key=self._places.__getitem__) if len(self._new) > 1 else self._new
        return dict.fromkeys((*new, *self._changed, *self._appended, *self._removed))

    def _whole(self, item_id: str, cursor: int) -> Patch:
        item = self._items[item_id]
        if item_id in self._pieces:
            self._join_text(item)
        if self._dates[item_id].added > cursor:
            return Patch(id=item_id, item=copy.copy(item))
        members = {name: getattr(item, name) for name in item.__struct_fields__ if name != "id"}
        return Patch(id=item_id, set=members)

    def _patch(self, item_id: str) -> Patch:
        removed = item_id in self._removed
        item = self._items.get(item_id)
        if item is None:
            return Patch(id=item_id, removed=True)
        if item_id in self._new:
            self._join_text(item)
            return Patch(id=item_id, item=copy.copy(item), removed=removed)
        changed = self._changed.get(item_id, ())
        appended = "" if "text" in changed else "".join(self._appended.get(item_id, ()))
        members = {name: getattr(item, name) for name in changed}
        return Patch(id=item_id, set=members, append=appended)

    def _forget(self, item_id: str) -> None:
        for noted in (self._changed, self._appended, self._pieces):
            noted.pop(item_id, None)

    def _join_text(self, item: Item) -> None:
        pieces = self._pieces.pop(item.id, None)
        if pieces is not None and isinstance(item, STREAMED):
            item.text += "".join(pieces)


def is_unfinished(item: Item) -> bool:
    """Whether only pieces have come of it: it may vanish without a word."""
    match item:
        case TextItem() | ThinkingItem():
            return item.state == "streaming"
        case ToolItem():
            return item.state == "writing"
        case _:
            return False
