"""Permissions: asked, answered, remembered, refused; rules and modes."""

from __future__ import annotations

from typing import Any

from pilothouse_sim.scenario import reply, tool
from tests.differential.driver import Cli, Scene
from tests.differential.host import (
    PARTIAL,
    REPLAY,
    SILENT,
    allow,
    bash,
    deny,
    is_ask,
    script,
    settings,
    turns,
)
from tests.support.raw_cli import Message

MAKES = script(reply("Making it.", bash("touch made")), reply("Over."))
MAKES_TWICE = script(
    reply(bash("touch made")), reply("Once."), reply(bash("touch made")), reply("Twice.")
)


def allow_with(**more: Any) -> dict[str, Any]:
    """Allows everything, with more in the answer."""
    return {"can_use_tool": lambda request: allow(request) | more}


def without_input(_: Message) -> Message:
    """Allows in as few words as possible."""
    return {"behavior": "allow"}


def other_input(request: Message) -> Message:
    """Allows another command."""
    return {"behavior": "allow", "updatedInput": {**request["input"], "command": "touch other"}}


async def error_answer(cli: Cli) -> None:
    """Answers a permission request with an error."""
    cli.prompt("Make a file.")
    asked = await cli.until(is_ask)
    body = {"subtype": "error", "request_id": asked["request_id"], "error": "no idea"}
    cli.send({"type": "control_response", "response": body})
    await cli.settle()


async def bare_allow(cli: Cli) -> None:
    """Answers in a form that means nothing, then in one that is no decision."""
    cli.prompt("Make a file.")
    asked = await cli.until(is_ask)
    own = asked["request_id"]
    body = {"subtype": "allow"}
    cli.send({"type": "control_response", "request_id": own, "response": body})
    cli.send({"type": "control_response", "response": {**body, "request_id": own}})
    await cli.settle()


async def parallel(cli: Cli) -> None:
    """Answers two open questions in the reverse order."""
    cli.prompt("Read both files.")
    first, second = await cli.until(is_ask), await cli.until(is_ask)
    cli.respond(second["request_id"], allow(second["request"]))
    await cli.until(lambda line: line["type"] == "user")
    await cli.control("initialize")
    cli.respond(first["request_id"], deny(first["request"]))
    await cli.settle()


async def interrupt_ask(cli: Cli) -> None:
    """Interrupts while a permission is open; the late answer does nothing."""
    cli.prompt("Make a file.")
    asked = await cli.until(is_ask)
    await cli.control("interrupt")
    await cli.settle()
    cli.respond(asked["request_id"], allow(asked["request"]))
    await turns("Go on.")(cli)


def beside(cwd: Any) -> None:
    """Puts files where reading needs a permission."""
    for name in ("port", "starboard"):
        (cwd.parent / f"{name}.txt").write_text(f"{name}\n")


RULE = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "touch made"}],
    "behavior": "allow",
    "destination": "session",
}
EDITS = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}


def allow_there(request: Message) -> Message:
    """Lets a tool run, and adds the folder that it works in."""
    added = {"type": "addDirectories", "directories": ["/usr/share"], "destination": "session"}
    return {**allow(request), "updatedPermissions": [added]}


