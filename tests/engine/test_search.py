"""Finding sessions by what a list shows of them: at work, at rest, and those of a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.errors import UsageError
from tests.support.engine.harness import EngineHarness, OpenEngine, run_bare_cli

pytestmark = pytest.mark.simulated


async def found(it: EngineHarness, **which: Any) -> list[str]:
    listing = await it.engine.list(**which)
    assert listing.total == len(listing.sessions)
    return [each.session_id for each in listing.sessions]


async def rest(it: EngineHarness, session_id: str) -> None:
    """Let nothing of it be in memory."""
    await it.engine.stop(session_id)
    await it.close()
    await it.open()


@pytest.mark.parametrize("at_rest", [False, True])
async def test_a_search_finds_all_of_its_words_in_any_case(
    house: OpenEngine, *, at_rest: bool
) -> None:
    it = await house("The BOATS are moored.")
    session_id = await it.start("Ölstand and harbour", label="night run")
    await it.until(session_id, "done")
    if at_rest:
        await rest(it, session_id)
    for words in ("ÖLSTAND", "harb öl", "boats moored", "NIGHT", it.cwd.name, session_id[:8]):
        assert await found(it, search=words) == [session_id], words
    for words in ("harbour ships", "%", "_", "moored\0"):
        assert await found(it, search=words) == [], words


async def test_a_search_of_more_words_than_anybody_types_is_refused(house: OpenEngine) -> None:
    it = await house("One.")
    with pytest.raises(UsageError, match="at most 32 words"):
        await it.engine.list(search=" ".join(map(str, range(2000))))
    assert await found(it, search="one " * 2000) == []


@pytest.mark.parametrize("at_rest", [False, True])
async def test_lists_are_of_one_state_one_label_one_machine(
    house: OpenEngine, *, at_rest: bool
) -> None:
    it = await house("One.")
    session_id = await it.start(label="night run")
    await it.until(session_id, "done")
    if at_rest:
        await rest(it, session_id)
    assert await found(it, state="done", label="night run") == [session_id]
    assert await found(it, state="error") == []
    assert await found(it, label="night") == []
    assert await found(it, machine="dock") == []


async def test_sessions_of_a_terminal_are_found_by_their_words(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await run_bare_cli(it, "a question of old")
    assert await found(it, search="QUESTION old") == [session_id]
    assert await found(it, search="answer") == []
    assert await found(it, state="done") == []
    assert await found(it, live=True, search="question") == []
