"""Which hooks there are: callbacks of the client's, and commands that settings name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, cast

from msgspec import Struct

__all__ = ["CallbackHook", "CommandHook", "Hook", "HookTable", "matches"]

_NAMES: Final = re.compile(r"[\w\s|,-]*")
"""A matcher without any other sign is a list of names, not a pattern."""
_LONG: Final = 600.0
"""Seconds a command may take when nothing is said about it."""


class CallbackHook(Struct, frozen=True):
    """A hook in the client."""

    id: str
    timeout: float | None = None


class CommandHook(Struct, frozen=True):
    """A hook that is a command for the shell."""

    command: str
    timeout: float = _LONG


Hook = CallbackHook | CommandHook
Entry = tuple[str, Hook]


class HookTable:
    """The hooks of every event, each with its matcher."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._commands = {event: _commands(groups) for event, groups in _groups(settings)}
        self._callbacks: dict[str, list[Entry]] = {}

    def register(self, hooks: dict[str, Any]) -> None:
        """Take the client's callbacks, instead of those it had before."""
        self._callbacks = {event: _callbacks(groups) for event, groups in _groups(hooks)}

    def find(self, event: str, query: str | None) -> list[Hook]:
        """The hooks of an event, in the order in which they are called.

        A client that leaves is not told that the session ends; one that clears it is.
        """
        is_last = event == "SessionEnd" and query == "other"
        callbacks = () if is_last else self._callbacks.get(event, ())
        entries = [*self._commands.get(event, ()), *callbacks]
        return [hook for matcher, hook in entries if query is None or matches(matcher, query)]


def matches(matcher: str, query: str) -> bool:
    """Whether a matcher means this tool, source or server."""
    if matcher in ("", "*"):
        return True
    if _NAMES.fullmatch(matcher):
        return query in (name.strip() for name in re.split(r"[|,]", matcher))
    try:
        return re.search(matcher, query) is not None
    except re.error:
        return False


def _groups(table: dict[str, Any]) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    for event, groups in table.items():
        if isinstance(groups, list):
            entries = cast("list[Any]", groups)
            yield event, [each for each in entries if isinstance(each, dict)]


def _callbacks(groups: list[dict[str, Any]]) -> list[Entry]:
    return [
        (group.get("matcher") or "", CallbackHook(own, group.get("timeout")))
        for group in groups
        for own in group.get("hookCallbackIds") or ()
    ]


def _commands(groups: list[dict[str, Any]]) -> list[Entry]:
    return [
        (group.get("matcher") or "", CommandHook(hook["command"], hook.get("timeout") or _LONG))
        for group in groups
        for hook in group.get("hooks") or ()
        if hook.get("type") == "command"
    ]
