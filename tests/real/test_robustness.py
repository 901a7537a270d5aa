"""What is written to a CLI's stdin: nothing the client can say ends one, and what would is known.

Old CLIs exit on a blank line and on any type of message they do not know; every CLI exits on what
is no JSON. The first tests show what the client writes instead, the last ones that those lines
are as deadly as they are said to be.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing
from typing import Any

import pytest

from pilothouse import (
    Allow,
    Client,
    ControlError,
    Deny,
    Hooks,
    PermissionRequest,
    SessionEnded,
    UsageError,
)
from pilothouse.client.launch import prepare
from pilothouse.transport import StdioTransport
from pilothouse_sim.scenario import Raw, Step, gate, reply, text, tool
from tests.support.real.desk import Desk, OpenDesk
from tests.support.versions import EVERY, Since, can
from tests.support.waiting import DEADLINE

ODD_TEXTS = [
    "naïve ☕ 🚢 日本語 \N{ZERO WIDTH JOINER}",
    "line one\nline two\r\nline three\rline four",
    "separators \u2028 \u2029 \x85 \x0b \x0c and \x00 \x1b[31m \x7f",
    'quotes " \\ \\" and {"type":"user"}\n{"type":"unknown"}\n',
    "a lone \ud83d half",
]
CLIENT_TYPES = {
    "control_request",
    "control_response",
    "keep_alive",
    "update_environment_variables",
    "user",
}


class Tap(StdioTransport):
    """A real CLI's stdin and stdout, with all that was written to it kept."""

    written = b""

    def write(self, data: bytes) -> None:
        self.written += data
        super().write(data)


async def tapped(it: Desk, **given: Any) -> tuple[Client, Tap]:
    options = it.options(**given)
    launch = prepare(options)
    tap = Tap(launch.argv, cwd=launch.cwd, env=launch.env)
    return await it.stack.enter_async_context(Client(options, transport=tap)), tap


