"""Two transport ends joined in memory, for tests and for peers in our own process."""

from __future__ import annotations

import asyncio
import signal as signals
from typing import TYPE_CHECKING, Final

from .base import Exit, TransportClosed, TransportError

if TYPE_CHECKING:
    from .base import Receiver

HIGH_WATER: Final = 64 * 1024


def pair() -> tuple[MemoryTransport, MemoryTransport]:
    """Return two ends: what is written to one is received by the other."""
    ours, theirs = MemoryTransport(), MemoryTransport()
    ours.peer, theirs.peer = theirs, ours
    return ours, theirs


class MemoryTransport:
    """One end of a pair. To each end, the other one is the program at its pipes.

    An end leaves with `exit`, or by `aclose`, which counts as an exit with code 0.
    """

    peer: MemoryTransport

    def __init__(self) -> None:
        self._receiver: Receiver | None = None
        self._outbox: list[bytes] = []
        self._queued = 0
        self._held = False
        self._output_closed = False
        self._output_ended = False
        self._flushing = False
        self._leaving: tuple[int | None, int | None] | None = None
        self._stderr = ""
        self._closing = False
        self._peer_exit: Exit | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._done = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """Always None: there is no process."""
        return None

    @property
    def stderr_tail(self) -> str:
        """What the other end passed to `write_stderr`."""
        return self.peer._stderr

    async def start(self, receiver: Receiver) -> None:
        """Begin to receive what the other end writes and has written."""
        if self._receiver is not None:
            raise TransportError("a transport starts only once")
        if self._closing:
            raise TransportClosed("closed before it was started")
        self._receiver = receiver
        self.peer._schedule()

    def write(self, data: bytes) -> None:
        """Queue bytes for the other end."""
        if self._receiver is None:
            raise TransportClosed("not started")
        if self._output_closed:
            raise TransportClosed("this end is closed")
        if self._peer_exit is not None:
            raise TransportClosed("the other end is gone")
        self._outbox.append(bytes(data))
        self._queued += len(data)
        if self._queued > HIGH_WATER:
            self._writable.clear()
        self._schedule()

    async def drain(self) -> None:
        """Wait until little enough is queued for the other end."""
        await self._writable.wait()
        if self._peer_exit is not None:
            raise TransportClosed("the other end is gone")

    def close_stdin(self) -> None:
        """Let the other end see the end of our bytes once it has them all."""
        self._output_closed = True
        self._schedule()

    async def aclose(self, *, grace: float = 5.0) -> Exit:
        """Leave, and wait for the other end to leave; after `grace` it counts as terminated."""
        if not self._closing:
            self._closing = True
            self.exit(0)
            if self.peer._receiver is None:
                self._tell_exit(Exit(None, None, self.stderr_tail))
            else:
                asyncio.get_running_loop().call_later(grace, self._terminate_peer)
        await self._done.wait()
        assert self._peer_exit is not None
        return self._peer_exit

    # -- what only a test or a peer in memory can do

    def exit(self, code: int | None = 0, *, signal: int | None = None) -> None:
        """Leave: the other end gets the queued bytes, their end, and then this exit."""
        if self._leaving is None:
            self._leaving = (None, signal) if signal is not None else (code, None)
            self.close_stdin()

    def write_stderr(self, text: str) -> None:
        """Add to the stderr that the other end sees."""
        self._stderr += text

    def hold(self) -> None:
        """Keep back what is written from now on, as a peer that does not read would."""
        self._held = True

    def release(self) -> None:
        """Deliver what was held back."""
        self._held = False
        self._schedule()

    # -- delivery

    def _schedule(self) -> None:
        if not self._flushing and not self._held and self.peer._receiver is not None:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        receiver = self.peer._receiver
        if self._held or receiver is None or self.peer._peer_exit is not None:
            return
        self._deliver(receiver)
        if self._outbox or not self._output_closed:
            return
        if not self._output_ended:
            self._output_ended = True
            receiver.eof_received()
        if self._leaving is not None:
            code, signal = self._leaving
            self.peer._tell_exit(Exit(code, signal, self._stderr))

    def _deliver(self, receiver: Receiver) -> None:
        outbox, self._outbox, self._queued = self._outbox, [], 0
        for data in outbox:
            receiver.data_received(data)
        if self._queued <= HIGH_WATER:
            self._writable.set()

    def _terminate_peer(self) -> None:
        if self._peer_exit is None:
            self.peer.release()
            self.peer.exit(signal=signals.SIGTERM)

    def _tell_exit(self, exit_: Exit) -> None:
        if self._peer_exit is not None:
            return
        self._peer_exit = exit_
        self._writable.set()
        self._done.set()
        if self._receiver is not None:
            self._receiver.exited(exit_)
