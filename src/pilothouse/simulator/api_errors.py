"""Calls the model, tries again what the API refuses for now, and reports what it refuses for good."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any

from pilothouse.simulator.endings import Aborted, Ending
from pilothouse.simulator.model import ApiFailed, StreamCut
from pilothouse.simulator.outlet import new_id
from pilothouse.simulator.speaker import Speaker, Spoken

if TYPE_CHECKING:
    from pilothouse.simulator.talk import Talk
    from pilothouse.simulator.tally import Tally
    from pilothouse.testing.scenario import ApiError

__all__ = ["Caller", "class_of", "synthetic"]

MAX_RETRIES = 10
BASE_DELAY = 0.5
MAX_DELAY = 32.0

_CLASSES = {
    400: "invalid_request",
    401: "authentication_failed",
    403: "authentication_failed",
    404: "model_not_found",
    429: "rate_limit",
    529: "overloaded",
}


class Caller:
    """One call of the model, with its retries."""

    def __init__(self, talk: Talk, tally: Tally) -> None:
        self._talk = talk
        self._tally = tally
        self._session = talk.session
        self._attempts = 0
        self._model = talk.session.request_model()

    async def call(self) -> Spoken | Ending:
        """What the model said, or how the turn ends because it said nothing."""
        self._announce()
        while True:
            began = time.monotonic()
            speaker = Speaker(self._talk, self._tally)
            try:
                return await self._attempt(speaker)
            except ApiFailed as failure:
                if not _is_passing(failure.error) or self._attempts >= self._max_retries:
                    return self._give_up(failure.error)
                status, kind = failure.error.status, class_of(failure.error.status)
            except StreamCut:
                speaker.abandon()
                self._count(speaker.spoken)
                status, kind = None, "unknown"
            finally:
                self._session.ledger.api_ms += int((time.monotonic() - began) * 1000)
            await self._wait(status, kind)

    async def _attempt(self, speaker: Speaker) -> Spoken:
        events = self._session.model.stream(self._talk.body(), self._session.scene_facts())
        try:
            spoken = await speaker.pass_on(events)
        except asyncio.CancelledError:
            self._talk.echo_prompts()
            speaker.break_off()
            self._tally.user_lines += 1
            raise Aborted("aborted_streaming") from None
        self._count(spoken)
        return spoken

    def _announce(self) -> None:
        if self._talk.partial:
            uuids = self._tally.uuids
            names = {"user_message_uuids": list(uuids)} if uuids else {}
            self._session.outlet.system("status", status="requesting", **names)

    def _count(self, spoken: Spoken) -> None:
        self._session.ledger.add(self._model, spoken.usage)
        self._tally.spent.add(spoken.usage)
        self._tally.last_usage = spoken.usage
        if self._tally.first_usage is None:
            self._tally.first_usage = spoken.usage

    @property
    def _max_retries(self) -> int:
        return int(self._session.environment.get("CLAUDE_CODE_MAX_RETRIES", MAX_RETRIES))

    async def _wait(self, status: int | None, kind: str) -> None:
        self._attempts += 1
        delay = min(BASE_DELAY * 2 ** (self._attempts - 1), MAX_DELAY) * random.uniform(1, 1.25)
        self._session.outlet.system(
            "api_retry",
            attempt=self._attempts,
            max_retries=self._max_retries,
            retry_delay_ms=int(delay * 1000),
            error_status=status,
            error=kind,
        )
        await asyncio.sleep(delay)

    def _give_up(self, error: ApiError) -> Ending:
        words = f"API Error: {error.status} {error.message}"
        self._talk.write_assistant(
            synthetic(words),
            self._tally,
            error=class_of(error.status),
            is_api_error_message=True,
            api_error_status=error.status,
        )
        self._tally.last_text = words
        self._tally.stop_reason = "stop_sequence"
        extra = {"api_error_status": error.status, "api_error_type": error.error_type}
        return Ending(reason="api_error", is_error=True, extra=extra)


def _is_passing(error: ApiError) -> bool:
    return error.status in (401, 408, 409, 429) or error.status >= 500


def class_of(status: int) -> str:
    """The kind of error that a status stands for."""
    return _CLASSES.get(status, "server_error" if status >= 500 else "unknown")


def synthetic(words: str) -> dict[str, Any]:
    usage = {
        "output_tokens_details": None,
        "input_tokens": 0,
        "output_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": None,
        "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
        "inference_geo": None,
        "iterations": None,
        "speed": None,
        "fallback_credit": None,
    }
    return {
        "diagnostics": None,
        "id": new_id(),
        "container": None,
        "model": "<synthetic>",
        "role": "assistant",
        "stop_details": None,
        "stop_reason": "stop_sequence",
        "stop_sequence": "",
        "type": "message",
        "usage": usage,
        "content": [{"type": "text", "text": words}],
        "context_management": None,
    }
