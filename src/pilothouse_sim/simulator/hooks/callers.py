"""Calls one hook: asks the client, or runs a command."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse_sim.simulator.hooks.outputs import Heard
from pilothouse_sim.simulator.hooks.table import CallbackHook, CommandHook, Hook
from pilothouse_sim.simulator.outlet import ClientGone, ClientRefused, new_id

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    from pilothouse_sim.simulator.state import SessionState

__all__ = ["call"]

DEFAULT_TIMEOUT = 60.0
ALWAYS_SHOWN = frozenset({"SessionStart", "Setup"})
"""Events whose commands are told of whether or not the client asked for it."""
NEVER_SHOWN = frozenset({"SessionEnd"})
PROGRESS = 1.0
"""Seconds between two looks at what a command has written so far."""


async def call(
    state: SessionState, hook: Hook, told: dict[str, Any], tool_use_id: str, name: str
) -> Heard:
    """Call a hook and return what it says; `name` is how it is shown."""
    if isinstance(hook, CallbackHook):
        return await _call_back(state, hook, told, tool_use_id)
    return await _run(state, hook, told, name)


async def _call_back(
    state: SessionState, hook: CallbackHook, told: dict[str, Any], tool_use_id: str
) -> Heard:
    timeout = hook.timeout or DEFAULT_TIMEOUT
    asking = state.outlet.ask(
        "hook_callback", callback_id=hook.id, input=told, tool_use_id=tool_use_id
    )
    try:
        async with asyncio.timeout(timeout):
            output: dict[str, Any] | None = await asking
    except TimeoutError:
        return Heard(timeout=timeout)
    except ClientRefused:
        return Heard(failure=_failure(told["hook_event_name"], hook.id))
    except ClientGone:
        return Heard()
    return Heard(output=output or {})


def _failure(event: str, callback_id: str) -> dict[str, Any]:
    words = "the SDK host replied with an error or an invalid answer"
    told = f"{event}: Hook callback {callback_id} failed: {words}."
    return {
        "content": f"{told} Its answer was treated as empty.",
        "level": "warning",
        "tag": "hook_callback_failed",
    }


async def _run(state: SessionState, hook: CommandHook, told: dict[str, Any], name: str) -> Heard:
    show = _shower(state, told["hook_event_name"], name)
    show("hook_started")
    run = _Run()
    progress = asyncio.create_task(_tell_progress(run, show))
    try:
        code = await run.run(state, hook, told)
    finally:
        progress.cancel()
    outcome = "success" if code == 0 else "error"
    show("hook_response", **run.written(), exit_code=code, outcome=outcome)
    return _read(hook.command, run.out, run.err, code)


def _shower(state: SessionState, event: str, name: str) -> Callable[..., None]:
    """Write lines about one run, or do nothing if nobody wants to see them."""
    names = {"hook_id": new_id(), "hook_name": name, "hook_event": event}
    wanted = state.launch.include_hook_events and event not in NEVER_SHOWN

    def show(subtype: str, **fields: Any) -> None:
        if wanted or event in ALWAYS_SHOWN:
            state.outlet.system(subtype, **names, **fields)

    return show


async def _tell_progress(run: _Run, show: Callable[..., None]) -> None:
    told = ""
    while True:
        await asyncio.sleep(PROGRESS)
        written = run.written()
        if written["output"] != told:
            told = written["output"]
            show("hook_progress", **written)


class _Run:
    """A command on its way, and what it has written."""

    def __init__(self) -> None:
        self.out = ""
        self.err = ""
        self._both = ""

    def written(self) -> dict[str, str]:
        """What it has written so far."""
        return {"output": self._both, "stdout": self.out, "stderr": self.err}

    async def run(self, state: SessionState, hook: CommandHook, told: dict[str, Any]) -> int:
        """Run it to its end, or for as long as it may take."""
        process = await _start(state, hook.command)
        assert process.stdin
        assert process.stdout
        assert process.stderr
        try:
            async with asyncio.timeout(hook.timeout):
                with contextlib.suppress(ConnectionError):
                    process.stdin.write(msgspec.json.encode(told) + b"\n")
                    await process.stdin.drain()
                process.stdin.close()
                await asyncio.gather(
                    self._collect(process.stdout, "out"), self._collect(process.stderr, "err")
                )
                return await process.wait()
        except BaseException:
            _end_group(process.pid)
            await process.wait()
            raise

    async def _collect(self, stream: asyncio.StreamReader, name: str) -> None:
        while data := await stream.read(1 << 16):
            text = data.decode(errors="replace")
            setattr(self, name, getattr(self, name) + text)
            self._both += text


async def _start(state: SessionState, command: str) -> Process:
    return await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        command,
        cwd=state.cwd,
        env={**state.environment, "CLAUDE_PROJECT_DIR": str(state.original_cwd)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )


def _end_group(pid: int) -> None:
    # Only ever called for a command of ours that has not been reaped yet.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _read(command: str, out: str, err: str, code: int) -> Heard:
    if code == 2:
        return Heard(command=command, objection=err)
    if code != 0:
        return Heard(command=command)
    if out.lstrip().startswith("{"):
        try:
            return Heard(command=command, output=msgspec.json.decode(out, type=dict[str, Any]))
        except msgspec.DecodeError:
            pass
    return Heard(command=command, words=out.strip())
