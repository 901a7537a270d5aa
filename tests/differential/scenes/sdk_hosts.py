"""What the official SDKs ask for in the environment of the CLI they start."""

from __future__ import annotations

from pilothouse_sim.scenario import reply
from tests.differential.driver import Cli, Scene
from tests.differential.host import allow, bash, script

SDK = {"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "", "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1"}


async def one_turn(cli: Cli) -> None:
    """Takes a turn the way an SDK does."""
    await cli.control("initialize", hooks=None)
    cli.prompt("Make a file.")
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
}
