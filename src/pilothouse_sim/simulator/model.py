"""The model's part: replies of a scenario, spoken event by event, with its gates on a stage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.protocol.wire import encode_json
from pilothouse_sim.scenario import (
    ApiError,
    Broken,
    Gate,
    ModelRequest,
    Pause,
    Reply,
    Script,
)
from pilothouse_sim.speech import Event, Ids, speak, spoken

__all__ = ["ApiFailed", "Model", "StreamBroken"]

POLL = 0.01
"""How often a gate looks whether it was opened."""


class ApiFailed(Exception):
    """The API refused the call."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message)
        self.error = error


class StreamBroken(Exception):
    """A reply did not come to its end: the connection broke, or an event could not be read."""

    def __init__(self, *, is_damaged: bool = False) -> None:
        super().__init__(is_damaged)
        self.is_damaged = is_damaged


class Model:
    """Answers requests from a script; `stage` is a folder for gates and a log of requests."""

    def __init__(self, script: Script, stage: Path | None) -> None:
        self.script = script
        self._stage = stage
        self._ids = Ids()

    def go_on(self, replies: int, numbers: tuple[int, int]) -> None:
        """Go on after some replies; `numbers` are the highest ids of messages and tool calls."""
        self.script.skip(replies)
        self._ids = Ids(*numbers)

    async def stream(self, body: dict[str, Any], facts: dict[str, str]) -> AsyncIterator[Event]:
        """The events of the reply to one request."""
        request = msgspec.structs.replace(ModelRequest.parse(body), facts=facts)
        answer = self._answer(request)
        broken = answer if isinstance(answer, Broken) else None
        reply = answer.reply if isinstance(answer, Broken) else answer
        said = speak(reply, model=request.model, ids=self._ids)
        sent = 0
        for event in said:
            if isinstance(event, Gate):
                await self._stand_at(event.name)
            elif isinstance(event, Pause):
                await asyncio.sleep(event.seconds)
            else:
                if broken and sent == broken.after:
                    await self._break(broken)
                yield event
                # A reply is not one burst: whoever waits for the loop gets a turn in between.
                await asyncio.sleep(0)
                sent += 1

    async def whole(self, body: dict[str, Any], facts: dict[str, str]) -> Event:
        """The reply to one request, in one piece."""
        request = msgspec.structs.replace(ModelRequest.parse(body), facts=facts)
        answer = self._answer(request)
        reply = answer.reply if isinstance(answer, Broken) else answer
        for step in reply.steps:
            if isinstance(step, Gate):
                await self._stand_at(step.name)
        return spoken(reply, model=request.model, ids=self._ids)

    def _answer(self, request: ModelRequest) -> Reply | Broken:
        self._log("requests", request.body)
        unscripted = len(self.script.unscripted)
        answer = self.script.next(request)
        if len(self.script.unscripted) > unscripted:
            self._log("unscripted", request.body)
        if isinstance(answer, ApiError):
            raise ApiFailed(answer)
        return answer

    async def _break(self, broken: Broken) -> None:
        match broken.how:
            case "cut":
                raise StreamBroken
            case "stall":
                await self._stand_at(broken.gate)
            case "malformed":
                raise StreamBroken(is_damaged=True)

    async def _stand_at(self, gate: str) -> None:
        if self._stage is None:
            return
        (self._stage / f"{gate}.reached").touch()
        opened = self._stage / f"{gate}.open"
        # Whoever opens the gate is another process.
        while not opened.exists():  # noqa: ASYNC110
            await asyncio.sleep(POLL)

    def _log(self, name: str, body: dict[str, Any]) -> None:
        if self._stage is not None:
            with (self._stage / f"{name}.jsonl").open("ab") as log:
                log.write(encode_json(body) + b"\n")