async def test_all_kinds_of_traffic_leave_every_cli_alive(
    desk: OpenDesk, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    # G1-G8, B15, C14
    # The handler's half surrogate would be logged, and no report of a test worker can carry it.
    caplog.set_level(logging.CRITICAL, logger="pilothouse")
    it = await desk(
        reply("one"),
        reply(tool("Bash", command="touch allowed")),
        reply(tool("Bash", command="touch denied")),
        reply(tool("Bash", command="touch broken")),
        reply("two"),
        reply("held", gate("held")),
        reply("the end"),
    )

    async def decide(request: PermissionRequest) -> Allow | Deny:
        if "broken" in request.input["command"]:
            raise RuntimeError("a handler with a fault \ud83d in it")
        return Allow() if "allowed" in request.input["command"] else Deny("no \u2028 thanks")

    hooks = Hooks()

    @hooks.on("PreToolUse")
    async def watch(_: Any) -> None:
        return None

    client, tap = await tapped(it, on_permission=decide, hooks=hooks)
    async with asyncio.timeout(DEADLINE):
        client.keep_alive()
        assert (await client.ask("hello")).text == "one"
        assert (await client.ask("use tools")).text == "two"
        if not can(version, Since.KEEPS_ITS_ENVIRONMENT):
            await client.update_environment({"FLAVOUR": "salty \ud83d"})
        await client.set_permission_mode("plan")
        await client.set_permission_mode("default")
        await client.set_model("sonnet")
        await client.set_model(None)
        await client.set_max_thinking_tokens(None)
        await client.mcp_status()
        await client.mcp_message("nobody", {"jsonrpc": "2.0", "method": "x"})
        for refused in (client.mcp_reconnect("nobody"), client.control("no_such_control")):
            with pytest.raises(ControlError):
                await refused
        prompt = await client.say("and stop")
        await it.model.reached("held")
        client.keep_alive()
        await client.interrupt()
        assert (await prompt).outcome == "interrupted"
        assert (await client.ask("still there?")).text == "the end"
    assert (it.cwd / "allowed").exists()
    assert not (it.cwd / "denied").exists()
    assert not (it.cwd / "broken").exists()
    _check_lines(tap.written)


def _check_lines(written: bytes) -> None:
    # G6: one JSON object a line, with nothing but a newline between them.
    assert written.endswith(b"\n")
    assert b"\r" not in written
    lines = written.removesuffix(b"\n").split(b"\n")
    messages = [json.loads(line) for line in lines]
    assert {message["type"] for message in messages} <= CLIENT_TYPES
    assert all("request" in each for each in messages if each["type"] == "control_request")


async def test_odd_texts_arrive_at_the_model_as_they_were_said(
    desk: OpenDesk, version: str
) -> None:
    # G5, G6, A29
    it = await desk(*(reply("ok") for _ in ODD_TEXTS))
    client, tap = await tapped(it)
    async with asyncio.timeout(DEADLINE):
        for number, words in enumerate(ODD_TEXTS, 1):
            assert (await client.ask(words)).outcome == "finished"
            heard = json.dumps(it.model.requests[number - 1].body["messages"])
            # Half of a surrogate pair is no character; newer CLIs replace it.
            is_mended = can(version, Since.MENDS_TEXT)
            kept = words.replace("\ud83d", "\ufffd") if is_mended else words
            said = json.dumps(kept)[1:-1]
            assert said in heard
    _check_lines(tap.written)


async def test_a_lone_surrogate_in_a_tools_input_is_echoed_unharmed(desk: OpenDesk) -> None:
    # B2: an answer carries the whole input, whatever the model put in it.
    it = await desk(reply(*_write("half.txt", r"half \ud83d here")), reply("written"))
    seen: list[str] = []

    async def decide(request: PermissionRequest) -> Allow:
        seen.append(request.input["content"])
        return Allow()

    client = await it.client(on_permission=decide)
    async with asyncio.timeout(DEADLINE):
        assert (await client.ask("write")).text == "written"
    [content] = seen
    assert content.startswith("half ")
    assert content.endswith(" here")
    assert (it.cwd / "half.txt").read_text() == "half \ufffd here"


def _write(name: str, escaped: str) -> list[Step]:
    """A call of Write, event by event: its input stands here as JSON text."""
    call = {"type": "tool_use", "id": "toolu_half", "name": "Write", "input": {}}
    given = f'{{"file_path": "{name}", "content": "{escaped}"}}'
    delta = {"type": "input_json_delta", "partial_json": given}
    return [
        Raw({"type": "content_block_start", "index": 0, "content_block": call}),
        Raw({"type": "content_block_delta", "index": 0, "delta": delta}),
        Raw({"type": "content_block_stop", "index": 0}),
    ]


@pytest.mark.parametrize("megabytes", [2, 20])
async def test_a_prompt_of_many_megabytes_arrives_whole(
    desk: OpenDesk, version: str, megabytes: int
) -> None:
    # A16: newer CLIs count the tokens themselves and do not send what no model would take.
    it = await desk(reply("long"), reply("short"))
    client = await it.client()
    words = "0123456789abcdef " * (megabytes * 1_000_000 // 17)
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask(words)
        if can(version, Since.COUNTS_TOKENS) and megabytes == 20:
            assert (turn.outcome, turn.text) == ("failed", "Prompt is too long")
            assert (await client.mcp_status()).servers == []
            return
        assert turn.text == "long"
        assert (await client.ask("again")).text == "short"
    assert words in it.model.requests[0].last


async def test_prompts_that_are_none_are_not_sent(desk: OpenDesk) -> None:
    # G1
    it = await desk(reply("fine"))
    client, tap = await tapped(it)
    before = tap.written
    async with asyncio.timeout(DEADLINE):
        for nothing in ("", []):
            with pytest.raises(UsageError):
                await client.say(nothing)
        assert tap.written == before
        assert (await client.ask("hi")).text == "fine"


# What ends a CLI

DEADLY: dict[str, tuple[bytes, Since | None]] = {
    "no JSON": (b"{nonsense\n", None),
    "null": (b"null\n", None),
    "user without message": (b'{"type":"user"}\n', None),
    "user of another role": (b'{"type":"user","message":{"role":"x","content":"y"}}\n', None),
    "control_request without a body": (b'{"type":"control_request","request_id":"1"}\n', None),
    "an empty line": (b"\n", Since.STANDS_UNKNOWN_LINES),
    "blanks": (b"  \n", Since.STANDS_BLANKS),
    "an unknown type": (b'{"type":"no_such_type"}\n', Since.STANDS_UNKNOWN_LINES),
    "a cancel of ours": (
        b'{"type":"control_cancel_request","request_id":"1"}\n',
        Since.STANDS_UNKNOWN_LINES,
    ),
}
"""Lines that end a CLI, and which CLIs they do not end any more; None: they end all."""
HARMLESS = (b'{"type":"keep_alive"}\r\n', b'{"type":"keep_alive","x":"\xff\xfe"}\n')
"""A carriage return, and what is no UTF-8."""


def is_deadly(kind: str, version: str) -> bool:
    _, stands = DEADLY[kind]
    return stands is None or not can(version, stands)


async def test_other_odd_lines_do_a_cli_no_harm(desk: OpenDesk, version: str) -> None:
    # G2-G6, B15
    it = await desk(reply(text("held"), gate("held")), reply("fine"))
    client, tap = await tapped(it)
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("hi")
        await it.model.reached("held")
        for line in HARMLESS:
            tap.write(line)
        for kind, (line, _) in DEADLY.items():
            if not is_deadly(kind, version):
                tap.write(line)
        it.model.release("held")
        assert (await prompt).outcome == "finished"
        assert (await client.ask("still there?")).text == "fine"


@pytest.mark.parametrize(
    ("version", "kind"),
    [(version, kind) for kind in DEADLY for version in EVERY if is_deadly(kind, version)],
    indirect=["version"],
)
async def test_a_deadly_line_ends_the_cli_and_every_waiter_is_told(
    desk: OpenDesk, kind: str
) -> None:
    # G1, C14
    line, _ = DEADLY[kind]
    it = await desk(reply(text("held"), gate("held")), reply("fine"))
    client, tap = await tapped(it)
    async with asyncio.timeout(DEADLINE):
        prompt = await client.say("hi")
        await it.model.reached("held")
        tap.write(line)
        with pytest.raises(SessionEnded) as caught:
            await prompt
        assert caught.value.exit_code == 1
        with pytest.raises(SessionEnded):
            await client.mcp_status()
        async with aclosing(client.read()) as events:
            with pytest.raises(SessionEnded):
                _ = [event async for event in events]
