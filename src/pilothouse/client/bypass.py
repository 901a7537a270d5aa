"""The one gate to bypassPermissions.

Old CLIs switch to it at a word, without having been started for it, so the gate is ours: every
way there (options, flags, control requests, answers, hook outputs) passes here, and none is open
unless the caller said `Options(allow_bypass=True)`.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from pilothouse.errors import BypassNotAllowed, InvalidOption
from pilothouse.protocol.wire import parse

if TYPE_CHECKING:
    from .options import Options

__all__ = ["BypassGate"]

BYPASS: Final = "bypassPermissions"
MODE_KEYS: Final = frozenset({"mode", "permissionMode", "permission_mode", "defaultMode"})
FOR_MCP_SERVERS: Final = frozenset({"mcp_message", "mcp_call"})
BYPASS_FLAGS: Final = frozenset(
    {"dangerously-skip-permissions", "allow-dangerously-skip-permissions"}
)
SETTING_FLAGS: Final = frozenset({"settings", "managed-settings", "agents"})
"""What a CLI reads settings from: a JSON text, or the name of a file with one."""
PLAIN: Final = frozenset({str, int, float, bool, type(None)})
LARGEST_FILE: Final = 4 * 1024 * 1024
DEEPEST: Final = 700
"""Deeper JSON than this is more than the codec can write from a deep stack."""
MOST: Final = 200_000
"""Values in one JSON value. To look at more would hold up everybody else."""


class BypassGate:
    """Open or shut for one client's life."""

    def __init__(self, *, allowed: bool) -> None:
        self._allowed = allowed

    def check(self, where: str, value: Any) -> None:
        """Refuse a JSON value that sets the mode anywhere within it."""
        if not self._allowed and _sets_bypass(where, value):
            raise BypassNotAllowed(where)

    def check_request(self, subtype: str, request: Any) -> None:
        """Refuse a control request that sets it. What goes to MCP servers is not ours to read."""
        if subtype not in FOR_MCP_SERVERS:
            self.check(subtype, request)

    def check_options(self, options: Options) -> None:
        """Refuse options that would start, or let the CLI go, without permission checks."""
        if self._allowed:
            return
        self.check("permission_mode", {"mode": options.permission_mode})
        self.check("agents", dict(options.agents or {}))
        self._check_file("settings", options.settings, options.cwd)
        self.check("managed_settings", options.managed_settings)
        for name, value in options.extra_args.items():
            flag, _, inline = name.lstrip("-").partition("=")
            if flag in BYPASS_FLAGS or BYPASS in (value, inline):
                raise BypassNotAllowed(f"extra_args[{name!r}]")
            if flag in SETTING_FLAGS:
                self._check_file(f"extra_args[{name!r}]", inline or value, options.cwd)

    def _check_file(self, where: str, value: Any, cwd: str | Path | None) -> None:
        """Check an option that is JSON, a JSON text, or the name of a file with one."""
        if not isinstance(value, str | Path):
            return self.check(where, value)
        text = _text(where, value, cwd)
        read = parse(text.removeprefix(codecs.BOM_UTF8))
        # What we cannot read a CLI might: then the word alone is enough.
        if read is None and BYPASS.encode() in text:
            raise BypassNotAllowed(where)
        return self.check(where, read)


def _text(where: str, value: str | Path, cwd: str | Path | None) -> bytes:
    inline = str(value).lstrip("\ufeff \t\r\n")
    if inline.startswith("{"):
        return inline.encode("utf-8", "surrogatepass")
    try:
        # The CLI looks for it from its own working directory.
        return _content(where, Path(cwd or ".", value))
    except (OSError, ValueError):
        return b""


def _content(where: str, path: Path) -> bytes:
    """What is in a file. One that we cannot read to its end might tell the CLI anything."""
    # Without O_NONBLOCK a pipe that has no writer would hold us for ever.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InvalidOption(f"{where}: {path} is no regular file; write the settings to one")
        text = file.read(LARGEST_FILE + 1)
    if len(text) > LARGEST_FILE:
        raise InvalidOption(f"{where}: {path} is over {LARGEST_FILE} bytes; give a smaller file")
    return text


def _sets_bypass(where: str, value: Any) -> bool:
    waiting: list[tuple[int, Any, Any]] = [(0, None, value)]
    left = MOST
    while waiting:
        depth, key, each = waiting.pop()
        if key in MODE_KEYS and each == BYPASS:
            return True
        if depth > DEEPEST:
            raise InvalidOption(f"{where} is nested more than {DEEPEST} deep; make it flatter")
        for name, inner in _members(key, each):
            if (left := left - 1) < 0:
                raise InvalidOption(f"{where} has more than {MOST} values; make it smaller")
            # Most are words and numbers, or empty; of those only a mode tells something.
            if (inner and type(inner) not in PLAIN) or name in MODE_KEYS:
                waiting.append((depth + 1, name, inner))
    return False


def _members(key: Any, value: Any) -> Iterable[tuple[Any, Any]]:
    """What is within a value, as JSON would have it."""
    if value is None or value is msgspec.UNSET or isinstance(value, str | int | float):
        return ()
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value).items()
    if isinstance(value, list | tuple | set | frozenset):
        return ((None, each) for each in cast("Iterable[Any]", value))
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        return ((name, getattr(value, field)) for name, field in names)
    return ((key, msgspec.to_builtins(value)),)
