"""Claude Code as the MCP client: one real CLI drives another, each behind a model of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from pilothouse import Client, ElicitationRequest, Fill, Options
from pilothouse_sim.clis import RealCLI, Room
from pilothouse_sim.scenario import AnyReply, ModelRequest, Reply, Scenario, computed
from pilothouse_sim.scenario import reply as says
from pilothouse_sim.scenario import tool as calls
from pilothouse_sim.served_model import ServedModel
from tests.support.clients.mcp_client import COMMAND, LONGEST_WAIT, TOOLS, end_sessions
from tests.support.model_questions import COLOUR
from tests.support.real.handlers import Handler
from tests.support.server.killable import with_cli
from tests.support.server.machine import Machine
from tests.support.versions import CACHE, NEWEST
from tests.support.waiting import DEADLINE

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.real]

PREFIX = "mcp__pilothouse__"
PLAN = "# Plan\n\n1. Take the depth\n2. Paint the buoy\n"
ANSWERS = {"plan_approval": "approve", "tool_approval": "allow", "question": "Blue"}
DRIVEN = (
    says("I think it over.", calls("Write", file_path="{{plan_file}}", content=PLAN)),
    says("This is my plan.", calls("ExitPlanMode")),
    says("I take the depth.", calls("Bash", command="echo 'seven fathoms' > depth.txt")),
    says(calls("AskUserQuestion", questions=[COLOUR])),
    says("The buoy is painted."),
)


def operate(request: ModelRequest) -> Reply:
    """What a model does that reads nothing but the results of its tools."""
    told = last_result(request)
    session = told["sessionId"]
    if told["status"] == "done":
        return says(f"The session says: {told['result']}")
    question = told.get("pendingQuestion")
    if question is None:
        return says(calls(PREFIX + "claude_status", sessionId=session, waitSeconds=LONGEST_WAIT))
    answers = [ANSWERS[question["type"]]]
    return says(
        calls(
            PREFIX + "claude_respond",
            sessionId=session,
            id=question["id"],
            answers=answers,
            waitSeconds=LONGEST_WAIT,
        )
    )


def wait(request: ModelRequest) -> Reply:
    """What a model does that leaves the answers to a person."""
    told = last_result(request)
    if told["status"] == "done":
        return says(f"The session says: {told['result']}")
    session, cursor = told["sessionId"], told["cursor"]
    waiting = {"sessionId": session, "waitSeconds": LONGEST_WAIT, "after": cursor}
    return says(calls(PREFIX + "claude_status", **waiting))


def last_result(request: ModelRequest) -> dict[str, Any]:
    """What the last tool gave; the CLI shows its model the structured content, as JSON."""
    # B40
    contents = [each["content"] for each in request.body["messages"] if each["role"] == "user"]
    blocks = [block for content in contents for block in content if "tool_use_id" in block]
    told = blocks[-1]["content"]
    if blocks[-1].get("is_error"):
        # The driving model ends with it, and the test shows it.
        return {"sessionId": "", "status": "done", "result": told}
    return json.loads(told if isinstance(told, str) else told[0]["text"])


@dataclass
class Drive:
    """Two CLIs, of which one was driven by the other; it is over."""

    driver: RealCLI
    driven: RealCLI
    told: dict[str, Any]
    """How the driver ended."""

    @property
    def results(self) -> list[str]:
        """What the tools of the driven session returned to its model."""
        return [each.last for each in self.driven.requests[1:]]

    @property
    def tools(self) -> list[dict[str, Any]]:
        """What the driving model was told of the server's tools."""
        tools = self.driver.requests[0].body["tools"]
        return [each for each in tools if each["name"].startswith(PREFIX)]

    @property
    def calls(self) -> list[dict[str, Any]]:
        """What the driving model called, in order."""
        messages = self.driver.requests[-1].body["messages"]
        said = [each["content"] for each in messages if each["role"] == "assistant"]
        return [block for content in said for block in content if block["type"] == "tool_use"]


@pytest_asyncio.fixture(
    loop_scope="module",
    params=["modern", pytest.param("legacy", marks=pytest.mark.slow)],
)
async def drive(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Drive]:
    with ExitStack() as stack:
        driven = real_cli(stack, tmp_path_factory.mktemp("driven"), DRIVEN)
        start = calls(
            PREFIX + "claude_start",
            prompt="Paint the buoy",
            workingDirectory=str(driven.cwd),
            permissionMode="plan",
        )
        replies = (says("I start one.", start), *[computed(operate)] * 12)
        driver = real_cli(stack, tmp_path_factory.mktemp("driver"), replies, around(request.param))
        machine = Machine(tmp_path_factory.mktemp("machine"))
        machine.env |= with_cli(driven)
        try:
            yield Drive(driver, driven, await run(driver, machine))
        finally:
            await end_sessions(machine)
            await machine.aclose()


