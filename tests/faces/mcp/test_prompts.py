"""Prompts for the usual flows."""

from __future__ import annotations

import re
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from pilothouse.errors import ServerError
from pilothouse.faces.mcp import prompts, tools
from pilothouse.faces.mcp.prompts import PROMPTS, instructions
from pilothouse.faces.mcp.tool_handlers import Answers


async def anyone() -> Answers:
    return "anyone"


def client(mode: str = "legacy") -> Client:
    server: Server[Any] = Server(
        "test", on_list_prompts=prompts.list_prompts, on_get_prompt=prompts.getter(anyone)
    )
    return Client(server, mode=mode)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_prompts_are_listed_with_their_arguments(mode: str):
    async with client(mode) as speaker:
        found = (await speaker.list_prompts()).prompts
    assert {each.name: [a.name for a in each.arguments or []] for each in found} == {
        "delegate": ["task", "directory"],
        "plan_first": ["task", "directory"],
        "answer_questions": [],
        "catch_up": ["sessionId"],
    }
    assert all(each.title and each.description for each in found)


@pytest.mark.parametrize("flow", PROMPTS, ids=lambda flow: flow.name)
async def test_a_prompt_has_what_was_filled_in(flow: prompts.Flow):
    given = {each.name: f"<{each.name} {{0}} {{task}}>" for each in flow.arguments}
    async with client() as speaker:
        result = await speaker.get_prompt(flow.name, given)
    [message] = result.messages
    assert message.role == "user"
    text: str = message.content.text  # type: ignore[union-attr]  # it is text
    assert all(value in text for value in given.values())


def filled(flow: prompts.Flow, answers: Answers) -> str:
    return flow.told(answers, **{each.name: "x" for each in flow.arguments})


@pytest.mark.parametrize("answers", ["anyone", "person"])
@pytest.mark.parametrize("flow", PROMPTS, ids=lambda flow: flow.name)
def test_a_prompt_names_only_tools_and_parameters_there_are(flow: prompts.Flow, answers: Answers):
    known = {each["name"]: each["inputSchema"]["properties"] for each in tools.TOOLS}
    text = filled(flow, answers)
    named = re.findall(r"claude_\w+", text)
    assert named
    assert {*named} <= {*known}
    for tool, call in re.findall(r"(claude_\w+)\(([^)]*)\)", text):
        given = {each.split("=")[0].strip() for each in call.split(",")}
        assert given <= {*known[tool]}


def test_where_only_a_person_may_answer_no_model_is_told_to():
    for text in (instructions("person"), *(filled(flow, "person") for flow in PROMPTS)):
        assert "claude_respond" not in text
        assert "{" not in text
    assert "claude_respond" in instructions("anyone")
    assert sum("claude_respond" in filled(flow, "anyone") for flow in PROMPTS) == 3


async def test_who_may_answer_is_found_out_when_a_prompt_is_wanted():
    now: list[Answers] = ["anyone", "person"]

    async def who() -> Answers:
        if not now:
            raise ServerError("no server can be reached")
        return now.pop(0)

    server: Server[Any] = Server("test", on_get_prompt=prompts.getter(who))
    async with Client(server, mode="legacy") as speaker:
        before, since = [await speaker.get_prompt("answer_questions", {}) for _ in range(2)]
        with pytest.raises(MCPError, match="no server can be reached"):
            await speaker.get_prompt("answer_questions", {})
    assert "claude_respond" in str(before.messages)
    assert "claude_respond" not in str(since.messages)


def test_a_prompt_names_a_resource_by_its_address():
    [flow] = [each for each in PROMPTS if each.name == "catch_up"]
    assert "pilothouse://sessions/a%2Fb/transcript\n" in flow.told("anyone", sessionId="a/b")


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("delegat", {}, "did you mean delegate"),
        ("zzz", {}, "there are delegate, plan_first"),
        ("delegate", {"task": "x"}, "needs directory; it takes task, directory"),
        ("delegate", {"task": " ", "directory": "/w"}, "needs task"),
        ("catch_up", {"sessionId": "s", "more": "x"}, "has no argument more"),
        ("answer_questions", {"x": "y"}, "it takes nothing"),
    ],
)
async def test_a_prompt_that_cannot_be_made_says_why(
    name: str, arguments: dict[str, str], says: str
):
    async with client() as speaker:
        with pytest.raises(MCPError, match=re.escape(says)):
            await speaker.get_prompt(name, arguments)
