"""MCP servers of the simulator: in the client and as processes, and what they ask the user."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.scenario import ToolCall, reply, tool
from pilothouse_sim.simulator.mcp.results import Reader
from pilothouse_sim.simulator.tools.base import ToolFailure
from tests.support.sim.client import Message, sim_client

PIXEL = "iVBORw0KGgo="
CLERK = """
import json, os, sys
open("pid", "w").write(str(os.getpid()))
call = None
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, own = message.get("method"), message.get("id")
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        send(id=own, result={"protocolVersion": version, "capabilities": {"tools": {}},
                             "serverInfo": {"name": "clerk", "version": "1"}})
    elif method == "tools/list":
        names = ("sign", "shout", "leave")
        send(id=own, result={"tools": [{"name": name, "inputSchema": {}} for name in names]})
    elif method == "tools/call" and message["params"]["name"] == "leave":
        sys.exit(3)
    elif method == "tools/call" and message["params"]["name"] == "shout":
        text = message["params"]["arguments"]["words"].upper()
        send(id=own, result={"content": [{"type": "text", "text": text}]})
    elif method == "tools/call":
        call = own
        send(id="ask", method="elicitation/create",
             params={"message": "Your name?", "requestedSchema": {"properties": {"name": {}}}})
    elif own == "ask":
        content = [{"type": "text", "text": json.dumps(message["result"])}]
        send(id=call, result={"content": content})
