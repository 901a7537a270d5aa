"""What the simulator plays when it is given no scenario: one is picked by words in the prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

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

_NOTHING = "There is nothing more to do."

_STORY = "Once upon a time there was a pilot who read the water. "

_HELP = (
    "I am the simulator of Pilothouse: no model, no key, no network. Words in your prompt pick "
    "what I do: write a file, edit it, read it, list the files, run a command, run the tests, ask "
    "a question, make a plan, send an agent, think, tell a long story, or fail."
)

_MOST_PLANS = 3
"""So often it plans before it gives up; a client may deny whatever it is asked."""


class _Scene(NamedTuple):
    """What is played where one of the words is in the prompt."""

    words: tuple[str, ...]
    replies: tuple[Reply | ApiError, ...]
    failed: str = "That was not done: {why}"
    """What it says in place of its next reply where the last tool did not do its work."""


class _ToolEnd(NamedTuple):
    """How a tool ended that the scene has called."""

    name: str
    text: str
    is_error: bool


class _Position(NamedTuple):
    """How far the scene of the last prompt has come."""

    prompt: str
    said: int
    """How often the model has spoken since."""
    ends: tuple[_ToolEnd, ...]
    """The tools that it has called since."""


_SCENES: tuple[_Scene, ...] = (
    _Scene(("look around the harbour",), (reply("All is quiet."),)),
    _Scene(("<task-notification>",), (reply("The agent reports that all is quiet."),)),
    _Scene(
        ("question", "questions", "ask me", "choose"),
        (reply(tool("AskUserQuestion", questions=[_QUESTION])), reply("Aye, as you say.")),
        failed="Nobody chose, so we stay where we are: {why}",
    ),
    _Scene(
        ("agent", "agents", "subagent", "delegate"),
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
        failed="Nobody was sent: {why}",
    ),
    _Scene(
        ("test", "tests", "pytest"),
        (
            reply(
                "I run the tests.",
                tool("Bash", command="python -m pytest -q", description="Run the tests"),
            ),
            reply("They pass."),
        ),
        failed="I cannot say that they pass: {why}",
    ),
    _Scene(
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
            reply("Changed it: {{cwd}}/hello.txt"),
        ),
        failed="Nothing was changed: {why}",
    ),
    _Scene(
        ("readme",),
        (reply(tool("Read", file_path="{{cwd}}/README.md")), reply("Read it.")),
        failed="It was not read: {why}",
    ),
    _Scene(
        ("read",),
        (reply(tool("Read", file_path="{{cwd}}/hello.txt")), reply("Read it.")),
        failed="It was not read: {why}",
    ),
    _Scene(
        ("which files", "what files", "list"),
        (reply(tool("Bash", command="ls", description="List the files")), reply("There you are.")),
        failed="They were not listed: {why}",
    ),
    _Scene(
        ("write", "file"),
        (
            reply(
                "I write a file.",
                tool("Write", file_path="{{cwd}}/hello.txt", content="Hello from Pilothouse.\n"),
            ),
            reply("It is written: {{cwd}}/hello.txt"),
        ),
        failed="No file was written: {why}",
    ),
    _Scene(
        ("run", "command", "bash"),
        (
            reply(
                "I run a command.",
                tool("Bash", command="mkdir -p harbour && ls", description="Make a folder"),
            ),
            reply("Done."),
        ),
        failed="The command did not run, or failed: {why}",
    ),
    _Scene(("think",), (reply(thinking("The tide turns at six.", chunk=4), "We sail at six."),)),
    _Scene(
        ("story", "long", "count"),
        (reply(text(_STORY * 8, chunk=7, delay=0.03)),),
    ),
    _Scene(("fail", "error"), (ApiError(status=400, message="The simulator was asked to fail."),)),
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
        found = _reply_at(_position(request.body.get("messages", [])))
        return Script(Scenario(replies=[found])).next(request)


def _position(messages: list[dict[str, Any]]) -> _Position:
    at = next(
        (at for at in reversed(range(len(messages))) if _said_by_user(messages[at])), len(messages)
    )
    since = messages[at + 1 :]
    said = sum(each["role"] == "assistant" for each in since)
    prompt = words_of(messages[at]["content"]) if at < len(messages) else ""
    return _Position(prompt, said, tuple(_ends(since)))


def _said_by_user(message: dict[str, Any]) -> bool:
    return message["role"] != "assistant" and bool(words_of(message["content"]))


def _ends(messages: list[dict[str, Any]]) -> Iterator[_ToolEnd]:
    """The tools that were called in these messages, as far as they have ended."""
    names: dict[str, str] = {}
    for message in messages:
        for block in _blocks(message["content"]):
            if block.get("type") == "tool_use":
                names[block["id"]] = block["name"]
            elif block.get("type") == "tool_result":
                name = names.get(block["tool_use_id"], "")
                yield _ToolEnd(name, _text_of(block), bool(block.get("is_error")))


def _blocks(content: Any) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", content) if isinstance(content, list) else []


def _text_of(result: dict[str, Any]) -> str:
    content: Any = result.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(each.get("text", "")) for each in _blocks(content))


def _reply_at(at: _Position) -> Reply | ApiError:
    if _has(at.prompt, ("plan", "plans", "planning")) and not _is_notice(at.prompt):
        return _planning(at.ends)
    scene = next((each for each in _SCENES if _has(at.prompt, each.words)), None)
    if scene is None:
        return reply(_HELP)
    if at.ends and at.ends[-1].is_error:
        return reply(scene.failed.format(why=_why(at.ends[-1])))
    return scene.replies[at.said] if at.said < len(scene.replies) else reply(_NOTHING)


def _is_notice(prompt: str) -> bool:
    """Whether it is about an agent of ours, whatever words it quotes."""
    return _has(prompt, _SCENES[0].words + _SCENES[1].words)


def _has(prompt: str, words: tuple[str, ...]) -> bool:
    """Whether a prompt has one of these as words of their own: a profile is no file."""
    heard = prompt.lower()
    return any(re.search(rf"(?<!\w){re.escape(each)}(?!\w)", heard) for each in words)


def _why(end: _ToolEnd) -> str:
    lines = [line.strip() for line in end.text.splitlines() if line.strip()]
    return lines[0][:200] if lines else f"{end.name} gave no reason."


def _planning(ends: tuple[_ToolEnd, ...]) -> Reply:
    """A plan, and another one for as long as something else is wanted of it."""
    if not ends:
        return reply("First a plan.", tool("EnterPlanMode"))
    last = ends[-1]
    refused = [each for each in ends if each.name == "ExitPlanMode" and each.is_error]
    match last.name:
        case "EnterPlanMode" if not last.is_error:
            return _write_plan("I write it down.", _PLAN)
        case "Write" if not last.is_error:
            return reply("Here it is.", tool("ExitPlanMode"))
        case "ExitPlanMode" if not last.is_error:
            return reply("Plan settled.")
        case "ExitPlanMode" if len(refused) < _MOST_PLANS and not _is_rejected(last):
            wanted = last.text.strip().splitlines()[-1:] or ["as you like it"]
            return _write_plan("I plan again.", f"{_PLAN}4. Mind: {wanted[0][:200]}\n")
        case _:
            return reply(f"There is no plan, so nothing is done: {_why(last)}")


def _is_rejected(end: _ToolEnd) -> bool:
    """Whether nothing else is wanted in its place."""
    return "rejected the plan" in end.text


def _write_plan(words: str, plan: str) -> Reply:
    return reply(words, tool("Write", file_path="{{plan_file}}", content=plan))
