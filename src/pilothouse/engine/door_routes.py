"""Ways to CLIs that are not children of the engine: they come in through its doors."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pilothouse.api.requests import SessionOptions
from pilothouse.api.results import Runner
from pilothouse.api.values import Reached, Via
from pilothouse.client.client import Carry
from pilothouse.client.launch import Launch
from pilothouse.client.locate import ask_version
from pilothouse.doors.dialect import SdkUrlTransport, refuses
from pilothouse.doors.dialling_process import FINAL, hand_started, launched
from pilothouse.doors.door import Doors
from pilothouse.doors.left_transport import Leftover, LeftTransport
from pilothouse.doors.local import LocalRelays
from pilothouse.doors.relay_transport import RelayTransport
from pilothouse.doors.runners import Runners
from pilothouse.doors.tokens import Keyring
from pilothouse.errors import CLINotStarted, InvalidOption, NotNow, UsageError
from pilothouse.journal.contract import Journal, RunRow
from pilothouse.relay.refusals import Refusal
from pilothouse.transport import SpawnFailed, Transport

from .client_restore import greeting_id
from .recorder import RunLedger, carried
from .routes import Route, Told
from .view import View

__all__ = ["DoorRoutes"]

DIALLING: Final = ("sdk-url", "sdk-url-hybrid")
REMOTE_COMMAND: Final = ("claude",)
"""What a runner puts its own CLI in the place of."""
SECOND_LOOK: Final = 60.0
"""Seconds in which a relay that can connect has tried to, twice."""

log = logging.getLogger("pilothouse")


class DoorRoutes:
    """Implements `Routes` with relays, here and on other machines, and the CLI's own dial-in."""

    def __init__(
        self,
        journal: Journal,
        doors: Doors,
        local: LocalRelays,
        runners: Runners,
        keyring: Keyring,
        *,
        cli: Path,
        env: Mapping[str, str],
        via: Via = "relay",
        dial: str = "",
        last_will: float,
    ) -> None:
        self.journal = journal
        self.doors = doors
        self.local = local
        self.keyring = keyring
        self.last_will = last_will
        self.dial = dial
        """Where a CLI of this machine dials in by itself, as ws://HOST:PORT."""
        self._cli = cli
        self._env = env
        self._via: Via = via
        self._runners = runners
        self._routes: dict[str, DoorRoute] = {}
        self._dialled: dict[str, SdkUrlTransport] = {}
        """Of CLIs that somebody starts by hand, and no client has yet, by session."""
        self._wills: dict[str, asyncio.TimerHandle] = {}
        self._missed: dict[str, list[DoorRoute]] = {}
        runners.changed = self._runner_changed
        runners.gone = self._run_gone

    # Routes

    async def check(self, options: SessionOptions) -> None:
        """Refuse a machine or a way that there is not."""
        if options.machine is None:
            if options.via in DIALLING:
                await self._check_dialling()
            return
        if options.via not in (None, "relay"):
            raise InvalidOption("a CLI on another machine is reached via its relay; leave via out")
        if not self._runners.is_trusted(options.machine):
            names = ", ".join(each.name for each in self._runners.listed()) or "none yet"
            raise InvalidOption(f"there is no runner {options.machine}; those there are: {names}")
        self._check_reachable(options.machine)

    def _check_reachable(self, machine: str) -> None:
        runner = self._runners.state(machine)
        if runner is None or runner.state == "connected":
            return
        if runner.state == "draining":
            advice = f"choose another, or let it: pilothouse runners undrain {machine}"
            raise NotNow(f"the machine {machine} takes no new sessions", advice=advice)
        where = f" on {runner.host}" if runner.host else ""
        advice = f"start its runner{where}: pilothouse runner; or choose another machine"
        raise NotNow(f"the machine {machine} is {runner.state}", advice=advice)

    async def _check_dialling(self) -> None:
        refusal = await self.dialling_trouble()
        if refusal is not None:
            raise InvalidOption(refusal)

    # CLIs that somebody starts by hand

    async def dialling_trouble(self) -> str | None:
        version = await asyncio.to_thread(ask_version, self._cli, self._env)
        return refuses(version) if version is not None else None

    def expect(self, session_id: str, came: Callable[[], None]) -> tuple[str, str]:
        transport = hand_started(session_id=session_id, run=uuid.uuid4().hex)
        transport.arrived = came
        self._dialled[session_id] = transport
        self.doors.expect(transport)
        token = self.keyring.issue(session_id, transport.run)
        return f"{self.dial.rstrip('/')}/ws/{session_id}", token

    def expect_no_more(self, session_id: str, because: str) -> None:
        transport = self._dialled.pop(session_id, None)
        if transport is not None:
            self.doors.forget(transport.run)
            transport.send_away(FINAL, because)

    def begin(self, view: View, told: Told, locks: Callable[[], Sequence[int]]) -> Route:
        """A way for a CLI that is to be started."""
        if (dialled := self._dialled.pop(view.session_id, None)) is not None:
            return self._found(view, dialled, told)
        machine = view.options.machine or ""
        via = "relay" if machine else view.options.via or self._via
        if via == "stdio":
            return Route()
        route = DoorRoute(self, view.session_id, uuid.uuid4().hex, via, machine, told, locks)
        self._routes[route.run] = route
        return route

    def _found(self, view: View, dialled: SdkUrlTransport, told: Told) -> DoorRoute:
        """The way to a CLI that somebody has started by hand, and that is at the door."""
        route = DoorRoute(self, view.session_id, dialled.run, "dial-in", "", told, tuple)
        route.take_dialled(dialled)
        self._routes[route.run] = route
        return route

    def find(self, view: View, row: RunRow, told: Told) -> Route | None:
        """The way to a CLI whose relay still lives, as far as can be known now."""
        found = None if view.machine else self.local.find(view.run)
        left = None if view.machine or found is not None else self.local.left(view.run)
        if left is not None and left.session_id == view.session_id:
            route = DoorRoute(self, view.session_id, view.run, "relay", "", told, tuple)
            route.tell_left(left, row)
            return route
        here = found is not None or self.local.is_starting(view.run)
        may_live = self._runners.is_trusted(view.machine) if view.machine else here
        if view.via != "relay" or not may_live:
            self.local.clear(view.run)
            return None
        if here and found is None:
            about = {"session_id": view.session_id, "run": view.run}
            log.warning("a relay is starting, or cannot say who it is: waiting for it", extra=about)
        route = DoorRoute(self, view.session_id, view.run, "relay", view.machine, told, tuple)
        self._routes[view.run] = route
        if view.machine:
            self._runners.believe(view.machine, view.run)
        route.take_up(row, None if found is None else found.cli_pid)
        return route

    def tidy(self, runs: Collection[str]) -> None:
        """Forget what relays have left of all runs but these."""
        self.local.tidy(runs)

    async def has_transcript(self, machine: str, conversation: str) -> bool:
        try:
            return await self._runners.find(machine, conversation)
        except SpawnFailed as error:
            raise CLINotStarted(str(error)) from error

    def trouble(self, machine: str) -> str:
        state = self._runners.state(machine) if machine else None
        if state is None or state.state in ("connected", "draining"):
            return ""
        return f"the machine {machine}, which is {state.state}"

    # Relays

    async def start_relay(self, route: DoorRoute, launch: Launch) -> None:
        """Have a relay started here or there; raises `SpawnFailed`."""
        token = self.keyring.issue(route.session_id, route.run)
        files = await asyncio.to_thread(launch.read_files)
        # The relay has its own, for as long as it lives.
        launch.clean_up()
        if route.machine:
            await self._runners.start(
                route.machine,
                session_id=route.session_id,
                run=route.run,
                token=token,
                argv=launch.argv,
                env=launch.env,
                cwd=launch.cwd or "",
                last_will=self.last_will,
                files=files,
            )
        else:
            await self.local.start(
                launch.argv,
                launch.env,
                launch.cwd,
                session_id=route.session_id,
                run=route.run,
                hold=route.locks(),
                files=files,
            )
            route.watch()

    def end_relay(self, route: DoorRoute) -> bool:
        """Have a relay ended that does not answer, with its CLI; whether that is under way."""
        if not route.machine:
            return self.local.end(route.run)
        self._runners.end(route.machine, route.run)
        return not self.trouble(route.machine)

    def ended(self, run: str) -> None:
        """Forget a run: its token is refused from now on."""
        route = self._routes.pop(run, None)
        if route is not None and not route.machine:
            self.local.clear(run)
        self._runners.forget(run)
        self.doors.forget(run)

    # Runners

    def runners(self) -> list[Runner]:
        return [
            Runner(
                name=each.name,
                state=each.state,
                since=each.since,
                host=each.host,
                version=each.program,
                cli_version=each.cli_version,
                sessions=[p.session_id for p in self._routes.values() if p.machine == each.name],
            )
            for each in self._runners.listed()
            if each.state != "revoked"
        ]

    def add_runner(self, name: str) -> str:
        try:
            return self._runners.add(name)
        except ValueError as error:
            raise UsageError(str(error)) from None

    def drain_runner(self, name: str, *, draining: bool) -> None:
        self._runners.drain(name, draining)

    def revoke_runner(self, name: str) -> None:
        self._runners.revoke(name)

    def _of(self, machine: str) -> list[DoorRoute]:
        return [each for each in self._routes.values() if each.machine == machine]

    def _run_gone(self, machine: str, run: str, reason: str) -> None:
        route = self._routes.get(run)
        if route is None:
            return
        if not self._runners.is_trusted(machine):
            route.refuse(Refusal.TOKEN_REFUSED)
        route.lost(reason)

    def _runner_changed(self, name: str) -> None:
        """A machine that stays away for as long as its relays would wait has none of them left."""
        will = self._wills.pop(name, None)
        if will is not None:
            will.cancel()
        self._missed.pop(name, None)
        state = self._runners.state(name)
        if state is not None and state.state == "lost":
            self._after(self.last_will, name, self._miss)

    def _after(self, delay: float, name: str, step: Callable[[str], None]) -> None:
        self._wills[name] = asyncio.get_running_loop().call_later(delay, step, name)

    def _miss(self, name: str) -> None:
        """Look twice: a relay that goes on without its runner may just be connecting anew."""
        self._missed[name] = [each for each in self._of(name) if not each.connected]
        self._after(min(SECOND_LOOK, self.last_will), name, self._give_up)

    def _give_up(self, name: str) -> None:
        for route in self._missed.pop(name):
            if not route.connected:
                route.give_up(f"the machine {name} has been gone for {self.last_will:g} s")
        # Those that are here may be gone later.
        self._after(self.last_will, name, self._miss)

    async def aclose(self) -> None:
        """Let every runner go, which comes back when there is a server again."""
        for will in self._wills.values():
            will.cancel()
        await self._runners.aclose()


