"""Faults drawn by lot, on everything between a client and the CLIs: every session comes to rest.

A server, some sessions behind relays, and somebody who keeps them at work. Servers, relays, guards
and CLIs are killed, or stopped for a while; connections are cut. Then it ends, and it is seen that
- every session comes to rest, and takes another message,
- the journal has what each CLI wrote, no line twice and none missing, up to where it was killed,
- a session is what its journal tells of it,
- no process is left.

What a CLI wrote is kept beside the server's way by a `tee` on its output. The seed is printed;
PILOTHOUSE_SEED sets another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shlex
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from socket import AF_UNIX, socket

import pytest

from pilothouse.api.answers import Allow
from pilothouse.api.events import Event
from pilothouse.api.requests import Say, Start
from pilothouse.api.statuses import Status
from pilothouse.engine.client_restore import greeting_id
from pilothouse.errors import PilothouseError
from pilothouse.relay.addresses import reachable
from pilothouse.relay.registry import RunningRelay
from pilothouse.remote import RemoteEngine
from pilothouse.server.engines import SOCKET_NAME
from pilothouse_sim.clis import SimulatedCLI
from pilothouse_sim.plugin import SimulatedCLIMaker
from pilothouse_sim.scenario import AnyReply, Branch, When, reply, text, tool
from tests.support.processes import alive, gone
from tests.support.server.journal_checks import JournalReading, known
from tests.support.server.killable import MARK, KillableServer, with_cli
from tests.support.waiting import DEADLINE, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper and /proc")

SESSIONS = 4
RESTS_WITHIN = 180.0
"""Seconds for a session to come to rest once nothing hinders it."""
LONGEST_STOP = 1.5
SOON = 3.0
"""Seconds in which there may be somebody again to do harm to."""
LONGEST_PAUSE = 0.4
AT_WORK = ("active", "awaiting_input")
ASKED = ("story", "story", "tool", "hide")


# The CLIs


WORDS = "".join(f"{number:03} " for number in range(60))
HIDE = "setsid nohup sh -c 'echo $$ >> hidden; exec sleep 1000' >/dev/null 2>&1 & echo it-ran"


def on(words: str, *replies: AnyReply) -> Branch:
    # More than one CLI is ever asked for.
    return Branch(when=When(last_contains=words), replies=replies * 1000)


BRANCHES = [
    # First: a CLI takes what waited in one message, and the ping may be among others.
    on("a ping", reply("Pong.")),
    on("a story", reply(text(WORDS, chunk=4, delay=0.004))),
    on("a tool", reply(tool("Bash", command="echo it-ran", description="Run it"))),
    on("a hide", reply(tool("Bash", command=HIDE, description="Hide it"))),
    on("it-ran", reply("It ran.")),
]


def overheard(cli: SimulatedCLI, folder: Path) -> Path:
    """A program that is this CLI, and writes down what each of its lives says."""
    said = folder / "said"
    said.mkdir()
    program = folder / "overheard"
    file = f"{shlex.quote(str(said))}/$(date +%s%N)-$$"
    keep = f'case " $* " in *stream-json*) exec > >(exec tee -a {file});; esac'
    program.write_text(f'#!/bin/bash\n{keep}\nexec {shlex.quote(str(cli.path))} "$@"\n')
    program.chmod(0o755)
    return program


def lines_by_run(folder: Path, runs: set[str]) -> dict[str, list[bytes]]:
    """What each CLI has said, pieces of messages left out: nobody keeps them for long."""
    greetings = {greeting_id(run): run for run in runs}
    found: dict[str, list[bytes]] = {}
    for file in (folder / "said").iterdir():
        lines = file.read_bytes().split(b"\n")[:-1]
        whole = [line for line in lines if json.loads(line)["type"] != "stream_event"]
        # One of its first lines answers the first request, which names the run.
        answered = (json.loads(line).get("response", {}).get("request_id") for line in whole)
        for run in (greetings[each] for each in answered if each in greetings):
            found[run] = whole
    return found


# The way between relays and the server


class Wire:
    """Stands where the server's socket was, and cuts connections."""

    def __init__(self, server: KillableServer) -> None:
        self._path = server.folder / "state/pilothouse" / SOCKET_NAME
        self._real = self._path.with_suffix(".real")
        self._listener: asyncio.Server | None = None
        self._open: list[asyncio.StreamWriter] = []
        self._carrying: set[asyncio.Task[None]] = set()

    async def put(self) -> None:
        """Come between, once a server has put its socket there."""
        await self.take_away()
        self._path.rename(self._real)
        listener = socket(AF_UNIX)
        with reachable(str(self._path)) as place:
            listener.bind(place)
        self._listener = await asyncio.start_unix_server(self._accept, sock=listener)

    async def take_away(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        while self._open:
            self.cut(self._open[0])
        await asyncio.gather(*self._carrying, return_exceptions=True)

    def cut_one(self, chance: random.Random) -> bool:
        if self._open:
            self.cut(chance.choice(self._open))
            return True
        return False

    def cut(self, one: asyncio.StreamWriter) -> None:
        self._open.remove(one)
        one.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The server's own tasks cannot be awaited before Python 3.12.
        task = asyncio.ensure_future(self._carry(reader, writer))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.append(writer)
        upstream: asyncio.StreamWriter | None = None
        try:
            with contextlib.suppress(OSError):
                with reachable(str(self._real)) as place:
                    there, upstream = await asyncio.open_unix_connection(place)
                ways = [self._pass_on(reader, upstream), self._pass_on(there, writer)]
                tasks = [asyncio.ensure_future(way) for way in ways]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            if writer in self._open:
                self._open.remove(writer)
            for each in (writer, upstream):
                if each is not None:
                    each.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


# Faults


class Faults:
    """Does harm by lot, to nobody but what this test's servers have started."""

    def __init__(self, server: KillableServer, wire: Wire, chance: random.Random) -> None:
        self.done: Counter[str] = Counter()
        self._server = server
        self._wire = wire
        self._chance = chance
        self._stopped: set[asyncio.Task[None]] = set()
        self._drawn: list[str] = []
        self._kinds: dict[str, Callable[[], bool]] = {
            "kill relay": lambda: self._hit_one("relay_pid", signal.SIGKILL),
            "kill guard": lambda: self._hit_one("guard_pid", signal.SIGKILL),
            "kill cli": lambda: self._hit_one("cli_pid", signal.SIGKILL),
            "stop relay": lambda: self._hit_one("relay_pid", signal.SIGSTOP),
            "stop guard": lambda: self._hit_one("guard_pid", signal.SIGSTOP),
            "stop cli": lambda: self._hit_one("cli_pid", signal.SIGSTOP),
            "stop server": lambda: self._stop(server.pid),
            "cut": lambda: wire.cut_one(chance),
        }

    async def one(self) -> None:
        """Do one thing, and leave some time for what comes of it."""
        kind = self._draw()
        while not await self._do(kind):
            kind = self._draw()
        self.done[kind] += 1
        # Nothing tells when the next one is due: that is what is tried.
        await asyncio.sleep(self._chance.uniform(0, LONGEST_PAUSE))

    def _draw(self) -> str:
        """Each kind about as often as any other."""
        if not self._drawn:
            self._drawn = [*self._kinds, "kill server"]
            self._chance.shuffle(self._drawn)
        return self._drawn.pop()

    async def _do(self, kind: str) -> bool:
        """Do it, unless there is nobody to do it to."""
        if kind == "kill server":
            await self._kill_server()
            return True
        try:
            await until(self._kinds[kind], within=SOON)
        except TimeoutError:
            return False
        return True

    async def heal(self) -> None:
        """Wait until everything that was stopped goes on."""
        await asyncio.gather(*self._stopped)

    async def _kill_server(self) -> None:
        await self._server.kill()
        await asyncio.sleep(self._chance.uniform(0, LONGEST_PAUSE))
        await self._server.launch()
        await self._server.ready()
        await self._wire.put()

    def _hit_one(self, whom: str, number: signal.Signals) -> bool:
        relays = sorted(self._server.relays().values(), key=lambda found: found.run)
        found: RunningRelay | None = self._chance.choice(relays) if relays else None
        pid = getattr(found, whom) if found else None
        if pid is None or not self._is_ours(pid):
            return False
        return self._stop(pid) if number == signal.SIGSTOP else _send(pid, number)

    def _stop(self, pid: int) -> bool:
        """Have it stand still for a while."""
        if not _send(pid, signal.SIGSTOP):
            return False
        task = asyncio.ensure_future(self._go_on(pid, self._chance.uniform(0, LONGEST_STOP)))
        self._stopped.add(task)
        task.add_done_callback(self._stopped.discard)
        return True

    async def _go_on(self, pid: int, after: float) -> None:
        fd = os.pidfd_open(pid)
        try:
            await asyncio.sleep(after)
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGCONT)
        finally:
            os.close(fd)

    def _is_ours(self, pid: int) -> bool:
        mark = f"{MARK}={self._server.folder}#".encode()
        try:
            return mark in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False


