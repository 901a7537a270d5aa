"""Sub-agents."""

from __future__ import annotations

from typing import Any

from pilothouse_sim.scenario import AnyReply, ApiError, Branch, Scenario, When, gate, reply, tool
from tests.differential.driver import Cli, Scene
from tests.differential.host import (
    PARTIAL,
    allow,
    bash,
    deny,
    initialized,
    is_ask,
    put,
    script,
    turns,
)

FORWARD = "--forward-subagent-text"
MATE = {
    "description": "Looks after the ship.",
    "prompt": "You are the first mate.",
    "tools": ["Read", "Bash"],
    "disallowedTools": ["Bash"],
    "model": "haiku",
    "background": False,
}


def sends(*child: AnyReply, **more: Any) -> Scenario:
    """A scenario in which the model sends somebody."""
    call = tool(
        "Agent",
        description="Look into it",
        prompt="Look around the harbour.",
        subagent_type="general-purpose",
        **more,
    )
    branch = Branch(when=When(prompt_contains="Look around the harbour."), replies=child)
    main = reply(call), reply("Somebody is on it."), reply("It is done.")
    return script(*main, branches=[branch])


def mate(*child: AnyReply, kind: str = "mate", **more: Any) -> Scenario:
    """A scenario in which the model sends a mate, who has a prompt, tools and a model of its own.

    The mate speaks only if the model is asked with all three.
    """
    call = tool("Agent", description="Look", prompt="Look out.", subagent_type=kind, **more)
    own = When(
        prompt_contains="Look out.",
        system_contains=MATE["prompt"],
        model_contains="haiku",
        has_tool="Read",
        lacks_tool="Bash",
    )
    return script(
        reply(call), reply("The mate is back."), branches=[Branch(when=own, replies=child)]
    )


async def background(cli: Cli) -> None:
    """Lets the main turn end before the agent begins, and waits for the turn that follows."""
    cli.prompt("Have somebody look into it.")
    await cli.reached("start")
    await cli.result()
    await cli.until(lambda line: line.get("state") == "completed")
    cli.release("start")
    await cli.settle()


async def mate_in_background(cli: Cli) -> None:
    """Knows a mate who works beside the turn."""
    await cli.control("initialize", agents={"mate": MATE})
    await background(cli)


async def interrupted(cli: Cli) -> None:
    """Interrupts the turn while a sub-agent works for it."""
    cli.prompt("Have somebody look into it.")
    await cli.reached("start")
    await cli.control("interrupt")
    await cli.settle()


async def interrupted_asking(cli: Cli) -> None:
    """Interrupts the turn while a sub-agent asks for permission."""
    cli.prompt("Have somebody look into it.")
    await cli.until(is_ask)
    await cli.control("interrupt")
    await cli.settle()


SCENES = {
    "agent": Scene(
        sends(reply(gate("start"), bash("touch made")), reply("All quiet.")),
        background,
        answers={"can_use_tool": allow},
        covers="A13 A17",
    ),
    "agent_in_background": Scene(
        sends(
            reply(gate("start"), "Looking.", bash("ls")),
            reply("All quiet."),
            run_in_background=True,
        ),
        background,
        covers="A13 A17",
    ),
    "agent_denied": Scene(
        sends(reply(gate("start"), bash("touch made")), reply("I may not.")),
        background,
        answers={"can_use_tool": deny},
        covers="A17 B1",
    ),
    "agent_in_foreground": Scene(
        sends(reply("Looking.", bash("touch made")), reply("All quiet."), run_in_background=False),
        turns("Have somebody look into it."),
        answers={"can_use_tool": allow},
        covers="A17 A30",
    ),
    "agent_in_foreground_partial": Scene(
        sends(reply("Looking.", bash("ls")), reply("All quiet."), run_in_background=False),
        turns("Have somebody look into it."),
        (PARTIAL, FORWARD),
    ),
    "agent_in_foreground_denied": Scene(
        sends(reply(bash("touch made")), reply("I may not."), run_in_background=False),
        turns("Have somebody look into it."),
        answers={"can_use_tool": deny},
    ),
    "agent_in_foreground_fails": Scene(
        sends(*[ApiError(status=403)] * 3, run_in_background=False),
        turns("Have somebody look into it."),
    ),
    "agent_of_ones_own": Scene(
        mate(
            reply(tool("Bash", command="ls", description="List")),
            reply(tool("Read", file_path="{{cwd}}/log")),
            reply("All quiet."),
            run_in_background=False,
        ),
        initialized("Have somebody look out.", agents={"mate": MATE}),
        prepare=put(log="Calm.\n"),
    ),
    "agent_of_ones_own_heard": Scene(
        mate(reply("All quiet."), run_in_background=False),
        initialized("Have somebody look out.", agents={"mate": MATE}),
        (FORWARD,),
    ),
    "agent_heard_by_request": Scene(
        mate(reply("All quiet."), run_in_background=False),
        initialized("Look out.", agents={"mate": MATE}, forwardSubagentText=True),
    ),
    "agent_of_ones_own_in_background": Scene(
        mate(reply(gate("start"), "All quiet.")),
        mate_in_background,
    ),
    "agent_interrupted": Scene(
        sends(reply(gate("start"), "Looking."), run_in_background=False),
        interrupted,
    ),
    "agent_interrupted_asking": Scene(
        sends(reply(bash("touch made")), run_in_background=False),
        interrupted_asking,
    ),
    "agent_unknown": Scene(
        mate(kind="nobody"),
        initialized("Have somebody look out.", agents={"mate": MATE}),
    ),
}
