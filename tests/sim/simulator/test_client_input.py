"""What clients write: lines that end the CLI, lines that it passes over, and prompts."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.scenario import Scenario, Script, reply
from pilothouse_sim.simulator.flags import parse
from pilothouse_sim.simulator.model import Model
from pilothouse_sim.simulator.process import run
from pilothouse_sim.simulator.wire_ends import WireListener
from tests.support.sim.client import FLAGS, sim_client
from tests.support.sim.home import Home, script
from tests.support.waiting import DEADLINE

TOKEN = "CLAUDE_CODE_SESSION_ACCESS_TOKEN"


class Scribe:
    """A client that writes some bytes, and keeps its side open."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def start(self, listener: WireListener) -> None:
        listener.data_received(self._data)

    def write(self, data: bytes) -> None:
        pass

    async def aclose(self) -> None:
        pass


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    return Home(tmp_path, monkeypatch, script(reply("One."), reply("Two.")))


async def code_after(data: bytes) -> int:
    model = Model(Script(Scenario(replies=[reply("Hi.")])), None)
    async with asyncio.timeout(DEADLINE):
        return await run(parse([*FLAGS]), Scribe(data), model)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "Error parsing streaming input line (type=unknown, 1 chars): SyntaxError"),
        (b"null", "Error parsing streaming input line (type=unknown, 4 chars): TypeError"),
        (
            '{"type": "user", "é😀'.encode(),
            "Error parsing streaming input line (type=user, 21 chars): SyntaxError",
        ),
        (b'{"type":"user"}', "Error: Expected message role 'user', got 'undefined'"),
        (b'{"type":"user","message":"x"}', "Error: Expected message role 'user', got 'undefined'"),
        (
            b'{"type":"user","message":{"role":null}}',
            "Error: Expected message role 'user', got 'null'",
        ),
        (b'{"type":"user","message":{"role":7}}', "Error: Expected message role 'user', got '7'"),
        (
            b'{"type":"control_request","request_id":"x"}',
            "Error: Missing request on control_request",
        ),
    ],
)
async def test_some_lines_end_it(
    home: Home, capsys: pytest.CaptureFixture[str], line: bytes, words: str
) -> None:
    assert await code_after(line + b"\n") == 1
    assert capsys.readouterr().err == f"{words}\n"


async def test_nothing_is_read_behind_a_line_that_ends_it(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await code_after(b'{\n{"type":"user"}\n') == 1
    assert capsys.readouterr().err.count("\n") == 1


async def test_values_that_are_no_messages_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sim_client(tmp_path, monkeypatch, reply("Hi.")) as client:
        values: list[Any] = [[], 7, "words", True, {}, {"type": 7}, {"type": "no_such_type"}]
        for value in values:
            client.send(value)
        assert (await client.ask("Hello."))["result"] == "Hi."


async def test_a_message_that_needs_no_answer_is_told_with_the_next(home: Home) -> None:
    async with home.run() as client:
        message = {"role": "user", "content": "It rains."}
        client.send({"type": "user", "message": message, "shouldQuery": False})
        result = await client.until(lambda line: line["type"] == "result")
        assert (result["num_turns"], result["result"]) == (0, "")
        await client.ask("How is the weather?")
    assert home.told() == [("user", ["It rains.", "How is the weather?"])]


async def test_a_message_without_content_says_so(home: Home) -> None:
    async with home.run() as client:
        client.send({"type": "user", "message": {"role": "user", "content": None}})
        await client.until(lambda line: line["type"] == "result")
    assert home.told() == [("user", "(no content)")]


async def test_half_of_a_surrogate_pair_is_repeated_and_kept(home: Home) -> None:
    async with home.run("--replay-user-messages") as client:
        await client.ask("half \ud83d")
    said = [line["message"]["content"] for line in client.lines if line.get("isReplay")]
    assert said == ["half \ud83d"]


async def test_only_the_token_of_the_session_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, "old")
    async with sim_client(tmp_path, monkeypatch, reply("Hi.")) as client:
        variables = {TOKEN: "new", "FRESH": "water"}
        client.send({"type": "update_environment_variables", "variables": variables})
        client.send({"type": "update_environment_variables", "variables": {TOKEN: 7}})
        await client.ask("Hello.")
        assert os.environ[TOKEN] == "new"
        assert "FRESH" not in os.environ


async def test_an_answer_begins_before_the_next_line_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sim_client(tmp_path, monkeypatch, reply("Hi.")) as client:
        asking = asyncio.create_task(client.control("no_such_request"))
        await asyncio.sleep(0)
        result = asyncio.create_task(client.ask("Hello."))
        await asyncio.gather(asking, result)
    assert client.kinds()[0] == "control_response"


@pytest.mark.parametrize("subtype", [None, "initialize"])
async def test_a_request_that_is_no_object_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtype: str | None
) -> None:
    async with sim_client(tmp_path, monkeypatch) as client:
        body = {} if subtype is None else subtype
        client.send({"type": "control_request", "request_id": "odd", "request": body})
        refused = await client.until(lambda line: line["type"] == "control_response")
    assert refused["response"]["error"] == "Unsupported control request subtype: undefined"


async def test_a_prompt_in_the_same_write_as_initialize_waits_for_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mate = {"description": "d", "prompt": "p"}
    request = {"subtype": "initialize", "agents": {"mate": mate}}
    first = {"type": "control_request", "request_id": "first", "request": request}
    async with sim_client(tmp_path, monkeypatch, reply("Hi.")) as client:
        client.send_all(first, {"type": "user", "message": {"role": "user", "content": "Hello."}})
        await client.until(lambda line: line["type"] == "result")
    assert client.kinds()[:2] == ["control_response", "system/init"]
    assert "mate" in client.lines[1]["agents"]


async def test_a_result_says_that_a_person_wrote_the_prompt_if_the_client_did(home: Home) -> None:
    async with home.run() as client:
        for origin in ({"kind": "human"}, {"kind": "bogus"}, "human"):
            await client.ask("Hello.", origin=origin)
    results = [line for line in client.lines if line["type"] == "result"]
    assert [result.get("origin") for result in results] == [{"kind": "human"}, None, None]
