"""A tool that hides its processes from whoever would end them, each in another way."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from pilothouse_sim.scenario import Reply, reply, tool
from tests.support.processes import guard_pid
from tests.support.waiting import DEADLINE

_STAYS = "trap '' HUP INT TERM; echo $$ >> hidden; exec sleep 1000"
_WAYS = (
    f'nohup sh -c "{_STAYS}"',
    f'setsid sh -c "{_STAYS}"',
    f'(setsid setsid sh -c "{_STAYS}" &)',
    f'env -i /bin/sh -c "PATH=/usr/bin:/bin; {_STAYS}"',
    f'env -i setsid nohup /bin/sh -c "PATH=/usr/bin:/bin; {_STAYS}"',
)
HIDING: Reply = reply(
    tool(
        "Bash",
        command="; ".join(
            f"{way.replace('$$', chr(92) + '$$')} </dev/null >/dev/null 2>&1 & :" for way in _WAYS
        )
        + "; sleep 1000",
        description="Hide",
    )
)
"""Starts them all and goes on for long: whoever is ended meanwhile is ended in mid-tool."""


async def hidden(folder: Path) -> list[int]:
    """Wait until all of them run; their pids."""
    file = folder / "hidden"
    async with asyncio.timeout(DEADLINE):
        # A file has no event.
        while not file.exists() or len(file.read_text().splitlines()) < len(_WAYS):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return [int(line) for line in file.read_text().split()]


def guards(cli: int) -> dict[str, int]:
    """The guard of a CLI that is a child of ours, and the process that watches over it."""
    guard = guard_pid(cli)
    above = guard_pid(guard)
    assert guard_pid(above) == os.getpid()
    return {"guard": guard, "watcher": above}
