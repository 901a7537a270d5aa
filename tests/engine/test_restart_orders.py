"""Whatever the order of what CLIs, people, networks and kills do: a CLI that outlives its engine
loses nothing, and hears nothing twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.api.answers import ClearContext, Deny
from pilothouse.api.events import Event
from pilothouse.api.questions import Question
from pilothouse.engine.recorder import RunLedger
from pilothouse.errors import JournalError
from pilothouse.journal.sqlite import SqliteJournal
from tests.support.engine.audit import audit
from tests.support.engine.played import quick_folder
from tests.support.engine.played_cli import PlayedCLI
from tests.support.engine.played_relays import PlayedRelay
from tests.support.engine.relayed_stage import RelayedStage, relayed
from tests.support.engine.steps import OFTEN as OFTEN_BEFORE
from tests.support.engine.steps import Play, Steps, way_of
from tests.support.parts import in_parts
from tests.support.waiting import DEADLINE


class Orders(Play):
    """What can happen besides; while no engine runs, CLIs, relays and networks go on."""

    stage: RelayedStage

    def _cli(self, pick: int, act: Callable[[PlayedCLI], Any]) -> None:
        if not self.stage.is_down or any(each.is_alive for each in self.stage.clis):
            super()._cli(pick, act)

    def say(self, pick: int) -> None:
        if not self.stage.is_down:
            super().say(pick)

    # Relays and their connections

    def cut(self, pick: int) -> None:
        self._relay(pick, PlayedRelay.cut)

    def connect_twice(self, pick: int) -> None:
        self._relay(pick, PlayedRelay.connect_twice)

    def be_doubled(self, pick: int) -> None:
        self._relay(pick, PlayedRelay.be_doubled)

    def kill_relay(self, pick: int) -> None:
        self._relay(pick, PlayedRelay.be_killed)

    def _relay(self, pick: int, act: Callable[[PlayedRelay], Any]) -> None:
        alive = list(self.stage.relays.values())
        if alive:
            act(alive[pick % len(alive)])

    # Engines

    async def close(self, _: int) -> None:
        await self.stage.close()

    async def crash(self, _: int) -> None:
        await self.stage.crash(delivers=bool(_ % 2))

    async def open(self, _: int) -> None:
        if self.stage.is_down:
            await self.stage.open()

    async def answer_and_crash(self, pick: int) -> None:
        """Kill it between the commit of an answer and the CLI's hearing of it."""
        questions = self.stage.questions
        if questions:
            question = questions[pick % len(questions)]
            giving = self._give(question, way_of(question, pick))
            await self._until_committed(giving, lambda each: _settles(each, question))
            await self.pause(pick % 7)
            await self.crash(pick)

    async def say_and_crash(self, pick: int) -> None:
        """Kill it between the commit of a message and the CLI's hearing of it."""
        sessions = self.stage.sessions
        if sessions:
            key = f"crash-{pick}-"
            saying = self.stage.call(self.stage.say(sessions[pick % len(sessions)], key))
            await self._until_committed(saying, lambda each: key.encode() in bytes(each.body))
            await self.pause(pick % 7)
            await self.crash(pick)

    async def crash_between(self, pick: int) -> None:
        """Kill it in the midst of something, after some of that is committed."""
        self.stage.freeze(pick // len(BROKEN_OFF) % 5)
        getattr(self, BROKEN_OFF[pick % len(BROKEN_OFF)])(pick)
        await self.stage.until_frozen()
        await self.pause(pick % 3)
        await self.crash(pick)

    async def _until_committed(
        self, verb: asyncio.Task[Any], is_meant: Callable[[Event], bool]
    ) -> None:
        async with asyncio.timeout(DEADLINE):
            while not verb.done() and not any(map(is_meant, self.stage._committed())):
                await self.pause(1)

    # Between and behind them

    def look(self) -> None:
        if not self.stage.is_down:
            super().look()

    async def settle(self) -> None:
        await self.stage.settle()
        if not self.stage.is_down:
            await audit(self.stage)
            audit_runs(self.stage)

    async def restart(self) -> None:
        """A restart in order, with nothing under way, changes nothing."""
        before = [(each.id, each.state) for each in self.stage.questions]
        alive = [each for each in self.stage.clis if each.is_alive]
        await self.stage.close()
        await self.stage.open()
        await self.settle()
        assert before == [(each.id, each.state) for each in self.stage.questions]
        assert alive == [each for each in self.stage.clis if each.is_alive]

    async def finish(self) -> None:
        """Every question that is open gets its answer; the rest can be decided; all CLIs end."""
        await self.open(0)
        await self.settle()
        await self.restart()
        for question in [each for each in self.stage.questions if each.state == "open"]:
            assert not (await self.stage.answer(question.id, way_of(question, 1))).resumed
        await self.settle()
        assert not any(each.waiting for each in self.stage.clis if each.is_alive)
        await self.stage.engine.stop_all()
        await self.settle()
        await self.decide_all()
        assert not self.stage.relays


def _settles(event: Event, question: Question) -> bool:
    kinds = ("question.closed", "question.decided")
    return event.kind in kinds and json.loads(bytes(event.body))["id"] == question.id


def audit_runs(stage: RelayedStage) -> None:
    """A CLI has one start and one end, and of one that has ended nothing waits to be sent."""
    living: dict[str, str] = {}
    starts = Counter[str]()
    for event in stage._committed():
        if event.kind == "cli.started":
            assert event.session_id not in living, "two at once"
            living[event.session_id] = run = json.loads(bytes(event.body))["run"]
            starts[run] += 1
        elif event.kind == "cli.ended":
            living.pop(event.session_id, None)
    assert living == {each.session_id: run for run, each in stage.relays.items()}
    assert all(count == 1 for count in starts.values())
    assert all(starts[run] for run, each in stage.runs.items() if each.cli.greeted)
    assert {run for (run,) in stage.query("SELECT id FROM runs")} <= stage.relays.keys()


BROKEN_OFF = (
    *("answer", "want", "take_back", "be_killed", "exit", "say", "stop", "interrupt", "begin"),
    *("kill_relay", "end_turn", "expire"),
)
OFTEN = OFTEN_BEFORE | {
    "crash_between": 8,
    "crash": 3,
    "close": 2,
    "answer_and_crash": 4,
    "say_and_crash": 2,
    "connect_twice": 2,
    "cut": 2,
}
HIDDEN = ("pause", "look", "settle", "restart", "finish", "decide_all")
NAMES = [name for kind in (Steps, Orders) for name in vars(kind) if not name.startswith("_")]
WEIGHED = [
    name
    for name in dict.fromkeys(NAMES)
    if name not in HIDDEN and name != "stage"
    for _ in range(OFTEN.get(name, 1))
]
WITHOUT_ENGINE = (
    *("begin", "begin_by_itself", "speak", "write_pieces", "write_noise", "end_turn", "want"),
    *("want_two", "take_back", "exit", "be_killed", "kill_relay", "crash", "close"),
)
AT_ONCE, SETTLED = 0, 9
PLAYS = st.lists(
    st.tuples(
        st.sampled_from(WEIGHED),
        st.integers(0, 59),
        st.sampled_from([AT_ONCE, AT_ONCE, 1, 2, 5, 20, SETTLED]),
    ),
    min_size=16,
    max_size=32,
)


async def play(steps: list[tuple[str, int, int]], *, modern: bool, folder: Path) -> None:
    """Let it all happen; whoever needs an engine has one opened."""
    async with relayed(folder, modern=modern, max_sessions=3) as stage:
        happens = Orders(stage)
        await stage.start()
        await happens.settle()
        for name, pick, pause in steps:
            if name not in WITHOUT_ENGINE:
                await happens.open(0)
            done = getattr(happens, name)(pick)
            if done is not None:
                await done
            happens.look()
            await (happens.settle() if pause == SETTLED else happens.pause(pause))
        await happens.finish()


@in_parts
@given(steps=PLAYS, modern=st.booleans())
def test_no_order_of_kills_cuts_answers_and_restarts_loses_or_doubles_anything(
    part: int, steps: list[tuple[str, int, int]], modern: bool
) -> None:
    with quick_folder() as folder:
        asyncio.run(play(steps, modern=modern, folder=folder))


# What such orders have shown, one by one


@asynccontextmanager
async def asked(kind: str = "tool") -> AsyncGenerator[tuple[Orders, PlayedCLI]]:
    """A session whose CLI waits for an answer."""
    with quick_folder() as folder:
        async with relayed(folder) as stage:
            happens = Orders(stage)
            session_id = await stage.start()
            await happens.settle()
            cli = stage.cli(session_id)
            assert cli is not None
            cli.begin()
            cli.want(kind)
            await happens.settle()
            yield happens, cli


async def test_nothing_is_kept_for_a_cli_that_died_while_no_engine_ran() -> None:
    async with asked() as (happens, _):
        await happens.crash(0)
        happens.kill_relay(0)
        await happens.open(0)
        await happens.settle()
        assert happens.stage.query("SELECT * FROM runs") == []
        assert happens.stage.query("SELECT * FROM sendings") == []


async def test_what_comes_when_the_journal_is_closed_is_not_kept_and_nothing_breaks() -> None:
    journal = await SqliteJournal.open(None)
    mail = RunLedger(journal, "a-session", "a-run")
    await journal.aclose()
    assert isinstance(mail.kept().exception(), JournalError)
    mail.taken(1)


async def test_the_question_of_a_cli_that_died_is_not_opened_again_by_the_next_engine() -> None:
    async with asked() as (happens, cli):
        happens.stage.freeze(1)
        cli.die(signal=9)
        await happens.stage.until_frozen()
        await happens.crash(0)
        await happens.open(0)
        await happens.settle()
        (question,) = happens.stage.questions
        assert (question.state, question.decidable) == ("withdrawn", True)


async def test_a_question_that_was_taken_back_in_the_moment_of_a_kill_is_withdrawn() -> None:
    async with asked() as (happens, cli):
        happens.stage.freeze(1)
        cli.take_back(cli.waiting[0])
        await happens.stage.until_frozen()
        await happens.crash(0)
        await happens.open(0)
        await happens.settle()
        assert (happens.stage.questions, cli.is_alive) == ([], True)


@pytest.mark.parametrize("delivers", [0, 1])
@pytest.mark.parametrize("kept", range(6))
async def test_a_cli_hears_an_answer_once_wherever_the_engine_is_killed_on_the_way(
    kept: int, delivers: int
) -> None:
    async with asked() as (happens, cli):
        (question,) = happens.stage.questions
        happens.stage.freeze(kept)
        happens._give(question, Deny(reason="not today"))
        await happens.stage.until_frozen()
        await happens.crash(delivers)
        await happens.open(0)
        await happens.settle()
        assert [each.id for each in happens.stage.questions] == ([] if kept else [question.id])
        for each in happens.stage.questions:
            await happens.stage.answer(each.id, Deny(reason="not today"))
        await happens.settle()
        (heard,) = cli.answers.values()
        assert "not today" in json.dumps(heard)


@pytest.mark.parametrize("kept", range(6))
async def test_an_engine_that_is_killed_while_it_takes_up_a_cli_leaves_it_to_the_next(
    kept: int,
) -> None:
    async with asked() as (happens, cli):
        (question,) = happens.stage.questions
        happens.stage.freeze(1)
        happens._give(question, Deny(reason="not today"))
        await happens.stage.until_frozen()
        await happens.crash(0)
        cli.speak()
        cli.want("plan")
        await happens.open(0)
        happens.stage.freeze(kept)
        await happens.stage.until_frozen()
        await happens.crash(0)
        await happens.open(0)
        await happens.settle()
        assert ([each.kind for each in happens.stage.questions], len(cli.answers)) == (["plan"], 1)


@pytest.mark.parametrize("kept", range(8))
async def test_a_start_that_is_broken_off_anywhere_ends_in_one_cli_that_has_the_message(
    kept: int,
) -> None:
    with quick_folder() as folder:
        async with relayed(folder) as stage:
            happens = Orders(stage)
            stage.freeze(kept)
            stage.call(stage.start())
            await stage.until_frozen()
            await stage.crash()
            await stage.open()
            await happens.settle()
            for session_id in stage.engine.sessions:
                prompt_id = await stage.say(session_id)
                await happens.settle()
                cli = stage.cli(session_id)
                assert cli is not None
                assert cli.heard[-1:] == [prompt_id]
                assert len(cli.heard) == 2


async def test_a_restart_leaves_a_session_alone_that_went_on_after_its_plan_was_handed_over() -> (
    None
):
    async with asked("plan") as (happens, cli):
        (question,) = happens.stage.questions
        await happens.stage.answer(question.id, ClearContext(plan="leap"))
        await happens.settle()
        await happens.stage.say(cli.session_id)
        await happens.settle()
        await happens.restart()


@pytest.mark.parametrize("kept", range(1, 6))
async def test_a_plan_whose_handing_over_is_broken_off_twice_is_handed_over(kept: int) -> None:
    async with asked("plan") as (happens, cli):
        (question,) = happens.stage.questions
        happens.stage.freeze(kept)
        happens._give(question, ClearContext(plan="leap"))
        await happens.stage.until_frozen()
        await happens.crash(0)
        await happens.open(0)
        await happens.close(0)
        await happens.open(0)
        await happens.settle()
        successor = happens.stage.session(cli.session_id).view.successor
        assert (happens.stage.cli(cli.session_id), cli.is_alive) == (None, False)
        new = happens.stage.cli(str(successor))
        assert new is not None
        assert len(new.heard) == 1
