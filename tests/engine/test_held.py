"""What is queued in a CLI that is closed waits for the next one."""

from __future__ import annotations

import pytest

from pilothouse_sim.scenario import gate, reply, text
from tests.support.engine.harness import OpenEngine
from tests.support.versions import NEWEST


@pytest.mark.versions(NEWEST, why="2.1.119 tells late that it has taken a prompt")
async def test_what_is_queued_when_the_cli_is_closed_is_run_by_the_next_one(
    house: OpenEngine,
) -> None:
    it = await house(reply(text("One"), gate("held"), text(".")), "Two.", "Three.")
    session_id = await it.start()
    await it.cli.reached("held")
    prompt_id = await it.say(session_id, "and then")
    await it.when(session_id, lambda status: [each.sent for each in status.queued] == [True])
    await it.engine.stop(session_id)
    status = await it.engine.status(session_id)
    assert [(each.prompt_id, each.sent) for each in status.queued] == [(prompt_id, False)]
    assert len(it.cli.requests) == 1
    await it.say(session_id, "go on")
    status = await it.when(session_id, lambda status: status.result == "Three.")
    prompts = [each["content"] for each in await it.records(session_id, "prompt.said")]
    assert prompts == ["go", "and then", "and then", "go on"]
    assert ["and then" in str(each.body) for each in it.cli.requests] == [False, True, True]
    assert status.queued == []
