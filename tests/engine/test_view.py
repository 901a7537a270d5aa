"""What is known of a session, folded from recorded streams of real CLIs and from invented ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from pilothouse.api.answers import Allow, Deny
from pilothouse.api.records import (
    AnyRecord,
    CLIEnded,
    OptionsChanged,
    PromptSaid,
    PromptWithdrawn,
    QuestionDecided,
    SessionLinked,
    SessionStarted,
    TurnEnded,
    Unreadable,
    decode_record,
    storable,
)
from pilothouse.api.requests import SessionOptions
from pilothouse.api.statuses import Tokens, Waiting
from pilothouse.engine.snapshot import AT_REST, decode_facts
from pilothouse.engine.view import View, record_of
from pilothouse.journal.contract import Snapshot
from pilothouse.protocol import decode
from tests.support.engine.entries import (
    ALIVE,
    CLOSED,
    DIED,
    INIT,
    STARTED,
    STOPPED,
    Entry,
    Folding,
    asks,
    begun,
    calls,
    check_cuts,
    closes,
    echo,
    ends,
    entry,
    fold,
    gives,
    line,
    recorded,
    said,
    sent,
    speaks,
    told,
)

STREAMS = Path(__file__).parents[1] / "data/streams"
VERSIONS = ("2.1.325", "2.1.119", "2.1.37")
RECORDED = [
    pytest.param(path, id=f"{version}-{path.stem}")
    for version in VERSIONS
    for path in sorted((STREAMS / version).glob("*.jsonl"))
]
# These do not tell that a subagent inside of the turn has ended.
RECORDED += [
    pytest.param(STREAMS / version / "agent.jsonl", id=f"{version}-agent")
    for version in ("2.1.62-node", "2.1.59")
]


# Recorded sessions


@pytest.mark.parametrize("path", RECORDED)
def test_a_recorded_session_comes_to_rest_and_tells_what_it_cost(path: Path) -> None:
    folding = Folding()
    view = folding.feed(*recorded(path))
    results = [turn.result for turn in folding.turns if turn.result is not None]
    assert (view.busy, view.idle, view.queued, view.unrecorded) == (False, True, {}, [])
    assert view.turns == len(results)
    assert view.claude_session_id == results[-1].session_id
    assert view.cost_usd == pytest.approx(sum(turn.cost_usd for turn in folding.turns))
    assert view.tokens.output == sum(each.usage.output_tokens or 0 for each in results)
    assert view.running_tools == []
    assert view.waiting_on is None
    failed = {"api_error": "error", "max_turns": "error", "interrupt_ask": "interrupted"}
    assert view.state == failed.get(path.stem, "done")
    assert (view.reason is None) == (view.state == "done")


@pytest.mark.parametrize("path", RECORDED)
def test_a_recorded_session_can_be_taken_up_from_each_of_its_snapshots(path: Path) -> None:
    check_cuts(list(recorded(path)), at_least=1)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_turn_the_cli_begins_by_itself_makes_the_session_active(version: str) -> None:
    view, states = View("s"), list[str]()
    for seq, (kind, body) in enumerate(recorded(STREAMS / version / "background_bash.jsonl"), 1):
        view.apply(seq, kind, seq, body)
        states += [view.state] if view.state != (states or [""])[-1] else []
    # 2.1.37 begins none at the end of a background shell.
    again = [] if version == "2.1.37" else ["active", "done"]
    assert states == ["done", "active", "done", *again]


def test_after_clear_the_conversation_has_the_id_of_its_new_messages() -> None:
    path = STREAMS / "2.1.325/clear.jsonl"
    ids = [json.loads(each).get("session_id") for each in path.read_bytes().splitlines()]
    assert ids[0] != ids[-1]
    assert fold(*recorded(path)).claude_session_id == ids[-1]


NO_IDS = ["../../../project/Cargo", "/etc/passwd", "..", ".", "a/b", "a\0", "a\n", "-a", "a" * 129]


@pytest.mark.parametrize("words", NO_IDS)
def test_what_is_no_id_does_not_become_the_conversations(words: str) -> None:
    init = line("system", subtype="init", session_id=words)
    result = line("result", subtype="success", session_id=words)
    assert fold(STARTED, ALIVE, init).claude_session_id == "s"
    assert fold(STARTED, ALIVE, INIT, result).claude_session_id == "theirs"
    assert View(session_id="s", claude_session_id=words).claude_session_id == "s"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_denied_tool_is_told_as_denied(version: str) -> None:
    view = fold(*recorded(STREAMS / version / "permission_deny.jsonl"))
    assert [(run.name, run.state) for run in view.recent_tools] == [("Bash", "denied")]


def test_a_retry_is_told_until_the_model_speaks() -> None:
    folding, attempts = Folding(), list[int]()
    view = folding.view
    for each in recorded(STREAMS / "2.1.325/api_retry.jsonl"):
        view = folding.feed(each)
        if view.retry is not None:
            attempts.append(view.retry.attempt)
            waiting = view.waiting_on
            assert waiting is not None
            assert waiting.detail.startswith("retry ")
    assert attempts
    assert view.retry is None


# States


def test_a_session_is_active_from_its_first_message_on() -> None:
    view = fold(STARTED, said("p"))
    assert (view.state, view.live, view.busy, view.has_conversation) == (
        "active",
        False,
        True,
        False,
    )
    assert [(each.prompt_id, each.sent) for each in view.status().queued] == [("p", False)]


def test_a_turn_that_ends_is_told_with_its_cost_tokens_and_text() -> None:
    view = fold(*begun(), ends("p"), told("idle"))
    assert (view.state, view.turns, view.cost_usd, view.result) == ("done", 1, 0.5, "so be it")
    assert view.tokens == Tokens(input=3, output=4, cache_read=5)
    assert view.has_conversation
    assert view.claude_session_id == "theirs"
    assert (view.mode, view.model) == ("plan", "big")


def test_the_costs_of_several_turns_and_processes_add_up() -> None:
    turns = [ends("p", total=0.5), said("q"), sent("q"), INIT, echo("q"), ends("q", total=0.75)]
    again = [CLOSED, ALIVE, said("r"), sent("r"), INIT, echo("r"), ends("r", total=0.25)]
    view = fold(*begun(), *turns, *again)
    assert (view.turns, view.cost_usd) == (3, 1.0)


def test_while_only_background_work_goes_on_the_session_is_done_but_not_idle() -> None:
    task = line("system", subtype="task_started", task_id="t", description="sail", task_type="bash")
    view = fold(*begun(), task, ends("p"))
    assert (view.state, view.idle) == ("done", False)
    assert [(each.id, each.description) for each in view.subagents] == [("t", "sail")]
    assert view.waiting_on == Waiting(what="background", detail="sail")
    ended = line("system", subtype="task_notification", task_id="t", status="completed")
    assert Folding(view).feed(ended).subagents == []


STOPPED_TOOL = "it was interrupted while a tool ran"


@pytest.mark.parametrize(
    ("fields", "state", "reason"),
    [
        ({"is_error": True, "result": "overloaded"}, "error", "api_error: overloaded"),
        ({"subtype": "error_max_turns", "result": None}, "error", "error_max_turns"),
        ({"subtype": "error_max_budget_usd", "result": None}, "error", "error_max_budget_usd"),
        (
            {"terminal_reason": "aborted_tools"},
            "interrupted",
            "it was interrupted while a tool ran",
        ),
    ],
)
def test_a_turn_that_went_wrong_says_why(fields: Any, state: str, reason: str) -> None:
    view = fold(*begun(), ends("p", **fields))
    assert (view.state, view.reason) == (state, reason)
    assert Folding(view).feed(said("q")).reason is None


def test_a_cli_that_dies_in_mid_work_leaves_an_error() -> None:
    view = fold(*begun(), calls("t"), DIED)
    assert (view.state, view.reason, view.live) == ("error", "killed by signal 9", False)
    assert [run.state for run in view.recent_tools] == ["failed"]
    assert view.tracker is None
    assert view.snapshot() is not None


def test_a_cli_that_cannot_start_leaves_an_error_and_the_message_queued() -> None:
    view = fold(STARTED, said("p"), entry(CLIEnded(orderly=False, reason="no such program")))
    assert (view.state, view.reason, view.busy) == ("error", "no such program", False)
    assert list(view.queued) == ["p"]


@pytest.mark.parametrize("end", [DIED, CLOSED])
def test_an_idle_cli_that_ends_changes_no_state(end: Entry) -> None:
    assert fold(*begun(), ends("p"), end).state == "done"
    assert fold(*begun(), ends("p", is_error=True), end).state == "error"


@pytest.mark.parametrize("order", [[STOPPED, CLOSED], [CLOSED, STOPPED]])
def test_a_session_stopped_in_mid_work_was_interrupted(order: list[Entry]) -> None:
    view = fold(*begun(), *order)
    assert (view.state, view.reason, view.live) == ("interrupted", "it was stopped", False)
    assert fold(*begun(), ends("p"), *order).state == "done"


def test_a_cli_closed_in_mid_work_says_so() -> None:
    view = fold(*begun(), CLOSED)
    assert (view.state, view.reason) == ("interrupted", "its CLI was closed in mid-work")


def test_a_message_that_is_withdrawn_leads_back_to_where_it_was() -> None:
    failed = [*begun(), ends("p", is_error=True, result="no"), CLOSED]
    view = fold(*failed, said("q"), entry(PromptWithdrawn(id="q")))
    assert (view.state, view.reason, view.queued) == ("error", "api_error: no", {})


def test_a_session_made_elsewhere_has_a_conversation_from_the_start() -> None:
    view = fold(entry(SessionStarted(cwd="/", origin="adopted", claude_session_id="old")))
    assert (view.claude_session_id, view.has_conversation) == ("old", True)


def test_the_mode_follows_the_options_and_then_the_cli() -> None:
    folding = Folding()
    assert folding.feed(entry(SessionStarted(cwd="/", options=SessionOptions(mode="auto")))).mode
    assert folding.feed(INIT).mode == "plan"
    changed = line("system", subtype="status", status=None, permissionMode="acceptEdits")
    assert folding.feed(changed).mode == "acceptEdits"
    assert folding.feed(entry(OptionsChanged(options=SessionOptions(mode="auto")))).mode != "auto"
    options = SessionOptions(mode="default", model="small")
    view = folding.feed(entry(OptionsChanged(options=options)))
    assert (view.mode, view.model, view.options) == ("default", "small", options)


# Prompts


def test_a_message_leaves_the_queue_when_a_turn_takes_it() -> None:
    base = [STARTED, ALIVE, said("p"), sent("p")]
    started = line("command_lifecycle", command_uuid="p", state="started")
    queued = line("command_lifecycle", command_uuid="p", state="queued")
    assert list(fold(*base, queued).queued) == ["p"]
    for taking in (echo("p"), started, ends("p")):
        view = fold(*base, INIT, taking)
        assert list(view.queued) == []


def test_a_message_not_taken_when_the_cli_dies_is_sent_to_the_next_one() -> None:
    folding = Folding()
    view = folding.feed(*begun(), said("q"), sent("q"), DIED)
    assert [(each.prompt_id, each.sent) for each in view.status().queued] == [("q", False)]
    assert view.state == "error"
    view = folding.feed(ALIVE, sent("q"))
    assert (view.state, view.queued["q"].sent) == ("active", True)
    assert folding.feed(INIT, echo("q"), ends("q")).state == "done"


def test_a_message_that_is_held_stays_queued_when_a_closing_cli_gives_it_back() -> None:
    given_back = line("command_lifecycle", command_uuid="q", state="cancelled")
    asked = [*begun(), said("q"), sent("q")]
    assert list(fold(*asked, given_back).queued) == []
    view = fold(*asked, said("q"), given_back)
    assert [(each.prompt_id, each.sent) for each in view.status().queued] == [("q", False)]
    assert list(fold(*asked, said("q"), echo("q")).queued) == []


def test_an_echo_that_comes_before_the_record_of_the_sending_counts() -> None:
    view = fold(STARTED, ALIVE, said("p"), told("running"), echo("p"), sent("p"), ends("p"))
    assert (view.state, view.busy, view.queued) == ("done", False, {})


def test_a_slash_command_needs_no_echo() -> None:
    view = fold(STARTED, ALIVE, said("p", "/compact"), sent("p"), INIT, speaks(), ends())
    assert (view.state, view.busy) == ("done", False)


def test_a_prompt_the_cli_has_taken_before_starts_nothing() -> None:
    folding = Folding()
    view = folding.feed(STARTED, ALIVE, said("p"), sent("p"), echo("p"))
    assert (view.state, view.turns, view.queued) == ("done", 0, {})
    assert [turn.outcome for turn in folding.turns] == ["cancelled"]


def test_the_title_is_the_first_line_said_until_there_is_a_better_one() -> None:
    blocks = [{"type": "image"}, {"type": "text", "text": "  Trim the sails\nand more"}]
    folding = Folding()
    assert folding.feed(STARTED, said("p", blocks), said("q")).title == "Trim the sails"
    folding.feed(line("system", subtype="session_title_changed", title="Sails"))
    assert folding.view.listed().title == "Sails"


# Questions


def test_a_session_awaits_input_until_its_last_question_closes() -> None:
    folding = Folding()
    view = folding.feed(*begun(), asks("a"), asks("b"))
    assert (view.state, list(view.questions)) == ("awaiting_input", ["a", "b"])
    assert view.waiting_on == Waiting(what="person", detail="a?")
    assert folding.feed(closes("a", Allow())).state == "awaiting_input"
    assert folding.feed(closes("b", Allow())).state == "active"
    assert view.questions == {}


def test_only_the_first_end_of_a_question_counts() -> None:
    view = fold(*begun(), asks("a"), closes("a", decidable=True), closes("a", Allow()))
    assert [each.state for each in view.questions.values()] == ["withdrawn"]


def test_a_question_of_background_work_does_not_make_a_session_active() -> None:
    view = fold(*begun(), ends("p"), asks("a"))
    assert view.state == "awaiting_input"
    assert Folding(view).feed(closes("a", Allow())).state == "done"


@pytest.mark.parametrize("cli_first", [True, False])
def test_a_question_whose_cli_died_stays_until_it_is_decided(cli_first: bool) -> None:
    withdrawn = closes("a", decidable=True, because="it died")
    order = [DIED, withdrawn] if cli_first else [withdrawn, DIED]
    view = fold(*begun(), asks("a"), *order)
    assert (view.state, view.reason, view.open_questions) == ("error", "killed by signal 9", [])
    assert view.status().questions[0].closed_because == "it died"
    snapshot = view.snapshot()
    assert snapshot is not None
    assert View.restore(snapshot).questions == view.questions
    decided = entry(QuestionDecided(id="a", answer=Allow()))
    assert Folding(view).feed(decided).questions == {}


@pytest.mark.parametrize(
    ("closing", "state"),
    [
        (closes("a", Deny(reason="no")), "denied"),
        (closes("a", state="expired"), "denied"),
        (closes("a", Allow()), "failed"),
    ],
)
def test_a_tool_that_was_said_no_to_is_denied_and_not_failed(closing: Entry, state: str) -> None:
    question = asks("a", tool_use_id="t")
    view = fold(*begun(), calls("t"), question, closing, gives("t", is_error=True))
    assert [run.state for run in view.recent_tools] == [state]


def test_that_an_idle_cli_is_closed_does_not_make_a_session_newer() -> None:
    rests = fold(*begun(), ends("p"))
    before = rests.updated_at
    assert Folding(rests).feed(CLOSED).updated_at == before
    works = fold(*begun())
    before = works.updated_at
    assert Folding(works).feed(CLOSED).updated_at > before


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ("aborted_streaming", "it was interrupted while it wrote"),
        ("aborted_tools", STOPPED_TOOL),
    ],
)
def test_an_interrupt_has_a_reason_in_words(told: str, reason: str) -> None:
    view = fold(*begun(), ends("p", subtype="error_during_execution", terminal_reason=told))
    assert (view.state, view.reason) == ("interrupted", reason)


def test_a_question_that_expired_is_the_reason_until_the_next_message() -> None:
    expired = closes("a", state="expired", because="Nobody answered within 5 s.")
    view = fold(*begun(), asks("a"), expired)
    why = "a?: Nobody answered within 5 s."
    assert (view.state, view.reason) == ("active", why)
    view = Folding(view).feed(ends("p"))
    assert (view.state, view.reason) == ("done", why)
    assert Folding(view).feed(said("q")).reason is None


# What goes on


def test_a_running_tool_tells_what_it_does_and_since_when() -> None:
    view = fold(*begun(), calls("t", command="make\nall"))
    (run,) = view.running_tools
    assert (run.name, run.detail, run.since, run.agent) == ("Bash", "make", 7000, None)
    assert view.waiting_on == Waiting(what="tool", detail="Bash")
    view = Folding(view).feed(gives("t"))
    assert [each.state for each in view.recent_tools] == ["completed"]


def test_only_the_last_tools_are_remembered() -> None:
    ran = [each for n in range(30) for each in (calls(f"t{n}"), gives(f"t{n}"))]
    view = fold(*begun(), *ran)
    assert [run.id for run in view.recent_tools] == [f"t{n}" for n in range(20, 30)]
    assert view.status().tools_ended == 30


def test_a_tool_of_an_agent_beside_the_turn_outlives_it() -> None:
    task = line("system", subtype="task_started", task_id="k", description="scout")
    view = fold(*begun(), calls("a", "Agent"), task, calls("t", parent="a"), ends("p"))
    assert [(run.id, run.agent) for run in view.running_tools] == [("t", "a")]
    assert [run.state for run in view.recent_tools] == ["failed"]


def test_a_tool_denied_without_asking_is_denied() -> None:
    denied = line("system", subtype="permission_denied", tool_use_id="t", tool_name="Bash")
    view = fold(*begun(), calls("t"), denied, gives("t", is_error=True))
    assert [run.state for run in view.recent_tools] == ["denied"]


def test_the_context_is_that_of_the_conversation_in_its_models_window() -> None:
    windows = {"big": {"contextWindow": 400}, "tiny": {"contextWindow": 1000}}
    child = speaks(parent="a", tokens=999)
    folding = Folding()
    folding.feed(*begun(), speaks(tokens=100), child, ends("p", modelUsage=windows))
    context = folding.view.status().context
    assert context is not None
    assert (context.tokens, context.window, context.percent) == (100, 400, 25.0)
    boundary = {"subtype": "compact_boundary", "compact_metadata": {"post_tokens": 40}}
    compacted = folding.feed(line("system", **boundary)).context
    assert compacted is not None
    assert compacted.tokens == 40


def test_the_last_rate_limit_is_told_as_it_came() -> None:
    info = {"status": "allowed_warning", "newMember": [1]}
    limit = fold(STARTED, ALIVE, line("rate_limit_event", rate_limit_info=info)).rate_limit
    assert limit is not None
    assert (limit.at, limit.info) == (3000, info)


def test_a_turns_range_covers_every_entry_since_the_turn_before() -> None:
    folding = Folding()
    view = folding.feed(*begun(), ("partial", b"{}"), ends("p"))
    assert view.last_turn_range == (0, 8)
    view = folding.feed(said("q"), sent("q"), INIT, ("partial", b"{}"), DIED)
    assert view.last_turn_range == (9, view.last_seq)


def test_a_status_has_what_the_view_knows_and_what_it_is_given() -> None:
    view = fold(*begun(), ends("p"), entry(SessionLinked(successor="next")))
    status = view.status(output=["a line"])
    assert (status.pid, status.cli_version, status.simulated) == (7, "2.1.325", False)
    assert (status.cursor, status.updated_at) == (view.last_seq, 1000 * view.last_seq)
    assert (status.cwd, status.label, status.successor) == ("/boat", "harbour", "next")
    assert (status.output, status.started_at) == (["a line"], 1000)
    given = view.status(pid=8, simulated=True)
    assert (given.pid, given.simulated) == (8, True)


# Folding


def test_every_record_has_a_step() -> None:
    assert set(View._records) == set(get_args(AnyRecord))


def test_lines_that_are_no_messages_tell_nothing() -> None:
    before = fold(*begun())
    after = fold(*begun(), ("noise", b'"?"'), ("partial", b"?"), ("cli", b"?"), line("new_kind"))
    after.skip(before.last_seq, before.updated_at)
    assert after.status() == before.status()


def test_a_decoded_message_saves_the_decoding() -> None:
    view = fold(*begun())
    _, body = ends("p")
    assert len(view.apply(50, "cli", 50, b"not read", decode(body))) == 1


def test_a_text_that_json_cannot_carry_is_no_error_but_no_snapshot() -> None:
    view = View("s")
    view.apply_record(1, 1, SessionStarted(cwd="/", title="\ud800"))
    assert view.snapshot() is None


def test_a_queued_message_can_be_sent_again_as_it_was_said() -> None:
    view = fold(STARTED, entry(PromptSaid(id="p", content="hi", priority="now")))
    (prompt,) = view.queued.values()
    assert (prompt.id, prompt.content, prompt.priority) == ("p", "hi", "now")


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"session_id":"s","format":99}', b'{"session_id":1,"format":1}']
)
def test_a_snapshot_of_another_version_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="snapshot"):
        View.restore(Snapshot(session_id="s", upto=3, body=body))


def test_a_snapshot_under_way_is_none_that_an_earlier_version_would_read() -> None:
    folding = Folding()
    for each in (*begun(), asks("a"), closes("a", Allow()), said("q"), sent("q")):
        snapshot = folding.feed(each).snapshot()
        assert snapshot is not None
        at_rest = folding.view.last_seq == 1
        assert (decode_facts(snapshot.body).format == AT_REST) == at_rest
    snapshot = folding.feed(ends("p", "q")).snapshot()
    assert snapshot is not None
    assert decode_facts(snapshot.body).format == AT_REST


def test_a_turn_without_its_record_is_remembered() -> None:
    view = fold(*begun())
    (turn,) = view.apply(50, "cli", 50, ends("p")[1])
    assert view.unrecorded == [turn]
    assert view.snapshot() is None
    view.apply_record(51, 51, record_of(turn))
    assert view.unrecorded == []
    assert view.snapshot() is not None


def test_a_view_at_rest_is_small() -> None:
    ran = [each for n in range(99) for each in (calls(f"t{n}", command="x" * 500), gives(f"t{n}"))]
    prompts = [each for n in range(99) for each in (said(f"q{n}"), sent(f"q{n}"), echo(f"q{n}"))]
    view = fold(*begun(), *ran, *prompts, ends("p"), DIED)
    snapshot = view.snapshot()
    assert snapshot is not None
    assert len(snapshot.body) < 6000


def test_a_record_is_kept_as_it_will_be_read_again() -> None:
    said, body = storable(PromptSaid(id="p", content="half \ud800 a pair"))
    assert said == PromptSaid(id="p", content="half \ufffd a pair")
    assert decode_record(body) == said


def test_a_record_that_an_earlier_version_could_not_write_keeps_what_fits() -> None:
    record = decode_record(
        b'{"record":"turn.ended","outcome":"failed","reason":"x","cost_usd":null}'
    )
    assert record == TurnEnded(outcome="failed", reason="x")


@pytest.mark.parametrize(
    "body", [b"{}", b"[", b'{"record":"no.such"}', b'{"record":"prompt.sent"}', b'"\xff"']
)
def test_a_record_that_cannot_be_read_is_set_aside(body: bytes) -> None:
    assert isinstance(decode_record(body), Unreadable)
    view = fold(*begun(), ("prompt.sent", body), echo("p"), ends("p"))
    assert view.state == "done"


# What the documents want to be seen of a session


def test_how_full_the_context_is_is_known_before_the_first_result() -> None:
    context = fold(*begun(), speaks(tokens=20_000)).context
    assert context is not None
    assert (context.window, context.percent) == (200_000, 10.0)


def test_a_compaction_is_seen_from_its_beginning_to_its_end() -> None:
    compacting = line("system", subtype="status", status="compacting")
    view = fold(*begun(), compacting)
    assert view.status().compacting
    for end in (
        line("system", subtype="status", status=None),
        line("system", subtype="compact_boundary", compact_metadata={"trigger": "auto"}),
        ends("p"),
        DIED,
    ):
        assert not fold(*begun(), compacting, end).status().compacting


def test_a_sign_in_is_seen_until_it_has_worked() -> None:
    trying = line("auth_status", isAuthenticating=True, output=["Open https://example.org"])
    failed = line("auth_status", isAuthenticating=False, output=[], error="No such account")
    worked = line("auth_status", isAuthenticating=False, output=[])
    told_of = fold(*begun(), trying).status().sign_in
    assert told_of is not None
    assert (told_of.is_signing_in, told_of.output) == (True, ["Open https://example.org"])
    told_of = fold(*begun(), trying, failed).status().sign_in
    assert told_of is not None
    assert (told_of.is_signing_in, told_of.error) == (False, "No such account")
    assert fold(*begun(), trying, worked).status().sign_in is None
    assert fold(*begun(), failed, ends("p")).status().sign_in is None


def test_a_turn_has_the_output_that_its_schema_wanted() -> None:
    wanted = {"depth": 7}
    folding = Folding()
    view = folding.feed(*begun(), ends("p", structured_output=wanted))
    assert view.status().structured_output == wanted
    assert record_of(folding.turns[0]).structured_output == wanted
    large = fold(*begun(), ends("p", structured_output={"a": "x" * 30_000}))
    assert large.status().structured_output is None


def test_a_running_tool_tells_how_long_it_runs() -> None:
    progress = line("tool_progress", tool_use_id="t", tool_name="Bash", elapsed_time_seconds=31.5)
    (run,) = fold(*begun(), calls("t"), progress).running_tools
    assert run.elapsed_s == 31.5


def used(cost: float, output: int) -> dict[str, Any]:
    return {"costUSD": cost, "outputTokens": output, "inputTokens": 2}


def test_each_model_has_what_it_used_and_cost() -> None:
    # The totals of a process, as older CLIs tell them; the last one is a new process.
    first = ends("p", modelUsage={"big": used(0.5, 10)})
    second = ends("q", modelUsage={"big": used(0.75, 30), "small": used(0.125, 1)})
    again = [said("q"), sent("q"), echo("q")]
    third = ends("r", modelUsage={"big": used(0.25, 5)})
    view = fold(*begun(), first, *again, second, DIED, *begun("r")[1:], third)
    spent = view.status().models
    assert {name: (each.cost_usd, each.tokens.output) for name, each in spent.items()} == {
        "big": (1.0, 35),
        "small": (0.125, 1),
    }


def test_each_model_has_what_a_newer_cli_tells_of_the_turn() -> None:
    since = {"big": used(0.25, 5)}
    told_of = ends("p", modelUsage={"big": used(9.0, 900)}, model_usage_since_last_result=since)
    assert fold(*begun(), told_of).models["big"].cost_usd == 0.25


def test_a_subagent_that_the_turn_waits_for_tells_what_it_used_until_its_call_ends() -> None:
    started = line(
        "system",
        subtype="task_started",
        task_id="k",
        tool_use_id="a",
        description="look",
        task_type="local_agent",
        is_backgrounded=False,
    )
    usage = {"total_tokens": 900, "tool_uses": 3, "duration_ms": 1500}
    progress = line(
        "system", subtype="task_progress", task_id="k", last_tool_name="Grep", usage=usage
    )
    folding = Folding()
    view = folding.feed(*begun(), calls("a", "Agent"), started, progress)
    (agent,) = view.status().subagents
    assert (agent.tool_use_id, agent.last_tool, agent.tokens) == ("a", "Grep", 900)
    assert view.subagents == []
    assert folding.feed(gives("a")).status().subagents == []


def test_a_subagent_tells_its_call_its_last_tool_and_what_it_used() -> None:
    started = line("system", subtype="task_started", task_id="k", tool_use_id="a", description="x")
    usage = {"total_tokens": 900, "tool_uses": 3, "duration_ms": 1500}
    progress = line(
        "system", subtype="task_progress", task_id="k", last_tool_name="Grep", usage=usage
    )
    (agent,) = fold(*begun(), calls("a", "Agent"), started, progress).subagents
    assert (agent.tool_use_id, agent.last_tool) == ("a", "Grep")
    assert (agent.tokens, agent.tool_uses, agent.duration_ms) == (900, 3, 1500)
