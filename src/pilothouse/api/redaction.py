"""Hides the values of variables and headers in options from watchers and exports.

The journal has them, because a session is resumed with them.
"""

from __future__ import annotations

from typing import Any, Final, cast

from msgspec import Raw, structs

from pilothouse.protocol.wire import encode_json, parse

from .events import Batch, Event

__all__ = ["REDACTED", "tellable", "without_secrets"]

REDACTED: Final = "[redacted]"
_WITH_OPTIONS: Final = frozenset({"session.started", "options.changed"})
_SECRETIVE: Final = frozenset({"env", "headers"})


def tellable(batch: Batch) -> Batch:
    """Return the batch as any watcher may have it."""
    if _WITH_OPTIONS.isdisjoint([event.kind for event in batch.events]):
        return batch
    return structs.replace(batch, events=[_tellable(event) for event in batch.events])


def _tellable(event: Event) -> Event:
    if event.kind not in _WITH_OPTIONS:
        return event
    body = without_secrets(parse(event.body))
    return structs.replace(event, body=Raw(encode_json(body)))


def without_secrets(value: Any) -> Any:
    """Return plain data in which `env` and `headers` have their names, but no values."""
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            return {name: _member(name, each) for name, each in members.items()}
        case list():
            return [without_secrets(each) for each in cast("list[Any]", value)]
        case _:
            return value


def _member(name: str, value: Any) -> Any:
    if not isinstance(value, dict):
        return without_secrets(value)
    members = cast("dict[str, Any]", value)
    if name in _SECRETIVE:
        return dict.fromkeys(members, REDACTED)
    if name == "flags":
        # A flag may carry whole settings or servers, as JSON.
        return {flag: REDACTED if _is_json(each) else each for flag, each in members.items()}
    return without_secrets(members)


def _is_json(value: Any) -> bool:
    return isinstance(value, str) and value.lstrip().startswith(("{", "["))
