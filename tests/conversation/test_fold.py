"""The fold: the same items from the same events, in pieces or whole, at once or step by step."""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.api.events import Event, Gap
from pilothouse.api.items import (
    CompactionItem,
    GapItem,
    Item,
    NoticeItem,
    Patch,
    PromptItem,
    QuestionItem,
    RetryItem,
    TextItem,
    ToolItem,
    TurnItem,
)
from pilothouse.api.tool_views import ChoiceView, CommandView, PlanView, StructuredView
from pilothouse.conversation import Conversation, apply_patches, join_patches
from pilothouse.conversation.patches import apply_patch
from pilothouse.conversation.store import ItemStore
from tests.support.conversation.recorded import (
    RECORDINGS,
    STREAMS,
    Entry,
    entries,
    folded,
    without_pieces,
)

VERSIONS = ("2.1.325", "2.1.119", "2.1.37")
Json = dict[str, Any]


def name(recording: Path) -> str:
    return f"{recording.parent.name}-{recording.stem}"


def scene(version: str, stem: str) -> list[Item]:
    return folded(entries(STREAMS / version / f"{stem}.jsonl")).items


def only(items: list[Item], kind: type[Any]) -> Any:
    found = [item for item in items if isinstance(item, kind)]
    assert len(found) == 1, found
    return found[0]


# The same items, however they come


@pytest.mark.parametrize("recording", RECORDINGS, ids=name)
def test_the_items_are_the_same_when_the_pieces_are_gone(recording: Path) -> None:
    written = entries(recording)
    assert folded(written).items == folded(without_pieces(written)).items


@pytest.mark.parametrize("recording", RECORDINGS, ids=name)
def test_patches_lead_from_any_state_to_the_next(recording: Path) -> None:
    conversation, copied = Conversation(), dict[str, Json]()
    for entry in entries(recording):
        conversation.apply(*entry)
        for patch in conversation.patches():
            apply_patch(copied, as_json(patch))
        assert read(copied) == conversation.items


@given(st.sampled_from(RECORDINGS), st.lists(st.integers(0, 60), max_size=6))
def test_joined_patches_say_what_the_single_ones_did(recording: Path, cuts: list[int]) -> None:
    """A slow reader gets fewer patches and the same conversation."""
    conversation, copied, waiting = Conversation(), dict[str, Json](), list[Patch]()
    for number, entry in enumerate(entries(recording)):
        conversation.apply(*entry)
        waiting = join_patches(waiting, conversation.patches())
        if number in cuts:
            for patch in waiting:
                apply_patch(copied, as_json(patch))
            waiting = []
            assert read(copied) == conversation.items
    for patch in waiting:
        apply_patch(copied, as_json(patch))
    assert read(copied) == conversation.items


@given(st.sampled_from(RECORDINGS), st.integers(0, 200), st.integers(0, 40))
def test_a_reader_of_whom_only_the_cursor_is_known_gets_what_changed_since(
    recording: Path, seen: int, steps: int
) -> None:
    """Its server has begun anew, without the pieces: it knows nothing of what it has sent."""
    written = entries(recording)
    conversation, copied = Conversation(), dict[str, Json]()
    for entry in written[:seen]:
        conversation.apply(*entry)
    for patch in conversation.patches():
        apply_patch(copied, as_json(patch))
    anew = Conversation()
    for number, entry in enumerate(without_pieces(written)):
        anew.apply(*entry)
        if number % (steps + 1) == 0:
            anew.settle()
    anew.settle()
    changed = [as_json(each) for each in anew.changed_since(conversation.cursor)]
    apply_patches(copied, {"patches": changed, "unfinished": anew.unfinished()})
    assert read(copied) == anew.items


def test_what_changed_since_a_cursor_leaves_out_what_did_not() -> None:
    conversation = Conversation()
    for entry in [start(1, "msg_1"), piece(2, "Once "), whole(3, "msg_1", "Once.")]:
        conversation.apply(*entry)
        conversation.settle()
    for entry in [start(4, "msg_2"), piece(5, "upon ")]:
        conversation.apply(*entry)
        conversation.settle()
    assert [each.id for each in conversation.changed_since(3)] == ["msg_2/text0"]
    assert conversation.unfinished() == ["msg_2/text0"]
    assert conversation.changed_since(5) == []
    (told,) = conversation.changed_since(4)
    assert told.item is not None
    # One that was there before comes as members, for who has it: on a page behind it, nobody does.
    (first, _) = conversation.changed_since(2)
    assert (first.item, first.set["text"]) == (None, "Once.")


