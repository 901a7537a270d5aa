"""An engine in this process, on the CLI that was chosen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from pilothouse.doors.door import Doors
from pilothouse.doors.http_server import serve_at
from pilothouse.doors.local import LocalRelays
from pilothouse.doors.runners import Runners
from pilothouse.doors.tokens import Keyring
from pilothouse.engine.door_routes import DoorRoutes
from pilothouse.engine.engine import SessionEngine
from pilothouse.engine.policy import read_policy
from pilothouse.engine.routes import Routes
from pilothouse.errors import PolicyError
from pilothouse.journal.sqlite import SqliteJournal
from pilothouse.settings import Settings

from .cli_choice import CLIChoice

__all__ = ["open_engine", "open_journal", "open_with_doors"]

KEY_NAME: Final = "relay.key"
RELAYS_NAME: Final = "relays"
RUNNERS_NAME: Final = "runners.json"
SOCKET_NAME: Final = "door.sock"

log = logging.getLogger("pilothouse.server")


async def open_engine(
    choice: CLIChoice, journal: SqliteJournal, routes: Routes | None = None
) -> SessionEngine:
    """The engine on its journal, which it closes last."""
    try:
        await asyncio.to_thread(check_policy, choice.settings)
        return await SessionEngine.open(
            choice.settings,
            journal=journal,
            simulated=choice.simulated,
            scratch=choice.scratch,
            lack=choice.lack,
            cli_path=choice.cli_path,
            env=choice.env,
            inherit_env=False,
            routes=routes,
        )
    except BaseException:
        await journal.aclose()
        raise


def check_policy(settings: Settings) -> None:
    """Refuse rules that cannot be used: who wrote them does not expect to work without them."""
    path = settings.policy_file
    is_named = settings.sources["policy_file"] != "default"
    if not (is_named or path.exists()):
        return
    try:
        read_policy(path)
    except PolicyError as error:
        told = "mend it (`pilothouse policy check` looks at it again), then start again"
        raise PolicyError(f"{error}; {told}") from None


async def open_journal(path: Path | None) -> SqliteJournal:
    """The journal; None: one in memory."""
    opened = await SqliteJournal.open(path)
    if opened.set_aside is not None:
        told = {"journal": str(path), "set_aside": str(opened.set_aside)}
        log.warning("the journal was damaged: it is set aside, and a new one begins", extra=told)
    return opened


@asynccontextmanager
async def open_with_doors(
    choice: CLIChoice, dial: str
) -> AsyncGenerator[tuple[SessionEngine, Doors]]:
    """The engine and the doors through which relays reach it, while the context lasts.

    Every relay that goes on is expected before the first one can come. `dial` is where CLIs reach
    the doors that dial in themselves.
    """
    settings = choice.settings
    keyring = Keyring.open(settings.state_dir / KEY_NAME)
    runners = Runners(settings.state_dir / RUNNERS_NAME, lost_after=settings.runner_lost_s)
    doors = Doors(keyring, runners=runners)
    journal = await open_journal(choice.journal)
    # Where the next server looks too: a relay knows this path for as long as it lives, and the
    # folder of a login is another one than that of a cron job.
    socket = settings.state_dir / SOCKET_NAME
    local = LocalRelays(
        settings.state_dir / RELAYS_NAME,
        connect=f"unix:{socket}",
        keyring=keyring,
        last_will=settings.last_will_s,
        spool_limit=settings.spool_limit,
    )
    routes = DoorRoutes(
        journal,
        doors,
        local,
        runners,
        keyring,
        cli=choice.cli_path,
        env=choice.env,
        via="relay" if settings.relays else "stdio",
        dial=dial,
        last_will=settings.last_will_s,
    )
    engine = await open_engine(choice, journal, routes)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(serve_at(doors, socket))
            yield engine, doors
        finally:
            # While the doors are open: a CLI that is ended is told so through them.
            await routes.aclose()
            try:
                await engine.aclose()
            finally:
                local.close()
