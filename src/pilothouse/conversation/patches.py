"""How items change. Whoever has a conversation up to one cursor and applies the patches after it
has the conversation as it is at their last cursor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

from msgspec.structs import replace

from pilothouse.api.items import Item, Patch

__all__ = ["apply_patch", "apply_patches", "join_patches"]


def apply_patches(items: MutableMapping[str, dict[str, Any]], changes: Mapping[str, Any]) -> None:
    """Change items that were read from JSON as what a stream sent says: what any client does."""
    for patch in changes["patches"]:
        apply_patch(items, patch)
    unfinished = changes.get("unfinished")
    if unfinished is not None:
        known = [item for item in items.values() if item.get("state") in ("streaming", "writing")]
        for item in known:
            if item["id"] not in unfinished:
                del items[item["id"]]


def apply_patch(items: MutableMapping[str, dict[str, Any]], patch: Mapping[str, Any]) -> None:
    """Change the item that a patch is of."""
    if patch.get("removed"):
        items.pop(patch["id"], None)
    if patch.get("item"):
        items[patch["id"]] = dict(patch["item"])
    item = items.get(patch["id"])
    if item is None:
        # It is gone, or on a page that this reader has not read.
        return
    item.update(patch.get("set", {}))
    if patch.get("append"):
        item["text"] = item.get("text", "") + patch["append"]


def join_patches(earlier: Iterable[Patch], later: Iterable[Patch]) -> list[Patch]:
    """The changes of both, one patch an item: what a reader gets who was slow."""
    joined = {patch.id: patch for patch in earlier}
    for patch in later:
        before = joined.get(patch.id)
        joined[patch.id] = patch if before is None else _joined(before, patch)
    return list(joined.values())


def _joined(before: Patch, after: Patch) -> Patch:
    if after.removed:
        return after
    if after.item is not None:
        return replace(after, removed=before.removed)
    if before.item is not None:
        return replace(before, item=_changed(before.item, after))
    text = "" if "text" in after.set else before.append
    return Patch(id=after.id, set={**before.set, **after.set}, append=text + after.append)


def _changed(item: Item, patch: Patch) -> Item:
    changed: Any = replace(item, **patch.set)
    return replace(changed, text=changed.text + patch.append) if patch.append else changed
