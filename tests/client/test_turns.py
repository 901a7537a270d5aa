"""Turns, followed through the recorded streams of real CLIs and through invented ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.client.turns import MAX_COST_USD, Followed, Turn, TurnTracker, classify
from pilothouse.protocol import LineRejected, Message, ResultMessage, UserMessage, decode
from pilothouse.protocol.wire import encode_json

STREAMS = Path(__file__).parents[1] / "data/streams"
VERSIONS = ("2.1.325", "2.1.119", "2.1.37")

BOTH, ALL = VERSIONS[:2], VERSIONS
SILENT_AGENTS = ("2.1.62-node", "2.1.59")
"""They tell that a subagent has begun, and not that it has ended."""

# stream, versions, and each turn as (outcome, reason, number of prompts it answers)
ONE = ("finished", "completed", 1)
RECORDED: list[tuple[str, tuple[str, ...], list[tuple[str, str, int]]]] = [
    ("plain_turn", ALL, [("finished", "completed", 0)]),
    ("folded_prompt", ALL, [("finished", "completed", 2), ONE]),
    ("queued_prompts", BOTH, [ONE, ("finished", "completed", 2)]),
    ("queued_prompts", ("2.1.37",), [ONE, ONE, ONE]),
    (
        "interrupt_text",
        BOTH,
        [("interrupted", "aborted_streaming", 0), ("finished", "completed", 0)],
    ),
    (
        "interrupt_text",
        ("2.1.37",),
        [("interrupted", "error_during_execution", 0), ("finished", "completed", 0)],
    ),
    ("interrupt_tool", BOTH, [("interrupted", "aborted_tools", 0), ("finished", "completed", 0)]),
    ("interrupt_ask", BOTH, [("interrupted", "aborted_tools", 0)]),
    ("interrupt_ask", ("2.1.37",), [("interrupted", "error_during_execution", 0)]),
    ("max_turns", BOTH, [("failed", "max_turns", 0)] * 2),
    ("max_turns", ("2.1.37",), [("failed", "error_max_turns", 0)] * 2),
    ("api_error", ALL, [("failed", "api_error", 0)]),
    ("background_bash", BOTH, [("finished", "completed", 0)] * 2),
    ("background_bash", ("2.1.37",), [("finished", "completed", 0)]),
    ("background_agent", ("2.1.325",), [("finished", "completed", 0)] * 2),
    # 2.1.119 writes no result for the turn that started the agent.
    ("background_agent", ("2.1.119",), [("finished", "completed", 0)]),
    ("background_agent", SILENT_AGENTS, [("finished", "completed", 0)]),
    ("agent", ("2.1.119", "2.1.37"), [("finished", "completed", 0)]),
    ("agent", SILENT_AGENTS, [("finished", "completed", 0)]),
]
CASES = [(name, version, turns) for name, versions, turns in RECORDED for version in versions]


def message(kind: str, **fields: Any) -> Message:
    return decode(encode_json({"type": kind, **fields}))


BEGUN = message("system", subtype="init")
WORDS = message("assistant", message={"content": [{"type": "text", "text": "so"}]})


def result(**fields: Any) -> Message:
    return message("result", **{"subtype": "success", **fields})


def state(value: str) -> Message:
    return message("system", subtype="session_state_changed", state=value)


def echo(uuid: str) -> Message:
    body = {"role": "user", "content": "hi"}
    return message("user", uuid=uuid, isReplay=True, message=body)


def tool_use(key: str, name: str = "Bash") -> Message:
    block = {"type": "tool_use", "id": key, "name": name, "input": {}}
    return message("assistant", message={"content": [block]})


def tool_result(key: str) -> Message:
    block = {"type": "tool_result", "tool_use_id": key, "content": ""}
    return message("user", message={"role": "user", "content": [block]})


def follow_recorded(version: str, name: str) -> tuple[TurnTracker, list[Turn]]:
    """Every echoed prompt counts as sent just before its echo."""
    tracker, turns, sent = TurnTracker(), list[Turn](), set[str]()
    for line in (STREAMS / version / f"{name}.jsonl").read_bytes().splitlines():
        each = decode(line)
        if isinstance(each, UserMessage) and each.is_replay and each.uuid not in sent:
            sent.add(each.uuid)
            tracker.prompt_sent(each.uuid)
        turns += tracker.receive([each])
    return tracker, turns


@pytest.mark.parametrize(("name", "version", "expected"), CASES)
def test_recorded_turns_are_told_apart(
    name: str, version: str, expected: list[tuple[str, str, int]]
) -> None:
    tracker, turns = follow_recorded(version, name)
    assert [(turn.outcome, turn.reason, len(turn.prompts)) for turn in turns] == expected
    assert tracker.idle
    assert tracker.waiting_on() is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_turns_cost_is_what_it_added(version: str) -> None:
    _, turns = follow_recorded(version, "folded_prompt")
    results = [turn.result for turn in turns if turn.result]
    assert sum(turn.cost_usd for turn in turns) == pytest.approx(results[-1].total_cost_usd)
    assert turns[1].cost_usd < results[-1].total_cost_usd


def test_where_echoes_are_not_sure_to_come_a_result_answers_the_oldest_prompt() -> None:
    tracker = TurnTracker(echoes=False)
    tracker.prompt_sent("a")
    tracker.prompt_sent("b")
    (turn,) = tracker.receive([BEGUN, WORDS, result()])
    assert turn.prompts == ("a",)
    # Once one has come, they are waited for as ever.
    (turn,) = tracker.receive([BEGUN, echo("b"), WORDS, result()])
    assert turn.prompts == ("b",)
    tracker.prompt_sent("c")
    (turn,) = tracker.receive([BEGUN, WORDS, result()])
    assert turn.prompts == ()


def test_the_cost_starts_anew_with_a_new_conversation() -> None:
    tracker = TurnTracker()
    tracker.receive([result(total_cost_usd=5.0), message("conversation_reset")])
    (turn,) = tracker.receive([result(total_cost_usd=1.0)])
    assert turn.cost_usd == 1.0


# Idle


def test_it_is_idle_before_anything_was_said() -> None:
    assert TurnTracker().idle


def test_a_sent_prompt_is_work_until_its_turn_has_ended() -> None:
    tracker = TurnTracker()
    tracker.prompt_sent("a")
    assert not tracker.idle
    tracker.receive([BEGUN, echo("a"), result()])
    assert tracker.idle


def test_a_cli_that_reports_its_state_is_idle_when_it_says_so() -> None:
    tracker = TurnTracker()
    tracker.prompt_sent("a")
    tracker.receive([state("running"), echo("a"), result()])
    assert not tracker.idle
    tracker.receive([state("idle")])
    assert tracker.idle
    tracker.prompt_sent("b")
    assert not tracker.idle


def test_open_background_work_keeps_a_cli_without_state_reports_busy() -> None:
    tracker = TurnTracker()
    started = message("system", subtype="task_started", task_id="t", description="build")
    tracker.receive([started, result()])
    assert not tracker.idle
    tracker.receive([message("system", subtype="task_notification", task_id="t")])
    assert tracker.idle


BETWEEN = ("2.1.235", "2.1.176", "2.1.139", "2.1.92", *SILENT_AGENTS)


def idle_at_each_line(version: str, name: str) -> list[tuple[str, bool]]:
    """What each line of a recording is, and whether the CLI is idle after it."""
    tracker, seen = TurnTracker(), list[tuple[str, bool]]()
    for line in (STREAMS / version / f"{name}.jsonl").read_bytes().splitlines():
        each = decode(line)
        tracker.receive([each])
        seen.append((getattr(each, "subtype", None) or each.type, tracker.idle))
    return seen


@pytest.mark.parametrize("version", [*BOTH, *BETWEEN])
def test_a_shell_may_run_on_but_the_turn_about_its_end_is_waited_for(version: str) -> None:
    lines = idle_at_each_line(version, "background_bash")
    kinds = [kind for kind, _ in lines]
    ended, notified = kinds.index("success"), kinds.index("task_notification")
    over = len(kinds) - kinds[::-1].index("success") - 1
    assert any(is_idle for _, is_idle in lines[ended:notified])
    assert not any(is_idle for _, is_idle in lines[notified:over])
    assert lines[-1][1]


@pytest.mark.parametrize("version", [*BOTH, *BETWEEN])
def test_a_subagent_is_waited_for_and_the_turn_about_its_end_too(version: str) -> None:
    lines = idle_at_each_line(version, "background_agent")
    kinds = [kind for kind, _ in lines]
    over = len(kinds) - kinds[::-1].index("success") - 1
    assert not any(is_idle for _, is_idle in lines[kinds.index("init") : over])
    assert lines[-1][1]


def test_no_turn_is_expected_after_a_task_that_was_stopped() -> None:
    tracker = TurnTracker()
    stopped = message("system", subtype="task_notification", task_id="t", status="stopped")
    tracker.receive([*agent_started(is_backgrounded=True), result(), stopped])
    assert tracker.idle


def agent_started(**more: Any) -> list[Message]:
    call = {"type": "tool_use", "id": "c", "name": "Task", "input": {}}
    told = {"task_id": "t", "tool_use_id": "c", "task_type": "local_agent", **more}
    return [
        message("assistant", message={"content": [call]}),
        message("system", subtype="task_started", **told),
    ]


def test_a_subagent_inside_of_the_turn_ends_with_its_call() -> None:
    tracker = TurnTracker()
    tracker.receive([BEGUN, *agent_started()])
    assert list(tracker.tasks) == ["t"]
    tracker.receive([tool_result("c")])
    assert tracker.tasks == {}


def test_a_subagent_inside_of_the_turn_ends_with_the_turn_if_its_call_has_no_result() -> None:
    tracker = TurnTracker()
    tracker.receive([BEGUN, *agent_started(), result()])
    assert tracker.tasks == {}
    assert tracker.idle


@pytest.mark.parametrize(
    ("begun", "launched"),
    [
        ({"is_backgrounded": True}, {}),
        ({}, {"isAsync": True, "status": "async_launched"}),
        ({}, {"status": "remote_launched"}),
    ],
)
def test_a_subagent_beside_the_turn_outlives_its_call(
    begun: dict[str, Any], launched: dict[str, Any]
) -> None:
    tracker = TurnTracker()
    called = {"type": "tool_result", "tool_use_id": "c", "content": "launched"}
    answer = message("user", message={"content": [called]}, tool_use_result=launched)
    tracker.receive([BEGUN, *agent_started(**begun), answer, result()])
    assert list(tracker.tasks) == ["t"]
    assert not tracker.idle
    tracker.receive([message("system", subtype="task_notification", task_id="t")])
    assert tracker.tasks == {}


def test_a_subagent_that_is_moved_beside_the_turn_outlives_it() -> None:
    tracker = TurnTracker()
    patch = {"is_backgrounded": True}
    moved = message("system", subtype="task_updated", task_id="t", patch=patch)
    tracker.receive([BEGUN, *agent_started(), moved, result()])
    assert list(tracker.tasks) == ["t"]


# Which prompt


def test_a_result_names_its_prompts() -> None:
    tracker = TurnTracker()
    for uuid in "abc":
        tracker.prompt_sent(uuid)
    (turn,) = tracker.receive([result(user_message_uuids=["a", "c"])])
    assert turn.prompts == ("a", "c")
    assert tracker.unanswered == ("b",)


def test_the_prompts_of_a_turn_are_in_the_order_in_which_they_were_sent() -> None:
    tracker = TurnTracker()
    for uuid in "ab":
        tracker.prompt_sent(uuid)
    (turn,) = tracker.receive([BEGUN, echo("b"), echo("a"), result(user_message_uuid="b")])
    assert turn.prompts == ("a", "b")


def test_a_turn_after_background_work_answers_nobody() -> None:
    tracker = TurnTracker()
    tracker.prompt_sent("waiting")
    notified = message("system", subtype="task_notification", task_id="t")
    (turn,) = tracker.receive([notified, message("system", subtype="init"), result()])
    assert turn.prompts == ()
    assert tracker.unanswered == ("waiting",)


def test_a_result_with_an_origin_answers_nobody() -> None:
    tracker = TurnTracker()
    tracker.prompt_sent("waiting")
    (turn,) = tracker.receive([result(origin={"kind": "task-notification"})])
    assert turn.prompts == ()


def test_a_failure_before_any_echo_belongs_to_the_oldest_prompt() -> None:
    tracker = TurnTracker()
    tracker.prompt_sent("a")
    (turn,) = tracker.receive([result(subtype="error_during_execution", is_error=True)])
    assert (turn.outcome, turn.prompts) == ("failed", ("a",))


@pytest.mark.parametrize(
    ("told", "reason"), [("cancelled", "cancelled"), ("completed", "duplicate")]
)
def test_a_prompt_that_never_had_a_turn_is_cancelled(told: str, reason: str) -> None:
    tracker = TurnTracker()
    tracker.prompt_sent("a")
    (turn,) = tracker.receive([message("command_lifecycle", command_uuid="a", state=told)])
    assert (turn.outcome, turn.reason, turn.result) == ("cancelled", reason, None)
    assert tracker.idle


def test_the_end_of_a_prompts_life_after_its_result_changes_nothing() -> None:
    tracker = TurnTracker()
    tracker.prompt_sent("a")
    ended = message("command_lifecycle", command_uuid="a", state="completed")
    assert len(tracker.receive([BEGUN, echo("a"), result(), ended])) == 1


def test_a_turn_of_a_task_that_ended_during_another_turn_answers_nobody() -> None:
    tracker = TurnTracker()
    tracker.prompt_sent("first")
    notified = message("system", subtype="task_notification", task_id="t")
    tracker.receive([BEGUN, echo("first"), notified, result()])
    tracker.prompt_sent("second")
    (about_the_task,) = tracker.receive([BEGUN, WORDS, result()])
    assert about_the_task.prompts == ()
    (turn,) = tracker.receive([BEGUN, echo("second"), result()])
    assert turn.prompts == ("second",)


def test_a_slash_command_is_answered_without_an_echo() -> None:
    tracker = TurnTracker()
    tracker.prompt_sent("command", is_echoed=False)
    (turn,) = tracker.receive([BEGUN, WORDS, result()])
    assert turn.prompts == ("command",)


def test_a_turn_that_ends_before_the_model_speaks_is_the_oldest_prompts() -> None:
    # A spent budget on 2.1.119 and 2.1.37: init, and then the result.
    tracker = TurnTracker()
    tracker.prompt_sent("a")
    (turn,) = tracker.receive([BEGUN, result(subtype="error_max_budget_usd")])
    assert (turn.outcome, turn.prompts) == ("failed", ("a",))


# What it waits for


def test_a_running_tool_is_named() -> None:
    tracker = TurnTracker()
    tracker.prompt_sent("a")
    tracker.receive(
        [message("system", subtype="init"), tool_use("1", "Bash"), tool_use("2", "Read")]
    )
    waiting = tracker.waiting_on()
    assert waiting is not None
    assert (waiting.what, waiting.detail) == ("tool", "Bash, Read")
    tracker.receive([tool_result("1"), tool_result("2")])
    waiting = tracker.waiting_on()
    assert waiting is not None
    assert waiting.what == "api"


def test_a_retry_of_the_api_is_named() -> None:
    tracker = TurnTracker()
    tracker.prompt_sent("a")
    retry = {"attempt": 2, "max_retries": 10, "error_status": 529, "error": "overloaded"}
    tracker.receive([message("system", subtype="api_retry", **retry)])
    waiting = tracker.waiting_on()
    assert waiting is not None
    assert waiting.detail == "retry 2 of 10 after overloaded (529)"


def test_background_work_is_named() -> None:
    tracker = TurnTracker()
    tasks = [{"task_id": "t", "task_type": "local_bash", "description": "npm run dev"}]
    tracker.receive([message("system", subtype="background_tasks_changed", tasks=tasks)])
    waiting = tracker.waiting_on()
    assert waiting is not None
    assert (waiting.what, waiting.detail) == ("background", "npm run dev")


# How it ended


@pytest.mark.parametrize(
    ("fields", "interrupted", "outcome"),
    [
        ({"subtype": "success"}, False, "finished"),
        ({"subtype": "success", "is_error": True}, False, "failed"),
        ({"subtype": "success", "is_error": True, "terminal_reason": "completed"}, False, "failed"),
        ({"subtype": "error_max_turns", "is_error": False}, False, "failed"),
        ({"subtype": "error_during_execution", "is_error": False}, True, "interrupted"),
        ({"subtype": "error_during_execution", "is_error": True}, False, "failed"),
        (
            {"subtype": "error_during_execution", "terminal_reason": "aborted_tools"},
            False,
            "interrupted",
        ),
        ({"subtype": "success", "terminal_reason": "hook_stopped"}, False, "finished"),
        ({"subtype": "something_new", "is_error": False}, False, "failed"),
    ],
)
def test_every_versions_ending_is_classified(
    fields: dict[str, Any], interrupted: bool, outcome: str
) -> None:
    ended = result(**fields)
    assert isinstance(ended, ResultMessage)
    assert classify(ended, interrupted=interrupted)[0] == outcome


def written_down(tracker: TurnTracker) -> TurnTracker:
    """The tracker as another process goes on with it."""
    body = msgspec.json.encode(tracker.followed())
    return TurnTracker.going_on(msgspec.json.decode(body, type=Followed))


def test_a_tracker_goes_on_as_if_it_had_seen_everything() -> None:
    tracker = TurnTracker()
    tracker.receive([state("running"), BEGUN, result(total_cost_usd=2.0), state("idle")])
    assert tracker.followed().is_resting
    resumed = written_down(tracker)
    assert (resumed.idle, resumed.reports_idle) == (True, True)
    assert resumed.followed() == tracker.followed()
    (turn,) = resumed.receive([BEGUN, result(total_cost_usd=2.5)])
    assert turn.cost_usd == 0.5


@pytest.mark.parametrize(
    "under_way",
    [
        [BEGUN],
        [WORDS],
        [tool_use("t")],
        [message("system", subtype="api_retry", attempt=1)],
        [message("system", subtype="task_started", task_id="k")],
        [message("system", subtype="task_notification", task_id="k")],
    ],
)
def test_what_is_under_way_is_known_to_whoever_goes_on(under_way: list[Message]) -> None:
    tracker = TurnTracker()
    assert tracker.followed().is_resting
    tracker.prompt_sent("p")
    tracker.receive(under_way)
    assert not tracker.followed().is_resting
    resumed = written_down(tracker)
    assert resumed.followed() == tracker.followed()
    assert resumed.waiting_on() == tracker.waiting_on()
    ended = [echo("p"), result()]
    assert [turn.prompts for turn in resumed.receive(ended)] == [
        turn.prompts for turn in tracker.receive(ended)
    ]


def test_the_tools_of_an_agent_end_with_the_turn_unless_it_runs_beside_it() -> None:
    block = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
    inner = message("assistant", parent_tool_use_id="a", message={"content": [block]})
    beside = message("system", subtype="task_started", task_id="k", description="scout")
    alone, accompanied = TurnTracker(), TurnTracker()
    alone.receive([BEGUN, inner, result()])
    accompanied.receive([BEGUN, beside, inner, result()])
    assert (list(alone.tools), list(accompanied.tools)) == ([], ["t"])


UUIDS = st.sampled_from(["a", "b", "c"])
STEPS = st.one_of(
    st.tuples(st.just("send"), UUIDS),
    st.builds(lambda u: ("get", echo(u)), UUIDS),
    st.builds(lambda u: ("get", result(user_message_uuids=u)), st.lists(UUIDS, max_size=2)),
    st.builds(
        lambda u, s: ("get", message("command_lifecycle", command_uuid=u, state=s)),
        UUIDS,
        st.sampled_from(["queued", "started", "completed", "cancelled"]),
    ),
    st.builds(lambda s: ("get", state(s)), st.sampled_from(["running", "idle", "requires_action"])),
    st.builds(lambda k: ("get", tool_use(k)), UUIDS),
    st.builds(lambda k: ("get", tool_result(k)), UUIDS),
)


@given(st.lists(STEPS, max_size=40))
def test_no_order_of_events_answers_a_prompt_twice(steps: list[tuple[str, Any]]) -> None:
    tracker, sent, answered = TurnTracker(), list[str](), list[str]()
    for what, value in steps:
        if what == "send":
            if value not in sent:
                sent.append(value)
                tracker.prompt_sent(value)
            continue
        for turn in tracker.receive([value]):
            answered += turn.prompts
    assert len(answered) == len(set(answered))
    assert set(answered) | set(tracker.unanswered) == set(sent)
    assert not (tracker.idle and tracker.unanswered)


@pytest.mark.parametrize(
    "costs",
    [
        [-1.7e308, 1.7e308],
        [1.7e308, -1.7e308, 1.7e308],
        [10**19, 10**310, 1],
    ],
)
def test_whatever_a_cli_says_it_has_cost_the_sum_is_one(costs: list[float]) -> None:
    tracker = TurnTracker()
    turns = tracker.receive([result(total_cost_usd=each) for each in costs])
    assert len(turns) == len(costs)
    assert 0 <= sum(turn.cost_usd for turn in turns) <= len(costs) * MAX_COST_USD


def test_what_two_models_have_cost_is_bounded_together() -> None:
    used = {name: {"costUSD": 1.7e308} for name in "ab"}
    (turn,) = TurnTracker().receive([result(model_usage_since_last_result=used)])
    assert turn.cost_usd == MAX_COST_USD


def test_a_message_that_cannot_be_followed_does_not_stop_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = result()
    broken.permission_denials = broken.user_message_uuids = None  # type: ignore[assignment]
    (turn,) = TurnTracker().receive([broken, result()])
    assert turn.outcome == "finished"
    assert "cannot be followed" in caplog.text


# Lines that were lost


def test_a_turn_whose_result_was_lost_ends_when_the_cli_is_idle() -> None:
    tracker = TurnTracker()
    tracker.prompt_sent("a")
    turns = tracker.receive([state("running"), BEGUN, echo("a"), WORDS])
    turns += tracker.receive([LineRejected("longer than 9 bytes", b"{", 10)])
    assert turns == []
    tracker.prompt_sent("b")
    (turn,) = tracker.receive([state("idle")])
    assert (turn.outcome, turn.reason) == ("failed", "the line with its result was lost")
    assert turn.prompts == ("a",)
    assert tracker.unanswered == ("b",)
    (turn,) = tracker.receive([state("running"), BEGUN, echo("b"), result()])
    assert (turn.outcome, turn.prompts) == ("finished", ("b",))


def test_a_turn_whose_echo_was_lost_as_well_ends_when_the_cli_is_idle() -> None:
    tracker = TurnTracker()
    tracker.prompt_sent("a")
    assert tracker.receive([state("running")]) == []
    tracker.lines_lost()
    tracker.prompt_sent("b")
    (turn,) = tracker.receive([state("idle")])
    assert (turn.outcome, turn.prompts) == ("failed", ("a",))
    assert tracker.unanswered == ("b",)


def test_a_turn_that_loses_another_line_ends_with_its_result() -> None:
    tracker = TurnTracker()
    tracker.prompt_sent("a")
    tracker.receive([state("running"), BEGUN, echo("a")])
    tracker.lines_lost()
    (turn,) = tracker.receive([result(), state("idle")])
    assert (turn.outcome, turn.prompts) == ("finished", ("a",))
    assert tracker.idle
    assert tracker.followed().is_resting


def test_what_is_lost_between_two_turns_is_no_result_of_the_next() -> None:
    tracker = TurnTracker()
    tracker.lines_lost()
    tracker.prompt_sent("a")
    # 2.1.119 may be idle without a result of its own.
    assert tracker.receive([state("running"), BEGUN, echo("a"), state("idle")]) == []


def test_a_turn_that_is_announced_has_not_begun() -> None:
    """A CLI says that it runs before it does; an interrupt in between has no effect."""
    tracker = TurnTracker()
    tracker.receive([state("running")])
    assert (tracker.running, tracker.begun) == (True, False)
    tracker.receive([BEGUN])
    assert tracker.begun
    assert TurnTracker.going_on(tracker.followed()).begun
    tracker.receive([message("result", subtype="success")])
    assert not tracker.begun
