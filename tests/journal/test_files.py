"""What is found in place of a journal: one in use, a newer one, a damaged one, something else."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from pilothouse.api.events import Gap
from pilothouse.errors import JournalError, JournalInUse, JournalTooNew
from pilothouse.journal import database, schema
from pilothouse.journal.sqlite import SqliteJournal
from tests.support.journal.drafts import drafts, keep, seqs


async def filled(path: Path, count: int = 2000) -> None:
    journal = await SqliteJournal.open(path)
    await keep(journal, drafts(count))
    await journal.aclose()


def content(path: Path) -> bytes:
    return path.read_bytes()


def replace(path: Path, by: bytes) -> bytes:
    path.write_bytes(by)
    return by


def overwrite_a_page_in_the_middle(path: Path) -> bytes:
    whole = bytearray(path.read_bytes())
    middle = len(whole) // 2 // 4096 * 4096
    whole[middle : middle + 4096] = b"\xaa" * 4096
    return replace(path, bytes(whole))


def beside(path: Path, pattern: str = "*") -> set[Path]:
    return set(path.parent.glob(pattern))


async def test_the_files_are_for_the_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "journal.db"
    umask = os.umask(0)
    try:
        journal = await SqliteJournal.open(path)
        await keep(journal, drafts(1))
    finally:
        os.umask(umask)
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    assert set(modes) >= {"journal.db", "journal.db-wal", "journal.db.lock"}
    assert set(modes.values()) == {0o600}
    for folder in (path.parent, path.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    await journal.aclose()


async def test_every_commit_waits_for_the_disk(journal: SqliteJournal) -> None:
    db = journal._store._db  # type: ignore[attr-defined]
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert db.execute("PRAGMA synchronous").fetchone() == (2,)


async def test_a_journal_in_use_is_refused_until_it_is_closed(path: Path) -> None:
    journal = await SqliteJournal.open(path)
    with pytest.raises(JournalInUse, match="stop it first") as caught:
        await SqliteJournal.open(path)
    assert str(path) in str(caught.value)
    await journal.aclose()
    await (await SqliteJournal.open(path)).aclose()


async def test_a_newer_file_is_refused_and_left_as_it_is(path: Path) -> None:
    await filled(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS) + 1}")
    before = content(path)
    with pytest.raises(JournalTooNew, match=f"version {len(schema.MIGRATIONS) + 1}") as caught:
        await SqliteJournal.open(path)
    assert str(path) in str(caught.value)
    assert f"up to {len(schema.MIGRATIONS)}" in str(caught.value)
    assert "upgrade pilothouse" in str(caught.value)
    assert content(path) == before
    assert {each.name for each in beside(path)} == {"journal.db", "journal.db.lock"}


async def test_a_database_of_something_else_is_refused_and_left_as_it_is(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE theirs (x)")
    before = content(path)
    with pytest.raises(JournalError, match="something else"):
        await SqliteJournal.open(path)
    assert content(path) == before


async def test_a_place_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="cannot be opened"):
        await SqliteJournal.open(tmp_path / "file" / "journal.db")
    (tmp_path / "folder").mkdir()
    with pytest.raises(JournalError, match="cannot be opened"):
        await SqliteJournal.open(tmp_path / "folder")


async def test_a_migration_runs_once_and_brings_the_file_to_its_version(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(path, 3)
    runs: list[str] = []

    def m3_more(db: sqlite3.Connection) -> None:
        runs.append("m3")
        db.execute("ALTER TABLE keys ADD COLUMN more TEXT")

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, m3_more))
    for _ in range(2):
        journal = await SqliteJournal.open(path)
        assert seqs(await journal.read(0)) == [1, 2, 3]
        await journal.aclose()
    assert runs == ["m3"]


async def test_a_migration_that_fails_leaves_the_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(path, 3)

    def m3_wrong(db: sqlite3.Connection) -> None:
        db.execute("DROP TABLE events")
        db.execute("DROP TABLE no_such_table")

    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, m3_wrong))
        with pytest.raises(JournalError, match="no_such_table"):
            await SqliteJournal.open(path)
    journal = await SqliteJournal.open(path)
    assert journal.set_aside is None
    assert seqs(await journal.read(0)) == [1, 2, 3]
    await journal.aclose()


# Damage


async def set_aside_and_new(path: Path, damaged: bytes) -> None:
    journal = await SqliteJournal.open(path)
    aside = journal.set_aside
    assert aside is not None
    assert aside.name.startswith("journal.db.damaged-")
    assert content(aside) == damaged
    last = await keep(journal, drafts(1))
    batch = await journal.read(last - 1)
    assert seqs(batch) == [last]
    old = await journal.read(2000, session_id="one")
    assert seqs(old) == [last]
    assert old.gaps == [Gap(first=1, last=last - 1, count=0, reason="damage")]
    await journal.aclose()
    journal = await SqliteJournal.open(path)
    assert journal.set_aside is None
    assert journal.last == last
    await journal.aclose()


@pytest.mark.parametrize("size", [20, 100, 5000, 100_000])
async def test_garbage_is_set_aside(path: Path, size: int) -> None:
    before = replace(path, b"garbage " * (size // 8))
    replace(path.with_name("journal.db-wal"), b"more")
    journal = await SqliteJournal.open(path)
    assert journal.set_aside is not None
    assert content(journal.set_aside) == before
    assert len(beside(path, "journal.db.damaged-*")) == 2
    await journal.aclose()


@pytest.mark.parametrize("keep_part", [0.999, 0.5, 0.1])
async def test_a_file_that_was_cut_off_is_set_aside(path: Path, keep_part: float) -> None:
    await filled(path)
    whole = content(path)
    cut = replace(path, whole[: int(len(whole) * keep_part)])
    await set_aside_and_new(path, cut)


@pytest.mark.parametrize("size", [1, 50, 100, 512, 4096, 8192])
async def test_a_file_of_which_little_is_left_is_set_aside(path: Path, size: int) -> None:
    await filled(path)
    cut = replace(path, content(path)[:size])
    await set_aside_and_new(path, cut)


async def test_a_file_with_overwritten_pages_is_set_aside(path: Path) -> None:
    await filled(path)
    await set_aside_and_new(path, overwrite_a_page_in_the_middle(path))


async def test_an_empty_file_becomes_a_journal(path: Path) -> None:
    replace(path, b"")
    journal = await SqliteJournal.open(path)
    assert journal.set_aside is None
    assert await keep(journal, drafts(1)) == 1
    await journal.aclose()


async def test_an_emptied_file_with_a_log_is_set_aside_with_it(path: Path) -> None:
    replace(path, b"")
    replace(path.with_name("journal.db-wal"), b"all there is")
    journal = await SqliteJournal.open(path)
    assert journal.set_aside is not None
    log = journal.set_aside.with_name(journal.set_aside.name + "-wal")
    assert content(log) == b"all there is"
    await journal.aclose()


async def test_two_damaged_files_in_one_second_are_both_kept(path: Path) -> None:
    for each in (b"garbage one " * 50, b"garbage two " * 50):
        replace(path, each)
        await (await SqliteJournal.open(path)).aclose()
    aside = beside(path, "journal.db.damaged-*")
    assert sorted(each.read_bytes()[:11] for each in aside) == [b"garbage one", b"garbage two"]


async def test_damage_found_while_reading_fails_the_journal(path: Path) -> None:
    await filled(path, 20_000)
    journal = await SqliteJournal.open(path)
    with path.open("r+b") as file:
        file.seek(40 * 4096)
        file.write(b"\xaa" * 4096 * 60)
    with pytest.raises(JournalError, match="cannot be read"):
        await journal.read(0, limit=20_000)
    assert journal.failed is not None
    with pytest.raises(JournalError):
        journal.post(drafts(1))
    with pytest.raises(JournalError):
        await journal.wait(journal.last)
    await journal.aclose()


async def test_a_large_file_is_checked_in_full_when_asked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(path, 20_000)
    overwrite_a_page_in_the_middle(path)
    monkeypatch.setattr(schema, "CHECKED_BYTES", 0)
    journal = await SqliteJournal.open(path)
    assert journal.set_aside is None
    await journal.aclose()
    journal = await SqliteJournal.open(path, check=True)
    assert journal.set_aside is not None
    await journal.aclose()


# Copies


async def test_a_backup_is_a_whole_journal_taken_while_entries_arrive(
    either: SqliteJournal, tmp_path: Path
) -> None:
    await keep(either, drafts(3000))
    copy = tmp_path / "copy.db"
    posted = [either.post(drafts(100)) for _ in range(20)]
    await either.backup(copy)
    await posted[-1].committed
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert not beside(copy, "copy.db-*") | beside(copy, "*.part")
    opened = await SqliteJournal.open(copy)
    assert 3000 <= opened.last <= 5000
    assert seqs(await opened.read(0, limit=10_000)) == list(range(1, opened.last + 1))
    await opened.aclose()
    with pytest.raises(JournalError, match="exists"):
        await either.backup(copy)
    with pytest.raises(JournalError, match="cannot be opened"):
        await either.backup(copy / "below")


def test_all_sql_stands_in_seven_files() -> None:
    folder = Path(database.__file__).parent
    users = [
        each.name for each in folder.parent.rglob("*.py") if "import sqlite3" in each.read_text()
    ]
    assert sorted(users) == [
        *("changes.py", "database.py", "runs.py", "schema.py"),
        *("session_changes.py", "session_rows.py", "sums.py"),
    ]
