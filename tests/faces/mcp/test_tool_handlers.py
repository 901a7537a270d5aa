"""The tools as verbs: what reaches the engine, what is told, and what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pilothouse import errors
from pilothouse.api.answers import Allow, Answer
from pilothouse.api.questions import Answered, Question
from pilothouse.api.requests import Fork, Say, Start
from pilothouse.api.results import Said, Started
from pilothouse.api.statuses import Status
from pilothouse.faces.mcp.calls import CALLS
from pilothouse.faces.mcp.engine_handle import EngineHandle
from pilothouse.faces.mcp.tool_handlers import Act, Outcome, ToolHandlers
from tests.support.http.fake_engine import NOW, FakeEngine
from tests.support.waiting import DEADLINE


class Recording(FakeEngine):
    """Keeps what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Any] = []
        self.configured: dict[str, Any] = {}

    async def settings(self) -> Any:
        return await super().settings() | self.configured

    async def start(self, request: Start) -> Started:
        self.requests.append(request)
        return await super().start(request)

    async def say(self, session_id: str, request: Say) -> Said:
        self.requests.append(request)
        return await super().say(session_id, request)

    async def fork(self, session_id: str, request: Fork) -> Started:
        self.requests.append(request)
        return await super().fork(session_id, request)

    async def answer(self, question_id: str, answer: Answer, *, by: str = "person") -> Answered:
        self.requests.append((question_id, answer, by))
        return await super().answer(question_id, answer, by=by)

    async def list(self, **more: Any) -> Any:
        self.requests.append(more)
        return await super().list(**more)


class Someone:
    """A caller that keeps what it is told."""

    def __init__(self, cwd: str | None = "/srv/boat") -> None:
        self.name = "tests"
        self.default_cwd = cwd
        self.shows_forms = False
        self.own_sessions = frozenset[str]()
        self.told: list[str] = []

    async def progress(self, done: float, total: float | None, message: str) -> None:
        self.told.append(message)


class Table:
    """The tool handlers and the engine behind them."""

    def __init__(self, answers: Any = "anyone", cwd: str | None = "/srv/boat") -> None:
        self.engine = Recording()
        self.connected = 0
        self.caller = Someone(cwd)
        self.handlers = ToolHandlers(EngineHandle(self._connect), answers=answers)

    async def _connect(self) -> Any:
        self.connected += 1
        return self.engine

    async def call(self, tool: str, **arguments: Any) -> Outcome:
        done = await self.handlers.begin(tool, arguments, self.caller)
        return await self.handlers.finish(done, self.caller) if isinstance(done, Act) else done

    async def told(self, tool: str, **arguments: Any) -> dict[str, Any]:
        outcome = await self.call(tool, **arguments)
        assert not outcome.is_error, outcome.text
        return outcome.structured

    async def refused(self, tool: str, **arguments: Any) -> str:
        outcome = await self.call(tool, **arguments)
        assert outcome.is_error, outcome.text
        assert outcome.structured == {}
        return outcome.text

    async def start(self, **arguments: Any) -> str:
        return (await self.told("claude_start", prompt="go", **arguments))["sessionId"]

    async def pose(self, **more: Any) -> Question:
        """A question of a new session."""
        session_id = await self.start()
        question = replace(self.engine.pose(session_id), **more)
        status = replace(
            self.engine.sessions[session_id], state="awaiting_input", questions=[question]
        )
        self.engine.sessions[session_id] = status
        return question


# What reaches the engine


async def test_only_what_the_caller_set_reaches_the_cli() -> None:
    table = Table()
    await table.start()
    request = table.engine.requests[-1]
    assert (request.prompt, request.cwd) == ("go", "/srv/boat")
    assert request.options == type(request.options)()
    await table.start(
        workingDirectory="/elsewhere",
        model="opus",
        permissionMode="plan",
        allowedTools=["Read"],
        disallowedTools=["Bash"],
        maxTurns=3,
        maxBudgetUsd=0.5,
        systemPrompt="Be brief.",
    )
    request = table.engine.requests[-1]
    assert request.cwd == "/elsewhere"
    assert request.options == type(request.options)(
        model="opus",
        mode="plan",
        allowed_tools=["Read"],
        disallowed_tools=["Bash"],
        max_turns=3,
        max_budget_usd=0.5,
        append_system_prompt="Be brief.",
    )


async def test_every_request_has_a_key_of_its_own() -> None:
    table = Table()
    session_id = await table.start()
    await table.start()
    for fork in (False, True):
        await table.told("claude_say", sessionId=session_id, message="and?", fork=fork)
    keys = [each.key for each in table.engine.requests]
    assert None not in keys
    assert len(set(keys)) == len(keys)


