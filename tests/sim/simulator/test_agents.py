"""Sub-agents that a turn waits for, and agents of the client's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.scenario import AnyReply, ApiError, Branch, Scenario, When, reply, tool
from tests.support.sim.client import Message
from tests.support.sim.home import Home

MATE = {
    "description": "Looks after the ship.",
    "prompt": "You are the first mate.",
    "tools": ["Read", "Bash"],
    "disallowedTools": ["Bash"],
    "model": "haiku",
}
ERRAND = When(prompt_contains="Look out.")
TOUCH = tool("Bash", command="touch made", description="Make it")


def sends(*child: AnyReply, when: When = ERRAND, **more: Any) -> Scenario:
    """A model that sends a sub-agent and waits for it, and the sub-agent's part."""
    call = tool(
        "Agent",
        **{
            "description": "Look",
            "prompt": "Look out.",
            "subagent_type": "general-purpose",
            "run_in_background": False,
        }
        | more,
    )
    own = Branch(when=when, replies=child)
    return Scenario(replies=[reply(call), reply("Done.")], branches=[own])


def of_agent(lines: list[Message], kind: str) -> list[Message]:
    return [line for line in lines if line["type"] == kind and line.get("parent_tool_use_id")]


def subtypes(lines: list[Message]) -> list[str]:
    return [line["subtype"] for line in lines if "task" in line.get("subtype", "")]


async def test_an_agent_of_ones_own_has_its_prompt_its_tools_and_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = When(
        system_contains="first mate", model_contains="haiku", has_tool="Read", lacks_tool="Bash"
    )
    home = Home(
        tmp_path,
        monkeypatch,
        sends(reply(TOUCH), reply("I cannot."), when=own, subagent_type="mate"),
    )
    async with home.run() as client:
        await client.control("initialize", agents={"mate": MATE})
        result = await client.ask("Have somebody look out.")
    [call] = of_agent(client.lines, "assistant")
    assert call["message"]["model"] == "claude-haiku-5-5"
    [prompt, refused] = of_agent(client.lines, "user")
    assert prompt["message"]["content"] == [{"type": "text", "text": "Look out."}]
    assert "not among the tools available here" in refused["message"]["content"][0]["content"]
    assert result["modelUsage"]["claude-haiku-5-5"]["inputTokens"] == 200


async def test_an_agent_in_a_file_has_the_prompt_and_the_tools_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = When(system_contains="You help.", has_tool="Read", lacks_tool="Bash")
    home = Home(tmp_path, monkeypatch, sends(reply("Aye."), when=own, subagent_type="mate"))
    folder = tmp_path / ".claude" / "agents"
    folder.mkdir(parents=True)
    (folder / "mate.md").write_text(
        "---\nname: mate\ndescription: A mate\ntools: Read, Edit\n---\nYou help.\n"
    )
    async with home.run() as client:
        await client.ask("Have somebody look out.")
    assert "Aye." in client.results()[0][0]["text"]


async def test_a_turn_waits_for_an_agent_in_the_foreground_and_reads_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, sends(reply("Looking.", TOUCH), reply("All quiet.")))
    answers = {
        "can_use_tool": lambda request: {"behavior": "allow", "updatedInput": request["input"]}
    }
    async with home.run(answers=answers) as client:
        result = await client.ask("Have somebody look out.")
    assert result["result"] == "Done."
    assert subtypes(client.lines) == [
        "task_started",
        "task_progress",
        "task_updated",
        "task_notification",
    ]
    [report] = [
        line["tool_use_result"]
        for line in client.lines
        if line["type"] == "user" and not line.get("parent_tool_use_id")
    ]
    assert report["status"] == "completed"
    assert (report["toolsUsed"], report["totalToolUseCount"]) == (["Bash"], 1)
    assert report["content"][-1] == {"type": "text", "text": "All quiet."}


@pytest.mark.parametrize(
    ("flags", "options", "heard"),
    [
        ((), {}, 0),
        (("--forward-subagent-text",), {}, 1),
        ((), {"forwardSubagentText": True}, 1),
    ],
)
async def test_the_words_of_an_agent_in_the_foreground_are_passed_on_when_asked_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    options: dict[str, Any],
    heard: int,
) -> None:
    home = Home(tmp_path, monkeypatch, sends(reply("All quiet.")))
    async with home.run(*flags) as client:
        await client.control("initialize", **options)
        await client.ask("Have somebody look out.")
    assert len(of_agent(client.lines, "assistant")) == heard


async def test_what_an_agent_in_the_foreground_was_denied_is_in_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, sends(reply(TOUCH), reply("I may not.")))
    answers = {"can_use_tool": lambda _: {"behavior": "deny", "message": "No."}}
    async with home.run(answers=answers) as client:
        result = await client.ask("Have somebody look out.")
    assert [each["tool_name"] for each in result["permission_denials"]] == ["Bash"]


async def test_an_agent_whose_model_fails_makes_its_call_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, sends(ApiError(status=403)))
    async with home.run() as client:
        result = await client.ask("Have somebody look out.")
    assert "terminated early due to an API error" in client.results()[0]
    assert result["subagent_stats"]["failed"] == 1
