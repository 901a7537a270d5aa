"""What is said of the running server, and its end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from pilothouse.server import runtime
from pilothouse.server.status import stop
from pilothouse.settings import load
from tests.support.waiting import DEADLINE

# It hears the signal, and ends when it is let.
LINGERS = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"told\\n"))
print("there", flush=True)
sys.stdin.read()
"""


async def test_the_server_has_ended_when_its_process_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load(env={"HOME": str(tmp_path)})
    settings.runtime_dir.mkdir(parents=True, mode=0o700)
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LINGERS),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    running = runtime.Running(
        address="http://127.0.0.1:1", token="t" * 40, pid=server.pid, version="0", started_at=0
    )
    monkeypatch.setattr(runtime, "find", lambda _: running)
    async with asyncio.timeout(DEADLINE):
        assert await server.stdout.readline() == b"there\n"
        stopping = asyncio.create_task(asyncio.to_thread(stop, settings))
        # Nobody holds the lock, as when a server has closed all but itself.
        assert await server.stdout.readline() == b"told\n"
        done, _ = await asyncio.wait([stopping], timeout=0.2)
        assert not done
        server.stdin.close()
        assert await stopping == "the server at http://127.0.0.1:1 has ended"
        assert await server.wait() == 0
