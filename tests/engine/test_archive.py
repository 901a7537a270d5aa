"""The archive: sessions that lists leave out until somebody wants them again."""

from __future__ import annotations

import pytest

from pilothouse.api.requests import Say
from pilothouse.errors import NotNow, UnknownSession
from pilothouse_sim.scenario import reply, tool
from tests.support.engine.harness import EngineHarness, OpenEngine, run_bare_cli

pytestmark = pytest.mark.simulated


async def listed(it: EngineHarness, *, archived: bool = False) -> list[str]:
    return [each.session_id for each in (await it.engine.list(archived=archived)).sessions]


async def test_a_session_in_the_archive_is_in_no_other_list(house: OpenEngine) -> None:
    it = await house("One.", "Two.")
    kept, gone = await it.done(), await it.done()
    row = await it.engine.archive(gone)
    assert (row.session_id, row.archived, row.state) == (gone, True, "done")
    assert (await listed(it), await listed(it, archived=True)) == ([kept], [gone])
    assert not (await it.engine.archive(gone, archived=False)).archived
    assert sorted(await listed(it)) == sorted([kept, gone])


async def test_the_archive_outlives_cli_and_server(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done()
    await it.engine.archive(session_id)
    await it.engine.stop(session_id)
    await it.close()
    await it.open()
    assert (await listed(it), await listed(it, archived=True)) == ([], [session_id])
    await it.engine.archive(session_id, archived=False)
    await it.close()
    await it.open()
    assert await listed(it) == [session_id]


async def test_whoever_speaks_to_a_session_takes_it_out(house: OpenEngine) -> None:
    it = await house("One.", "Two.")
    session_id = await it.done()
    await it.engine.archive(session_id)
    await it.engine.say(session_id, Say(content="more"))
    assert await listed(it) == [session_id]


async def test_a_session_that_works_or_asks_is_not_put_away(house: OpenEngine) -> None:
    it = await house(reply(tool("Write", file_path="a.txt", content="a")), "One.")
    session_id = await it.start()
    await it.asked(session_id)
    with pytest.raises(NotNow, match="at work"):
        await it.engine.archive(session_id)
    assert await listed(it) == [session_id]


async def test_a_session_whose_background_work_goes_on_is_not_put_away(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done()
    view = it.engine._recovery._sessions.all[session_id].view
    assert view.tracker is not None
    started = b'{"type":"system","subtype":"task_started","task_id":"t","task_type":"local_agent"}'
    view.apply(view.last_seq + 1, "cli", view.updated_at, started)
    with pytest.raises(NotNow, match="at work"):
        await it.engine.archive(session_id)


async def test_a_session_of_a_terminal_can_be_put_away(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await run_bare_cli(it, "a question of old")
    await it.engine.archive(session_id)
    assert (await listed(it), await listed(it, archived=True)) == ([], [session_id])


async def test_nobody_is_put_away(house: OpenEngine) -> None:
    it = await house("One.")
    with pytest.raises(UnknownSession):
        await it.engine.archive("nobody")


async def test_to_put_a_session_away_is_no_news_of_it(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done()
    before = (await it.engine.list()).sessions[0]
    after = await it.engine.archive(session_id)
    assert (after.updated_at, after.since) == (before.updated_at, before.since)


async def test_a_cli_that_runs_is_seen_wherever_its_session_was_put(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done()
    await it.engine.archive(session_id)
    listing = await it.engine.list(live=True)
    assert [(each.session_id, each.archived) for each in listing.sessions] == [(session_id, True)]