async def test_a_relative_directory_is_one_within_the_callers() -> None:
    table = Table()
    await table.start(workingDirectory="deck")
    assert table.engine.requests[-1].cwd == "/srv/boat/deck"
    await table.told("claude_list", workingDirectory="deck", limit=7)
    assert table.engine.requests[-1] == {"cwd": "/srv/boat/deck", "limit": 7}


async def test_a_caller_without_a_directory_has_to_name_one() -> None:
    table = Table(cwd=None)
    assert "workingDirectory" in await table.refused("claude_start", prompt="go")
    assert "not there" in await table.refused("claude_start", prompt="go", workingDirectory="deck")
    assert await table.start(workingDirectory="/srv/boat")
    assert (await table.told("claude_list"))["total"] == 1


async def test_skipping_permissions_is_a_mode() -> None:
    table = Table()
    await table.start(dangerouslySkipPermissions=True)
    assert table.engine.requests[-1].options.mode == "bypassPermissions"
    refused = await table.refused(
        "claude_start", prompt="go", dangerouslySkipPermissions=True, permissionMode="plan"
    )
    assert "contradict" in refused


async def test_a_message_may_switch_the_mode_but_not_of_a_fork() -> None:
    table = Table()
    session_id = await table.start()
    await table.told("claude_say", sessionId=session_id, message="and?", permissionMode="dontAsk")
    assert table.engine.requests[-1].mode == "dontAsk"
    refused = await table.refused(
        "claude_say", sessionId=session_id, message="or?", fork=True, permissionMode="plan"
    )
    assert "permissionMode" in refused


async def test_an_answer_says_who_gave_it() -> None:
    table = Table()
    question = await table.pose()
    told = await table.told(
        "claude_respond", sessionId=question.session_id, id=question.id, answers=["allow"]
    )
    assert table.engine.requests[-1] == (question.id, Allow(), "mcp:tests")
    assert told["sessionId"] == question.session_id


async def test_an_engine_that_was_lost_is_found_again() -> None:
    table = Table()
    session_id = await table.start()
    table.engine.raises = errors.ServerError("it went away")
    assert (await table.told("claude_status", sessionId=session_id))["status"] == "active"
    assert table.connected == 2


# What is told


async def test_a_session_that_was_made_elsewhere_is_at_rest() -> None:
    table = Table()
    table.engine.sessions["old"] = Status(
        session_id="old",
        state="done",
        cwd="/srv",
        live=False,
        started_at=NOW,
        updated_at=NOW,
        cursor=7,
        title="Of old",
        source="transcript",
    )
    told = await table.told("claude_status", sessionId="old", waitSeconds=50)
    assert (told["status"], told["title"], told["onDisk"]) == ("done", "Of old", True)
    assert "not known here" in told["note"]
    assert 'claude_say({"sessionId":"old"' in told["next"]


@pytest.mark.parametrize(
    ("answers", "shows_forms", "told"),
    [
        ("anyone", False, "Ask the user, unless it is yours to decide; then: claude_respond("),
        ("anyone", True, "A person may be asked in a form here. Wait for the answer: claude_st"),
        ("person", False, "A person has to answer"),
        ("person", True, "A person has to answer"),
    ],
)
async def test_what_to_do_about_a_question_depends_on_who_answers(
    answers: str, shows_forms: bool, told: str
) -> None:
    table = Table(answers)
    table.caller.shows_forms = shows_forms
    question = await table.pose()
    status = await table.told("claude_status", sessionId=question.session_id)
    assert status["next"].startswith(told)


async def test_who_looks_at_a_session_whose_plan_went_on_is_sent_after_it() -> None:
    table = Table()
    session_id = await table.start()
    ended = replace(table.engine.sessions[session_id], state="interrupted", successor="s-2")
    table.engine.sessions[session_id] = ended
    told = await table.told("claude_status", sessionId=session_id)
    assert 'claude_status({"sessionId":"s-2"' in told["next"]


async def test_a_call_tells_how_it_goes_while_it_waits() -> None:
    table = Table()
    session_id = await table.start()
    waiting = asyncio.create_task(table.told("claude_status", sessionId=session_id, waitSeconds=50))
    await table.engine.watched()
    table.engine.sessions[session_id] = replace(
        table.engine.sessions[session_id], state="done", result="Done."
    )
    table.engine.append(session_id, "turn.ended")
    assert (await asyncio.wait_for(waiting, DEADLINE))["result"] == "Done."
    assert table.caller.told == ["works"]


