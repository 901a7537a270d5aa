"""What must hold of a journal, whatever happened: held against what `played` noted outside."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

from pilothouse.api.events import Event
from pilothouse.api.statuses import Status
from pilothouse.engine.questions import same
from pilothouse.engine.session_state import STATES
from pilothouse.engine.view import View
from tests.support.engine.played import EngineStage
from tests.support.engine.played_cli import PlayedCLI


async def audit(stage: EngineStage) -> None:
    """Check all of it; everything must have been committed and heard."""
    events = await stage.events()
    await stage.touch_all()
    _check_order(events)
    _check_views(stage, events)
    histories = _check_questions(events)
    await _check_rows(stage, histories)
    _check_asks(stage, histories)
    _check_answers(stage, histories)
    _check_prompts(stage, events)
    _check_lines(stage, events)
    _check_followers(stage, events)


def _check_order(events: list[Event]) -> None:
    numbers = [each.seq for each in events]
    assert numbers == sorted(set(numbers))


# Views


def _check_views(stage: EngineStage, events: list[Event]) -> None:
    told = {each: View(session_id=each) for each in stage.engine.sessions}
    for event in events:
        told[event.session_id].apply(event.seq, event.kind, event.at, bytes(event.body))
    for session_id, view in told.items():
        live = stage.session(session_id).view
        assert live.state in STATES
        assert (live.state == "awaiting_input") == bool(live.open_questions)
        assert _known(live) == _known(view)


def _known(view: View) -> tuple[Any, ...]:
    tracker = view.tracker
    followed = tracker and (tracker.running, tracker.unanswered, tracker.idle, list(tracker.tools))
    queued = [(each.id, each.sent) for each in view.queued.values()]
    return _without_place(view.status()), view.busy, view.idle, queued, followed


def _without_place(status: Status) -> dict[str, Any]:
    # Pieces of messages that are gone by now have a number and a moment too.
    told = {name: getattr(status, name) for name in status.__struct_fields__}
    return {name: each for name, each in told.items() if name not in ("cursor", "updated_at")}


# Questions

History = list[tuple[str, dict[str, Any]]]


def _check_questions(events: list[Event]) -> dict[str, History]:
    """Each question opens once, is closed at most once, and is decided only after a death."""
    histories: dict[str, History] = defaultdict(list)
    for event in events:
        if event.kind.startswith("question."):
            body = json.loads(bytes(event.body))
            question_id = body["question"]["id"] if "question" in body else body["id"]
            histories[question_id].append((event.kind, body))
    for history in histories.values():
        kinds = [kind for kind, _ in history]
        assert kinds in (
            ["question.opened"],
            ["question.opened", "question.closed"],
            ["question.opened", "question.closed", "question.decided"],
        ), history
        closed = history[1][1] if len(history) > 1 else {}
        assert len(history) < 3 or closed.get("decidable"), history
        assert closed.get("state") in (None, "answered") or closed.get("because"), history
    return histories


async def _check_rows(stage: EngineStage, histories: dict[str, History]) -> None:
    rows = {each.id: each for each in await stage.engine.questions(state="any")}
    assert rows.keys() == histories.keys()
    held = {each.id: each for each in stage.questions}
    for question_id, history in histories.items():
        row = rows[question_id]
        states = ["open", history[1][1]["state"] if len(history) > 1 else "", "answered"]
        assert row.state == states[len(history) - 1], (row, history)
        decidable = len(history) == 1 or (len(history) == 2 and "decidable" in history[1][1])
        assert row.decidable == decidable == (question_id in held), (row, history)
        if row.state == "open":
            assert stage.cli(row.session_id) is not None, f"nobody asks any more: {row}"


def _check_asks(stage: EngineStage, histories: dict[str, History]) -> None:
    shown = Counter[str]()
    by_mark: dict[str, History] = {}
    for history in histories.values():
        question = history[0][1]["question"]
        name = question.get("tool_use_id") or question["title"] + question["text"]
        for cli in stage.clis:
            for each in cli.asks.values():
                if each in name:
                    shown[each] += 1
                    by_mark[each] = history
    for cli in stage.clis:
        for request_id, each in cli.asks.items():
            assert shown[each] == 1 or (shown[each] == 0 and each not in stage.certain)
            if each not in by_mark:
                continue
            _, closed = by_mark[each][1] if len(by_mark[each]) > 1 else ("", {})
            if closed.get("state") == "withdrawn" and "decidable" not in closed:
                assert request_id in cli.withdrawn, "nobody took it back"
            if cli.is_alive and not cli.is_lost:
                _check_heard(cli, request_id, by_mark[each])


def _check_heard(cli: PlayedCLI, request_id: str, history: History) -> None:
    """A CLI that is alive waits exactly for what is open."""
    is_open = len(history) == 1
    if request_id in cli.withdrawn:
        assert not is_open
    else:
        assert is_open == (request_id not in cli.answers), (history, cli.answers.get(request_id))


def _check_answers(stage: EngineStage, histories: dict[str, History]) -> None:
    """Who was told that an answer counts was told the truth, and no other one was told so."""
    firsts = Counter(each for each, _, told in stage.settled if not told.repeated)
    assert all(count == 1 for count in firsts.values()), firsts
    for _, answer, told in stage.settled:
        assert told.question.answer is not None
        assert same(told.question.answer, answer)
        _, kept = histories[told.question.id][-1]
        marks = json.dumps(kept["answer"])
        assert kept["answer"]["kind"] == answer.__struct_config__.tag, marks


# Prompts


def _check_prompts(stage: EngineStage, events: list[Event]) -> None:
    """What was said is queued, was taken back or was written to a CLI; and taken only once."""
    taken, withdrawn, said = set[str](), set[str](), set[str]()
    contents: dict[tuple[str, str], str] = {}
    for event in events:
        body = json.loads(bytes(event.body))
        match event.kind:
            case "prompt.said":
                # Once more where a CLI that is about to close must give it back.
                assert body["id"] not in taken | withdrawn
                said.add(body["id"])
                once = (event.session_id, str(body["content"]))
                is_other = contents.setdefault(once, body["id"]) != body["id"]
                assert not is_other or "key-" not in once[1], "one key, two messages"
            case "prompt.sent":
                assert body["id"] in said - taken - withdrawn, "it was sent again"
            case "prompt.withdrawn":
                withdrawn.add(body["id"])
            case "cli" if body.get("isReplay"):
                taken.add(body["uuid"])
            case _:
                pass
    heard = {each for cli in stage.clis for each in cli.heard}
    assert stage.said.keys() <= said
    for prompt_id, session_id in stage.said.items():
        queued = prompt_id in stage.session(session_id).view.queued
        assert queued or prompt_id in withdrawn | heard, "a message is gone"
        assert not (queued and prompt_id in taken | withdrawn)
        cli = stage.cli(session_id)
        assert not queued or cli is None or prompt_id in cli.heard, "it waits, and nobody knows"


# Lines


def _check_lines(stage: EngineStage, events: list[Event]) -> None:
    """Each line of a CLI is there once, in its place; of a killed engine's, up to some line."""
    kept: dict[bytes, list[int]] = defaultdict(list)
    for event in events:
        if event.kind in ("cli", "noise", "partial"):
            kept[_line(event)].append(event.seq)
    for cli in stage.clis:
        numbers = [kept.pop(line, []) for line in cli.wrote]
        lasting = [n for n, line in zip(numbers, cli.wrote, strict=True) if _is_lasting(line)]
        count = len([each for each in lasting if each]) if cli.is_cut else len(lasting)
        assert all(len(each) == 1 for each in lasting[:count]), "a line is missing, or is double"
        places = [number for each in numbers for number in each]
        assert places == sorted(set(places)), "lines have changed places"
    assert not kept, "nobody wrote this"


def _is_lasting(line: bytes) -> bool:
    return b'"stream_event"' not in line


def _line(event: Event) -> bytes:
    body = bytes(event.body)
    return json.loads(body).encode() if event.kind == "noise" else body


def _check_followers(stage: EngineStage, events: list[Event]) -> None:
    """Who followed across every restart saw each entry once, or was told of a gap."""
    for follower in stage.followers:
        numbers = [each.seq for each in follower.events]
        assert numbers == sorted(set(numbers))
        of = follower.session_id
        there = {each.seq for each in events if of is None or each.session_id == of}
        assert there <= set(numbers)
        assert {each.seq for each in follower.events if each.kind != "partial"} <= there
    everything = stage.followers[0]
    gone = {seq for gap in everything.gaps for seq in range(gap.first, gap.last + 1)}
    assert everything.cursor == stage.engine.journal.last
    # Numbers that were given to what a kill has taken are given again: there is no hole.
    seen = {each.seq for each in everything.events}
    assert set(range(1, everything.cursor + 1)) <= seen | gone
