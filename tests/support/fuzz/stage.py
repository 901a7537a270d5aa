"""An engine with a journal on disk, hostile CLIs in memory, one honest CLI, and all who read."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from mcp import Client as MCPClient
from mcp.shared.exceptions import MCPError
from msgspec import to_builtins

from pilothouse.api.answers import Allow, Decline, Deny, Skip
from pilothouse.api.events import Event
from pilothouse.api.questions import Question
from pilothouse.api.requests import Start
from pilothouse.client.client import Client, Sink
from pilothouse.client.options import Options
from pilothouse.engine.engine import SessionEngine
from pilothouse.errors import PilothouseError
from pilothouse.journal.contract import Journal
from pilothouse.journal.sqlite import SqliteJournal
from pilothouse.settings import load
from tests.support.fuzz.findings import Failure, Findings, failure_of
from tests.support.fuzz.hostile_cli import EXCEPTION, HostileCLI
from tests.support.fuzz.mutation import as_read, is_blank
from tests.support.fuzz.reading import Reader, Told
from tests.support.http.serving import TOKEN, calling, make_app, served
from tests.support.mcp.harness import McpHarness
from tests.support.waiting import DEADLINE

CROWD = 4
"""Hostile sessions at once."""
ERAS = ("legacy", "2026-07-28")
ANSWERED = 25
ASTRAY = "pilothouse-astray*"


class FuzzStage:
    """One engine at a time over one journal."""

    def __init__(self, folder: Path, findings: Findings) -> None:
        self.folder = folder
        self.findings = findings
        self.engine: SessionEngine
        self.clis: dict[str, HostileCLI] = {}
        self._answers: tuple[bytes, ...] = ()

    async def open(self, journal: Path | None = None) -> None:
        home = self.folder / "home"
        env = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude")}
        # Pieces of messages stay, so that every line can be asked for.
        settings = load(env=env, flags={"partials": False, "retention_days": 0})
        self.engine = await SessionEngine.open(
            settings,
            journal=await SqliteJournal.open(journal or self.folder / "journal/journal.db"),
            make_client=self._client,
            simulated=True,
        )

    def _client(self, options: Options, *, sink: Sink, **_: Any) -> Client:
        cli = HostileCLI(*self._answers)
        self.clis[getattr(sink, "session_id", "")] = cli
        return Client(options, transport=cli.transport, sink=sink)

    async def start(self, *answers: bytes) -> str:
        """A session whose CLI has taken the first message; what it answers, and how it greets."""
        self._answers = answers
        (self.folder / "work").mkdir(exist_ok=True)
        request = Start(prompt="go", cwd=str(self.folder / "work"))
        session_id = (await self.engine.start(request)).session_id
        await self.until(lambda: session_id in self.clis)
        prompt = await asyncio.wait_for(self.clis[session_id].prompts.get(), DEADLINE)
        self.clis[session_id].tell(
            _line("system", subtype="init", session_id=session_id, model="big"),
            _line("user", uuid=prompt.uuid, isReplay=True, message={"content": "go"}),
        )
        return session_id

    async def until(self, holds: Any) -> None:
        async with asyncio.timeout(DEADLINE):
            while not holds():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0)

    async def settle(self) -> None:
        """Wait until what was written is committed and what was asked is posed."""
        for _ in range(3):
            for _ in range(8):
                await asyncio.sleep(0)
            with self.findings.watching():
                await asyncio.wait_for(self.engine.journal.post([]).committed, DEADLINE)

    async def close(self) -> None:
        async with asyncio.timeout(DEADLINE):
            await self.engine.aclose()

    # What callers do

    async def answer_all(self, session_ids: Sequence[str]) -> None:
        """Somebody answers what the hostile ask, and each of them hears something."""
        asked = [
            each
            for session_id in session_ids
            for each in await self.engine.questions(session_id=session_id)
        ]
        for number, question in enumerate(asked[:ANSWERED]):
            with self.findings.watching(), suppress(PilothouseError):
                await self.engine.answer(question.id, _fitting(question, number))
        await self.settle()

    async def read(self) -> Told:
        """All there is, over HTTP and over MCP in both eras."""
        async with self._reader() as reader:
            told = await reader.everything()
        for era in ERAS:
            await self._read_by_mcp(era)
        return told

    async def ask(self, session_ids: list[str]) -> None:
        """What CLIs that live are asked for whoever reads."""
        async with self._reader() as reader:
            await reader.ask(session_ids)

    @asynccontextmanager
    async def _reader(self) -> AsyncIterator[Reader]:
        app = make_app(self.engine)
        async with served(app) as address:
            reader = Reader(address, TOKEN, self.findings, calling=calling(app))
            try:
                yield reader
            finally:
                await reader.aclose()

    async def _read_by_mcp(self, era: str) -> None:
        house: Any = SimpleNamespace(engine=self.engine, cwd=self.folder / "work")
        desk = McpHarness(house)
        try:
            async with desk.client(era) as caller:
                sessions = await self.engine.journal.sessions()
                await read_by_mcp(caller.client, self.findings, sessions)
        except MCPError as error:
            self.findings.note(Failure(f"MCP, {era}: {error}"))
        finally:
            await desk.aclose()

    # What must hold

    async def check_kept(self) -> None:
        """Every line is in the journal, byte for byte and in its order."""
        for session_id, cli in self.clis.items():
            wanted = [as_read(line) for line in cli.wrote if not is_blank(line)]
            found = await kept_lines(self.engine.journal, session_id)
            for line, kept in zip(wanted, found, strict=False):
                if line != kept:
                    self.findings.note(Failure("not kept byte for byte", ascii(kept)[:300]), [line])
                    break
            else:
                if len(wanted) != len(found):
                    why = f"{len(found)} of {len(wanted)} lines are kept"
                    self.findings.note(Failure("not every line is kept", why))

    def check_heard(self) -> None:
        """What CLIs were sent is JSON, and tells of no exception."""
        for cli in self.clis.values():
            with self.findings.watching():
                for answer in cli.answers:
                    error = str(answer.get("error") or answer.get("response", {}).get("message"))
                    if re.search(EXCEPTION, error) or "handler failed" in error:
                        self.findings.note(Failure("a CLI hears of an exception", error[:200]))

    def check_files(self) -> None:
        """No file is anywhere but where it belongs."""
        known = ("journal/", "home/.claude/.pilothouse/writers/", "home/.local/state/", "copy/")
        for path in [each for each in self.folder.rglob("*") if each.is_file()]:
            name = str(path.relative_to(self.folder))
            if not name.startswith(known):
                self.findings.note(Failure("a file astray", f"{name!r}"))
        for path in [*Path("/tmp").glob(ASTRAY), *self.folder.parent.glob("*.lock")]:
            path.unlink()
            self.findings.note(Failure("a file astray", f"{path}"))


async def kept_lines(journal: Journal, session_id: str) -> list[bytes]:
    """The lines of a session's CLI, as the journal has them."""
    found: list[bytes] = []
    after = 0
    while True:
        batch = await journal.read(after, session_id=session_id)
        found += [kept_bytes(each) for each in batch.events if each.kind in LINES]
        if batch.cursor == after or not batch.events:
            return found
        after = batch.cursor


