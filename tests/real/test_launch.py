"""From options to a running CLI: long arguments, sessions, environments, old CLIs, rich prompts."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pilothouse import (
    Client,
    CLINotStarted,
    InitMessage,
    SessionEnded,
    document,
    image,
)
from pilothouse.client.launch import ENCLOSING_SESSION
from pilothouse_sim.scenario import ModelRequest, reply, tool
from tests.support.places import PROGRAMS
from tests.support.processes import showing
from tests.support.real.desk import Desk, OpenDesk
from tests.support.real.turns import allow, next_of
from tests.support.versions import EVERY, NEWEST, Since, before, can
from tests.support.waiting import DEADLINE

LONG = "The wind blows from the north. " * 6_600
"""Some 200 kB: more than one argument of a command line can hold."""

PROTOCOL = [
    "--print",
    "--output-format=stream-json",
    "--input-format=stream-json",
    "--verbose",
    "--replay-user-messages",
]
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = b"%PDF-1.1\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n%%EOF\n"


NOTING = """#!/bin/sh
printf '%s\\0' "$@" > "{note}"
exec "{cli}" "$@"
"""


async def _noting(it: Desk, **given: Any) -> tuple[Client, list[str]]:
    """A client of a CLI, and the arguments that were given to it.

    /proc does not have them where the CLI is run by Node, which writes its title over them.
    """
    options = it.options(**given)
    program, note = it.home / "noting", it.home / "arguments"
    program.write_text(NOTING.format(note=note, cli=options.cli_path))
    program.chmod(0o755)
    client = Client(replace(options, cli_path=program))
    await it.stack.enter_async_context(client)
    return client, note.read_text().split("\0")[:-1]


def _asked(it: Desk) -> list[ModelRequest]:
    return [request for request in it.model.requests if not request.is_aside]


async def _tool_environment(it: Desk, client: Client) -> dict[str, str]:
    async with asyncio.timeout(DEADLINE):
        await client.ask("show the environment")
    pairs = (it.cwd / "seen").read_text().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if pair)


SHOW = tool("Bash", command="env -0 > seen", description="show the environment")


# What is passed


async def test_without_options_a_cli_gets_the_flags_of_the_protocol_and_nothing_else(
    desk: OpenDesk,
) -> None:
    it = await desk()
    client, arguments = await _noting(it)
    assert arguments == [*PROTOCOL, f"--session-id={client.session_id}"]


@pytest.mark.parametrize("option", ["system_prompt", "append_system_prompt"])
async def test_a_long_system_prompt_arrives_at_the_model(desk: OpenDesk, option: str) -> None:
    it = await desk(reply("hello"))
    given: dict[str, Any] = {option: LONG + "It ends here."}
    client, arguments = await _noting(it, **given)
    async with asyncio.timeout(DEADLINE):
        await client.ask("hi")
    [asked] = _asked(it)
    assert given[option] in asked.system
    assert ("You are an" in asked.system.replace(LONG, "")) == (option != "system_prompt")
    assert sum(map(len, arguments)) < 2_000


async def test_long_settings_arrive(desk: OpenDesk) -> None:
    it = await desk(reply(SHOW), reply("done"))
    settings = {"env": {"WIND": "north", "TALE": LONG[:100_000], "OTHER": LONG[:20_000]}}
    client = await it.client(settings=settings, on_permission=allow)
    seen = await _tool_environment(it, client)
    assert seen["WIND"] == "north"
    assert seen["TALE"] == settings["env"]["TALE"]


async def test_a_long_mcp_configuration_arrives(desk: OpenDesk) -> None:
    it = await desk(reply("hello"))
    parrot = {
        "type": "stdio",
        "command": sys.executable,
        "args": [str(PROGRAMS / "parrot.py")],
        "env": {f"TALE{number}": LONG[:60_000] for number in range(4)},
    }
    client, arguments = await _noting(it, mcp_servers={"parrot": parrot})
    async with asyncio.timeout(DEADLINE):
        await client.ask("hi")
        [status] = (await client.mcp_status()).servers
    assert (status.name, status.status) == ("parrot", "connected")
    assert sum(map(len, arguments)) < 2_000


@pytest.mark.versions(NEWEST, "2.1.37")
async def test_headers_and_variables_of_servers_arrive_and_are_in_no_command_line(
    desk: OpenDesk,
) -> None:
    it = await desk(reply("hello"))
    secret = f"hush-{os.getpid()}"
    parrot = [sys.executable, str(PROGRAMS / "parrot.py")]
    async with asyncio.timeout(DEADLINE), _web_server() as (url, headers):
        local = {
            "type": "stdio",
            "command": "sh",
            "args": ["-c", 'printf %s "$SONG" > song; exec "$@"', "sh", *parrot],
            "env": {"SONG": secret},
        }
        web = {"type": "http", "url": url, "headers": {"X-Song": secret}}
        client = await it.client(
            mcp_servers={"local": local, "web": web}, settings={"env": {"KEY": secret}}
        )
        await client.ask("hi")
        assert showing(secret) == []
        while await _unconnected(client):  # noqa: ASYNC110 - no CLI tells of it
            await asyncio.sleep(0.05)
    assert (it.cwd / "song").read_text() == secret
    assert f"x-song: {secret}" in headers[0].lower()


async def _unconnected(client: Client) -> bool:
    """Newer CLIs begin without waiting for servers."""
    servers = (await client.mcp_status()).servers
    return len(servers) != 2 or any(each.status != "connected" for each in servers)


@asynccontextmanager
async def _web_server() -> AsyncIterator[tuple[str, list[str]]]:
    """An MCP server without tools, and the headers of what it was asked."""
    heads: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        heads.append(head)
        length = re.search(r"(?i)^content-length: (\d+)", head, re.MULTILINE)
        body = await reader.readexactly(int(length[1]) if length else 0)
        status, data = _web_answer(body)
        told = f"content-type: application/json\r\ncontent-length: {len(data)}"
        writer.write(f"HTTP/1.1 {status} x\r\n{told}\r\nconnection: close\r\n\r\n".encode() + data)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", heads


def _web_answer(body: bytes) -> tuple[int, bytes]:
    if not body:
        return 405, b""
    asked = json.loads(body)
    if "id" not in asked:
        return 202, b""
    if asked["method"] not in ANSWERS:
        error = {"code": -32601, "message": "no such method"}
        return 200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}).encode()
    result = ANSWERS[asked["method"]]
    return 200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()


ANSWERS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-03-26",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "web", "version": "1"},
    },
    "tools/list": {"tools": []},
}


async def test_a_long_agent_and_a_long_schema_arrive(desk: OpenDesk) -> None:
    schema = {
        "type": "object",
        "properties": {"course": {"type": "string", "description": LONG}},
        "required": ["course"],
        "additionalProperties": False,
    }
    it = await desk(reply(tool("StructuredOutput", course="north")), reply("done"))
    agents = {"lookout": {"description": "Looks out. " + LONG, "prompt": LONG}}
    client = await it.client(agents=agents, json_schema=schema)
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("which course?")
        init = await next_of(client, InitMessage)
        turn = await prompt
    assert "lookout" in init.agents
    # A structured result of the shape that was asked for.
    assert turn.structured_output == {"course": "north"}
    asked = json.dumps(_asked(it)[0].body)
    assert LONG in asked
    [output] = [each for each in _asked(it)[0].body["tools"] if each["name"] == "StructuredOutput"]
    assert output["input_schema"]["properties"]["course"]["description"] == LONG


async def test_the_files_of_a_start_are_removed_at_its_end(desk: OpenDesk) -> None:
    it = await desk(reply("hello"))
    client, arguments = await _noting(it, system_prompt=LONG)
    [flag] = [part for part in arguments if part.startswith("--system-prompt-file=")]
    path = Path(flag.partition("=")[2])
    there = os.path.exists(path)  # noqa: ASYNC240, PTH110
    mode = path.parent.stat().st_mode & 0o777
    await client.aclose()
    assert (there, os.path.exists(path.parent)) == (True, False)  # noqa: ASYNC240, PTH110
    assert mode == 0o700


# Sessions


async def test_the_session_is_known_before_the_cli_starts(desk: OpenDesk) -> None:
    # A5
    it = await desk(reply("hello"))
    client = await it.client()
    chosen = client.session_id
    async with asyncio.timeout(DEADLINE):
        await client.say("hi")
        init = await next_of(client, InitMessage)
        await client.wait_idle()
        await client.aclose()
    assert init.session_id == chosen == client.session_id
    transcripts = list((it.home / ".claude/projects").rglob("*.jsonl"))
    assert str(chosen) in {path.stem for path in transcripts}


# The environment


async def test_the_tools_of_a_cli_see_what_the_options_gave(desk: OpenDesk, version: str) -> None:
    # A28
    it = await desk(reply(SHOW), reply("done"))
    client = await it.client(on_permission=allow, env={"FLAVOUR": "salty"})
    seen = await _tool_environment(it, client)
    assert seen["FLAVOUR"] == "salty"
    assert seen["CLAUDECODE"] == "1"
    # Left alone, every CLI gives itself this name; another one changes which tools it offers.
    assert seen["CLAUDE_CODE_ENTRYPOINT"] == "sdk-cli"
    told = {name for name in seen if name.startswith(("CLAUDE", "AI_AGENT"))}
    ours = {"CLAUDE_AGENT_SDK_CLIENT_APP", "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"}
    given = {*client.options.env, *ours}
    assert told - given <= ENCLOSING_SESSION
    of_session = {"CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID", "CLAUDE_PID"}
    assert (of_session <= told) == can(version, Since.NAMES_SESSION_TO_TOOLS)


async def test_a_session_within_a_session_takes_nothing_of_it_for_its_own(
    desk: OpenDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await desk(reply(SHOW), reply("done"))
    for name in os.environ:
        monkeypatch.delenv(name)
    for name in ENCLOSING_SESSION:
        monkeypatch.setenv(name, "of the enclosing session")
    for name, value in it.options().env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FLAVOUR", "sweet")
    monkeypatch.setenv("KEPT", "yes")
    options = it.options(on_permission=allow)
    inheriting = type(options)(
        cli_path=options.cli_path,
        cwd=options.cwd,
        env={"FLAVOUR": "salty"},
        on_permission=allow,
    )
    client = await it.stack.enter_async_context(Client(inheriting))
    seen = await _tool_environment(it, client)
    assert (seen["FLAVOUR"], seen["KEPT"]) == ("salty", "yes")
    assert "of the enclosing session" not in seen.values()


async def test_another_entry_point_changes_what_a_cli_offers(desk: OpenDesk, version: str) -> None:
    # A27. Why none is set: a name they do not know costs some CLIs their search tools.
    it = await desk(reply("one"), reply("two"))
    offered: list[tuple[set[str], set[str]]] = []
    for env in ({}, {"CLAUDE_CODE_ENTRYPOINT": "sdk-unheard-of"}):
        client = await it.client(env=env)
        async with asyncio.timeout(DEADLINE):
            await client.say("hi")
            init = await next_of(client, InitMessage)
            await client.wait_idle()
        offered.append((set(init.tools), set(init.agents)))
    (tools, agents), (other_tools, other_agents) = offered
    has_search_tools = not can(version, Since.LACKS_SEARCH_TOOLS)
    is_at_cost = has_search_tools and can(version, Since.HIDES_SEARCH_TOOLS)
    assert tools - other_tools == ({"Glob", "Grep"} if is_at_cost else set())
    assert other_agents - agents == {"claude-code-guide"}


# What an old CLI does not know


NEW_FLAGS: dict[str, tuple[dict[str, Any], Since | None]] = {
    "--effort": ({"effort": "low"}, Since.TAKES_EFFORT),
    "--include-hook-events": ({"include_hook_events": True}, Since.TELLS_OF_HOOKS),
    "--thinking": ({"thinking": "disabled"}, Since.TAKES_EFFORT),
    "--session-mirror": ({"session_mirror": True}, Since.MIRRORS_SESSIONS),
    "--no-such-flag": ({"extra_args": {"no-such-flag": None}}, None),
}


def _is_known(flag: str, version: str) -> bool:
    _, known = NEW_FLAGS[flag]
    return known is not None and can(version, known)


async def test_the_flags_a_cli_knows_do_no_harm(desk: OpenDesk, version: str) -> None:
    it = await desk(reply("hello"))
    known = [given for flag, (given, _) in NEW_FLAGS.items() if _is_known(flag, version)]
    client = await it.client(**{name: value for given in known for name, value in given.items()})
    async with asyncio.timeout(DEADLINE):
        assert (await client.ask("hi")).text == "hello"


@pytest.mark.parametrize(
    ("version", "flag"),
    [(version, flag) for flag in NEW_FLAGS for version in EVERY if not _is_known(flag, version)],
    indirect=["version"],
)
async def test_a_flag_a_cli_does_not_know_is_told_in_its_own_words(
    desk: OpenDesk, flag: str
) -> None:
    given, _ = NEW_FLAGS[flag]
    complaint = f"unknown option '{flag}"
    it = await desk(reply("hello"))
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(SessionEnded) as caught:
            await it.client(**given)
    assert caught.value.exit_code == 1
    assert complaint in caught.value.stderr_tail
    assert complaint in str(caught.value)


@before(Since.LIMITS_PROMPTS)
async def test_options_no_older_cli_knows_are_told_in_its_own_words(desk: OpenDesk) -> None:
    it = await desk()
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(SessionEnded, match="unknown option '--permission-prompts"):
            await it.client(permission_prompts="none")


async def test_a_program_that_cannot_run_is_not_started(desk: OpenDesk) -> None:
    it = await desk()
    broken = it.home / "claude"
    broken.write_bytes(b"\x7fELF nothing more")
    broken.chmod(0o755)
    options = it.options()
    for cli, cwd in ((broken, it.cwd), (options.cli_path, it.cwd / "nowhere")):
        async with asyncio.timeout(DEADLINE):
            with pytest.raises(CLINotStarted, match=r"claude"):
                await Client(type(options)(cli_path=cli, cwd=cwd)).connect()


# What is said


async def test_images_and_documents_arrive_at_the_model(desk: OpenDesk) -> None:
    # A15
    it = await desk(reply("I see"))
    chart = it.home / "chart.png"
    chart.write_bytes(PNG)
    log = it.home / "log.txt"
    log.write_text("Day 1: fair wind.")
    client = await it.client()
    prompt = [
        "What is this?",
        image(chart),
        image(PNG, "image/png"),
        document(PDF, "application/pdf", title="The charter"),
        document(log),
    ]
    async with asyncio.timeout(DEADLINE):
        assert (await client.ask(prompt)).text == "I see"
    content = _asked(it)[0].body["messages"][0]["content"]
    images = [each for each in content if each["type"] == "image"]
    pdf, text = (each for each in content if each["type"] == "document")
    assert [each["source"]["media_type"] for each in images] == ["image/png"] * 2
    assert all(base64.b64decode(each["source"]["data"])[:4] == b"\x89PNG" for each in images)
    assert (base64.b64decode(pdf["source"]["data"]), pdf["title"]) == (PDF, "The charter")
    assert text["source"]["data"] == "Day 1: fair wind."
    assert any(each.get("text") == "What is this?" for each in content)
