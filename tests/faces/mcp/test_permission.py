"""The permission tool: asks on until somebody decides, and whatever goes wrong is a no."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.api.engine import Engine
from pilothouse.api.questions import Asked, Question
from pilothouse.api.requests import Ask
from pilothouse.api.values import LONGEST_WORD
from pilothouse.errors import DirectoryRefused, NotNow, ServerError, SettingError, UsageError
from pilothouse.faces.mcp import permission
from pilothouse.faces.mcp.engine_handle import EngineHandle
from pilothouse.faces.mcp.permission import check, identify, name_asker

DEADLINE = 20.0
SESSION = "11111111-2222-4333-8444-555555555555"
BASH = {"tool_name": "Bash", "input": {"command": "make"}, "tool_use_id": "toolu_1"}
ALLOW = {"behavior": "allow", "updatedInput": {"command": "make"}}
DENY = {"behavior": "deny", "message": "Not on my ship."}
OPEN = None
LOST = ServerError("the server cannot be reached")

Progress = Callable[[float, float | None, str], Awaitable[None]]


class Guests:
    """An engine that takes questions of guests and is told what becomes of each ask.

    A response, None where nobody has answered, an error, or a question that is closed. The last
    one holds for all asks that follow; without any it waits for ever.
    """

    def __init__(self, *told: Any) -> None:
        self.asks: list[Ask] = []
        self.withdrawn: list[tuple[str, str]] = []
        self.waiting = asyncio.Event()
        self.hangs = False
        self._told = list(told)

    async def ask(self, request: Ask) -> Asked:
        self.asks.append(request)
        if not self._told:
            self.waiting.set()
            await asyncio.Event().wait()
        told = self._told.pop(0)
        # A server does not answer before it was asked.
        await asyncio.sleep(0)
        if isinstance(told, Exception):
            raise told
        if isinstance(told, Question):
            return Asked(question=told)
        state = "open" if told is OPEN else "answered"
        return Asked(question=_question(state), response=told)

    async def withdraw(self, question_id: str, because: str) -> Question:
        await asyncio.sleep(0)
        if self.hangs:
            await asyncio.Event().wait()
        self.withdrawn.append((question_id, because))
        return _question("withdrawn")

    async def aclose(self) -> None:
        return


def _question(state: Any, because: str | None = None) -> Question:
    return Question(
        id="q1", session_id=SESSION, kind="tool", state=state, title="make", closed_because=because
    )


def reaching(*engines: Guests | Exception) -> EngineHandle:
    """Connects to one after the other; the last one is there for ever."""
    left = list(engines)

    async def connect() -> Engine:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return cast("Engine", found)

    return EngineHandle(connect)


async def checked(
    handle: EngineHandle,
    arguments: Any = BASH,
    meta: dict[str, Any] | None = None,
    *,
    cwd: str | None = "/project",
    label: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    async with asyncio.timeout(DEADLINE):
        told = await check(
            handle, arguments, meta, identity=SESSION, cwd=cwd, label=label, progress=progress
        )
    return json.loads(told)


def reason(result: dict[str, Any]) -> str:
    assert result["behavior"] == "deny"
    return result["message"]


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permission, "AGAIN_S", 0.0)
    monkeypatch.setattr(permission, "_taken", set[str]())


# What the CLI is told


@pytest.mark.parametrize(
    "decided",
    [
        ALLOW,
        DENY,
        {**DENY, "interrupt": True},
        {**ALLOW, "updatedPermissions": [{"type": "setMode", "mode": "acceptEdits"}]},
    ],
)
async def test_the_cli_is_told_what_was_decided(decided: dict[str, Any]) -> None:
    assert await checked(reaching(Guests(OPEN, decided))) == decided


async def test_what_a_rule_decides_is_told_without_a_wait() -> None:
    guests = Guests(DENY)
    assert await checked(reaching(guests)) == DENY
    assert [each.wait_s for each in guests.asks] == [0]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"behavior": "maybe"},
        {"behavior": "allow"},
        {"behavior": "allow", "updatedInput": "make"},
        {"behavior": "deny"},
        {"behavior": "deny", "message": ""},
    ],
)
async def test_an_answer_that_no_cli_takes_is_a_no(answer: dict[str, Any]) -> None:
    assert "none that a CLI takes" in reason(await checked(reaching(Guests(OPEN, answer))))


@pytest.mark.parametrize("state", ["withdrawn", "expired", "answered"])
async def test_a_question_that_is_closed_without_an_answer_is_a_no(state: str) -> None:
    guests = Guests(OPEN, _question(state, "it took too long"))
    assert f"{state} (it took too long)" in reason(await checked(reaching(guests)))


# What is asked


async def test_the_same_is_asked_until_somebody_answers() -> None:
    guests = Guests(OPEN, OPEN, OPEN, ALLOW)
    await checked(reaching(guests), label="the night build")
    first, *more = guests.asks
    assert first == Ask(
        tool_name="Bash",
        tool_use_id="toolu_1",
        input={"command": "make"},
        cwd="/project",
        session_id=SESSION,
        label="the night build",
        wait_s=0,
    )
    assert [each.wait_s for each in more] == [25, 25, 25]
    assert {(each.session_id, each.tool_use_id) for each in more} == {(SESSION, "toolu_1")}


async def test_who_asks_is_named_by_its_folder_unless_it_has_a_name() -> None:
    guests = Guests(ALLOW, ALLOW)
    await checked(reaching(guests), cwd="/project")
    await checked(reaching(guests), cwd="/" + "long/" * 100)
    short, long = (each.label or "" for each in guests.asks)
    assert short == "claude -p in /project" == name_asker("/project")
    assert len(long) == LONGEST_WORD


async def test_a_call_without_its_id_has_the_one_beside_the_arguments() -> None:
    guests = Guests(ALLOW)
    arguments = {"tool_name": "Bash", "input": {}}
    await checked(reaching(guests), arguments, {"claudecode/toolUseId": "toolu_9"})
    assert guests.asks[0].tool_use_id == "toolu_9"


async def test_a_call_without_any_id_is_a_question_of_its_own() -> None:
    guests = Guests(ALLOW, ALLOW)
    for _ in range(2):
        await checked(reaching(guests), {"tool_name": "Bash", "input": {}})
    assert len({each.tool_use_id for each in guests.asks}) == 2


async def test_what_later_clis_add_to_a_call_is_left_aside() -> None:
    assert await checked(reaching(Guests(ALLOW)), {**BASH, "mood": "fine"}) == ALLOW


@pytest.mark.parametrize(
    "arguments",
    [
        None,
        [],
        "Bash",
        {},
        {"tool_name": "Bash"},
        {"tool_name": "", "input": {}},
        {"tool_name": 5, "input": {}},
        {"tool_name": "Bash", "input": "make"},
        {"tool_name": "Bash", "input": {}, "tool_use_id": ["toolu_1"]},
        {"tool_name": "Bash", "input": {}, "tool_use_id": "x" * 1_000},
    ],
)
async def test_a_call_that_cannot_be_read_is_a_no_and_opens_no_question(arguments: Any) -> None:
    guests = Guests(ALLOW)
    assert "not called as a CLI calls it" in reason(await checked(reaching(guests), arguments))
    assert guests.asks == []


async def test_a_call_whose_id_beside_it_cannot_be_read_is_a_no() -> None:
    guests = Guests(ALLOW)
    arguments = {"tool_name": "Bash", "input": {}}
    reason(await checked(reaching(guests), arguments, {"claudecode/toolUseId": 7}))
    assert guests.asks == []


async def test_a_cli_whose_folder_is_unknown_gets_a_no() -> None:
    guests = Guests(ALLOW)
    assert "pilothouse mcp" in reason(await checked(reaching(guests), cwd=None))
    assert guests.asks == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["tool_name", "input", "behavior", "message"]), inner)
    ),
    max_leaves=8,
)


@given(arguments=JSON, answer=st.dictionaries(st.sampled_from(["behavior", "message"]), JSON))
def test_nothing_but_a_yes_is_a_yes(arguments: Any, answer: dict[str, Any]) -> None:
    result = asyncio.run(checked(reaching(Guests(OPEN, answer)), arguments))
    assert reason(result)


async def test_a_cli_with_the_name_of_a_session_of_the_engines_asks_under_one_of_its_own() -> None:
    taken = NotNow("the CLI of that session is the engine's own")
    guests = Guests(taken, OPEN, ALLOW, ALLOW)
    for _ in range(2):
        assert await checked(reaching(guests)) == ALLOW
    told, *own = [each.session_id for each in guests.asks]
    # Also later, when that session may be at rest: what is asked there would shut it.
    assert told == SESSION
    assert (len(own), len(set(own)), SESSION in own) == (3, 1, False)


# Who cannot be reached


@pytest.mark.parametrize(
    "error",
    [
        ServerError("no server started within 60 s"),
        SettingError("port: not a number"),
    ],
)
async def test_without_a_server_it_is_a_no_that_says_why(error: Exception) -> None:
    assert str(error) in reason(await checked(reaching(error)))


@pytest.mark.parametrize(
    "error",
    [
        DirectoryRefused("/project is outside the allowed roots", advice="work elsewhere"),
        UsageError("this ask had another input before"),
        NotNow("that session is the engine's own"),
    ],
)
async def test_what_the_engine_refuses_is_a_no_that_says_why(error: Exception) -> None:
    assert str(error) in reason(await checked(reaching(Guests(error, error))))


async def test_a_server_that_is_lost_and_comes_back_is_asked_the_same() -> None:
    before, after = Guests(OPEN, LOST), Guests(OPEN, ALLOW)
    assert await checked(reaching(before, LOST, LOST, after)) == ALLOW
    asked = {(each.session_id, each.tool_use_id) for each in before.asks + after.asks}
    assert asked == {(SESSION, "toolu_1")}


async def test_the_time_to_come_back_does_not_bound_the_answer() -> None:
    before, after = Guests(OPEN, LOST), Guests(OPEN, OPEN, ALLOW)
    await checked(reaching(before, LOST, after))
    assert [each.wait_s for each in after.asks] == [0, 25, 25]


async def test_a_server_that_does_not_come_back_is_a_no_that_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(permission, "PATIENCE_S", 0.05)
    told = reason(await checked(reaching(Guests(OPEN, LOST), LOST)))
    assert "did not come back within 0.05 s" in told
    assert str(LOST) in told


async def test_a_server_that_never_answers_again_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permission, "PATIENCE_S", 0.05)
    deaf = Guests()
    assert "did not come back" in reason(await checked(reaching(Guests(OPEN, LOST), LOST, deaf)))
    assert deaf.asks


# Who does not wait


async def test_a_cancelled_call_withdraws_its_question() -> None:
    guests = Guests(OPEN)
    call = asyncio.create_task(checked(reaching(guests)))
    async with asyncio.timeout(DEADLINE):
        await guests.waiting.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert [question for question, _ in guests.withdrawn] == ["q1"]


async def test_a_connection_that_ends_withdraws_the_question() -> None:
    guests = Guests(OPEN)
    async with asyncio.timeout(DEADLINE), anyio.create_task_group() as connection:
        connection.start_soon(checked, reaching(guests))
        await guests.waiting.wait()
        connection.cancel_scope.cancel()
    assert [question for question, _ in guests.withdrawn] == ["q1"]


async def test_a_server_that_does_not_take_it_back_keeps_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(permission, "WITHDRAW_S", 0.05)
    guests = Guests(OPEN)
    guests.hangs = True
    async with asyncio.timeout(DEADLINE), anyio.create_task_group() as connection:
        connection.start_soon(checked, reaching(guests))
        await guests.waiting.wait()
        connection.cancel_scope.cancel()
    assert guests.withdrawn == []


async def test_nothing_is_withdrawn_that_was_not_asked() -> None:
    guests = Guests()
    async with asyncio.timeout(DEADLINE), anyio.create_task_group() as connection:
        connection.start_soon(checked, reaching(guests))
        await guests.waiting.wait()
        connection.cancel_scope.cancel()
    assert guests.withdrawn == []


# Who waits


async def test_a_client_that_waits_is_told_so_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(permission, "PROGRESS_S", 0.0)
    told: list[tuple[float, str]] = []
    often = asyncio.Event()

    async def progress(done: float, total: float | None, message: str) -> None:
        assert total is None
        told.append((done, message))
        if len(told) > 3:
            often.set()

    guests = Guests(OPEN)
    call = asyncio.create_task(checked(reaching(guests), progress=progress))
    async with asyncio.timeout(DEADLINE):
        await often.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    numbers = [done for done, _ in told]
    assert numbers == sorted(set(numbers))
    assert told[-1][1] == "Waiting for an answer"
    assert guests.withdrawn


async def test_a_client_that_cannot_be_told_has_its_answer_all_the_same() -> None:
    async def progress(*_: object) -> None:
        raise anyio.BrokenResourceError

    assert await checked(reaching(Guests(OPEN, ALLOW)), progress=progress) == ALLOW


# Who it is


def test_the_session_is_the_one_the_cli_names() -> None:
    assert identify({"CLAUDE_CODE_SESSION_ID": SESSION.upper()}) == SESSION


@pytest.mark.parametrize("env", [{}, {"CLAUDE_CODE_SESSION_ID": "../../etc"}])
def test_a_cli_that_names_no_session_gets_an_id_of_its_own(env: dict[str, str]) -> None:
    one, another = identify(env), identify(env)
    assert one != another
    assert len(one) == len(SESSION)
