"""Drives one CLI over its pipes, line by line, with nothing of the client in between."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pilothouse_sim.real_cli import environment
from pilothouse_sim.scripted_model import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pilothouse_sim.scenario import Scenario

Message = dict[str, Any]
Answers = dict[str, Callable[[Message], Message | None]]
"""What to say to the CLI's requests, by subtype; None leaves a request open."""

ARGUMENTS = (
    "-p",
    "--output-format=stream-json",
    "--input-format=stream-json",
    "--verbose",
    "--permission-prompt-tool=stdio",
)


class RawProcess:
    """A process that speaks the wire over its pipes; every line it writes is kept."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        cwd: Path,
        env: dict[str, str],
        answers: Answers | None = None,
    ) -> None:
        self.command = command
        self.cwd = cwd
        self.env = env
        self.answers = answers or {}
        self.raw: list[str] = []
        self.seen: list[Message] = []
        self.stderr = ""
        self._new = asyncio.Condition()
        self._ended = False
        self._mark = 0
        self._held: list[bytes] | None = None

    async def start(self) -> None:
        """Starts the process, in a session of its own, and begins to read."""
        self.process = await asyncio.create_subprocess_exec(
            *self.command,
            cwd=self.cwd,
            env=self.env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=1 << 26,
            start_new_session=True,
        )
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._read_stderr())]

    async def end(self, grace: float = 8) -> int:
        """Closes stdin, waits for the end, kills what does not end; the exit code."""
        self.close_stdin()
        try:
            async with asyncio.timeout(grace):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
        code = await self.process.wait()
        await asyncio.wait(self._tasks, timeout=2)
        for task in self._tasks:
            task.cancel()
        return code

    def close_stdin(self) -> None:
        """Ends the CLI's input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def send(self, message: Message) -> None:
        """Writes one line."""
        self.send_raw(json.dumps(message) + "\n")

    def send_raw(self, line: str) -> None:
        """Writes text as it is."""
        self.send_bytes(line.encode())

    def send_bytes(self, data: bytes) -> None:
        """Writes bytes as they are."""
        assert self.process.stdin is not None
        if self._held is None:
            self.process.stdin.write(data)
        else:
            self._held.append(data)

    @contextmanager
    def in_one_write(self) -> Iterator[None]:
        """Writes what is sent inside in one piece, so that the CLI reads it together."""
        held = self._held = list[bytes]()
        yield
        self._held = None
        self.send_bytes(b"".join(held))

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
            message = _decode(line.decode(errors="replace"))
            async with self._new:
                self.raw.append(line.decode(errors="replace"))
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


class RawCli(RawProcess):
    """A CLI in a home of its own, fed by a scripted model."""

    def __init__(
        self,
        binary: Path,
        scenario: Scenario,
        *arguments: str,
        env: dict[str, str] | None = None,
        answers: Answers | None = None,
        prepare: Callable[[Path], None] | None = None,
    ) -> None:
        super().__init__((), cwd=Path(), env=env or {}, answers=answers)
        self.binary = binary
        self.model = ScriptedModel(scenario)
        self.arguments = arguments
        self.prepare = prepare

    async def __aenter__(self) -> Self:
        self.root = Path(tempfile.mkdtemp(prefix="pilothouse-rec-"))
        self.home = self.root / "dev"
        self.cwd = self.home / "project"
        self.cwd.mkdir(parents=True)
        if self.prepare:
            self.prepare(self.cwd)
        await self.model.__aenter__()
        self.command = (self.binary, *ARGUMENTS, *self.arguments)
        self.env = environment(self.home, self.model.url, **self.env)
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()
        await self.model.aclose()
        shutil.rmtree(self.root, ignore_errors=True)


def allow(request: Message) -> Message:
    """Lets a tool run as it was asked for."""
    return {"behavior": "allow", "updatedInput": request["input"]}


def deny(request: Message) -> Message:
    """Refuses a tool."""
    return {"behavior": "deny", "message": f"No {request['tool_name']} today."}


def _decode(line: str) -> Message:
    """A line as a message; what is no JSON object becomes one of the type `text` or `list`."""
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    if isinstance(message, list):
        return {"type": "list", "messages": message}
    return message if isinstance(message, dict) else {"type": "text", "text": line}