@pytest.mark.parametrize("is_settled", [True, False])
def test_what_changed_since_a_cursor_says_what_is_gone(is_settled: bool) -> None:
    """The line of a compaction that runs gives way to that of its boundary."""
    conversation = Conversation()
    running = {"type": "system", "subtype": "status", "status": "compacting", "uuid": "u1"}
    conversation.apply(1, "cli", 1, json.dumps(running).encode())
    if is_settled:
        conversation.settle()
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "u2"}
    told = {"trigger": "manual", "pre_tokens": 105}
    conversation.apply(2, "cli", 2, json.dumps({**boundary, "compact_metadata": told}).encode())
    conversation.settle()
    gone, new = conversation.changed_since(1)
    assert (gone.id, gone.removed, new.id) == ("u1", True, "u2")
    assert [each.id for each in conversation.changed_since(0)] == ["u2"]


@pytest.mark.parametrize("what", ["piece", "page", "reader of before"])
def test_what_a_change_takes_does_not_grow_with_the_conversation(what: str) -> None:
    assert steps_behind(10, what) == steps_behind(3000, what)


def steps_behind(count: int, what: str) -> int:
    """How many functions are called for one change behind as many items."""
    conversation = Conversation()
    for seq in range(1, count + 1):
        conversation.apply(*whole(seq, f"msg_{seq}", "Word."))
        conversation.settle()
    conversation.apply(*start(count + 1, "msg_new"))
    conversation.apply(*piece(count + 2, "Once "))
    conversation.settle()
    called = 0

    def note(_frame: object, event: str, _given: object) -> None:
        nonlocal called
        called += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        if what == "piece":
            conversation.apply(*piece(count + 3, "upon "))
            conversation.patches()
        elif what == "page":
            list(islice(conversation.before(f"msg_{count}/text0"), 5))
        else:
            conversation.changed_since(count)
    finally:
        sys.setprofile(None)
    return called


def test_what_is_said_again_stands_behind_the_others() -> None:
    copied = dict[str, Json]()
    store = ItemStore()
    for item in [TextItem(id="a", seq=1), TextItem(id="b", seq=2)]:
        store.add(item)
    for patch in store.patches(2):
        apply_patch(copied, as_json(patch))
    store.remove("a")
    store.add(TextItem(id="a", seq=3))
    for patch in store.patches(3):
        apply_patch(copied, as_json(patch))
    assert [item.id for item in store] == list(copied) == ["b", "a"]
    store.remove("b")
    later = store.patches(4)
    store.add(TextItem(id="b", seq=5))
    for patch in join_patches(later, store.patches(5)):
        apply_patch(copied, as_json(patch))
    assert [item.id for item in store] == list(copied) == ["a", "b"]


def as_json(patch: Patch) -> Json:
    return json.loads(msgspec.json.encode(patch))


def read(copied: dict[str, Json]) -> list[Item]:
    return [msgspec.convert(item, Item) for item in copied.values()]


def test_a_patch_says_no_more_than_what_is_new() -> None:
    conversation = Conversation()
    for entry in [start(1, "msg_1"), piece(2, "Once "), piece(3, "upon ")]:
        conversation.apply(*entry)
    conversation.patches()
    conversation.apply(*piece(4, "a time"))
    assert [as_json(each) for each in conversation.patches()] == [
        {"id": "msg_1/text0", "append": "a time"}
    ]


def test_what_was_only_in_pieces_goes_when_the_model_begins_anew() -> None:
    conversation = folded([start(1, "msg_1"), piece(2, "Not this."), start(3, "msg_2")])
    assert conversation.items == []


def test_an_entry_that_cannot_be_shown_is_a_notice_and_stops_nothing() -> None:
    conversation = folded(
        [Entry(1, "cli", 0, b'{"type": "assistant", "message": 7}'), Entry(2, "cli", 0, b"[]")]
    )
    assert all(isinstance(item, NoticeItem) for item in conversation.items)
    conversation.apply(*said(3, "p1", "Go on."))
    assert only(conversation.items, PromptItem).text == "Go on."


# What a person reads


