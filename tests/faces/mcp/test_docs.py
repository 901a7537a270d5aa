"""docs/mcp.md: its lists are whole, and its transcripts are what the face says.

With `REWRITE=1` in the environment the transcripts are written into the page instead.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from contextlib import aclosing
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from pilothouse.api.questions import Question
from pilothouse.faces.mcp import prompts, tools
from pilothouse.faces.mcp.addresses import SESSIONS, STATUS_TEMPLATE, TRANSCRIPT_TEMPLATE
from pilothouse.faces.mcp.configs import CLIENTS, config_of
from pilothouse_sim.scenario import gate, reply, tool
from tests.support.mcp.harness import MODERN, McpHarness, OpenMcp, ToolCaller, text_of
from tests.support.model_questions import COLOUR

PAGE = Path(__file__).resolve().parents[3] / "docs/mcp.md"
DEADLINE = 30
LEGACY = "legacy"

PLAN = "# Plan\n\n1. Write the note.\n2. Read it again.\n"
WRITE_PLAN = reply(tool("Write", file_path="{{plan_file}}", content=PLAN))
EXIT = reply(tool("ExitPlanMode"))
WRITE_NOTE = reply(tool("Write", file_path="{{cwd}}/note.txt", content="noted"))
TOUCH = reply(tool("Bash", command="touch done.txt", description="Make a file"))

PARTS = {
    "question": "Which parts?",
    "header": "Parts",
    "options": [
        {"label": "Hull", "description": "below"},
        {"label": "Deck", "description": "above"},
        {"label": "Mast", "description": "on top"},
    ],
    "multiSelect": True,
}


# What the page lists


@pytest.mark.parametrize("each", tools.listed(permission_check=True), ids=lambda each: each["name"])
def test_every_tool_and_parameter_is_in_the_page(each: dict[str, Any]):
    assert f"### `{each['name']}`\n" in PAGE.read_text()
    section = PAGE.read_text().split(f"### `{each['name']}`\n")[1].split("\n#")[0]
    table = section.split("| parameter | |\n")[1].split("\n\n")[0]
    given = {*re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)}
    assert given == {*each["inputSchema"]["properties"]}


def test_every_member_of_a_result_is_in_the_page():
    text = PAGE.read_text()
    for each in tools.TOOLS:
        members = {*each["outputSchema"]["properties"]}
        assert {name for name in members if f"`{name}`" not in text} == set()


def test_every_mode_prompt_resource_and_client_is_in_the_page():
    text = PAGE.read_text()
    named = [*tools.MODES, *(each.name for each in prompts.PROMPTS), *CLIENTS]
    assert [name for name in named if f"`{name}`" not in text] == []
    for address in (SESSIONS, STATUS_TEMPLATE, TRANSCRIPT_TEMPLATE):
        assert f"`{address}`" in text


def test_the_configuration_in_the_page_is_the_one_that_is_printed():
    shown = re.findall(r"```json\n(\{.*?\n\})\n```", PAGE.read_text(), re.DOTALL)
    command = ["/home/you/.local/bin/pilothouse", "mcp"]
    assert config_of("claude-desktop", command).text in shown
    assert config_of("vscode", command).text in shown
    assert config_of("zed", command).text in shown


# The transcripts


class Recorder:
    """Writes down what passes between a model, a person and the face."""

    def __init__(self, at: McpHarness, title: str) -> None:
        self.at = at
        self.title = title
        self.lines: list[str] = []
        self._names: dict[str, str] = {str(at.house.cwd): "/home/you/project"}
        self._count: dict[str, int] = {}

    async def call(self, model: ToolCaller, tool_name: str, /, **arguments: Any) -> dict[str, Any]:
        """A call of a tool, and what the model reads."""
        self.called(tool_name, arguments)
        return self.told(await model.client.call_tool(tool_name, arguments))

    async def answer(
        self, model: ToolCaller, asked: dict[str, Any], *answers: str
    ) -> dict[str, Any]:
        """An answer to the oldest question."""
        return await self.call(
            model,
            "claude_respond",
            sessionId=asked["sessionId"],
            id=asked["pendingQuestion"]["id"],
            answers=list(answers),
            waitSeconds=50,
        )

    def called(self, tool_name: str, arguments: dict[str, Any]) -> None:
        self.lines.append(f"> {tool_name} {json.dumps(arguments, ensure_ascii=False)}")

    def told(self, result: types.CallToolResult) -> dict[str, Any]:
        told = result.structured_content or {}
        self._learn(told)
        self._write("<", text_of(result))
        return told

    def form(self, params: types.ElicitRequestFormParams, content: dict[str, Any]) -> None:
        """A form, and what a person fills in."""
        self._write("?", params.message)
        for name, field in params.requested_schema["properties"].items():
            options = [each["const"] for each in field.get("oneOf", [])]
            self.lines.append(f"  [{name}] {' | '.join(options) or field['type']}")
        self.note(f"the person chooses {json.dumps(content)}")

    def note(self, text: str) -> None:
        self.lines.append(f"({text})")

    def _write(self, mark: str, text: str) -> None:
        first, *rest = text.splitlines()
        self.lines += [f"{mark} {first}", *(f"  {line}".rstrip() for line in rest)]

    def _learn(self, told: dict[str, Any]) -> None:
        for key in ("parentSessionId", "sessionId", "newSessionId"):
            self.name(told.get(key), "SESSION")
        self.name(told.get("messageId"), "MESSAGE")
        for asked in told.get("pendingQuestions", ()):
            self.name(asked["id"], "QUESTION")

    def name(self, found: str | None, kind: str) -> None:
        """Show this id under a name that is the same in every run."""
        if found is not None and found not in self._names:
            number = self._count[kind] = self._count.get(kind, 0) + 1
            self._names[found] = kind if number == 1 else f"{kind}-{number}"

    def text(self) -> str:
        text = "\n".join(self.lines)
        for found, shown in sorted(self._names.items(), key=lambda each: -len(each[0])):
            text = text.replace(found, shown)
        text = re.sub(r'("after": ?)\d+', r"\g<1>17", text)
        text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "2026-11-16 09:30 UTC", text)
        return re.sub(r"cursor \d+", "cursor 17", text)

    def compare(self) -> None:
        """Hold the page to what was recorded."""
        page = PAGE.read_text()
        pattern = rf"<!-- transcript: {self.title} -->\n````text\n(.*?)\n````"
        found = re.search(pattern, page, re.DOTALL)
        assert found is not None, f"docs/mcp.md has no transcript of {self.title}"
        if os.environ.get("REWRITE"):
            PAGE.write_text(page[: found.start(1)] + self.text() + page[found.end(1) :])
        else:
            assert found[1] == self.text()


async def test_the_transcript_of_an_approval_by_polling(desk: OpenMcp):
    at = await desk(reply(gate("told"), *TOUCH.steps), "Made it.")
    seen = Recorder(at, "polling")
    async with at.client() as model:
        started = await seen.call(model, "claude_start", prompt="Make the file done.txt.")
        at.house.cli.release("told")
        asked = await seen.call(
            model, "claude_status", sessionId=started["sessionId"], waitSeconds=50
        )
        await seen.answer(model, asked, "allow")
    assert (at.house.cwd / "done.txt").exists()
    seen.compare()


async def test_the_transcript_of_the_models_questions(desk: OpenMcp):
    at = await desk(reply(tool("AskUserQuestion", questions=[COLOUR, PARTS])), "So be it.")
    seen = Recorder(at, "questions")
    async with at.client() as model:
        asked = await seen.call(model, "claude_start", prompt="Paint it.", waitSeconds=50)
        await seen.answer(model, asked, "Blue", "Hull, Deck")
    seen.compare()


async def test_the_transcript_of_an_approval_by_a_form(desk: OpenMcp):
    at = await desk(TOUCH, "Made it.")
    seen = Recorder(at, "elicitation, 2026-07-28")

    async def fill(_: Any, params: Any) -> types.ElicitResult:
        seen.form(params, {"answer": "allow"})
        return types.ElicitResult(action="accept", content={"answer": "allow"})

    async with at.client(MODERN, elicitation_callback=fill) as model:
        await seen.call(model, "claude_start", prompt="Make the file done.txt.", waitSeconds=50)
    assert (at.house.cwd / "done.txt").exists()
    seen.compare()


async def test_the_transcript_of_an_approval_by_a_form_that_is_pushed(desk: OpenMcp):
    at = await desk(TOUCH, "Made it.")
    seen = Recorder(at, "elicitation, handshake")
    returned, answered = asyncio.Event(), asyncio.Event()

    async def fill(_: Any, params: Any) -> types.ElicitResult:
        await returned.wait()
        seen.form(params, {"answer": "allow"})
        answered.set()
        return types.ElicitResult(action="accept", content={"answer": "allow"})

    async with asyncio.timeout(DEADLINE), at.client(LEGACY, elicitation_callback=fill) as model:
        started = await seen.call(model, "claude_start", prompt="Make the file done.txt.")
        returned.set()
        await answered.wait()
        await at.house.until(started["sessionId"], "done")
        await seen.call(
            model,
            "claude_status",
            sessionId=started["sessionId"],
            after=started["cursor"],
            waitSeconds=50,
        )
    seen.compare()


async def test_the_transcript_of_a_plan(desk: OpenMcp):
    at = await desk(WRITE_PLAN, EXIT, EXIT, WRITE_NOTE, "The note is there.")
    seen = Recorder(at, "plan")
    async with at.client() as model:
        asked = await seen.call(
            model,
            "claude_start",
            prompt="Leave a note.",
            permissionMode="plan",
            waitSeconds=50,
        )
        for answer in ("revise: say where the note goes", "approve_accept_edits"):
            asked = await seen.answer(model, asked, answer)
    assert (at.house.cwd / "note.txt").exists()
    seen.compare()


async def test_the_transcript_of_a_switch_of_modes(desk: OpenMcp):
    at = await desk("There is nothing to change yet.", WRITE_NOTE, "The note is there.")
    seen = Recorder(at, "mode")
    async with at.client() as model:
        started = await seen.call(
            model,
            "claude_start",
            prompt="Look around.",
            permissionMode="plan",
            waitSeconds=50,
        )
        await seen.call(
            model,
            "claude_say",
            sessionId=started["sessionId"],
            message="Then leave a note.",
            permissionMode="acceptEdits",
            waitSeconds=50,
        )
    assert (at.house.cwd / "note.txt").exists()
    seen.compare()


async def test_the_transcript_of_a_session_that_is_resumed(desk: OpenMcp):
    at = await desk("I looked around.", "I looked around, and now I have looked again.")
    session_id = await at.house.done("Look around.")
    await at.house.engine.stop(session_id)
    seen = Recorder(at, "resume")
    seen.name(session_id, "SESSION")
    async with at.client() as model:
        await seen.call(
            model, "claude_say", sessionId=session_id, message="Look again.", waitSeconds=50
        )
    seen.compare()


async def test_the_transcript_of_a_fork(desk: OpenMcp):
    at = await desk("The tests pass.", "I would use another name.")
    session_id = await at.house.done("Do the tests pass?")
    seen = Recorder(at, "fork")
    seen.name(session_id, "SESSION")
    async with at.client() as model:
        await seen.call(
            model,
            "claude_say",
            sessionId=session_id,
            message="By the way: is the name good?",
            fork=True,
            waitSeconds=50,
        )
    seen.compare()


async def test_the_transcript_as_a_resource(desk: OpenMcp):
    at = await desk(TOUCH, "Made it.")
    seen = Recorder(at, "resource")
    async with at.client(name="cursor") as model:
        asked = await model.call("claude_start", prompt="Make the file done.txt.", waitSeconds=50)
        session_id, question = asked["sessionId"], asked["pendingQuestion"]
        await model.call(
            "claude_respond",
            sessionId=session_id,
            id=question["id"],
            answers=["allow"],
            waitSeconds=50,
        )
        await at.house.events(session_id)
        [content] = (
            await model.client.read_resource(f"{SESSIONS}/{session_id}/transcript")
        ).contents
    assert isinstance(content, types.TextResourceContents)
    seen.name(session_id, "SESSION")
    seen.name(asked["messageId"], "MESSAGE")
    seen.lines = [content.text.rstrip()]
    seen.compare()


async def test_the_transcript_of_a_permission_check(desk: OpenMcp):
    at = await desk()
    seen = Recorder(at, "permission_check")
    command = {"command": "npm publish", "description": "Publish it"}
    asked = {"tool_name": "Bash", "input": command, "tool_use_id": "toolu_01"}
    async with (
        asyncio.timeout(DEADLINE),
        aclosing(McpHarness(at.house)) as another,
        at.client(LEGACY, name="claude-code") as cli,
        another.client() as model,
        asyncio.TaskGroup() as tasks,
    ):
        seen.called("permission_check", asked)
        checking = tasks.create_task(cli.client.call_tool("permission_check", asked))
        question = await opened(at)
        seen.name(question.session_id, "SESSION")
        seen.note("meanwhile, in another client or in any face")
        told = await seen.call(model, "claude_status", sessionId=question.session_id)
        await seen.call(
            model,
            "claude_respond",
            sessionId=question.session_id,
            id=told["pendingQuestion"]["id"],
            answers=["deny: not on a Friday"],
        )
        seen.note("what the CLI is told")
        seen.told(await checking)
    seen.compare()


async def opened(at: McpHarness) -> Question:
    """The first question that anybody asks."""
    async with aclosing(at.house.engine.watch(0)) as batches:
        async for _ in batches:
            if found := await at.house.engine.questions():
                return found[0]
    raise AssertionError("the events ended")
