"""The lines of a CLI that dials: which are new, which are missing, which of ours it has by now."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from pilothouse.transport.base import LONGEST_LINE

from .contract import too_long

__all__ = ["Answers", "Assembly", "Head", "Hearing", "Outbox", "read_head"]

REMEMBERED: Final = 4096
"""Names of lines kept to know them again; a CLI repeats its last 1,000."""
KEPT_LINES: Final = 1024
KEPT_BYTES: Final = 64 * 1024 * 1024
"""Of what was sent and not yet shown to have arrived; beyond it the oldest is not repeated."""

ANSWERED_AGAIN: Final = (0.05, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds from one sending of an answer to the next, in the hybrid mode."""

LOST: Final = (
    "the connection to the CLI was lost for a while, and lines it wrote then are gone: "
    "this build does not repeat them"
)


class _Inner(msgspec.Struct, frozen=True):
    subtype: str = ""
    request_id: str = ""


class Head(msgspec.Struct, frozen=True, rename={"is_replay": "isReplay"}):
    """What is read of a line that passes through."""

    type: str = ""
    uuid: str | None = None
    request_id: str = ""
    is_replay: bool = False
    request: _Inner = _Inner()
    response: _Inner = _Inner()

    @property
    def name(self) -> str | None:
        """What tells the line from every other; None if nothing does."""
        if self.uuid:
            return self.uuid
        told = self.request_id or self.response.request_id
        return f"{self.type} {told}" if told else None


_decode = msgspec.json.Decoder(Head).decode


def read_head(line: bytes) -> Head:
    """The head of a line; an empty one of what is no message."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, RecursionError):
        return Head()


class Assembly:
    """Puts the messages of one connection together to lines; one that is too long is dropped."""

    def __init__(self, tell_lost: Callable[[str], None]) -> None:
        self._tell_lost = tell_lost
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole with this."""
        first, *others = data.split(b"\n")
        self._hold(first)
        if not others:
            return []
        lines = [*self._end(), *others[:-1]]
        self._hold(others[-1])
        return lines

    def _hold(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > LONGEST_LINE:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _end(self) -> list[bytes]:
        line, size = b"".join(self._parts), self._size
        self._parts.clear()
        self._size = 0
        if size > LONGEST_LINE:
            self._tell_lost(too_long(size))
            return []
        return [line]


class Hearing:
    """Knows what of a CLI's lines is new, and tells when some are lost.

    A native 2.1.119 repeats its last 1,000 lines on every new connection, beginning with some we
    have; 2.1.37, native or Node, repeats none. Every build names on a reconnect the last line it
    wrote (`X-Last-Request-Id`). If we do not have that one, what follows shows whether it is
    repeated: a first line that is new, too, means that lines between are gone.
    """

    def __init__(self, tell_lost: Callable[[str], None]) -> None:
        self._tell_lost = tell_lost
        self._seen: dict[str, None] = {}
        self._before: frozenset[str] = frozenset()
        self._missing: set[str] = set()
        self._has_begun = False

    @property
    def has_heard(self) -> bool:
        """Whether a line with a name has come."""
        return bool(self._seen)

    @property
    def is_missing(self) -> bool:
        """Whether a line that was written has not come yet."""
        return bool(self._missing)

    def connected(self, last: str | None) -> None:
        """Note a new connection, and the last line the CLI wrote before it."""
        self._before = frozenset(self._seen)
        self._has_begun = False
        if last and last not in self._seen:
            self._missing.add(last)

    def is_new(self, head: Head) -> bool:
        """Take a line of the socket; False for what came over an earlier connection."""
        if not head.uuid:
            return True
        self._missing.discard(head.uuid)
        # A prompt that we sent again is echoed again.
        is_new = head.uuid not in (self._seen if head.is_replay else self._before)
        if not self._has_begun and is_new and self._before:
            self.give_up()
        self._has_begun = True
        self._remember(head.uuid)
        return is_new

    def is_new_event(self, head: Head) -> bool:
        """Take a line that was posted; False if it was posted before."""
        name = head.name
        if name is None:
            return True
        is_new = name not in self._seen
        self._remember(name)
        return is_new

    def give_up(self) -> None:
        """Take what is missing for lost."""
        if self._missing:
            self._missing.clear()
            self._tell_lost(LOST)

    def _remember(self, name: str) -> None:
        self._seen.pop(name, None)
        self._seen[name] = None
        if len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]


