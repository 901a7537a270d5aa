"""How the engine reaches a session's CLI: over pipes of its own, or through a door.

Routes          make new ones, and find those that outlived the engine
  PipeRoutes    children of the engine
  DoorRoutes    relays here and on other machines, and CLIs that dial in themselves
Route           the way to one CLI, for one life of it
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from pilothouse.api.requests import SessionOptions
from pilothouse.api.results import Runner
from pilothouse.api.values import Reached
from pilothouse.errors import InvalidOption
from pilothouse.journal.contract import RunRow
from pilothouse.transport.base import NumberedLines

from .view import View

__all__ = ["PipeRoutes", "Route", "Routes", "Told"]


class Route:
    """The way to one CLI. This one is the pipes that its client opens by itself."""

    run: str = ""
    via: Reached = "stdio"
    machine: str = ""
    connected: bool = True
    """Whether anything can pass right now."""
    takes_input: bool = True
    """Whether there is a CLI that anything could be said to."""
    pid: int | None = None
    """The CLI's process, where its client does not know it yet."""

    def client_parts(self, view: View) -> dict[str, Any]:
        """What its client is made with, besides options and a sink."""
        return {}

    @property
    def outlives_us(self) -> bool:
        """Whether the CLI goes on when the engine ends."""
        return False

    def leave(self) -> None:
        """Let go of a CLI that goes on."""

    def end(self) -> Sequence[str]:
        """Let go of a CLI that has ended; the runs of which nothing need be kept."""
        return ()


class Told(Protocol):
    """Whom a route tells what its transport does not."""

    def lines_lost(self, because: str, lines: NumberedLines | None = None) -> None:
        """Lines of the CLI's are gone for good; `lines` has the number of the last of them."""
        ...

    def reconnected(self) -> None:
        """The CLI dialled in anew by itself, and may have lost what it asked."""
        ...


class Routes(Protocol):
    """Opens ways to CLIs."""

    async def check(self, options: SessionOptions) -> None:
        """Refuse a way that there is not."""
        ...

    def begin(self, view: View, told: Told, locks: Callable[[], Sequence[int]]) -> Route:
        """The way to a CLI that is to be started. `locks` are files that must stay locked for
        as long as it lives."""
        ...

    def find(self, view: View, row: RunRow, told: Told) -> Route | None:
        """The way to a CLI that was started by an engine before this one, if it lives."""
        ...

    def tidy(self, runs: Collection[str]) -> None:
        """Forget what is left of all runs but these, which go on."""
        ...

    async def has_transcript(self, machine: str, conversation: str) -> bool:
        """Whether another machine has a conversation."""
        ...

    def trouble(self, machine: str) -> str:
        """Why a machine cannot be reached, in words for a person; empty: nothing is known."""
        ...

    # CLIs that somebody starts by hand

    async def dialling_trouble(self) -> str | None:
        """Why the CLI of this machine cannot dial in, if it cannot."""
        ...

    def expect(self, session_id: str, came: Callable[[], None]) -> tuple[str, str]:
        """Expect one CLI for this session: its address and its token. `came` is called once, and
        `begin` then finds the way to it."""
        ...

    def expect_no_more(self, session_id: str, because: str) -> None:
        """Refuse it from now on, and send it away if it is there."""
        ...

    # Other machines

    def runners(self) -> list[Runner]: ...
    def add_runner(self, name: str) -> str: ...
    def drain_runner(self, name: str, *, draining: bool) -> None: ...
    def revoke_runner(self, name: str) -> None: ...


class PipeRoutes:
    """Every CLI is a child of the engine and ends with it."""

    async def check(self, options: SessionOptions) -> None:
        if options.machine is not None:
            raise _no_door("machine", "other machines join a server")
        if options.via not in (None, "stdio"):
            raise _no_door("via", "relays need a server they can dial")

    def begin(self, view: View, told: Told, locks: Callable[[], Sequence[int]]) -> Route:
        return Route()

    def find(self, view: View, row: RunRow, told: Told) -> Route | None:
        return None

    def tidy(self, runs: Collection[str]) -> None:
        """No CLI leaves anything."""

    async def has_transcript(self, machine: str, conversation: str) -> bool:
        return False

    def trouble(self, machine: str) -> str:
        return ""

    async def dialling_trouble(self) -> str | None:
        return None

    def expect(self, session_id: str, came: Callable[[], None]) -> tuple[str, str]:
        raise _no_door("dialling in", "a CLI needs a server it can dial")

    def expect_no_more(self, session_id: str, because: str) -> None:
        """Nobody is expected."""

    def runners(self) -> list[Runner]:
        return []

    def add_runner(self, name: str) -> str:
        raise _no_door("a runner", "other machines join a server")

    def drain_runner(self, name: str, *, draining: bool) -> None:
        raise _no_door("a runner", "other machines join a server")

    def revoke_runner(self, name: str) -> None:
        raise _no_door("a runner", "other machines join a server")


def _no_door(what: str, why: str) -> InvalidOption:
    return InvalidOption(f"{what} is not possible here: {why}; use `pilothouse serve`")
