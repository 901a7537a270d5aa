"""What the simulator plays when it is given no scenario: one is picked by words in the prompt."""

from __future__ import annotations

from typing import Any

from pilothouse_sim.scenario import (
    ApiError,
    Broken,
    ModelRequest,
    Reply,
    Scenario,
    Script,
    reply,
    text,
    thinking,
    tool,
)
from pilothouse_sim.simulator.prompts import words_of

__all__ = ["BuiltinScript"]

_QUESTION = {
    "question": "Which way shall we go?",
    "header": "Course",
    "options": [
        {"label": "North", "description": "Cold, but the wind is with us"},
        {"label": "South", "description": "Warm, and against the wind"},
    ],
    "multiSelect": False,
}

_PLAN = "# Plan\n\n1. Look at the charts\n2. Set the course\n3. Sail\n"

_STORY = "Once upon a time there was a pilot who read the water. "

_HELP = (
    "I am the simulator of Pilothouse: no model, no key, no network. Words in your prompt pick "
    "what I do: write a file, edit it, read it, run a command, ask a question, make a plan, send "
    "an agent, think, tell a long story, or fail."
)

_SCENES: tuple[tuple[tuple[str, ...], tuple[Reply | ApiError, ...]], ...] = (
    (("look around the harbour",), (reply("All is quiet."),)),
    (("<task-notification>",), (reply("The agent reports that all is quiet."),)),
    (
        ("plan",),
        (
            reply("First a plan.", tool("EnterPlanMode")),
            reply(
                "I write it down.",
                tool("Write", file_path="{{plan_file}}", content=_PLAN),
            ),
            reply("Here it is.", tool("ExitPlanMode")),
            reply("Plan settled."),
        ),
    ),
    (
        ("question", "ask me", "choose"),
        (reply(tool("AskUserQuestion", questions=[_QUESTION])), reply("Aye, as you say.")),
    ),
    (
        ("agent", "delegate"),
        (
            reply(
                "I send somebody.",
                tool(
                    "Agent",
                    description="Look around",
                    prompt="Look around the harbour.",
                    subagent_type="general-purpose",
                ),
            ),
            reply("Somebody is on it."),
        ),
    ),
    (
        ("edit", "change"),
        (
            reply(tool("Read", file_path="{{cwd}}/hello.txt")),
            reply(
                tool(
                    "Edit",
                    file_path="{{cwd}}/hello.txt",
                    old_string="Hello",
                    new_string="Ahoy",
                )
            ),
            reply("Changed it."),
        ),
    ),
    (("read",), (reply(tool("Read", file_path="{{cwd}}/hello.txt")), reply("Read it."))),
    (
        ("write", "file"),
        (
            reply(
                "I write a file.",
                tool("Write", file_path="{{cwd}}/hello.txt", content="Hello from Pilothouse.\n"),
            ),
            reply("It is in hello.txt."),
        ),
    ),
    (
        ("run", "command", "bash"),
        (
            reply(
                "I run a command.",
                tool("Bash", command="mkdir -p harbour && ls", description="Make a folder"),
            ),
            reply("Done."),
        ),
    ),
    (("think",), (reply(thinking("The tide turns at six.", chunk=4), "We sail at six."),)),
    (
        ("story", "long"),
        (reply(text(_STORY * 8, chunk=7, delay=0.03)),),
    ),
    (("fail", "error"), (ApiError(status=400, message="The simulator was asked to fail."),)),
)


class BuiltinScript(Script):
    """Plays the scene whose words the last prompt has, from its first reply to its last.

    It keeps no position: how far a scene has come is seen in the conversation, so that a resumed
    session goes on where it was.
    """

    def __init__(self) -> None:
        super().__init__(Scenario())

    def next(self, request: ModelRequest) -> Reply | ApiError | Broken:
        """The reply to this request."""
        prompt, said = _position(request.body.get("messages", []))
        replies = _scene_of(prompt)
        found = replies[said] if said < len(replies) else reply("There is nothing more to do.")
        return Script(Scenario(replies=[found])).next(request)


def _position(messages: list[dict[str, Any]]) -> tuple[str, int]:
    """The last prompt, and how often the model has spoken since."""
    said = 0
    for message in reversed(messages):
        if message["role"] == "assistant":
            said += 1
        elif words := words_of(message["content"]):
            return words, said
    return "", said


def _scene_of(prompt: str) -> tuple[Reply | ApiError, ...]:
    heard = prompt.lower()
    for words, replies in _SCENES:
        if any(word in heard for word in words):
            return replies
    return (reply(_HELP),)
