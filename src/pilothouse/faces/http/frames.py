"""What a stream carries, as bytes for the wire. The bodies of events are JSON already and are
passed on as they are."""

from __future__ import annotations

import msgspec
from msgspec import structs

from pilothouse.api.codec import encode_strictly
from pilothouse.api.events import Batch, Event, Gap
from pilothouse.api.frames import Events, Patches, Rows
from pilothouse.api.items import ConversationPatches
from pilothouse.api.problems import Problem
from pilothouse.api.statuses import SessionChanges

__all__ = ["Piece", "sse_chunk", "sse_error", "ws_frame"]

Piece = Batch | ConversationPatches | SessionChanges
"""What a stream sends at once."""

_encode = msgspec.json.Encoder().encode


def ws_frame(piece: Piece) -> str:
    """A piece as one text frame."""
    if isinstance(piece, Batch):
        events = Events(events=piece.events, cursor=piece.cursor, gaps=piece.gaps)
        return _encode(events).decode()
    if isinstance(piece, SessionChanges):
        return encode_strictly(Rows(**structs.asdict(piece))).decode()
    frame = Patches(patches=piece.patches, cursor=piece.cursor, unfinished=piece.unfinished)
    return encode_strictly(frame).decode()


def sse_chunk(piece: Piece) -> bytes:
    """A piece as server-sent events, each with the id to go on from."""
    if isinstance(piece, Batch):
        return _batch(piece)
    kind = b"sessions" if isinstance(piece, SessionChanges) else b"patches"
    data = _data(encode_strictly(piece))
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (piece.cursor, kind, data)


def _batch(batch: Batch) -> bytes:
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