def real_cli(
    stack: ExitStack, folder: Path, replies: tuple[AnyReply, ...], env: dict[str, str] | None = None
) -> RealCLI:
    """A real CLI with a home, a model and an environment that no other has."""
    scenario = Scenario(replies=list(replies))
    model = stack.enter_context(ServedModel(scenario))
    return RealCLI(Room(folder), CACHE / NEWEST / "claude", model, scenario, env=env)


def around(era: str) -> dict[str, str]:
    """What has a CLI speak this era's MCP."""
    # Its tools stand in the model's requests, instead of being searched for.
    plain = {"ENABLE_TOOL_SEARCH": "false"}
    return plain | ({"MCP_PROTOCOL_NEGOTIATION": "legacy"} if era == "legacy" else {})


def server(machine: Machine) -> dict[str, Any]:
    """The server of this machine, as clients are told of it."""
    program, *arguments = COMMAND
    return {"type": "stdio", "command": program, "args": arguments, "env": machine.env}


async def run(cli: RealCLI, machine: Machine) -> dict[str, Any]:
    """`claude -p` with this server configured, to its end; what it tells then."""
    config = machine.folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"pilothouse": server(machine)}}))
    process = await asyncio.create_subprocess_exec(
        *(str(cli.path), "-p", "Have the buoy painted.", "--output-format", "json"),
        *("--mcp-config", str(config), "--strict-mcp-config", "--allowedTools", f"{PREFIX}*"),
        env={},
        cwd=cli.cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(2 * DEADLINE):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, (out[-2000:], err[-2000:])
    return json.loads(out)


async def test_one_cli_drives_another_to_the_end(drive: Drive) -> None:
    assert drive.told["result"] == "The session says: The buoy is painted."
    assert drive.driver.unscripted == drive.driven.unscripted == []
    answers = [each["input"].get("answers") for each in drive.calls]
    assert [each for each in answers if each] == [["approve"], ["allow"], ["Blue"]]
    names = {each["name"].removeprefix(PREFIX) for each in drive.calls}
    assert names == {"claude_start", "claude_status", "claude_respond"}

    assert (drive.driven.cwd / "depth.txt").read_text() == "seven fathoms\n"
    _, approved, ran, chosen = drive.results
    assert "approved your plan" in approved
    assert "completed" in ran
    assert '"Which colour?"="Blue"' in chosen

    assert {each["name"].removeprefix(PREFIX) for each in drive.tools} == {
        *TOOLS,
        "permission_check",
    }
    assert len(json.dumps(drive.tools)) < 12_000


@pytest.mark.parametrize("era", ["modern", pytest.param("legacy", marks=pytest.mark.slow)])
async def test_a_person_answers_the_form_that_it_shows(
    era: str, machine: Machine, folder: Path
) -> None:
    start = calls(PREFIX + "claude_start", prompt="Run a command", workingDirectory=str(folder))
    allow = Handler(Fill({"answer": "allow"}))
    # The server, and what its sessions made, is there for each era.
    before = len(list(machine.folder.rglob("harbour")))
    with ExitStack() as stack:
        replies = (says(start), *[computed(wait)] * 6)
        driver = real_cli(stack, folder.parent / "driver", replies, around(era))
        async with Client(at(driver, machine, on_elicitation=allow)) as client:
            async with asyncio.timeout(2 * DEADLINE):
                turn = await client.ask("Have a command run.")
    assert turn.text == "The session says: Done."
    # A simulated session works in a folder of its own.
    assert not (folder / "harbour").exists()
    assert len(list(machine.folder.rglob("harbour"))) == before + 1
    # In the era with a handshake the CLI closes it with the call during which it came, and is shown
    # it again.
    form, *others = allow.requests
    assert era == "legacy" or not others
    assert isinstance(form, ElicitationRequest)
    assert form.server_name == "pilothouse"
    assert "mkdir -p harbour" in form.message
    options = form.schema["properties"]["answer"]["oneOf"]
    assert [each["const"] for each in options] == ["allow", "always", "deny"]


def at(cli: RealCLI, machine: Machine, **given: Any) -> Options:
    """A CLI with this server configured, at which a program sits."""
    return cli.options(
        mcp_servers={"pilothouse": server(machine)},
        strict_mcp_config=True,
        allowed_tools=[f"{PREFIX}*"],
        **given,
    )
