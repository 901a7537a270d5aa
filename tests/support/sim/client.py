"""A client of the simulator in the same process: it keeps every line and answers requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.scenario import AnyReply, Scenario, Script
from pilothouse_sim.simulator.flags import parse
from pilothouse_sim.simulator.model import Model
from pilothouse_sim.simulator.process import run
from pilothouse_sim.simulator.wire_ends import WireListener
from tests.support.waiting import DEADLINE

Message = dict[str, Any]
Answers = dict[str, Callable[[Message], Any]]
"""What to say to requests, by subtype; None leaves one open, an Exception refuses it."""

FLAGS = (
    "-p",
    "--output-format=stream-json",
    "--input-format=stream-json",
    "--verbose",
    "--permission-prompt-tool=stdio",
)


class SimClient:
    """The client's end of the wire."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.lines: list[Message] = []
        self._changed = asyncio.Condition()
        self._listener: WireListener | None = None
        self._started = asyncio.Event()
        self._waking: set[asyncio.Task[None]] = set()
        self._sent = 0

    # What the simulator does with it

    async def start(self, listener: WireListener) -> None:
        self._listener = listener
        self._started.set()

    def write(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        for line in data.splitlines():
            message: Message = json.loads(line)
            self.lines.append(message)
            if message["type"] == "control_request":
                loop.call_soon(self._serve, message)
        task = loop.create_task(self._wake())
        self._waking.add(task)
        task.add_done_callback(self._waking.discard)

    async def aclose(self) -> None:
        pass

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _serve(self, message: Message) -> None:
        request = message["request"]
        answer = self.answers.get(request["subtype"], lambda _: None)(request)
        if isinstance(answer, Exception):
            self.respond(message, {"subtype": "error", "error": str(answer)})
        elif answer is not None:
            self.respond(message, {"subtype": "success", "response": answer})

    # What a test does with it

    def respond(self, message: Message, body: Message) -> None:
        """Answers a request."""
        named = {**body, "request_id": message["request_id"]}
        self.send({"type": "control_response", "response": named})

    def send(self, message: Message) -> None:
        """Writes a line to the simulator."""
        assert self._listener is not None
        self._listener.data_received(json.dumps(message).encode() + b"\n")

    def send_all(self, *messages: Message) -> None:
        """Writes several lines in one piece."""
        assert self._listener is not None
        self._listener.data_received(
            b"".join(json.dumps(each).encode() + b"\n" for each in messages)
        )

    async def until(self, wanted: Callable[[Message], bool]) -> Message:
        """The first line that is wanted, now or later."""
        async with asyncio.timeout(DEADLINE), self._changed:
            while True:
                for line in self.lines:
                    if wanted(line):
                        return line
                await self._changed.wait()

    async def control(self, subtype: str, **fields: Any) -> Message:
        """Sends a control request and returns the body of the response."""
        self._sent += 1
        own = f"request-{self._sent}"
        request = {"subtype": subtype, **fields}
        self.send({"type": "control_request", "request_id": own, "request": request})
        found = await self.until(
            lambda line: (
                line["type"] == "control_response" and line["response"]["request_id"] == own
            )
        )
        return found["response"]

    async def ask(self, words: str, **extra: Any) -> Message:
        """Sends a prompt and returns the result of its turn."""
        before = sum(line["type"] == "result" for line in self.lines)
        self.send({"type": "user", "message": {"role": "user", "content": words}, **extra})
        await self.until(lambda _: sum(line["type"] == "result" for line in self.lines) > before)
        return [line for line in self.lines if line["type"] == "result"][-1]

    def requests(self, subtype: str) -> list[Message]:
        """The simulator's requests of this kind."""
        return [
            line["request"]
            for line in self.lines
            if line["type"] == "control_request" and line["request"]["subtype"] == subtype
        ]

    def hooks(self) -> list[str]:
        """The events whose hooks were called, in order."""
        calls = self.requests("hook_callback")
        return [request["input"]["hook_event_name"] for request in calls]

    def results(self) -> list[Any]:
        """What the model was told of its calls."""
        return [
            block["content"]
            for line in self.lines
            if line["type"] == "user"
            for block in line["message"]["content"]
            if isinstance(block, dict) and block["type"] == "tool_result"
        ]

    def kinds(self) -> list[str]:
        """Type and subtype of every line."""
        return ["/".join(filter(None, (line["type"], line.get("subtype")))) for line in self.lines]

    async def begun(self) -> None:
        """Waits until the simulator reads."""
        await self._started.wait()

    def leave(self) -> None:
        """Closes the simulator's input."""
        assert self._listener is not None
        self._listener.eof_received()


@asynccontextmanager
async def sim_client(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    *replies: AnyReply,
    flags: tuple[str, ...] = (),
    answers: Answers | None = None,
) -> AsyncIterator[SimClient]:
    """A simulator that plays these replies in a home of its own, and its client."""
    cwd = place / "project"
    cwd.mkdir()
    monkeypatch.chdir(cwd)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(place / ".claude"))
    client = SimClient(answers or {})
    model = Model(Script(Scenario(replies=list(replies))), None)
    running = asyncio.create_task(run(parse([*FLAGS, *flags]), client, model))
    try:
        async with asyncio.timeout(DEADLINE):
            await client.begun()
        yield client
    finally:
        client.leave()
        async with asyncio.timeout(DEADLINE):
            await running