@pytest.mark.parametrize("version", VERSIONS)
def test_a_command_has_its_output_and_exit_code(version: str) -> None:
    tool = only(scene(version, "folded_prompt"), ToolItem)
    assert (tool.state, tool.result) == ("done", "over")
    assert isinstance(tool.view, CommandView)
    assert (tool.view.output, tool.view.exit_code) == ("over", 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_denied_call_says_why_and_has_no_output(version: str) -> None:
    tool = only(scene(version, "permission_deny"), ToolItem)
    assert (tool.state, tool.result) == ("denied", "No Bash today.")
    assert (tool.view.output, tool.view.exit_code) == ("", None)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_subagents_work_belongs_to_the_call_that_started_it(version: str) -> None:
    items = scene(version, "agent")
    call = next(item for item in items if isinstance(item, ToolItem) and item.agent is None)
    inside = [item for item in items if item.agent == call.id]
    assert [type(item) for item in inside][:1] == [ToolItem]
    assert call.task is not None
    assert (call.task.type, call.task.state) == ("general-purpose", "completed")
    assert (call.task.tool_uses, call.task.tokens > 0) == (1, True)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_interrupted_text_stays_as_far_as_it_came(version: str) -> None:
    items = scene(version, "interrupt_text")
    turn = next(item for item in items if isinstance(item, TurnItem))
    assert turn.outcome == "interrupted"
    assert [item.tag for item in items if isinstance(item, NoticeItem)] == ["interrupted"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_compaction_is_one_item_with_what_it_saved(version: str) -> None:
    items = scene(version, "compact")
    done = only(items, CompactionItem)
    assert (done.state, done.trigger, done.tokens_before) == ("done", "manual", 105)
    assert "The conversation so far, in short." in (done.summary or "")
    prompts = [item.text for item in items if isinstance(item, PromptItem)]
    assert not any("being continued" in text for text in prompts)


@pytest.mark.parametrize("version", ["2.1.325", "2.1.119"])
def test_retries_are_one_item_that_ends_with_the_answer(version: str) -> None:
    retry = only(scene(version, "api_retry"), RetryItem)
    assert (retry.state, retry.attempt, retry.status) == ("over", 2, 529)


@pytest.mark.parametrize("version", VERSIONS)
def test_structured_output_is_in_the_call_and_in_the_turns_end(version: str) -> None:
    items = scene(version, "structured_output")
    assert only(items, ToolItem).view == StructuredView(value={"answer": "42"})
    assert only(items, TurnItem).structured_output == {"answer": "42"}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_models_questions_have_their_answers(version: str) -> None:
    tool = only(scene(version, "ask_user_question"), ToolItem)
    assert tool.view == ChoiceView(answers={"Which colour?": "Blue"})


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plan_is_shown_as_a_plan(version: str) -> None:
    tools = [item for item in scene(version, "exit_plan_mode") if isinstance(item, ToolItem)]
    plan = next(tool for tool in tools if tool.tool == "ExitPlanMode")
    assert isinstance(plan.view, PlanView)
    assert plan.view.plan == "# Plan\n\n1. Look\n2. Leap\n"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_turns_end_has_its_own_cost_and_that_of_each_model(version: str) -> None:
    turns = [item for item in scene(version, "compact") if isinstance(item, TurnItem)]
    assert len(turns) == 3
    for turn in turns:
        assert turn.cost_usd == pytest.approx(sum(each.cost_usd for each in turn.models.values()))


@pytest.mark.parametrize("version", VERSIONS)
def test_an_api_error_stands_where_it_happened(version: str) -> None:
    items = scene(version, "api_error")
    assert only(items, TurnItem).outcome == "failed"
    assert any(isinstance(item, TextItem) and item.error for item in items)


# What the engine adds


def test_a_prompt_is_queued_sent_and_taken() -> None:
    conversation = Conversation()
    states: list[str] = []
    echo = {"type": "user", "message": {"role": "user", "content": "Go."}, "uuid": "p1"}
    for entry in [
        said(1, "p1", "Go."),
        record(2, "prompt.sent", id="p1"),
        line(3, {**echo, "isReplay": True}),
    ]:
        conversation.apply(*entry)
        states.append(only(conversation.items, PromptItem).state)
    assert states == ["queued", "sent", "taken"]


def test_a_withdrawn_prompt_says_why() -> None:
    taken_back = record(2, "prompt.withdrawn", id="p1", because="the cap is reached")
    prompt = only(folded([said(1, "p1", "Go."), taken_back]).items, PromptItem)
    assert (prompt.state, prompt.because) == ("withdrawn", "the cap is reached")


def test_a_question_stands_beside_its_call_with_who_answered() -> None:
    conversation = folded([call(1, "toolu_1", "Bash", command="make"), opened(2, "q1", "toolu_1")])
    assert only(conversation.items, ToolItem).state == "asking"
    conversation.apply(
        *record(
            3,
            "question.closed",
            id="q1",
            state="answered",
            answer={"kind": "allow"},
            by="policy",
            rule="make",
        )
    )
    question = only(conversation.items, QuestionItem).question
    assert (question.state, question.answered_by, question.rule) == ("answered", "policy", "make")
    tool = only(conversation.items, ToolItem)
    assert (tool.state, tool.question) == ("running", "q1")


def test_a_refused_call_has_the_reason_of_the_refusal() -> None:
    refused = {"kind": "deny", "reason": "Not on a Friday."}
    conversation = folded(
        [
            call(1, "toolu_1", "Bash", command="make"),
            opened(2, "q1", "toolu_1"),
            record(3, "question.closed", id="q1", state="answered", answer=refused, by="person"),
            result(4, "toolu_1", "Not on a Friday.", is_error=True),
        ]
    )
    tool = only(conversation.items, ToolItem)
    assert (tool.state, tool.reason) == ("denied", "Not on a Friday.")


def test_whatever_ran_is_interrupted_when_the_cli_is_gone() -> None:
    ended = record(2, "cli.ended", orderly=False, reason="killed by signal 9")
    items = folded([call(1, "toolu_1", "Bash", command="make"), ended]).items
    assert only(items, ToolItem).state == "interrupted"
    assert "killed by signal 9" in only(items, NoticeItem).text


def test_lost_lines_and_removed_entries_are_gaps() -> None:
    conversation = folded([record(5, "lines.lost", because="the socket dropped")])
    conversation.missing(Gap(first=1, last=4, count=4, reason="retention"))
    conversation.missing(Gap(first=6, last=9, count=4, reason="partials"))
    gaps = [item for item in conversation.items if isinstance(item, GapItem)]
    assert [(gap.reason, gap.count) for gap in gaps] == [
        ("the socket dropped", 0),
        ("retention", 4),
    ]


# What a CLI writes


def line(seq: int, body: Json, kind: str = "cli") -> Entry:
    return Entry(seq, kind, seq, json.dumps(body).encode())


def record(seq: int, kind: str, **members: Any) -> Entry:
    return line(seq, {"record": kind, **members}, kind)


def said(seq: int, prompt_id: str, text: str) -> Entry:
    return record(seq, "prompt.said", id=prompt_id, content=text)


def opened(seq: int, question_id: str, call_id: str) -> Entry:
    question = {
        "id": question_id,
        "session_id": "s",
        "kind": "tool",
        "state": "open",
        "title": "Run make?",
        "tool_use_id": call_id,
    }
    return record(seq, "question.opened", question=question)


def start(seq: int, message_id: str) -> Entry:
    message = {"id": message_id, "role": "assistant", "model": "m", "content": []}
    event = {"type": "message_start", "message": message}
    return line(seq, {"type": "stream_event", "event": event}, "partial")


def piece(seq: int, text: str) -> Entry:
    delta = {"type": "text_delta", "text": text}
    event = {"type": "content_block_delta", "index": 0, "delta": delta}
    return line(seq, {"type": "stream_event", "event": event}, "partial")


def whole(seq: int, message_id: str, text: str) -> Entry:
    block = {"type": "text", "text": text}
    message = {"id": message_id, "role": "assistant", "model": "m", "content": [block]}
    return line(seq, {"type": "assistant", "message": message, "uuid": f"u{seq}"})


def call(seq: int, call_id: str, tool: str, **given: Any) -> Entry:
    block = {"type": "tool_use", "id": call_id, "name": tool, "input": given}
    message = {"id": f"msg_{seq}", "role": "assistant", "model": "m", "content": [block]}
    return line(seq, {"type": "assistant", "message": message, "uuid": f"u{seq}"})


def result(seq: int, call_id: str, text: str, *, is_error: bool = False) -> Entry:
    block = {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": text,
        "is_error": is_error,
    }
    message = {"role": "user", "content": [block]}
    return line(seq, {"type": "user", "message": message, "uuid": f"u{seq}"})


def test_a_call_tells_how_many_images_its_result_has() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "mcp__files__draw", "input": {}}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": [{"type": "text", "text": "Drawn."}, image, image],
    }
    conversation = Conversation()
    for seq, (kind, block) in enumerate([("assistant", call), ("user", result)], 1):
        message = {"role": kind, "content": [block], "id": "msg_1", "model": "m"}
        line = {"type": kind, "message": message, "session_id": "s", "uuid": str(seq)}
        conversation.apply_all(
            [Event(seq, "s", "cli", 1000, msgspec.Raw(json.dumps(line).encode()))]
        )
    tool = only(conversation.items, ToolItem)
    assert (tool.result, tool.images) == ("Drawn.", 2)