def _send(pid: int, number: signal.Signals) -> bool:
    if not alive(pid):
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


# Who works


class Persons:
    """Keep the sessions at work: whoever rests is asked something, and questions are answered."""

    def __init__(self, server: KillableServer, cwd: Path, chance: random.Random) -> None:
        self.engine = RemoteEngine(server.address, server.token, patience=DEADLINE)
        self.sessions: list[str] = []
        self.said = 0
        self._cwd = cwd
        self._chance = chance
        self._resting = False

    async def begin(self) -> None:
        for number in range(SESSIONS):
            request = Start(prompt="a story", cwd=str(self._cwd), key=f"start-{number}")
            self.sessions.append((await self.engine.start(request)).session_id)

    async def work(self, session_id: str) -> None:
        """Go on until all shall rest, and this one does."""
        while True:
            with contextlib.suppress(PilothouseError):
                status = await self.engine.status(session_id)
                if status.state == "awaiting_input":
                    await self._answer(status)
                elif status.state not in AT_WORK and self._resting:
                    return
                elif status.state not in AT_WORK:
                    self.said += 1
                    what = f"a {self._chance.choice(ASKED)}, number {self.said}"
                    await self.engine.say(session_id, Say(content=what, key=f"say-{self.said}"))
            # A server that is killed, again and again, has nobody wake us.
            await asyncio.sleep(0.05)

    def rest(self) -> None:
        self._resting = True

    async def _answer(self, status: Status) -> None:
        for question in status.questions:
            if question.state == "open":
                await self.engine.answer(question.id, Allow())

    async def ping(self, session_id: str) -> None:
        """The session takes another message, and answers it."""
        await self.engine.say(session_id, Say(content="a ping", key=f"ping-{session_id}"))
        async with asyncio.timeout(RESTS_WITHIN):
            while (status := await self.engine.status(session_id)).result != "Pong.":
                await self._answer(status)
                await asyncio.sleep(0.05)


