"""Everything that is written to the journal.

Recorder    entries of sessions, each numbered, applied to its view and posted in one step
RunLedger   what passes between one run's CLI and the engine, so that it survives the engine
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from pilothouse.api.codec import encode_strictly
from pilothouse.api.questions import Question
from pilothouse.api.records import (
    CLI,
    NOISE,
    PARTIAL,
    AnyRecord,
    LinesLost,
    QuestionClosed,
    QuestionDecided,
    QuestionOpened,
    kind_of,
    storable,
)
from pilothouse.client.turns import Turn
from pilothouse.doors.contract import Carried, Outgoing, too_long
from pilothouse.errors import JournalError
from pilothouse.journal.contract import (
    Changes,
    CostRow,
    Draft,
    Journal,
    KeyRow,
    Posted,
    ReceivedRow,
    RunRow,
    SendingRow,
    SessionRow,
    TakenRow,
)
from pilothouse.protocol import LineRejected, Message, StreamEvent
from pilothouse.protocol.strict import are_strict, is_strict, strict
from pilothouse.protocol.wire import encode_json
from pilothouse.transport.base import NumberedLines

from .questions import closed, decided
from .view import View, record_of

__all__ = [
    "INPUT_CLOSED",
    "PIECES_ALONE",
    "Recorder",
    "RunLedger",
    "carried",
    "day_of",
    "now_ms",
]


INPUT_CLOSED: Final = "close_input"
"""Names the order that ends the CLI's input among what was sent to it."""


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Recorder:
    """The only writer. Every entry is numbered, applied to its view and posted at once."""

    def __init__(self, journal: Journal, *, clock: Callable[[], int] = now_ms) -> None:
        self._journal = journal
        self.clock = clock
        self._at_work: dict[str, str] = {}
        """Sessions that are marked as at work, and the conversation in their row."""

    def write(
        self,
        view: View,
        *records: AnyRecord,
        keys: Sequence[KeyRow] = (),
        ended_runs: Sequence[str] = (),
        lines: NumberedLines | None = None,
    ) -> Posted:
        """Add records of one session in one transaction, and the number of these lines."""
        pairs = [(view, record) for record in records]
        posted = self.write_all(
            pairs, keys=keys, ended_runs=ended_runs, received=_received(view, lines)
        )
        _note_stored(lines)
        return posted

    def write_all(
        self,
        pairs: Sequence[tuple[View, AnyRecord]],
        *,
        keys: Sequence[KeyRow] = (),
        ended_runs: Sequence[str] = (),
        received: Sequence[ReceivedRow] = (),
    ) -> Posted:
        """Add records of several sessions, in one transaction."""
        self.check()
        at, first = self.clock(), self._journal.next
        drafts: list[Draft] = []
        questions: list[Question] = []
        for number, (view, given) in enumerate(pairs, first):
            record, body = storable(given)
            drafts.append(Draft(view.session_id, kind_of(record), at, body))
            row = _question_after(view, record, at)
            questions += [] if row is None else [row]
            view.apply_record(number, at, record)
        views = {view.session_id: view for view, _ in pairs}
        changes = Changes(
            questions=questions,
            keys=keys,
            ended_runs=ended_runs,
            received=received,
            sessions=self._rows(views.values()),
        )
        return self._journal.post(drafts, changes)

    def lines(
        self,
        view: View,
        events: Sequence[Message | LineRejected],
        kinds: set[type[Any]],
        lines: NumberedLines | None = None,
    ) -> list[Turn]:
        """Add what a CLI wrote; the turns that ended with it are noted in the same transaction.

        So is the number of the lines that it was read from. What fails before has not come.
        """
        if self._journal.failed is not None:
            # Whoever reads from a CLI must not fail; `failed` has the reason.
            return []
        at, first = self.clock(), self._journal.next
        session_id = view.session_id
        are_messages = LineRejected not in kinds
        raw = [_raw(event) for event in events]
        plain = are_strict(raw)
        rows = _received(view, lines)
        if plain and kinds == PIECES_ALONE:
            pieces = [Draft(session_id, PARTIAL, at, line) for line in raw]
            self._journal.post(pieces, Changes(received=rows) if rows else None)
            _note_stored(lines)
            view.skip(first + len(events) - 1, at)
            return []
        # All of them before the view has any: it cannot undo one that was not written.
        drafts = [
            # Nearly all of them: what every reader takes needs no second look.
            Draft(session_id, PARTIAL if type(event) is StreamEvent else CLI, at, line)
            if plain and are_messages
            else _line(session_id, event, at, plain=plain)
            for event, line in zip(events, raw, strict=True)
        ]
        turns: list[Turn] = []
        for number, (draft, event) in enumerate(zip(drafts, events, strict=True), first):
            if draft.kind == PARTIAL:
                view.skip(number, at)
                continue
            as_told = None if draft.told is not None or draft.kind != CLI else event
            # What not every reader takes is applied as it will be read after a restart.
            body = draft.body if draft.told is None else draft.told
            turns += view.apply(number, draft.kind, at, body, cast("Message | None", as_told))
        drafts += self._endings(view, turns, at, first + len(drafts))
        self._journal.post(drafts, self._sums(view, turns, at, rows))
        _note_stored(lines)
        return turns

    def check(self) -> None:
        """Raise JournalError once nothing can be written any more."""
        # The view must not know what was never written.
        if self._journal.failed is not None:
            raise JournalError(f"nothing can be kept any more: {self._journal.failed}")

    def _endings(self, view: View, turns: Sequence[Turn], at: int, first: int) -> list[Draft]:
        return [
            _record(view, record_of(turn, view.models_of(turn)), number, at)
            for number, turn in enumerate(turns, first)
        ]

    async def kept(self) -> None:
        """Wait until what is written by now is committed. What has failed is waited for no more."""
        journal = self._journal
        if journal.failed is None and journal.last + 1 < journal.next:
            await journal.post([]).committed

    def save(self, view: View) -> bool:
        """Write a snapshot, so that a restart need not read all of it again; False: not now."""
        snapshot = view.snapshot()
        if snapshot is not None and self._journal.failed is None:
            self._journal.post([], Changes(snapshots=[snapshot]))
        return snapshot is not None

    def _sums(
        self, view: View, turns: Sequence[Turn], at: int, received: Sequence[ReceivedRow]
    ) -> Changes | None:
        rows = self._rows([view])
        if not turns and not received and not rows:
            return None
        costs = [_cost(view, turn, at) for turn in turns if turn.result is not None]
        return Changes(costs=costs, received=received, sessions=rows)

    def mark(self, views: Iterable[View]) -> Posted:
        """Note how sessions are found, which the journal has not got yet."""
        return self._journal.post([], Changes(sessions=self._rows(views)))

    def _rows(self, views: Iterable[View]) -> list[SessionRow]:
        """What the journal must note of sessions as they are now, in the transaction of that."""
        rows: list[SessionRow] = []
        for view in views:
            name, conversation = view.session_id, view.claude_session_id
            if not view.is_at_work:
                self._at_work.pop(name, None)
                rows.append(_resting(view))
            elif self._at_work.get(name) != conversation:
                self._at_work[name] = conversation
                rows.append(SessionRow(session_id=name, at_work=True, conversation=conversation))
        return rows


