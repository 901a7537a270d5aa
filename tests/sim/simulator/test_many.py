"""Many simulators at once: they start, talk, ask, end, and leave nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import pytest

from pilothouse_sim.executables import simulator_executable
from pilothouse_sim.real_cli import environment
from pilothouse_sim.scenario import Scenario, reply, save, tool

AT_ONCE = 50
DEADLINE = 120.0
"""Seconds for one of them, on a machine with fifty of them at work."""

ARGUMENTS = (
    "-p",
    "--output-format=stream-json",
    "--input-format=stream-json",
    "--verbose",
    "--permission-prompt-tool=stdio",
)
SCENARIO = Scenario(replies=[reply(tool("Bash", command="echo ahoy > log")), reply("Logged.")])
PROMPT = {"type": "user", "message": {"role": "user", "content": "Keep the log."}}


class Crew:
    """Simulators of one home, started in groups of their own, with what became of each."""

    def __init__(self, home: Path) -> None:
        script = home / "scenario.json"
        save(SCENARIO, script)
        self._home = home
        self._program = str(simulator_executable(home))
        # Nobody listens there: the simulator calls no model.
        self._env = environment(home, "http://127.0.0.1:9", PILOTHOUSE_SCENARIO=str(script))
        self._berths = asyncio.Semaphore(AT_ONCE)
        self.groups: list[int] = []

    async def sail(self, number: int) -> tuple[int, str, str, str]:
        """Starts one, takes a turn with it, closes its input and waits for its end."""
        cwd = self._home / str(number)
        cwd.mkdir()
        async with self._berths, asyncio.timeout(DEADLINE):
            with (cwd / "stderr").open("wb") as stderr:
                process = await self._start(cwd, stderr)
            try:
                said = await take_turn(process)
                code = await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        return code, said, read(cwd / "log"), read(cwd / "stderr")

    async def _start(self, cwd: Path, stderr: IO[bytes]) -> Process:
        process = await asyncio.create_subprocess_exec(
            *(self._program, *ARGUMENTS),
            cwd=cwd,
            env=self._env,
            stdin=PIPE,
            stdout=PIPE,
            stderr=stderr,
            start_new_session=True,
        )
        self.groups.append(process.pid)
        return process

    def left(self) -> list[int]:
        """Our groups in which somebody still lives, and whoever works in our folders."""
        groups = [group for group in self.groups if is_alive(group)]
        return groups + [pid for pid, cwd in folders() if cwd.is_relative_to(self._home)]


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def take_turn(process: Process) -> str:
    """Prompts, allows what is asked, and closes the input at the result, which it returns."""
    assert process.stdin is not None
    assert process.stdout is not None
    say(process, PROMPT)
    result = ""
    while line := await process.stdout.readline():
        message = json.loads(line)
        if message["type"] == "control_request":
            say(process, allowed(message))
        if message["type"] == "result":
            result = message["result"]
            process.stdin.close()
    return result


def say(process: Process, message: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")


def allowed(asked: dict[str, Any]) -> dict[str, Any]:
    answer = {"behavior": "allow", "updatedInput": asked["request"]["input"]}
    body = {"subtype": "success", "request_id": asked["request_id"], "response": answer}
    return {"type": "control_response", "response": body}


def is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def folders() -> list[tuple[int, Path]]:
    """The working directory of every process that shows it, where the system has `/proc`."""
    found: list[tuple[int, Path]] = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        # Others come and go meanwhile, and not all of them are ours to look at.
        with suppress(OSError):
            found.append((int(link.parent.name), link.readlink()))
    return found


@pytest.mark.parametrize("count", [60, pytest.param(500, marks=pytest.mark.slow)])
async def test_many_simulators_fifty_at_a_time_leave_no_process(tmp_path: Path, count: int) -> None:
    crew = Crew(tmp_path)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(crew.sail(number)) for number in range(count)]
    assert len(crew.groups) == count
    assert {task.result() for task in tasks} == {(0, "Logged.", "ahoy\n", "")}
    assert crew.left() == []