# What is refused


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (errors.UnknownSession("there is no session x", advice="did you mean y?"), "mean y?"),
        (errors.TooManySessions("10 sessions run", advice="wait for one"), "claude_list"),
        (errors.CapReached("the day's money is spent", advice="go on tomorrow"), "tomorrow"),
        (errors.DirectoryRefused("/x is outside", advice="choose one within /y"), "within /y"),
        (errors.CLINotFound("no CLI was found"), "npm install -g @anthropic-ai/claude-code"),
        (errors.BypassNotAllowed("mode", advice="set allow_bypass"), "allow_bypass"),
        (errors.SessionTaken("another process has it", advice="end it"), "fork: true"),
        (errors.JournalError("the disk is full"), "the disk is full"),
        (errors.UsageError("no prompt"), "no prompt"),
    ],
)
async def test_a_refusal_is_told_with_what_to_do_next(
    error: errors.PilothouseError, told: str
) -> None:
    table = Table()

    class Refusing(Recording):
        async def start(self, request: Start) -> Started:
            raise error

    table.engine = Refusing()
    refused = await table.refused("claude_start", prompt="go")
    assert str(error) in refused
    assert told in refused


async def test_a_server_that_cannot_be_reached_is_told_of() -> None:
    async def connect() -> Any:
        raise errors.ServerError("no server can be reached")

    handlers = ToolHandlers(EngineHandle(connect), answers="anyone")
    outcome = await handlers.begin("claude_list", {}, Someone())
    assert isinstance(outcome, Outcome)
    assert outcome.is_error
    assert "no server can be reached" in outcome.text


async def test_what_was_done_is_told_although_its_status_cannot_be() -> None:
    class Leaving(Recording):
        async def status(self, session_id: str, **more: Any) -> Any:
            raise errors.ServerError("it went away")

    table = Table()
    table.engine = Leaving()
    refused = await table.refused("claude_start", prompt="go")
    assert refused.startswith("Session session-1 was started, do not start it again.")
    assert "it went away" in refused


@pytest.mark.parametrize("tool", ["claude_start", "claude_say"])
async def test_no_session_runs_where_a_cli_is_lacking(tool: str) -> None:
    table = Table()
    table.engine.lack = "no Claude Code CLI was found; npm install -g @anthropic-ai/claude-code"
    given = {"prompt": "go"} if tool == "claude_start" else {"sessionId": "a", "message": "b"}
    assert table.engine.lack in await table.refused(tool, **given)
    assert table.engine.requests == []


async def test_a_question_that_is_not_there_is_refused_with_those_that_are() -> None:
    table = Table()
    question, other = await table.pose(), await table.pose()
    for unknown in ("nonsense", other.id):
        refused = await table.refused(
            "claude_respond", sessionId=question.session_id, id=unknown, answers=["allow"]
        )
        assert f"{question.id} (tool_approval)" in refused
    quiet = await table.start()
    refused = await table.refused("claude_respond", sessionId=quiet, id="x", answers=["allow"])
    assert "no question of it is open" in refused


async def test_an_answer_that_does_not_fit_is_refused_with_those_that_do() -> None:
    table = Table()
    question = await table.pose()
    given = {"sessionId": question.session_id, "id": question.id}
    assert '"allow", "deny"' in await table.refused("claude_respond", **given, answers=["yes"])


async def test_what_only_the_engine_knows_to_be_wrong_is_told_in_the_same_words() -> None:
    class Strict(Recording):
        async def answer(self, question_id: str, answer: Answer, *, by: str = "person") -> Any:
            raise errors.AnswerRefused("the input is empty", advice='send {"kind":"allow"}')

    table = Table()
    table.engine = Strict()
    question = await table.pose()
    refused = await table.refused(
        "claude_respond", sessionId=question.session_id, id=question.id, answers=["allow"]
    )
    assert "the input is empty" in refused
    assert '"deny: reason"' in refused
    assert "kind" not in refused


async def test_a_question_that_was_settled_is_not_settled_again() -> None:
    table = Table()
    question = await table.pose()
    given = {"sessionId": question.session_id, "id": question.id}
    await table.told("claude_respond", **given, answers=["allow"])
    assert await table.told("claude_respond", **given, answers=["allow"])
    refused = await table.refused("claude_respond", **given, answers=["deny"])
    assert "claude_status" in refused


# Who may approve


