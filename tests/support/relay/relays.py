"""Starts relays for tests, and the small programs that stand in for the CLI."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.places import PROGRAMS
from tests.support.relay.door import SESSION, TOKEN
from tests.support.waiting import DEADLINE

PACE = {"first_delay": 0.02, "local_delay": 0.2, "replaced_delay": 0.05}

# Says so many lines, as many at a time as it is told.
SAYS = """
import sys
count, pad = int(sys.argv[1]), sys.argv[2]
for number in range(count):
    print(number, pad, flush=number % 50 == 0)
"""
ECHO = """
import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(b"heard " + line)
    sys.stdout.buffer.flush()
"""


@dataclass
class RunningRelay:
    """A relay that a test has started."""

    process: asyncio.subprocess.Process
    spool: Path
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    async def result(self) -> int:
        async with asyncio.timeout(DEADLINE):
            return await self.process.wait()

    def said(self) -> str:
        return self.log.read_text()


def python(source: str, *arguments: str) -> list[str]:
    return [sys.executable, "-S", "-c", source, *arguments]


@asynccontextmanager
async def relay(
    url: str,
    folder: Path,
    command: list[str],
    *options: str,
    pace: dict[str, float] | None = None,
    env: dict[str, str] | None = None,
    token: str = TOKEN,
    cwd: Path | None = None,
) -> AsyncIterator[RunningRelay]:
    """A relay, killed at the end of the test if it is still there."""
    spool, log = folder / "spool", folder / "log"
    readable, writable = os.pipe()
    os.write(writable, token.encode())
    os.close(writable)
    script = str(PROGRAMS / "run_relay.py")
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, script, json.dumps({**PACE, **(pace or {})}), "--connect", url),
            *("--session", SESSION, "--run", "a-run", "--token-fd", str(readable)),
            *("--spool", str(spool), *options, "--", *command),
            env={"PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(folder), **(env or {})},
            cwd=cwd,
            pass_fds=[readable],
            stdin=asyncio.subprocess.DEVNULL,
            stderr=stderr,
        )
    os.close(readable)
    try:
        yield RunningRelay(process, spool, log)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
