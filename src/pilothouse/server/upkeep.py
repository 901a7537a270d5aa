"""What is done with a journal from outside, also while a server writes to it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import BinaryIO

from pilothouse.api.events import Batch
from pilothouse.api.redaction import tellable
from pilothouse.api.results import DryRun, DryRunLine
from pilothouse.engine.policy import Policy, PolicyFile, dry_run, read_policy
from pilothouse.errors import JournalError
from pilothouse.journal.export import export as export_entries
from pilothouse.journal.schema import connect, refuse_strangers
from pilothouse.journal.sqlite import Database
from pilothouse.journal.stored import StoredJournal
from pilothouse.settings import Settings

from .cli_choice import journal_path
from .runtime import usable

__all__ = ["backup", "check_policy", "export"]

STDOUT = Path("-")


def backup(settings: Settings, file: Path, *, simulated: bool) -> str:
    """Copy the journal into a new file; what to tell the user."""

    target = file.absolute()
    if not target.parent.is_dir():
        raise JournalError(f"there is no folder {target.parent}; make it, or choose another")

    _check_there(settings, simulated=simulated)

    async def copy() -> None:
        async with _reading(journal_path(settings, simulated=simulated)) as journal:
            await journal.backup(target)

    asyncio.run(copy())
    return f"{file}: {file.stat().st_size} bytes"


def export(settings: Settings, file: Path, *, session_id: str | None, simulated: bool) -> str:
    """Write entries as lines of JSON into a new file, or to stdout; what to tell the user."""

    _check_there(settings, simulated=simulated)

    async def write() -> int:
        async with _reading(journal_path(settings, simulated=simulated)) as journal:
            if session_id is not None and not await _has(journal, session_id):
                told = f"the journal has no session {session_id}; list them: GET /api/sessions"
                raise JournalError(f"{told}{_simulated_too(settings, simulated=simulated)}")
            with _output(file) as output:
                return await export_entries(journal, output.write, session_id=session_id)

    return f"{file}: {asyncio.run(write())} events"


def _check_there(settings: Settings, *, simulated: bool) -> None:
    path = journal_path(settings, simulated=simulated)
    if not _exists(path) and (instead := _simulated_too(settings, simulated=simulated)):
        raise JournalError(f"there is no journal {path} yet{instead}")


def _simulated_too(settings: Settings, *, simulated: bool) -> str:
    """What to do where only the simulator's journal may have it."""
    if simulated or not _exists(journal_path(settings, simulated=True)):
        return ""
    return "; sessions of the simulator have a journal of their own: add --simulated"


class _Told(StoredJournal):
    """A journal for others to read."""

    async def read(
        self,
        after: int,
        *,
        session_id: str | None = None,
        limit: int = 500,
        partials: bool = True,
    ) -> Batch:
        batch = await super().read(after, session_id=session_id, limit=limit, partials=partials)
        return tellable(batch)


async def _has(journal: StoredJournal, session_id: str) -> bool:
    return await journal.snapshot(session_id) is not None


@asynccontextmanager
async def _reading(path: Path) -> AsyncGenerator[StoredJournal]:
    """The journal to read from. Its writer's lock is not taken and nothing in it is changed."""
    database = await asyncio.to_thread(_look, path)
    journal = _Told(database, database.highest)
    try:
        yield journal
    finally:
        await journal.aclose()


def _look(path: Path) -> Database:
    with usable(path):
        if not path.exists():
            raise JournalError(f"there is no journal {path} yet; `pilothouse serve` makes it")
        path.open("rb").close()
    database = Database(path)
    try:
        with closing(connect(path)) as db:
            refuse_strangers(db, database.name)
        database.look()
    except BaseException as error:
        database.close()
        if not isinstance(error, database.damage):
            raise
        told = f"{database.name} cannot be read: {error}"
        raise JournalError(f"{told}; `pilothouse serve` mends it or sets it aside") from error
    return database


@contextmanager
def _output(file: Path) -> Generator[BinaryIO]:
    if file == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise JournalError(f"{file}: {error.strerror}; choose another name") from None
    try:
        with os.fdopen(descriptor, "wb") as output:
            yield output
    except OSError as error:
        told = f"{file}: {error.strerror}, so it is not whole"
        raise JournalError(f"{told}; delete it, and see to its disk") from None


def check_policy(
    settings: Settings, file: Path | None, *, env: Mapping[str, str], simulated: bool
) -> list[str]:
    """Lines that say what is in a policy file, and which past questions it would change.

    None is the one in force.
    """
    if file is None and not _exists(settings.policy_file):
        return [f"there is no {settings.policy_file}, so a person is asked every question"]
    file = file or settings.policy_file
    home = Path(env["HOME"]) if env.get("HOME") else None
    policy = read_policy(file, home=home)
    lines = [f"{file}: {_count(len(policy.rules), 'rule')}, nothing wrong"]
    journal = journal_path(settings, simulated=simulated)
    if not _exists(journal):
        return [*lines, "no question was asked yet, so there is none to try it on"]
    in_force = PolicyFile(settings.policy_file, home=home)
    return lines + _differences(asyncio.run(_replay(journal, in_force.policy, policy)))


async def _replay(journal: Path, before: Policy, after: Policy) -> DryRun:
    async with _reading(journal) as reading:
        return dry_run(await reading.questions(), before, after)


def _exists(file: Path) -> bool:
    with usable(file):
        return file.exists()


def _differences(run: DryRun) -> list[str]:
    head = f"{_count(run.examined, 'past question')}, of which {len(run.differ)} would differ"
    return [head, *map(_difference, run.differ)]


def _difference(line: DryRunLine) -> str:
    before = f"{line.before} ({line.before_rule})" if line.before_rule else line.before
    after = f"{line.after} ({line.after_rule})" if line.after_rule else line.after
    return f"  {before} -> {after}: {line.title}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