"""


def allow(request: Message) -> Message:
    return {"behavior": "allow", "updatedInput": request["input"]}


def words(*texts: str) -> list[Message]:
    return [{"type": "text", "text": text} for text in texts]


def calc(result: Message | None) -> Callable[[Message], Message | None]:
    """A server in the client, with one tool that gives this back, or never answers."""

    def serve(request: Message) -> Message | None:
        message = request["message"]
        if "id" not in message:
            return {}
        found: dict[str, Any] = {
            "initialize": {"serverInfo": {"name": "calculator"}, "capabilities": {"tools": {}}},
            "tools/list": {"tools": [{"name": "add", "annotations": {"readOnlyHint": True}}]},
            "tools/call": result,
        }
        answer = found[message["method"]]
        return answer and {
            "mcp_response": {"jsonrpc": "2.0", "id": message["id"], "result": answer}
        }

    return serve


ADD = ToolCall(name="mcp__calc__add", input={"a": 2, "b": 3})


def methods(client: Any) -> list[str]:
    return [request["message"]["method"] for request in client.requests("mcp_message")]


def clerk(place: Path, **more: Any) -> str:
    """The flag that names a server which is a process."""
    path = place / "clerk.py"
    path.write_text(CLERK)
    entry = {"command": sys.executable, "args": [str(path)], **more}
    return f"--mcp-config={json.dumps({'mcpServers': {'clerk': entry}})}"


# In the client


async def test_a_server_in_the_client_is_greeted_and_its_tool_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # H8
    answers = {"mcp_message": calc({"content": words("5")}), "can_use_tool": allow}
    async with sim_client(
        tmp_path, monkeypatch, reply(ADD), reply("5."), answers=answers
    ) as client:
        await client.control("initialize", sdkMcpServers=["calc"])
        await client.ask("Add.")
    steps = ["initialize", "notifications/initialized", "tools/list", "tools/call"]
    assert methods(client) == steps
    messages = [request["message"] for request in client.requests("mcp_message")]
    assert [message.get("id") for message in messages] == [0, None, 1, 2]
    [init] = [line for line in client.lines if line.get("subtype") == "init"]
    assert init["mcp_servers"] == [{"name": "calc", "status": "connected", "source": "sdk"}]
    assert "mcp__calc__add" in init["tools"]
    assert client.results() == [words("5")]


async def test_the_first_message_to_a_server_comes_before_the_answer_to_initialize(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # H8
    answers = {"mcp_message": calc({})}
    async with sim_client(tmp_path, monkeypatch, answers=answers) as client:
        await client.control("initialize", sdkMcpServers=["calc"])
        kinds = client.kinds()
        await client.until(lambda _: "tools/list" in methods(client))
    assert kinds[0] == "control_request"


async def test_a_question_about_a_tool_names_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # B1
    answers = {"mcp_message": calc({"content": []}), "can_use_tool": allow}
    async with sim_client(
        tmp_path, monkeypatch, reply(ADD), reply("5."), answers=answers
    ) as client:
        await client.control("initialize", sdkMcpServers=["calc"])
        await client.ask("Add.")
    [asked] = client.requests("can_use_tool")
    assert asked["mcp_server"] == {"name": "calc", "source": "sdk"}
    assert asked["display_name"] == "Add"
    [meta] = [line["tool_use_meta"] for line in client.lines if "tool_use_meta" in line]
    assert meta[0]["server_display_name"] == "calculator"


async def test_an_interrupt_tells_the_server_and_withdraws_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # H13
    answers = {"mcp_message": calc(None), "can_use_tool": allow}
    async with sim_client(tmp_path, monkeypatch, reply(ADD), answers=answers) as client:
        await client.control("initialize", sdkMcpServers=["calc"])
        asking = asyncio.create_task(client.ask("Add."))
        await client.until(lambda _: "tools/call" in methods(client))
        await client.control("interrupt")
        await asking
    assert methods(client)[-1] == "notifications/cancelled"
    assert "control_cancel_request" not in client.kinds()


async def test_servers_are_turned_off_and_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # C10
    answers = {"mcp_message": calc({})}
    async with sim_client(tmp_path, monkeypatch, reply("Hello."), answers=answers) as client:
        await client.control("initialize", sdkMcpServers=["calc"])
        await client.ask("Say hello.")
        await client.control("mcp_toggle", serverName="calc", enabled=False)
        off = await client.control("mcp_status")
        await client.control("mcp_toggle", serverName="calc", enabled=True)
        again = await client.control("mcp_status")
        missing = await client.control("mcp_toggle", serverName="none", enabled=True)
    assert off["response"]["mcpServers"][0]["status"] == "disabled"
    assert again["response"]["mcpServers"][0]["status"] == "connected"
    assert missing["error"] == "Server not found: none"


# Processes


async def test_a_server_that_is_a_process_is_started_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = (clerk(tmp_path),)
    scene = (
        reply(tool("mcp__clerk__shout", words="hey")),
        reply(tool("mcp__clerk__leave")),
        reply(tool("mcp__clerk__shout", words="again")),
        reply("Done."),
    )
    answers = {"can_use_tool": allow}
    async with sim_client(tmp_path, monkeypatch, *scene, flags=flags, answers=answers) as client:
        await client.ask("Shout.")
    assert client.results() == [words("HEY"), "Connection closed", words("AGAIN")]
    last = int((tmp_path / "project" / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(last, 0)


async def test_a_server_that_cannot_be_started_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = (clerk(tmp_path, command="/no/such/command"),)
    async with sim_client(tmp_path, monkeypatch, reply("Hello."), flags=flags) as client:
        await client.ask("Say hello.")
        status = await client.control("mcp_status")
    [entry] = status["response"]["mcpServers"]
    assert (entry["status"], entry["error"][:7]) == ("failed", "ENOENT:")


async def test_a_server_behind_the_network_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"type": "http", "url": "http://127.0.0.1:9/mcp"}
    flags = (f"--mcp-config={json.dumps({'mcpServers': {'web': entry}})}",)
    async with sim_client(tmp_path, monkeypatch, reply("Hello."), flags=flags) as client:
        await client.ask("Say hello.")
        status = await client.control("mcp_status")
    assert status["response"]["mcpServers"][0]["status"] == "failed"


@pytest.mark.parametrize(
    "answer", [{"action": "accept", "content": {"name": "Ann"}}, {"action": "decline"}]
)
async def test_what_a_server_asks_the_user_is_answered_by_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Message
) -> None:
    # H10
    flags = (clerk(tmp_path),)
    answers = {
        "can_use_tool": allow,
        "elicitation": lambda _: answer,
        "hook_callback": lambda _: {},
    }
    scene = reply(tool("mcp__clerk__sign")), reply("Signed.")
    hooks = {
        event: [{"hookCallbackIds": [event]}]
        for event in ("Elicitation", "ElicitationResult", "Notification")
    }
    async with sim_client(tmp_path, monkeypatch, *scene, flags=flags, answers=answers) as client:
        await client.control("initialize", hooks=hooks)
        await client.ask("Sign it.")
    [asked] = client.requests("elicitation")
    assert (asked["mcp_server_name"], asked["property_order"]) == ("clerk", ["name"])
    assert json.loads(client.results()[0][0]["text"]) == answer
    assert client.hooks() == ["Elicitation", "ElicitationResult", "Notification"]


# Results


def read(place: Path, result: Message) -> Any:
    return Reader("calc", "add", "mcp__calc__add", place).outcome(result)


def test_an_error_of_the_tool_is_a_failure_in_its_words(tmp_path: Path) -> None:
    with pytest.raises(ToolFailure, match=r"^It broke\.\nBadly\.$"):
        read(tmp_path, {"content": words("It broke.", "Badly."), "isError": True})
    with pytest.raises(ToolFailure, match="Unknown error"):
        read(tmp_path, {"content": [], "isError": True})


def test_structured_content_stands_in_for_the_rest(tmp_path: Path) -> None:
    outcome = read(tmp_path, {"content": words("five"), "structuredContent": {"total": 5}})
    assert outcome.content == '{"total":5}'
    assert outcome.result == {"content": '{"total":5}', "structuredContent": {"total": 5}}


def test_nothing_is_told_as_nothing(tmp_path: Path) -> None:
    outcome = read(tmp_path, {"content": []})
    assert outcome.content == "(mcp__calc__add completed with no output)"
    assert outcome.result == []


def test_an_image_is_shown_and_kept(tmp_path: Path) -> None:
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    outcome = read(tmp_path, {"content": [image]})
    assert outcome.content[0]["source"]["data"] == PIXEL
    [kept] = tmp_path.iterdir()
    assert outcome.content[1]["text"] == f"[Image: source: {kept}]"


def test_resources_become_words(tmp_path: Path) -> None:
    inside = {"type": "resource", "resource": {"uri": "note://1", "text": "A note."}}
    link = {"type": "resource_link", "uri": "note://2", "name": "second"}
    outcome = read(tmp_path, {"content": [inside, link]})
    texts = [block["text"] for block in outcome.content]
    assert texts == [
        "[Resource from calc at note://1] A note.",
        "[Resource link: second] note://2",
    ]
    assert outcome.result["resourceLinks"] == [{"uri": "note://2", "name": "second"}]


def test_what_is_too_big_for_the_model_goes_into_a_file(tmp_path: Path) -> None:
    outcome = read(tmp_path, {"content": words("word " * 60_000)})
    [kept] = tmp_path.iterdir()
    assert kept.read_text() == "word " * 60_000
    assert "(300,000 characters across 1 line)" in outcome.content
