"""Whatever CLIs write, a server behind relays answers everybody, and a killed one comes back."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path
from random import Random

import httpx
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from pilothouse.journal.sqlite import SqliteJournal
from pilothouse.protocol import Connection, ControlRequest, RequestReceived, Role
from tests.support.fuzz.findings import SEED, Failure, Findings
from tests.support.fuzz.mutation import as_read, is_blank, mutated
from tests.support.fuzz.reading import Reader, Told, told_by
from tests.support.fuzz.stage import ERAS, kept_lines, note_changes, read_by_mcp
from tests.support.places import PROGRAMS
from tests.support.programs.babbler import END, told
from tests.support.server.killable import KillableServer
from tests.support.waiting import DEADLINE, until

CROWD = 3
FEW, MANY = 60, 1_500
"""Lines of each session."""
BEFORE = 3
"""What a CLI says before: it greets, begins a turn, and echoes the message."""
APART = ("cursor", "updated_at", "pid", "waiting_on")
"""What differs from one server to the next while a CLI lives."""


class Scene:
    """A server, its sessions and what their CLIs say."""

    def __init__(self, server: KillableServer, findings: Findings) -> None:
        self.server = server
        self.findings = findings
        self.said: dict[str, list[bytes]] = {}
        self.honest = ""
        self._templates: list[str] | None = None

    @property
    def journal(self) -> Path:
        return self.server.folder / "state/pilothouse/journal.db"

    @asynccontextmanager
    async def http(self) -> AsyncIterator[httpx.AsyncClient]:
        headers = {"Authorization": f"Bearer {self.server.token}"}
        async with httpx.AsyncClient(
            base_url=self.server.address, headers=headers, timeout=DEADLINE, trust_env=False
        ) as http:
            yield http

    async def start(self, name: str, lines: list[bytes] | None) -> str:
        cwd = self.server.folder / name
        cwd.mkdir()
        if lines is not None:
            (cwd / "lines").write_bytes(b"\n".join(lines))
        async with self.http() as http:
            answer = await http.post("/api/sessions", json={"prompt": "go", "cwd": str(cwd)})
        assert answer.status_code == 201, answer.text
        session_id = answer.json()["session_id"]
        if lines is None:
            self.honest = session_id
        else:
            self.said[session_id] = lines
        return session_id

    async def all_said(self) -> None:
        """Wait until the journal has the last line of every CLI."""
        await until(lambda: self._count(told(**END)) >= len(self.said))
        await until(lambda: self._count(b"question.opened") >= 1)

    def _count(self, words: bytes) -> int:
        return self._query("SELECT count(*) FROM events WHERE instr(body, ?)", words)

    def _last(self) -> int:
        return self._query("SELECT max(seq) FROM events")

    def _query(self, statement: str, *values: bytes) -> int:
        with closing(sqlite3.connect(f"file:{self.journal}?mode=ro", uri=True)) as db:
            return db.execute(statement, values).fetchone()[0]

    async def read(self) -> Told:
        if self._templates is None:
            async with self.http() as http:
                document = (await http.get("/openapi.json")).json()
            self._templates = told_by(document)
        reader = Reader(
            self.server.address, self.server.token, self.findings, templates=self._templates
        )
        async with aclosing(reader), asyncio.timeout(DEADLINE):
            while True:
                before = self._last()
                told = await reader.everything()
                # What a CLI asks is in the journal a while after its line.
                if self._last() == before:
                    return told

    async def read_by_mcp(self, era: str) -> None:
        """By the official client, which starts the command that users have in their settings."""
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "pilothouse", "mcp"],
            env=self.server.env,
            cwd=self.server.folder,
        )
        with (self.server.folder / f"mcp-{era}").open("w") as errors:
            async with (
                asyncio.timeout(DEADLINE),
                Client(stdio_client(server, errlog=errors), mode=era) as client,
            ):
                await read_by_mcp(client, self.findings, [self.honest, *self.said])

    async def answer_honest(self) -> None:
        async with self.http() as http:
            [question] = (await http.get(f"/api/questions?session_id={self.honest}")).json()
            await http.post(f"/api/questions/{question['id']}/answer", json={"kind": "allow"})
            async with asyncio.timeout(DEADLINE):
                while True:
                    status = (await http.get(f"/api/sessions/{self.honest}")).json()
                    if status["state"] == "done":
                        break
        told = (status["result"], status["turns"], status["cost_usd"], status.get("questions", []))
        if told != ("fine", 1, 0.5, []):
            self.findings.note(Failure("an honest session is another", f"{told}"))

    async def stop_all(self) -> None:
        async with self.http() as http:
            (await http.post("/api/sessions/stop")).raise_for_status()

    async def restart(self) -> None:
        await self.server.kill()
        await self.server.launch()
        await self.server.ready()

    # What must hold

    async def check_kept(self) -> None:
        """Every line is in the journal byte for byte, but for pieces of messages that are whole."""
        copy = self.server.folder / "copy"
        copy.mkdir()
        with (
            closing(sqlite3.connect(self.journal)) as db,
            closing(sqlite3.connect(copy / "journal.db")) as other,
        ):
            db.backup(other)
        journal = await SqliteJournal.open(copy / "journal.db")
        async with aclosing(journal):
            for session_id, lines in self.said.items():
                wanted = [as_read(each) for each in [*lines, told(**END)] if not is_blank(each)]
                found = await kept_lines(journal, session_id)
                found = found[BEFORE : found.index(wanted[-1]) + 1]
                rest = iter(wanted)
                changed = [each for each in found if each not in rest]
                if changed or len(wanted) - len(found) > await _pruned(journal, session_id):
                    self.findings.note(Failure("not kept byte for byte"), changed[:1])

    def check_logs(self) -> None:
        """No server has written of an exception."""
        for path in [
            *self.server.folder.glob("stderr-*"),
            *self.server.folder.glob("mcp-*"),
            *self.server.folder.glob("state/pilothouse/**/*.log*"),
        ]:
            text = path.read_bytes()
            at = max(text.find(b"Traceback"), text.find(b'"level":"error"'))
            if at >= 0:
                name = path.name.partition("-")[0]
                self.findings.note(Failure(f"{name} tells of an exception"), [text[at : at + 3000]])


async def _pruned(journal: SqliteJournal, session_id: str) -> int:
    after, count = 0, 0
    while True:
        batch = await journal.read(after, session_id=session_id)
        count += sum(gap.count for gap in batch.gaps)
        if not batch.events:
            return count
        after = batch.cursor


def settled(told: Told) -> Told:
    """Without what differs while CLIs live."""
    return {
        path: {name: each for name, each in value.items() if name not in APART}
        if isinstance(value, dict)
        else value
        for path, value in told.items()
        if path.partition("?")[0] not in ("/api/sessions", "/api/history")
    }


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    program = tmp_path / "claude"
    babbler = PROGRAMS / "babbler.py"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {babbler} "$@"\n')
    program.chmod(0o700)
    server = KillableServer(
        tmp_path,
        PILOTHOUSE_SIMULATE="never",
        CLAUDE_CODE_PATH=str(program),
        CLAUDE_CONFIG_DIR=str(tmp_path / "home/.claude"),
        ANTHROPIC_API_KEY="sk-ant-scripted-0000",
    )
    try:
        yield Scene(server, Findings(SEED))
    finally:
        await server.clean()


def asking_once(lines: Iterable[bytes]) -> list[bytes]:
    """Without requests under an id that was used before.

    Which of the two is still asked after one was answered is nothing that a journal tells.
    """
    connection = Connection(Role.CLIENT)
    known = set[str]()
    kept: list[bytes] = []
    for line in lines:
        connection.receive_data(line + b"\n")
        events = connection.events()
        asked = {each.request_id for each in events if isinstance(each, RequestReceived)}
        is_again = any(type(each) is ControlRequest for each in events) or asked & known
        kept += [] if is_again else [line]
        known |= asked
    return kept


async def played(scene: Scene, count: int) -> None:
    rng = Random(scene.findings.seed)
    await scene.server.launch()
    await scene.server.ready()
    await scene.start("honest", None)
    for number in range(CROWD):
        lines = asking_once(mutated(rng) for _ in range(count))
        await scene.start(f"hostile-{number}", lines)
    await scene.all_said()
    before = await scene.read()
    await scene.restart()
    after = await scene.read()
    note_changes(scene.findings, "answer", settled(before), settled(after))
    await scene.answer_honest()
    for era in ERAS:
        await scene.read_by_mcp(era)
    await scene.stop_all()
    before = await scene.read()
    await scene.restart()
    note_changes(scene.findings, "answer", before, await scene.read())
    await scene.check_kept()
    scene.check_logs()
    scene.findings.check()


async def test_a_server_outlives_what_its_sessions_say(scene: Scene) -> None:
    await played(scene, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
async def test_a_server_outlives_thousands_of_lines(scene: Scene, part: int) -> None:
    scene.findings.seed += part + 1
    await played(scene, MANY)
