"""A signal ends the simulator whatever it waits for, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import DEADLINE

FLAGS = (
    *("-p", "--output-format=stream-json", "--input-format=stream-json", "--verbose"),
    "--permission-prompt-tool=stdio",
)
PROMPT = {"type": "user", "message": {"role": "user", "content": "hello"}}
WAITS = "touch started; exec sleep 321"


def hooks(event: str) -> str:
    """Settings with a hook that never ends."""
    hook = {"hooks": [{"type": "command", "command": WAITS}]}
    return f"--settings={json.dumps({'hooks': {event: [hook]}})}"


@asynccontextmanager
async def running(folder: Path, *flags: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A simulator in a folder of its own, which is ended if the test has not done so."""
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pilothouse_sim.simulator", *FLAGS, *flags),
        cwd=folder,
        env=environment | {"CLAUDE_CONFIG_DIR": str(folder / ".claude")},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 26,
    )
    try:
        async with asyncio.timeout(DEADLINE):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def send(process: asyncio.subprocess.Process, *messages: dict[str, Any]) -> None:
    assert process.stdin is not None
    for message in messages:
        process.stdin.write(json.dumps(message).encode() + b"\n")


async def exists(file: Path) -> None:
    while not file.exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.01)


async def line_with(process: asyncio.subprocess.Process, words: bytes) -> None:
    assert process.stdout is not None
    while words not in await process.stdout.readline():
        pass


def is_alive(folder: Path) -> bool:
    """Whether a process of the test's own folder is left."""
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if entry.readlink() == folder:
                return True
        except OSError:
            continue
    return False


@pytest.mark.parametrize("event", ["UserPromptSubmit", "SessionStart"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
async def test_a_hook_that_never_ends_does_not_keep_it(
    tmp_path: Path, event: str, number: signal.Signals, code: int
) -> None:
    async with running(tmp_path, hooks(event)) as process:
        send(process, PROMPT)
        await exists(tmp_path / "started")
        process.send_signal(number)
        await process.communicate()
    assert process.returncode == code
    assert not is_alive(tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"hooks": {"UserPromptSubmit": [{"hookCallbackIds": ["never"]}]}},
        {"sdkMcpServers": ["mute"]},
    ],
)
async def test_a_client_that_never_answers_does_not_keep_it(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    request = {"subtype": "initialize", **options}
    async with running(tmp_path) as process:
        send(process, {"type": "control_request", "request_id": "1", "request": request}, PROMPT)
        await line_with(process, b'"type":"control_request"')
        process.send_signal(signal.SIGINT)
        out, _ = await process.communicate()
    assert process.returncode == 0
    assert b"[Request interrupted by user]" in out


def test_a_client_that_does_not_read_does_not_keep_it(tmp_path: Path) -> None:
    scenario = tmp_path / "long.json"
    steps = [{"type": "text", "text": "x" * 4_000_000}]
    scenario.write_text(json.dumps({"replies": [{"type": "reply", "steps": steps}]}))
    with subprocess.Popen(
        [sys.executable, "-m", "pilothouse_sim.simulator", *FLAGS],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PILOTHOUSE_SCENARIO": str(scenario)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(PROMPT).encode() + b"\n")
        process.stdin.flush()
        while b'"init"' not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(DEADLINE) == 143
        finally:
            process.kill()


async def test_requests_that_came_before_the_end_are_answered(tmp_path: Path) -> None:
    request = {"subtype": "generate_session_title", "description": "x", "persist": False}
    async with running(tmp_path) as process:
        send(process, {"type": "control_request", "request_id": "1", "request": request})
        out, _ = await process.communicate(b"")
    assert b'"request_id":"1"' in out