class DoorRoute(Route):
    """One CLI that comes in through a door."""

    def __init__(
        self,
        routes: DoorRoutes,
        session_id: str,
        run: str,
        via: Reached,
        machine: str,
        told: Told,
        locks: Callable[[], Sequence[int]],
    ) -> None:
        self.session_id = session_id
        self.run = run
        self.via = via
        self.machine = machine
        self.locks = locks
        self._routes = routes
        self._told = told
        self._ledger = RunLedger(routes.journal, session_id, run)
        self._transport: RelayTransport | SdkUrlTransport | LeftTransport | None = None
        self._end_watch: Callable[[], None] | None = None

    @property
    def connected(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # read-only
        return self._transport is not None and self._transport.connected

    @property
    def outlives_us(self) -> bool:
        return self.via == "relay"

    def client_parts(self, view: View) -> dict[str, Any]:
        parts: dict[str, Any] = {"greeting_id": greeting_id(self.run)}
        if self._transport is not None:
            foreign = {"foreign": True} if self.via == "dial-in" else {}
            return parts | {"transport": self._transport} | foreign
        carry: Carry = self._carry
        there = {"command": lambda: REMOTE_COMMAND} if self.machine else {}
        return parts | {"carry": carry} | there

    def _carry(self, launch: Launch) -> Transport:
        if self.via == "relay":
            start = self._routes.start_relay
            transport = self._relayed(launch=lambda: start(self, launch))
        else:
            transport = self._dialled(launch)
        self._transport = transport
        self._routes.doors.expect(transport)
        return transport

    def _relayed(self, **more: Any) -> RelayTransport:
        transport = RelayTransport(
            self.session_id, self.run, self._ledger, machine=self.machine, **more
        )
        transport.lost_lines = self._told.lines_lost
        transport.end_relay = lambda: self._routes.end_relay(self)
        return transport

    def _dialled(self, launch: Launch) -> SdkUrlTransport:
        transport = launched(
            launch.argv,
            cwd=launch.cwd,
            env=launch.env,
            session_id=self.session_id,
            run=self.run,
            token=self._routes.keyring.issue(self.session_id, self.run),
            url=self._routes.dial,
            hybrid=self.via == "sdk-url-hybrid",
        )
        self._tell(transport)
        return transport

    def take_dialled(self, transport: SdkUrlTransport) -> None:
        """Use the connections of a CLI that somebody has started by hand."""
        self._tell(transport)
        self._transport = transport

    def _tell(self, transport: SdkUrlTransport) -> None:
        transport.lost_lines = self._told.lines_lost
        transport.reconnected = self._told.reconnected

    def tell_left(self, left: Leftover, row: RunRow) -> None:
        """Tell what a relay could not deliver before it ended."""
        self.takes_input = False
        self._transport = LeftTransport(left, self._ledger, carried=carried(row))
        self._transport.lost_lines = self._told.lines_lost

    def take_up(self, row: RunRow, pid: int | None) -> None:
        """Expect the relay of a CLI that another engine has started."""
        self.pid = pid
        self._transport = transport = self._relayed(carried=carried(row))
        self._routes.doors.expect(transport)
        self.watch()

    def watch(self) -> None:
        """Learn of the relay's death; of one on another machine its runner tells."""
        if self._transport is not None and not self.machine:
            self._end_watch = self._routes.local.watch(self.run, self.lost)

    def lost(self, reason: str) -> None:
        """The relay is gone, and its CLI with it."""
        if isinstance(self._transport, RelayTransport):
            self._transport.lost(reason)

    def give_up(self, reason: str) -> None:
        """Wait no longer for a relay that may be alive; should it come back, it is ended."""
        if isinstance(self._transport, RelayTransport):
            self._routes.end_relay(self)
            self._transport.give_up(reason)

    def refuse(self, code: int) -> None:
        """Send the relay away for good."""
        if isinstance(self._transport, RelayTransport):
            self._transport.refuse(code)

    def leave(self) -> None:
        self._stop_watching()
        if isinstance(self._transport, RelayTransport | LeftTransport):
            self._transport.detach()

    def end(self) -> Sequence[str]:
        self._stop_watching()
        self._routes.ended(self.run)
        return [self._ledger.end()]

    def _stop_watching(self) -> None:
        if self._end_watch is not None:
            self._end_watch()
            self._end_watch = None
