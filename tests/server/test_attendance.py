"""Who is being served, as it is counted before the app."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pilothouse.server import attendance as module
from pilothouse.server.attendance import FACE, Attendance, Message, Receive, Send


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Stream:
    """An app that answers until its client leaves, as a stream of events does."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.left = asyncio.Event()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.entered.set()
        await self.left.wait()


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def send(_: Message) -> None: ...


def scope(path: str = "/api", **more: Any) -> Message:
    return {"type": "http", "path": path, "headers": [], **more}


async def answer(_: Message, receive: Receive, send: Send) -> None: ...


async def test_it_is_idle_since_the_last_one_left(clock: Clock) -> None:
    app = Stream()
    attendance = Attendance(app)
    clock.now += 5
    assert attendance.idle_s == 5
    serving = asyncio.create_task(attendance(scope(), never, send))
    await app.entered.wait()
    clock.now += 5
    assert attendance.idle_s == 0
    app.left.set()
    await serving
    clock.now += 3
    assert attendance.idle_s == 3


async def test_a_socket_counts(clock: Clock) -> None:
    attendance = Attendance(answer)
    clock.now += 5
    await attendance(scope(type="websocket"), never, send)
    assert attendance.idle_s == 0


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/proof"])
async def test_a_monitor_keeps_nobody_awake_but_a_face_that_asks_does(
    clock: Clock, path: str
) -> None:
    attendance = Attendance(answer)
    clock.now += 5
    await attendance(scope(path), never, send)
    assert attendance.idle_s == 5
    await attendance(scope(path, headers=[(b"user-agent", FACE.encode())]), never, send)
    assert attendance.idle_s == 0


async def test_an_app_that_fails_is_not_counted_for_ever(clock: Clock) -> None:
    async def app(_: Message, receive: Receive, send: Send) -> None:
        raise ValueError

    attendance = Attendance(app)
    with pytest.raises(ValueError):  # noqa: PT011 - it is the app's own
        await attendance(scope(), never, send)
    clock.now += 1
    assert attendance.idle_s == 1
