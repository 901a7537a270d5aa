"""Sub-agents."""

from __future__ import annotations

from typing import Any

from pilothouse_sim.scenario import AnyReply, Branch, Scenario, When, gate, reply, tool
from tests.differential.driver import Cli, Scene
from tests.differential.host import allow, bash, deny, script


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


async def background(cli: Cli) -> None:
    """Lets the main turn end before the agent begins, and waits for the turn that follows."""
    cli.prompt("Have somebody look into it.")
    await cli.reached("start")
    await cli.result()
    await cli.until(lambda line: line.get("state") == "completed")
    cli.release("start")
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
}
