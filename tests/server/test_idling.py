"""When a server is not needed any more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pilothouse.server.attendance import wait_unneeded
from tests.support.waiting import DEADLINE

IDLE = 0.01
MANY = 30


class Engine:
    """Only its health is asked for."""

    def __init__(self, live: int = 0, questions: int = 0) -> None:
        self.live = live
        self.questions = questions
        self.asked = 0
        self.asked_often = asyncio.Event()

    async def health(self) -> Any:
        self.asked += 1
        if self.asked >= MANY:
            self.asked_often.set()
        return self


class Attendance:
    def __init__(self, idle_s: float) -> None:
        self.idle_s = idle_s


def waiting(engine: Engine, attendance: Attendance) -> asyncio.Task[None]:
    given: Any = (engine, attendance)
    return asyncio.create_task(wait_unneeded(IDLE, *given))


async def test_without_anybody_it_is_unneeded() -> None:
    await asyncio.wait_for(waiting(Engine(), Attendance(1000)), 30)


@pytest.mark.parametrize("needed_by", ["live", "questions", "somebody who is being served"])
async def test_it_is_needed_as_long_as_there_is_somebody(needed_by: str) -> None:
    engine, attendance = Engine(), Attendance(1000)
    if needed_by in ("live", "questions"):
        setattr(engine, needed_by, 1)
    else:
        attendance.idle_s = 0
    task = waiting(engine, attendance)
    await asyncio.wait_for(engine.asked_often.wait(), DEADLINE)
    assert not task.done()
    engine.live = engine.questions = 0
    attendance.idle_s = 1000
    await asyncio.wait_for(task, DEADLINE)
