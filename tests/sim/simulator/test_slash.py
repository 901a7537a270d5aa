"""Commands as prompts: which the simulator carries out itself, and what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse_sim.scenario import Usage, reply
from tests.support.sim.home import FIRST, Home, script

TALK = script(reply("One."), reply("Two."), reply("Three."))


async def answers(home: Home, *prompts: str) -> list[str]:
    async with home.run(f"--session-id={FIRST}") as client:
        return [(await client.ask(prompt))["result"] for prompt in prompts]


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("/help", "/help isn't available in this environment."),
        ("/effort high", "Set effort level to high (this session only): "),
        ("/effort auto", "Effort level set to auto (this session only)"),
        ("/autocompact 200k", "Auto-compact window for Opus 5.5 set to 200k tokens"),
        ("/autocompact 500000", "Auto-compact window for Opus 5.5 set to 500k tokens"),
        ("/autocompact auto", "Auto-compact window for Opus 5.5 set to auto"),
        ("/autocompact", "Auto-compact window for Opus 5.5: 1m tokens (default for this model)"),
        ("/color default", "Session color reset to default"),
        ("/model", "Current model: `Opus 5.5 (default)`"),
        ("/model sonnet[1m]", "Set model to `Sonnet 5.5` for this session only"),
        ("/model some words", "Set model to `some words` for this session only"),
        ("/output-style Concise", "Output style set to Concise"),
        ("/output-style", "Output style: default"),
        ("/config", "Usage: /config key=value [key=value ...]"),
        ("/fast x", 'Unknown argument "x". Use: /fast [on|off]'),
        ("/list-agents", "No subagents, teammates or other Claude sessions"),
        ("/agents", "The /agents wizard has been removed."),
        ("/recap", "Nothing to recap yet"),
        ("/compact", ""),
    ],
)
async def test_commands_of_the_clis_own_never_reach_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, answer: str
) -> None:
    home = Home(tmp_path, monkeypatch, TALK)
    (said,) = await answers(home, command)
    assert said.startswith(answer)
    assert not (tmp_path / "requests.jsonl").exists()


@pytest.mark.parametrize("words", ["/nosuch thing", "/", "/ x", "//x", "/tmp/file", "/Compact"])
async def test_what_is_no_command_goes_to_the_model_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    home = Home(tmp_path, monkeypatch, TALK)
    assert await answers(home, words) == ["One."]
    assert home.told() == [("user", words)]


@pytest.mark.parametrize(
    ("text", "prompt", "told"),
    [
        ("Do $ARGUMENTS now.", "/mine a b", "Do a b now."),
        ("First $1, then $2, never $3.", "/mine a b", "First a, then b, never ."),
        ("---\ndescription: x\n---\nDo it.", "/mine", "Do it."),
        ("Do it.", "/mine soon", "Do it.\n\nARGUMENTS: soon"),
    ],
)
async def test_a_users_own_command_stands_for_a_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, prompt: str, told: str
) -> None:
    home = Home(tmp_path, monkeypatch, TALK)
    folder = home.cwd / ".claude" / "commands"
    folder.mkdir(parents=True)
    (folder / "mine.md").write_text(text)
    assert await answers(home, prompt) == ["One."]
    ((role, (shown, expanded)),) = home.told()
    assert (role, expanded) == ("user", told)
    assert "<command-name>/mine</command-name>" in shown


async def test_a_summary_takes_the_place_of_the_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, TALK)
    await answers(home, "First.", "/compact mind the names", "Second.")
    summary, *rest = home.said()
    assert "The conversation so far, in short." in summary
    assert rest == ["Second."]
    (boundary,) = home.lines(FIRST, "system")
    assert boundary["subtype"] == "compact_boundary"
    assert boundary["compactMetadata"]["trigger"] == "manual"


async def test_instructions_are_part_of_the_request_for_a_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, TALK)
    await answers(home, "First.", "/compact mind the names")
    assert home.told()[-1][1].endswith("mind the names")


async def test_a_full_window_is_compacted_without_being_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = reply("Full.", usage=Usage(input_tokens=990_000))
    home = Home(tmp_path, monkeypatch, script(full, reply("Empty.")))
    assert await answers(home, "Fill it.", "And now?") == ["Full.", "Empty."]
    assert home.said()[1:] == ["And now?"]


async def test_clearing_begins_another_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, TALK)
    async with home.run(f"--session-id={FIRST}") as client:
        await client.ask("First.")
        cleared = await client.ask("/clear")
        await client.ask("Second.")
    assert cleared["session_id"] != FIRST
    assert cleared["total_cost_usd"] == 0
    said = home.said()
    assert "First." not in said
    assert said[-1] == "Second."
    assert home.lines(cleared["session_id"], "assistant")


async def test_a_session_is_found_by_the_title_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, TALK)
    assert await answers(home, "First.", "/rename Blue sea") == [
        "One.",
        "Session renamed to: Blue sea",
    ]
    async with home.run("--resume=blue sea") as client:
        assert (await client.ask("Go on."))["session_id"] == FIRST


async def test_a_recap_is_asked_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, TALK)
    assert await answers(home, "First.", "/recap", "Third.") == ["One.", "Two.", "Three."]


async def test_the_cost_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, cost, context = await answers(
        Home(tmp_path, monkeypatch, TALK), "First.", "/cost", "/context"
    )
    assert "Total cost:            $0.0005" in cost
    assert "claude-opus-5-5:  100 input, 5 output, 0 cache read, 0 cache write" in cost
    assert context.startswith("## Context Usage\n\n**Model:** claude-opus-5-5  \n")
