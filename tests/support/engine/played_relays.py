"""Relays in memory, which carry what played CLIs say, and go on when their engine is killed.

A relay's own parts are the real ones (`DoorSession`, `StdinQueue`, `Spool`); only processes,
sockets and clocks are played.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pilothouse.doors.door import Doors
from pilothouse.doors.tokens import Keyring
from pilothouse.relay import door_frames
from pilothouse.relay.child_supervisor import Item, StdinQueue
from pilothouse.relay.door_frames import FrameKind, RelayHello
from pilothouse.relay.door_session import DoorAccess, DoorSession
from pilothouse.relay.pace import PACE
from pilothouse.relay.refusals import Refusal
from pilothouse.relay.registry import RunningRelay
from pilothouse.relay.spool import Spool
from pilothouse.relay.timers import Timers
from pilothouse.transport import Exit, SpawnFailed, TransportClosed
from tests.support.engine.played_cli import PlayedCLI

if TYPE_CHECKING:
    from tests.support.engine.relayed_stage import RelayedStage

KEYRING = Keyring(b"k" * 32)

Told = Callable[["PlayedWire", dict[str, Any]], None]


class PlayedWire:
    """One WebSocket in memory. What is sent is on its way for a turn of the loop."""

    queued = 0

    def __init__(self, doors: Doors, session_id: str, run: str, told: Told) -> None:
        self.is_open = False
        self._told = told
        self._up: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._down: deque[dict[str, Any]] = deque()
        self._is_cut = False
        token = KEYRING.issue(session_id, run)
        scope = {
            "type": "websocket",
            "path": f"/relay/{session_id}",
            "headers": [(b"authorization", f"Bearer {token}".encode())],
        }
        self._up.put_nowait({"type": "websocket.connect"})
        self.visit = asyncio.ensure_future(doors(scope, self._up.get, self._send))

    @property
    def rests(self) -> bool:
        """Whether nothing is on its way."""
        return self._up.empty() and not self._down

    # The door's end

    async def _send(self, message: Any) -> None:
        if self._is_cut:
            raise OSError("the relay has left")
        self._down.append(message)
        asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        if self._down:
            message = self._down.popleft()
            self.is_open = message["type"] != "websocket.close"
            self._told(self, message)

    # The relay's end, as `relay.link.Link` has it

    def send(self, message: bytes) -> None:
        if not self._is_cut:
            self._up.put_nowait({"type": "websocket.receive", "bytes": message})

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Leave; what was sent before still arrives."""
        self._is_cut = True
        self.is_open = False
        self._down.clear()
        self._up.put_nowait({"type": "websocket.disconnect", "code": code})

    def ping(self) -> None:
        return

    def cut(self, *, delivers: bool) -> None:
        """Break: nothing more comes to the door, and to the relay what was on its way, or not."""
        while delivers and self._down:
            self._deliver()
        while not self._up.empty():
            self._up.get_nowait()
        self.close(1006)


class _Watch:
    def set(self, *_: Any) -> None:
        return

    forget = set


class _Timers(Timers):
    """Without time: a relay that wants to connect again does so at once."""

    def __init__(self, relay: PlayedRelay) -> None:
        super().__init__()
        self._relay = relay

    def set(self, name: str, delay: float, then: Callable[[], None]) -> None:
        if name == "connect":
            self._relay.seek()


class _Stdin(StdinQueue):
    """Writes to a CLI in memory."""

    def __init__(self, cli: PlayedCLI, obey: Callable[[str], None]) -> None:
        super().__init__(0, obey, cli.transport.close_stdin)
        self._cli = cli

    def _write(self, item: Item) -> bool:
        if not self.broken:
            try:
                self._cli.transport.write(item.data)
                self._count(item, len(item.data))
            except TransportClosed:
                self.close()
        self._lost |= item.offset < len(item.data)
        return True


class _Session(DoorSession):
    """Connects in memory."""

    def __init__(self, relay: PlayedRelay) -> None:
        door: Any = DoorAccess(None, "", None)  # type: ignore[arg-type]
        watch: Any = _Watch()
        parts = (relay, relay.spool, relay.stdin, watch, _Timers(relay), PACE)
        super().__init__(door, *parts)
        for each in (self._dialler._resolver._readable, self._dialler._resolver._writable):
            os.close(each)
        self._relay = relay

    def connect(self) -> None:
        wire: Any = self._relay.dial(self._relay.told)
        self._link = wire

    def _delay(self, code: int | None) -> float:
        return 0.0

    def _give_up(self, reason: str, code: int) -> None:
        self._relay.stage.failures.append(f"a relay gave up: {reason}")
        super()._give_up(reason, code)

    def abandon(self) -> None:
        """Lose the connection without the door knowing."""
        self._link = None
        self.link_lost("half of it is gone", None)


