"""Lines a client never writes, and lines it never sees alone: what real CLIs make of them.

Nothing of the client stands between these tests and the CLI's pipes.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pilothouse_sim.real_cli import environment
from pilothouse_sim.scenario import Scenario, reply, tool
from tests.support.raw_cli import ARGUMENTS, Message, RawCli, allow
from tests.support.real.desk import OpenDesk
from tests.support.versions import CACHE, Since, can
from tests.support.waiting import DEADLINE

TOUCH = tool("Bash", command="touch made", description="make it")

Answer = Callable[[Message], Message | None]


def started(version: str, *replies: Any, arguments: tuple[str, ...] = (), **more: Any) -> RawCli:
    scenario = Scenario(replies=list(replies))
    return RawCli(CACHE / version / "claude", scenario, *arguments, **more)


SILENCE = 5.0
"""Seconds after which a CLI that lives and has not answered is taken to be mute."""


def body(response: Message | None) -> Message:
    """The inner part of a response that came."""
    assert response is not None
    return response["response"]


async def asked(cli: RawCli) -> Message:
    """The next request for a permission."""
    request = await cli.until(lambda line: line["type"] == "control_request")
    assert request is not None
    assert request["request"]["subtype"] == "can_use_tool"
    return request


async def finished(cli: RawCli) -> str:
    """The text of the next result."""
    result = await cli.result()
    assert result is not None
    return result["result"]


# Answers to a permission request


async def test_an_answer_outside_of_the_envelope_is_none(version: str) -> None:
    # B4
    async with asyncio.timeout(DEADLINE), started(version, reply(TOUCH), reply("Made.")) as cli:
        cli.prompt("make it")
        request = await asked(cli)
        own, given = request["request_id"], request["request"]["input"]
        astray = {"subtype": "allow", "updatedInput": given}
        cli.send({"type": "control_response", "request_id": own, "response": astray})
        # A round trip: by now it has been read.
        assert await cli.control("mcp_status") is not None
        assert not (cli.cwd / "made").exists()
        cli.respond(own, {"behavior": "allow", "updatedInput": given})
        assert await finished(cli) == "Made."
        assert (cli.cwd / "made").exists()


async def test_an_envelope_of_another_kind_denies(version: str) -> None:
    # B4
    async with asyncio.timeout(DEADLINE), started(version, reply(TOUCH), reply("Then not.")) as cli:
        cli.prompt("make it")
        request = await asked(cli)
        answer = {"subtype": "allow", "request_id": request["request_id"]}
        answer["updatedInput"] = request["request"]["input"]
        cli.send({"type": "control_response", "response": answer})
        assert await finished(cli) == "Then not."
        assert not (cli.cwd / "made").exists()


async def test_a_wrong_tool_use_id_in_an_answer_does_no_harm(version: str) -> None:
    # B6
    async with asyncio.timeout(DEADLINE), started(version, reply(TOUCH), reply("Made.")) as cli:
        cli.prompt("make it")
        request = await asked(cli)
        given = allow(request["request"]) | {"toolUseID": "toolu_of_nobody"}
        cli.respond(request["request_id"], given)
        assert await finished(cli) == "Made."
        assert (cli.cwd / "made").exists()


async def test_the_answers_of_the_host_come_back_with_the_echoes(version: str) -> None:
    # A20
    arguments = ("--replay-user-messages",)
    cli = started(version, reply(TOUCH), reply("Made."), arguments=arguments)
    async with asyncio.timeout(DEADLINE), cli:
        cli.prompt("make it")
        request = await asked(cli)
        cli.respond(request["request_id"], allow(request["request"]))
        echo = await cli.until(lambda line: line["type"] == "control_response")
        assert body(echo)["request_id"] == request["request_id"]
        assert body(echo)["response"]["behavior"] == "allow"
        assert await finished(cli) == "Made."


# The first control request


@pytest.mark.parametrize("hooks", [{"PreToolUse": ["id"]}, {"PreToolUse": "id"}])
async def test_hooks_in_another_form_are_refused_and_end_older_clis(
    version: str, hooks: Message
) -> None:
    # C2
    async with asyncio.timeout(DEADLINE), started(version, reply("Hello.")) as cli:
        is_refused = can(version, Since.REFUSES_ODD_HOOKS)
        is_mute = can(version, Since.OUTLIVES_ODD_HOOKS) and not is_refused
        answer = await cli.control("initialize", hooks=hooks, wait=SILENCE if is_mute else DEADLINE)
        if not is_refused:
            assert (answer, cli.seen) == (None, [])
            assert (cli.process.returncode if is_mute else await cli.process.wait()) == (
                None if is_mute else 0
            )
            return
        assert body(answer)["subtype"] == "error"
        assert "hookCallbackIds" in body(answer)["error"]
        cli.prompt("hi")
        assert await finished(cli) == "Hello."


async def test_unknown_events_may_be_registered(version: str) -> None:
    # H12
    answers: dict[str, Answer] = {"hook_callback": lambda _: {}}
    async with (
        asyncio.timeout(DEADLINE),
        started(version, reply("Hello."), answers=answers) as cli,
    ):
        matcher = [{"hookCallbackIds": ["unheard"]}], [{"hookCallbackIds": ["heard"]}]
        hooks = {"NoSuchEvent": matcher[0], "UserPromptSubmit": matcher[1]}
        assert body(await cli.control("initialize", hooks=hooks))["subtype"] == "success"
        cli.prompt("hi")
        assert await finished(cli) == "Hello."
        called = [each["request"]["callback_id"] for each in requests(cli, "hook_callback")]
        assert called == ["heard"]


def requests(cli: RawCli, subtype: str) -> list[Message]:
    """What the CLI has asked of this kind."""
    return [
        line
        for line in cli.seen
        if line["type"] == "control_request" and line["request"]["subtype"] == subtype
    ]


async def test_members_the_cli_does_not_know_are_ignored(version: str) -> None:
    # C3, C5: the name is `sdkMcpServers`, and any other is just a member nobody knows.
    async with asyncio.timeout(DEADLINE), started(version, reply("Hello.")) as cli:
        given = {"sdk_mcp_servers": ["ship"], "no_such_member": {"a": [1]}}
        assert body(await cli.control("initialize", **given))["subtype"] == "success"
        cli.prompt("hi")
        assert await finished(cli) == "Hello."
        assert requests(cli, "mcp_message") == []
        assert body(await cli.control("mcp_status"))["response"]["mcpServers"] == []


async def test_an_id_inside_of_the_request_is_not_answered_to(version: str) -> None:
    # C4
    async with asyncio.timeout(DEADLINE), started(version, reply("Hello.")) as cli:
        request = {"subtype": "set_permission_mode", "mode": "plan", "request_id": "inside"}
        cli.send({"type": "control_request", "request": request})
        answer = body(await cli.until(lambda line: line["type"] == "control_response"))
        assert (answer["subtype"], answer.get("request_id")) == ("success", None)
        cli.prompt("hi")
        await finished(cli)
        [init] = [each for each in cli.seen if each.get("subtype") == "init"]
        assert init["permissionMode"] == "plan"


# In-process servers


def serve(request: Message) -> Message:
    """A server with one tool."""
    message = request["message"]
    results = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "ship", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "wave", "inputSchema": {"type": "object"}}]},
    }
    result = results.get(message["method"], {})
    return {"mcp_response": {"jsonrpc": "2.0", "id": message.get("id", 0), "result": result}}


async def test_a_server_named_twice_is_greeted_twice_by_older_clis(version: str) -> None:
    # C20
    config = json.dumps({"mcpServers": {"ship": {"type": "sdk", "name": "ship"}}})
    cli = started(
        version,
        reply("Hello."),
        arguments=(f"--mcp-config={config}",),
        answers={"mcp_message": serve},
    )
    async with asyncio.timeout(DEADLINE), cli:
        assert await cli.control("initialize", sdkMcpServers=["ship"]) is not None
        cli.prompt("hi")
        assert await finished(cli) == "Hello."
        methods = Counter(
            each["request"]["message"]["method"] for each in requests(cli, "mcp_message")
        )
        assert methods["initialize"] == (1 if can(version, Since.GREETS_SERVERS_ONCE) else 2)


# Pipes


async def test_a_cli_runs_on_when_nobody_reads_it_any_more(desk: OpenDesk, version: str) -> None:
    # D11
    it = await desk(reply("one"), reply("two"))
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(
        CACHE / version / "claude",
        *ARGUMENTS,
        cwd=it.cwd,
        env=environment(it.home, it.model.url),
        stdin=asyncio.subprocess.PIPE,
        stdout=writing,
        stderr=asyncio.subprocess.DEVNULL,
    )
    it.stack.push_async_callback(ended, process)
    os.close(writing)
    assert process.stdin is not None
    async with asyncio.timeout(DEADLINE):
        for number, words in enumerate(("1", "2"), 1):
            prompt = {"type": "user", "message": {"role": "user", "content": words}}
            process.stdin.write(json.dumps(prompt).encode() + b"\n")
            await it.model.asked(number)
            if number == 1:
                os.close(reading)
        assert process.returncode is None


async def ended(process: asyncio.subprocess.Process) -> None:
    process.kill()
    await process.communicate()
