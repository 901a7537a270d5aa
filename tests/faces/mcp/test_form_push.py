"""Forms on the screen of the official client as soon as a question opens: with a handshake."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from msgspec.structs import replace

from pilothouse import errors
from pilothouse.api.answers import Allow, Choose, Deny, Fill, RevisePlan
from pilothouse.api.events import Batch, Gap
from pilothouse.faces.mcp import form_push as module
from pilothouse.faces.mcp.engine_handle import EngineHandle
from pilothouse.faces.mcp.form_push import ClientStream, FormPush
from tests.support.asks import (
    COLOUR,
    PLAN,
    SAILS,
    asked,
    elicitation,
    page,
    plan_request,
    posed,
)
from tests.support.mcp.elicited import (
    ACCEPT,
    BY,
    CANCEL,
    DECLINE,
    AskingEngine,
    ElicitingFace,
    FormPerson,
    settled,
    touch,
)
from tests.support.waiting import DEADLINE


@pytest.fixture
def engine() -> AskingEngine:
    return AskingEngine()


@pytest.fixture
def face(engine: AskingEngine) -> ElicitingFace:
    return ElicitingFace(engine)


@pytest.fixture
def long_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens to a form is long after the last call."""
    monkeypatch.setattr(module, "SWEPT_WITHIN", 0.0)


def accepting_after(held: asyncio.Event) -> Callable[[Any], Awaitable[Any]]:
    """What a person does who accepts the form, but not yet."""

    async def later(params: Any) -> Any:
        await held.wait()
        return ACCEPT

    return later


