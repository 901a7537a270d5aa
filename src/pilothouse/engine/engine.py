"""The engine in this process: it owns sessions and their journal, and is the one writer.

    Registry        which sessions there are and which may run
      Talking       start, say, cancel, interrupt, stop, fork, set_mode
        Answering   answer
        Hosting     ask, withdraw: CLIs that are not the engine's
        Controlling what a live CLI is asked
      Reporting     status, list, read, watch, policy, cost, health
      Machines      runners

Every verb keeps what it was told before it acts, and returns once that is committed.
"""

from __future__ import annotations

from typing import Any, Self

from pilothouse.folders import make_private
from pilothouse.journal.contract import Journal
from pilothouse.journal.sqlite import SqliteJournal
from pilothouse.settings import Settings

from .answering import Answering
from .control import Controlling
from .hosting import Hosting
from .machines import Machines
from .reporting import Reporting

__all__ = ["SessionEngine"]


class SessionEngine(Answering, Hosting, Controlling, Reporting, Machines):
    """Implements `contract.Engine`."""

    @classmethod
    async def open(
        cls, settings: Settings, *, journal: Journal | None = None, **parts: Any
    ) -> Self:
        """Open the journal, tell every session again, and note what ended while nobody looked."""
        if journal is None:
            make_private(settings.state_dir)
            journal = await SqliteJournal.open(settings.state_dir / "journal.db")
        engine = cls(settings, journal, **parts)
        await engine.recover()
        return engine
