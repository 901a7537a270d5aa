"""What an engine tells of itself."""

from __future__ import annotations

import pytest

from tests.support.engine.harness import OpenEngine


@pytest.mark.simulated
async def test_health_counts_the_sessions_by_their_state(house: OpenEngine) -> None:
    it = await house("One.")
    assert (await it.engine.health()).states == {}
    await it.done()
    health = await it.engine.health()
    assert (health.sessions, health.states) == (1, {"done": 1})
