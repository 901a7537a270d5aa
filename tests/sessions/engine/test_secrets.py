"""Secrets in a session's options: the CLI gets them, whoever watches does not."""

from __future__ import annotations

from contextlib import aclosing

from tests.sessions.engine.conftest import Housing


async def test_who_reads_or_watches_is_told_names_without_values(house: Housing) -> None:
    it = await house("Hello.", "Again.")
    session_id = await it.done(env={"BOAT_TOKEN": "hush"})
    read = await it.engine.read()
    async with aclosing(it.engine.watch(0)) as watching:
        watched = await anext(watching)
    for batch in (read, watched):
        told = b"".join(bytes(event.body) for event in batch.events)
        assert b"BOAT_TOKEN" in told
        assert b"hush" not in told
    await it.close()
    await it.open()
    assert it.engine.sessions[session_id].view.options.env == {"BOAT_TOKEN": "hush"}
