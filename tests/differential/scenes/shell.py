"""The Bash tool, in the turn and behind it."""

from __future__ import annotations

from pilothouse_sim.scenario import reply
from tests.differential.driver import Cli, Scene
from tests.differential.host import UNTIL_GO, allow, bash, script, turns


async def background_bash(cli: Cli) -> None:
    """Lets a command outlive its turn."""
    cli.prompt("Build it in the background.")
    await cli.settle()
    (cli.cwd / "go").touch()
    await cli.settle()


async def stopped_task(cli: Cli) -> None:
    """Stops a command that outlived its turn."""
    cli.prompt("Build it in the background.")
    await cli.settle()
    started = await cli.until(lambda line: line.get("subtype") == "task_started", start=0)
    await cli.control("stop_task", task_id=started["task_id"])
    await cli.idle()


async def interrupt_tool(cli: Cli) -> None:
    """Interrupts a tool that never ends, then goes on."""
    cli.prompt("Wait for ever.")
    await cli.exists("started")
    await cli.control("interrupt")
    await cli.settle()
    await turns("Never mind.")(cli)


BACKGROUND = script(
    reply(bash(UNTIL_GO, run_in_background=True)), reply("It runs."), reply("It is over.")
)

SCENES = {
    "bash_prints": Scene(
        script(reply(bash("echo port; echo starboard")), reply("Printed.")),
        turns("Print it."),
        answers={"can_use_tool": allow},
        covers="B20",
    ),
    "bash_fails": Scene(
        script(reply(bash("echo so far; echo oh >&2; exit 3")), reply("It failed.")),
        turns("Run it."),
        answers={"can_use_tool": allow},
    ),
    "bash_stderr": Scene(
        script(reply(bash("echo out; echo err >&2")), reply("Both.")),
        turns("Run it."),
        answers={"can_use_tool": allow},
    ),
    "bash_long_output": Scene(
        script(reply(bash("seq 1 9000")), reply("Long.")),
        turns("Count."),
        answers={"can_use_tool": allow},
    ),
    "bash_timeout": Scene(
        script(reply(bash(UNTIL_GO, timeout=300)), reply("Too slow."), reply("At last.")),
        background_bash,
        answers={"can_use_tool": allow},
    ),
    "bash_cd": Scene(
        script(reply(bash("mkdir -p hold && cd hold && pwd")), reply(bash("pwd")), reply("There.")),
        turns("Go below."),
        answers={"can_use_tool": allow},
    ),
    "interrupt_tool": Scene(
        script(reply(bash(UNTIL_GO)), reply("Very well.")),
        interrupt_tool,
        answers={"can_use_tool": allow},
        covers="D2",
    ),
    "background_bash": Scene(
        BACKGROUND, background_bash, answers={"can_use_tool": allow}, covers="A13 A24"
    ),
    "stopped_task": Scene(BACKGROUND, stopped_task, answers={"can_use_tool": allow}, covers="C15"),
}
