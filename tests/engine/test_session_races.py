"""Two things at once, at the moments where they could get in each other's way."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from pilothouse.api.answers import Allow, ClearContext, Deny
from pilothouse.api.questions import Question
from pilothouse.errors import JournalError, NotNow, QuestionSettled
from tests.support.engine.audit import audit
from tests.support.engine.played import EngineStage, quick_folder, staged
from tests.support.engine.played_cli import PlayedCLI, mark
from tests.support.waiting import DEADLINE


@pytest.fixture
async def stage() -> AsyncGenerator[EngineStage]:
    with quick_folder() as folder:
        async with staged(folder) as stage:
            yield stage


async def working(stage: EngineStage) -> tuple[str, PlayedCLI]:
    """A session in a turn, and its CLI."""
    session_id = await stage.start()
    await stage.settle()
    cli = alive(stage, session_id)
    cli.begin()
    await stage.settle()
    return session_id, cli


async def resting(stage: EngineStage) -> tuple[str, PlayedCLI]:
    session_id, cli = await working(stage)
    cli.end_turn()
    await stage.settle()
    assert stage.session(session_id).is_idle
    return session_id, cli


async def asks(stage: EngineStage, kind: str = "tool") -> tuple[Question, PlayedCLI, str]:
    """A question, the CLI that waits for the answer, and its request."""
    _, cli = await working(stage)
    request_id = cli.want(kind)
    await stage.settle()
    return stage.questions[0], cli, request_id


def alive(stage: EngineStage, session_id: str) -> PlayedCLI:
    cli = stage.cli(session_id)
    assert cli is not None
    return cli


async def settled(stage: EngineStage, *tasks: asyncio.Task[Any]) -> list[Any]:
    """What came of each, refusals too, once everything has come to rest."""
    await stage.settle()
    await audit(stage)
    return list(await asyncio.gather(*tasks, return_exceptions=True))


async def turns_of_the_loop(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def until(holds: Callable[[], bool]) -> None:
    """Go on in the very turn of the loop in which it holds."""
    async with asyncio.timeout(DEADLINE):
        while not holds():  # noqa: ASYNC110 - the turn matters, and no event tells it
            await asyncio.sleep(0)


def break_journal(stage: EngineStage) -> None:
    def append(_: Sequence[Any]) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    journal: Any = stage.engine.journal
    journal._writer._commit = append


@contextmanager
def commits_held(stage: EngineStage) -> Iterator[None]:
    """Nothing is committed in here, as on a disk that is slow."""
    journal: Any = stage.engine.journal
    commit, go = journal._writer._commit, threading.Event()

    def wait_and_commit(posts: Sequence[Any]) -> None:
        assert go.wait(DEADLINE)
        commit(posts)

    journal._writer._commit = wait_and_commit
    try:
        yield
    finally:
        go.set()


# Answers


@pytest.mark.parametrize("delay", range(6))
async def test_an_answer_and_a_withdrawal_at_once_close_the_question_once(
    stage: EngineStage, delay: int
) -> None:
    question, cli, request_id = await asks(stage)
    answer = stage.call(stage.answer(question.id, Deny(reason=mark())))
    await turns_of_the_loop(delay)
    cli.take_back(request_id)
    (told,) = await settled(stage, answer)
    row = await stage.engine.question(question.id)
    assert row.state == ("withdrawn" if isinstance(told, QuestionSettled) else "answered")
    assert stage.session(question.session_id).view.state == "active"


@pytest.mark.parametrize("first", ["answer", "expiry"])
async def test_an_answer_and_an_expiry_at_once_give_the_cli_one_of_them(
    stage: EngineStage, first: str
) -> None:
    question, cli, request_id = await asks(stage)
    clock: Any = stage.session(question.session_id).cli.asks
    if first == "expiry":
        stage.call(clock._expire(question.id))
    answer = stage.call(stage.answer(question.id, Deny(reason=mark())))
    await until(lambda: not stage.questions)
    stage.call(clock._expire(question.id))
    (told,) = await settled(stage, answer)
    assert isinstance(told, QuestionSettled) == (first == "expiry")
    heard = cli.answers[request_id]["response"]["message"]
    assert ("expired" in heard) == (first == "expiry")


async def test_of_two_answers_in_one_turn_of_the_loop_one_counts(stage: EngineStage) -> None:
    question, cli, request_id = await asks(stage)
    yes, no = Allow(input={"command": mark()}), Deny(reason=mark())
    told = await settled(
        stage, *(stage.call(stage.answer(question.id, each)) for each in (yes, no, yes))
    )
    assert isinstance(told[1], QuestionSettled)
    assert [told[0].repeated, told[2].repeated] == [False, True]
    assert cli.answers[request_id]["response"]["behavior"] == "allow"


async def test_a_caller_that_leaves_does_not_take_its_answer_along(stage: EngineStage) -> None:
    question, cli, request_id = await asks(stage)
    answer = stage.call(stage.answer(question.id, Deny(reason=mark())))
    await until(lambda: not stage.questions)
    answer.cancel()
    await settled(stage, answer)
    assert request_id in cli.answers


async def test_an_answer_whose_cli_dies_before_it_is_kept_is_told_to_the_session(
    stage: EngineStage,
) -> None:
    question, cli, _ = await asks(stage)
    with commits_held(stage):
        answer = stage.call(stage.answer(question.id, Deny(reason=mark())))
        await until(lambda: not stage.questions)
        cli.die(signal=9)
        await until(lambda: not stage.session(question.session_id).view.live)
    (told,) = await settled(stage, answer)
    assert told.resumed
    assert len(alive(stage, question.session_id).heard) == 1


async def test_an_answer_whose_session_is_stopped_meanwhile_does_not_resume_it(
    stage: EngineStage,
) -> None:
    question, cli, _ = await asks(stage)
    with commits_held(stage):
        answer = stage.call(stage.answer(question.id, Deny(reason=mark())))
        await until(lambda: not stage.questions)
        stop = stage.call(stage.engine.stop(question.session_id))
        await until(lambda: not cli.is_alive)
    (told, _) = await settled(stage, answer, stop)
    assert not told.resumed
    assert stage.cli(question.session_id) is None


async def test_a_decision_that_two_wait_to_give_is_made_once(stage: EngineStage) -> None:
    question, cli, _ = await asks(stage)
    cli.die(signal=9)
    await stage.settle()
    session_id = question.session_id
    await stage.say(session_id)
    await stage.settle()
    leaving = alive(stage, session_id)
    leaving.begin()
    leaving.end_turn()
    await stage.settle()
    leaving.end.hold()
    stage.session(session_id)._idle_too_long()
    yes = stage.call(stage.answer(question.id, Allow()))
    no = stage.call(stage.answer(question.id, Deny(reason=mark())))
    # Reads come one after the other: both have read when this one has.
    await stage.engine.journal.question(question.id)
    await turns_of_the_loop(5)
    leaving.end.release()
    told = await settled(stage, yes, no)
    # Which of the two is first, the threads that look at directories decide.
    [won] = [each for each in told if not isinstance(each, QuestionSettled)]
    assert won.resumed
    assert len(alive(stage, session_id).heard) == 1


async def test_the_context_is_cleared_once(stage: EngineStage) -> None:
    question, _, _ = await asks(stage, "plan")
    clear = ClearContext(plan=mark())
    told = await settled(stage, *(stage.call(stage.answer(question.id, clear)) for _ in range(2)))
    again = await stage.answer(question.id, clear)
    # Which of two that come at once is first, the threads that look at directories decide.
    assert sorted(each.repeated for each in told) == [False, True]
    assert again.repeated
    assert {each.new_session_id for each in (*told, again)} == {stage.sessions[-1]}
    assert len(stage.engine.sessions) == 2
    assert len(alive(stage, stage.sessions[-1]).heard) == 1


async def test_an_answer_that_cannot_be_kept_never_reaches_the_cli(stage: EngineStage) -> None:
    question, cli, request_id = await asks(stage)
    break_journal(stage)
    with pytest.raises(JournalError, match="disk is full"):
        await stage.answer(question.id, Allow(input={"command": mark()}))
    await turns_of_the_loop(20)
    assert request_id not in cli.answers
    health = await stage.engine.health()
    assert not health.ok


async def test_an_engine_whose_journal_failed_still_ends_its_clis(stage: EngineStage) -> None:
    _, cli, _ = await asks(stage)
    break_journal(stage)
    with pytest.raises(JournalError):
        await stage.say(cli.session_id)
    cli.speak()
    cli.want("tool")
    await turns_of_the_loop(20)
    async with asyncio.timeout(DEADLINE):
        await stage.engine.aclose()
    assert not cli.is_alive
    assert not stage.session(cli.session_id).has_cli
    assert not [each for each in stage.failures if "in callback" in each]


# Messages


@pytest.mark.parametrize("delay", range(6))
async def test_a_message_to_a_dying_cli_is_queued_or_resumes_the_session(
    stage: EngineStage, delay: int
) -> None:
    session_id, cli = await resting(stage)
    say = stage.call(stage.say(session_id))
    await turns_of_the_loop(delay)
    cli.die(signal=9)
    (prompt_id,) = await settled(stage, say)
    session = stage.session(session_id)
    assert session.has_cli == (stage.cli(session_id) is not None)
    assert prompt_id in session.view.queued
    later = await stage.say(session_id)
    await stage.settle()
    assert alive(stage, session_id).heard == [prompt_id, later]


async def test_a_cli_that_replaces_a_dead_one_holds_the_session(stage: EngineStage) -> None:
    session_id, cli = await resting(stage)
    say = stage.call(stage.say(session_id))
    await until(lambda: bool(stage.session(session_id).view.queued))
    cli.die(signal=9)
    await settled(stage, say)
    assert alive(stage, session_id) is not cli
    assert stage.session(session_id).has_cli


@pytest.mark.parametrize("delay", range(6))
async def test_a_message_while_an_idle_cli_is_closed_starts_another(
    stage: EngineStage, delay: int
) -> None:
    session_id, cli = await resting(stage)
    stage.session(session_id)._idle_too_long()
    await turns_of_the_loop(delay)
    (prompt_id,) = await settled(stage, stage.call(stage.say(session_id)))
    assert not cli.is_alive
    assert alive(stage, session_id).heard == [prompt_id]


@pytest.mark.parametrize("delay", range(6))
async def test_a_message_and_a_stop_at_once_both_come_to_an_end(
    stage: EngineStage, delay: int
) -> None:
    session_id, _ = await resting(stage)
    say = stage.call(stage.say(session_id))
    await turns_of_the_loop(delay)
    stop = stage.call(stage.engine.stop(session_id))
    await settled(stage, say, stop)
    assert stage.session(session_id).has_cli == (stage.cli(session_id) is not None)


async def test_a_cli_may_start_while_the_end_of_the_last_one_is_awaited(stage: EngineStage) -> None:
    session_id, _ = await resting(stage)
    session = stage.session(session_id)
    said = session.prompt(mark())
    await session.write(said).committed
    stop = stage.call(stage.engine.stop(session_id))
    await until(lambda: not session.view.live)
    session.deliver()
    await settled(stage, stop)
    assert alive(stage, session_id).heard == [said.id]
    assert session.has_cli


async def test_a_message_is_not_left_to_a_start_that_fails(stage: EngineStage) -> None:
    session_id, cli = await resting(stage)
    cli.die(signal=9)
    await stage.settle()
    session = stage.session(session_id)
    await stage.say(session_id)
    await until(lambda: stage.cli(session_id) is not None)
    alive(stage, session_id).die(code=1)
    await until(lambda: not session.has_cli)
    assert session.cli.is_starting
    await session.cli.reserve()
    said = session.prompt(mark())
    session.write(said)
    session.deliver()
    await settled(stage)
    assert alive(stage, session_id).heard[-1] == said.id


async def test_no_cli_hears_a_message_that_is_not_committed(stage: EngineStage) -> None:
    session_id, cli = await working(stage)
    said = [stage.call(stage.say(session_id))]
    while not said[0].done():
        await asyncio.sleep(0)
        said.append(stage.call(stage.say(session_id)))
    await settled(stage, *said)
    assert len(cli.heard) == 1 + len(said)


@pytest.mark.parametrize("delay", range(0, 30, 3))
async def test_stopping_a_session_that_starts_leaves_no_cli(stage: EngineStage, delay: int) -> None:
    session_id = await stage.start()
    await turns_of_the_loop(delay)
    (told,) = await settled(stage, stage.call(stage.engine.stop(session_id)))
    assert told.was_live
    assert stage.cli(session_id) is None
    assert stage.session(session_id).view.state == "interrupted"


@pytest.mark.parametrize("delay", range(0, 30, 3))
async def test_an_interrupt_reaches_a_cli_that_starts(stage: EngineStage, delay: int) -> None:
    session_id = await stage.start()
    await turns_of_the_loop(delay)
    (told,) = await settled(stage, stage.call(stage.engine.interrupt(session_id)))
    assert told.was_running
    asked = [each.client_request.subtype for each in alive(stage, session_id).requests]
    assert asked == ["initialize", "interrupt"]


async def test_a_message_whose_caller_leaves_is_delivered_all_the_same(stage: EngineStage) -> None:
    session_id, _ = await resting(stage)
    await stage.engine.stop(session_id)
    say = stage.call(stage.say(session_id))
    await until(lambda: bool(stage.session(session_id).view.queued))
    say.cancel()
    await settled(stage, say)
    assert len(alive(stage, session_id).heard) == 1


# The end


@pytest.mark.parametrize("delay", range(0, 40, 4))
async def test_an_engine_that_ends_while_a_session_starts_leaves_no_cli(
    stage: EngineStage, delay: int
) -> None:
    start = stage.call(stage.start())
    await turns_of_the_loop(delay)
    await stage.close()
    assert not stage.failures
    assert not any(each.is_alive for each in stage.clis)
    assert isinstance(start.exception(), NotNow | JournalError | None)


async def test_an_engine_that_ends_takes_no_message(stage: EngineStage) -> None:
    session_id, _ = await resting(stage)
    closing = asyncio.create_task(stage.engine.aclose())
    await asyncio.sleep(0)
    with pytest.raises(NotNow, match="stopping"):
        await stage.say(session_id)
    await closing


# What a CLI refuses, and what cannot be kept


async def test_a_mode_that_a_cli_refuses_is_set_by_another_start(stage: EngineStage) -> None:
    session_id, cli = await resting(stage)
    cli._answers["set_permission_mode"] = "not in place"
    (told,) = await settled(stage, stage.call(stage.engine.set_mode(session_id, "plan")))
    assert told.how == "restarted"
    other = alive(stage, session_id)
    assert other is not cli
    assert stage.session(session_id).cli.next_mode() == "plan"


async def test_no_cli_works_on_once_nothing_can_be_kept(stage: EngineStage) -> None:
    session_id, cli = await working(stage)
    break_journal(stage)
    with pytest.raises(JournalError):
        await stage.say(session_id)
    async with asyncio.timeout(DEADLINE):
        await cli.input_ended.wait()
        await asyncio.wait(set(stage.engine._recovery._tasks[1:]))
    assert not stage.session(session_id).has_cli
    stage.failures.clear()
