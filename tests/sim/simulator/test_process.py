"""The simulator as a process: its faults, its signals, its exit codes."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pilothouse import Client, Options, SessionEnded
from pilothouse_sim.executables import simulator_executable
from pilothouse_sim.real_cli import environment
from pilothouse_sim.scenario import Scenario, gate, reply, save
from pilothouse_sim.simulator.faults import GARBAGE, LONG_LINE
from tests.support.sim.client import FLAGS

DEADLINE = 60.0
PROMPT = {"type": "user", "message": {"role": "user", "content": "Hello."}}
GREETING = Scenario(replies=[reply("Ahoy."), reply("Ahoy again.")])
STORY = Scenario(replies=[reply("Once ", gate("never"), "upon a time")])


class Ship:
    """One simulator and its pipes."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def say(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def line(self) -> bytes:
        assert self.process.stdout is not None
        return await self.process.stdout.readline()

    async def until(self, kind: str) -> dict[str, Any]:
        """The next message of this type, whatever comes before it."""
        while line := await self.line():
            if line != GARBAGE and (message := json.loads(line))["type"] == kind:
                return message
        raise AssertionError(f"it ended without a {kind}")

    async def rest(self) -> list[bytes]:
        """What it still writes."""
        assert self.process.stdout is not None
        return (await self.process.stdout.read()).splitlines(keepends=True)

    async def code(self) -> int:
        return await self.process.wait()


class Yard:
    """Builds simulators in one home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.stage = home / "stage"
        self.stage.mkdir()

    def environment(self, faults: str = "", scenario: Scenario = GREETING) -> dict[str, str]:
        script = self.home / "scenario.json"
        save(scenario, script)
        # Nobody listens there: the simulator calls no model.
        return environment(
            self.home,
            "http://127.0.0.1:9",
            PILOTHOUSE_SCENARIO=str(script),
            PILOTHOUSE_STAGE=str(self.stage),
            PILOTHOUSE_FAULTS=faults,
        )

    @asynccontextmanager
    async def launch(
        self, *flags: str, faults: str = "", scenario: Scenario = GREETING
    ) -> AsyncIterator[Ship]:
        """A simulator with these flags, for as long as the test needs it."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "pilothouse_sim.simulator",
            *(flags or FLAGS),
            cwd=self.home,
            env=self.environment(faults, scenario),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=2 * LONG_LINE,
        )
        try:
            async with asyncio.timeout(DEADLINE):
                yield Ship(process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


# Faults


async def test_with_a_delay_every_line_still_comes(yard: Yard) -> None:
    async with yard.launch(faults="delay=0.01") as ship:
        ship.say(PROMPT)
        assert (await ship.until("result"))["result"] == "Ahoy."
        ship.leave()
        assert await ship.code() == 0


@pytest.mark.parametrize(("fault", "code"), [("crash=2", 1), ("crash=2:9", -9)])
async def test_a_crash_comes_after_so_many_lines(yard: Yard, fault: str, code: int) -> None:
    async with yard.launch(faults=fault) as ship:
        ship.say(PROMPT)
        assert len(await ship.rest()) == 2
        assert await ship.code() == code


async def test_one_that_hangs_writes_nothing_more_and_stays(yard: Yard) -> None:
    async with yard.launch(faults="hang=1") as ship:
        ship.say(PROMPT)
        assert json.loads(await ship.line())["type"] == "system"
        ship.say(PROMPT)
        ship.leave()
        ship.process.kill()
        assert await ship.rest() == []
        assert await ship.code() == -9


async def test_one_that_hangs_ends_with_a_signal(yard: Yard) -> None:
    async with yard.launch(faults="hang=1") as ship:
        ship.say(PROMPT)
        await ship.line()
        ship.process.terminate()
        assert await ship.code() == 128 + signal.SIGTERM


async def test_garbage_stands_before_the_line(yard: Yard) -> None:
    async with yard.launch(faults="garbage=2") as ship:
        ship.say(PROMPT)
        await ship.line()
        assert await ship.line() == GARBAGE
        assert (await ship.until("result"))["result"] == "Ahoy."


async def test_one_that_ignores_the_end_of_its_input_serves_on(yard: Yard) -> None:
    async with yard.launch(faults="ignore-eof", scenario=STORY) as ship:
        ship.say(PROMPT)
        await reached(yard.stage / "never.reached")
        ship.leave()
        (yard.stage / "never.open").touch()
        assert (await ship.until("result"))["result"] == "Once upon a time"
        ship.process.terminate()
        assert await ship.code() == 128 + signal.SIGTERM


async def test_an_unknown_fault_is_named(yard: Yard) -> None:
    async with yard.launch(faults="mutiny=1") as ship:
        _, stderr = await ship.process.communicate()
        assert b"mutiny" in stderr
        assert await ship.code() == 1


# Faults as our own client sees them


def options(yard: Yard, faults: str) -> Options:
    program = simulator_executable(yard.home / "bin")
    return Options(cli_path=program, cwd=yard.home, env=yard.environment(faults), inherit_env=False)


async def test_the_client_reads_a_line_of_twenty_million_bytes(yard: Yard) -> None:
    async with asyncio.timeout(DEADLINE), Client(options(yard, "long=3")) as client:
        turn = await client.ask("Hello.")
        assert turn.text == "Ahoy."


async def test_the_client_passes_over_garbage(yard: Yard) -> None:
    async with asyncio.timeout(DEADLINE), Client(options(yard, "garbage=3")) as client:
        turn = await client.ask("Hello.")
        assert turn.text == "Ahoy."


async def test_the_client_tells_of_a_crash(yard: Yard) -> None:
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(SessionEnded):
            async with Client(options(yard, "crash=4")) as client:
                await client.ask("Hello.")


# Signals and exit codes


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 0)]
)
async def test_a_signal_in_a_turn_ends_it(yard: Yard, number: signal.Signals, code: int) -> None:
    async with yard.launch(scenario=STORY) as ship:
        ship.say(PROMPT)
        await reached(yard.stage / "never.reached")
        ship.process.send_signal(number)
        lines = await ship.rest()
        assert await ship.code() == code
    results = [line for line in lines if json.loads(line)["type"] == "result"]
    assert len(results) == (number == signal.SIGINT)


async def test_input_that_ends_at_once_is_no_error(yard: Yard) -> None:
    async with yard.launch() as ship:
        ship.leave()
        assert await ship.rest() == []
        assert await ship.code() == 0


async def test_a_bad_line_ends_it_with_a_word_on_stderr(yard: Yard) -> None:
    async with yard.launch() as ship:
        assert ship.process.stdin is not None
        ship.process.stdin.write(b"null\n")
        stdout, stderr = await ship.process.communicate()
        assert (stdout, await ship.code()) == (b"", 1)
        assert stderr.startswith(b"Error parsing streaming input line")


async def test_a_bad_flag_ends_it_before_it_starts(yard: Yard) -> None:
    async with yard.launch("--no-such-flag") as ship:
        _, stderr = await ship.process.communicate()
        assert (stderr, await ship.code()) == (b"error: unknown option '--no-such-flag'\n", 1)


async def test_it_says_which_version_it_stands_for(yard: Yard) -> None:
    async with yard.launch("--version") as ship:
        assert await ship.rest() == [b"2.1.325 (Claude Code)\n"]


async def reached(sign: Path) -> None:
    """Waits for the sign that the model stands at a gate; nothing tells of it."""
    while not sign.exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.01)
