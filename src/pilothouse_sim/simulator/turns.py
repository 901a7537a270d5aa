"""Prompts come at any time; turns are taken one after the other. This is the queue between them.

Rules, as 2.1.325 keeps them
- A prompt that comes while a tool runs joins the running turn after that tool's result.
- Prompts that come while the model speaks wait; when the turn ends, all that wait become one turn.
- A task that ended in the background starts a turn of its own, when nothing else is going on.
- `idle` is said only when nothing waits and no sub-agent is at work.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from pilothouse_sim.simulator import slash
from pilothouse_sim.simulator.endings import Aborted, Ending
from pilothouse_sim.simulator.outlet import new_id
from pilothouse_sim.simulator.prompts import Prompt
from pilothouse_sim.simulator.results import Results
from pilothouse_sim.simulator.talk import Talk
from pilothouse_sim.simulator.tally import Tally

if TYPE_CHECKING:
    from pilothouse_sim.simulator.hooks.verdicts import Submitted
    from pilothouse_sim.simulator.session import Session

__all__ = ["Turns"]

GIVEN_UP: Final = frozenset(
    {"aborted_streaming", "aborted_tools", "api_error", "budget_exhausted"}
    | {"image_error", "prompt_too_long", "structured_output_retry_exhausted"}
)
"""Endings after which a prompt counts as not answered."""


class Turns:
    """The session's prompts and the turns they become."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.results = Results(session)
        self.main = Talk(session, {"parent_tool_use_id": None}, is_main=True)
        self.queue: deque[Prompt] = deque()
        self.notices: deque[dict[str, Any]] = deque()
        self.input_ended = False
        self._seen: set[str] = set()
        self._past: frozenset[str] = frozenset()
        """The prompts that an earlier process has had."""
        self._work: asyncio.Task[Any] | None = None
        self._wake = asyncio.Event()
        self._running = False
        self._busy = False
        self._taken = False
        """A turn or a command is under way, from its first step to its last."""
        self._called_off = False
        self._started: set[str | None] = set()
        self._asking = 0
        self.began = time.monotonic()

    # What comes from outside

    def receive(self, prompt: Prompt) -> None:
        """Takes a prompt of the client's."""
        if prompt.uuid in self._seen:
            self._repeat(prompt)
            return
        if prompt.uuid:
            self._seen.add(prompt.uuid)
        self._set_running()
        self._lifecycle(prompt.uuid, "queued")
        self.session.transcript.enqueued(prompt.text)
        if not self._busy:
            # A prompt that nothing stands before begins at once, before the next line is read.
            self._busy = True
            self._start(prompt.uuid)
        self.queue.append(prompt)
        self._wake.set()

    def _repeat(self, prompt: Prompt) -> None:
        """Takes note of a prompt that was sent before; there is no turn."""
        if self.session.launch.replay_user_messages:
            self.session.outlet.send(
                "user",
                message={"role": "user", "content": prompt.content},
                parent_tool_use_id=None,
                uuid=prompt.uuid,
                isReplay=True,
            )
        if prompt.uuid in self._past:
            self._lifecycle(prompt.uuid, "completed")
        self.say_again()

    def remember(self, uuids: Iterable[str]) -> None:
        """Takes no prompt again that an earlier process has had."""
        self._past = frozenset(uuids)
        self._seen.update(self._past)

    def notify(self, notice: dict[str, Any]) -> None:
        """Takes the news that a task ended; the model hears of it in a turn of its own."""
        self.notices.append(notice)
        self._wake.set()

    def end_input(self) -> None:
        """Notes that the client writes nothing more."""
        self.input_ended = True
        self._wake.set()

    def cancel(self, uuid: str) -> bool:
        """Takes a prompt back that has not begun."""
        for prompt in self.queue:
            if prompt.uuid == uuid:
                self.queue.remove(prompt)
                self._lifecycle(uuid, "cancelled")
                return True
        return False

    def interrupt(self) -> None:
        """Stops the turn that runs, if one does."""
        if self._work is not None:
            self.session.outlet.withdraw_all()
            self.session.mcp.cancel_calls()
            self._work.cancel()
        elif self.queue and not self._taken:
            # The turn that was promised with `started` ends as soon as it begins.
            self._called_off = True

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs or waits."""
        return bool(self.queue) or self._running

    # States that clients can watch

    def requires_action(self) -> None:
        """A question to the client is open."""
        self._asking += 1
        self._state("requires_action")

    def action_taken(self) -> None:
        """A question to the client is closed."""
        self._asking -= 1
        if self._asking == 0:
            self._state("running")

    def settle(self) -> None:
        """Says `idle` if nothing is going on."""
        if self._running and not self.session.tasks.has_agents and not self.session.is_leaving:
            self._running = False
            self._state("idle")

    def say_again(self) -> None:
        """Says once more that nothing is going on, if so."""
        if not self._running:
            self._state("idle")

    def _set_running(self) -> None:
        if not self._running:
            self._running = True
            self._state("running")

    def _state(self, state: str) -> None:
        self.session.tell_state(state)

    def _start(self, uuid: str | None) -> None:
        if uuid not in self._started:
            self._started.add(uuid)
            self._lifecycle(uuid, "started")

    def _lifecycle(self, uuid: str | None, state: str) -> None:
        if uuid:
            self.session.outlet.send("command_lifecycle", command_uuid=uuid, state=state)

    # The loop

    async def run(self) -> None:
        """Takes turns until the client has closed its side and everything is done."""
        own = asyncio.current_task()
        # An interrupted turn ends in good order; that does not call off the end of the process.
        while not (own and own.cancelling()) and await self._work_comes():
            self._set_running()
            self._taken = True
            if self.queue:
                await self._take_prompts()
            else:
                await self._take_notice()
            self._taken = False
            if not self.queue and not self.notices:
                self._busy = False
                self.settle()

    async def _work_comes(self) -> bool:
        while not self.queue and not self.notices:
            if self.input_ended and not self.session.tasks.are_running:
                return False
            self._wake.clear()
            await self._wake.wait()
        return True

    async def fold(self, tally: Tally) -> None:
        """Lets the prompts that came while a tool ran join the turn."""
        while self.queue and not slash.is_command(self.session, self.queue[0].text):
            prompt = self.queue.popleft()
            submitted = await self.session.hooks.prompt_submitted(prompt)
            self.session.hooks.show(submitted.lines)
            if submitted.is_kept:
                self.main.add("user", prompt.content)
            for context in submitted.contexts:
                self.main.add("system", context)
            self.session.transcript.joined(prompt)
            self.main.echo(prompt)
            self._start(prompt.uuid)
            if prompt.uuid:
                tally.uuids.append(prompt.uuid)

    async def _take_prompts(self) -> None:
        first = self._next()
        if slash.is_local(self.session, first.text):
            await self._run_command(first)
            return
        merged = [first]
        joins = self.results.count and not slash.is_command(self.session, first.text)
        while joins and self._next_joins():
            merged.append(self._next())
        for earlier in merged[:-1]:
            self.main.echo(earlier, timed=False)
        await self._turn(_merge(merged), [one.uuid for one in merged if one.uuid])

    def _next(self) -> Prompt:
        self.session.transcript.dequeued()
        return self.queue.popleft()

    def _next_joins(self) -> bool:
        return bool(self.queue) and not slash.is_command(self.session, self.queue[0].text)

    async def _take_notice(self) -> None:
        notice = self.notices.popleft()
        await self._turn(Prompt(content=notice["text"]), [], origin=notice["origin"])

    async def _run_command(self, prompt: Prompt) -> None:
        tally = Tally([prompt.uuid] if prompt.uuid else [])
        self._called_off = False
        self._start(prompt.uuid)
        await slash.run(self.session, prompt, tally)
        self._lifecycle(prompt.uuid, "completed")

    async def _turn(
        self, prompt: Prompt, uuids: list[str], origin: dict[str, Any] | None = None
    ) -> None:
        tally = Tally(list(uuids), origin, lead=prompt.uuid)
        self.session.prompt_id = new_id()
        self.session.permissions.unchecked = 0
        for uuid in uuids:
            self._start(uuid)
        prepared = await self._prepare(prompt)
        self.session.announce(uuids)
        if prepared is None:
            self._give_up(prompt, tally)
            return
        submitted, prompt = prepared
        self.session.hooks.show(submitted.lines)
        if submitted.refusal is not None:
            self._refuse(prompt, tally, submitted.refusal, is_kept=submitted.is_kept)
            return
        if not prompt.is_question:
            self._take_note(prompt, tally)
            return
        self.main.hear(prompt)
        for context in submitted.contexts:
            self.main.add("system", context)
        own = self.session.transcript.prompt(self.main, prompt, merged=uuids[:-1], origin=origin)
        self.session.checkpoints.begin(own)
        ending = await self._work_on(tally)
        self.session.transcript.turn_ended()
        state = "cancelled" if ending.reason in GIVEN_UP else "completed"
        for uuid in tally.uuids[len(uuids) :]:
            self._lifecycle(uuid, state)
        self.results.write(tally, ending)
        for uuid in uuids:
            self._lifecycle(uuid, state)

    async def _prepare(self, prompt: Prompt) -> tuple[Submitted, Prompt] | None:
        """What comes before the model is asked; None if the user stepped in."""

        async def prepare() -> tuple[Submitted, Prompt]:
            submitted = await self.session.hooks.prompt_submitted(prompt)
            expanded = await slash.expand(self.session, prompt)
            await self.session.mcp.settled()
            return submitted, expanded

        own = asyncio.current_task()
        work = self._work = asyncio.create_task(prepare())
        if self._called_off:
            self._called_off = False
            work.cancel()
        try:
            return await work
        except asyncio.CancelledError:
            if own and own.cancelling():
                work.cancel()
                raise
            return None
        finally:
            self._work = None

    def _give_up(self, prompt: Prompt, tally: Tally) -> None:
        """Ends a turn in which the model was not asked yet."""
        self.main.hear(prompt)
        self.main.echo_prompts()
        self.main.say_interrupted("[Request interrupted by user]")
        tally.user_lines += 1
        self.results.write(tally, _interrupted("aborted_streaming", tally))
        for uuid in tally.uuids:
            self._lifecycle(uuid, "cancelled")

    def _take_note(self, prompt: Prompt, tally: Tally) -> None:
        """Keeps what needs no answer for the next request."""
        self.main.hear(prompt)
        self.session.transcript.prompt(self.main, prompt, merged=[], origin=None)
        self.main.echo_prompts()
        self.results.write_local(tally, None)
        for uuid in tally.uuids:
            self._lifecycle(uuid, "completed")

    def _refuse(self, prompt: Prompt, tally: Tally, words: str, *, is_kept: bool) -> None:
        if is_kept:
            self.main.add("user", prompt.content)
        self.results.write_refused(tally, words)
        for uuid in tally.uuids:
            self._lifecycle(uuid, "completed")

    async def _work_on(self, tally: Tally) -> Ending:
        work = self._work = asyncio.create_task(self.main.converse(tally))
        try:
            return await work
        except Aborted as aborted:
            return _interrupted(aborted.reason, tally)
        finally:
            self._work = None


def _merge(prompts: list[Prompt]) -> Prompt:
    if len(prompts) == 1:
        return prompts[0]
    words = "\n".join(prompt.text for prompt in prompts)
    return Prompt(content=words, uuid=prompts[-1].uuid)


def _interrupted(reason: str, tally: Tally) -> Ending:
    stop = "null" if tally.stop_reason is None else tally.stop_reason
    diagnostic = f"[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={stop}"
    return Ending(
        reason=reason, subtype="error_during_execution", is_error=True, errors=[diagnostic]
    )