PIECES_ALONE: set[type[Any]] = {StreamEvent}
"""The kinds of a batch that has nothing but pieces of messages."""


def _received(view: View, lines: NumberedLines | None) -> Sequence[ReceivedRow]:
    """How far a run has come with these lines; without a number, nothing is known of it."""
    return () if lines is None else (ReceivedRow(view.session_id, lines.run, lines.upto),)


def _note_stored(lines: NumberedLines | None) -> None:
    if lines is not None:
        lines.is_stored = True


def _raw(event: Message | LineRejected) -> bytes:
    return event.raw if isinstance(event, Message) else event.line


def _line(session_id: str, event: Message | LineRejected, at: int, *, plain: bool) -> Draft:
    """Return the entry of a line; `plain`: every reader takes it."""
    if isinstance(event, LineRejected) and event.size:
        record, body = storable(LinesLost(because=too_long(event.size)))
        return Draft(session_id, kind_of(record), at, body)
    line = _raw(event)
    if isinstance(event, Message):
        kind = PARTIAL if type(event) is StreamEvent else CLI
        if plain or is_strict(line):
            return Draft(session_id, kind, at, line)
        with suppress(ValueError, RecursionError):
            return Draft(session_id, kind, at, line, strict(line))
    text = line.decode("utf-8", "replace")
    told = encode_json(text)
    return (
        Draft(session_id, NOISE, at, told)
        if text.encode() == line
        else Draft(session_id, NOISE, at, line, told)
    )


def _record(view: View, given: AnyRecord, number: int, at: int) -> Draft:
    record, body = storable(given)
    view.apply_record(number, at, record)
    return Draft(view.session_id, kind_of(record), at, body)


def _question_after(view: View, record: AnyRecord, at: int) -> Question | None:
    match record:
        case QuestionOpened():
            return record.question
        case QuestionClosed():
            question = view.questions.get(record.id)
            return None if question is None else closed(question, record, at)
        case QuestionDecided():
            question = view.questions.get(record.id)
            return None if question is None else decided(question, record, at)
        case _:
            return None


def _cost(view: View, turn: Turn, at: int) -> CostRow:
    return CostRow(
        session_id=view.session_id,
        project=view.cwd,
        at=at,
        day=day_of(at),
        usd=turn.cost_usd,
        tokens=record_of(turn).tokens,
        # A CLI may say anything: no turn is longer than its session.
        duration_ms=min(record_of(turn).duration_ms, max(at - view.started_at, 0)),
        models=view.models_of(turn),
    )


def _resting(view: View) -> SessionRow:
    row = view.listed()
    return SessionRow(
        session_id=view.session_id,
        at_work=False,
        conversation=view.claude_session_id,
        updated_at=view.updated_at,
        cwd=view.cwd,
        state=view.state,
        label=row.label,
        machine=row.machine,
        archived=row.archived,
        search=row.search_text,
        summary=encode_strictly(row),
    )


def day_of(at: int) -> str:
    """The local date of a moment, as 2026-01-31."""
    return time.strftime("%Y-%m-%d", time.localtime(at / 1000))


# What passes between a run and the engine


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
