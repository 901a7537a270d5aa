"""What a relay and a door say to each other: one binary WebSocket message is one frame.

    kind u8 | number u64 | acknowledged u64 | payload

    HELLO     relay -> door   who it is and where it stands; the first frame of a connection
    WELCOME   door -> relay   where the door stands; nothing else flows before it
    LINES     both ways       whole lines, each with its newline; `number` is that of the first
    ORDER     door -> relay   what to do between two lines; takes one number of their sequence
    DROPPED   relay -> door   how long a line was that is longer than any that is carried; it has
                              the number of that line
    EXIT      relay -> door   how the CLI ended; takes the number after the last line
    ACK       both ways       only the acknowledgement

Lines are numbered from 1 in each direction, and every number is used once. `acknowledged` is the
highest number of the other direction below which nothing has to be sent again: for a door, what is
committed; for a relay, what is written to the CLI. A line's bytes are never looked at, and no line
is split: a message is as long as its longest line asks for, and no line is longer than
`transport.base.LONGEST_LINE`. A door need not acknowledge every message, but a relay stops sending
with about 1 MiB unacknowledged.

Version 2 has DROPPED; before it, a relay kept a line of any length. A door takes both.
"""

from __future__ import annotations

import json
import struct
from enum import IntEnum
from typing import Any, Final, NamedTuple

__all__ = [
    "CLIExit",
    "Dropped",
    "Frame",
    "FrameError",
    "FrameKind",
    "Order",
    "RelayHello",
    "RelayWelcome",
    "decode",
    "encode",
    "pack",
    "unpack",
]

HEAD: Final = struct.Struct("!BQQ")
VERSION: Final = 2
SPOKEN: Final = (1, VERSION)
"""Versions of a relay that a door understands."""


class FrameKind(IntEnum):
    HELLO = 1
    WELCOME = 2
    LINES = 3
    ORDER = 4
    EXIT = 5
    ACK = 6
    DROPPED = 7


class FrameError(ValueError):
    """The peer sent what is no frame."""


class Frame(NamedTuple):
    kind: FrameKind
    number: int
    acknowledged: int
    payload: bytes = b""

    @property
    def last(self) -> int:
        """The number of the last line in it; of a frame without lines, its own."""
        if self.kind is not FrameKind.LINES:
            return self.number
        return self.number + self.payload.count(b"\n") - 1


class RelayHello(NamedTuple):
    """Where a relay stands when it connects."""

    session_id: str
    run: str
    """This one life of a CLI; another start of the same session is another run."""
    first: int
    """The first line it still has, or the number the next one will get."""
    written: int
    """The last number it has written to the CLI, or done."""
    pid: int | None = None
    relay_pid: int | None = None
    guard_pid: int | None = None
    host: str = ""
    program: str = ""
    """The relay's own version."""
    version: int = VERSION
    full: bool = False
    """Whether its spool is: it does not read on until some of it is acknowledged."""


class RelayWelcome(NamedTuple):
    """Where the door stands."""

    committed: int
    """The last line it has committed: the relay goes on with the one after it."""
    version: int = VERSION


class Order(NamedTuple):
    """What a relay does at this place among the lines."""

    do: str
    """`close_input`, `terminate`, `kill`, or `end`: all of these in order, after an interrupt."""


class Dropped(NamedTuple):
    """A line that was not kept."""

    size: int
    """In bytes, without its newline."""


class CLIExit(NamedTuple):
    """How the CLI ended."""

    code: int | None
    signal: int | None
    stderr_tail: str = ""
    reason: str = ""
    """Why it was ended, where that was not its own doing."""


def encode(frame: Frame) -> bytes:
    """The frame as the payload of one binary message."""
    return HEAD.pack(frame.kind, frame.number, frame.acknowledged) + frame.payload


def decode(message: bytes) -> Frame:
    """The frame in a binary message; `FrameError` if there is none."""
    try:
        kind, number, acknowledged = HEAD.unpack_from(message)
        return Frame(FrameKind(kind), number, acknowledged, message[HEAD.size :])
    except (struct.error, ValueError) as error:
        raise FrameError(f"no frame of a relay: {error}") from error


def pack(value: RelayHello | RelayWelcome | Order | Dropped | CLIExit) -> bytes:
    """The payload of a frame that says something."""
    return json.dumps(value._asdict()).encode()


def unpack(kind: type[Any], payload: bytes) -> Any:
    """What such a frame says. Members that a newer peer has added are left out."""
    try:
        given = json.loads(payload)
        return kind(**{name: given[name] for name in kind._fields if name in given})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise FrameError(f"no {kind.__name__}: {error}") from error
