"""The one gate to bypassPermissions.

Old CLIs switch to it at a word, without having been started for it, so the gate is ours: every
way there (options, flags, control requests, answers, hook outputs) passes here, and none is open
unless the caller said `Options(allow_bypass=True)`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from pilothouse.errors import BypassNotAllowed

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
        self.check("settings", _as_json(options.settings))
        self.check("managed_settings", options.managed_settings)
        for name, value in options.extra_args.items():
            flag, _, inline = name.lstrip("-").partition("=")
            if flag in BYPASS_FLAGS or BYPASS in (value, inline):
                raise BypassNotAllowed(f"extra_args[{name!r}]")
            self.check(f"extra_args[{name!r}]", _as_json(inline or value))


def _as_json(value: Any) -> Any:
    """An option that is JSON, a JSON text, or a file with one; None where it is neither."""
    if not isinstance(value, str | Path):
        return value
    try:
        text = str(value) if str(value).lstrip().startswith("{") else Path(value).read_bytes()
        return msgspec.json.decode(text)
    except (OSError, ValueError):
        return None


def _sets_bypass(value: Any) -> bool:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return any((key in MODE_KEYS and v == BYPASS) or _sets_bypass(v) for key, v in members)
    if isinstance(value, list):
        return any(_sets_bypass(each) for each in cast("list[Any]", value))
    return False
