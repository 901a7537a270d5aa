"""What passes between a run's CLI and the engine, kept so that it survives the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from pilothouse.doors.contract import Carried, Outgoing
from pilothouse.errors import JournalError
from pilothouse.journal.contract import Changes, Journal, ReceivedRow, RunRow, SendingRow, TakenRow

__all__ = ["INPUT_CLOSED", "RunLedger", "carried"]

INPUT_CLOSED: Final = "close_input"
"""Names the order that ends the CLI's input among what was sent to it."""


class RunLedger:
    """Implements `doors.contract.Ledger` with the journal, for one run."""

    def __init__(self, journal: Journal, session_id: str, run: str) -> None:
        self._journal = journal
        self._session_id = session_id
        self._run = run
        self._ended = False

    def kept(self, upto: int | None = None) -> asyncio.Future[None]:
        """Return a future that is done when all that was posted is committed, and this number."""
        if upto is None or self._ended:
            return self._post(Changes())
        return self._post(Changes(received=(ReceivedRow(self._session_id, self._run, upto),)))

    def sending(self, outgoing: Sequence[Outgoing]) -> asyncio.Future[None]:
        """Keep it until the CLI has it."""
        rows = () if self._ended else [self._row(each) for each in outgoing]
        return self._post(Changes(sending=rows))

    def taken(self, upto: int) -> None:
        """The CLI has it."""
        if not self._ended:
            self._post(Changes(taken=(TakenRow(self._run, upto),)))

    def end(self) -> str:
        """Keep nothing more of the run, which has ended; its name."""
        self._ended = True
        return self._run

    def _post(self, changes: Changes) -> asyncio.Future[None]:
        try:
            return self._journal.post([], changes).committed
        except JournalError as error:
            # It has failed, or is closed: whoever waits is told, and nobody need wait.
            never = asyncio.get_running_loop().create_future()
            never.set_exception(error)
            never.exception()
            return never

    def _row(self, each: Outgoing) -> SendingRow:
        ref = _ref(each.body)
        return SendingRow(self._session_id, self._run, each.number, each.kind, ref, each.body)


def carried(row: RunRow) -> Carried:
    """How far a run had come, as a transport wants to know it."""
    outgoing = [Outgoing(each.number, each.kind, each.body) for each in row.untaken]
    return Carried(row.received, row.sent, outgoing)


class _Answer(Struct, frozen=True):
    request_id: str = ""


class _Line(Struct, frozen=True):
    """What names a line for a CLI: a message by its own id, an order by what it is, the rest by a
    request's."""

    uuid: str = ""
    request_id: str = ""
    response: _Answer = _Answer()
    do: str = ""


_decoder = msgspec.json.Decoder(_Line)


def _ref(body: bytes) -> str:
    try:
        line = _decoder.decode(body)
    except msgspec.DecodeError:
        return ""
    return line.uuid or line.request_id or line.response.request_id or line.do
