"""What hooks may answer, what they are told, and commands as hooks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pilothouse_sim.scenario import ApiError, gate, reply, text, tool
from tests.differential.driver import Cli, Scene
from tests.differential.host import (
    PARTIAL,
    SILENT,
    UNTIL_GO,
    allow,
    bash,
    deny,
    initialized,
    is_ask,
    script,
    settings,
    turns,
)
from tests.differential.scenes.agents import sends
from tests.support.raw_cli import Message

SHOW_HOOKS = "--include-hook-events"
UNTIMED = """sed 's/"duration_ms":[0-9]*/"duration_ms":0/'"""
Hook = Callable[[Message], Message | None]


def on(*events: str, **more: Any) -> dict[str, Any]:
    """The `hooks` of an `initialize` that hears these events, one callback each."""
    return {event: [{"hookCallbackIds": [event], **more}] for event in events}


def answer(**outputs: Message) -> Hook:
    """Answers callbacks by their id; those without an answer say nothing."""
    return lambda request: outputs.get(request["callback_id"], {})


def by_command(outputs: dict[str, Message]) -> Hook:
    """Answers by the command of the Bash call that the hook is about."""
    return lambda request: outputs.get(request["input"]["tool_input"]["command"], {})


def specific(event: str, **more: Any) -> Message:
    """What a hook says that is for its event only."""
    return {"hookSpecificOutput": {"hookEventName": event, **more}}


def pre(decision: str | None = None, **more: Any) -> Message:
    """What a PreToolUse hook says."""
    said = {"permissionDecision": decision} if decision else {}
    return specific("PreToolUse", **said, **more)


def decided(behavior: str, **more: Any) -> Message:
    """What a PermissionRequest hook says."""
    return specific("PermissionRequest", decision={"behavior": behavior, **more})


def is_hook(line: Message) -> bool:
    """Whether the CLI calls a hook."""
    return line.get("request", {}).get("subtype") == "hook_callback"


def is_cancel(line: Message) -> bool:
    """Whether the CLI takes a request back."""
    return line["type"] == "control_cancel_request"


def commands(**hooks: str) -> str:
    """The flag with settings in which every event runs one command."""
    return settings(hooks=command_table(**hooks))


def command_table(**hooks: str) -> dict[str, Any]:
    """The `hooks` of settings in which every event runs one command."""
    return {
        event: [{"hooks": [{"type": "command", "command": command}]}]
        for event, command in hooks.items()
    }


PRE_ANSWERS = {
    "touch allowed": pre("allow", permissionDecisionReason="Fine."),
    "touch denied": pre("deny", permissionDecisionReason="Not on a Sunday."),
    "touch denied-silently": pre("deny"),
    "ls": pre("ask", permissionDecisionReason="Really look?"),
    "pwd": pre("ask"),
    "touch asked": pre("ask", permissionDecisionReason="Really touch?"),
    "touch before": pre("allow", updatedInput={"command": "touch after", "description": "Other"}),
    "touch early": pre(updatedInput={"command": "touch late", "description": "Other"}),
    "touch approved": {"decision": "approve", "reason": "As ever."},
    "touch blocked": {"decision": "block", "reason": "Old style."},
    "touch blocked-silently": {"decision": "block"},
    "touch async": {"async": True},
    "touch message": {"systemMessage": "Beware.", "suppressOutput": True},
    "touch context": pre("allow", additionalContext="It is Sunday."),
    "touch mixed": {"decision": "approve", **pre("deny", permissionDecisionReason="Mixed.")},
    "touch denied-aloud": {"systemMessage": "Denied.", **pre("deny")},
}
POST_ANSWERS = {
    "echo context": specific("PostToolUse", additionalContext="It is Sunday."),
    "echo block": {"decision": "block", "reason": "I do not like it."},
    "echo other": specific(
        "PostToolUse",
        updatedToolOutput={
            "stdout": "replaced",
            "stderr": "",
            "interrupted": False,
            "isImage": False,
            "noOutputExpected": False,
        },
    ),
    "echo message": {"systemMessage": "Seen."},
}


async def permission_decided(cli: Cli) -> None:
    """Lets a PermissionRequest hook decide while the question is open."""
    await cli.control("initialize", hooks=on("PermissionRequest"))
    outputs = (
        decided("allow"),
        decided("allow", updatedInput={"command": "touch other", "description": "Other"}),
        decided("deny", message="The hook says no."),
        decided("deny"),
    )
    for output in outputs:
        cli.prompt("Make a file.")
        await cli.until(is_ask)
        hook = await cli.until(is_hook)
        cli.respond(hook["request_id"], output)
        await cli.settle()


async def permission_interrupts(cli: Cli) -> None:
    """Lets a PermissionRequest hook end the turn."""
    await cli.control("initialize", hooks=on("PermissionRequest"))
    cli.prompt("Make a file.")
    await cli.until(is_ask)
    hook = await cli.until(is_hook)
    cli.respond(hook["request_id"], decided("deny", message="Stop.", interrupt=True))
    await cli.settle()


async def undecided(cli: Cli) -> None:
    """Lets the hook say nothing, and the user answer after it."""
    await cli.control("initialize", hooks=on("PermissionRequest"))
    cli.prompt("Make a file.")
    ask = await cli.until(is_ask)
    hook = await cli.until(is_hook)
    cli.respond(hook["request_id"], {})
    cli.respond(ask["request_id"], allow(ask["request"]))
    await cli.settle()


async def pre_timeout(cli: Cli) -> None:
    """Does not answer a hook in time."""
    await cli.control("initialize", hooks=on("PreToolUse", timeout=1))
    cli.prompt("Make a file.")
    await cli.until(is_cancel)
    await cli.settle()


async def other_timeouts(cli: Cli) -> None:
    """Does not answer hooks that nothing depends on in time."""
    names = ("UserPromptSubmit", "PostToolUse", "PostToolBatch", "Stop")
    await cli.control("initialize", hooks=on(*names, timeout=1))
    cli.prompt("Look.")
    await cli.settle()


async def refused_hooks(cli: Cli) -> None:
    """Answers every hook with an error."""
    names = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolBatch", "Stop")
    await cli.control("initialize", hooks=on(*names))
    cli.prompt("Look.")
    for _ in names:
        hook = await cli.until(is_hook)
        body = {"subtype": "error", "request_id": hook["request_id"], "error": "It broke."}
        cli.send({"type": "control_response", "response": body})
    await cli.settle()


async def interrupted_hook(cli: Cli) -> None:
    """Interrupts while a hook is being waited for."""
    await cli.control("initialize", hooks=on("PreToolUse"))
    cli.prompt("Make a file.")
    await cli.until(is_hook)
    await cli.control("interrupt")
    await cli.settle()


async def display_unanswered(cli: Cli) -> None:
    """Answers the hook about a text only later."""
    await cli.control("initialize", hooks=on("MessageDisplay"))
    cli.prompt("Talk.")
    hook = await cli.until(is_hook)
    await cli.control("set_max_thinking_tokens", max_thinking_tokens=None)
    cli.respond(hook["request_id"], {})
    await cli.settle()


async def folded(cli: Cli) -> None:
    """Sends a prompt while a tool runs: it joins the turn."""
    await cli.control("initialize", hooks=on("UserPromptSubmit", "Stop"))
    cli.prompt("Run it.")
    await cli.exists("started")
    cli.prompt("And hurry.")
    await cli.control("set_max_thinking_tokens", max_thinking_tokens=None)
    (cli.cwd / "go").touch()
    await cli.settle()


async def task_ended(cli: Cli) -> None:
    """Lets a command in the background end: the CLI starts a turn by itself."""
    await cli.control("initialize", hooks=on("UserPromptSubmit", "Stop", "Notification"))
    cli.prompt("Build it.")
    await cli.settle()
    (cli.cwd / "go").touch()
    await cli.settle()


async def agent_hooks(cli: Cli) -> None:
    """Has a sub-agent at work, with hooks for all that it does."""
    names = ("SubagentStart", "SubagentStop", "PreToolUse", "PostToolUse", "Stop", "TaskCreated")
    await cli.control("initialize", hooks=on(*names, "PostToolBatch", "PermissionRequest"))
    cli.prompt("Have somebody look into it.")
    await cli.reached("start")
    await cli.result()
    await cli.until(lambda line: line.get("state") == "completed")
    cli.release("start")
    await cli.settle()


async def steered(cli: Cli) -> None:
    """Changes what a session is like, with hooks for all such changes."""
    names = ("PreModelSwitch", "PostModelSwitch", "ConfigChange", "DirectoryAdded", "CwdChanged")
    await cli.control("initialize", hooks=on(*names, "UserPromptExpansion", "Notification"))
    await turns("First.")(cli)
    await cli.control("set_model", model="claude-sonnet-4-5")
    await cli.control("set_permission_mode", mode="acceptEdits")
    await cli.control("apply_flag_settings", settings={"model": "claude-haiku-4-5"})
    await turns("Second.")(cli)


def put_settings(**hooks: str) -> Callable[[Path], None]:
    """Puts the hooks into the project's settings."""

    def prepare(cwd: Path) -> None:
        (cwd / ".claude").mkdir()
        table = {"hooks": command_table(**hooks)}
        (cwd / ".claude" / "settings.json").write_text(json.dumps(table))

    return prepare


