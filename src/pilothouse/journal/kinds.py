"""How the kinds of entries are stored, and lines that not every reader of JSON takes.

Such a line is stored byte for byte under a kind of its own. Whoever reads gets it under the plain
kind, as what every reader takes, with the bytes beside it: see `protocol.strict`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from pilothouse.api.events import Event
from pilothouse.api.records import CLI, KINDS, NOISE, PARTIAL
from pilothouse.protocol.strict import strict
from pilothouse.protocol.wire import encode_json

__all__ = ["LINES", "NUMBERS", "ODD", "PARTIALS", "stored_event"]

ODD: Final = {CLI: "cli.odd", PARTIAL: "partial.odd", NOISE: "noise.odd"}
"""The kinds of lines that not every reader takes."""

_PLAIN: Final = {odd: plain for plain, odd in ODD.items()}

_STORED: Final = (
    "cli",
    "partial",
    "noise",
    "session.started",
    "session.stopped",
    "session.linked",
    "options.changed",
    "prompt.said",
    "prompt.sent",
    "prompt.withdrawn",
    "interrupt.asked",
    "cli.started",
    "cli.ended",
    "question.opened",
    "question.closed",
    "question.decided",
    "turn.ended",
    "rules.kept",
    "lines.lost",
    "cli.odd",
    "partial.odd",
    "noise.odd",
    "session.archived",
)
"""A kind is stored as its place in this list: add at the end only."""

NUMBERS: Final = {kind: number for number, kind in enumerate(_STORED)}
LINES: Final = (NUMBERS[CLI], NUMBERS[ODD[CLI]])
"""The CLI's whole messages."""
PARTIALS: Final = (NUMBERS[PARTIAL], NUMBERS[ODD[PARTIAL]])

assert NUMBERS.keys() == {*KINDS, *_PLAIN}


def stored_event(seq: int, session_id: str, number: int, at: int, body: bytes) -> Event:
    """Return the entry of a row, as readers get it."""
    kind = _STORED[number] if number < len(_STORED) else f"unknown.{number}"
    plain = _PLAIN.get(kind)
    if plain is None:
        return Event(seq, session_id, kind, at, Raw(body))
    return Event(seq, session_id, plain, at, Raw(_told(plain, body)), body)


def _told(kind: str, line: bytes) -> bytes:
    if kind != NOISE:
        try:
            return strict(line)
        except (ValueError, RecursionError):
            pass
    return encode_json(line.decode("utf-8", "replace"))