async def test_a_question_that_opens_is_a_form_at_once(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    person = FormPerson(ACCEPT)
    async with face.client(person) as client:
        await touch(client)
        question = engine.ask()
        form = await person.sees(1)
        await engine.until(lambda: bool(engine.given))
    assert form.message.startswith("Run `command 1`")
    assert form.requested_schema["required"] == ["answer"]
    assert engine.given == [(question.id, Allow(), BY)]
    assert (engine.finished, person.withdrawn) == (1, 0)


async def test_a_question_that_was_open_before_is_a_form_too(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    engine.ask()
    person = FormPerson(
        types.ElicitResult(action="accept", content={"answer": "deny", "reason": "No"})
    )
    async with face.client(person) as client:
        await touch(client)
        await engine.until(lambda: bool(engine.given))
    assert engine.given[0][1] == Deny(reason="No")


async def test_a_question_whose_cli_has_died_is_a_form_until_somebody_decides(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    first, second = engine.ask(), engine.ask()
    engine.close(first, decidable=True)
    held = asyncio.Event()
    later = accepting_after(held)
    person = FormPerson(later)
    async with face.client(person) as client:
        await touch(client)
        await person.sees(1)
        engine.close(second, decidable=True)
        await settled()
        held.set()
        await engine.until(lambda: bool(engine.given))
        await person.sees(2)
        engine.tell("one", "question.decided")
        await settled()
        assert person.withdrawn == 0
    assert [each[0] for each in engine.given] == ["q-1"]


async def test_the_session_of_somebody_else_is_not_shown(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    person = FormPerson()
    async with face.client(person) as client:
        await touch(client)
        engine.ask("another")
        await settled()
    assert person.seen == []


async def test_a_session_is_followed_by_its_own_name(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    engine.names = {"its conversation": "one"}
    person = FormPerson(ACCEPT)
    async with face.client(person) as client:
        await touch(client, "its conversation")
        await settled()
        engine.ask("one")
        await engine.until(lambda: bool(engine.given))
    assert len(person.seen) == 1


async def test_forms_come_one_at_a_time_the_oldest_first(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    held = asyncio.Event()
    later = accepting_after(held)
    person = FormPerson(later, ACCEPT, ACCEPT)
    async with face.client(person) as client:
        await touch(client)
        await touch(client, "two")
        engine.ask("one")
        await person.sees(1)
        engine.ask("two")
        engine.ask("one")
        await settled()
        assert len(person.seen) == 1
        held.set()
        await engine.until(lambda: len(engine.given) == 3)
    assert [each[0] for each in engine.given] == ["q-1", "q-2", "q-3"]


async def test_the_first_in_rank_is_let_in_and_who_leaves_is_passed_over() -> None:
    turns, order = module._Turns(), list[int]()

    async def wait(rank: int) -> None:
        async with turns.turn(rank):
            order.append(rank)

    async with turns.turn(0):
        four, three, two, one = (asyncio.create_task(wait(rank)) for rank in (4, 3, 2, 1))
        await settled()
        three.cancel()
        await settled()
    # It was let in just now, and has not gone in.
    one.cancel()
    async with asyncio.timeout(DEADLINE):
        await asyncio.wait([four, three, two, one])
    assert order == [2, 4]


async def test_what_is_answered_elsewhere_is_withdrawn_from_the_client(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    person = FormPerson()
    async with face.client(person) as client:
        await touch(client)
        question = engine.ask()
        await person.sees(1)
        engine.close(question, state="answered", answer=Allow())
        await person.until(lambda: person.withdrawn == 1)
        engine.ask()
        await person.sees(2)
    assert engine.given == []


async def test_a_form_that_waits_for_its_turn_is_never_shown_once_answered(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    person = FormPerson()
    async with face.client(person) as client:
        await touch(client)
        first, second = engine.ask(), engine.ask()
        await person.sees(1)
        engine.close(second)
        engine.close(first)
        await person.until(lambda: person.withdrawn == 1)
        await settled()
    assert len(person.seen) == 1


async def test_an_answer_that_comes_second_is_no_trouble(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    async def late(params: Any) -> Any:
        engine.all["q-1"] = replace(engine.all["q-1"], state="answered")
        return ACCEPT

    person = FormPerson(late, ACCEPT)
    async with face.client(person) as client:
        await touch(client)
        engine.ask()
        await person.sees(1)
        engine.ask()
        await engine.until(lambda: bool(engine.given))
    assert [each[0] for each in engine.given] == ["q-2"]
    assert len(person.seen) == 2


async def test_a_declined_form_is_not_shown_again_and_its_question_stays(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    person = FormPerson(DECLINE)
    async with face.client(person) as client:
        await touch(client)
        engine.ask()
        await person.sees(1)
        await settled()
        await touch(client)
        await settled()
    assert len(person.seen) == 1
    assert engine.all["q-1"].state == "open"


@pytest.mark.usefixtures("long_after")
async def test_a_closed_form_comes_back_only_after_another_call_and_three_times_at_most(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    person = FormPerson(CANCEL, CANCEL, CANCEL, CANCEL)
    async with face.client(person) as client:
        await touch(client)
        engine.ask()
        await person.sees(1)
        await settled()
        engine.ask("another")
        await touch(client, "another")
        await person.sees(2)
        await settled()
        assert len(person.seen) == 2
        for times in (3, 4, 4):
            await touch(client)
            await person.sees(times)
            await settled()
            assert len(person.seen) == times
    assert [each.message.split("\n")[0] for each in person.seen] == [
        "Run `command 1`",
        "Run `command 2`",
        "Run `command 1`",
        "Run `command 1`",
    ]
    assert engine.given == []


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_form_swept_away_by_the_end_of_a_call_comes_back_at_once(
    engine: AskingEngine, face: ElicitingFace, is_late: bool
) -> None:
    """So does Claude Code: what came during a call it cancels when the call ends.

    What came late was sent when the call was over here, but not yet there.
    """
    ended = asyncio.Event()

    async def swept(params: Any) -> Any:
        await ended.wait()
        return CANCEL

    person = FormPerson(swept, ACCEPT)
    face.may_end.clear()
    async with face.client(person) as client:
        calling = asyncio.create_task(touch(client))
        if not is_late:
            engine.ask()
            await person.sees(1)
        face.may_end.set()
        await calling
        if is_late:
            engine.ask()
        ended.set()
        await engine.until(lambda: bool(engine.given))
    assert len(person.seen) == 2


async def test_who_cancels_everything_is_asked_twice_about_one_call(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    """So does `claude -p`: nobody is there, and each form is cancelled within milliseconds."""
    person = FormPerson(CANCEL, CANCEL, CANCEL, CANCEL)
    async with face.client(person) as client:
        await touch(client)
        engine.ask()
        await person.sees(2)
        await settled()
        assert len(person.seen) == 2
        await touch(client)
        await person.sees(3)
        await touch(client)
        await settled()
    assert len(person.seen) == 3


async def test_a_form_closed_during_a_call_does_not_come_back_for_that(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    person = FormPerson(CANCEL)
    face.may_end.clear()
    async with face.client(person) as client:
        calling = asyncio.create_task(touch(client))
        engine.ask()
        await person.sees(1)
        await settled()
        face.may_end.set()
        await calling
        await settled()
    assert len(person.seen) == 1


async def test_an_answer_that_does_not_fit_is_asked_again_with_the_reason(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    wrong = types.ElicitResult(action="accept", content={"answer": "revise"})
    right = types.ElicitResult(action="accept", content={"answer": "revise", "feedback": "Look"})
    person = FormPerson(wrong, right)
    async with face.client(person) as client:
        await touch(client)
        engine.ask(question=posed(plan_request(plan=PLAN)))
        again = await person.sees(2)
        await engine.until(lambda: bool(engine.given))
    assert again.message.startswith(
        "That was not taken: a plan is revised with `feedback`, and that is empty\n\nApprove"
    )
    assert engine.given[0][1] == RevisePlan(feedback="Look")


async def test_an_answer_that_the_engine_cannot_take_is_asked_again_at_most_three_times(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    engine.fails = [
        errors.NotNow("the session is moving"),
        errors.BypassNotAllowed("the answer"),
        errors.AnswerRefused("it is too late in the day"),
    ]
    person = FormPerson(ACCEPT, ACCEPT, ACCEPT, ACCEPT)
    async with face.client(person) as client:
        await touch(client)
        engine.ask()
        await person.sees(3)
        await engine.until(lambda: not engine.fails)
        await settled()
    assert "the session is moving" in person.seen[1].message
    assert "bypass" in person.seen[2].message
    assert len(person.seen) == 3
    assert engine.given == []


async def test_what_was_closed_meanwhile_is_not_asked_again(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    engine.may_answer.clear()
    engine.fails = [errors.AnswerRefused("it does not fit")]
    person = FormPerson(ACCEPT)
    async with face.client(person) as client:
        await touch(client)
        question = engine.ask()
        async with asyncio.timeout(DEADLINE):
            await engine.answering.wait()
        engine.close(question)
        await settled()
        engine.may_answer.set()
        await settled()
        [pushing] = face.pushing.values()
        assert pushing._desk._times_asked == {}
    assert len(person.seen) == 1


async def test_choices_of_several_questions_come_back_as_answers(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    content: Any = {"q1": "Red", "q2": ["Main", "Jib"], "q2_other": "Spinnaker"}
    person = FormPerson(types.ElicitResult(action="accept", content=content))
    async with face.client(person) as client:
        await touch(client)
        engine.ask(question=posed(asked(COLOUR, SAILS)))
        await engine.until(lambda: bool(engine.given))
    answers = {"Which colour?": "Red", "Which sails?": ["Main", "Jib", "Spinnaker"]}
    assert engine.given[0][1] == Choose(answers=answers)


async def test_a_page_is_opened_by_a_client_that_can(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    person = FormPerson(types.ElicitResult(action="accept"))
    async with face.client(person) as client:
        await touch(client)
        engine.ask(question=page())
        shown = await person.sees(1)
        await engine.until(lambda: bool(engine.given))
    assert (shown.mode, shown.url) == ("url", "https://example.com/login")
    assert engine.given[0][1] == Fill()


async def test_what_no_form_can_ask_is_left_to_others(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    person = FormPerson(ACCEPT)
    schema = {"type": "object", "properties": {"deep": {"type": "object"}}}
    async with face.client(person) as client:
        await touch(client)
        engine.ask(question=posed(elicitation(mode="form", requested_schema=schema)))
        engine.ask()
        await engine.until(lambda: bool(engine.given))
    assert len(person.seen) == 1


async def test_a_client_that_fails_to_show_a_form_is_not_asked_that_again(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    error = types.ErrorData(code=types.INVALID_PARAMS, message="What is this?")
    person = FormPerson(error, ACCEPT)
    async with face.client(person) as client:
        await touch(client)
        engine.ask()
        engine.ask()
        await engine.until(lambda: bool(engine.given))
    assert [each[0] for each in engine.given] == ["q-2"]


async def test_a_client_that_goes_leaves_its_questions_open_and_nothing_running(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    person = FormPerson()
    async with face.client(person) as client:
        await touch(client)
        await touch(client, "two")
        engine.ask()
        engine.ask()
        await person.sees(1)
    async with asyncio.timeout(DEADLINE):
        await face.ended.wait()
    assert engine.watchers == 0
    assert {each.state for each in engine.all.values()} == {"open"}


async def test_an_answer_is_passed_on_although_the_client_goes(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    engine.may_answer.clear()
    async with face.client(FormPerson(ACCEPT)) as client:
        await touch(client)
        engine.ask()
        async with asyncio.timeout(DEADLINE):
            await engine.answering.wait()
        asyncio.get_running_loop().call_soon(engine.may_answer.set)
    assert [each[0] for each in engine.given] == ["q-1"]
    assert face.ended.is_set()


async def test_two_clients_are_asked_and_the_first_answer_wins(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    one, other = FormPerson(), FormPerson(ACCEPT)
    async with face.client(one) as first, face.client(other) as second:
        await touch(first)
        engine.ask()
        await one.sees(1)
        await touch(second)
        await one.until(lambda: one.withdrawn == 1)
    assert len(engine.given) == 1
    assert other.withdrawn == 0


async def test_following_twice_is_following_once(engine: AskingEngine, face: ElicitingFace) -> None:
    person = FormPerson(ACCEPT)
    async with face.client(person) as client:
        await touch(client)
        await touch(client)
        engine.ask()
        await engine.until(lambda: bool(engine.given))
        await settled()
        assert engine.watchers == 1
    assert len(person.seen) == 1


async def test_an_unknown_session_is_followed_once_it_is_known(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    person = FormPerson(ACCEPT)
    async with face.client(person) as client:
        await touch(client, "unknown")
        await settled()
        await touch(client)
        engine.ask()
        await engine.until(lambda: bool(engine.given))


async def test_a_form_stays_while_no_engine_is_reached(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    person = FormPerson()
    async with face.client(person) as client:
        await touch(client)
        question = engine.ask()
        await person.sees(1)
        engine.lose(errors.ServerError("it is gone"))
        await settled()
        assert engine.watchers == 0
        engine.close(question)
        await settled()
        assert person.withdrawn == 0
        await touch(client)
        await person.until(lambda: person.withdrawn == 1)


async def test_who_answers_a_form_reaches_the_next_engine(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    held = asyncio.Event()
    later = accepting_after(held)
    person = FormPerson(later)
    async with face.client(person) as client:
        await touch(client)
        engine.ask()
        await person.sees(1)
        engine.lose(errors.ServerError("it is gone"))
        await settled()
        question = engine.ask()
        held.set()
        await person.sees(2)
        engine.close(question)
        await person.until(lambda: person.withdrawn == 1)
    assert [each[0] for each in engine.given] == ["q-1"]


async def test_what_cannot_be_watched_is_withdrawn_and_comes_back_with_the_next_call(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    person = FormPerson()
    async with face.client(person) as client:
        await touch(client)
        engine.ask()
        await person.sees(1)
        engine.lose(errors.JournalError("it cannot be read"))
        await person.until(lambda: person.withdrawn == 1)
        await touch(client)
        await person.sees(2)


async def test_what_was_declined_stays_so_although_it_could_not_be_watched(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    person = FormPerson(DECLINE)
    async with face.client(person) as client:
        await touch(client)
        engine.ask()
        await person.sees(1)
        await settled()
        engine.lose(errors.JournalError("it cannot be read"))
        await settled()
        await touch(client)
        await settled()
        engine.ask()
        form = await person.sees(2)
    assert form.message.startswith("Run `command 2`")


async def test_after_a_gap_the_questions_are_looked_at_again(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    batch = Batch(events=[], cursor=9, gaps=[Gap(first=1, last=8, count=8, reason="retention")])
    assert module._is_about_questions(batch)
    assert not module._is_about_questions(replace(batch, gaps=[]))


async def test_of_too_many_sessions_the_oldest_is_let_go(
    engine: AskingEngine, face: ElicitingFace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FOLLOWED", 2)
    person = FormPerson()
    async with face.client(person) as client:
        for session_id in ("one", "two", "one", "three"):
            await touch(client, session_id)
        await settled()
        assert engine.watchers == 2
        engine.ask("two")
        engine.ask("one")
        form = await person.sees(1)
    assert form.message.startswith("Run `command 2`")


async def test_nothing_is_followed_after_the_end(engine: AskingEngine) -> None:
    session: Any = SimpleNamespace(protocol_version="2025-11-25")
    # A stand-in that has as much of an engine as is used here.
    handle = EngineHandle(lambda: asyncio.sleep(0, engine))  # type: ignore[arg-type]
    pushing = FormPush(handle, ClientStream(session), "tests")
    await pushing.aclose()
    pushing.follow("one")
    await settled()
    assert engine.watchers == 0
