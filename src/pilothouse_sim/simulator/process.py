"""One run of the CLI: its session from the first byte to the exit code, and the signals between."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

from pilothouse.protocol.connection import Connection, Role
from pilothouse_sim.simulator import resume
from pilothouse_sim.simulator.client_input import BadInput, ClientInput
from pilothouse_sim.simulator.outlet import Outlet, new_id
from pilothouse_sim.simulator.print_mode import NoPrompt
from pilothouse_sim.simulator.session import SimulatedSession
from pilothouse_sim.simulator.turns import Turns

if TYPE_CHECKING:
    from pilothouse_sim.simulator.flags import LaunchFlags
    from pilothouse_sim.simulator.model import Model
    from pilothouse_sim.simulator.wire_ends import WireEnd

__all__ = ["run"]

PARTING = 1.0
"""Seconds a client has to take what is left once a signal has ended the CLI."""


async def run(launch: LaunchFlags, end: WireEnd, model: Model) -> int:
    """Serve one client until it goes, and return the exit code."""
    connection = Connection(Role.CLI, new_request_id=new_id)
    try:
        past = resume.find(launch, os.environ)
    except resume.NothingToResume as refusal:
        return await _refuse(refusal, connection, end, launch)
    outlet = Outlet(connection, end, resume.own_id(launch, past))
    session = SimulatedSession(launch, os.environ, outlet, model)
    if past is not None:
        resume.restore(session, past)
    reception = ClientInput(session)
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    _heed_signals(session, ended)
    tasks: list[asyncio.Task[None]] = []
    try:
        tasks.append(asyncio.create_task(session.begin("startup" if past is None else "resume")))
        await _first(tasks[-1], ended)
        turns = asyncio.create_task(Turns(session).run())
        tasks += [turns, asyncio.create_task(end.start(reception))]
        await _first(tasks[-1], ended)
        await asyncio.wait({turns, reception.failed, ended}, return_when=asyncio.FIRST_COMPLETED)
        code = _code(session, reception, turns, ended)
        if not ended.done():
            await reception.finish()
        return code
    except (NoPrompt, BadInput) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await session.aclose()
        await _close(end, patiently=not ended.done())


async def _first(task: asyncio.Task[None], ended: asyncio.Future[int]) -> None:
    """Wait for a step of the start, unless a signal comes before it is done."""
    await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()


async def _close(end: WireEnd, *, patiently: bool) -> None:
    """Let what was written through; after a signal, only as much as the client takes at once."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None if patiently else PARTING):
            await end.aclose()


async def _refuse(
    refusal: resume.NothingToResume, connection: Connection, end: WireEnd, launch: LaunchFlags
) -> int:
    if launch.output_format == "stream-json":
        await end.start(_Deaf())
        resume.refuse(Outlet(connection, end, refusal.session_id), refusal)
        await end.aclose()
    sys.stderr.write(f"{refusal}\n")
    return 1


class _Deaf:
    """Listens to nobody."""

    def data_received(self, data: bytes) -> None:
        pass

    def eof_received(self) -> None:
        pass


def _code(
    session: SimulatedSession,
    reception: ClientInput,
    turns: asyncio.Task[None],
    ended: asyncio.Future[int],
) -> int:
    if ended.done():
        return ended.result()
    if reception.failed.done():
        reception.failed.result()
    turns.result()
    return session.exit_code


def _heed_signals(session: SimulatedSession, ended: asyncio.Future[int]) -> None:
    loop = asyncio.get_running_loop()

    def end_with(code: int) -> None:
        if not ended.done():
            session.state.outlet.fall_silent()
            ended.set_result(code)

    loop.add_signal_handler(signal.SIGTERM, end_with, 128 + signal.SIGTERM)
    loop.add_signal_handler(signal.SIGHUP, end_with, 128 + signal.SIGHUP)

    def leave() -> None:
        session.leave()
        if not session.has_begun:
            end_with(0)

    loop.add_signal_handler(signal.SIGINT, leave)
