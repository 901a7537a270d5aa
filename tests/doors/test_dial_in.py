"""A door of one's own for CLIs that are started by hand: the simulator and real ones dial it."""

from __future__ import annotations

import asyncio
import shlex
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from pilothouse import Allow, Client, DialInDoor, Options, ServerError, SessionEnded, UsageError
from pilothouse import listen as listen_for
from pilothouse.doors import dialling_process
from pilothouse.doors.dial_in import FALSE_TOKEN, NO_BROWSER, OVER, TAKEN, UNKNOWN
from pilothouse.protocol import ControlRequest
from pilothouse_sim import RealCLIMaker, SimulatedCLIMaker, gate, reply, tool
from tests.support.doors.pasted import pasted, program
from tests.support.versions import NATIVE, OLD
from tests.support.waiting import DEADLINE

TOUCH = reply(tool("Bash", command="touch made", description="Make it"))
BROKEN = 1011

Maker = Callable[..., Any]


@pytest.fixture(params=["simulated", NATIVE, OLD])
def maker(request: pytest.FixtureRequest) -> Maker:
    """The simulator and real CLIs, each with a model that says what a test wants."""
    if request.param == "simulated":
        simulated: SimulatedCLIMaker = request.getfixturevalue("simulated_cli")
        return simulated
    real: RealCLIMaker = request.getfixturevalue("real_cli")
    return partial(real, version=request.param)


async def allow(_: Any) -> Allow:
    return Allow()


def wanted(cli: Any, **more: Any) -> Options:
    """What the door hands on to the CLI that a maker has made."""
    return Options(cli_path=program(cli), cwd=cli.cwd, on_permission=allow, **more)


@asynccontextmanager
async def dialled(cli: Any, **more: Any) -> AsyncIterator[tuple[str, Client, Process]]:
    """A line that was pasted, the client of the CLI that came, and its process."""
    async with asyncio.timeout(2 * DEADLINE), listen_for(wanted(cli), **more) as door:
        line = door.command()
        async with pasted(line, cli) as process:
            yield line, await door.accept(), process


def transport(client: Client) -> Any:
    return client._transport


async def test_a_cli_that_was_started_by_hand_is_a_client_like_any_other(maker: Maker) -> None:
    cli = maker(TOUCH, reply("done"), reply("again"))
    async with dialled(cli) as (line, client, process):
        assert f"--session-id={client.session_id} " in line
        turn = await client.ask("go")
        assert (turn.outcome, turn.text) == ("finished", "done")
        assert (cli.cwd / "made").exists()
        assert (await client.ask("more")).text == "again"
        assert client.pid is None
        await client.aclose()
        await process.wait()


async def test_the_command_of_the_document_needs_no_token_and_no_flag_of_ours(maker: Maker) -> None:
    cli = maker(TOUCH, reply("done"), reply("again"))
    async with asyncio.timeout(2 * DEADLINE), listen_for(wanted(cli), token="") as door:
        words = "--print --output-format stream-json --input-format stream-json --verbose -p ''"
        line = f"{shlex.quote(str(program(cli)))} --sdk-url {door.url} {words}"
        async with pasted(line, cli):
            client = await door.accept()
            assert client.session_id is None
            turn = await client.ask("Hello! What can you do?")
            # Nothing echoes the prompt here, and its turn is found all the same.
            assert (turn.text, len(turn.prompts)) == ("done", 1)
            assert (cli.cwd / "made").exists()
            assert turn.result is not None
            assert client.session_id == turn.result.session_id
            assert (await client.ask("more")).text == "again"


# 2.1.37 repeats nothing: the result is lost, and with it the end of the turn.
@pytest.mark.parametrize("maker", ["simulated", NATIVE], indirect=True)
async def test_a_lost_connection_is_not_noticed_by_whoever_asks(maker: Maker) -> None:
    cli = maker(reply("one ", gate("middle"), "two"), TOUCH, reply("done"))
    async with dialled(cli) as (_, client, _):
        asking = asyncio.create_task(client.ask("go"))
        await cli.reached("middle")
        transport(client)._link.end(BROKEN)
        cli.release("middle")
        assert (await asking).outcome == "finished"
        assert (await client.ask("touch it")).text == "done"
        assert (cli.cwd / "made").exists()


async def test_a_question_whose_answer_was_cut_off_is_asked_again(
    simulated_cli: SimulatedCLIMaker,
) -> None:
    cli = simulated_cli(TOUCH, reply("done"))
    asked: list[Any] = []
    async with asyncio.timeout(DEADLINE), listen_for(wanted(cli)) as door:

        async def cut_and_allow(request: Any) -> Allow:
            asked.append(request)
            transport(client)._link.end(BROKEN)
            return Allow()

        async with pasted(door.command(), cli):
            client = await door.accept(Options(on_permission=cut_and_allow))
            events: list[Any] = []
            prompt = await client.say("go")
            async for event in client.read():
                events.append(event)
                if prompt.ends_with(event):
                    break
            assert (await prompt).text == "done"
            assert any(isinstance(each, ControlRequest) for each in events)
    assert len(asked) == 1


# Who ends, and how that is known


async def test_closing_the_client_ends_the_cli_in_order(maker: Maker) -> None:
    cli = maker(reply("done"))
    async with dialled(cli) as (_, client, process):
        await client.ask("go")
        await client.aclose()
        with pytest.raises(SessionEnded):
            await client.say("more")
        assert await process.wait() == 0


