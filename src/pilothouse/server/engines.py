"""An engine in this process, on the CLI that was chosen."""

from __future__ import annotations

import logging
from pathlib import Path

from pilothouse.sessions.engine import SessionEngine
from pilothouse.sessions.journal.sqlite import SqliteJournal

from .simulating import Choice

__all__ = ["open_engine"]

log = logging.getLogger("pilothouse.server")


async def open_engine(choice: Choice, journal: Path | None) -> SessionEngine:
    """The engine on its journal, which it closes last; None: a journal in memory."""
    opened = await SqliteJournal.open(journal)
    if opened.set_aside is not None:
        told = {"journal": str(journal), "set_aside": str(opened.set_aside)}
        log.warning("the journal was damaged: it is set aside, and a new one begins", extra=told)
    try:
        return await SessionEngine.open(
            choice.settings,
            journal=opened,
            simulated=choice.simulated,
            cli_path=choice.cli_path,
            env=choice.env,
            inherit_env=False,
        )
    except BaseException:
        await opened.aclose()
        raise
