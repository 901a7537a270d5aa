"""Modes, models and interrupts in the course of a session."""

from __future__ import annotations

from pilothouse_sim.scenario import gate, reply, tool
from tests.differential.driver import Cli, Scene, own_uuid
from tests.differential.host import (
    PARTIAL,
    REPLAY,
    allow,
    bash,
    deny,
    has_text,
    initialized,
    put,
    script,
    turns,
)

SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


async def modes(cli: Cli) -> None:
    """Changes the mode, to some that are not allowed too."""
    await cli.control("initialize")
    for mode in ("acceptEdits", "bypassPermissions", "bogus", "plan", "dontAsk", "default"):
        await cli.control("set_permission_mode", mode=mode)
    await turns("Hello.")(cli)


async def mode_between_turns(cli: Cli) -> None:
    """Changes the mode after a tool was denied."""
    await turns("Write it.")(cli)
    await cli.control("set_permission_mode", mode="acceptEdits")
    await turns("Again.")(cli)


async def model(cli: Cli) -> None:
    """Changes the model, before and between turns."""
    await cli.control("initialize")
    await cli.control("set_model", model="claude-haiku-4-5")
    await turns("Hello.")(cli)
    await cli.control("set_model", model="sonnet")
    await cli.control("set_max_thinking_tokens", max_thinking_tokens=2000)
    await turns("Hello again.")(cli)
    await cli.control("set_model", model=None)
    await cli.control("set_max_thinking_tokens", max_thinking_tokens=None)
    await turns("And again.")(cli)


async def odds(cli: Cli) -> None:
    """Asks twice, asks for what nobody knows, and interrupts nothing."""
    await cli.control("initialize")
    await cli.control("initialize", sdk_mcp_servers=["calc"])
    await cli.control("interrupt")
    await cli.control("no_such_request")
    await cli.control("can_use_tool", tool_name="Bash", input={})
    await cli.control("stop_task", task_id="nothing")
    await turns("Hello.")(cli)
    await cli.control("interrupt")
    await turns("Hello again.")(cli)


async def misplaced_id(cli: Cli) -> None:
    """Puts a request's id where it does not belong."""
    request = {"subtype": "set_permission_mode", "mode": "plan", "request_id": "inside"}
    cli.send({"type": "control_request", "request": request})
    await cli.until(lambda line: line.get("permissionMode") == "plan")
    await turns("Hello.")(cli)


async def interrupt_text(cli: Cli) -> None:
    """Interrupts in the middle of a sentence, then goes on."""
    cli.prompt("Tell me a long story.")
    await cli.until(has_text)
    await cli.control("interrupt")
    await cli.settle()
    await turns("A short one, then.")(cli)


async def interrupt_before_queued(cli: Cli) -> None:
    """Interrupts while another prompt waits."""
    cli.prompt("Tell me a long story.")
    await cli.until(has_text)
    cli.prompt("A short one, then.")
    await cli.control("interrupt")
    await cli.result()
    await cli.settle()


async def interrupt_with_queued(cli: Cli) -> None:
    """Interrupts, and takes back the prompt that waits."""
    cli.prompt("Tell me a long story.")
    await cli.until(has_text)
    cli.prompt("A short one, then.")
    await cli.control("interrupt", cancel_queued=True)
    await cli.settle()


async def rewind(cli: Cli) -> None:
    """Wants to take back what a turn did to files where nobody kept it."""
    await turns("Keep a log.")(cli)
    await cli.control("rewind_files", user_message_id=own_uuid(1), dry_run=True)
    await cli.control("rewind_files", user_message_id=own_uuid(1))


async def variables(cli: Cli) -> None:
    """Wants a variable set for tools."""
    cli.send({"type": "update_environment_variables", "variables": {"SHIP": "Argo"}})
    await turns("Print it.")(cli)


STORY = script(reply("Once upon ", gate("never"), "a time"), reply("The end."))

SCENES = {
    "steering_modes": Scene(script(reply("Hello.")), modes, covers="B17 B19 C6"),
    "steering_mode_between_turns": Scene(
        script(
            reply(tool("Write", file_path="{{cwd}}/a.txt", content="a\n")),
            reply("No?"),
            reply(tool("Write", file_path="{{cwd}}/a.txt", content="a\n")),
            reply("Yes."),
        ),
        mode_between_turns,
        answers={"can_use_tool": deny},
        files=True,
        covers="C6",
    ),
    "steering_model": Scene(
        script(reply("One."), reply("Two."), reply("Three.")), model, covers="C7 C8"
    ),
    "steering_odds": Scene(script(reply("One."), reply("Two.")), odds, covers="C1 C3 C9 C13 C16"),
    "steering_misplaced_id": Scene(script(reply("Hello.")), misplaced_id, covers="C4"),
    "steering_initialize_all": Scene(
        script(reply(tool("StructuredOutput", answer="42"))),
        initialized(
            "What is the answer?",
            systemPrompt="You are a pilot.",
            appendSystemPrompt="Be brief.",
            agents={"mate": {"description": "Helps.", "prompt": "Help."}},
            jsonSchema=SCHEMA,
            nonsense=True,
        ),
        covers="C5 E5",
    ),
    "interrupt_text": Scene(STORY, interrupt_text, (PARTIAL,), covers="D1"),
    "interrupt_before_queued": Scene(
        STORY, interrupt_before_queued, (PARTIAL, REPLAY), covers="D13"
    ),
    "interrupt_with_queued": Scene(STORY, interrupt_with_queued, (PARTIAL, REPLAY), covers="C9"),
    "rewind_not_enabled": Scene(
        script(
            reply(tool("Write", file_path="{{cwd}}/new.txt", content="new\n")), reply("Written.")
        ),
        rewind,
        ("--permission-mode=acceptEdits",),
        prepare=put(log__txt="calm\n"),
        files=True,
        covers="C12",
    ),
    "variables_updated": Scene(
        script(reply(bash("echo $SHIP")), reply("Over.")),
        variables,
        answers={"can_use_tool": allow},
        covers="G8",
    ),
}
