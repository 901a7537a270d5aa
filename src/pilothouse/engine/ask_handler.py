"""What one live CLI asks: each ask becomes a question, and the CLI waits here for its answer.

An ask goes policy -> journal -> people. Its answer is committed before the CLI hears it, so an
answer that anybody has seen is never given a second time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from pilothouse.api.answers import Allow, Answer, Decline, Deny
from pilothouse.api.questions import Question
from pilothouse.api.records import QuestionClosed, QuestionOpened
from pilothouse.client.elicitation import ElicitationAnswer, ElicitationRequest
from pilothouse.client.permissions import PermissionRequest, Settled
from pilothouse.errors import BypassNotAllowed

from .kept_rules import kept_after
from .policy import Decision, JudgedAsk, PolicyFile
from .questions import check, elicited, pose, settled
from .recorder import Recorder
from .view import View

__all__ = ["AskHandler"]

LEAST_TIME_MS: Final = 60_000
Spawn = Callable[[Coroutine[Any, Any, None]], object]


class AskHandler:
    """The questions of one CLI that wait for an answer."""

    def __init__(
        self,
        recorder: Recorder,
        view: View,
        policy: PolicyFile,
        *,
        timeout_ms: int,
        bypass_allowed: bool,
        spawn: Spawn,
        asked_before: Callable[[str], Awaitable[Question | None]] | None = None,
        foreign: bool = False,
        opened: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`foreign`: the CLI is not the engine's. `opened` is told of a question that is kept."""
        self._recorder = recorder
        self._view = view
        self._policy = policy
        self._timeout_ms = timeout_ms
        self._bypass_allowed = bypass_allowed
        self._spawn = spawn
        self._judging = asyncio.Lock()
        self._asked_before = asked_before
        self._foreign = foreign
        self._opened = opened
        self._closed = False
        self._left = False
        self._waiting: dict[str, asyncio.Future[Answer]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    @property
    def handlers(self) -> dict[str, Any]:
        """What a client is given to answer its CLI with."""
        return {"on_permission": self.permission, "on_elicitation": self.elicitation}

    async def permission(
        self, request: PermissionRequest, *, cwd: str | None = None, label: str | None = None
    ) -> Settled:
        """May this tool run, is this plan right, which option?

        `cwd` and `label` are those of a CLI that is not the engine's.
        """
        answer = settled(request, await self._ask(request, cwd, label))
        kept = kept_after(self._view, answer.updates)
        if kept is not None:
            self._recorder.write(self._view, kept)
        return answer

    async def elicitation(self, request: ElicitationRequest) -> ElicitationAnswer:
        """What an MCP server wants to know."""
        return elicited(await self._ask(request))

    def give(self, question_id: str, answer: Answer) -> None:
        """Let the CLI have an answer that is committed. One that withdrew its ask gets none."""
        waiting = self._waiting.get(question_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def close(self) -> None:
        """Stop every clock: nobody waits here any more, and nothing more is opened."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def leave(self) -> None:
        """Stop every clock, and leave what is open as it is: the CLI goes on without us."""
        self._left = True
        self.close()

    async def _ask(
        self,
        request: PermissionRequest | ElicitationRequest,
        cwd: str | None = None,
        label: str | None = None,
    ) -> Answer:
        posed = await self._posed(request, cwd, label)
        known = await self._known(posed.id)
        if known is not None:
            return _given(known) if known.state != "open" else await self._answered(known)
        question, decision = await self._judged(posed)
        if _is_final(question, decision):
            return await self._decided(question, decision)
        return await self._answered(question, QuestionOpened(question=question))

    async def _known(self, question_id: str) -> Question | None:
        """The question, if another engine has asked it: what this one says must be committed."""
        if self._asked_before is None:
            return None
        open_one = self._view.questions.get(question_id)
        if open_one is not None and open_one.state == "open":
            return open_one
        await self._recorder.kept()
        known = await self._asked_before(question_id)
        return None if known is None or known.state in ("open", "withdrawn") else known

    async def _answered(self, question: Question, *opening: QuestionOpened) -> Answer:
        """Wait for the answer to a question, which is opened first unless it is open."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[question.id] = waiting
        try:
            if opening:
                await self._recorder.write(self._view, *opening).committed
            self._opened(question.id)
            self._start_clock(question)
            return await waiting
        except asyncio.CancelledError:
            if not self._left:
                self.withdraw(question.id)
            raise
        finally:
            self._waiting.pop(question.id, None)
            self._stop_clock(question.id)

    async def _posed(
        self,
        request: PermissionRequest | ElicitationRequest,
        cwd: str | None,
        label: str | None,
    ) -> Question:
        view, now = self._view, self._recorder.clock()
        posing = partial(
            pose,
            request,
            session_id=view.session_id,
            cwd=cwd or view.cwd,
            # What the session has is of the engine's last CLI, and says nothing of another one.
            label=label if self._foreign else view.label,
            mode=None if self._foreign else view.mode,
            now=now,
            expires_at=now + self._timeout_ms if self._timeout_ms else None,
            bypass_allowed=self._bypass_allowed,
            foreign=self._foreign,
            used=None if self._foreign or view.context is None else view.context.percent,
        )
        # As large as whoever asks likes.
        return await asyncio.to_thread(posing) if self._foreign else posing()

    async def _judged(self, question: Question) -> tuple[Question, Decision]:
        """What the policy says. Rules read the disk and much text, so not on the event loop."""
        # In turn: what is asked first is opened first, however long the policy looks at it.
        async with self._judging:
            decision = Decision("ask")
            if not self._policy.is_absent():
                decision = await asyncio.to_thread(self._policy.decide, JudgedAsk.of(question))
        if self._closed:
            # Whoever ended the CLI has withdrawn its questions: no more may be opened.
            raise asyncio.CancelledError
        return replace(question, rule=decision.rule), decision

    async def _decided(self, question: Question, decision: Decision) -> Answer:
        """What the policy says, with the rule that says it, as one entry after the other."""
        answer = self._verdict(question, decision)
        closed = QuestionClosed(
            id=question.id, state="answered", answer=answer, by="policy", rule=decision.rule
        )
        records = (QuestionOpened(question=question), closed)
        await self._recorder.write(self._view, *records).committed
        return answer

    def _verdict(self, question: Question, decision: Decision) -> Answer:
        if question.kind == "elicitation":
            return Decline()
        if decision.verdict == "deny":
            return Deny(reason=decision.reason or f"The policy denies it ({decision.rule}).")
        try:
            check(question, Allow(), bypass_allowed=self._bypass_allowed)
        except BypassNotAllowed as error:
            return Deny(reason=str(error))
        return Allow()

    def withdraw(self, question_id: str) -> None:
        """Note that the CLI wants no answer any more."""
        # Whoever ended the CLI, or answered, has closed it already.
        question = self._view.questions.get(question_id)
        if question is not None and question.state == "open":
            record = QuestionClosed(
                id=question_id, state="withdrawn", because="Claude Code no longer asks"
            )
            self._recorder.write(self._view, record)

    def _start_clock(self, question: Question) -> None:
        if question.expires_at is not None and question.id in self._waiting:
            # One that was open while no engine ran gets some time in which it can be answered.
            least = min(self._timeout_ms, LEAST_TIME_MS)
            left = max(question.expires_at - self._recorder.clock(), least) / 1000
            loop = asyncio.get_running_loop()
            self._timers[question.id] = loop.call_later(
                left, lambda: self._spawn(self._expire(question.id))
            )

    def _stop_clock(self, question_id: str) -> None:
        timer = self._timers.pop(question_id, None)
        if timer is not None:
            timer.cancel()

    async def _expire(self, question_id: str) -> None:
        question = self._view.questions.get(question_id)
        if question is None or question.state != "open":
            return
        reason = _expired(question)
        record = QuestionClosed(id=question_id, state="expired", by="timeout", because=reason)
        await self._recorder.write(self._view, record).committed
        self.give(question_id, Decline() if question.kind == "elicitation" else Deny(reason=reason))


def _given(question: Question) -> Answer:
    """What became of a question that was settled while its CLI could not be told."""
    if question.answer is not None:
        return question.answer
    return Decline() if question.kind == "elicitation" else Deny(reason=_expired(question))


def _expired(question: Question) -> str:
    seconds = ((question.expires_at or 0) - question.opened_at) / 1000
    return f"Nobody answered within {seconds:g} s; the question has expired."


def _is_final(question: Question, decision: Decision) -> bool:
    # A yes is no answer to a question that wants a choice or values.
    if decision.verdict == "allow":
        return question.kind in ("tool", "plan")
    return decision.verdict == "deny"