LINES = ("cli", "partial", "noise")


def kept_bytes(event: Event) -> bytes:
    """The line that an entry keeps: noise as a JSON string, and apart what that cannot carry."""
    raw = getattr(event, "raw", None)
    if raw is not None:
        return raw
    body = bytes(event.body)
    return json.loads(body).encode() if event.kind == "noise" else body


async def read_by_mcp(client: MCPClient, findings: Findings, session_ids: list[str]) -> None:
    """Every tool that only tells, and every resource."""
    for tool, arguments in [
        ("claude_list", {}),
        *(("claude_status", {"sessionId": each}) for each in session_ids),
        *(("claude_status", {"sessionId": each, "after": 0}) for each in session_ids),
    ]:
        with findings.watching():
            result = await client.call_tool(tool, arguments)
            told = result.model_dump_json(by_alias=True)
            if result.is_error:
                findings.note(Failure(f"MCP: {tool} fails", told[:300]))
    with findings.watching():
        listed = await client.list_resources()
        listed.model_dump_json(by_alias=True)
        for each in listed.resources:
            await _read_resource(client, findings, str(each.uri))


async def _read_resource(client: MCPClient, findings: Findings, uri: str) -> None:
    for _ in range(20):
        try:
            contents: Any = (await client.read_resource(uri)).contents
            contents[0].model_dump_json()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
            kind = "transcript" if "/transcript" in uri else "resource"
            findings.note(Failure(f"MCP: {kind}: {failure_of(error).where}", ascii(error)[:300]))
            return
        before = re.search(r"_What came before: (\S+)_", contents[0].text)
        if before is None:
            return
        uri = before[1]


def _fitting(question: Question, number: int) -> Any:
    match question.kind:
        case "elicitation":
            return Decline()
        case "questions":
            return Skip()
        case _:
            return Allow() if number % 2 else Deny(reason="no")


def _line(kind: str, **members: Any) -> bytes:
    return json.dumps({"type": kind, **members}).encode()


class _Logged(logging.Handler):
    """Notes every exception that is logged."""

    def __init__(self, findings: Findings) -> None:
        super().__init__(logging.WARNING)
        self._findings = findings

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            self._findings.note(failure_of(error))
        elif record.levelno >= logging.ERROR:
            self._findings.note(Failure(f"logged: {record.msg}", record.getMessage()[:300]))


