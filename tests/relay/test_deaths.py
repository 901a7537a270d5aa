"""The end of a relay as others notice it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilothouse.relay import deaths, registry
from pilothouse.relay.deaths import RelayWatch, guard_of, last_words, lives
from pilothouse.relay.registry import RunningRelay
from tests.support.waiting import DEADLINE


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def found(process: subprocess.Popen[bytes]) -> RunningRelay:
    started = registry.started_at(process.pid)
    assert started is not None
    return RunningRelay("s", "r", process.pid, started, None, None)


async def told(gone: asyncio.Event) -> None:
    async with asyncio.timeout(DEADLINE):
        await gone.wait()


@pytest.fixture(params=["told by the kernel", "by looking"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deaths, "LOOK_AGAIN", 0.01)
    if request.param == "by looking":
        monkeypatch.delattr(os, "pidfd_open")


@pytest.mark.usefixtures("system")
async def test_the_end_is_told(sleeper: subprocess.Popen[bytes]) -> None:
    gone = asyncio.Event()
    relay = found(sleeper)
    RelayWatch(relay, gone.set)
    assert lives(relay)
    sleeper.kill()
    await told(gone)
    assert not lives(relay)


@pytest.mark.usefixtures("system")
async def test_another_process_with_its_number_is_not_the_relay(
    sleeper: subprocess.Popen[bytes],
) -> None:
    gone = asyncio.Event()
    relay = found(sleeper)
    RelayWatch(relay._replace(started=relay.started - 1), gone.set)
    assert not gone.is_set()
    await told(gone)


@pytest.mark.usefixtures("system")
async def test_a_watch_that_was_ended_tells_nothing_and_holds_nothing(
    sleeper: subprocess.Popen[bytes],
) -> None:
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    ended, other = asyncio.Event(), asyncio.Event()
    RelayWatch(found(sleeper), ended.set).end()
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208
    RelayWatch(found(sleeper), other.set)
    sleeper.kill()
    await told(other)
    assert not ended.is_set()
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


@pytest.mark.usefixtures("system")
async def test_a_relay_that_is_starting_is_waited_for(sleeper: subprocess.Popen[bytes]) -> None:
    gone, looked = asyncio.Event(), list[RunningRelay | None]()

    def starts() -> RunningRelay | None:
        looked.append(found(sleeper) if looked else None)
        if looked[-1]:
            sleeper.kill()
        return looked[-1]

    RelayWatch(None, gone.set, starts)
    await told(gone)
    assert len(looked) == 2


async def test_the_guard_of_a_killed_relay_is_waited_for(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    gone = asyncio.Event()
    ended = found(sleeper)._replace(relay_pid=2**22 + 1, started=1, guard_pid=sleeper.pid)
    registry.record(tmp_path, ended)
    asked = asyncio.Event()

    def guard() -> int | None:
        asked.set()
        return guard_of(tmp_path)

    RelayWatch(ended, gone.set, guard=guard)
    await told(asked)
    assert not gone.is_set()
    sleeper.kill()
    await told(gone)


async def test_a_guard_that_stays_is_not_waited_for_without_end(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deaths, "GUARD_GRACE", 0.01)
    gone = asyncio.Event()
    ended = found(sleeper)._replace(started=1)
    RelayWatch(ended, gone.set, guard=lambda: sleeper.pid)
    await told(gone)
    assert sleeper.poll() is None


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"guard_pid": null}'])
def test_a_relay_that_says_nothing_of_a_guard_has_none(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / registry.NAME).write_text(text)
    assert guard_of(tmp_path) is None


async def test_a_relay_that_never_comes_is_gone_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deaths, "STARTS_WITHIN", 0.0)
    for starts in (None, lambda: None):
        gone = asyncio.Event()
        RelayWatch(None, gone.set, starts)
        assert not gone.is_set()
        await told(gone)


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (None, "its relay has ended"),
        ("", "its relay was killed"),
        ("2026-01-01T00:00:00+0000 pilothouse relay: connected\n", "its relay was killed"),
        (f"{'x' * 9999}\nOSError: disk full\n\n", "its relay failed: OSError: disk full"),
        ("pilothouse relay: no token\n", "its relay failed: no token"),
    ],
)
def test_the_log_tells_why(tmp_path: Path, log: str | None, reason: str) -> None:
    if log is not None:
        (tmp_path / registry.LOG_NAME).write_text(log)
    assert last_words(tmp_path) == reason
