"""The official Python client, in both eras of MCP, with forms and without."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.clients.mcp_client import TOOLS, ConnectedClient, connected
from tests.support.server.machine import Machine
from tests.support.waiting import DEADLINE

pytestmark = pytest.mark.asyncio(loop_scope="module")

Kind = tuple[str, bool]
Peers = Callable[[Kind], Awaitable[ConnectedClient]]

LEGACY, LEGACY_WITH_FORMS = ("legacy", False), ("legacy", True)
MODERN, MODERN_WITH_FORMS = ("auto", False), ("auto", True)
NAMES = {
    LEGACY: "legacy",
    LEGACY_WITH_FORMS: "legacy, forms",
    MODERN: "modern",
    MODERN_WITH_FORMS: "modern, forms",
}


def by(*kinds: Kind) -> pytest.MarkDecorator:
    """The clients that a test is for."""
    names = [NAMES[each] for each in kinds]
    return pytest.mark.parametrize("peer", kinds, indirect=True, ids=names)


with_every_client = by(LEGACY, LEGACY_WITH_FORMS, MODERN, MODERN_WITH_FORMS)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def peers(machine: Machine) -> AsyncIterator[Peers]:
    """One client of each kind, connected when it is first needed."""
    opened: dict[Kind, ConnectedClient] = {}
    async with AsyncExitStack() as stack:

        async def connect(kind: Kind) -> ConnectedClient:
            if kind not in opened:
                mode, elicits = kind
                peer = connected(machine, mode=mode, elicits=elicits)
                opened[kind] = await stack.enter_async_context(peer)
            return opened[kind]

        yield connect


@pytest_asyncio.fixture(loop_scope="module")
async def peer(request: pytest.FixtureRequest, peers: Peers) -> ConnectedClient:
    return await peers(request.param)


async def started(peer: ConnectedClient, folder: Path, prompt: str, **more: Any) -> str:
    """The id of a session that works."""
    told = await peer.call("claude_start", prompt=prompt, workingDirectory=str(folder), **more)
    assert told["status"] == "active"
    return told["sessionId"]


def place_of(status: dict[str, Any]) -> Path:
    """Where a simulated session works."""
    assert status["simulated"] is True
    return Path(status["workingDirectory"])


def used(status: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["toolName"], each["status"]) for each in status["toolUseEvents"]]


@with_every_client
async def test_a_model_sees_seven_tools_in_less_than_twelve_kilobytes(
    peer: ConnectedClient,
) -> None:
    listed = await peer.client.list_tools()
    assert {each.name for each in listed.tools} == TOOLS
    told = listed.model_dump(by_alias=True, exclude_none=True, mode="json")["tools"]
    assert len(json.dumps(told)) < 12_000


@with_every_client
async def test_a_command_runs_once_it_is_allowed(peer: ConnectedClient, folder: Path) -> None:
    # Flow A with forms, flow B without.
    session = await started(peer, folder, "Run a command")
    await peer.answer(session, "tool_approval", "allow")
    status = await peer.settled(session)
    assert (status["status"], status["result"]) == ("done", "Done.")
    assert used(status) == [("Bash", "completed")]
    assert (place_of(status) / "harbour").is_dir()
    assert not (folder / "harbour").exists()


@by(LEGACY_WITH_FORMS, MODERN)
async def test_a_command_does_not_run_that_is_denied(peer: ConnectedClient, folder: Path) -> None:
    session = await started(peer, folder, "Run a command")
    await peer.answer(session, "tool_approval", "deny")
    status = await peer.settled(session)
    assert used(status) == [("Bash", "denied")]
    assert not (place_of(status) / "harbour").exists()


@with_every_client
async def test_a_plan_is_approved(peer: ConnectedClient, folder: Path) -> None:
    # Flow C.
    session = await started(peer, folder, "Make a plan", permissionMode="plan")
    await peer.answer(session, "plan_approval", "approve")
    status = await peer.settled(session)
    assert (status["status"], status["result"]) == ("done", "Plan settled.")


@by(LEGACY, MODERN_WITH_FORMS)
async def test_a_plan_is_rejected_and_made_anew(peer: ConnectedClient, folder: Path) -> None:
    session = await started(peer, folder, "Make a plan", permissionMode="plan")
    await peer.answer(session, "plan_approval", "reject")
    await peer.settled(session)
    told = await peer.call("claude_say", sessionId=session, message="A plan for the way back, too")
    assert (told["sessionId"], told["status"]) == (session, "active")
    await peer.answer(session, "plan_approval", "approve")
    status = await peer.settled(session)
    assert (status["status"], status["result"]) == ("done", "Plan settled.")


@with_every_client
async def test_the_session_reads_what_was_chosen(peer: ConnectedClient, folder: Path) -> None:
    session = await started(peer, folder, "Ask me a question")
    await peer.answer(session, "question", "South")
    status = await peer.settled(session)
    assert (status["status"], status["result"]) == ("done", "Aye, as you say.")


@by(LEGACY_WITH_FORMS, MODERN_WITH_FORMS)
async def test_a_declined_form_leaves_the_question_open(
    peer: ConnectedClient, folder: Path
) -> None:
    assert peer.person is not None
    session = await started(peer, folder, "Run a command")
    peer.person.will("decline")
    question = await peer.asked(session)
    await peer.call("claude_respond", sessionId=session, id=question["id"], answers=["allow"])
    assert (await peer.settled(session))["result"] == "Done."
    assert peer.person.left == len(peer.person.forms)


@by(LEGACY_WITH_FORMS)
async def test_a_form_is_closed_once_another_client_has_answered(
    peer: ConnectedClient, peers: Peers, folder: Path
) -> None:
    assert peer.person is not None
    session = await started(peer, folder, "Run a command")
    await peer.person.shown(peer.person.left + 1)
    other = await peers(MODERN)
    await other.answer(session, "tool_approval", "allow")
    await peer.person.at_rest()
    assert (await peer.settled(session))["result"] == "Done."


@by(LEGACY, MODERN)
async def test_a_message_switches_the_mode(peer: ConnectedClient, folder: Path) -> None:
    session = await started(peer, folder, "Hello?")
    written = place_of(await peer.settled(session)) / "hello.txt"
    await peer.call(
        "claude_say", sessionId=session, message="Write a file", permissionMode="acceptEdits"
    )
    await peer.settled(session)
    assert written.exists()
    written.unlink()
    await peer.call(
        "claude_say", sessionId=session, message="Write a file", permissionMode="default"
    )
    await peer.answer(session, "tool_approval", "deny: not there")
    await peer.settled(session)
    assert not written.exists()


@by(MODERN)
async def test_a_session_that_somebody_began_in_a_terminal_goes_on(
    peer: ConnectedClient, machine: Machine, folder: Path
) -> None:
    # The server makes the simulator's home when it starts.
    await peer.call("claude_list")
    session = await begun_in_a_terminal(machine, folder, "Read the charts")
    [found] = (await peer.call("claude_list", workingDirectory=str(folder)))["sessions"]
    assert found["sessionId"] == session
    assert found["projectDirectory"] == str(folder)
    assert found["displayText"] == "Read the charts"
    assert found["isActive"] is False
    told = await peer.call("claude_say", sessionId=session, message="Run a command")
    assert (told["sessionId"], told["resumed"]) == (session, True)
    await peer.answer(session, "tool_approval", "allow")
    status = await peer.settled(session)
    assert (status["status"], status["result"]) == ("done", "Done.")
    assert (folder / "harbour").is_dir()


async def begun_in_a_terminal(machine: Machine, folder: Path, prompt: str) -> str:
    """Talk to the CLI with no engine between, as a person at a terminal does."""
    cli = machine.settings.state_dir / "simulated/bin/claude"
    process = await asyncio.create_subprocess_exec(
        *(str(cli), "-p", prompt, "--output-format", "json"),
        env={"PATH": machine.env["PATH"], "CLAUDE_CODE_ENTRYPOINT": "cli"},
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(DEADLINE):
        out, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(out)["session_id"]


@by(MODERN)
async def test_ten_sessions_run_at_once_and_an_eleventh_is_refused(
    peer: ConnectedClient, folder: Path
) -> None:
    asking = [started(peer, folder, "Ask me a question") for _ in range(10)]
    sessions = await asyncio.gather(*asking)
    assert len(set(sessions)) == 10
    for each in sessions:
        await peer.asked(each)
    refused = await peer.refused(
        "claude_start", prompt="Ask me a question", workingDirectory=str(folder)
    )
    assert "10 sessions run and none of them is idle" in refused

    first, *others = sessions
    await peer.answer(first, "question", "North")
    await peer.settled(first)
    eleventh = await started(peer, folder, "Hello?")
    assert (await peer.settled(eleventh))["status"] == "done"
    for told in await asyncio.gather(
        *(peer.call("claude_interrupt", sessionId=each) for each in others)
    ):
        assert told["status"] == "interrupted"