# What must hold


async def journal(engine: RemoteEngine) -> list[Event]:
    found: list[Event] = []
    while True:
        batch = await engine.read(found[-1].seq if found else 0)
        if not batch.events:
            return found
        found += batch.events


class Kept:
    """What the journal has of each run: its lines, and how it ended."""

    def __init__(self, events: list[Event]) -> None:
        self.lines: dict[str, list[bytes]] = defaultdict(list)
        self.ended: dict[str, str] = {}
        self.lost: list[str] = []
        running: dict[str, str] = {}
        for event in events:
            body = bytes(event.body)
            if event.kind == "cli.started":
                running[event.session_id] = json.loads(body)["run"]
                self.lines[running[event.session_id]] = []
            elif event.kind == "cli.ended" and (run := running.pop(event.session_id, None)):
                # One that was killed while it started has told of no start.
                self.ended[run] = json.loads(body)["reason"]
            elif event.kind == "cli":
                self.lines[running[event.session_id]].append(body)
            elif event.kind == "lines.lost":
                self.lost.append(json.loads(body)["because"])


async def check_lines(engine: RemoteEngine, folder: Path) -> Kept:
    """Of a CLI that lives the journal has every line; of one that was killed, the first ones."""
    deadline = time.monotonic() + DEADLINE
    while True:
        kept = Kept(await journal(engine))
        said = lines_by_run(folder, set(kept.lines))
        living = kept.lines.keys() - kept.ended.keys()
        # A line may be on its way still.
        if all(kept.lines[run] == said.get(run) for run in living) or time.monotonic() > deadline:
            break
        await asyncio.sleep(0.05)
    for run in living:
        assert kept.lines[run] == said.get(run), f"{run} lives"
    for run in kept.ended:
        lines, heard = kept.lines[run], said.get(run, [])
        # The `tee` was killed as well: either of the two may have come a little further.
        both = min(len(lines), len(heard))
        assert lines[:both] == heard[:both], f"{run} ended: {kept.ended[run]}"
    assert kept.lost == []
    return kept


