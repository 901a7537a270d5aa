"""Whatever the order of what CLIs, people and machines do: no answer twice, no question lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.support.engine.played import quick_folder, staged
from tests.support.engine.steps import PLAYS, SETTLED, Play
from tests.support.parts import in_parts


async def play(steps: list[tuple[str, int, int]], *, modern: bool, folder: Path) -> None:
    """Let it all happen, with a pause after each: some turns of the loop, or until all rests."""
    async with staged(folder, modern=modern, max_sessions=2) as stage:
        happens = Play(stage)
        await stage.start()
        await happens.settle()
        for name, pick, pause in steps:
            done = getattr(happens, name)(pick)
            if done is not None:
                await done
            happens.look()
            await (happens.settle() if pause == SETTLED else happens.pause(pause))
        await happens.settle()
        await happens.close(0)
        await happens.settle()
        await happens.decide_all()


@in_parts
@given(steps=PLAYS, modern=st.booleans())
def test_no_order_of_events_answers_deaths_and_restarts_loses_or_doubles_anything(
    part: int, steps: list[tuple[str, int, int]], modern: bool
) -> None:
    with quick_folder() as folder:
        asyncio.run(play(steps, modern=modern, folder=folder))
