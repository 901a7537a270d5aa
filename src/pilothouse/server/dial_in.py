"""`pilothouse dial-in`: has the server expect a CLI that its user is about to start by hand."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pilothouse.errors import ServerError
from pilothouse.settings import Settings

from .machines import remote_engine
from .probe import answering
from .status import NONE

if TYPE_CHECKING:
    from pilothouse.api.requests import DialIn

__all__ = ["dial_in"]


async def dial_in(settings: Settings, request: DialIn) -> tuple[str, list[str]]:
    """Ask the running server: the command to paste, and what else its user should know."""
    running = answering(settings)
    if running is None:
        raise ServerError(NONE)
    async with remote_engine(running, settings) as engine:
        opened = await engine.dial_in(request)
    until = datetime.fromtimestamp(opened.expires_at / 1000).astimezone()
    told = f"paste this before {until:%H:%M:%S}; it begins session {opened.session_id}"
    return opened.command, [told, *filter(None, [opened.warning])]
