"""Journal entries to fold into a view, in few words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pilothouse.api.answers import Answer
from pilothouse.api.questions import Question
from pilothouse.api.records import (
    CLIEnded,
    CLIStarted,
    PromptSaid,
    PromptSent,
    QuestionClosed,
    QuestionOpened,
    Record,
    SessionStarted,
    SessionStopped,
    encode_record,
)
from pilothouse.client.turns import Turn
from pilothouse.engine.view import View, record_of
from pilothouse.journal.contract import Snapshot
from pilothouse.protocol.wire import encode_json

Entry = tuple[str, bytes]


def entry(record: Record) -> Entry:
    return encode_record(record)


def line(kind: str, **fields: Any) -> Entry:
    return "cli", encode_json({"type": kind, **fields})


def told(state: str) -> Entry:
    return line("system", subtype="session_state_changed", state=state)


def speaks(*blocks: dict[str, Any], parent: str | None = None, tokens: int = 10) -> Entry:
    message = {"model": "big", "content": list(blocks), "usage": {"input_tokens": tokens}}
    return line("assistant", message=message, parent_tool_use_id=parent)


def calls(tool_id: str, name: str = "Bash", parent: str | None = None, **given: Any) -> Entry:
    block = {"type": "tool_use", "id": tool_id, "name": name, "input": given}
    return speaks(block, parent=parent)


def gives(tool_id: str, *, is_error: bool = False) -> Entry:
    block = {"type": "tool_result", "tool_use_id": tool_id, "content": "", "is_error": is_error}
    return line("user", message={"content": [block]})


def ends(*uuids: str, total: float = 0.5, **fields: Any) -> Entry:
    usage = {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 5}
    plain = {"subtype": "success", "result": "so be it", "user_message_uuids": list(uuids)}
    return line("result", **{**plain, "total_cost_usd": total, "usage": usage, **fields})


def asks(question_id: str, **fields: Any) -> Entry:
    given = {"kind": "tool", "state": "open", "title": f"{question_id}?", **fields}
    return entry(QuestionOpened(question=Question(id=question_id, session_id="s", **given)))


def closes(question_id: str, answer: Answer | None = None, **fields: Any) -> Entry:
    state = "answered" if answer is not None else "withdrawn"
    return entry(QuestionClosed(id=question_id, **{"state": state, "answer": answer, **fields}))


def echo(uuid: str) -> Entry:
    return line("user", uuid=uuid, isReplay=True, message={"content": "hi"})


STARTED = entry(SessionStarted(cwd="/boat", label="harbour"))
ALIVE = entry(CLIStarted(pid=7, version="2.1.325"))
INIT = line("system", subtype="init", session_id="theirs", model="big", permissionMode="plan")
DIED = entry(CLIEnded(orderly=False, reason="killed by signal 9"))
CLOSED = entry(CLIEnded(orderly=True))
STOPPED = entry(SessionStopped())


def said(prompt_id: str, content: Any = "hi") -> Entry:
    return entry(PromptSaid(id=prompt_id, content=content))


def sent(prompt_id: str) -> Entry:
    return entry(PromptSent(id=prompt_id))


def begun(prompt_id: str = "p") -> list[Entry]:
    """A session whose first message is being answered."""
    return [STARTED, said(prompt_id), ALIVE, sent(prompt_id), INIT, echo(prompt_id)]


class Folding:
    """A view that is fed as an engine feeds it: a turn that ended gets its record."""

    def __init__(self, view: View | None = None) -> None:
        self.view = view or View("s")
        self.turns: list[Turn] = []

    def feed(self, *entries: Entry) -> View:
        for kind, body in entries:
            turns = self._one(kind, body)
            self.turns += turns
            for turn in turns:
                self._one(*entry(record_of(turn, self.view.models_of(turn))))
        return self.view

    def _one(self, kind: str, body: bytes) -> list[Turn]:
        seq = self.view.last_seq + 1
        return self.view.apply(seq, kind, 1000 * seq, body)


def fold(*entries: Entry) -> View:
    return Folding().feed(*entries)


def recorded(path: Path) -> Iterator[Entry]:
    """A stream as a journal has it: each prompt is said and sent before it is first mentioned."""
    yield from (STARTED, ALIVE)
    known = set[str]()
    for body in path.read_bytes().splitlines():
        given = json.loads(body)
        prompt = given.get("command_uuid") or (given.get("isReplay") and given["uuid"])
        if prompt and prompt not in known:
            known.add(prompt)
            yield from (said(prompt), sent(prompt))
        yield ("partial" if given["type"] == "stream_event" else "cli"), body


def check_cuts(entries: list[Entry], *, at_least: int = 0) -> None:
    """Folding in one go is the same as going on from any snapshot on the way."""
    whole, snapshots = Folding(), list[tuple[int, Snapshot]]()
    for count, each in enumerate(entries, 1):
        snapshot = whole.feed(each).snapshot()
        snapshots += [(count, snapshot)] if snapshot is not None else []
    assert len(snapshots) >= at_least
    for count, snapshot in snapshots:
        rest = Folding(View.restore(snapshot)).feed(*entries[count:])
        assert known(rest) == known(whole.view)


def known(view: View) -> tuple[Any, ...]:
    ids = [(each.id, each.sent) for each in view.queued.values()]
    return view.status(), view.busy, view.idle, ids, view.last_turn_range, view.snapshot()