@pytest.mark.parametrize(
    ("here", "there", "may"),
    [
        ("anyone", {"value": "anyone", "source": "default"}, True),
        ("anyone", {"value": "person", "source": "environment"}, False),
        ("person", {"value": "anyone", "source": "default"}, False),
        ("anyone", None, True),
        ("person", None, False),
    ],
)
async def test_the_stricter_of_two_settings_says_who_may_approve(
    here: str, there: Any, may: bool
) -> None:
    table = Table(here)
    table.engine.configured = {} if there is None else {"mcp_answers": there}
    question = await table.pose()
    given = {"sessionId": question.session_id, "id": question.id}
    told = await table.told("claude_status", sessionId=question.session_id)
    assert ("claude_respond" in told["next"]) is may
    for tool, more in (
        ("claude_respond", {**given, "answers": ["allow"]}),
        ("claude_start", {"prompt": "go", "permissionMode": "auto"}),
        ("claude_start", {"prompt": "go", "allowedTools": ["Bash"]}),
        ("claude_start", {"prompt": "go", "dangerouslySkipPermissions": True}),
        ("claude_say", {"sessionId": "session-1", "message": "x", "permissionMode": "acceptEdits"}),
    ):
        outcome = await table.call(tool, **more)
        assert outcome.is_error is not may, tool
        assert ("only a person may approve" in outcome.text) is not may


@pytest.mark.parametrize("answers", ["anyone", "person"])
async def test_only_a_person_ends_the_planning_while_a_plan_waits(answers: str) -> None:
    table = Table(answers)
    plan = await table.pose(kind="plan", plan="1. Leap", title="Approve the plan: Leap")
    said = {"sessionId": plan.session_id, "message": "go on"}
    for mode in ("default", "dontAsk"):
        outcome = await table.call("claude_say", **said, permissionMode=mode)
        assert outcome.is_error is (answers == "person")
    await table.told("claude_say", **said, permissionMode="plan")
    await table.told("claude_say", **said)
    other = await table.pose()
    await table.told(
        "claude_say", sessionId=other.session_id, message="x", permissionMode="default"
    )


async def test_a_switch_of_modes_needs_no_session_to_be_known_before() -> None:
    table = Table("person")
    refused = await table.refused(
        "claude_say", sessionId="nobody", message="x", permissionMode="default"
    )
    assert "nobody" in refused


# Sessions by another name


class Aliased(Recording):
    """Knows the first session by the id of its conversation, too."""

    async def status(self, session_id: str, **more: Any) -> Any:
        return await super().status(
            "session-1" if session_id == "conversation" else session_id, **more
        )


async def test_what_was_named_by_its_conversation_is_told_by_its_own_id() -> None:
    table = Table()
    table.engine = Aliased()
    question = await table.pose()
    asked = await table.handlers.begin("claude_status", {"sessionId": "conversation"}, table.caller)
    given = {"sessionId": "conversation", "id": question.id, "answers": ["allow"]}
    answered = await table.handlers.begin("claude_respond", given, table.caller)
    for act in (asked, answered):
        assert isinstance(act, Act)
        assert act.session_id == "session-1"


async def test_a_cursor_beyond_the_journal_is_its_end() -> None:
    table = Table()
    given = {"sessionId": await table.start(), "after": 10**9}
    act = await table.handlers.begin("claude_status", given, table.caller)
    assert isinstance(act, Act)
    assert act.after == act.cursor == table.engine.cursor


# Whatever comes

junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)
parameters = st.sampled_from(
    ["prompt", "sessionId", "message", "id", "answers", "after", "fork", "limit", "outputLines"]
)


@given(st.sampled_from(sorted(CALLS)), st.dictionaries(parameters, junk))
async def test_every_call_comes_to_a_result(tool: str, arguments: dict[str, Any]) -> None:
    outcome = await Table().call(tool, **arguments)
    assert isinstance(outcome, Outcome)
    assert outcome.text


class Attended(Recording):
    """Somebody answers what a session asks as soon as it has been looked at once."""

    def __init__(self) -> None:
        super().__init__()
        self.is_answered = False
        self.seen_at_work = asyncio.Event()

    async def status(
        self, session_id: str, *, output_lines: int = 0, after: int | None = None
    ) -> Status:
        status = await super().status(session_id, output_lines=output_lines, after=after)
        if status.state == "awaiting_input":
            self.is_answered = True
            self.sessions[session_id] = replace(self.sessions[session_id], state="active")
        elif self.is_answered:
            self.seen_at_work.set()
        return status


async def test_a_call_waits_on_when_what_ended_its_wait_is_answered_meanwhile() -> None:
    table = Table()
    table.engine = engine = Attended()
    session_id = await table.start()
    waiting = asyncio.create_task(table.told("claude_status", sessionId=session_id, waitSeconds=50))
    await engine.watched()
    engine.sessions[session_id] = replace(engine.sessions[session_id], state="awaiting_input")
    engine.append(session_id, "question.opened")
    await asyncio.wait_for(engine.seen_at_work.wait(), 20)
    engine.sessions[session_id] = replace(engine.sessions[session_id], state="done")
    engine.append(session_id, "turn.ended")
    assert (await asyncio.wait_for(waiting, 20))["status"] == "done"
