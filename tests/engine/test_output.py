"""What a status tells of the entries after a cursor: lines of text, and tools that ended."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Raw

from pilothouse.api.answers import Deny
from pilothouse.api.events import Event
from pilothouse.api.questions import Question
from pilothouse.api.records import (
    CLI,
    CLIEnded,
    QuestionClosed,
    QuestionOpened,
    Record,
    TurnEnded,
    encode_record,
)
from pilothouse.engine.output import EndedTools, lines_of

TURN_ENDED = TurnEnded(outcome="interrupted", reason="aborted")


def entries(*given: dict[str, Any] | Record) -> list[Event]:
    """Entries from number 1 on: lines of the CLI's, and records."""
    return [_entry(number, each) for number, each in enumerate(given, 1)]


def _entry(seq: int, given: dict[str, Any] | Record) -> Event:
    kind, body = (
        encode_record(given) if isinstance(given, Record) else (CLI, json.dumps(given).encode())
    )
    return Event(seq, "s", kind, seq, Raw(body))


def said(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "model": "m", "content": list(blocks)}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None, **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def use(name: str, tool: str = "Bash") -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": tool, "input": {"command": name}}


def result(name: str, *, is_error: bool = False) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": name, "content": "", "is_error": is_error}
    return {"type": "user", "message": {"role": "user", "content": [block]}}


def ended(events: list[Event], after: int = 0, running: tuple[str, ...] = ()) -> list[Any]:
    tools = EndedTools()
    tools.follow(events, running)
    return [(each.id, each.state) for each in tools.told(after, {})]


def test_lines_are_those_after_the_cursor() -> None:
    events = entries(said(text("one\ntwo")), said(text("three\nfour")), said(text("five")))
    assert lines_of(events, 9) == ["one", "two", "three", "four", "five"]
    assert lines_of(events, 9, after=1) == ["three", "four", "five"]
    assert lines_of(events, 2, after=1) == ["four", "five"]
    assert lines_of(events, 9, after=3) == []
    assert lines_of(events, 0) == []


def test_what_a_subagent_says_is_left_out() -> None:
    events = entries(
        said(text("no"), parent_tool_use_id="a", uuid="l1"), said(text("yes"), uuid="l2")
    )
    assert lines_of(events, 9) == ["yes"]


def piece(event: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "stream_event", "event": event, "parent_tool_use_id": None, **more}


def written(words: str, **more: Any) -> dict[str, Any]:
    delta = {"type": "text_delta", "text": words}
    return piece({"type": "content_block_delta", "index": 0, "delta": delta}, **more)


BEGUN = piece({"type": "message_start", "message": {"id": "m1", "model": "m"}})


def test_a_text_is_told_while_the_model_writes_it() -> None:
    pieces = [BEGUN, written("One.\nT"), written("wo")]
    assert lines_of(entries(*pieces), 9) == ["One.", "Two"]
    assert lines_of(entries(*pieces), 1) == ["Two"]
    line = said(text("One.\nTwo."))
    line["message"]["id"] = "m1"
    assert lines_of(entries(*pieces, line), 9) == ["One.", "Two."]


def test_a_text_that_goes_on_after_the_cursor_is_told_from_its_beginning() -> None:
    events = entries(said(text("Before.")), BEGUN, written("One.\nT"), written("wo"))
    assert lines_of(events, 9, after=3) == ["One.", "Two"]
    assert lines_of(events, 9, after=4) == []


def test_a_text_whose_beginning_is_not_among_the_entries_is_told_from_where_they_begin() -> None:
    events = entries(written("and on"), written(" and on"))
    assert lines_of(events, 9) == ["and on and on"]


def test_what_a_subagent_writes_is_left_out() -> None:
    events = entries(written("no", parent_tool_use_id="a"), written("yes"))
    assert lines_of(events, 9) == ["yes"]


def test_what_the_cli_takes_back_is_left_out() -> None:
    events = entries(said(text("no"), uuid="l1"), said(text("yes"), uuid="l2", supersedes=["l1"]))
    assert lines_of(events, 9) == ["yes"]


def test_a_tool_that_began_before_the_cursor_and_ended_after_it_is_told() -> None:
    events = entries(said(use("a"), use("b")), result("a"), result("b", is_error=True))
    assert ended(events, after=2) == [("b", "failed")]
    assert ended(events) == [("a", "completed"), ("b", "failed")]


def test_a_turn_that_ends_ends_its_tools_but_not_those_that_go_on() -> None:
    events = entries(said(use("a"), use("b"), use("c")), TURN_ENDED, result("b"))
    assert ended(events, running=("c",)) == [("a", "failed"), ("b", "completed")]
    assert ended(entries(said(use("a")), CLIEnded(orderly=False))) == [("a", "failed")]


def test_a_tool_that_was_denied_is_told_so_whoever_denied_it() -> None:
    asked = Question(id="q", session_id="s", kind="tool", state="open", title="", tool_use_id="a")
    events = entries(
        said(use("a"), use("b"), use("c")),
        QuestionOpened(question=asked),
        QuestionClosed(id="q", state="answered", answer=Deny()),
        result("a", is_error=True),
        {"type": "system", "subtype": "permission_denied", "tool_use_id": "b", "tool_name": "x"},
        result("b", is_error=True),
        result("c", is_error=True),
    )
    assert ended(events) == [("a", "denied"), ("b", "denied"), ("c", "failed")]


def test_the_name_of_a_tool_is_learnt_from_older_lines() -> None:
    older = [json.dumps(said(use("a", "Read"), use("z"))).encode(), b"noise"]
    tools = EndedTools()
    tools.follow(entries(result("a"), result("b")), ())
    assert tools.unnamed(0) == ["a", "b"]
    assert tools.unnamed(1) == ["b"]
    tools.name(older, ["a", "b"])
    assert [(each.name, each.state) for each in tools.told(0, {})] == [("Read", "completed")]
