"""Hooks of the host's."""

from __future__ import annotations

from typing import Any, get_args

from pilothouse.protocol.hooks import HookEvent
from pilothouse_sim.scenario import Scenario, reply
from tests.differential.driver import Cli, Scene
from tests.differential.host import REPLAY, allow, bash, deny, initialized, is_ask, script, turns
from tests.support.raw_cli import Message

EVENTS: tuple[str, ...] = get_args(HookEvent)
MAKES = script(reply(bash("touch made")), reply("Over."))
LOOKS = script(reply(bash("ls")), reply("Over."))


def table(*events: str, **more: Any) -> dict[str, Any]:
    """Registers one callback for each event."""
    return {event: [{"hookCallbackIds": [f"on_{event}"], **more}] for event in events}


def hooked(scenario: Scenario, event: str, output: Message, **more: Any) -> Scene:
    """A scene with one hook that always says the same; permissions are denied."""
    return Scene(
        scenario,
        initialized("Go.", hooks=table(event)),
        answers={"hook_callback": lambda _: output, "can_use_tool": more.pop("asked", deny)},
        **more,
    )


def before_tool(**decision: Any) -> Message:
    """What a PreToolUse hook says."""
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}


def after_tool(**more: Any) -> Message:
    """What a PostToolUse hook says."""
    return {"hookSpecificOutput": {"hookEventName": "PostToolUse", **more}}


def block_once(request: Message) -> Message:
    """Does not let the model stop at first."""
    if request["input"]["stop_hook_active"]:
        return {}
    return {"decision": "block", "reason": "Look again."}


async def hook_beats_ask(cli: Cli) -> None:
    """Lets a PermissionRequest hook decide while the permission is still open."""
    await cli.control("initialize", hooks=table("PermissionRequest"))
    cli.prompt("Make a file.")
    asked = await cli.until(is_hook, start=0)
    await cli.until(is_ask, start=0)
    decision = {"behavior": "allow", "updatedInput": asked["request"]["input"]["tool_input"]}
    output = {"hookEventName": "PermissionRequest", "decision": decision}
    cli.respond(asked["request_id"], {"hookSpecificOutput": output})
    await cli.settle()


async def ask_beats_hook(cli: Cli) -> None:
    """Answers the permission while a PermissionRequest hook is still at work."""
    await cli.control("initialize", hooks=table("PermissionRequest"))
    cli.prompt("Make a file.")
    await cli.until(is_hook, start=0)
    asked = await cli.until(is_ask, start=0)
    cli.respond(asked["request_id"], allow(asked["request"]))
    await cli.settle()


async def hook_error(cli: Cli) -> None:
    """Answers a hook with an error."""
    await cli.control("initialize", hooks=table("PreToolUse"))
    cli.prompt("Make a file.")
    asked = await cli.until(is_hook)
    body = {"subtype": "error", "request_id": asked["request_id"], "error": "no idea"}
    cli.send({"type": "control_response", "response": body})
    await cli.settle()


def is_hook(message: Message) -> bool:
    """Whether the CLI calls a hook."""
    return message.get("request", {}).get("subtype") == "hook_callback"


SCENES = {
    "host_hooks_all": Scene(
        MAKES,
        initialized("Make a file.", hooks=table(*EVENTS)),
        answers={"can_use_tool": allow, "hook_callback": lambda _: {}},
        covers="H2 H6 H11 H12",
    ),
    "host_hooks_wrong": Scene(
        MAKES,
        initialized("Go.", hooks={"PreToolUse": [{"hook_callback_ids": ["x"]}]}),
        answers={"can_use_tool": deny},
        covers="C2",
    ),
    "host_hook_matcher": Scene(
        LOOKS,
        initialized("Look.", hooks=table("PreToolUse", matcher="Write|Edit")),
        answers={"hook_callback": lambda _: {}},
        covers="H2",
    ),
    "host_hook_allows": hooked(
        MAKES, "PreToolUse", before_tool(permissionDecision="allow"), covers="H3"
    ),
    "host_hook_denies": hooked(
        MAKES,
        "PreToolUse",
        before_tool(permissionDecision="deny", permissionDecisionReason="Not today."),
        covers="H3",
    ),
    "host_hook_asks": hooked(
        LOOKS,
        "PreToolUse",
        before_tool(permissionDecision="ask", permissionDecisionReason="Sure?"),
        covers="H3",
    ),
    "host_hook_changes_input": hooked(
        MAKES,
        "PreToolUse",
        before_tool(permissionDecision="allow", updatedInput={"command": "touch other"}),
        files=True,
        covers="H3",
    ),
    "host_hook_blocks_the_old_way": hooked(
        MAKES, "PreToolUse", {"decision": "block", "reason": "Not today."}, covers="H3"
    ),
    "host_hook_adds_context": hooked(
        LOOKS, "PostToolUse", after_tool(additionalContext="The harbour is full.")
    ),
    "host_hook_blocks_after_tool": hooked(
        LOOKS, "PostToolUse", {"decision": "block", "reason": "That was wrong."}
    ),
    "host_hook_stops_after_tool": hooked(
        LOOKS, "PostToolUse", {"continue": False, "stopReason": "Enough."}
    ),
    "host_hook_stops_before_tool": hooked(
        LOOKS, "PreToolUse", {"continue": False, "stopReason": "Enough."}
    ),
    "host_hook_blocks_prompt": Scene(
        script(reply("Hello.")),
        initialized("Go.", hooks=table("UserPromptSubmit")),
        (REPLAY,),
        {"hook_callback": lambda _: {"decision": "block", "reason": "Not now."}},
        covers="H6",
    ),
    "host_hook_adds_to_prompt": hooked(
        script(reply("Hello.")),
        "UserPromptSubmit",
        {
            "hookSpecificOutput": {
                "hookEventName": "UserPromptSubmit",
                "additionalContext": "It is foggy.",
            }
        },
    ),
    "host_hook_blocks_stop": Scene(
        script(reply("Done."), reply("Done indeed.")),
        initialized("Go.", hooks=table("Stop")),
        answers={"hook_callback": block_once},
        covers="H6",
    ),
    "host_hook_system_message": hooked(LOOKS, "PreToolUse", {"systemMessage": "Mind the gap."}),
    "host_hook_error": Scene(MAKES, hook_error, answers={"can_use_tool": deny}, covers="H4"),
    "host_hook_beats_ask": Scene(MAKES, hook_beats_ask, covers="H5 B14"),
    "host_ask_beats_hook": Scene(MAKES, ask_beats_hook, covers="H5"),
    "host_hook_after_failure": Scene(
        script(reply(bash("ls nowhere")), reply("Over.")),
        initialized("Go.", hooks=table("PostToolUse", "PostToolUseFailure")),
        answers={"hook_callback": lambda _: {}},
    ),
    "host_hook_events_shown": Scene(
        LOOKS,
        initialized("Go.", hooks=table("PreToolUse", "PostToolUse")),
        ("--include-hook-events",),
        {"hook_callback": lambda _: {}},
    ),
    "host_hook_of_settings": Scene(
        LOOKS,
        turns("Go."),
        (
            '--settings={"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": '
            '[{"type": "command", "command": "echo no >&2; exit 2"}]}]}}',
        ),
    ),
}
