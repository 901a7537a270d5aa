"""Cassettes of the real CLI: recorded through a client, replayed to it and to another make's."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

from pilothouse import Allow, Choose, Client, Hooks, Options, ToolServer, tool
from pilothouse.protocol import PreToolUseHookInput
from pilothouse.protocol.wire import Kept
from pilothouse_sim.cassettes import Cassette, read
from pilothouse_sim.line_strings import encoded_path
from pilothouse_sim.real_cli import environment
from pilothouse_sim.recorder import write_launcher
from pilothouse_sim.scenario import AnyReply, reply
from pilothouse_sim.scenario import tool as call
from pilothouse_sim.simulator.cassette import write_player
from tests.support.places import PROGRAMS
from tests.support.real.desk import OpenDesk
from tests.support.real.handlers import Handler, bash
from tests.support.versions import CACHE, newest
from tests.support.waiting import DEADLINE

QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [
        {"label": "Red", "description": "like a buoy"},
        {"label": "Blue", "description": "like the sea"},
    ],
    "multiSelect": False,
}
REPLIES: list[AnyReply] = [
    reply(bash("echo ahoy > log.txt")),
    reply(call("mcp__ship__add", a=2, b=3)),
    reply(call("AskUserQuestion", questions=[QUESTION])),
    reply("Done."),
]
SDK_CLIENT = PROGRAMS / "sdk_client.py"

ID = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b(?:toolu|msg|req|ph)_\w+|\bhook_\d+\b"
)


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Room:
    """A home and a project folder of their own, and what is said in them."""

    def __init__(self, folder: Path, url: str = "http://127.0.0.1:9") -> None:
        self.home, self.cwd = folder / "home", folder / "project"
        for each in (self.home, self.cwd):
            each.mkdir(parents=True, exist_ok=True)
        self.env = environment(self.home, url)

    async def work(self, cli: Path) -> list[Any]:
        """One turn with our client: all that the CLI wrote."""
        async with asyncio.timeout(DEADLINE), Client(self._options(cli)) as client:
            await client.say("work")
            await client.wait_idle()
            assert client.last_turn is not None
            assert (client.last_turn.outcome, client.last_turn.text) == ("finished", "Done.")
            client.stop_reading()
            said = [json.loads(each.raw) async for each in client.read() if isinstance(each, Kept)]
            return self.alike(said)

    async def work_with_sdk(self, cli: Path) -> list[Any]:
        """One turn with the official SDK: its messages."""
        return self.alike(await self._run_sdk(str(cli), str(self.cwd)))

    async def parse_with_sdk(self, cassette: Cassette) -> list[Any]:
        """What the official SDK makes of the CLI's recorded lines."""
        there = cassette.header
        text = json.dumps(await self._run_sdk("-", str(cassette.path)))
        for old, new in ((there.cwd, self.cwd), (there.home, self.home)):
            text = text.replace(encoded_path(old), encoded_path(str(new))).replace(old, str(new))
        return self.alike(json.loads(text))

    async def _run_sdk(self, *arguments: str) -> list[Any]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(SDK_CLIENT),
            *arguments,
            env=self.env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(DEADLINE):
            output, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        return [json.loads(line) for line in output.splitlines()]

    def _options(self, cli: Path) -> Options:
        return Options(
            cli_path=cli,
            cwd=self.cwd,
            inherit_env=False,
            env=self.env,
            hooks=seeing(),
            on_permission=Handler(Allow()),
            on_question=Handler(Choose({"Which colour?": "Blue"})),
            mcp_servers={"ship": ToolServer([add], name="ship")},
            allowed_tools=["mcp__ship"],
        )

    def alike(self, messages: list[Any]) -> list[Any]:
        """Messages with ids in the order of their appearance, and no facts of the host."""
        text = json.dumps(messages)
        for folder, name in ((self.cwd, "CWD"), (self.home, "HOME")):
            text = text.replace(str(folder), name).replace(encoded_path(str(folder)), name)
        numbers: dict[str, str] = {}
        text = ID.sub(lambda found: numbers.setdefault(found[0], f"ID{len(numbers)}"), text)
        return json.loads(re.sub(r'"pid": \d+', '"pid": 1', text))


def seeing() -> Hooks:
    hooks = Hooks()

    @hooks.on(PreToolUseHookInput, matcher="Bash")
    async def see(event: PreToolUseHookInput) -> Any:
        return {"systemMessage": "seen"}

    return hooks


async def recorded(desk: OpenDesk, tmp_path: Path) -> tuple[Room, Path, Path]:
    """A room with a model behind a real CLI, a launcher that records, and the cassette's path."""
    it = await desk(*REPLIES)
    room = Room(tmp_path, it.model.url)
    cassette = tmp_path / "talk.jsonl"
    launcher = write_launcher(tmp_path / "bin", [CACHE / it.version / "claude"], cassette)
    return room, launcher, cassette


@newest
async def test_a_session_of_our_client_replays_to_it_and_to_the_official_sdk(
    desk: OpenDesk, tmp_path: Path
) -> None:
    room, launcher, cassette = await recorded(desk, tmp_path)
    live = await room.work(launcher)
    player = write_player(tmp_path / "bin", cassette)
    replay = await Room(tmp_path / "elsewhere").work(player)
    assert len(live) > 15
    assert replay == live
    other = Room(tmp_path / "of-the-sdk")
    replay = await other.work_with_sdk(player)
    parsed = await other.parse_with_sdk(read(cassette))
    assert replay[-1][0] == "ResultMessage"
    assert replay == parsed[: len(replay)]
    check_secrets(room, cassette)


@newest
async def test_a_session_of_the_official_sdk_replays_to_it_and_to_our_client(
    desk: OpenDesk, tmp_path: Path
) -> None:
    room, launcher, cassette = await recorded(desk, tmp_path)
    live = await room.work_with_sdk(launcher)
    player = write_player(tmp_path / "bin", cassette)
    replay = await Room(tmp_path / "elsewhere").work_with_sdk(player)
    assert live[-1][0] == "ResultMessage"
    assert replay == live
    replay = await Room(tmp_path / "ours").work(player)
    kinds = [message["type"] for message in replay]
    assert (kinds.count("assistant"), kinds.count("result")) == (4, 1)
    check_secrets(room, cassette)


def check_secrets(room: Room, cassette: Path) -> None:
    """That the cassette tells neither the key nor where it was recorded."""
    text = cassette.read_text()
    assert room.env["ANTHROPIC_API_KEY"] not in text
    assert str(room.home) not in text
    assert encoded_path(str(room.home)) not in text
