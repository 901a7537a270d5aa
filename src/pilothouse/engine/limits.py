"""What sessions may cost, and how many CLIs may run at once."""

from __future__ import annotations

import asyncio
from typing import Protocol

from pilothouse.errors import CapReached, TooManySessions
from pilothouse.journal.contract import Journal
from pilothouse.settings import Settings

from .recorder import Recorder, day_of
from .view import View

__all__ = ["Slots", "Spending"]


class Spending:
    """What was spent today, and the caps on it."""

    def __init__(self, settings: Settings, recorder: Recorder) -> None:
        self._settings = settings
        self._recorder = recorder
        self._by_day: dict[str, float] = {}

    async def restore(self, journal: Journal) -> None:
        """Read what was spent today before this engine was opened."""
        lines = await journal.sums.costs("day", day=self._today)
        self._by_day[self._today] = sum(line.usd for line in lines)

    @property
    def _today(self) -> str:
        return day_of(self._recorder.clock())

    @property
    def today_usd(self) -> float:
        """What all sessions have cost since midnight."""
        return self._by_day.get(self._today, 0.0)

    def add(self, usd: float) -> None:
        """Count what a turn has cost."""
        self._by_day[self._today] = self.today_usd + usd

    def is_capped(self, view: View) -> bool:
        """Return whether a limit is set to what the session may cost."""
        return self._session_cap(view) is not None or self._settings.day_cap_usd is not None

    def check(self, view: View) -> None:
        """Raise CapReached where no further turn may begin."""
        cap = self._session_cap(view)
        if cap is not None and view.cost_usd >= cap:
            raise CapReached(
                f"session {view.session_id} has cost ${view.cost_usd:.4f} of ${cap:g}",
                advice="start a new session, or raise session_cap_usd",
            )
        today, day_cap = self.today_usd, self._settings.day_cap_usd
        if day_cap is not None and today >= day_cap:
            raise CapReached(
                f"today's sessions have cost ${today:.4f} of ${day_cap:g}",
                advice="go on tomorrow, or raise day_cap_usd",
            )

    def _session_cap(self, view: View) -> float | None:
        own = view.caps.session_usd
        return self._settings.session_cap_usd if own is None else own


class Occupant(Protocol):
    """A session that holds a slot."""

    @property
    def has_cli(self) -> bool: ...
    @property
    def is_idle(self) -> bool: ...
    @property
    def last_used(self) -> int: ...
    def retire(self) -> asyncio.Task[None]: ...


class Slots:
    """Room for CLIs. Where there is none, the one that has been idle for longest is closed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._occupants: dict[str, Occupant] = {}

    def take(self, session_id: str, occupant: Occupant, *, leaving: str = "") -> Eviction:
        """Take a slot; the closing of another CLI that has to be awaited, if one has to go.

        `leaving` is a session whose own CLI will be gone by then. Raises TooManySessions.
        """
        others = (
            each for name, each in self._occupants.items() if name not in (session_id, leaving)
        )
        live = [each for each in others if each.has_cli]
        eviction = None
        if len(live) >= self._most:
            idle = [each for each in live if each.is_idle]
            if not idle:
                raise TooManySessions(
                    f"{len(live)} sessions run and none of them is idle",
                    advice="wait for one, stop one, or raise MAX_SESSIONS",
                )
            eviction = min(idle, key=lambda each: each.last_used).retire()
        self.hold(session_id, occupant)
        return eviction

    def hold(self, session_id: str, occupant: Occupant) -> None:
        """Take a slot for a CLI that runs already, whether or not there is room."""
        self._occupants[session_id] = occupant

    def free(self, session_id: str) -> None:
        """Give the slot back."""
        self._occupants.pop(session_id, None)


Eviction = asyncio.Task[None] | None
