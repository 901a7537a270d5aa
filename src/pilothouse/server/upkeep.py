"""What is done with a journal from outside, also while a server writes to it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import BinaryIO

from pilothouse.errors import JournalError, PolicyError
from pilothouse.sessions.contract import DryRun, DryRunLine
from pilothouse.sessions.journal.export import export as export_entries
from pilothouse.sessions.journal.sqlite import Database
from pilothouse.sessions.journal.stored import StoredJournal
from pilothouse.sessions.policy import Policy, PolicyFile, dry_run
from pilothouse.settings import Settings

from .simulating import journal_path

__all__ = ["backup", "check_policy", "export"]

STDOUT = Path("-")


def backup(settings: Settings, file: Path, *, simulated: bool) -> str:
    """Copy the journal into a new file; what to tell the user."""

    target = file.absolute()

    async def copy() -> None:
        async with _reading(journal_path(settings, simulated=simulated)) as journal:
            await journal.backup(target)

    asyncio.run(copy())
    return f"{file}: {file.stat().st_size} bytes"


def export(settings: Settings, file: Path, *, session_id: str | None, simulated: bool) -> str:
    """Write entries as lines of JSON into a new file, or to stdout; what to tell the user."""

    async def write() -> int:
        async with _reading(journal_path(settings, simulated=simulated)) as journal:
            with _output(file) as output:
                return await export_entries(journal, output.write, session_id=session_id)

    return f"{file}: {asyncio.run(write())} events"


@asynccontextmanager
async def _reading(path: Path) -> AsyncGenerator[StoredJournal]:
    """The journal to read from. Its writer's lock is not taken and nothing in it is changed."""
    database = await asyncio.to_thread(_look, path)
    journal = StoredJournal(database, database.highest, database.newest)
    try:
        yield journal
    finally:
        await journal.aclose()


def _look(path: Path) -> Database:
    if not path.exists():
        raise JournalError(f"there is no journal {path} yet; `pilothouse serve` makes it")
    database = Database(path)
    try:
        database.look()
    except database.damage as error:
        database.close()
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
    with os.fdopen(descriptor, "wb") as output:
        yield output


def check_policy(
    settings: Settings, file: Path | None, *, env: Mapping[str, str], simulated: bool
) -> list[str]:
    """Lines that say what is in a policy file, and which past questions it would change.

    None is the one in force.
    """
    if file is None and not settings.policy_file.exists():
        return [f"there is no {settings.policy_file}, so a person is asked every question"]
    file = file or settings.policy_file
    home = Path(env["HOME"]) if env.get("HOME") else None
    policy = Policy.parse(_text(file), str(file), home=home)
    lines = [f"{file}: {_count(len(policy.rules), 'rule')}, nothing wrong"]
    journal = journal_path(settings, simulated=simulated)
    if not journal.exists():
        return [*lines, "no question was asked yet, so there is none to try it on"]
    in_force = PolicyFile(settings.policy_file, home=home)
    return lines + _differences(asyncio.run(_replay(journal, in_force.policy, policy)))


async def _replay(journal: Path, before: Policy, after: Policy) -> DryRun:
    async with _reading(journal) as reading:
        return dry_run(await reading.questions(), before, after)


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise PolicyError(f"{file} cannot be read: {reason}") from None


def _differences(run: DryRun) -> list[str]:
    head = f"{_count(run.examined, 'past question')}, of which {len(run.differ)} would differ"
    return [head, *map(_difference, run.differ)]


def _difference(line: DryRunLine) -> str:
    before = f"{line.before} ({line.before_rule})" if line.before_rule else line.before
    after = f"{line.after} ({line.after_rule})" if line.after_rule else line.after
    return f"  {before} -> {after}: {line.title}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
