"""What a relay says of itself and of its CLI's end, once it is known to be plausible.

A relay is let in by its token alone. What it says goes into the journal of all sessions, so nothing
is believed that could not be true.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pilothouse.relay import door_frames
from pilothouse.relay.door_frames import Frame, FrameError, FrameKind, RelayHello
from pilothouse.transport.base import Exit

__all__ = ["LIMIT", "exit_in", "hello_in", "parts", "size_in"]

LIMIT: Final = 2**53
"""No number of a line comes near it; those below are exact in whatever they are written to."""
LARGEST_PID: Final = 2**31 - 1
LINES_AT_ONCE: Final = 1000
"""Each costs about ten microseconds, and whoever else uses the loop waits for all of them."""
CODES: Final = range(-(2**31), 2**32)
SIGNALS: Final = range(1, 256)
LONGEST_NAME: Final = 1024
LONGEST_REASON: Final = 1000
STDERR_LIMIT: Final = 64 * 1024
"""As much as a relay keeps of it."""


def hello_in(frame: Frame) -> RelayHello:
    """The greeting; `FrameError` if it is none."""
    if frame.kind is not FrameKind.HELLO:
        raise FrameError(f"{frame.kind.name} before HELLO")
    hello: RelayHello = door_frames.unpack(RelayHello, frame.payload)
    if not (_is_in(range(1, LIMIT), hello.first) and _is_in(range(LIMIT), hello.written)):
        raise FrameError("a HELLO without its numbers")
    if not all(_may_be(range(1, LARGEST_PID + 1), pid) for pid in _pids(hello)):
        raise FrameError("a HELLO with a process that cannot be")
    if not (_is_name(hello.host) and _is_name(hello.program)):
        raise FrameError("a HELLO with a name that is none")
    return hello


def exit_in(frame: Frame) -> Exit:
    """How the CLI ended; `FrameError` if that cannot be."""
    told: door_frames.CLIExit = door_frames.unpack(door_frames.CLIExit, frame.payload)
    if not (_may_be(CODES, told.code) and _may_be(SIGNALS, told.signal)):
        raise FrameError("an EXIT without its numbers")
    tail, reason = _text(told.stderr_tail), _text(told.reason)
    return Exit(told.code, told.signal, tail[-STDERR_LIMIT:], reason[:LONGEST_REASON])


def size_in(frame: Frame) -> int:
    """How long the line was that a relay has dropped; `FrameError` if that cannot be."""
    told: door_frames.Dropped = door_frames.unpack(door_frames.Dropped, frame.payload)
    if not _is_in(range(1, LIMIT), told.size):
        raise FrameError("a DROPPED without its size")
    return told.size


def parts(frame: Frame) -> Iterator[Frame]:
    """The frame as one or more, each with few enough lines for one turn of the loop."""
    if frame.kind is not FrameKind.LINES or frame.payload.count(b"\n") <= LINES_AT_ONCE:
        yield frame
        return
    middle = _middle(frame.payload)
    first = frame._replace(payload=frame.payload[:middle])
    yield from parts(first)
    yield from parts(frame._replace(number=first.last + 1, payload=frame.payload[middle:]))


def _middle(payload: bytes) -> int:
    """Where a line begins, near the middle; with more lines than one there is such a place."""
    half = len(payload) // 2
    behind = payload.find(b"\n", half) + 1
    return behind if 0 < behind < len(payload) else payload.rfind(b"\n", 0, half) + 1


def _pids(hello: RelayHello) -> tuple[int | None, ...]:
    return hello.pid, hello.relay_pid, hello.guard_pid


def _is_in(allowed: range, number: Any) -> bool:
    # True and 1.0 would be in the range, too.
    return type(number) is int and number in allowed


def _may_be(allowed: range, number: Any) -> bool:
    return number is None or _is_in(allowed, number)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_NAME


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise FrameError("an EXIT with words that are none")
    # JSON can name halves of characters, which no file takes.
    return value.encode(errors="replace").decode()
