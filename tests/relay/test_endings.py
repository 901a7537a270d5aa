"""A CLI behind a relay ends in order, and its end reaches the door behind its last line."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from pilothouse.relay import registry
from pilothouse.relay.refusals import Refusal
from tests.support.processes import gone
from tests.support.relay.door import RelayDoor
from tests.support.relay.relays import ECHO, python, relay

HASTE = {"interrupt": 0.1, "close": 0.1, "terminate": 0.1, "kill": 2.0, "farewell": 0.1}

# Writes down all that it is told and how it is ended, in a file that outlives it.
DIARY = """
import os, signal, sys
diary = open(sys.argv[1], "a", buffering=1)
def terminated(number, frame):
    diary.write("SIGTERM\\n")
    if "deaf" not in sys.argv: os._exit(7)
signal.signal(signal.SIGTERM, terminated)
print(os.getpid(), flush=True)
for line in sys.stdin:
    diary.write(line)
diary.write("end of input\\n")
while "stays" in sys.argv or "deaf" in sys.argv:
    signal.pause()
print("bye", flush=True)
"""
INTERRUPT = (
    '{"type":"control_request","request_id":"relay-interrupt","request":{"subtype":"interrupt"}}'
)


def diary(folder: Path) -> list[str]:
    return (folder / "diary").read_text().splitlines()


def keeps_a_diary(folder: Path, *manners: str) -> list[str]:
    return python(DIARY, str(folder / "diary"), *manners)


# How the end is told


async def test_the_end_is_told_behind_the_last_line_with_its_code_and_stderr(
    tmp_path: Path,
) -> None:
    source = "import sys; print('last words'); print('trouble', file=sys.stderr); sys.exit(3)"
    async with RelayDoor().opened() as door, relay(door.url, tmp_path, python(source)) as running:
        exit_ = await door.ended()
        assert await running.result() == 0
    assert door.lines == [b"last words"]
    assert (exit_.code, exit_.signal, exit_.stderr_tail) == (3, None, "trouble\n")


async def test_only_the_last_part_of_stderr_is_told(tmp_path: Path) -> None:
    source = "import sys; sys.stderr.write('x' * 500_000 + 'end')"
    async with RelayDoor().opened() as door, relay(door.url, tmp_path, python(source)):
        exit_ = await door.ended()
    assert len(exit_.stderr_tail) == 64 * 1024
    assert exit_.stderr_tail.endswith("xend")


async def test_a_cli_that_cannot_be_started_is_an_end_with_its_reason(tmp_path: Path) -> None:
    async with RelayDoor().opened() as door, relay(door.url, tmp_path, ["/no/such/cli"]) as running:
        exit_ = await door.ended()
        assert await running.result() == 0
    assert exit_.code == 127
    assert "cannot start /no/such/cli" in exit_.stderr_tail
    assert door.hellos[0].pid is None


async def test_an_end_without_a_newline_is_a_line(tmp_path: Path) -> None:
    source = "import sys; sys.stdout.write('whole\\nhalf')"
    async with RelayDoor().opened() as door, relay(door.url, tmp_path, python(source)):
        await door.ended()
    assert door.lines == [b"whole", b"half"]


async def test_output_that_ends_before_the_cli_does_ends_the_cli(tmp_path: Path) -> None:
    source = "import os, sys; print('x', flush=True); os.close(1); sys.stdin.read(); sys.exit(4)"
    async with RelayDoor().opened() as door, relay(door.url, tmp_path, python(source)):
        assert (await door.ended()).code == 4
    assert door.lines == [b"x"]


async def test_the_end_waits_for_a_door_and_is_told_once(tmp_path: Path) -> None:
    door = RelayDoor()
    await door.open()
    async with relay(door.url, tmp_path, python(ECHO)) as running:
        await door.greeted()
        await door.say(b"hello")
        await door.order("close_input")
        door.acknowledging = False
        await door.ended()
        await door.restart()
        assert await running.result() == 0
    await door.kill()
    assert len(door.hellos) == 2
    assert door.mistakes == []
    assert door.lines == [b"heard hello"]


# Orders


async def test_an_order_keeps_its_place_among_the_lines(tmp_path: Path) -> None:
    async with (
        RelayDoor().opened() as door,
        relay(door.url, tmp_path, keeps_a_diary(tmp_path)) as running,
    ):
        await door.greeted()
        await door.say(b"one")
        await door.order("close_input")
        await door.ended()
        assert await running.result() == 0
    assert diary(tmp_path) == ["one", "end of input"]
    assert door.lines[-1] == b"bye"


async def test_an_order_to_terminate_or_kill_is_followed(tmp_path: Path) -> None:
    async with (
        RelayDoor().opened() as door,
        relay(door.url, tmp_path, keeps_a_diary(tmp_path)),
    ):
        await door.has(1)
        await door.order("terminate")
        assert (await door.ended()).code == 7
    async with RelayDoor().opened() as door, relay(door.url, tmp_path, python(ECHO)):
        await door.greeted()
        await door.order("kill")
        assert (await door.ended()).signal == signal.SIGKILL


async def test_a_cli_deaf_to_its_termination_is_killed(tmp_path: Path) -> None:
    async with (
        RelayDoor().opened() as door,
        relay(door.url, tmp_path, keeps_a_diary(tmp_path, "deaf"), pace=HASTE),
    ):
        await door.has(1)
        await door.order("terminate")
        assert (await door.ended()).signal == signal.SIGKILL
    assert diary(tmp_path) == ["SIGTERM"]


async def test_an_order_that_is_not_known_takes_its_number_and_does_nothing(
    tmp_path: Path,
) -> None:
    async with RelayDoor().opened() as door, relay(door.url, tmp_path, python(ECHO)) as running:
        await door.greeted()
        await door.order("dance")
        await door.say(b"after")
        await door.has(1)
        await door.wrote(2)
        assert "dance" in running.said()
    assert door.lines == [b"heard after"]


async def test_an_order_to_end_goes_all_the_way_down(tmp_path: Path) -> None:
    async with (
        RelayDoor().opened() as door,
        relay(door.url, tmp_path, keeps_a_diary(tmp_path, "deaf"), pace=HASTE),
    ):
        await door.has(1)
        await door.order("end")
        assert (await door.ended()).signal == signal.SIGKILL
    assert diary(tmp_path) == [INTERRUPT, "end of input", "SIGTERM"]


# The last will


async def test_with_no_server_for_long_the_cli_is_ended_in_order(tmp_path: Path) -> None:
    async with RelayDoor().opened() as door:
        command = keeps_a_diary(tmp_path, "stays")
        async with relay(door.url, tmp_path, command, "--last-will", "0.3", pace=HASTE) as running:
            await door.has(1)
            cli = int(door.lines[0])
            await door.kill()
            assert await running.result() == 1
            await gone(cli)
            assert "no server for 0.3 s" in running.said()
    assert diary(tmp_path) == [INTERRUPT, "end of input", "SIGTERM"]
    assert not (running.spool / registry.NAME).exists()


async def test_a_server_that_comes_back_in_time_stays_the_last_will(tmp_path: Path) -> None:
    async with (
        RelayDoor().opened() as door,
        relay(door.url, tmp_path, python(ECHO), "--last-will", "30") as running,
    ):
        await door.greeted()
        await door.restart()
        await door.greeted(2)
        await door.say(b"still here")
        await door.has(1)
        assert "no server for" not in running.said()


async def test_a_relay_whose_cli_has_ended_waits_for_a_server_no_longer_than_its_will(
    tmp_path: Path,
) -> None:
    async with relay(
        "ws://127.0.0.1:9",
        tmp_path,
        python("print('unheard')"),
        *("--last-will", "0.5"),
        pace=HASTE,
    ) as running:
        assert await running.result() == 1
    assert not (running.spool / registry.NAME).exists()


# Refusals


@pytest.mark.parametrize(
    "code", [Refusal.TOKEN_REFUSED, Refusal.SESSION_UNKNOWN, Refusal.SESSION_ENDED]
)
async def test_a_permanent_refusal_executes_the_last_will_at_once(
    tmp_path: Path, code: Refusal
) -> None:
    async with RelayDoor().opened() as door:
        async with relay(
            door.url, tmp_path, keeps_a_diary(tmp_path, "stays"), pace=HASTE
        ) as running:
            await door.has(1)
            door.refusal = code
            await door.close_all(code)
            assert await running.result() == 1
            assert code.name in running.said()
        await gone(int(door.lines[0]))
    assert len(door.hellos) == 1
    assert diary(tmp_path) == [INTERRUPT, "end of input", "SIGTERM"]


async def test_a_wrong_token_is_refused_for_good(tmp_path: Path) -> None:
    async with (
        RelayDoor().opened() as door,
        relay(door.url, tmp_path, python(ECHO), token="another", pace=HASTE) as running,
    ):
        assert await running.result() == 1
    assert door.hellos == []


@pytest.mark.parametrize("code", [1000, 1001, 1011, 1012, Refusal.REPLACED, 4999])
async def test_any_other_close_code_is_followed_by_another_connection(
    tmp_path: Path, code: int
) -> None:
    async with RelayDoor().opened() as door, relay(door.url, tmp_path, python(ECHO)):
        await door.greeted()
        await door.close_all(code)
        await door.greeted(2)
        await door.say(b"hello")
        await door.has(1)


# Signals


async def test_a_relay_that_is_told_to_end_ends_its_cli_and_tells_the_door(
    tmp_path: Path,
) -> None:
    async with (
        RelayDoor().opened() as door,
        relay(door.url, tmp_path, keeps_a_diary(tmp_path), pace={**HASTE, "close": 5.0}) as running,
    ):
        await door.has(1)
        os.kill(running.pid, signal.SIGTERM)
        assert (await door.ended()).code == 0
        assert await running.result() == 0
    assert diary(tmp_path) == [INTERRUPT, "end of input"]


async def test_told_twice_it_kills(tmp_path: Path) -> None:
    patient = {"interrupt": 1000.0}
    async with (
        RelayDoor().opened() as door,
        relay(door.url, tmp_path, keeps_a_diary(tmp_path, "deaf"), pace=patient) as running,
    ):
        await door.has(1)
        os.kill(running.pid, signal.SIGTERM)
        while "told to end" not in running.said():  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.01)
        os.kill(running.pid, signal.SIGTERM)
        assert (await door.ended()).signal == signal.SIGKILL
