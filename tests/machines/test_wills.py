"""When the sessions of a lost machine are given up, and when they are not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pilothouse.doors.runners import Runners
from pilothouse.engine.door_routes import DoorRoutes
from tests.support.doors.runner_peer import arrive, roster_file
from tests.support.waiting import DEADLINE

WILL = 0.05


class Route:
    """A relay that is there or not, as told, each time somebody looks."""

    machine = "b"

    def __init__(self, *is_there: bool) -> None:
        self._is_there = list(is_there)
        self.lost_because: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def connected(self) -> bool:
        return self._is_there.pop(0) if len(self._is_there) > 1 else self._is_there[0]

    def give_up(self, reason: str) -> None:
        if not self.lost_because.done():
            self.lost_because.set_result(reason)

    async def given_up(self) -> str:
        async with asyncio.timeout(DEADLINE):
            return await self.lost_because


def routes_to(runners: Runners, *known: Route) -> DoorRoutes:
    """The part of door routes that looks after machines."""
    unused: Any = None
    routes = DoorRoutes(
        *(unused, unused, unused, runners, unused), cli=unused, env={}, last_will=WILL
    )
    by_run: Any = {str(number): each for number, each in enumerate(known)}
    routes._routes.update(by_run)
    return routes


async def test_a_relay_that_stays_away_as_long_as_its_will_says_is_given_up(tmp_path: Path) -> None:
    runners = Runners(roster_file(tmp_path), lost_after=0)
    gone, connecting, leaving = Route(False), Route(False, True), Route(True, False)
    routes = routes_to(runners, gone, connecting, leaving)
    async with await arrive(runners, runners.add("b")):
        pass
    assert await gone.given_up() == f"the machine b has been gone for {WILL:g} s"
    # One that was there at the first look is looked at again.
    await leaving.given_up()
    assert not connecting.lost_because.done()
    await routes.aclose()


async def test_nothing_is_given_up_while_the_runner_is_there(tmp_path: Path) -> None:
    runners = Runners(roster_file(tmp_path), lost_after=0)
    given_up, kept = Route(False), Route(False)
    routes = routes_to(runners, given_up)
    token = runners.add("b")
    async with await arrive(runners, token):
        pass
    await given_up.given_up()
    known: Any = {"kept": kept}
    routes._routes.update(known)
    async with await arrive(runners, token):
        assert not routes._wills
        assert not kept.lost_because.done()
    await routes.aclose()