class PlayedRelay:
    """Carries what one played CLI says, whether an engine runs or not."""

    def __init__(self, stage: RelayedStage, session_id: str, run: str, held: list[int]) -> None:
        self.stage = stage
        self.session_id = session_id
        self.run = run
        self.cli = PlayedCLI(stage, session_id, modern=stage.modern)
        self.spool = Spool(None)
        self.stdin = _Stdin(self.cli, self._obey)
        self.session = _Session(self)
        self.watchers: list[Callable[[str], None]] = []
        self.is_gone = False
        self.refusal: int | None = None
        self._held = held
        self._seeking = False
        self._ended = False

    async def start(self) -> None:
        await self.cli.transport.start(self)
        self.seek()

    @property
    def wire(self) -> PlayedWire | None:
        link: Any = self.session._link
        return link

    @property
    def rests(self) -> bool:
        """Whether the CLI and we have nothing on the way to each other."""
        ours, theirs = self.cli.transport, self.cli.end
        idle = (not each._outbox and not each._flushing for each in (ours, theirs))
        return all(idle) and not self.stdin.waiting

    @property
    def rests_at_door(self) -> bool:
        """Whether the door has everything of ours, and we are there to hear what comes."""
        is_told = self.session._told == self.stdin.written
        return self.session.is_greeted and is_told and self.spool.first == self.spool.next

    # Connections

    def seek(self) -> None:
        """Connect as soon as there is a door."""
        if not self._seeking and not self.is_gone:
            self._seeking = True
            asyncio.get_running_loop().call_soon(self.find_door)

    def find_door(self) -> None:
        if self._seeking and self.stage.doors is not None and not self.is_gone:
            self._seeking = False
            self.session.connect()

    def dial(self, told: Told) -> PlayedWire:
        return self.stage.connect(self.session_id, self.run, told)

    def told(self, wire: PlayedWire, message: dict[str, Any]) -> None:
        """Take what a door sends. On a connection that we have left, nobody hears it."""
        if wire is not self.wire:
            return
        match message["type"]:
            case "websocket.accept":
                self.session.link_opened()
            case "websocket.close":
                is_right = message["code"] != Refusal.FRAME_REFUSED
                self.stage.expect(is_right, f"a relay was refused: {message}")
                self.session.link_lost(message["reason"], message["code"])
            case _:
                self.session.link_received(message["bytes"])
        self._pump()

    def cut(self) -> None:
        """Break the connection, for both."""
        if self.wire is not None:
            self.wire.cut(delivers=False)
            self.session.abandon()

    def connect_twice(self) -> None:
        """Break it for us alone: the door has two for a while."""
        if self.session.is_greeted:
            self.session.abandon()

    def be_doubled(self) -> None:
        """Have another come with our token, which stands where we do, and says nothing more."""

        def told(wire: PlayedWire, message: dict[str, Any]) -> None:
            if message["type"] == "websocket.accept":
                hello = door_frames.pack(self.hello())
                frame = door_frames.Frame(
                    FrameKind.HELLO, self.spool.first, self.stdin.written, hello
                )
                wire.send(door_frames.encode(frame))

        if self.stage.doors is not None and self.session.is_greeted:
            self.dial(told)

    # What the session with the door wants to know

    def hello(self) -> RelayHello:
        return RelayHello(
            session_id=self.session_id,
            run=self.run,
            first=self.spool.first,
            written=self.stdin.written,
            pid=1,
        )

    def served(self) -> None:
        return

    def unserved(self, reason: str) -> None:
        return

    def refused(self, code: int) -> None:
        self.refusal = code
        self.cli.is_cut = True
        if self._ended:
            self._go("it was refused")
        else:
            self.stdin.end()

    def all_acknowledged(self) -> None:
        self._go("it has ended")

    # What the CLI does

    def data_received(self, data: bytes) -> None:
        self.spool.append(data)
        self._pump()

    def eof_received(self) -> None:
        return

    def exited(self, exit: Exit) -> None:
        self._ended = True
        self._let_go()
        self.stdin.close()
        self.session.finish(door_frames.CLIExit(exit.code, exit.signal))
        if self.refusal is None:
            self._pump()
        else:
            self._go("it was refused")

    def _obey(self, do: str) -> None:
        self.cli.die(signal=9 if do == "kill" else 15)

    def _pump(self) -> None:
        if not self.is_gone:
            self.session.pump()

    # The end

    def be_killed(self) -> None:
        """End at once, and the CLI with us."""
        self.cli.is_cut = True
        self.cli.die(signal=9)
        if self.wire is not None:
            self.wire.cut(delivers=False)
        self._go("it was killed")

    def _go(self, reason: str) -> None:
        if self.is_gone:
            return
        self.is_gone = True
        self._let_go()
        self.session.close()
        self.stage.relays.pop(self.run)
        for each in self.watchers:
            asyncio.get_running_loop().call_soon(each, reason)
        self.watchers.clear()

    def _let_go(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)
        self._held.clear()


class PlayedRelays:
    """Stands for `LocalRelays`, for one engine: the relays themselves are the stage's."""

    def __init__(self, stage: RelayedStage) -> None:
        self._stage = stage
        self.is_dead = False

    async def start(
        self,
        argv: Any,
        env: Any,
        cwd: Any,
        *,
        session_id: str,
        run: str,
        hold: Sequence[int] = (),
        files: Any = None,
    ) -> None:
        held = [os.dup(each) for each in hold]
        await asyncio.sleep(0)
        if self.is_dead:
            for each in held:
                os.close(each)
            raise SpawnFailed("claude", "whoever wanted it was killed")
        await self._stage.add_relay(session_id, run, held)

    def find(self, run: str) -> RunningRelay | None:
        relay = self._stage.relays.get(run)
        return None if relay is None else RunningRelay(relay.session_id, run, 2, 0, None, 1)

    def is_starting(self, run: str) -> bool:
        return False

    def left(self, run: str) -> None:
        return None

    def tidy(self, runs: Any) -> None:
        return

    def clear(self, run: str) -> None:
        return

    def watch(self, run: str, gone: Callable[[str], None]) -> Callable[[], None]:
        def tell(reason: str) -> None:
            if told:
                told.clear()
                gone(reason)

        told = [True]
        relay = self._stage.relays.get(run)
        if relay is None:
            asyncio.get_running_loop().call_soon(tell, "its relay has ended")
        else:
            relay.watchers.append(tell)
        return told.clear
