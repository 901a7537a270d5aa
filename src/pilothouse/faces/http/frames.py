"""Events as bytes for the wire. Their bodies are JSON already and are passed on as they are."""

from __future__ import annotations

import msgspec

from pilothouse.api.codec import encode_strictly
from pilothouse.api.events import Batch, Event, Gap
from pilothouse.api.frames import Events
from pilothouse.api.problems import Problem

__all__ = ["sse_chunk", "sse_error", "ws_frame"]

_encode = msgspec.json.Encoder().encode


def ws_frame(batch: Batch) -> str:
    """A batch as one text frame."""
    events = Events(events=batch.events, cursor=batch.cursor, gaps=batch.gaps)
    return _encode(events).decode()


def sse_chunk(batch: Batch) -> bytes:
    """A batch as server-sent events, each with its number as the id to go on from."""
    gaps = sorted(batch.gaps, key=lambda gap: gap.last)
    if not gaps:
        return b"".join([_event(event) for event in batch.events])
    pieces: list[bytes] = []
    for event in batch.events:
        while gaps and gaps[0].last < event.seq:
            pieces.append(_gap(gaps.pop(0)))
        pieces.append(_event(event))
    return b"".join([*pieces, *map(_gap, gaps)])


def _event(event: Event) -> bytes:
    return b"id: %d\nevent: events\ndata: %b\n\n" % (event.seq, _data(_encode(event)))


def _gap(gap: Gap) -> bytes:
    # Where to go on is behind what is missing; after a reset, before it.
    cursor = gap.first - 1 if gap.reason == "reset" else gap.last
    return b"id: %d\nevent: gap\ndata: %b\n\n" % (cursor, _data(_encode(gap)))


def sse_error(problem: Problem) -> bytes:
    """Why a stream ends. It has no id: whoever comes back goes on from the event before."""
    return b"event: error\ndata: %b\n\n" % _data(encode_strictly(problem))


def _data(text: bytes) -> bytes:
    """A line end is white space to JSON and the end of a member to an event stream."""
    if b"\n" in text or b"\r" in text:
        return text.replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    return text
