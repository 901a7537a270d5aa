"""What the configuration of one client says: what of it acts for that client, and what does not.

An MCP client starts `pilothouse mcp` with variables of its own. The server may run already, with
others: what concerns sessions goes with each session that the client starts, and the rest is named.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct, field, json

from pilothouse.api.requests import SessionOptions

from .engine_handle import EngineHandle
from .texts import members_of

__all__ = ["ClientSettings", "Ignored", "Variable"]

log = logging.getLogger("pilothouse.mcp")

Mode = Literal["default", "acceptEdits", "plan", "bypassPermissions", "auto", "dontAsk"]
SHOWN: Final = 100


class Variable(NamedTuple):
    """A variable that sets something of the server's."""

    name: str
    value: Any


class ClientSettings(Struct, frozen=True, kw_only=True):
    """What one client's configuration says."""

    model: str | None = None
    mode: Mode | None = None
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    permission_timeout_ms: int | None = None
    of_the_server: Mapping[str, Variable] = field(default_factory=dict[str, Variable])
    """Settings that only the server can heed -> the variables that the client has for them."""

    def options(self, given: Mapping[str, Any]) -> SessionOptions:
        """Return the options of a session: what a caller gave, else what is configured."""
        usual: dict[str, Any] = {
            "model": self.model,
            "mode": self.mode,
            "allowed_tools": list(self.allowed_tools),
            "disallowed_tools": list(self.disallowed_tools),
            "permission_timeout_ms": self.permission_timeout_ms,
        }
        return SessionOptions(**{**usual, **given})


class Ignored:
    """Names once the variables that a running server does not heed."""

    def __init__(self, handle: EngineHandle, given: Mapping[str, Variable]) -> None:
        self._handle = handle
        self._given = dict(given)

    async def note(self) -> str:
        """Return what a client is to be told, the first time; nothing later."""
        if not self._given:
            return ""
        there = await self._handle.ask(lambda engine: engine.settings())
        given, self._given = self._given, {}
        told = [
            _line(name, variable, members_of(there[name]).get("value"))
            for name, variable in given.items()
            if name in there and not _same(variable.value, members_of(there[name]).get("value"))
        ]
        if not told:
            return ""
        log.warning("variables that the running server does not heed: %s", "; ".join(told))
        return (
            f"This client's configuration sets what the running server does not heed: "
            f"{'; '.join(told)}. To change that, set it where the server is started, and start it "
            "again; or give this client a server of its own: pilothouse mcp --standalone"
        )


def _same(one: Any, other: Any) -> bool:
    return json.decode(json.encode(one)) == json.decode(json.encode(other))


def _line(name: str, variable: Variable, there: Any) -> str:
    return f"{variable.name}={_shown(variable.value)} (the server has {name} {_shown(there)})"


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.encode(value).decode()
    return text[:SHOWN]