TWO = {"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["0", "1"]}]}
MATCHERS = {
    "bar": "Bash|Write",
    "regex": "B.*",
    "star": "*",
    "empty": "",
    "part": "Bas",
    "case": "bash",
    "other": "Read",
    "comma": "Write, Bash",
    "anchor": "^Ba",
    "broken": "Bash(",
}
ONE_CALL = script(reply(bash("touch made")), reply("Made."))
ONE_LOOK = script(reply("Looking.", bash("ls")), reply("Seen."))
AFTERWARDS = ("PostToolUse", "PostToolUseFailure", "PostToolBatch", "Stop")

SCENES = {
    "hook_pre_decisions": Scene(
        script(*(reply(bash(command)) for command in PRE_ANSWERS), reply("Done.")),
        initialized("Go.", hooks=on("PreToolUse", matcher="Bash")),
        answers={"can_use_tool": allow, "hook_callback": by_command(PRE_ANSWERS)},
        covers="H3",
        files=True,
    ),
    "hook_pre_defer": Scene(
        script(reply("Well.", bash("touch made")), reply("Made.")),
        initialized("Go.", hooks=on("PreToolUse")),
        answers={"can_use_tool": allow, "hook_callback": answer(PreToolUse=pre("defer"))},
        covers="H3",
    ),
    "hook_pre_stops": Scene(
        ONE_LOOK,
        initialized("Go.", "Again.", hooks=on("PreToolUse", *AFTERWARDS)),
        answers={"hook_callback": answer(PreToolUse={"continue": False, "stopReason": "Enough."})},
        covers="H3",
    ),
    "hook_pre_deny_stops": Scene(
        ONE_CALL,
        initialized("Go.", hooks=on("PreToolUse", *AFTERWARDS)),
        answers={
            "hook_callback": answer(
                PreToolUse={"continue": False, **pre("deny", permissionDecisionReason="No.")}
            )
        },
        covers="H3",
        files=True,
    ),
    "hook_pre_timeout": Scene(ONE_CALL, pre_timeout, covers="H4", files=True),
    "hook_other_timeouts": Scene(ONE_LOOK, other_timeouts, covers="H4"),
    "hooks_refused": Scene(ONE_LOOK, refused_hooks, covers="H4"),
    "hook_two": Scene(
        ONE_CALL,
        initialized("Go.", hooks=TWO),
        answers={
            "hook_callback": lambda request: (
                pre("deny", permissionDecisionReason="The second says no.")
                if request["callback_id"] == "1"
                else pre("allow")
            )
        },
        covers="H3",
    ),
    "hook_matchers": Scene(
        script(reply(bash("ls")), reply("Seen.")),
        initialized(
            "Go.",
            hooks={
                "PreToolUse": [
                    {"matcher": matcher, "hookCallbackIds": [name]}
                    for name, matcher in MATCHERS.items()
                ]
            },
        ),
        answers={"hook_callback": lambda _: {}},
        covers="H2",
    ),
    "hook_interrupted": Scene(ONE_CALL, interrupted_hook, covers="B14"),
    "hook_prompt_context": Scene(
        script(reply("Fine.")),
        initialized("Go.", hooks=on("UserPromptSubmit")),
        (PARTIAL, "--replay-user-messages"),
        {
            "hook_callback": answer(
                UserPromptSubmit={
                    "systemMessage": "Noted.",
                    **specific("UserPromptSubmit", additionalContext="It is Sunday."),
                }
            )
        },
        covers="H6",
    ),
    "hook_prompt_block": Scene(
        script(reply("Fine.")),
        initialized("Go.", "Again.", hooks=on("UserPromptSubmit")),
        answers={
            "hook_callback": answer(
                UserPromptSubmit={"decision": "block", "reason": "No.", "systemMessage": "Hm."}
            )
        },
        covers="H6",
    ),
    "hook_prompt_stop": Scene(
        script(reply("Fine.")),
        initialized("Go.", hooks=on("UserPromptSubmit")),
        answers={
            "hook_callback": answer(UserPromptSubmit={"continue": False, "stopReason": "Enough."})
        },
        covers="H6",
    ),
    "hook_permission_decides": Scene(
        script(
            *(
                each
                for number in range(4)
                for each in (reply(bash(f"touch {number}")), reply("Over."))
            )
        ),
        permission_decided,
        covers="H5",
        files=True,
    ),
    "hook_permission_interrupts": Scene(ONE_CALL, permission_interrupts, covers="H5"),
    "hook_permission_undecided": Scene(ONE_CALL, undecided, covers="H5"),
    "hook_permission_silent": Scene(
        ONE_CALL,
        initialized("Go.", hooks=on("PermissionRequest")),
        base=SILENT,
        answers={"hook_callback": answer(PermissionRequest=decided("allow"))},
        covers="H5",
        files=True,
    ),
    "hook_post": Scene(
        script(*(reply(bash(command)) for command in POST_ANSWERS), reply("Done.")),
        initialized("Go.", hooks=on("PostToolUse")),
        answers={"hook_callback": by_command(POST_ANSWERS)},
    ),
    "hook_post_stops": Scene(
        ONE_LOOK,
        initialized("Go.", hooks=on(*AFTERWARDS)),
        answers={"hook_callback": answer(PostToolUse={"continue": False, "stopReason": "Enough."})},
    ),
    "hook_post_failure": Scene(
        script(
            reply(tool("Read", file_path="{{cwd}}/none")),
            reply(tool("Nothing", a=1)),
            reply(bash("cat none")),
            reply(bash("touch denied")),
            reply("Failed."),
        ),
        initialized("Go.", hooks=on("PreToolUse", *AFTERWARDS)),
        answers={
            "can_use_tool": deny,
            "hook_callback": answer(
                PostToolUseFailure={
                    "systemMessage": "Pity.",
                    **specific("PostToolUseFailure", additionalContext="As ever."),
                }
            ),
        },
    ),
    "hook_batch": Scene(
        ONE_LOOK,
        initialized("Go.", hooks=on("PostToolBatch")),
        answers={
            "hook_callback": answer(
                PostToolBatch={
                    "systemMessage": "Two.",
                    **specific("PostToolBatch", additionalContext="Two at once."),
                }
            )
        },
    ),
    "hook_batch_stops": Scene(
        ONE_LOOK,
        initialized("Go.", hooks=on("PostToolBatch", "Stop")),
        answers={
            "hook_callback": answer(PostToolBatch={"continue": False, "stopReason": "Enough."})
        },
    ),
    "hook_batch_blocks": Scene(
        ONE_LOOK,
        initialized("Go.", hooks=on("PostToolBatch", "Stop")),
        answers={"hook_callback": answer(PostToolBatch={"decision": "block", "reason": "No."})},
    ),
    "hook_stop_ends": Scene(
        script(reply("First."), reply("Second.")),
        initialized("Go.", hooks=on("Stop")),
        answers={
            "hook_callback": answer(
                Stop={"continue": False, "stopReason": "Enough.", "systemMessage": "Bye."}
            )
        },
        covers="H6",
    ),
    "hook_stop_failure": Scene(
        script(*(ApiError(status=400) for _ in range(10))),
        initialized("Go.", hooks=on("Stop", "StopFailure")),
        answers={"hook_callback": lambda _: {}},
    ),
    "hook_folded": Scene(
        script(reply(bash(UNTIL_GO)), reply("As asked.")),
        folded,
        answers={"can_use_tool": allow, "hook_callback": lambda _: {}},
    ),
    "hook_task_ended": Scene(
        script(reply(bash(UNTIL_GO, run_in_background=True)), reply("Begun."), reply("Built.")),
        task_ended,
        answers={"can_use_tool": allow, "hook_callback": lambda _: {}},
    ),
    "hook_agent": Scene(
        sends(reply(gate("start"), bash("touch made")), reply("All quiet.")),
        agent_hooks,
        answers={"can_use_tool": allow, "hook_callback": lambda _: {}},
    ),
    "hook_steered": Scene(
        script(reply("One."), reply("Two.")),
        steered,
        answers={"hook_callback": lambda _: {}},
    ),
    "hook_display": Scene(
        script(
            reply(
                text("A first line.\nA second one.\n\nA paragraph.", chunk=7), bash("ls"), text("b")
            ),
            reply(text("Done and done.", chunk=3)),
        ),
        initialized("Go.", hooks=on("MessageDisplay")),
        (PARTIAL,),
        {"hook_callback": lambda _: {}},
    ),
    "hook_display_unanswered": Scene(script(reply("Talking.")), display_unanswered, (PARTIAL,)),
    "hook_denied": Scene(
        ONE_CALL,
        initialized("Go.", hooks=on("PermissionDenied", "PermissionRequest", "Notification")),
        ("--permission-mode=dontAsk",),
        {"hook_callback": lambda _: {}},
    ),
    "hook_cwd": Scene(
        script(reply(bash("mkdir sub && cd sub")), reply("There.")),
        initialized("Go.", hooks=on("CwdChanged", "FileChanged", "DirectoryAdded", "ConfigChange")),
        answers={"hook_callback": lambda _: {}, "can_use_tool": allow},
    ),
    "command_hooks": Scene(
        ONE_CALL,
        turns("Make a file."),
        (
            SHOW_HOOKS,
            commands(
                SessionStart="echo started",
                UserPromptSubmit="echo submitted",
                PreToolUse="echo before",
                PostToolUse="echo after",
                Stop="echo stopped",
                SessionEnd="echo ended",
            ),
        ),
        {"can_use_tool": allow},
    ),
    "command_hooks_unseen": Scene(
        ONE_CALL,
        initialized("Make a file."),
        (
            commands(
                SessionStart="echo started",
                UserPromptSubmit="echo submitted",
                PreToolUse="echo before",
                PostToolUse="echo after",
                Stop="echo stopped",
                SessionEnd="echo ended > ended",
            ),
        ),
        {"can_use_tool": allow},
        files=True,
    ),
    "command_hooks_told": Scene(
        ONE_CALL,
        turns("Make a file."),
        (
            commands(
                **{
                    event: f"{UNTIMED} > $CLAUDE_PROJECT_DIR/{event}.json"
                    for event in (
                        "SessionStart",
                        "UserPromptSubmit",
                        "PreToolUse",
                        "PostToolUse",
                        "Stop",
                        "SessionEnd",
                    )
                }
            ),
        ),
        {"can_use_tool": allow},
        files=True,
    ),
    "command_hook_of_project": Scene(
        ONE_CALL,
        turns("Make a file."),
        (SHOW_HOOKS,),
        {"can_use_tool": allow},
        prepare=put_settings(PreToolUse="echo 'Not here.' >&2; exit 2"),
    ),
    "command_hook_fails": Scene(
        ONE_CALL,
        turns("Make a file."),
        (SHOW_HOOKS, commands(PreToolUse="echo 'Oops.' >&2; exit 1")),
        {"can_use_tool": allow},
    ),
    "command_hook_json": Scene(
        ONE_CALL,
        turns("Make a file."),
        (SHOW_HOOKS, commands(PreToolUse=f"echo '{json.dumps(pre('allow'))}'")),
    ),
    "command_hook_asks": Scene(
        script(reply(bash("ls")), reply("Seen.")),
        turns("Look."),
        (commands(PreToolUse=f"echo '{json.dumps(pre('ask'))}'"),),
        {"can_use_tool": allow},
    ),
    "command_hook_prompt_blocked": Scene(
        script(reply("Hello.")),
        turns("Say hello."),
        (SHOW_HOOKS, commands(UserPromptSubmit="echo 'Not today.' >&2; exit 2")),
    ),
    "command_hook_post_blocks": Scene(
        script(reply(bash("ls")), reply("Made.")),
        turns("Say it."),
        (SHOW_HOOKS, commands(PostToolUse="echo 'I do not like it.' >&2; exit 2")),
    ),
    "command_hook_stop_blocks": Scene(
        script(reply("First."), reply("Second.")),
        turns("Go."),
        (
            SHOW_HOOKS,
            commands(
                Stop="if [ -e once ]; then exit 0; fi; touch once; echo 'Look again.' >&2; exit 2"
            ),
        ),
    ),
    "command_hook_slow": Scene(
        script(reply("First.")),
        turns("Go."),
        (SHOW_HOOKS, commands(UserPromptSubmit="echo one; sleep 1.6; echo two")),
    ),
}