async def test_a_cli_that_ends_by_itself_has_ended_in_order(
    simulated_cli: SimulatedCLIMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialling_process, "LEFT_GRACE", 0.05)
    cli = simulated_cli(reply("done"))
    async with dialled(cli) as (_, client, process):
        await client.ask("go")
        process.send_signal(signal.SIGINT)
        async for _ in client.read():
            pass
        with pytest.raises(SessionEnded) as ended:
            await client.say("more")
        assert ended.value.exit_code == 0


async def test_a_cli_that_does_not_come_back_is_gone(simulated_cli: SimulatedCLIMaker) -> None:
    cli = simulated_cli(reply("one ", gate("middle"), "two"), strict=False)
    async with dialled(cli, gone_after=0.05) as (_, client, process):
        prompt = await client.say("go")
        await cli.reached("middle")
        process.kill()
        with pytest.raises(SessionEnded, match="was not back within") as ended:
            await prompt
        assert ended.value.exit_code is None


async def test_a_door_that_closes_sends_away_whom_nobody_has_accepted(
    simulated_cli: SimulatedCLIMaker,
) -> None:
    async with asyncio.timeout(DEADLINE), listen_for(Options()) as door:
        bearer = {"Authorization": f"Bearer {door.token}"}
        waiting = await connect(f"{door.url}/ws/a", additional_headers=bearer)
        # Taken by the server before the door closes.
        await (await waiting.ping())
    with pytest.raises(ConnectionClosed):
        async with asyncio.timeout(DEADLINE):
            await waiting.recv()
    assert (waiting.close_code, waiting.close_reason) == (4001, "nobody is here to talk to")


# Who is refused


async def refusal(door: DialInDoor, path: str = "/ws/a", **headers: str) -> str:
    given = {"Authorization": f"Bearer {door.token}"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    with pytest.raises(InvalidStatus) as refused:
        async with (
            asyncio.timeout(DEADLINE),
            connect(f"{door.url}{path}", additional_headers=given),
        ):
            pass
    assert refused.value.response.status_code == 403
    return refused.value.response.body.decode().strip()


async def test_who_is_refused_is_told_why() -> None:
    async with listen_for() as door:
        assert await refusal(door, Authorization="Bearer false") == FALSE_TOKEN
        assert await refusal(door, Origin="https://example.com") == NO_BROWSER
        assert await refusal(door, X_Last_Request_Id="a-line") == UNKNOWN


async def test_an_address_has_one_cli_at_a_time(simulated_cli: SimulatedCLIMaker) -> None:
    cli = simulated_cli(reply("done"))
    async with asyncio.timeout(DEADLINE), listen_for(wanted(cli)) as door:
        line = door.command()
        path = line.rpartition(door.url)[2].strip("'")
        async with pasted(line, cli):
            client = await door.accept()
            assert await refusal(door, path) == TAKEN
            assert (await client.ask("go")).text == "done"
            await client.aclose()
            assert await refusal(door, path, X_Last_Request_Id="a-line") == OVER


async def test_another_cli_may_take_the_place_of_one_that_is_gone(
    simulated_cli: SimulatedCLIMaker,
) -> None:
    cli = simulated_cli(reply("one"))
    async with asyncio.timeout(DEADLINE), listen_for(wanted(cli), token="") as door:
        line = f"{shlex.quote(str(program(cli)))} -p --sdk-url {door.url}"
        async with pasted(line, cli):
            first = await door.accept()
            await first.ask("go")
        async with pasted(line, cli):
            second = await door.accept()
            assert (await second.ask("go")).text == "one"
            with pytest.raises(SessionEnded, match="another CLI came"):
                await first.say("more")


async def test_a_door_that_others_could_reach_has_to_be_wanted() -> None:
    for given in ({}, {"insecure": True, "token": ""}):
        with pytest.raises(UsageError, match="other machines"):
            async with listen_for(host="0.0.0.0", **given):
                pass
    async with listen_for(host="0.0.0.0", insecure=True) as door:
        assert len(door.token) > 30


async def test_a_port_that_is_taken_is_named() -> None:
    async with listen_for() as door:
        port = int(door.url.rpartition(":")[2])
        with pytest.raises(ServerError, match=f"127.0.0.1:{port}"):
            async with listen_for(port=port):
                pass


def test_what_is_pasted_is_one_line_for_a_shell(tmp_path: Path) -> None:
    async def made() -> tuple[str, str, str]:
        options = Options(cli_path="my cli", cwd=tmp_path, model="opus", permission_mode="plan")
        async with listen_for(options) as door:
            return door.url, door.token, door.command()

    url, token, line = asyncio.run(made())
    words = shlex.split(line)
    assert words[:3] == ["cd", str(tmp_path), "&&"]
    assert f"CLAUDE_CODE_SESSION_ACCESS_TOKEN={token}" in words
    assert words[words.index("my cli") + 1] == "--print"
    assert {"--model=opus", "--permission-mode=plan", "--replay-user-messages"} <= {*words}
    [name] = [each.partition("=")[2] for each in words if each.startswith("--session-id=")]
    assert words[-1] == f"--sdk-url={url}/ws/{name}"
