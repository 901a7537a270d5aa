"""Prompts come at any time; turns are taken one after the other. This takes them from the queue.

Rules, as 2.1.325 keeps them
- A prompt that comes while a tool runs joins the running turn after that tool's result.
- Prompts that come while the model speaks wait; when the turn ends, all that wait become one turn.
- A task that ended in the background starts a turn of its own, when nothing else is going on.
- `idle` is said only when nothing waits and no sub-agent is at work.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from pilothouse_sim.simulator import slash
from pilothouse_sim.simulator.invocations import is_command, is_local
from pilothouse_sim.simulator.outlet import new_id
from pilothouse_sim.simulator.prompts import ClientPrompt
from pilothouse_sim.simulator.tally import Aborted, Tally, TurnEnding

if TYPE_CHECKING:
    from pilothouse_sim.simulator.hooks.verdicts import Submitted
    from pilothouse_sim.simulator.session import SimulatedSession

__all__ = ["Turns"]

GIVEN_UP: Final = frozenset(
    {"aborted_streaming", "aborted_tools", "api_error", "budget_exhausted"}
    | {"image_error", "prompt_too_long", "structured_output_retry_exhausted"}
)
"""Endings after which a prompt counts as not answered."""


class Turns:
    """Takes the session's turns."""

    def __init__(self, session: SimulatedSession) -> None:
        self._session = session
        self._state = session.state
        self._main = session.main
        self._results = session.results
        self._queue = session.queue
        self._work = session.work

    async def run(self) -> None:
        """Take turns until the client has closed its side and everything is done."""
        own = asyncio.current_task()
        # An interrupted turn ends in good order; that does not call off the end of the process.
        while not (own and own.cancelling()) and await self._work_comes():
            self._session.activity.start()
            self._work.is_taken = True
            if self._queue.prompts:
                await self._take_prompts()
            else:
                await self._take_notice()
            self._work.is_taken = self._work.is_called_off = False
            if not self._queue:
                self._queue.rest()
                self._session.settle()

    async def _work_comes(self) -> bool:
        while not self._queue:
            if self._queue.input_ended and not self._session.tasks.are_running:
                return False
            await self._queue.changed()
        return True

    async def _take_prompts(self) -> None:
        first = self._queue.next()
        if is_local(self._state.catalog, first.text):
            await self._run_command(first)
            return
        merged = [first]
        joins = self._results.count and not is_command(self._state.catalog, first.text)
        while joins and self._queue.next_joins():
            merged.append(self._queue.next())
        for earlier in merged[:-1]:
            self._main.echo(earlier, timed=False)
        await self._turn(_merge(merged), [one.uuid for one in merged if one.uuid])

    async def _take_notice(self) -> None:
        notice = self._queue.notices.popleft()
        await self._turn(ClientPrompt(content=notice["text"]), [], origin=notice["origin"])

    async def _run_command(self, prompt: ClientPrompt) -> None:
        tally = Tally([prompt.uuid] if prompt.uuid else [])
        self._queue.start(prompt.uuid)
        await slash.run(self._session, prompt, tally)
        self._queue.tell(prompt.uuid, "completed")

    async def _turn(
        self, prompt: ClientPrompt, uuids: list[str], origin: dict[str, Any] | None = None
    ) -> None:
        tally = Tally(list(uuids), origin or prompt.origin, lead=prompt.uuid)
        self._state.prompt_id = new_id()
        self._state.permissions.unchecked = 0
        for uuid in uuids:
            self._queue.start(uuid)
        prepared = await self._prepare(prompt)
        self._session.announce(uuids)
        if prepared is None:
            self._give_up(prompt, tally)
            return
        submitted, prompt = prepared
        self._session.hooks.show(submitted.lines)
        if submitted.refusal is not None:
            self._refuse(prompt, tally, submitted.refusal, is_kept=submitted.is_kept)
            return
        if not prompt.is_question:
            self._take_note(prompt, tally)
            return
        self._main.hear(prompt)
        for context in submitted.contexts:
            self._main.add("system", context)
        own = self._session.transcript.prompt(
            self._main.thread, prompt, merged=uuids[:-1], origin=origin
        )
        self._session.checkpoints.begin(own)
        ending = await self._work_on(tally)
        self._session.transcript.turn_ended()
        state = "cancelled" if ending.reason in GIVEN_UP else "completed"
        for uuid in tally.uuids[len(uuids) :]:
            self._queue.tell(uuid, state)
        self._results.write(tally, ending)
        for uuid in uuids:
            self._queue.tell(uuid, state)

    async def _prepare(self, prompt: ClientPrompt) -> tuple[Submitted, ClientPrompt] | None:
        """What comes before the model is asked; None if the user stepped in."""

        async def prepare() -> tuple[Submitted, ClientPrompt]:
            submitted = await self._session.hooks.prompt_submitted(prompt)
            expanded = await slash.expand(self._session, prompt)
            await self._session.mcp.settled()
            return submitted, expanded

        own = asyncio.current_task()
        work = self._work.task = asyncio.create_task(prepare())
        if self._work.is_called_off:
            work.cancel()
        try:
            prepared = await work
        except asyncio.CancelledError:
            if own and own.cancelling():
                work.cancel()
                raise
            return None
        finally:
            self._work.task = None
        return None if self._work.is_called_off else prepared

    def _give_up(self, prompt: ClientPrompt, tally: Tally) -> None:
        """End a turn in which the model was not asked yet."""
        self._main.hear(prompt)
        self._results.write(tally, self._stop_unasked(tally))
        for uuid in tally.uuids:
            self._queue.tell(uuid, "cancelled")

    def _stop_unasked(self, tally: Tally) -> TurnEnding:
        self._main.echo_prompts()
        self._main.say_interrupted("[Request interrupted by user]")
        tally.user_lines += 1
        return _interrupted("aborted_streaming", tally)

    def _take_note(self, prompt: ClientPrompt, tally: Tally) -> None:
        """Keep what needs no answer for the next request."""
        self._main.hear(prompt)
        self._session.transcript.prompt(self._main.thread, prompt, merged=[], origin=None)
        self._main.echo_prompts()
        self._results.write_local(tally, None)
        for uuid in tally.uuids:
            self._queue.tell(uuid, "completed")

    def _refuse(self, prompt: ClientPrompt, tally: Tally, words: str, *, is_kept: bool) -> None:
        if is_kept:
            self._main.add("user", prompt.content)
        self._results.write_refused(tally, words)
        for uuid in tally.uuids:
            self._queue.tell(uuid, "completed")

    async def _work_on(self, tally: Tally) -> TurnEnding:
        own = asyncio.current_task()
        work = self._work.task = asyncio.create_task(self._session.agent_loop.converse(tally))
        try:
            return await work
        except Aborted as aborted:
            return _interrupted(aborted.reason, tally)
        except asyncio.CancelledError:
            if own and own.cancelling():
                raise
            # It was stopped between two steps: the model was not asked, or has said all.
            return self._stop_unasked(tally)
        finally:
            self._work.task = None


def _merge(prompts: list[ClientPrompt]) -> ClientPrompt:
    if len(prompts) == 1:
        return prompts[0]
    words = "\n".join(prompt.text for prompt in prompts)
    return ClientPrompt(content=words, uuid=prompts[-1].uuid)


def _interrupted(reason: str, tally: Tally) -> TurnEnding:
    stop = "null" if tally.stop_reason is None else tally.stop_reason
    diagnostic = f"[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={stop}"
    return TurnEnding(
        reason=reason, subtype="error_during_execution", is_error=True, errors=[diagnostic]
    )
