"""The one gate to bypassPermissions.

Old CLIs switch to it at a word, without having been started for it, so the gate is ours: every
way there (options, flags, control requests, answers, hook outputs) passes here, and none is open
unless the caller said `Options(allow_bypass=True)`.
"""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from pilothouse.errors import BypassNotAllowed
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


class BypassGate:
    """Open or shut for one client's life."""

    def __init__(self, *, allowed: bool) -> None:
        self._allowed = allowed

    def check(self, where: str, value: Any) -> None:
        """Refuse a JSON value that sets the mode anywhere within it."""
        if not self._allowed and _sets_bypass(msgspec.to_builtins(value)):
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
            self._check_file(f"extra_args[{name!r}]", inline or value, options.cwd)

    def _check_file(self, where: str, value: Any, cwd: str | Path | None) -> None:
        """Check an option that is JSON, a JSON text, or the name of a file with one."""
        if not isinstance(value, str | Path):
            return self.check(where, value)
        text = _text(value, cwd)
        read = parse(text.removeprefix(codecs.BOM_UTF8))
        # What we cannot read a CLI might: then the word alone is enough.
        if read is None and BYPASS.encode() in text:
            raise BypassNotAllowed(where)
        return self.check(where, read)


def _text(value: str | Path, cwd: str | Path | None) -> bytes:
    inline = str(value).lstrip("\ufeff \t\r\n")
    if inline.startswith("{"):
        return inline.encode("utf-8", "surrogatepass")
    try:
        # The CLI looks for it from its own working directory.
        return Path(cwd or ".", value).read_bytes()
    except (OSError, ValueError):
        return b""


def _sets_bypass(value: Any) -> bool:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return any((key in MODE_KEYS and v == BYPASS) or _sets_bypass(v) for key, v in members)
    if isinstance(value, list | tuple):
        return any(_sets_bypass(each) for each in cast("list[Any]", value))
    return False
