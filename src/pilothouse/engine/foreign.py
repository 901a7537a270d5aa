"""CLIs that are not the engine's: in which sessions they work.

Such a CLI is known by its questions alone. As long as one of them waits for an answer, and
`LEASE_S` after the last one did, it is there. Nothing else tells that it has ended; when it last
asked is in the journal, so that a restart does not forget it.
"""

from __future__ import annotations

import asyncio
from typing import Final

from pilothouse.errors import NotNow

from .recorder import Recorder
from .view import View

__all__ = ["ForeignCLIs"]

LEASE_S: Final = 45.0
"""How long a question waits for whoever asked it to come again."""


class ForeignCLIs:
    """Which sessions have a CLI that somebody else started."""

    def __init__(self, recorder: Recorder) -> None:
        self.waiting: set[str] = set()
        """The sessions in which one waits for an answer."""
        self._recorder = recorder
        self._seen: dict[str, float] = {}

    @property
    def lease_s(self) -> float:
        return LEASE_S

    def note(self, session_id: str) -> None:
        """Note that the session's foreign CLI was there just now."""
        self._seen[session_id] = asyncio.get_running_loop().time()

    def check_absent(self, view: View) -> None:
        """Refuse to work in a session beside a CLI that is not ours: both would write to it."""
        if self._is_present(view):
            raise NotNow(
                f"the CLI of session {view.session_id} is not the engine's, which cannot talk "
                "to it",
                advice="answer what it asks, and talk to it where it was started; once it has "
                f"ended and {LEASE_S:g} s have passed, the session can be resumed here",
            )

    def check_silent(self, view: View, written_at: int) -> None:
        """Refuse to work in a session whose transcript was written only just now: a foreign CLI
        that asks nothing may be at work."""
        if self._is_recent(written_at):
            raise NotNow(
                f"the transcript of session {view.session_id} was written within the last "
                f"{LEASE_S:g} s, so a CLI that is not the engine's may be at work",
                advice=f"try again once it has ended and {LEASE_S:g} s have passed",
            )

    def _is_present(self, view: View) -> bool:
        now = asyncio.get_running_loop().time()
        self._seen = {name: at for name, at in self._seen.items() if now - at < LEASE_S}
        known = view.session_id in self._seen or view.session_id in self.waiting
        # What is in the journal counts after a restart as well.
        return known or self._is_recent(view.guest_at)

    def _is_recent(self, at: int) -> bool:
        # A clock that was set back must not shut a session for long.
        return abs(self._recorder.clock() - at) < LEASE_S * 1000
