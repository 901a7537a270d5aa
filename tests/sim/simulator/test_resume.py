"""Sessions that go on: what the model is told, which reply comes next, and what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse_sim.real_cli import environment
from pilothouse_sim.scenario import reply, thinking, tool
from pilothouse_sim.scripted_model import ScriptedModel
from pilothouse_sim.simulator.flags import BadFlag, parse
from pilothouse_sim.simulator.resume import messages, read
from tests.support.raw_cli import RawProcess
from tests.support.sim.client import FLAGS
from tests.support.sim.home import FIRST, SECOND, Home, script, words
from tests.support.versions import CACHE, NEWEST

TRUE = tool("Bash", command="true", description="Do it")
TALK = script(reply("One."), reply("Two."), reply("Three."), reply("Four."))


async def begun(home: Home, *prompts: str) -> None:
    async with home.run(f"--session-id={FIRST}") as client:
        for prompt in prompts or ("First.",):
            await client.ask(prompt)


async def asked(home: Home, *flags: str) -> str:
    async with home.run(*flags) as client:
        return (await client.ask("Go on."))["result"]


async def test_the_next_reply_of_the_scenario_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, TALK)
    await begun(home)
    assert await asked(home, f"--resume={FIRST}") == "Two."
    assert await asked(home, "--continue") == "Three."
    assert home.told() == [
        ("user", "First."),
        ("assistant", ["One."]),
        ("user", "Go on."),
        ("assistant", ["Two."]),
        ("user", "Go on."),
    ]


async def test_results_of_tools_called_together_are_all_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, script(reply(TRUE, TRUE), reply("Done."), reply("Aye.")))
    await begun(home)
    assert await asked(home, f"--resume={FIRST}") == "Aye."
    roles = [role for role, _ in home.told()]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    assert home.told()[1] == ("assistant", ["Bash", "Bash"])


async def test_ids_of_messages_never_come_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, TALK)
    await begun(home, "First.", "Second.")
    await asked(home, f"--resume={FIRST}")
    ids = [line["message"]["id"] for line in home.lines(FIRST, "assistant")]
    assert len(ids) == len(set(ids)) == 3


async def test_a_fork_leaves_the_first_session_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, TALK)
    await begun(home)
    before = home.path().read_bytes()
    flags = (f"--resume={FIRST}", "--fork-session", f"--session-id={SECOND}")
    assert await asked(home, *flags) == "Two."
    assert home.path().read_bytes() == before
    said = [words(line["message"]["content"]) for line in home.lines(SECOND, "user", "assistant")]
    assert said == ["First.", ["One."], "Go on.", ["Two."]]
    assert {line["sessionId"] for line in home.lines(SECOND)} == {SECOND}


async def test_a_conversation_can_go_on_from_an_earlier_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, TALK)
    await begun(home, "First.", "Second.")
    first = home.lines(FIRST, "assistant")[0]["uuid"]
    assert await asked(home, f"--resume={FIRST}", f"--resume-session-at={first}") == "Three."
    assert home.told() == [("user", "First."), ("assistant", ["One."]), ("user", "Go on.")]
    assert await asked(home, f"--resume={FIRST}") == "Four."
    assert [said for _, said in home.told()] == [
        "First.",
        ["One."],
        "Go on.",
        ["Three."],
        "Go on.",
    ]


@pytest.mark.parametrize(
    ("at", "turn", "complaint"),
    [
        (1, 2, None),
        (1, 1, "does not start with the declared turn prompt"),
        (0, 1, "a user entry not attributable to the declared turn"),
    ],
)
async def test_no_turn_is_dropped_but_the_one_that_the_client_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, turn: int, complaint: str | None
) -> None:
    home = Home(tmp_path, monkeypatch, TALK)
    await begun(home, "First.", "Second.", "Third.")
    kept = home.lines(FIRST, "assistant")[at]["uuid"]
    dropped = home.lines(FIRST, "user")[turn]["uuid"]
    flags = (f"--resume={FIRST}", "--fork-session", f"--resume-session-at={kept}")
    async with home.run(*flags, f"--resume-drops-turn={dropped}") as client:
        if complaint is None:
            await client.ask("Go on.")
        result = await client.until(lambda line: line["type"] == "result")
    assert complaint is None or complaint in result["errors"][0]
    assert home.code == (0 if complaint is None else 1)


async def test_a_compacted_conversation_goes_on_from_its_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, TALK)
    await begun(home, "First.", "Second.", "/compact")
    assert await asked(home, f"--resume={FIRST}") == "Three."
    (role, summary), kept, *_ = home.told()
    assert (role, kept) == ("user", ("assistant", ["Two."]))
    assert "The conversation so far, in short." in summary


async def test_what_was_spent_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, TALK)
    await begun(home)
    async with home.run(f"--resume={FIRST}") as client:
        result = await client.ask("Go on.")
    assert result["total_cost_usd"] == pytest.approx(0.001)
    (usage,) = result["modelUsage"].values()
    assert usage["inputTokens"] == 200


async def test_there_is_nothing_to_continue_in_an_empty_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await asked(Home(tmp_path, monkeypatch, TALK), "--continue") == "One."


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((f"--resume={SECOND}",), f"No conversation found with session ID: {SECOND}"),
        (("--resume=/no/such.jsonl",), "No conversation found with session ID: "),
        (("--resume=Some name",), 'Provided value "Some name" is not a UUID'),
        ((f"--resume={FIRST}", f"--resume-session-at={SECOND}"), "No message found with"),
    ],
)
async def test_what_cannot_be_resumed_is_said_in_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], words: str
) -> None:
    home = Home(tmp_path, monkeypatch, TALK)
    await begun(home)
    async with home.run(*flags) as client:
        result = await client.until(lambda line: line["type"] == "result")
    assert result["subtype"] == "error_during_execution"
    assert words in result["errors"][0]
    assert home.code == 1


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((f"--session-id={FIRST}",), f"Error: Session ID {FIRST} is already in use."),
        (("--session-id=abc",), "Error: Invalid session ID. Must be a valid UUID."),
        ((f"--resume={FIRST}", f"--session-id={SECOND}"), "Error: --session-id can only be"),
        ((f"--resume-session-at={FIRST}",), "Error: --resume-session-at requires --resume"),
        ((f"--resume-drops-turn={FIRST}",), "Error: --resume-drops-turn requires"),
    ],
)
async def test_flags_that_do_not_go_together_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], words: str
) -> None:
    from pilothouse_sim.simulator.resume import find

    home = Home(tmp_path, monkeypatch, TALK)
    await begun(home)
    with pytest.raises(BadFlag, match=words):
        find(parse([*FLAGS, *flags]), {"CLAUDE_CONFIG_DIR": str(tmp_path / ".claude")})


def test_damaged_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / f"{FIRST}.jsonl"
    path.write_text('nonsense\n[]\n{"no": "type"}\n\n{"type": "user", "uuid": "a"')
    assert read(path).chain == []
    assert messages(read(path).chain) == []


# With a real CLI


def real(home: Home, url: str, *flags: str) -> RawProcess:
    command = (CACHE / NEWEST / "claude", *FLAGS, *flags)
    return RawProcess(command, cwd=home.cwd, env=environment(home.place, url))


async def real_turns(home: Home, model: ScriptedModel, *prompts: str, flags: str) -> list[str]:
    process = real(home, model.url, flags)
    await process.start()
    said: list[str] = []
    for prompt in prompts:
        process.prompt(prompt)
        result = await process.result()
        assert result is not None, process.stderr
        said.append(result["result"])
    await process.end()
    return said


@pytest.mark.real
async def test_a_real_cli_goes_on_from_a_simulators_transcript(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = script(reply("So.", TRUE), reply("One."), reply(thinking("Hm."), "Two."))
    home = Home(tmp_path, monkeypatch, scenario)
    await begun(home, "First.", "Second.")
    async with ScriptedModel(script(reply("Three."))) as model:
        assert await real_turns(home, model, "Go on.", flags=f"--resume={FIRST}") == ["Three."]
        told = [words(each["content"]) for each in model.requests[-1].body["messages"]]
    flat = str(told)
    places = [flat.index(part) for part in ("First.", "So.", "One.", "Second.", "Two.", "Go on.")]
    assert places == sorted(places)
    assert {line["sessionId"] for line in home.lines(FIRST, "user", "assistant")} == {FIRST}


@pytest.mark.real
async def test_a_real_cli_goes_on_from_a_simulators_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, TALK)
    await begun(home, "First.", "Second.", "/compact", "Third.")
    async with ScriptedModel(script(reply("Four."))) as model:
        assert await real_turns(home, model, "Go on.", flags=f"--resume={FIRST}") == ["Four."]
        told = str([words(each["content"]) for each in model.requests[-1].body["messages"]])
    assert "The conversation so far, in short." in told
    assert "First." not in told
    assert told.index("Two.") < told.index("Third.") < told.index("Go on.")


@pytest.mark.real
async def test_the_simulator_goes_on_from_a_real_clis_transcript(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = script(reply("So.", TRUE, TRUE), reply("One."), reply("Two."), reply("Three."))
    home = Home(tmp_path, monkeypatch, scenario)
    async with ScriptedModel(scenario) as model:
        said = await real_turns(home, model, "First.", "Second.", flags=f"--session-id={FIRST}")
    assert said == ["One.", "Two."]
    assert await asked(home, f"--resume={FIRST}") == "Three."
    roles = [role for role, _ in home.told()]
    assert roles == ["user", "assistant", "user", "assistant", "user", "assistant", "user"]
    async with home.run(f"--resume={FIRST}") as client:
        result = await client.ask("And again.")
    # Five calls were made in three processes.
    assert result["total_cost_usd"] == pytest.approx(0.0025)