class _Line(msgspec.Struct):
    data: bytes
    name: str | None
    is_interrupt: bool
    is_handed: bool = False


class Outbox:
    """Lines for the CLI, in order, until it has shown that it has them.

    What was handed to a connection that broke may be lost or not. Prompts with a uuid and answers
    are taken once, however often they come, and most requests do nothing twice: these are sent
    again. An interrupt is not, if anything was written after it: it would stop that. What has no
    name of its own is never sent again.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._lines: deque[_Line] = deque()
        self._next = 0
        self._kept = 0
        self.waiting = 0
        """Bytes that no connection has taken yet."""

    def put(self, data: bytes) -> None:
        """Take bytes; a line goes when it is whole."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            head = read_head(line)
            is_interrupt = head.request.subtype == "interrupt"
            self._lines.append(_Line(line + b"\n", head.name, is_interrupt))
            self.waiting += len(line) + 1

    def connected(self) -> None:
        """Begin again with what may not have arrived."""
        last = self._lines[-1] if self._lines else None
        self._lines = deque(
            line
            for line in self._lines
            if not line.is_handed or (line.name and (not line.is_interrupt or line is last))
        )
        self._next = 0
        self._kept = sum(len(line.data) for line in self._lines if line.is_handed)

    def take(self) -> bytes:
        """Everything that is due on this connection; empty if nothing is."""
        due = b"".join(map(self._hand, self._due()))
        self._next = len(self._lines)
        self._forget_some()
        return due

    def confirm(self, head: Head) -> None:
        """Let go of what a line of the CLI's shows to have arrived, and of all before it."""
        if head.type == "user" and head.is_replay and head.uuid:
            self._let_go_upto({head.uuid})
        elif head.type == "control_response" and head.response.request_id:
            told = head.response.request_id
            # The answer to a request of ours, or the echo of an answer of ours.
            self._let_go_upto({f"control_request {told}", f"control_response {told}"})

    def _due(self) -> Iterator[_Line]:
        return (line for index, line in enumerate(self._lines) if index >= self._next)

    def _hand(self, line: _Line) -> bytes:
        if not line.is_handed:
            line.is_handed = True
            self.waiting -= len(line.data)
            self._kept += len(line.data)
        return line.data

    def _let_go_upto(self, names: set[str]) -> None:
        found = [i for i, line in enumerate(self._lines) if line.is_handed and line.name in names]
        for _ in range(found[0] + 1 if found else 0):
            self._let_go()

    def _forget_some(self) -> None:
        while self._lines and self._lines[0].is_handed and self._has_too_much():
            self._let_go()

    def _has_too_much(self) -> bool:
        return len(self._lines) > KEPT_LINES or self._kept > KEPT_BYTES

    def _let_go(self) -> None:
        self._kept -= len(self._lines.popleft().data)
        self._next = max(0, self._next - 1)


class Answers:
    """Repeats answers of the hybrid mode until the CLI shows that it has taken them.

    2.1.37 posts a request and looks for its answer only when the POST was answered: an answer over
    the socket that is quicker is dropped without a word. A request is answered once, however often
    the answer comes; its echo tells that it was taken. The answer that is an error has no echo.
    """

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._delays: dict[str, Iterator[float]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def sent(self, data: bytes) -> None:
        """Note what goes to the CLI."""
        for line in data.splitlines(keepends=True):
            head = read_head(line)
            if head.type == "control_response" and head.name is not None:
                self._repeat_later(head.name, line)

    def confirm(self, head: Head) -> None:
        """Note a line of the CLI's, which may be an echo."""
        if head.type == "control_response" and head.name is not None:
            self._delays.pop(head.name, None)
            self._cancel(head.name)

    def stop(self) -> None:
        """Repeat nothing more."""
        for name in list(self._timers):
            self._cancel(name)

    def _repeat_later(self, name: str, line: bytes) -> None:
        self._cancel(name)
        delay = next(self._delays.setdefault(name, iter(ANSWERED_AGAIN)), None)
        if delay is None:
            del self._delays[name]
        else:
            loop = asyncio.get_running_loop()
            self._timers[name] = loop.call_later(delay, self._repeat, name, line)

    def _repeat(self, name: str, line: bytes) -> None:
        del self._timers[name]
        self._send(line)

    def _cancel(self, name: str) -> None:
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()
