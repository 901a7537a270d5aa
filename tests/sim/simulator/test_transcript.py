"""Conversations on disk: where they lie, what a line says, what is left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pilothouse_sim.scenario import Branch, Scenario, When, gate, reply, thinking, tool
from pilothouse_sim.simulator.facts import project_folder
from tests.support.sim.home import FIRST, Home, script

TRUE = tool("Bash", command="true", description="Do it")
COMMON = {
    "parentUuid",
    "isSidechain",
    "uuid",
    "timestamp",
    "userType",
    "entrypoint",
    "cwd",
    "sessionId",
    "version",
    "gitBranch",
}


async def spoken(home: Home, *prompts: str, flags: tuple[str, ...] = ()) -> None:
    async with home.run(f"--session-id={FIRST}", *flags) as client:
        for prompt in prompts:
            await client.ask(prompt)


@pytest.mark.parametrize(
    ("cwd", "folder"),
    [
        ("/home/a.b/my project", "-home-a-b-my-project"),
        # Measured on the real CLI.
        (
            "/home/dev/" + "long" * 60,
            "-home-dev-" + "long" * 47 + "lo-qgq72t",
        ),
    ],
)
def test_a_folder_is_named_after_the_working_directory(cwd: str, folder: str) -> None:
    assert project_folder(Path("/c"), Path(cwd)) == Path("/c/projects") / folder


async def test_every_line_of_the_conversation_follows_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, script(reply("So.", TRUE), reply("Done."), reply("Yes.")))
    await spoken(home, "Do it.", "Again?")
    lines = home.lines(FIRST, "user", "assistant")
    assert [line["type"] for line in lines] == [
        "user",
        "assistant",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert [line["parentUuid"] for line in lines] == [
        None,
        *(line["uuid"] for line in lines[:-1]),
    ]
    assert all(line.keys() >= COMMON for line in lines)


async def test_lines_have_the_ids_of_the_wire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, script(reply("So.", TRUE), reply("Done.")))
    async with home.run(f"--session-id={FIRST}") as client:
        await client.ask("Do it.")
    written = [line["uuid"] for line in client.lines if line["type"] in ("user", "assistant")]
    assert [line["uuid"] for line in home.lines(FIRST, "user", "assistant")][1:] == written


async def test_a_reply_on_disk_knows_how_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, script(reply(thinking("Hm."), "Aye.")))
    await spoken(home, "Hello.")
    messages = [line["message"] for line in home.lines(FIRST, "assistant")]
    assert [message["stop_reason"] for message in messages] == ["end_turn"] * 2
    assert [message["usage"]["output_tokens"] for message in messages] == [5, 5]


async def test_a_tools_result_names_the_line_of_its_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, script(reply(TRUE, TRUE), reply("Done.")))
    await spoken(home, "Do it twice.")
    calls = {
        block["id"]: line["uuid"]
        for line in home.lines(FIRST, "assistant")
        for block in line["message"]["content"]
        if block["type"] == "tool_use"
    }
    results = [line for line in home.lines(FIRST, "user") if "toolUseResult" in line]
    assert len(results) == 2
    for line in results:
        call = calls[line["message"]["content"][0]["tool_use_id"]]
        assert line["sourceToolAssistantUUID"] == line["parentUuid"] == call


async def test_prompts_come_and_go_in_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, script(reply("Aye.")))
    await spoken(home, "Hello.")
    operations = [line["operation"] for line in home.lines(FIRST, "queue-operation")]
    assert operations == ["enqueue", "dequeue"]
    (*_, last) = home.lines(FIRST, "last-prompt")
    assert last["lastPrompt"] == "Hello."
    assert last["leafUuid"] == home.lines(FIRST, "assistant")[-1]["uuid"]


async def test_a_sub_agent_has_a_transcript_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = tool("Agent", description="Look", prompt="Child.", subagent_type="general-purpose")
    scenario = Scenario(
        replies=[reply(agent), reply("Waiting."), reply("Over.")],
        branches=[Branch(when=When(prompt_contains="Child."), replies=(reply("Seen."),))],
    )
    home = Home(tmp_path, monkeypatch, scenario)
    async with home.run(f"--session-id={FIRST}") as client:
        await client.ask("Send somebody.")
        await client.until(lambda line: line.get("result") == "Over.")
    (path,) = (home.path().with_suffix("") / "subagents").glob("agent-*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["message"]["content"] for line in lines] == [
        "Child.",
        [{"type": "text", "text": "Seen."}],
    ]
    assert {line["isSidechain"] for line in lines} == {True}
    assert {f"agent-{line['agentId']}" for line in lines} == {path.stem}
    about = json.loads(path.with_suffix(".meta.json").read_text())
    assert about["agentType"] == "general-purpose"


async def test_nothing_is_kept_without_persistence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, script(reply("Aye.")))
    await spoken(home, "Hello.", flags=("--no-session-persistence",))
    assert not home.projects.exists()


async def test_a_session_without_a_prompt_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, script())
    await spoken(home)
    assert not home.projects.exists()


async def test_the_branch_of_a_repository_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, script(reply("Aye.")))
    (home.cwd / ".git").mkdir()
    (home.cwd / ".git" / "HEAD").write_text("ref: refs/heads/some/branch\n")
    await spoken(home, "Hello.")
    assert {line["gitBranch"] for line in home.lines(FIRST, "user")} == {"some/branch"}


async def test_what_is_written_is_mirrored_to_the_client_before_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, script(reply("So.", TRUE), reply("Done.")))
    async with home.run(f"--session-id={FIRST}", "--session-mirror") as client:
        await client.ask("Do it.")
        seen = list(client.lines)
    kinds = [line["type"] for line in seen]
    mirrored = [line for line in seen if line["type"] == "transcript_mirror"]
    assert kinds.index("transcript_mirror") < kinds.index("result")
    assert {line["filePath"] for line in mirrored} == {str(home.path(FIRST))}
    entries = [entry for line in mirrored for entry in line["entries"]]
    said = [entry["type"] for entry in entries if entry["type"] in ("user", "assistant")]
    assert said == ["user", "assistant", "assistant", "user", "assistant"]


async def test_what_is_written_is_mirrored_while_the_turn_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, script(reply(gate("held"), "Done.")))
    async with home.run(f"--session-id={FIRST}", "--session-mirror") as client:
        client.send({"type": "user", "message": {"role": "user", "content": "Do it."}})
        mirrored = await client.until(lambda line: line["type"] == "transcript_mirror")
        assert "result" not in client.kinds()
        (tmp_path / "held.open").touch()
        await client.until(lambda line: line["type"] == "result")
    assert [entry["type"] for entry in mirrored["entries"]][-1] == "user"


async def test_a_mirrored_sub_agent_is_described_before_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = tool("Agent", description="Look", prompt="Child.", run_in_background=False)
    child = Branch(when=When(prompt_contains="Child."), replies=(reply("Seen."),))
    scenario = Scenario(replies=[reply(agent), reply("Over.")], branches=[child])
    home = Home(tmp_path, monkeypatch, scenario)
    async with home.run("--session-mirror") as client:
        await client.ask("Send somebody.")
        seen = list(client.lines)
    told = [line for line in seen if "subagents" in line.get("filePath", "")]
    entries = [entry for line in told for entry in line["entries"]]
    assert [entry["type"] for entry in entries] == ["agent_metadata", "user", "assistant"]
    assert entries[0]["toolUseId"] == "toolu_scripted_0001"


async def test_nothing_is_mirrored_unless_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, script(reply("Done.")))
    async with home.run(f"--session-id={FIRST}") as client:
        await client.ask("Do it.")
        seen = list(client.lines)
    assert "transcript_mirror" not in {line["type"] for line in seen}
