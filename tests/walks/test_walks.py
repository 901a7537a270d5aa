"""The ways of a prompt, a line and a permission through a served session, traced.

`docs/design.md` lists them. With PILOTHOUSE_WRITE_WALKS=1 it is written anew.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from pilothouse_sim.plugin import SimulatedCLIMaker
from pilothouse_sim.scenario import reply, tool
from tests.support.server.killable import KillableServer, with_cli
from tests.support.waiting import DEADLINE
from tests.support.walks import traced
from tests.support.walks.traced import ANSWER, ASK, LINE, PROMPT

LIMITS = {"permission": 22, "prompt": 22, "line": 14}
"""How many files of ours may be on a walk."""
DESIGN = Path(__file__).resolve().parents[2] / "docs" / "design.md"
STDIN = ("relay", "write")
TRACED = Path(traced.__file__)


class HandOver(NamedTuple):
    """One moment at which marked data was handed on."""

    at: int
    mark: str
    point: str
    process: str
    stack: list[tuple[str, str]]
    """File and function, the outermost first."""


Walk = dict[str, list[str]]
"""The functions of each file on the way, in the order they come."""


# The walks


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> list[HandOver]:
    with ExitStack() as stack:
        maker = SimulatedCLIMaker(tmp_path_factory, stack)
        return asyncio.run(trace(maker, tmp_path_factory.mktemp("traced")))


@pytest.fixture(scope="module")
def walks(seen: list[HandOver]) -> dict[str, Walk]:
    return {
        "permission": joined([*asked(seen), *delivered(seen, ANSWER)]),
        "prompt": joined(delivered(seen, PROMPT)),
        "line": joined(watched(seen)),
    }


def asked(seen: list[HandOver]) -> Iterator[HandOver]:
    """From the CLI's output until the question is committed, which is before its answer comes."""
    answered_at = next(each.at for each in seen if each.mark == ANSWER)
    ways = (each for each in seen if each.mark == ASK and each.at < answered_at)
    return (each for each in ways if not is_for_http(each))


def delivered(seen: list[HandOver], mark: str) -> Iterator[HandOver]:
    """From the body of an HTTP request to the CLI's input."""
    marked = [each for each in seen if each.mark == mark and not is_for_http(each)]
    end = next(n for n, each in enumerate(marked) if (each.process, each.point) == STDIN)
    return iter(marked[: end + 1])


def watched(seen: list[HandOver]) -> Iterator[HandOver]:
    """From the CLI's output to the event stream of a watcher."""
    marked = [each for each in seen if each.mark == LINE]
    end = next(n for n, each in enumerate(marked) if is_for_http(each) and each.point == "send")
    return iter(marked[: end + 1])


def is_for_http(each: HandOver) -> bool:
    """Whether it is on its way out over HTTP: to a watcher, or as the answer to a request."""
    is_written = each.point in ("_SelectorSocketTransport.write", "send", "Tail.read")
    return is_written and any(file.startswith("faces/http/") for file, _ in each.stack)


def joined(way: Iterable[HandOver]) -> Walk:
    walk: Walk = {}
    for file, function in (call for each in way for call in each.stack):
        functions = walk.setdefault(file, [])
        functions += [] if function in functions else [function]
    return walk


def listed(walk: Walk) -> str:
    return "".join(f"{file}: {', '.join(functions)}\n" for file, functions in walk.items())


@pytest.mark.parametrize("name", LIMITS)
def test_the_document_lists_the_files_and_functions_of_each_walk(
    walks: dict[str, Walk], name: str
) -> None:
    text = DESIGN.read_text()
    block = re.compile(rf"(<!-- walk: {name} -->\n```\n)(.*?)(```\n)", re.DOTALL)
    found = block.search(text)
    assert found is not None
    if os.environ.get("PILOTHOUSE_WRITE_WALKS") == "1":
        DESIGN.write_text(block.sub(rf"\g<1>{listed(walks[name])}\g<3>", text))
    else:
        # In any order: the journal's thread commits while the loop goes on.
        assert sorted(found[2].splitlines()) == sorted(listed(walks[name]).splitlines())


