"""The older CLIs that dial, and the simulator in their place, at the same server.

Every scene is played by both, and what the server sees must be the same: the real CLI is the
judge. What the messages say is no matter here; the simulator says it as the newest CLI does.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.real_cli import environment
from pilothouse_sim.scenario import Scenario, reply, save, text, tool
from pilothouse_sim.scripted_model import ScriptedModel
from tests.support.sim.sdk_url_server import CUT, Message, Post, SdkUrlServer, Visit
from tests.support.versions import CACHE
from tests.support.waiting import DEADLINE

NEWER, OLDER = "2.1.119", "2.1.37"
ARGUMENTS = (
    "-p",
    "--output-format=stream-json",
    "--input-format=stream-json",
    "--verbose",
    "--permission-prompt-tool=stdio",
)
TOKEN = {"CLAUDE_CODE_SESSION_ACCESS_TOKEN": "the-token"}
HYBRID = {**TOKEN, "CLAUDE_CODE_POST_FOR_SESSION_INGRESS_V2": "1"}
CHANGING = {"host", "sec-websocket-key", "x-last-request-id"}


@dataclass
class Stage:
    """A server, and one CLI or simulator that dials it."""

    harbour: SdkUrlServer
    process: Process

    async def exit_code(self) -> int:
        async with asyncio.timeout(DEADLINE):
            return await self.process.wait()


Scene = Callable[[Stage], Awaitable[Any]]
Play = Callable[..., Awaitable[Any]]


@asynccontextmanager
async def cast(
    command: list[str], home: Path, scenario: Scenario, refusals: list[int], **extra: str
) -> AsyncIterator[Stage]:
    """Starts one player and ends it when its scene is over."""
    script = home / "scenario.json"
    save(scenario, script)
    async with SdkUrlServer() as harbour, ScriptedModel(scenario) as model:
        harbour.refusals = list(refusals)
        process = await asyncio.create_subprocess_exec(
            *command,
            *ARGUMENTS,
            f"--sdk-url={harbour.url}",
            cwd=home,
            env=environment(home, model.url, PILOTHOUSE_SCENARIO=str(script), **extra),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
        )
        try:
            yield Stage(harbour, process)
        finally:
            if process.returncode is None:
                process.kill()
            _, complaints = await process.communicate()
            sys.stderr.write(complaints.decode(errors="replace"))


@pytest.fixture
def both(tmp_path: Path) -> Play:
    """`await both(scene, ...)` is what the server sees; it must see the same of both players."""

    async def play(
        scene: Scene,
        *replies: Any,
        version: str = NEWER,
        arguments: tuple[str, ...] = (),
        refusals: tuple[int, ...] = (),
        **env: str,
    ) -> Any:
        scenario = Scenario(replies=list(replies or (reply("hello"),)))
        env["PILOTHOUSE_SDK_URL_DIALECT"] = version

        async def observe(name: str, *command: str) -> Any:
            home = tmp_path / name
            home.mkdir()
            argv = [*command, *arguments]
            async with cast(argv, home, scenario, list(refusals), **env) as stage:
                return await scene(stage)

        real, simulated = await asyncio.gather(
            observe("real", str(CACHE / version / "claude")),
            observe("simulated", sys.executable, "-m", "pilothouse_sim.simulator"),
        )
        assert simulated == real
        return real

    return play


def prompt(words: str) -> Message:
    message = {"role": "user", "content": words}
    return {"type": "user", "message": message, "session_id": "", "parent_tool_use_id": None}


def control(subtype: str) -> Message:
    return {"type": "control_request", "request_id": subtype, "request": {"subtype": subtype}}


def is_over(messages: list[Message], turns: int = 1) -> bool:
    return sum(message["type"] == "result" for message in messages) == turns


async def take_turn(stage: Stage, visit: Visit, turns: int = 1) -> None:
    """Prompts, and waits until this visit has seen so many results."""
    visit.tell(prompt("hi"))
    await stage.harbour.until(lambda: is_over(visit.messages, turns), DEADLINE)


def steady(visit: Visit) -> dict[str, str]:
    """The headers that are the same each time."""
    headers = {name.lower(): value for name, value in visit.headers.raw_items()}
    return {name: value for name, value in headers.items() if name not in CHANGING}


async def test_the_dial_is_the_same(both: Play) -> None:
    async def scene(stage: Stage) -> Any:
        visit = await stage.harbour.visit(1)
        return visit.path, steady(visit), "X-Last-Request-Id" in visit.headers

    env = TOKEN | {"CLAUDE_CODE_ENVIRONMENT_RUNNER_VERSION": "9"}
    _, headers, _ = await both(scene, **env)
    assert headers["authorization"] == "Bearer the-token"
    assert headers["x-environment-runner-version"] == "9"


async def test_nothing_is_said_before_the_prompt_and_then_a_line_a_frame(both: Play) -> None:
    async def scene(stage: Stage) -> Any:
        visit = await stage.harbour.visit(1)
        visit.tell(control("initialize"))
        await stage.harbour.until(lambda: visit.texts, DEADLINE)
        before = [message["type"] for message in visit.messages]
        await take_turn(stage, visit)
        first = visit.messages[1]
        framed = all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in visit.texts)
        return before, (first["type"], first["subtype"]), framed

    seen = await both(scene)
    assert seen == (["control_response"], ("system", "init"), True)


async def test_frames_are_bytes_of_one_stream(both: Play) -> None:
    async def scene(stage: Stage) -> Any:
        visit = await stage.harbour.visit(1)
        one = b'{"type":"keep_alive"}\n{"type":"control_request",'
        visit.send(one + b'"request_id":"a","request":{"sub')
        visit.send(b'type":"initialize"}}', binary=True)
        visit.send(b"\n")
        await take_turn(stage, visit)
        answers = [message for message in visit.messages if message["type"] == "control_response"]
        return [answer["response"]["request_id"] for answer in answers]

    assert await both(scene) == ["a"]


@pytest.mark.parametrize("code", [1000, 1001])
async def test_everything_is_said_again_after_a_reconnect(both: Play, code: int) -> None:
    async def scene(stage: Stage) -> Any:
        first = await stage.harbour.visit(1)
        await take_turn(stage, first)
        first.close(code)
        second = await stage.harbour.visit(2)
        await take_turn(stage, second, turns=2)
        said = len(first.uuids)
        return (
            second.uuids[:said] == first.uuids,
            second.headers["X-Last-Request-Id"] == first.uuids[-1],
            len(set(second.uuids)) == len(second.uuids) > said,
        )

    seen = await both(scene, reply("one"), reply("two"))
    assert seen == (True, True, True)


async def test_the_older_cli_says_nothing_again(both: Play) -> None:
    async def scene(stage: Stage) -> Any:
        first = await stage.harbour.visit(1)
        await take_turn(stage, first)
        first.close(4001)
        second = await stage.harbour.visit(2)
        await take_turn(stage, second)
        return (
            set(first.uuids).isdisjoint(second.uuids),
            second.headers["X-Last-Request-Id"] == first.uuids[-1],
        )

    assert await both(scene, reply("one"), reply("two"), version=OLDER) == (True, True)


async def test_an_open_question_is_not_said_again_but_told_when_asked_for(both: Play) -> None:
    async def scene(stage: Stage) -> Any:
        first = await stage.harbour.visit(1)
        first.tell(prompt("hi"))
        await stage.harbour.until(lambda: asks(first), DEADLINE)
        first.cut()
        second = await stage.harbour.visit(2)
        second.tell(control("initialize"))
        await stage.harbour.until(lambda: answers(second), DEADLINE)
        (answer,) = answers(second)
        waiting = answer["response"]["pending_permission_requests"]
        told = [request["request_id"] for request in waiting]
        return len(asks(second)), told == [ask["request_id"] for ask in asks(first)]

    def asks(visit: Visit) -> list[Message]:
        return [message for message in visit.messages if message["type"] == "control_request"]

    def answers(visit: Visit) -> list[Message]:
        return [message for message in visit.messages if message["type"] == "control_response"]

    assert await both(scene, reply(tool("Bash", command="touch x"))) == (0, True)


@pytest.mark.parametrize("code", [1002, 4001, 4003])
async def test_a_final_close_ends_the_process_well(both: Play, code: int) -> None:
    async def scene(stage: Stage) -> Any:
        visit = await stage.harbour.visit(1)
        visit.close(code)
        return await stage.exit_code(), stage.harbour.dials, visit.close_codes

    assert await both(scene) == (0, 1, [code])


@pytest.mark.parametrize(
    ("version", "refusals", "dials"),
    [
        (NEWER, [401], 1),
        pytest.param(NEWER, [503], 1, marks=pytest.mark.slow),
        (OLDER, [401, 401, 401], 2),
        pytest.param(OLDER, [CUT] * 3, 2, marks=pytest.mark.slow),
    ],
)
async def test_a_refused_dial_ends_the_process_well(
    both: Play, version: str, refusals: list[int], dials: int
) -> None:
    async def scene(stage: Stage) -> Any:
        return await stage.exit_code(), stage.harbour.dials

    assert await both(scene, version=version, refusals=tuple(refusals)) == (0, dials)


async def test_a_server_that_hangs_up_is_dialled_again(both: Play) -> None:
    async def scene(stage: Stage) -> Any:
        visit = await stage.harbour.visit(1)
        await take_turn(stage, visit)
        return stage.harbour.dials

    assert await both(scene, refusals=(CUT, CUT)) == 3


def shape(posts: list[Post]) -> Any:
    """What one can see of POSTs without reading what the events say."""
    wanted = ("authorization", "content-type", "accept")
    kinds = [[event["type"] == "stream_event" for event in post.events] for post in posts]
    return {
        "targets": {post.target for post in posts},
        "headers": {tuple(post.headers[name] for name in wanted) for post in posts},
        # A message which is no stream event is the last of its POST.
        "only the last": all(all(batch[:-1]) for batch in kinds),
        "some share": any(len(batch) > 2 for batch in kinds),
    }


def events(harbour: SdkUrlServer) -> list[Message]:
    return [event for post in harbour.posts for event in post.events]


async def test_the_hybrid_way_posts_alike(both: Play) -> None:
    async def scene(stage: Stage) -> Any:
        visit = await stage.harbour.visit(1)
        visit.tell(prompt("hi"))
        await stage.harbour.until(lambda: is_over(events(stage.harbour)), DEADLINE)
        return shape(stage.harbour.posts), visit.texts

    words = reply(text("a few words in many pieces", chunk=2))
    seen, frames = await both(scene, words, arguments=("--include-partial-messages",), **HYBRID)
    assert seen["targets"] == {"/v1/session/abc/events"}
    assert seen["only the last"]
    assert seen["some share"]
    assert frames == []


async def test_the_older_cli_posts_one_by_one(both: Play) -> None:
    async def scene(stage: Stage) -> Any:
        visit = await stage.harbour.visit(1)
        visit.tell(prompt("hi"))
        await stage.harbour.until(lambda: is_over(events(stage.harbour)), DEADLINE)
        return {len(post.events) for post in stage.harbour.posts}

    flags = ("--include-partial-messages",)
    assert await both(scene, version=OLDER, arguments=flags, **HYBRID) == {1}


async def test_failed_posts_come_again_and_refused_ones_do_not(both: Play) -> None:
    async def scene(stage: Stage) -> Any:
        harbour = stage.harbour
        harbour.statuses = [500, CUT, 200, 400]
        visit = await harbour.visit(1)
        visit.tell(prompt("hi"))
        await harbour.until(lambda: is_over(events(harbour)), DEADLINE)
        return [before.body == after.body for before, after in pairwise(harbour.posts)][:4]

    assert await both(scene, **HYBRID) == [True, True, False, False]