async def check_views(engine: RemoteEngine, sessions: list[str]) -> None:
    """Each session is what its journal tells of it."""
    books = JournalReading()
    for event in await journal(engine):
        books.take(event)
    for session_id in sessions:
        status = await engine.status(session_id)
        assert known(status) == known(books.views[session_id].status())


@asynccontextmanager
async def serving(cli: SimulatedCLI, folder: Path) -> AsyncIterator[tuple[KillableServer, Wire]]:
    server = KillableServer(folder, **with_cli(cli, overheard(cli, folder)))
    wire = Wire(server)
    try:
        await server.launch()
        await server.ready()
        await wire.put()
        yield server, wire
    finally:
        await wire.take_away()
        await server.clean()
        await server.all_gone(range(server.generation + 1))


# Together 500; a test has four minutes.
@pytest.mark.parametrize(
    ("faults", "run"),
    [(12, 1), *(pytest.param(100, each, marks=pytest.mark.slow) for each in range(2, 7))],
)
async def test_every_session_comes_to_rest_whatever_happens(
    tmp_path: Path, simulated_cli: SimulatedCLIMaker, faults: int, run: int
) -> None:
    seed = os.environ.get("PILOTHOUSE_SEED", str(run))
    print(f"PILOTHOUSE_SEED={seed}")  # noqa: T201 - told with a failure
    chance = random.Random(seed)
    cli = simulated_cli(branches=BRANCHES, strict=False)
    async with serving(cli, tmp_path) as (server, wire):
        persons = Persons(server, cli.cwd, random.Random(f"{seed} persons"))
        await persons.begin()
        working = [asyncio.ensure_future(persons.work(each)) for each in persons.sessions]
        harm = Faults(server, wire, chance)
        try:
            for _ in range(faults):
                await harm.one()
            await harm.heal()
            persons.rest()
            async with asyncio.timeout(RESTS_WITHIN):
                await asyncio.gather(*working)
            for each in persons.sessions:
                await persons.ping(each)
            kept = await check_lines(persons.engine, tmp_path)
            await check_views(persons.engine, persons.sessions)
        finally:
            for each in working:
                each.cancel()
            await asyncio.gather(*working, return_exceptions=True)
            await persons.engine.aclose()
        told = f"{dict(harm.done)}; {persons.said} messages, {len(kept.lines)} CLIs, "
        told += f"{sum(map(len, kept.lines.values()))} lines, {server.generation} servers"
        print(told)  # noqa: T201 - as above
        assert harm.done.total() == faults
        # What they have hidden goes with the CLIs.
        file = cli.cwd / "hidden"
        hidden = [int(word) for word in file.read_text().split()] if file.exists() else []
        await server.stop_all()
        assert server.relays() == {}
        await gone(*hidden)
        await until(lambda: not server.living(server.generation))
