"""Questions to the user, and plans."""

from __future__ import annotations

from typing import Any

from pilothouse_sim.scenario import reply, tool
from tests.differential.driver import Cli, Scene
from tests.differential.host import SILENT, allow, deny, script, turns
from tests.support.raw_cli import Message

COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [
        {"label": "Red", "description": "like a buoy"},
        {"label": "Blue", "description": "like the sea"},
    ],
    "multiSelect": False,
}
CARGO = {
    "question": "Which cargo?",
    "header": "Cargo",
    "options": [
        {"label": "Ham", "description": "smoked"},
        {"label": "Olives", "description": "green"},
    ],
    "multiSelect": True,
}


def asks(*questions: dict[str, Any]) -> Any:
    """A scenario in which the model asks."""
    return script(reply(tool("AskUserQuestion", questions=list(questions))), reply("I see."))


def answered(**more: Any) -> dict[str, Any]:
    """Allows the questions, with answers."""

    def answer(request: Message) -> Message:
        return {"behavior": "allow", "updatedInput": {**request["input"], **more}}

    return {"can_use_tool": answer}


PLAN = tool("Write", file_path="{{plan_file}}", content="# Plan\n\n1. Look\n2. Leap\n")
LEAP = tool("Write", file_path="{{cwd}}/leap.txt", content="leapt\n")
PLANNING = script(reply(PLAN), reply(tool("ExitPlanMode")), reply(LEAP), reply("Leapt."))
IN_PLAN_MODE = ("--permission-mode=plan",)
EDITS = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}


def edited_plan(request: Message) -> Message:
    """Approves another plan than the one that was made."""
    return {
        "behavior": "allow",
        "updatedInput": {**request["input"], "plan": "# Plan\n\n1. Stay\n"},
    }


def approve_only(request: Message) -> Message:
    """Approves plans, refuses the rest."""
    return allow(request) if request["tool_name"] == "ExitPlanMode" else deny(request)


async def mode_beside_answer(cli: Cli) -> None:
    """Changes the mode right after a plan was approved."""
    cli.prompt("Plan it.")
    asked = await cli.until(lambda line: line["type"] == "control_request")
    with cli.in_one_write():
        cli.respond(asked["request_id"], allow(asked["request"]))
        cli.ask("set_permission_mode", mode="acceptEdits")
    await cli.settle()


SCENES = {
    "question_answered": Scene(
        asks(COLOUR),
        turns("Paint it."),
        answers=answered(answers={"Which colour?": "Blue"}),
        covers="B21 B22",
    ),
    "questions_with_several_answers": Scene(
        asks(COLOUR, CARGO),
        turns("Paint it."),
        answers=answered(answers={"Which colour?": "Green", "Which cargo?": "Ham, Olives"}),
        covers="B23",
    ),
    "question_with_notes": Scene(
        asks(COLOUR),
        turns("Paint it."),
        answers=answered(
            answers={"Which colour?": "Blue"}, annotations={"Which colour?": {"notes": "dark"}}
        ),
        covers="B23 B36",
    ),
    "question_denied": Scene(
        asks(COLOUR), turns("Paint it."), answers={"can_use_tool": deny}, covers="B23"
    ),
    "question_without_answers": Scene(
        asks(COLOUR), turns("Paint it."), answers={"can_use_tool": allow}, covers="B23 B35"
    ),
    "question_answered_by_a_list": Scene(
        asks(COLOUR), turns("Paint it."), answers=answered(answers=["Blue"]), covers="B22"
    ),
    "question_among_allowed_tools": Scene(
        asks(COLOUR),
        turns("Paint it."),
        ("--allowedTools=AskUserQuestion",),
        answered(answers={"Which colour?": "Red"}),
        covers="B24",
    ),
    "question_to_nobody": Scene(asks(COLOUR), turns("Paint it."), base=SILENT, covers="B16"),
    "plan_approved": Scene(
        PLANNING,
        turns("Plan it."),
        IN_PLAN_MODE,
        {"can_use_tool": allow},
        files=True,
        covers="B25 B26",
    ),
    "plan_approved_with_mode": Scene(
        PLANNING,
        turns("Plan it."),
        IN_PLAN_MODE,
        {"can_use_tool": lambda request: allow(request) | {"updatedPermissions": [EDITS]}},
        files=True,
        covers="B10 B26",
    ),
    "plan_approved_then_mode": Scene(PLANNING, mode_beside_answer, IN_PLAN_MODE, covers="B27"),
    "plan_edited": Scene(
        script(reply(PLAN), reply(tool("ExitPlanMode")), reply("Staying.")),
        turns("Plan it."),
        IN_PLAN_MODE,
        {"can_use_tool": edited_plan},
        covers="B28",
    ),
    "plan_rejected": Scene(
        script(reply(PLAN), reply(tool("ExitPlanMode")), reply("I see.")),
        turns("Plan it."),
        IN_PLAN_MODE,
        {"can_use_tool": deny},
        covers="B29",
    ),
    "plan_without_file": Scene(
        script(reply(tool("ExitPlanMode", plan="# Inline")), reply("I see.")),
        turns("Plan it."),
        IN_PLAN_MODE,
        {"can_use_tool": allow},
        covers="B25",
    ),
    "plan_mode_entered": Scene(
        script(
            reply(tool("ExitPlanMode")),
            reply(tool("EnterPlanMode")),
            reply(PLAN),
            reply(tool("ExitPlanMode")),
            reply("Ready."),
        ),
        turns("Think first."),
        answers={"can_use_tool": approve_only},
        covers="B30",
    ),
    "plan_mode_writes": Scene(
        script(reply(LEAP), reply("Not yet.")),
        turns("Leap."),
        IN_PLAN_MODE,
        {"can_use_tool": deny},
        files=True,
    ),
}
