"""A session's wire as a cassette, which the simulator replays: from what the journal has of it.

The journal has the CLI's own lines, and of ours what they said: messages, answers, interrupts. From
that our lines are written again. What cannot be is left out, and the header says so: what else the
engine asked of the CLI and what that answered, hooks and in-process tools, questions that nobody
answered, and the pieces of messages of turns that have ended, which are not kept.

All lives of the CLI stand behind each other as if they were one.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from pilothouse.api.answers import Answer, Decline, Deny
from pilothouse.api.events import Event
from pilothouse.api.questions import Question
from pilothouse.api.records import (
    CLIEnded,
    CLIStarted,
    InterruptAsked,
    PromptSaid,
    PromptSent,
    QuestionClosed,
    QuestionOpened,
    SessionStarted,
    decode_record,
)
from pilothouse.client.elicitation import elicitation_payload
from pilothouse.client.permissions import as_request
from pilothouse.client.prompts import user_message
from pilothouse.journal.contract import Journal
from pilothouse.protocol import CanUseTool
from pilothouse.protocol.strict import is_strict
from pilothouse.protocol.wire import as_object, encode, encode_json, load, parse

from .questions import elicited, settled
from .questions.question import question_id

__all__ = ["cassette_of"]

FORMAT: Final = 1
PAGE: Final = 500
_ANSWERABLE: Final = ("can_use_tool", "elicitation")
_LINES: Final = frozenset({"cli", "partial"})
NOT_STORED: Final = (
    "what the engine asked of the CLI besides messages, answers and interrupts, and its answers",
    "hooks, in-process tools and dialogs, and questions that nobody answered",
    "the pieces of messages of turns that have ended: their text comes whole",
)


class _Asked(Struct):
    """A request of the CLI's that becomes a question."""

    entry: bytes
    """Its line of the cassette."""
    request_id: str
    request: dict[str, Any]


async def cassette_of(journal: Journal, session_id: str) -> AsyncGenerator[bytes]:
    """Yield the lines of a session's cassette, as far as it has come by now."""
    upto, cursor = journal.last, 0
    tape: _Tape | None = None
    while cursor < upto:
        batch = await journal.read(cursor, session_id=session_id, limit=PAGE)
        events = [event for event in batch.events if event.seq <= upto]
        if tape is None and events:
            tape = _Tape(session_id, events[0].at)
            yield _header(events)
        if tape is not None:
            lines = [line for event in events for line in tape.lines(event)]
            if lines:
                yield b"".join(lines)
        cursor = batch.cursor


def _header(events: list[Event]) -> bytes:
    records = [decode_record(bytes(each.body)) for each in events if each.kind.endswith(".started")]
    cwd = next((each.cwd for each in records if isinstance(each, SessionStarted)), "")
    version = next((each.version for each in records if isinstance(each, CLIStarted)), None)
    header = {
        "cassette": FORMAT,
        "cwd": cwd,
        "started": datetime.fromtimestamp(events[0].at / 1000, UTC).isoformat(),
        "cli_version": version or "",
        "recorder": "pilothouse journal",
        "left_out": NOT_STORED,
    }
    return encode(header)


class _Tape:
    """Writes what an entry was on the wire."""

    def __init__(self, session_id: str, start: int) -> None:
        self._session_id = session_id
        self._start = start
        self._said: dict[str, PromptSaid] = {}
        self._asked: dict[str, _Asked] = {}
        self._open: dict[str, Question] = {}
        self._counted = Counter[str]()

    def lines(self, event: Event) -> Iterator[bytes]:
        line = bytes(event.body) if event.raw is None else event.raw
        if event.kind in _LINES:
            yield from self._written(line, event)
        elif event.kind == "noise":
            text = parse(bytes(event.body))
            yield self._entry(event.at, "out", str(text).encode("utf-8", "replace"), is_json=False)
        else:
            yield from self._record(event)

    def _written(self, line: bytes, event: Event) -> Iterator[bytes]:
        """A line of the CLI's. A question of its is written once it is known to be one."""
        is_json = event.raw is None and line == line.strip() and b"\r" not in line
        if b'"control_' in line:
            message = as_object(parse(line))
            kind, request_id = message.get("type"), str(message.get("request_id"))
            if kind == "control_response":
                return
            if kind == "control_request":
                request = as_object(message.get("request"))
                if request.get("subtype") in _ANSWERABLE:
                    name = question_id(self._session_id, request_id)
                    entry = self._entry(event.at, "out", line, is_json=is_json)
                    self._asked[name] = _Asked(entry, request_id, request)
                return
        yield self._entry(event.at, "out", line, is_json=is_json)

    def _record(self, event: Event) -> Iterator[bytes]:
        match decode_record(bytes(event.body)):
            case PromptSaid() as said:
                self._said[said.id] = said
            case PromptSent(id=name) if name in self._said:
                said = self._said[name]
                message = user_message(said.content, said.id, priority=said.priority)
                yield self._entry(event.at, "in", encode_json(message))
            case InterruptAsked():
                yield from self._interrupted(event.at)
            case QuestionOpened(question=question) if question.id in self._asked:
                self._open[question.id] = question
            case QuestionClosed() as closed if closed.id in self._open:
                yield from self._answered(closed, event.at)
            case CLIEnded():
                # What it asked nobody could answer any more.
                self._asked.clear()
                self._open.clear()
            case _:
                pass

    def _interrupted(self, at: int) -> Iterator[bytes]:
        self._counted["interrupt"] += 1
        name = f"interrupt-{self._counted['interrupt']}"
        request = {"subtype": "interrupt"}
        asked = {"type": "control_request", "request_id": name, "request": request}
        yield self._entry(at, "in", encode_json(asked))
        yield self._entry(at, "out", encode_json(_response(name, None)))

    def _answered(self, closed: QuestionClosed, at: int) -> Iterator[bytes]:
        question, asked = self._open.pop(closed.id), self._asked.pop(closed.id)
        answer = closed.answer
        if closed.state == "expired":
            reason = closed.because or ""
            answer = Decline() if question.kind == "elicitation" else Deny(reason=reason)
        told = None if answer is None else _told(asked, answer)
        if told is not None:
            yield asked.entry
            line = encode_json(_response(asked.request_id, told))
            # The id in it is the CLI's.
            yield self._entry(at, "in", line, is_json=is_strict(line))

    def _entry(self, at: int, direction: str, line: bytes, *, is_json: bool = True) -> bytes:
        head: dict[str, Any] = {"t": max(at - self._start, 0) / 1000, "d": direction}
        if is_json:
            # As it is to the byte: numbers and the order of members, too.
            return encode_json(head)[:-1] + b',"json":' + line + b"}\n"
        try:
            head["text"] = line.decode()
        except UnicodeDecodeError:
            head["base64"] = base64.b64encode(line).decode()
        return encode(head)


def _told(asked: _Asked, answer: Answer) -> Any:
    """An answer as the CLI takes it; None where it does not fit what was asked."""
    try:
        if asked.request.get("subtype") == "elicitation":
            return elicitation_payload(elicited(answer))
        request = load(CanUseTool, encode_json(asked.request))
        return settled(as_request(asked.request_id, request), answer).result
    except TypeError:
        return None


def _response(request_id: str, response: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"subtype": "success", "request_id": request_id}
    if response is not None:
        body["response"] = response
    return {"type": "control_response", "response": body}
