"""An engine with one CLI behind it, simulated or real, in a folder of their own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.api.answers import Answer
from pilothouse.api.events import Batch, Event
from pilothouse.api.questions import Question
from pilothouse.api.requests import Say, SessionOptions, Start
from pilothouse.api.statuses import Status
from pilothouse.doors.door import Doors
from pilothouse.doors.http_server import serve
from pilothouse.engine.engine import SessionEngine
from pilothouse.relay.registry import RunningRelay, alive, started_at
from pilothouse.server.cli_choice import CLIChoice
from pilothouse.server.engines import open_with_doors
from pilothouse.server.listen_address import address_of, bind
from pilothouse.settings import Settings, load
from pilothouse_sim.clis import RealCLI, SimulatedCLI
from tests.support.versions import NATIVE, NEWEST
from tests.support.waiting import DEADLINE


class EngineHarness:
    """One engine at a time over one state folder; `open` again after `close` or `crash`."""

    def __init__(self, cli: SimulatedCLI | RealCLI, folder: Path, via: str = "stdio") -> None:
        self.cli = cli
        self.folder = folder
        self.via = via
        self.engine: SessionEngine = None  # type: ignore[assignment]  # `open` sets it
        self.doors: Doors = None  # type: ignore[assignment]  # as above
        self._opened: list[tuple[SessionEngine, AsyncExitStack]] = []

    @property
    def cwd(self) -> Path:
        return self.cli.cwd

    @property
    def is_real(self) -> bool:
        return isinstance(self.cli, RealCLI)

    @property
    def version(self) -> str:
        """The version of the CLI behind it."""
        return NATIVE if self.via == "sdk-url" else NEWEST

    def settings(self, **flags: Any) -> Settings:
        env = {
            "HOME": str(self.folder / "operator"),
            "CLAUDE_CONFIG_DIR": str(self.cli.home / ".claude"),
        }
        return load(env=env, flags=flags)

    async def open(self, **flags: Any) -> SessionEngine:
        """Open the engine on this house's journal."""
        options = self.cli.options()
        settings = self.settings(relays=self.via == "relay", **flags)
        settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings.runtime_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        choice = CLIChoice(
            simulated=not self.is_real,
            cli_path=Path(options.cli_path or ""),
            settings=settings,
            env=dict(options.env),
            journal=settings.state_dir / "journal.db",
        )
        async with AsyncExitStack() as stack:
            listener = stack.enter_context(bind("127.0.0.1", 0))
            dial = address_of(listener, tls=False).replace("http", "ws")
            opening = open_with_doors(choice, dial)
            self.engine, self.doors = await stack.enter_async_context(opening)
            if self.via == "sdk-url":
                await stack.enter_async_context(serve(self.doors, listener))
            self._opened.append((self.engine, stack.pop_all()))
        return self.engine

    async def close(self) -> None:
        """Close the engine that was opened last, as a server does that ends."""
        _, stack = self._opened.pop()
        await stack.aclose()

    async def crashed(self) -> SessionEngine:
        """Another engine, on the journal as a crash of the first one would leave it now."""
        state = self.folder / "crashed"
        state.mkdir()
        await self.engine.journal.post([]).committed
        await self.engine.journal.backup(state / "journal.db")
        return await self.another(state_dir=str(state))

    async def another(self, **flags: Any) -> SessionEngine:
        """One more engine for the same CLI, until the test ends."""
        first, doors = self.engine, self.doors
        other = await self.open(**flags)
        self.engine, self.doors = first, doors
        return other

    async def aclose(self) -> None:
        """End everything: every CLI, and every engine."""
        while self._opened:
            engine, stack = self._opened.pop()
            await engine.stop_all()
            await stack.aclose()

    # What is behind it

    def relays(self) -> list[RunningRelay]:
        """Every relay that lives."""
        folder = self.settings().state_dir / "relays"
        found = [alive(each) for each in folder.iterdir()] if folder.is_dir() else []
        return [each for each in found if each is not None]

    async def written(self, session_id: str, words: str) -> None:
        """Wait until the CLI has written these words to its transcript."""
        projects = self.cli.home / ".claude/projects"
        async with asyncio.timeout(DEADLINE):
            # A file of another process: nothing tells of its change.
            while not any(  # noqa: ASYNC110
                words in each.read_text() for each in projects.glob(f"*/{session_id}.jsonl")
            ):
                await asyncio.sleep(0.01)

    async def gone(self, *pids: int | None) -> None:
        """Wait until none of these processes is left."""
        async with asyncio.timeout(DEADLINE):
            # No children of ours: nothing tells of their end.
            while any(pid is not None and started_at(pid) is not None for pid in pids):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    # What a person does

    async def start(self, prompt: str = "go", *, label: str | None = None, **options: Any) -> str:
        """A session in the CLI's folder; its id."""
        if self.via == "sdk-url":
            options = {"via": "sdk-url", **options}
        wanted = SessionOptions(**options)
        request = Start(prompt=prompt, cwd=str(self.cwd), options=wanted, label=label)
        return (await self.engine.start(request)).session_id

    async def say(self, session_id: str, content: str, **more: Any) -> str:
        return (await self.engine.say(session_id, Say(content=content, **more))).prompt_id

    async def answer(self, session_id: str, answer: Answer) -> Question:
        """Answer the first open question; the question as it was."""
        question = await self.asked(session_id)
        await self.engine.answer(question.id, answer)
        return question

    async def done(self, prompt: str = "go", **options: Any) -> str:
        """A session whose first turn has ended well."""
        session_id = await self.start(prompt, **options)
        await self.until(session_id, "done")
        return session_id

    # What a person sees

    async def until(self, session_id: str, *states: str) -> Status:
        """Wait until the session is in one of these states."""
        return await self.when(session_id, lambda status: status.state in states)

    async def when(self, session_id: str, holds: Callable[[Status], bool]) -> Status:
        """Wait until something holds of the session's status."""
        async with asyncio.timeout(DEADLINE), aclosing(self._changes(session_id)) as changes:
            async for status in changes:
                if holds(status):
                    return status
        raise AssertionError("the events ended")

    async def until_written(self, session_id: str, words: str) -> None:
        """Wait until the model has begun to write these words."""
        watched = self.engine.watch(0, session_id=session_id)
        async with asyncio.timeout(DEADLINE), aclosing(watched) as batches:
            async for batch in batches:
                pieces = [bytes(each.body) for each in batch.events if each.kind == "partial"]
                if any(words.encode() in piece for piece in pieces):
                    return

    async def _changes(self, session_id: str) -> AsyncGenerator[Status]:
        after = (await self.engine.health()).cursor
        yield await self.engine.status(session_id)
        async with aclosing(self.engine.watch(after)) as batches:
            async for _ in batches:
                yield await self.engine.status(session_id)

    async def asked(self, session_id: str, *, number: int = 1) -> Question:
        """Wait for the `number`th open question."""
        status = await self.when(session_id, lambda status: len(opened(status)) >= number)
        return opened(status)[number - 1]

    async def connected(self, session_id: str, server: str) -> None:
        """Wait until the CLI has its MCP server up: newer ones start without waiting for it."""
        async with asyncio.timeout(DEADLINE):
            while True:
                servers = await self.engine.mcp_status(session_id)
                if ("connected", server) in [(each["status"], each["name"]) for each in servers]:
                    return
                await asyncio.sleep(0.05)

    async def events(self, session_id: str | None = None) -> list[Event]:
        """Everything in the journal so far. A status is told before all of it is committed."""
        await self.engine.journal.post([]).committed
        found: list[Event] = []
        cursor = 0
        while True:
            batch: Batch = await self.engine.read(cursor, session_id=session_id)
            if not batch.events:
                return found
            found += batch.events
            cursor = batch.cursor

    async def records(self, session_id: str, kind: str) -> list[dict[str, Any]]:
        """The bodies of the entries of one kind."""
        events = await self.events(session_id)
        return [msgspec.json.decode(bytes(each.body)) for each in events if each.kind == kind]

    def told(self) -> list[str]:
        """The results of tools that the model has read, as of its last request."""
        messages = self.cli.requests[-1].body["messages"]
        blocks = [
            block
            for message in messages
            if isinstance(message["content"], list)
            for block in message["content"]
        ]
        return [_text(each["content"]) for each in blocks if each["type"] == "tool_result"]

    def heard(self) -> str:
        """All of what the model was sent with its last request."""
        return json.dumps(self.cli.requests[-1].body["messages"], ensure_ascii=False)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(each["text"] for each in content)


def opened(status: Status) -> list[Question]:
    return [each for each in status.questions if each.state == "open"]


OpenEngine = Callable[..., Awaitable[EngineHarness]]


@asynccontextmanager
async def harnesses(maker: Any, folder: Path, via: str) -> AsyncIterator[OpenEngine]:
    houses: list[EngineHarness] = []

    async def make(
        *told: Any, branches: Any = None, strict: bool = True, **flags: Any
    ) -> EngineHarness:
        cli = maker(*told, branches=branches, strict=strict)
        made = EngineHarness(cli, folder / str(len(houses)), via)
        await made.open(**flags)
        houses.append(made)
        return made

    try:
        yield make
    finally:
        for each in houses:
            await each.aclose()


async def run_bare_cli(it: EngineHarness, prompt: str) -> str:
    """`claude -p` as a person would run it; the id of its session."""
    process = await asyncio.create_subprocess_exec(
        it.cli.path,
        *("-p", prompt, "--output-format", "json"),
        cwd=it.cwd,
        env=it.cli.environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(DEADLINE):
        told, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(told)["session_id"]
