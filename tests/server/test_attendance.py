"""Who is being served, as it is counted before the app."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pilothouse.server import attendance as module
from pilothouse.server.attendance import FACE, Attendance

Message = dict[str, Any]


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Stream:
    """A request that is answered until its client leaves, as a stream of events is."""

    def __init__(self, attendance: Attendance) -> None:
        self._attendance = attendance
        self.entered = asyncio.Event()
        self.left = asyncio.Event()

    async def serve(self, scope: Message) -> None:
        with self._attendance.counted(scope):
            self.entered.set()
            await self.left.wait()


def scope(path: str = "/api", **more: Any) -> Message:
    return {"type": "http", "path": path, "headers": [], **more}


def visit(attendance: Attendance, scope: Message) -> None:
    with attendance.counted(scope):
        pass


async def test_it_is_idle_since_the_last_one_left(clock: Clock) -> None:
    attendance = Attendance()
    stream = Stream(attendance)
    clock.now += 5
    assert attendance.idle_s == 5
    serving = asyncio.create_task(stream.serve(scope()))
    await stream.entered.wait()
    clock.now += 5
    assert attendance.idle_s == 0
    stream.left.set()
    await serving
    clock.now += 3
    assert attendance.idle_s == 3


def test_a_socket_counts(clock: Clock) -> None:
    attendance = Attendance()
    clock.now += 5
    visit(attendance, scope(type="websocket"))
    assert attendance.idle_s == 0


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/proof"])
def test_a_monitor_keeps_nobody_awake_but_a_face_that_asks_does(clock: Clock, path: str) -> None:
    attendance = Attendance()
    clock.now += 5
    visit(attendance, scope(path))
    assert attendance.idle_s == 5
    visit(attendance, scope(path, headers=[(b"user-agent", FACE.encode())]))
    assert attendance.idle_s == 0


def test_a_request_that_fails_is_not_counted_for_ever(clock: Clock) -> None:
    attendance = Attendance()
    with pytest.raises(ZeroDivisionError), attendance.counted(scope()):
        _ = 1 / 0
    clock.now += 1
    assert attendance.idle_s == 1
