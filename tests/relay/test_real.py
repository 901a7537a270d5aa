"""A real CLI behind a relay: an ask stays open while the door is killed and comes back."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.clis import RealCLI
from pilothouse_sim.plugin import RealCLIMaker
from pilothouse_sim.scenario import reply, tool
from tests.support.processes import gone
from tests.support.relay.door import RelayDoor
from tests.support.relay.relays import RunningRelay, relay

pytestmark = pytest.mark.real

HASTE = {"interrupt": 1.0, "farewell": 0.1}
COMMAND = [
    *("-p", "--output-format", "stream-json", "--input-format", "stream-json", "--verbose"),
    *("--permission-prompt-tool", "stdio"),
]


def messages(door: RelayDoor, kind: str) -> list[dict[str, Any]]:
    decoded = (json.loads(line) for line in door.lines)
    return [message for message in decoded if message["type"] == kind]


def line(**message: Any) -> bytes:
    return json.dumps(message).encode()


def behind_a_relay(
    cli: RealCLI, door: RelayDoor, folder: Path, *options: str
) -> AbstractAsyncContextManager[RunningRelay]:
    command = [str(cli.binary), *COMMAND]
    return relay(
        door.url, folder, command, *options, env=dict(cli.environment), cwd=cli.cwd, pace=HASTE
    )


async def ask(door: RelayDoor) -> None:
    """Have the CLI come to its question."""
    await door.greeted()
    initialize = {"subtype": "initialize", "hooks": None}
    await door.say(line(type="control_request", request_id="1", request=initialize))
    await door.say(line(type="user", message={"role": "user", "content": "go"}))
    await door.until(lambda: bool(messages(door, "control_request")))


async def test_a_permission_asked_before_two_restarts_is_answered_after_them(
    tmp_path: Path, real_cli: RealCLIMaker
) -> None:
    cli = real_cli(
        reply(tool("Bash", command="echo ahoy > said.txt", description="say")), reply("Done.")
    )
    async with RelayDoor().opened() as door, behind_a_relay(cli, door, tmp_path) as running:
        await ask(door)
        await door.kill()
        await door.open()
        await door.restart()
        await door.greeted(2)
        [asked] = messages(door, "control_request")
        answer = {"behavior": "allow", "updatedInput": asked["request"]["input"]}
        response = {"subtype": "success", "request_id": asked["request_id"], "response": answer}
        await door.say(line(type="control_response", response=response))
        await door.until(lambda: bool(messages(door, "result")))
        await door.order("close_input")
        exit_ = await door.ended()
        assert await running.result() == 0
    assert exit_.code == 0, exit_.stderr_tail
    assert (cli.cwd / "said.txt").read_text() == "ahoy\n"
    [result] = messages(door, "result")
    assert result["result"] == "Done."
    assert len({hello.pid for hello in door.hellos}) == 1
    assert len(messages(door, "control_request")) == 1


async def test_the_last_will_ends_a_cli_in_the_middle_of_its_turn(
    tmp_path: Path, real_cli: RealCLIMaker
) -> None:
    cli = real_cli(reply(tool("Bash", command="touch never", description="never answered")))
    async with (
        RelayDoor().opened() as door,
        behind_a_relay(cli, door, tmp_path, "--last-will", "1") as running,
    ):
        await ask(door)
        pid = door.hellos[0].pid
        assert pid is not None
        await door.kill()
        assert await running.result() == 1
        await gone(pid)
        # Interrupted and then without input, it leaves by itself: no signal was needed.
        assert "the CLI ended: code" in running.said()
    assert not (cli.cwd / "never").exists()
