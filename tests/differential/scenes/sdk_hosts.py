"""What the official SDKs ask for in the environment of the CLI they start, and write first."""

from __future__ import annotations

import json
from typing import Any

from pilothouse_sim.scenario import reply
from tests.differential.driver import Cli, Scene, own_uuid
from tests.differential.host import PARTIAL, REPLAY, allow, bash, script

SDK = {"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "", "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1"}


async def one_turn(cli: Cli) -> None:
    """Takes a turn the way an SDK does."""
    await cli.control("initialize", hooks=None)
    cli.prompt("Make a file.")
    await cli.settle()


async def in_one_write(cli: Cli) -> None:
    """Sends `initialize` and the first prompt in one piece, as the TypeScript SDK does."""
    own = "req-1-initialize"
    ask = {"type": "control_request", "request_id": own, "request": {"subtype": "initialize"}}
    said = {"type": "user", "message": {"role": "user", "content": "Hello."}, "uuid": own_uuid(1)}
    cli.send_raw(f"{json.dumps(ask)}\n{json.dumps(said)}\n")
    await cli.settle()


async def stamped(cli: Cli) -> None:
    """Says of some prompts where they come from."""
    for origin in ({"kind": "human"}, None, {"kind": "channel", "server": "x"}, {"kind": "bogus"}):
        extra: dict[str, Any] = {"origin": origin} if origin else {}
        cli.prompt("Hello.", **extra)
        await cli.settle()


SCENES = {
    "state_for_the_sdk": Scene(
        script(reply(bash("touch made")), reply("Made.")),
        one_turn,
        answers={"can_use_tool": allow},
        env=SDK,
        files=True,
    ),
    "state_for_everybody": Scene(
        script(reply("Hi.")), one_turn, env={"CLAUDE_CODE_SDK_READS_SESSION_STATE": "1"}
    ),
    "first_in_one_write": Scene(script(reply("Hi.")), in_one_write),
    "first_in_one_write_partial": Scene(script(reply("Hi.")), in_one_write, (PARTIAL, REPLAY)),
    "origins": Scene(script(*(reply("Hi.") for _ in range(4))), stamped),
}
