"""What the documents ask of the tools, end to end, whatever CLI and whatever model is behind them.

The same steps run against the simulator and a real CLI with a scripted model in every run of the
suite, and against the real service in tests/e2e.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from pilothouse_sim.scenario import Branch, When, gate, reply
from tests.support.mcp.harness import ToolCaller

CHEAP = {"model": "haiku", "maxTurns": 4, "maxBudgetUsd": 0.2}
AT_REST = ("done", "error", "interrupted")
PILOT = "Answer with the single word: pilot"
AGAIN = "Which single word did I ask you to answer with? Answer with that word alone."
COUNT = "Count from one to five thousand in words, one number a line. Use no tool, and do not stop."
AHEAD = "Stop counting. Answer with the single word: ahead"


def scripted() -> list[Branch]:
    """What a scripted model answers to these prompts."""

    def on(words: str, *replies: Any) -> Branch:
        return Branch(when=When(last_contains=words), replies=replies)

    return [
        on(PILOT, reply("pilot")),
        on(AGAIN, reply("pilot")),
        # Before the other: what is said after an interrupt may come in one message with it.
        on(AHEAD, reply("ahead")),
        on(COUNT, reply("one\ntwo\nthree\n", gate("counting"), "four\n")),
    ]


@asynccontextmanager
async def standalone(env: Mapping[str, str], folder: Path) -> AsyncIterator[ToolCaller]:
    """The official client of a `pilothouse mcp --standalone`, whose own files are in the folder."""
    own = {
        "PILOTHOUSE_STATE_DIR": str(folder / "state"),
        "PILOTHOUSE_RUNTIME_DIR": str(folder / "runtime"),
        "PILOTHOUSE_SIMULATE": "never",
    }
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "pilothouse", "mcp", "--standalone"],
        env={**env, **own},
        cwd=folder,
    )
    with (folder / "mcp-stderr").open("w") as errors:
        async with Client(stdio_client(server, errlog=errors)) as client:
            yield ToolCaller(client)


async def operate(model: ToolCaller, folder: Path, *, within: float) -> None:
    """Start a session, follow it to its end, talk on, interrupt another one, and list both."""
    async with asyncio.timeout(within):
        first = await _start_and_follow(model, folder)
        await _talk_on(model, first)
        second = await _interrupt(model, folder)
        await _list(model, folder, {first, second})


async def _start_and_follow(model: ToolCaller, folder: Path) -> str:
    started = await model.call("claude_start", prompt=PILOT, workingDirectory=str(folder), **CHEAP)
    assert started["status"] in ("active", *AT_REST)
    done = await _followed(model, started)
    assert (done["status"], done["turnCount"]) == ("done", 1)
    assert "pilot" in done["result"].lower()
    assert done["costUsd"] >= 0
    assert done["tokens"]["output"] > 0
    return started["sessionId"]


async def _talk_on(model: ToolCaller, session_id: str) -> None:
    said = await model.call("claude_say", sessionId=session_id, message=AGAIN)
    assert said["sessionId"] == session_id
    done = await _followed(model, said)
    assert done["status"] == "done"
    assert "pilot" in done["result"].lower()
    assert (await model.status(session_id))["turnCount"] == 2


async def _interrupt(model: ToolCaller, folder: Path) -> str:
    session_id = await model.start(COUNT, workingDirectory=str(folder), **CHEAP)
    while not (status := await model.status(session_id, waitSeconds=1))["recentOutput"]:
        assert status["status"] == "active", status
    assert status["status"] == "active", "it has counted to the end"
    stopped = await model.call("claude_interrupt", sessionId=session_id)
    assert stopped["status"] == "interrupted"
    done = await _followed(
        model, await model.call("claude_say", sessionId=session_id, message=AHEAD)
    )
    assert done["status"] == "done"
    assert "ahead" in done["result"].lower()
    return session_id


async def _list(model: ToolCaller, folder: Path, known: set[str]) -> None:
    listed = await model.call("claude_list", workingDirectory=str(folder))
    found = {each["sessionId"]: each for each in listed["sessions"]}
    assert known <= set(found)
    assert {found[each]["activeStatus"] for each in known} == {"done"}
    assert {found[each]["projectDirectory"] for each in known} == {str(folder)}


async def _followed(model: ToolCaller, result: dict[str, Any]) -> dict[str, Any]:
    """The status once the session is at rest, read as a model reads it: from cursor to cursor."""
    while True:
        session_id, cursor = result["sessionId"], result["cursor"]
        result = await model.status(session_id, after=cursor, waitSeconds=50)
        assert result["status"] != "awaiting_input", result
        if result["status"] in AT_REST:
            return result
