"""Drives one real CLI over its pipes, line by line, with nothing of the client in between."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pilothouse.testing.real_cli import environment
from pilothouse.testing.scripted_model import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.testing.scenario import Scenario

Message = dict[str, Any]

ARGUMENTS = (
    "-p",
    "--output-format=stream-json",
    "--input-format=stream-json",
    "--verbose",
    "--permission-prompt-tool=stdio",
)


class RawCli:
    """A CLI in a home of its own, fed by a scripted model; every line it writes is kept."""

    def __init__(
        self,
        binary: Path,
        scenario: Scenario,
        *arguments: str,
        env: dict[str, str] | None = None,
        answers: dict[str, Callable[[Message], Message | None]] | None = None,
        prepare: Callable[[Path], None] | None = None,
    ) -> None:
        self.binary = binary
        self.model = ScriptedModel(scenario)
        self.arguments = arguments
        self.env = env or {}
        self.answers = answers or {}
        self.prepare = prepare
        self.raw: list[str] = []
        self.seen: list[Message] = []
        self.stderr = ""
        self._new = asyncio.Condition()
        self._ended = False
        self._mark = 0

    async def __aenter__(self) -> Self:
        self.root = Path(tempfile.mkdtemp(prefix="pilothouse-rec-"))
        self.home = self.root / "dev"
        self.cwd = self.home / "project"
        self.cwd.mkdir(parents=True)
        if self.prepare:
            self.prepare(self.cwd)
        await self.model.__aenter__()
        self.process = await asyncio.create_subprocess_exec(
            self.binary,
            *ARGUMENTS,
            *self.arguments,
            cwd=self.cwd,
            env=environment(self.home, self.model.url, **self.env),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=1 << 26,
            start_new_session=True,
        )
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._read_stderr())]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close_stdin()
        try:
            async with asyncio.timeout(8):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        await asyncio.wait(self._tasks, timeout=2)
        for task in self._tasks:
            task.cancel()
        await self.model.aclose()
        shutil.rmtree(self.root, ignore_errors=True)

    def close_stdin(self) -> None:
        """Ends the CLI's input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def send(self, message: Message) -> None:
        """Writes one line."""
        self.send_raw(json.dumps(message) + "\n")

    def send_raw(self, line: str) -> None:
        """Writes text as it is."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode())

    def prompt(self, words: str, own: str | None = None, **extra: Any) -> str:
        """Sends a user message and returns its uuid."""
        own = own or str(uuid.uuid4())
        message = {"role": "user", "content": words}
        self.send({"type": "user", "message": message, "uuid": own, "session_id": "", **extra})
        return own

    async def control(self, subtype: str, *, wait: float = 10, **fields: Any) -> Message | None:
        """Sends a control request and returns the response, or None when none came."""
        own = f"req-{subtype}-{len(self.raw)}"
        request = {"subtype": subtype, **fields}
        self.send({"type": "control_request", "request_id": own, "request": request})

        def answered(line: Message) -> bool:
            return line["type"] == "control_response" and line["response"].get("request_id") == own

        return await self.until(answered, wait=wait, start=0)

    async def until(
        self, wanted: Callable[[Message], bool], *, wait: float = 20, start: int | None = None
    ) -> Message | None:
        """The next line, after the ones already waited for, that is wanted."""
        at = self._mark if start is None else start
        try:
            async with asyncio.timeout(wait), self._new:
                while True:
                    for position in range(at, len(self.seen)):
                        if wanted(self.seen[position]):
                            if start is None:
                                self._mark = position + 1
                            return self.seen[position]
                    at = len(self.seen)
                    if self._ended:
                        return None
                    await self._new.wait()
        except TimeoutError:
            return None

    async def result(self, wait: float = 20) -> Message | None:
        """The next result."""
        return await self.until(lambda line: line["type"] == "result", wait=wait)

    def respond(self, request_id: str, response: Message | None) -> None:
        """Answers a request of the CLI."""
        body = {"subtype": "success", "request_id": request_id, "response": response}
        self.send({"type": "control_response", "response": body})

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            message = json.loads(line)
            async with self._new:
                self.raw.append(line.decode())
                self.seen.append(message)
                self._new.notify_all()
            if message["type"] == "control_request":
                self._serve(message)
        async with self._new:
            self._ended = True
            self._new.notify_all()

    def _serve(self, message: Message) -> None:
        request = message["request"]
        answer = self.answers.get(request["subtype"])
        response = answer(request) if answer else None
        if response is not None:
            self.respond(message["request_id"], response)

    async def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        self.stderr = (await self.process.stderr.read()).decode(errors="replace")


def allow(request: Message) -> Message:
    """Lets a tool run as it was asked for."""
    return {"behavior": "allow", "updatedInput": request["input"]}


def deny(request: Message) -> Message:
    """Refuses a tool."""
    return {"behavior": "deny", "message": f"No {request['tool_name']} today."}
