"""A session as an engine lives it, in memory: lines in, entries out, and the fold of both."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, cast

from pilothouse.api.events import Event as Entry
from pilothouse.api.records import (
    CLIStarted,
    PromptSaid,
    PromptSent,
    QuestionOpened,
    SessionStarted,
)
from pilothouse.client.elicitation import ElicitationRequest
from pilothouse.client.permissions import as_request
from pilothouse.engine.output import EndedTools, lines_of
from pilothouse.engine.questions import pose
from pilothouse.engine.recorder import Recorder
from pilothouse.engine.view import View
from pilothouse.journal.contract import Changes, Draft, Posted
from pilothouse.protocol import (
    CanUseTool,
    Connection,
    Elicitation,
    Event,
    LineRejected,
    Message,
    RequestCancelled,
    RequestReceived,
    ResponseReceived,
    Role,
    StreamEnded,
)
from tests.support.engine.entries import known

PROMPT = "0b52f0f6-0000-4000-8000-000000000001"
CWD = "/home/dev/project"


class Drafts:
    """Stands for a journal: numbers what is posted, and has it at hand."""

    failed = None

    def __init__(self) -> None:
        self.drafts: list[Draft] = []

    @property
    def last(self) -> int:
        return len(self.drafts)

    @property
    def next(self) -> int:
        return len(self.drafts) + 1

    def post(self, drafts: Sequence[Draft], _: Changes | None = None) -> Posted:
        first = self.next
        self.drafts += drafts
        return Posted(first, self.last, cast("Any", None))


class Fold:
    """One session whose CLI writes what it is given."""

    def __init__(self) -> None:
        self.journal = Drafts()
        self.view = View("3f1c8a52-0000-4000-8000-000000000002")
        self._clock = itertools.count(1_700_000_000_000)
        self._recorder = Recorder(cast("Any", self.journal), clock=lambda: next(self._clock))
        self._connection = Connection(Role.CLIENT)
        self._recorder.write(
            self.view,
            SessionStarted(cwd=CWD),
            PromptSaid(id=PROMPT, content="go"),
            CLIStarted(pid=7, version="2.1.325"),
            PromptSent(id=PROMPT),
        )
        self._own = self.journal.last

    def take(self, data: bytes) -> None:
        """Bytes of the CLI's, cut anywhere: messages are kept first, requests are posed then."""
        self._connection.receive_data(data)
        events = self._connection.events()
        plain = [plain for each in events if (plain := as_plain(each)) is not None]
        self._recorder.lines(self.view, plain, set(map(type, plain)))
        for event in events:
            if isinstance(event, RequestReceived):
                self._pose(event)

    def _pose(self, event: RequestReceived) -> None:
        match event.request:
            case CanUseTool() as asked:
                request = as_request(event.request_id, asked)
            case Elicitation() as asked:
                request = ElicitationRequest(event.request_id, asked)
            case _:
                return
        view = self.view
        question = pose(
            request,
            session_id=view.session_id,
            cwd=view.cwd,
            label=view.label,
            mode=view.mode,
            now=next(self._clock),
            expires_at=None,
            bypass_allowed=False,
        )
        self._recorder.write(view, QuestionOpened(question=question))

    @property
    def entries(self) -> list[Entry]:
        """What a reader of the journal gets."""
        return [
            Entry(seq, draft.session_id, draft.kind, draft.at, cast("Any", told_of(draft)))
            for seq, draft in enumerate(self.journal.drafts, 1)
        ]

    def check(self) -> None:
        """Whatever was said, it can be told again, put down and taken up."""
        self.view.status(output=lines_of(self.entries, 20))
        EndedTools().follow(self.entries, ())
        again = View(self.view.session_id)
        for each in self.entries:
            again.apply(each.seq, each.kind, each.at, bytes(each.body))
        assert known(again) == known(self.view), "folded anew it is another session"
        snapshot = self.view.snapshot()
        if snapshot is not None:
            restored = View.restore(snapshot)
            assert known(restored) == known(self.view), "taken up again it is another session"


def told_of(draft: Draft) -> bytes:
    """The body that readers get: another one where not every one of them takes the line."""
    return getattr(draft, "told", None) or draft.body


def as_plain(event: Event) -> Message | LineRejected | None:
    """What a sink is told of an event."""
    match event:
        case RequestReceived() | RequestCancelled():
            return event.message
        case ResponseReceived():
            return event.response
        case StreamEnded():
            return None
        case _:
            return event


def raw_of(event: Event) -> bytes:
    """The line that an event comes from."""
    plain = as_plain(event)
    assert plain is not None
    return plain.line if isinstance(plain, LineRejected) else plain.raw