SCENES = {
    "directories": Scene(
        script(reply(bash("touch made")), reply("Made."), reply("Aye.")),
        turns("Make it.", "And?"),
        (settings(permissions={"additionalDirectories": ["/usr/lib"]}), "--add-dir=/usr/bin"),
        {"can_use_tool": allow_there},
    ),
    "permission_allow": Scene(
        MAKES,
        turns("Make a file."),
        (PARTIAL,),
        {"can_use_tool": allow},
        files=True,
        covers="B1 B2",
    ),
    "permission_deny": Scene(
        MAKES, turns("Make a file."), answers={"can_use_tool": deny}, files=True, covers="B1"
    ),
    "permission_echo": Scene(
        MAKES, turns("Make a file."), (REPLAY,), {"can_use_tool": allow}, covers="A20"
    ),
    "allow_without_input": Scene(
        MAKES,
        turns("Make a file."),
        answers={"can_use_tool": without_input},
        files=True,
        covers="B2",
    ),
    "allow_other_input": Scene(
        MAKES, turns("Make a file."), answers={"can_use_tool": other_input}, files=True, covers="B2"
    ),
    "deny_without_message": Scene(
        MAKES,
        turns("Make a file."),
        answers={"can_use_tool": lambda _: {"behavior": "deny"}},
        covers="B3",
    ),
    "deny_interrupt": Scene(
        MAKES,
        turns("Make a file.", "Go on."),
        answers={"can_use_tool": lambda _: {**deny(_), "interrupt": True}},
        covers="B12",
    ),
    "error_answer": Scene(MAKES, error_answer, covers="B5"),
    "bare_answer": Scene(MAKES, bare_allow, covers="B4"),
    "answer_about_another_call": Scene(
        MAKES, turns("Make a file."), answers=allow_with(toolUseID="toolu_other"), covers="B6"
    ),
    "parallel_permissions": Scene(
        script(
            reply(
                "Reading both.",
                tool("Read", file_path="{{home}}/port.txt"),
                tool("Read", file_path="{{home}}/starboard.txt"),
            ),
            reply("Read."),
        ),
        parallel,
        prepare=beside,
        covers="B11 C1",
    ),
    "interrupt_ask": Scene(
        script(reply(bash("touch made")), reply("Very well.")), interrupt_ask, covers="D3 B14"
    ),
    "rule_remembered": Scene(
        MAKES_TWICE,
        turns("Make a file.", "Again."),
        answers=allow_with(updatedPermissions=[RULE]),
        covers="B8 B34",
    ),
    "rule_on_disk": Scene(
        MAKES_TWICE,
        turns("Make a file.", "Again."),
        answers=allow_with(updatedPermissions=[{**RULE, "destination": "localSettings"}]),
        files=True,
        covers="B9",
    ),
    "rule_invalid": Scene(
        MAKES_TWICE,
        turns("Make a file.", "Again."),
        answers=allow_with(updatedPermissions=[{"type": "nonsense"}]),
        covers="B7",
    ),
    "mode_in_answer": Scene(
        script(
            reply(tool("Write", file_path="{{cwd}}/a.txt", content="a\n")),
            reply(tool("Write", file_path="{{cwd}}/b.txt", content="b\n")),
            reply("Both."),
        ),
        turns("Write two files."),
        answers=allow_with(updatedPermissions=[EDITS]),
        files=True,
        covers="B10",
    ),
    "allowed_tools": Scene(
        MAKES, turns("Make a file."), ("--allowedTools=Bash(touch:*)",), files=True, covers="B34"
    ),
    "disallowed_tool": Scene(
        script(reply(bash("touch made")), reply("Over.")),
        turns("Make a file."),
        ("--disallowedTools=Bash",),
    ),
    "disallowed_command": Scene(MAKES, turns("Make a file."), ("--disallowedTools=Bash(touch:*)",)),
    "denied_by_settings": Scene(
        MAKES, turns("Make a file."), (settings(permissions={"deny": ["Bash(touch:*)"]}),)
    ),
    "asked_by_settings": Scene(
        script(reply(bash("ls")), reply("Over.")),
        turns("Look."),
        (settings(permissions={"ask": ["Bash(ls:*)"]}),),
        {"can_use_tool": allow},
    ),
    "nobody_to_ask": Scene(MAKES, turns("Make a file."), base=SILENT, covers="B16"),
    "mode_dont_ask": Scene(
        MAKES, turns("Make a file."), ("--permission-mode=dontAsk",), covers="B17 B18"
    ),
    "mode_plan_bash": Scene(
        script(reply(bash("ls")), reply(bash("touch made")), reply("Over.")),
        turns("Look, then make."),
        ("--permission-mode=plan",),
        {"can_use_tool": deny},
        covers="B31",
    ),
    "mode_bypass": Scene(
        MAKES,
        turns("Make a file."),
        ("--dangerously-skip-permissions",),
        env={"IS_SANDBOX": "1"},
        files=True,
        covers="B33",
    ),
    "bypass_as_root": Scene(
        MAKES, None, ("--dangerously-skip-permissions",), stderr=True, covers="B33"
    ),
    "variable_in_command": Scene(
        script(reply(bash('touch "$HOME/x"')), reply("Over.")),
        turns("Make a file."),
        ("--allowedTools=Bash(touch:*)",),
        {"can_use_tool": deny},
        covers="B8",
    ),
}
