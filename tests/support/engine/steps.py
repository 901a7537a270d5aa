"""Everything that can happen to an engine, one step for each, in any order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from pilothouse.api.answers import (
    Allow,
    Answer,
    ApprovePlan,
    Choose,
    ClearContext,
    Decline,
    Deny,
    Dismiss,
    Fill,
    RejectPlan,
    RevisePlan,
    Skip,
)
from pilothouse.api.questions import Question
from pilothouse.engine.session_state import STATES
from tests.support.engine.audit import audit
from tests.support.engine.played import EngineStage
from tests.support.engine.played_cli import ASKS, OUTCOMES, PlayedCLI, mark

WAYS: dict[str, list[Callable[[], Answer]]] = {
    "tool": [
        lambda: Allow(input={"command": mark()}),
        lambda: Deny(reason=mark()),
        lambda: Deny(reason=mark(), stop=True),
    ],
    "plan": [
        lambda: ApprovePlan(plan=mark()),
        lambda: RevisePlan(feedback=mark()),
        lambda: RejectPlan(reason=mark(), stop=True),
        lambda: ClearContext(plan=mark()),
    ],
    "questions": [
        lambda: Choose(answers={"Which colour?": mark()}),
        lambda: Skip(),
        lambda: Deny(reason=mark()),
    ],
    "elicitation": [lambda: Fill(content={"day": mark()}), lambda: Decline(), lambda: Dismiss()],
}


class Steps:
    """One method for each thing that can happen; `pick` says to whom."""

    def __init__(self, stage: EngineStage) -> None:
        self.stage = stage

    # CLIs

    def begin(self, pick: int) -> None:
        self._cli(pick, PlayedCLI.begin)

    def begin_by_itself(self, pick: int) -> None:
        self._cli(pick, PlayedCLI.begin_by_itself)

    def speak(self, pick: int) -> None:
        self._cli(pick, PlayedCLI.speak)

    def write_pieces(self, pick: int) -> None:
        self._cli(pick, PlayedCLI.write_pieces)

    def write_noise(self, pick: int) -> None:
        self._cli(pick, PlayedCLI.write_noise)

    def end_turn(self, pick: int) -> None:
        self._cli(pick, lambda cli: cli.end_turn(pick % len(OUTCOMES)))

    def want(self, pick: int) -> None:
        def want(cli: PlayedCLI) -> None:
            cli.begin()
            cli.begin_by_itself()
            cli.want(list(ASKS)[pick % len(ASKS)])

        self._cli(pick, want)

    def want_two(self, pick: int) -> None:
        self.want(pick)
        self.want(pick + 5)

    def take_back(self, pick: int) -> None:
        self._cli(pick, lambda cli: [cli.take_back(each) for each in cli.waiting[-1:]])

    def exit(self, pick: int) -> None:
        self._cli(pick, lambda cli: cli.die(code=pick % 2))

    def be_killed(self, pick: int) -> None:
        self._cli(pick, lambda cli: cli.die(signal=9))

    def _cli(self, pick: int, act: Callable[[PlayedCLI], Any]) -> None:
        alive = [each for each in self.stage.clis if each.is_alive and each.greeted]
        if alive:
            act(alive[pick % len(alive)])
        else:
            self.say(pick)

    # People

    def start(self, _: int) -> None:
        if max(len(self.stage.engine.sessions), len(self.stage.sessions)) < 3:
            self.stage.call(self.stage.start())

    def say(self, pick: int) -> None:
        self._session(pick, lambda name: self.stage.call(self.stage.say(name)))

    def say_with_a_key(self, pick: int) -> None:
        """The same message again and again, as a caller that never heard back."""
        self._session(pick, lambda name: self.stage.call(self.stage.say(name, f"key-{pick % 3}")))

    def say_and_leave(self, pick: int) -> None:
        """A caller that does not wait to be told."""

        def leave(name: str) -> None:
            asyncio.get_running_loop().call_soon(self.stage.call(self.stage.say(name)).cancel)

        self._session(pick, leave)

    def interrupt(self, pick: int) -> None:
        self._session(pick, lambda name: self.stage.call(self.stage.engine.interrupt(name)))

    def stop(self, pick: int) -> None:
        self._session(pick, lambda name: self.stage.call(self.stage.engine.stop(name)))

    def cancel(self, pick: int) -> None:
        def cancel(name: str) -> None:
            for prompt_id in list(self.stage.session(name).view.queued)[-1:]:
                self.stage.call(self.stage.engine.cancel(name, prompt_id))

        self._loaded(pick, cancel)

    def answer(self, pick: int) -> None:
        self._question(pick, lambda it: [self._give(it, way_of(it, pick))])

    def answer_and_leave(self, pick: int) -> None:
        def leave(question: Question) -> None:
            task = self._give(question, way_of(question, pick))
            asyncio.get_running_loop().call_later(0, task.cancel)

        self._question(pick, leave)

    def answer_twice(self, pick: int) -> None:
        def give(question: Question) -> None:
            way = way_of(question, pick)
            self._give(question, way)
            self._give(question, way)

        self._question(pick, give)

    def answer_otherwise(self, pick: int) -> None:
        """Two people at once, of two minds."""

        def give(question: Question) -> None:
            self._give(question, way_of(question, pick))
            self._give(question, way_of(question, pick + 1))

        self._question(pick, give)

    def answer_again(self, pick: int) -> None:
        if self.stage.settled:
            question_id, answer, _ = self.stage.settled[pick % len(self.stage.settled)]
            self.stage.call(self.stage.answer(question_id, answer))

    def _give(self, question: Question, answer: Answer) -> asyncio.Task[Any]:
        return self.stage.call(self.stage.answer(question.id, answer))

    def _session(self, pick: int, act: Callable[[str], Any]) -> None:
        if self.stage.sessions:
            act(self.stage.sessions[pick % len(self.stage.sessions)])

    def _loaded(self, pick: int, act: Callable[[str], Any]) -> None:
        in_memory = list(self.stage.engine.sessions)
        if in_memory:
            act(in_memory[pick % len(in_memory)])

    def _question(self, pick: int, act: Callable[[Question], Any]) -> None:
        questions = self.stage.questions
        if questions:
            act(questions[pick % len(questions)])
        else:
            self.want(pick)

    # Time and machines

    def expire(self, pick: int) -> None:
        def expire(question: Question) -> None:
            asks = self.stage.session(question.session_id).cli.asks
            if asks is not None:
                self.stage.call(asks._expire(question.id))

        self._question(pick, expire)

    def idle_for_long(self, pick: int) -> None:
        self._loaded(pick, lambda name: self.stage.session(name)._idle_too_long())

    def let_rest(self, _: int) -> None:
        self.stage.let_rest()

    async def close(self, _: int) -> None:
        await self.stage.close()
        await self.stage.open()

    async def crash(self, _: int) -> None:
        await self.stage.crash()
        await self.stage.open()


class Play(Steps):
    """The steps, and what lies between and behind them."""

    async def pause(self, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)

    def look(self) -> None:
        """What holds at every moment."""
        for session in self.stage.engine.sessions.values():
            assert session.view.state in STATES
            assert (session.view.state == "awaiting_input") == bool(session.view.open_questions)

    async def settle(self) -> None:
        await self.stage.settle()
        await audit(self.stage)

    async def decide_all(self) -> None:
        """Every question that was left open can be decided still, and its session hears of it."""
        for question in self.stage.questions:
            answer = await self.stage.answer(question.id, way_of(question, 1))
            assert answer.resumed
            await self.stage.engine.stop(question.session_id)
        await self.settle()
        assert not self.stage.questions


def way_of(question: Question, pick: int) -> Answer:
    ways = WAYS[question.kind]
    return ways[pick % len(ways)]()


OFTEN = {
    "start": 2,
    "say": 3,
    "begin": 4,
    "want": 8,
    "want_two": 3,
    "answer": 8,
    "end_turn": 3,
    "expire": 2,
    "let_rest": 2,
}
NAMES = [name for name in vars(Steps) if not name.startswith("_")]
WEIGHED = [name for name in NAMES for _ in range(OFTEN.get(name, 1))]
AT_ONCE, SETTLED = 0, 9
PLAYS = st.lists(
    st.tuples(
        st.sampled_from(WEIGHED),
        st.integers(0, 59),
        st.sampled_from([AT_ONCE, AT_ONCE, 1, 2, 5, SETTLED, SETTLED]),
    ),
    min_size=16,
    max_size=32,
)
