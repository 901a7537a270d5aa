"""CLIs that outlive the engine: how a session lets go of one, and takes it up again."""

from __future__ import annotations

import asyncio
from abc import ABC
from typing import Final

from pilothouse.api.records import PromptSent
from pilothouse.client.bypass import BYPASS
from pilothouse.client.client import Client, Past
from pilothouse.errors import ControlError, ControlTimeout, SessionEnded

from .ask_handler import AskHandler
from .client_restore import recall
from .life import Life
from .questions.posing import question_id
from .run_ledger import INPUT_CLOSED

__all__ = ["Outliving"]

START_WITHIN_S: Final = 10.0
"""As long a start may take that is under way when the engine ends."""


class Outliving(Life, ABC):
    """A life that may go on behind a relay while no engine runs."""

    async def leave(self) -> bool:
        """Let go of a CLI that goes on without us; False: there is none such."""
        if self._starting is not None:
            await asyncio.wait([self._starting], timeout=START_WITHIN_S)
        while await self.gone():
            continue
        client = self._client
        if client is None or self._starting is not None or not self._route.outlives_us:
            return False
        self._stop_idle_timer()
        if self._asks is not None:
            self._asks.leave()
        self._route.leave()
        await client.detach()
        self._client = self._asks = None
        for writer in self._writers.values():
            writer.leave()
        self._writers.clear()
        self._services.slots.free(self.session_id)
        return True

    async def take_up(self) -> bool:
        """Go on with a CLI that outlived the engine before this one; False: it has ended."""
        view, services = self.view, self._services
        row = await services.journal.run(view.run)
        route = services.routes.find(view, row, self)
        if route is None:
            return False
        self._route = route
        self._ended = asyncio.Event()
        for each in dict.fromkeys([self.session_id, view.claude_session_id]):
            self._writers[each] = services.writers.take_up(each)
        services.slots.hold(self.session_id, self)
        past = await recall(services.journal, view, row.refs)
        self._asks = self.new_ask_handler(asked_before=services.journal.question)
        self._mend_withdrawn(self._asks, past)
        self._client = client = self._new_client(self._asks, {})
        await client.attach(past)
        self._mend_sent(row.refs)
        if INPUT_CLOSED in row.refs:
            # The engine before this one was closing it. It hears nothing more.
            self._closing = services.tasks.spawn(self._close("closed", decidable=False))
        elif route.takes_input:
            services.tasks.spawn(self._go_on(client))
        return True

    async def _go_on(self, client: Client) -> None:
        if self.view.mode == BYPASS and not self._services.gate.allowed:
            await self._end_bypass(client)
        await self.send_queued(client)
        self._follow_idleness()

    async def _end_bypass(self, client: Client) -> None:
        """It was allowed when the CLI was started, and is not any more."""
        try:
            await client.set_permission_mode("default")
        except (ControlError, ControlTimeout):
            await self.close("it bypassed permissions, which is no longer allowed", decidable=True)
        except SessionEnded:
            return

    def _mend_withdrawn(self, asks: AskHandler, past: Past) -> None:
        """Make up for what was cut off between the CLI's taking back and the record of it."""
        asked = {question_id(self.session_id, each.request_id) for each in past.asked}
        for question in self.view.own_questions:
            if question.id not in asked:
                asks.withdraw(question.id)

    def _mend_sent(self, sent: frozenset[str]) -> None:
        """Make up for what was cut off between a message and the record that it was sent."""
        for prompt in self.view.queued.values():
            if prompt.id in sent and not prompt.sent:
                self.write(PromptSent(id=prompt.id))
            elif prompt.sent and prompt.id not in sent:
                prompt.sent = False
