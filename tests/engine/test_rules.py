"""What was allowed for a session stays allowed, whichever CLI runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse.api.answers import AddOwnDirectories, AddOwnRules, Allow, OwnRule
from pilothouse.errors import DirectoryRefused
from pilothouse_sim.scenario import reply, tool
from tests.support.engine.harness import OpenEngine
from tests.support.versions import NEWEST

MAKE = reply(tool("Bash", command="touch 'a, (b' made", description="Make it"))


@pytest.mark.versions(NEWEST, why="2.1.119 asks before it writes to a path, whatever the rules say")
async def test_what_is_always_allowed_is_not_asked_by_the_next_cli(house: OpenEngine) -> None:
    it = await house(MAKE, "Made.", MAKE, "Made again.")
    session_id = await it.start()
    await it.engine.answer((await it.asked(session_id)).id, Allow(always=True))
    await it.until(session_id, "done")
    assert [each["rules"] for each in await it.records(session_id, "rules.kept")] == [
        ["Bash(touch 'a, (b' made)"]
    ]
    await it.engine.stop(session_id)
    await it.say(session_id, "again")
    status = await it.when(session_id, lambda status: status.turns == 2 or bool(status.questions))
    assert (status.result, status.questions) == ("Made again.", [])


@pytest.mark.simulated
@pytest.mark.versions(NEWEST, why="2.1.119 asks before it writes to a path, whatever the rules say")
async def test_a_rule_that_was_kept_survives_a_restart_of_the_engine(house: OpenEngine) -> None:
    it = await house(MAKE, "Made.", MAKE, "Made again.")
    session_id = await it.start()
    await it.engine.answer((await it.asked(session_id)).id, Allow(always=True))
    await it.until(session_id, "done")
    await it.close()
    await it.open()
    await it.say(session_id, "again")
    status = await it.when(session_id, lambda status: status.turns == 2 or bool(status.questions))
    assert (status.result, status.questions) == ("Made again.", [])


def writing(*paths: Path) -> list[object]:
    """Replies that write to these, one turn each."""
    calls = [reply(tool("Write", file_path=str(path), content="noted")) for path in paths]
    return [each for call in calls for each in (call, "Noted.")]


async def test_a_directory_that_is_always_allowed_is_not_asked_about_again(
    house: OpenEngine, tmp_path: Path
) -> None:
    # Row 1 of the documents' audit: the mode alone does not open a directory.
    dock = tmp_path / "dock"
    dock.mkdir()
    notes = [dock / name for name in ("one", "two", "three")]
    it = await house(*writing(*notes))
    session_id = await it.start()
    question = await it.asked(session_id)
    assert str(dock) in next(way.label for way in question.ways if way.id == "always_session")
    await it.engine.answer(question.id, Allow(always=True))
    await it.until(session_id, "done")
    await it.say(session_id, "again")
    status = await it.when(session_id, lambda status: status.turns == 2 or bool(status.questions))
    assert status.questions == []
    await it.engine.stop(session_id)
    await it.say(session_id, "and with another CLI")
    status = await it.when(session_id, lambda status: status.turns == 3 or bool(status.questions))
    assert status.questions == []
    assert [note.read_text() for note in notes] == ["noted"] * 3


ANSWER = "python3 -c 'print(6 * 7)'"
COUNT = reply(tool("Bash", command=ANSWER, description="Count"))


async def test_a_rule_of_ones_own_goes_with_the_answer_and_stays(house: OpenEngine) -> None:
    it = await house(MAKE, COUNT, "Made and counted.", COUNT, "Counted.")
    session_id = await it.start()
    rule = AddOwnRules(rules=[OwnRule(tool_name="Bash", rule_content="python3:*")])
    question = await it.asked(session_id)
    await it.engine.answer(question.id, Allow(updates=[rule]))
    status = await it.when(session_id, lambda status: status.turns == 1 or bool(status.questions))
    assert status.questions == []
    await it.engine.stop(session_id)
    await it.say(session_id, "again")
    status = await it.when(session_id, lambda status: status.turns == 2 or bool(status.questions))
    assert (status.result, status.questions) == ("Counted.", [])


@pytest.mark.simulated
async def test_no_answer_opens_a_directory_outside_the_allowed_roots(
    house: OpenEngine, tmp_path: Path
) -> None:
    it = await house(MAKE, "Made.", allowed_roots=[str(tmp_path.parent)])
    question = await it.asked(await it.start())

    def opening(directory: str) -> Allow:
        return Allow(updates=[AddOwnDirectories(directories=[directory])])

    with pytest.raises(DirectoryRefused):
        await it.engine.answer(question.id, opening("/"))
    await it.engine.answer(question.id, opening(str(tmp_path)))
