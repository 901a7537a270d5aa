"""The items of a conversation, and what changed of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, TypeVar

from pilothouse.api.items import Item, Patch, TextItem, ThinkingItem

__all__ = ["ItemStore"]

Kind = TypeVar("Kind", bound=Item)
Streamed = TextItem | ThinkingItem


class ItemStore:
    """Items in the order in which they began. Every change is noted for the next `patches`."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._new: set[str] = set()
        self._changed: dict[str, set[str]] = {}
        self._removed: set[str] = set()
        self._pieces: dict[str, list[str]] = {}
        """Text that has come since the item was last looked at."""
        self._appended: dict[str, list[str]] = {}
        """Text that has come since the last patches."""

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        self._join_texts()
        return iter(self._items.values())

    def get(self, item_id: str) -> Item | None:
        return self._items.get(item_id)

    def of_kind(self, item_id: str | None, kind: type[Kind]) -> Kind | None:
        """The item, if there is one of this kind."""
        found = self._items.get(item_id or "")
        return found if isinstance(found, kind) else None

    def add(self, item: Kind, *, is_first: bool = False) -> Kind:
        """Have it behind the others, or before. One of the same id gives way: it was said again."""
        if is_first:
            self._items = {item.id: item, **self._items}
        item_id = item.id
        if item_id in self._items or item_id in self._removed:
            self._forget(item_id)
        self._items[item_id] = item
        self._new.add(item_id)
        return item

    def change(self, item: Item, **members: Any) -> None:
        """Give members of an item other values."""
        if item.id in self._new:
            for name, value in members.items():
                setattr(item, name, value)
            return
        others = [name for name, value in members.items() if getattr(item, name) != value]
        for name in others:
            setattr(item, name, members[name])
        if others:
            self._changed.setdefault(item.id, set()).update(others)

    def append(self, item: Streamed, text: str) -> None:
        """Add to the text of an item. What has come is joined when somebody looks."""
        item_id = item.id
        _add_to(self._pieces, item_id, text)
        if item_id not in self._new:
            _add_to(self._appended, item_id, text)

    def finish_text(self, item: Streamed, text: str, **members: Any) -> None:
        """Give an item the whole text; nothing is sent again of what was appended."""
        self._join_text(item)
        if item.text != text:
            self._appended.pop(item.id, None)
        self.change(item, text=text, **members)

    def remove(self, item_id: str) -> None:
        """Take an item out."""
        if self._items.pop(item_id, None) is None:
            return
        self._forget(item_id)
        if item_id not in self._new:
            self._removed.add(item_id)
        self._new.discard(item_id)

    def patches(self) -> list[Patch]:
        """What changed since this was last called, one patch an item."""
        touched = [*self._new, *self._changed, *self._appended, *self._removed]
        patches = [self._patch(item_id) for item_id in dict.fromkeys(touched)]
        self._new.clear()
        self._changed.clear()
        self._appended.clear()
        self._removed.clear()
        return patches

    def _patch(self, item_id: str) -> Patch:
        if item_id in self._removed:
            return Patch(id=item_id, removed=True)
        item = self._items[item_id]
        if item_id in self._new:
            self._join_text(item)
            return Patch(id=item_id, item=copy.copy(item))
        changed = self._changed.get(item_id, ())
        appended = "" if "text" in changed else "".join(self._appended.get(item_id, ()))
        members = {name: getattr(item, name) for name in changed}
        return Patch(id=item_id, set=members, append=appended)

    def _forget(self, item_id: str) -> None:
        self._removed.discard(item_id)
        for noted in (self._changed, self._appended, self._pieces):
            noted.pop(item_id, None)

    def _join_texts(self) -> None:
        for item_id in list(self._pieces):
            self._join_text(self._items[item_id])

    def _join_text(self, item: Item) -> None:
        pieces = self._pieces.pop(item.id, None)
        if pieces is not None and isinstance(item, TextItem | ThinkingItem):
            item.text += "".join(pieces)


def _add_to(texts: dict[str, list[str]], item_id: str, text: str) -> None:
    known = texts.get(item_id)
    if known is None:
        texts[item_id] = [text]
    else:
        known.append(text)
