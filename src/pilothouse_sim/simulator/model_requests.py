"""Requests to the model: what they hold, and those that stand beside the conversation."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pilothouse_sim.scenario import ModelRequest
from pilothouse_sim.simulator.model import ApiFailed, StreamBroken
from pilothouse_sim.simulator.prompts import as_sent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pilothouse_sim.simulator.conversation import ModelConversation
    from pilothouse_sim.simulator.model import Model
    from pilothouse_sim.simulator.plans import Plans
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.toolbox import Toolbox

__all__ = ["ModelRequests"]


class ModelRequests:
    """Asks the model in the session's name."""

    def __init__(self, state: SessionState, model: Model, toolbox: Toolbox, plans: Plans) -> None:
        self._state = state
        self._model = model
        self._toolbox = toolbox
        self._plans = plans

    def body(self, conversation: ModelConversation) -> dict[str, Any]:
        """The request as the Messages API would get it, as far as scenarios look at it."""
        return {
            "model": conversation.model,
            "system": conversation.system,
            "messages": as_sent(conversation.messages),
            "tools": [{"name": name} for name in conversation.offered(self._toolbox.names())],
            "max_tokens": 32000,
            "stream": True,
        }

    def stream(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """The events of the reply to a request."""
        return self._model.stream(body, self._scene_facts())

    async def whole(self, body: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request, in one piece."""
        return await self._model.whole(body | {"stream": False}, self._scene_facts())

    async def ask_aside(self, body: dict[str, Any], *, counts: bool = True) -> str | None:
        """Ask something beside the conversation: the model's words, or None if it refuses."""
        began = time.monotonic()
        words, usage = "", dict[str, Any]()
        try:
            async for event in self.stream(body):
                words += _said(event)
                usage |= event.get("message", {}).get("usage", {}) | event.get("usage", {})
        except (ApiFailed, StreamBroken):
            return None
        if counts:
            self._state.ledger.add(ModelRequest.parse(body).model, usage)
            self._state.ledger.api_ms += int((time.monotonic() - began) * 1000)
        return words

    def _scene_facts(self) -> dict[str, str]:
        """What a scenario may refer to by name."""
        return {
            "cwd": str(self._state.cwd),
            "home": str(self._state.home),
            "config_dir": str(self._state.config_dir),
            "plan_file": str(self._plans.path),
        }


def _said(event: dict[str, Any]) -> str:
    delta = event.get("delta", {})
    return delta.get("text", "") if event["type"] == "content_block_delta" else ""
