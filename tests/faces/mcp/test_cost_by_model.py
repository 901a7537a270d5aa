"""What each model of a session has cost, as the tools and the cost report over HTTP tell it."""

from __future__ import annotations

import pytest

from tests.support.http.serving import calling, make_app
from tests.support.mcp.harness import OpenMcp

FIRST, SECOND = "claude-opus-4-5", "claude-haiku-4-5"


async def test_the_cost_of_a_session_is_told_by_model(desk: OpenMcp) -> None:
    at = await desk("One.", "Two.", "Three.")
    async with at.client() as model:
        session_id = await model.start(model=FIRST, waitSeconds=50)
        alone = await model.status(session_id)
        assert set(alone["models"]) == {FIRST}
        given = {"sessionId": session_id, "action": "set", "model": SECOND}
        await model.call("claude_control", **given)
        for message in ("and?", "so?"):
            said = {"sessionId": session_id, "message": message, "waitSeconds": 50}
            both = await model.call("claude_say", **said)
    assert set(both["models"]) == {FIRST, SECOND}
    assert both["models"][FIRST] == alone["models"][FIRST]
    costs = [each["costUsd"] for each in both["models"].values()]
    assert all(each > 0 for each in costs)
    assert sum(costs) == pytest.approx(both["costUsd"])
    outputs = [each["output"] for each in both["models"].values()]
    assert sum(outputs) == both["tokens"]["output"]

    async with calling(make_app(at.house.engine)) as http:
        report = (await http.get("/api/cost", params={"by": "model"})).json()
        mine = (
            await http.get("/api/cost", params={"by": "model", "session_id": session_id})
        ).json()
    lines = {line["group"]: line for line in report["lines"]}
    assert {name: line["turns"] for name, line in lines.items()} == {FIRST: 1, SECOND: 2}
    for name, line in lines.items():
        told = both["models"][name]
        assert (line["usd"], line["tokens"]["output"]) == (
            pytest.approx(told["costUsd"]),
            told["output"],
        )
    assert report["total_usd"] == pytest.approx(both["costUsd"])
    assert mine["lines"] == report["lines"]
