"""`claude -p`, started by anybody, has Pilothouse for its permission tool."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from pilothouse.api.answers import Allow, ApprovePlan, Choose, Deny
from pilothouse.api.questions import Question
from pilothouse.remote import RemoteEngine
from pilothouse_sim.real_cli import environment
from pilothouse_sim.scenario import ToolCall, computed, reply, tool
from tests.support.model_questions import COLOUR
from tests.support.real.desk import Desk, OpenDesk, conversation
from tests.support.real.handlers import bash, results
from tests.support.real.plans import PLAN, write_plan
from tests.support.server.machine import Machine
from tests.support.versions import CACHE, newest
from tests.support.waiting import DEADLINE, until

pytestmark = newest

SESSION = "11111111-2222-4333-8444-555555555555"
DRIVEN = ("--input-format=stream-json", "--output-format=stream-json", "--verbose")
PROMPT = b'{"type":"user","message":{"role":"user","content":"Do it."}}\n'
INTERRUPT = b'{"type":"control_request","request_id":"1","request":{"subtype":"interrupt"}}\n'


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    folder = tmp_path / "machine"
    folder.mkdir()
    machine = Machine(folder)
    try:
        yield machine
    finally:
        await machine.aclose()


async def claude(
    it: Desk, machine: Machine, *flags: str, alone: bool = True, driven: bool = False
) -> Process:
    """A CLI that nobody here started, as a script or CI has it; it is gone when the test ends.

    `alone`: its MCP server has nothing but the permission tool. `driven`: a program talks to it.
    """
    config = it.home / "mcp.json"
    arguments = ["-m", "pilothouse", "mcp", *(["--permission-check"] if alone else [])]
    server = {"command": sys.executable, "args": arguments, "env": machine.env}
    config.write_text(json.dumps({"mcpServers": {"pilothouse": server}}))
    process = await asyncio.create_subprocess_exec(
        *(CACHE / it.version / "claude", "--print", *(DRIVEN if driven else ()), *flags),
        *(f"--mcp-config={config}", "--permission-prompt-tool=mcp__pilothouse__permission_check"),
        env=environment(it.home, it.model.url),
        cwd=it.cwd,
        stdin=PIPE,
        stdout=PIPE,
        stderr=STDOUT,
    )
    it.stack.push_async_callback(_end, process)
    assert process.stdin is not None
    process.stdin.write(PROMPT if driven else b"Do it.")
    if not driven:
        process.stdin.close()
    return process


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.communicate()


async def said(process: Process) -> str:
    """The last words of a CLI that ends by itself."""
    async with asyncio.timeout(DEADLINE):
        out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode().strip()


def engine_of(it: Desk, machine: Machine) -> RemoteEngine:
    """The engine of the server that runs now."""
    running = machine.found()
    assert running is not None
    engine = RemoteEngine(running.address, running.token)
    it.stack.push_async_callback(engine.aclose)
    return engine


async def opened(engine: RemoteEngine, count: int = 1) -> list[Question]:
    """So many questions, as soon as they are open."""
    async with asyncio.timeout(DEADLINE), aclosing(engine.watch(0)) as batches:
        async for _ in batches:
            found = list(await engine.questions(state="open"))
            if len(found) == count:
                return found
    raise AssertionError("the server ended")


async def withdrawn(engine: RemoteEngine, question: Question) -> Question:
    async with asyncio.timeout(DEADLINE), aclosing(engine.watch(0)) as batches:
        async for _ in batches:
            found = await engine.question(question.id)
            if found.state != "open":
                return found
    raise AssertionError("the server ended")


def touch(name: str) -> ToolCall:
    return bash(f"touch {name}")


async def test_people_decide_what_a_foreign_cli_may_do(desk: OpenDesk, machine: Machine) -> None:
    # B32, B37, B38
    it = await desk(reply(touch("one.txt")), reply(touch("two.txt")), reply("Half of it."))
    await machine.serve()
    engine = engine_of(it, machine)
    process = await claude(it, machine, f"--session-id={SESSION}")
    [first] = await opened(engine)
    assert (first.session_id, first.tool_name, first.cwd) == (SESSION, "Bash", str(it.cwd))
    assert first.label == f"claude -p in {it.cwd}"
    assert (await engine.status(SESSION)).foreign
    await engine.answer(first.id, Allow())
    [second] = await opened(engine)
    await engine.answer(second.id, Deny(reason="One is enough."))
    assert await said(process) == "Half of it."
    assert results(it)[1] == "One is enough."
    assert [each.name for each in it.cwd.glob("*.txt")] == ["one.txt"]
    assert not any("permission_check" in name for name in conversation(it)[-1].tools)


async def test_questions_and_plans_come_the_same_way(desk: OpenDesk, machine: Machine) -> None:
    # B32
    ask, leave = tool("AskUserQuestion", questions=[COLOUR]), tool("ExitPlanMode")
    it = await desk(reply(ask), computed(write_plan), reply(leave), reply("Painted."))
    await machine.serve()
    engine = engine_of(it, machine)
    process = await claude(it, machine, "--permission-mode=plan", alone=False)
    [question] = await opened(engine)
    assert question.kind == "questions"
    await engine.answer(question.id, Choose(answers={"Which colour?": "Blue"}))
    [plan] = await opened(engine)
    assert (plan.kind, plan.plan) == ("plan", PLAN)
    await engine.answer(plan.id, ApprovePlan())
    assert await said(process) == "Painted."
    assert '"Which colour?"="Blue"' in results(it)[0]
    assert "approved your plan" in results(it)[-1]


async def test_without_a_server_the_model_reads_why_it_may_not(
    desk: OpenDesk, machine: Machine
) -> None:
    it = await desk(reply(touch("one.txt")), reply("A pity."))
    in_the_way = machine.folder / "file"
    in_the_way.touch()
    machine.env["XDG_STATE_HOME"] = str(in_the_way)
    assert await said(await claude(it, machine)) == "A pity."
    [told] = results(it)
    assert "Nobody decided about this" in told
    assert str(in_the_way) in told
    assert not (it.cwd / "one.txt").exists()


async def test_a_cli_that_waits_no_longer_takes_its_question_along(
    desk: OpenDesk, machine: Machine
) -> None:
    # B39
    it = await desk(*(reply(touch("one.txt")) for _ in range(3)))
    await machine.serve()
    engine = engine_of(it, machine)
    killed, ended = await claude(it, machine), await claude(it, machine)
    interrupted = await claude(it, machine, driven=True)
    questions = await opened(engine, 3)
    killed.send_signal(signal.SIGKILL)
    ended.send_signal(signal.SIGTERM)
    assert interrupted.stdin is not None
    interrupted.stdin.write(INTERRUPT)
    for each in questions:
        closed = await withdrawn(engine, each)
        assert closed.state == "withdrawn"
        # At once, and not what the engine says after a while by itself.
        assert closed.closed_because == "the CLI that asked does not wait any more"
    assert interrupted.returncode is None


async def test_a_server_that_is_killed_comes_back_with_the_question(
    desk: OpenDesk, machine: Machine
) -> None:
    it = await desk(reply(touch("one.txt")), reply("Done."))
    server = await machine.serve()
    process = await claude(it, machine)
    [before] = await opened(engine_of(it, machine))
    await server.end(signal.SIGKILL)

    def is_back() -> bool:
        running = machine.found()
        return running is not None and running.pid != server.pid

    await until(is_back)
    engine = engine_of(it, machine)
    [after] = await opened(engine)
    assert (after.id, after.session_id) == (before.id, before.session_id)
    await engine.answer(after.id, Allow())
    assert await said(process) == "Done."
    assert (it.cwd / "one.txt").exists()