@asynccontextmanager
async def fuzz_staged(folder: Path, findings: Findings) -> AsyncIterator[FuzzStage]:
    """An open stage; what is logged or left to the loop is found, too."""
    stage = FuzzStage(folder, findings)
    logged = _Logged(findings)
    logs = [logging.getLogger(name) for name in ("pilothouse", "uvicorn", "mcp")]
    for log in logs:
        log.addHandler(logged)
        # Many a line is worth a warning, and nobody wants to read them all.
        log.propagate = False
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: _left_over(findings, context))
    await stage.open()
    try:
        yield stage
    finally:
        with findings.watching():
            await stage.close()
        for log in logs:
            log.removeHandler(logged)
            log.propagate = True


def _left_over(findings: Findings, context: dict[str, Any]) -> None:
    error = context.get("exception")
    findings.note(Failure(context["message"]) if error is None else failure_of(error))


# The play


async def play(folder: Path, lines: Sequence[bytes], seed: int) -> Findings:
    """Hostile sessions say these lines beside an honest one; then all is read, twice restarted."""
    findings = Findings(seed)
    async with fuzz_staged(folder, findings) as stage:
        with findings.watching():
            await _play(stage, lines, Random(seed))
    return findings


async def _play(stage: FuzzStage, lines: Sequence[bytes], rng: Random) -> None:
    honest = await stage.start()
    stage.clis[honest].ask(
        "can_use_tool", tool_name="Bash", input={"command": "make"}, tool_use_id="t1"
    )
    crowd = [await stage.start() for _ in range(min(CROWD, len(lines) or 1))]
    await _flood(stage, crowd, lines, rng)
    if stage.findings:
        return
    await _check_honest(stage, honest)
    await stage.read()
    await stage.answer_all(crowd)
    await stage.check_kept()
    stage.check_files()
    await _end_all(stage)
    if stage.findings:
        return
    await _check_restarts(stage)
    stage.check_heard()
    stage.check_files()


async def _flood(stage: FuzzStage, crowd: list[str], lines: Sequence[bytes], rng: Random) -> None:
    at = 0
    while at < len(lines):
        size = rng.choice((1, 2, 10))
        cli = stage.clis[rng.choice(crowd)]
        cli.tell(*lines[at : at + size])
        at += size
        if rng.random() < 0.2:
            await stage.settle()
        if stage.findings:
            return
    await stage.settle()


async def _check_honest(stage: FuzzStage, session_id: str) -> None:
    """Whatever its neighbours say, an honest session asks, is answered and ends its turn."""
    [question] = await stage.engine.questions(session_id=session_id)
    await stage.engine.answer(question.id, Allow())
    cli = stage.clis[session_id]
    await stage.until(lambda: cli.answers)
    cli.tell(_line("result", subtype="success", result="fine", total_cost_usd=0.5))
    await stage.settle()
    status = await stage.engine.status(session_id)
    told = (status.state, status.result, status.turns, status.cost_usd, status.questions)
    if told != ("done", "fine", 1, 0.5, []):
        stage.findings.note(Failure("an honest session is another", f"{told}"))


async def _end_all(stage: FuzzStage) -> None:
    for cli in stage.clis.values():
        cli.exit(0)
    sessions = stage.engine.sessions.values()
    await stage.until(lambda: not any(each.cli.is_held for each in sessions))
    await stage.settle()


async def _check_restarts(stage: FuzzStage) -> None:
    """What was told is told again: by an engine on a copy, and by the next one."""
    before, statuses = await stage.read(), await _statuses(stage)
    copy = stage.folder / "copy/journal.db"
    copy.parent.mkdir()
    await stage.engine.journal.backup(copy)
    await stage.close()
    for journal in (copy, None):
        await stage.open(journal)
        note_changes(stage.findings, "status", statuses, await _statuses(stage))
        if journal is not None:
            await stage.close()
    note_changes(stage.findings, "answer", before, await stage.read())


def note_changes(findings: Findings, what: str, before: Told, after: Told) -> None:
    """What was told must be told again."""
    for name in [*before, *(each for each in after if each not in before)]:
        one, other = before.get(name), after.get(name)
        if one != other:
            told = " and ".join(ascii(each) for each in _different(one, other))
            findings.note(Failure(f"after a restart, another {what}", f"{name}: {told}"))


def _different(one: Any, other: Any) -> tuple[Any, Any]:
    """The innermost place where the two differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = [(one.get(key), other.get(key)) for key in [*one, *other]]
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            missing = [each for each in one if each not in other]
            return missing[:1], [each for each in other if each not in one][:1]
        pairs = list(zip(one, other, strict=True))
    else:
        return one, other
    return next((_different(*pair) for pair in pairs if pair[0] != pair[1]), (one, other))


async def _statuses(stage: FuzzStage) -> Told:
    engine = stage.engine
    return {
        name: to_builtins(await engine.status(name)) for name in await engine.journal.sessions()
    }
