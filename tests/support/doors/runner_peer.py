"""Runners as a test plays them, on sockets in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from pilothouse.doors.runners import Runners
from pilothouse.doors.sockets import Scope, Socket
from pilothouse.runner import messages
from pilothouse.runner.messages import FromRunner, FromServer, Hello, RunTold
from tests.support.waiting import DEADLINE

Heard = TypeVar("Heard")


class Notices:
    """What the runners' owner was told."""

    def __init__(self, runners: Runners) -> None:
        self.changes: list[tuple[str, str]] = []
        self.gone: list[tuple[str, str, str]] = []
        self._runners = runners
        self._changed = asyncio.Event()
        runners.changed = self._note_change
        runners.gone = self._note_gone

    def _note_change(self, name: str) -> None:
        told = self._runners.state(name)
        assert told is not None
        self.changes.append((name, told.state))
        self._changed.set()

    def _note_gone(self, name: str, run: str, reason: str) -> None:
        self.gone.append((name, run, reason))
        self._changed.set()

    @property
    def gone_runs(self) -> list[tuple[str, str]]:
        return [(name, run) for name, run, _ in self.gone]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def becomes(self, name: str, state: str) -> None:
        def holds() -> bool:
            told = self._runners.state(name)
            return told is not None and told.state == state

        await self.until(holds)


class RunnerPeer:
    """One connection of a runner; leaves at the end of its context."""

    def __init__(self, runners: Runners, token: str, *, taking: bool = True) -> None:
        self.closed: tuple[int, str] | None = None
        self._inbox: asyncio.Queue[Scope] = asyncio.Queue()
        self._heard: asyncio.Queue[FromServer] = asyncio.Queue()
        self._taking = taking
        headers = [(b"authorization", b"Bearer " + token.encode())] if token else []
        socket = Socket({"headers": headers}, self._inbox.get, self._send)
        self._visit = asyncio.create_task(runners.visited(socket))

    async def __aenter__(self) -> RunnerPeer:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.leave()
        await self.ended()

    async def _send(self, message: Scope) -> None:
        if not self._taking:
            await asyncio.Event().wait()
        if message["type"] == "websocket.close":
            self.closed = (message["code"], message["reason"])
        else:
            heard = messages.from_server(message["text"])
            assert heard is not None
            self._heard.put_nowait(heard)

    def say(self, message: FromRunner) -> None:
        self.say_raw(messages.encode(message))

    def say_raw(self, text: str) -> None:
        self._inbox.put_nowait({"type": "websocket.receive", "text": text})

    def leave(self) -> None:
        self._inbox.put_nowait({"type": "websocket.disconnect", "code": 1006})

    async def ended(self) -> tuple[int, str] | None:
        """Wait until the server is done with this connection; how it was closed."""
        async with asyncio.timeout(DEADLINE):
            await self._visit
        return self.closed

    async def hear(self, kind: type[Heard]) -> Heard:
        """The next message, which has to be of this kind."""
        async with asyncio.timeout(DEADLINE):
            heard = await self._heard.get()
        assert isinstance(heard, kind), heard
        return heard

    @property
    def has_more(self) -> bool:
        return not self._heard.empty()


def hello(*runs: str, **given: Any) -> Hello:
    told = tuple(RunTold(session_id=f"session-{run}", run=run, relay_pid=1) for run in runs)
    return Hello(**{"host": "there", "program": "1.0", "runs": told, **given})


async def arrive(runners: Runners, token: str, *runs: str, **given: Any) -> RunnerPeer:
    """A runner that was welcomed."""
    peer = RunnerPeer(runners, token)
    peer.say(hello(*runs, **given))
    await peer.hear(messages.Welcome)
    return peer


def roster_file(folder: Path) -> Path:
    return folder / "runners.json"
