"""The stall watch, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from pilothouse.client.stall import StallWatch


class Clock:
    """As much of an event loop as the watch uses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, look: Callable[[], None]) -> Clock:
        self.due.append((self.now + delay, look))
        return self

    def cancel(self) -> None:
        self.due.clear()

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.due and self.due[0][0] <= end:
            self.now, look = self.due.pop(0)
            look()
        self.now = end


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: clock)
    return clock


def test_a_silence_is_reported_once(clock: Clock) -> None:
    reports: list[float] = []
    StallWatch(reports.append, 10.0)
    clock.pass_time(35.0)
    assert reports == [10.0]


def test_what_is_heard_begins_a_new_silence(clock: Clock) -> None:
    reports: list[float] = []
    watch = StallWatch(reports.append, 10.0)
    clock.pass_time(8.0)
    watch.restart()
    clock.pass_time(8.0)
    assert reports == []
    clock.pass_time(8.0)
    assert len(reports) == 1


def test_a_silence_after_an_idle_time_is_reported_too(clock: Clock) -> None:
    reports: list[float] = []
    watch = StallWatch(reports.append, 10.0)
    clock.pass_time(100.0)
    watch.restart()
    clock.pass_time(25.0)
    assert len(reports) == 2


def test_a_stopped_watch_says_nothing(clock: Clock) -> None:
    reports: list[float] = []
    StallWatch(reports.append, 10.0).stop()
    clock.pass_time(100.0)
    assert reports == []