@pytest.mark.parametrize("name", LIMITS)
def test_a_walk_goes_through_few_files(walks: dict[str, Walk], name: str) -> None:
    assert len(walks[name]) <= LIMITS[name], listed(walks[name])


def test_no_queue_and_no_commit_of_ours_has_another_name_than_the_tracer_knows(
    seen: list[HandOver],
) -> None:
    known = [*traced.PASSED.values(), *traced.GIVEN.values()]
    assert set().union(*known) <= {each.point for each in seen}


# One session


async def trace(make_cli: SimulatedCLIMaker, folder: Path) -> list[HandOver]:
    """Everything marked that passes through one server and one relay."""
    cli = make_cli(
        reply("Ready."),
        reply(LINE, tool("Bash", command=f"rm {ASK}", description="clean up")),
        reply("As you like."),
    )
    about = {**with_cli(cli), "PILOTHOUSE_PARTIALS": "false"}
    server = KillableServer(folder, words=("-P", str(TRACED), str(folder)), **about)
    try:
        await server.launch()
        await server.ready()
        headers = {"Authorization": f"Bearer {server.token}"}
        async with (
            asyncio.timeout(DEADLINE),
            httpx.AsyncClient(
                base_url=server.address, headers=headers, trust_env=False, timeout=DEADLINE
            ) as http,
        ):
            person = Person(http)
            session_id = await person.start(str(cli.cwd))
            async with person.watching() as events:
                await person.say(session_id, PROMPT)
                await events.until(lambda event: LINE in json.dumps(event))
            await person.answer(await person.asked(session_id))
            await person.settled(session_id)
        await server.stop_all()
    finally:
        await server.clean()
    return sorted([*_noted(folder, "server"), *_noted(folder, "relay")])


def _noted(folder: Path, process: str) -> Iterable[HandOver]:
    for line in (folder / f"{process}.walk").read_text().splitlines():
        told = json.loads(line)
        stack = [(file, function) for file, function in told["stack"]]
        yield HandOver(told["at"], told["mark"], told["point"], process, stack)


class Person:
    """Uses a server over HTTP."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def start(self, cwd: str) -> str:
        request = {"prompt": "go", "cwd": cwd, "options": {}}
        session_id = (await self._post("/api/sessions", request))["session_id"]
        await self.settled(session_id)
        return session_id

    async def say(self, session_id: str, content: str) -> None:
        await self._post(f"/api/sessions/{session_id}/messages", {"content": content})

    async def answer(self, question_id: str) -> None:
        denial = {"kind": "deny", "reason": ANSWER}
        await self._post(f"/api/questions/{question_id}/answer", denial)

    async def asked(self, session_id: str) -> str:
        async with self.watching(after=0) as events:
            opened = await events.until(
                lambda event: event.get("kind") == "question.opened" and ASK in json.dumps(event)
            )
        return opened["body"]["question"]["id"]

    async def settled(self, session_id: str) -> None:
        """Wait until its turn has ended, looking whenever something happens."""
        async with self.watching(after=0) as events:
            while (await self._get(f"/api/sessions/{session_id}"))["state"] != "done":
                await events.next()

    @asynccontextmanager
    async def watching(self, **query: Any) -> AsyncIterator[Events]:
        async with self._http.stream("GET", "/api/events/stream", params=query) as stream:
            assert stream.status_code == 200, await stream.aread()
            events = Events(stream.aiter_lines())
            # Before the first event it says where it begins.
            await events.begun()
            yield events

    async def _get(self, path: str) -> Any:
        return (await self._http.get(path)).raise_for_status().json()

    async def _post(self, path: str, body: Any) -> Any:
        return (await self._http.post(path, json=body)).raise_for_status().json()


class Events:
    """What comes over an event stream."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines

    async def begun(self) -> None:
        assert (await anext(self._lines)).startswith(": from ")

    async def next(self) -> Any:
        async for line in self._lines:
            if line.startswith("data: "):
                return json.loads(line.removeprefix("data: "))
        raise AssertionError("the events ended")

    async def until(self, wanted: Callable[[Any], bool]) -> Any:
        while not wanted(event := await self.next()):
            continue
        return event
