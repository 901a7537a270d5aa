"""Lists of the sessions on disk: order, pages, what is read again, what is left alone."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pilothouse.history import History, HistoryPage, scan
from tests.support.history.transcripts import (
    Shelf,
    encoded,
    noted,
    replied,
    said,
    session_id,
    typed,
)


def ids(page: HistoryPage) -> list[int]:
    return [int(each.session_id.replace("-", ""), 16) for each in page.found]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the transcripts that were opened."""
    opened: list[str] = []
    windows = scan.windows

    def counted(path: str, width: int) -> tuple[os.stat_result, bytes, bytes]:
        opened.append(Path(path).name)
        return windows(path, width)

    monkeypatch.setattr(scan, "windows", counted)
    return opened


# Lists


async def test_sessions_are_listed_most_recent_first_with_what_is_known(shelf: Shelf) -> None:
    shelf.put(1)
    path = shelf.put(2, said("Weigh anchor"), noted("custom-title", customTitle="Leaving"))
    page = await shelf.history().list()
    assert (ids(page), page.total, page.unreadable) == ([2, 1], 2, [])
    found = page.found[0]
    assert (found.session_id, found.path) == (session_id(2), str(path))
    assert (found.title, found.first_prompt, found.cwd) == (
        "Leaving",
        "Weigh anchor",
        "/srv/harbour",
    )
    assert (found.updated_at, found.size) == (2000, path.stat().st_size)
    assert (found.branch, found.version, found.interactive) == ("main", "2.1.325", False)


async def test_a_page_is_a_part_of_the_list(shelf: Shelf) -> None:
    for number in range(1, 8):
        shelf.put(number)
    history = shelf.history()
    assert ids(await history.list(limit=3)) == [7, 6, 5]
    page = await history.list(limit=3, offset=5)
    assert (ids(page), page.total) == ([2, 1], 7)
    assert ids(await history.list(limit=0)) == []
    assert ids(await history.list(limit=-1, offset=-1)) == []
    assert ids(await history.list(offset=70)) == []


async def test_a_machine_without_any_session_has_an_empty_list(tmp_path: Path) -> None:
    history = History(tmp_path / "none")
    page = await history.list()
    assert (page.found, page.total, page.unreadable) == ([], 0, [])
    assert await history.find(session_id(1)) is None


async def test_what_is_no_session_is_not_listed(shelf: Shelf) -> None:
    shelf.put(1)
    shelf.put(2, said("p", isSidechain=True))
    shelf.put(3, noted("cost-state"))
    shelf.path(4).touch()
    folder = shelf.path(1).parent
    (folder / "agent-1234.jsonl").write_bytes(encoded(said("p")))
    (folder / "notes.jsonl").write_bytes(b"words")
    (folder / f"{session_id(5)}.json").write_bytes(encoded(said("p")))
    (folder / session_id(1) / "subagents").mkdir(parents=True)
    (folder / session_id(1) / "subagents" / "agent-5.jsonl").write_bytes(encoded(said("p")))
    (shelf.projects / f"{session_id(6)}.jsonl").write_bytes(encoded(said("p")))
    page = await shelf.history().list()
    assert (ids(page), page.unreadable) == ([1], [])


async def test_a_session_with_two_transcripts_is_listed_once_as_the_newer_one(shelf: Shelf) -> None:
    for project, at in (("-a", 5), ("-b", 9), ("-c", 7)):
        shelf.put(1, said(project), at=at, project=project)
    history = shelf.history()
    page = await history.list()
    assert (ids(page), page.total, page.found[0].title) == ([1], 1, "-b")
    assert await history.find(session_id(1)) == page.found[0]


async def test_a_directory_lists_its_own_sessions_by_whatever_path_it_is_called(
    shelf: Shelf, tmp_path: Path
) -> None:
    (tmp_path / "bay" / "pier").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "bay")
    for number, cwd in enumerate(["bay", "link", "bay/pier", "bay-2", "gone"], start=1):
        shelf.put(number, said("p", cwd=str(tmp_path / cwd)))
    shelf.put(6, said("p", cwd="nul\0"))
    shelf.put(7, said("p", cwd=None))
    history = shelf.history()
    page = await history.list(cwd=str(tmp_path / "bay"))
    assert (ids(page), page.total) == ([2, 1], 2)
    assert ids(await history.list(cwd=f"{tmp_path}/bay/pier/../")) == [2, 1]
    assert ids(await history.list(cwd=str(tmp_path / "gone"))) == [5]
    assert ids(await history.list(cwd=str(tmp_path / "none"))) == []
    assert ids(await history.list(cwd=str(tmp_path / "bay"), limit=1, offset=1)) == [1]


# What is read, and when


async def test_only_what_changed_is_read_again(shelf: Shelf, reads: list[str]) -> None:
    paths = [shelf.put(number) for number in range(1, 4)]
    history = shelf.history()
    await history.list()
    assert sorted(reads) == [path.name for path in paths]
    reads.clear()
    await history.list()
    assert reads == []
    with paths[0].open("ab") as file:
        file.write(encoded(noted("last-prompt", lastPrompt="and then?")))
    page = await history.list()
    assert reads == [paths[0].name]
    assert (ids(page), page.found[0].title) == ([1, 3, 2], "and then?")


async def test_a_file_rewritten_to_the_same_size_and_time_is_read_again(shelf: Shelf) -> None:
    path = shelf.put(1, said("one"))
    history, before = shelf.history(), path.stat()
    await history.list()
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # until the clock has moved on
        shelf.put(1, said("two"))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert (await history.list()).found[0].title == "two"


async def test_what_is_deleted_is_gone_from_the_list(shelf: Shelf) -> None:
    for number in range(1, 4):
        shelf.put(number, project=f"-{number % 2}")
    history = shelf.history()
    assert ids(await history.list()) == [3, 2, 1]
    shelf.path(3, "-1").unlink()
    assert ids(await history.list()) == [2, 1]
    shelf.path(2, "-0").unlink()
    shelf.path(2, "-0").parent.rmdir()
    assert ids(await history.list()) == [1]


async def test_no_more_than_the_ends_of_a_long_transcript_are_read(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    pread = os.pread

    def counted(file: int, length: int, at: int) -> bytes:
        data = pread(file, length, at)
        read.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counted)
    path = shelf.put(1, said("p"), *[replied("z" * 5000)] * 400, noted("ai-title", aiTitle="t"))
    page = await shelf.history().list()
    assert page.found[0].title == "t"
    assert path.stat().st_size > 2_000_000
    assert sum(read) <= 2 * 65536


async def test_those_who_ask_while_somebody_looks_share_one_look(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.put(1)
    history = shelf.history()
    entered, leave, looks = threading.Event(), threading.Event(), []
    look = history._look

    def slow() -> None:
        looks.append(1)
        entered.set()
        assert leave.wait(10)
        look()

    monkeypatch.setattr(history, "_look", slow)
    first = asyncio.create_task(history.list())
    assert await asyncio.to_thread(entered.wait, 10)
    shelf.put(2)
    others = [asyncio.create_task(history.list()) for _ in range(5)]
    await asyncio.sleep(0)
    leave.set()
    await first
    # What was there when they asked is in their list.
    assert [ids(await each) for each in others] == [[2, 1]] * 5
    assert len(looks) == 2


async def test_a_caller_that_gives_up_does_not_disturb_the_next(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.put(1)
    history = shelf.history()
    entered, leave = threading.Event(), threading.Event()
    real, looking = history._scanner.scan, 0

    def slow() -> None:
        nonlocal looking
        looking += 1
        assert looking == 1, "two looks at once"
        entered.set()
        assert leave.wait(10)
        real()
        looking -= 1

    monkeypatch.setattr(history._scanner, "scan", slow)
    first = asyncio.create_task(history.list())
    assert await asyncio.to_thread(entered.wait, 10)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.create_task(history.list())
    await asyncio.sleep(0)
    leave.set()
    assert ids(await second) == [1]


# One session


async def test_a_session_is_found_by_its_id_without_a_list(shelf: Shelf, reads: list[str]) -> None:
    path = shelf.put(1)
    shelf.put(2)
    history = shelf.history()
    found = await history.find(session_id(1))
    assert found is not None
    assert (found.path, found.title) == (str(path), "Prompt 1")
    assert reads == [path.name]
    assert found in (await history.list()).found
    reads.clear()
    assert await history.find(session_id(1)) == found
    assert reads == []


async def test_a_session_in_which_nothing_was_said_is_found_all_the_same(shelf: Shelf) -> None:
    shelf.put(1, noted("cost-state"))
    shelf.path(2).touch()
    for number in (1, 2):
        found = await shelf.history().find(session_id(number))
        assert found is not None
        assert (found.title, found.cwd) == ("", None)


async def test_what_is_no_session_or_cannot_be_read_is_not_found(shelf: Shelf) -> None:
    shelf.put(1, said("p", isSidechain=True))
    shelf.put(2, b"garbage")
    shelf.path(3).mkdir()
    os.mkfifo(shelf.path(4))
    history = shelf.history()
    assert [await history.find(session_id(number)) for number in range(1, 6)] == [None] * 5


@pytest.mark.parametrize(
    "bad",
    [
        *("", ".", "..", "*", "x", "agent-1", "a\0b", "../secret", "/etc/passwd"),
        *(session_id(1)[:-1], session_id(1) + "/", session_id(1) + "\n", f"./{session_id(1)}"),
    ],
)
async def test_an_id_that_none_can_be_never_touches_the_disk(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    shelf.put(1)
    history = shelf.history()

    def touched(*_: object) -> None:
        raise AssertionError("the disk was touched")

    for name in ("lstat", "scandir", "open", "stat"):
        monkeypatch.setattr(scan.os, name, touched)
    assert await history.find(bad) is None


# What cannot be read


def directory(path: Path) -> None:
    path.mkdir()


def pipe(path: Path) -> None:
    os.mkfifo(path)


def socket_(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(path.name)
    finally:
        os.chdir(here)


def garbage(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00 words\n" * 100)


def leaving_link(path: Path) -> None:
    outside = path.parents[3] / "outside.jsonl"
    outside.write_bytes(encoded(said("secret")))
    path.symlink_to(outside)


def device_link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_nowhere(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (directory, "a directory, not a transcript"),
        (pipe, "a pipe, not a transcript"),
        (socket_, "a socket, not a transcript"),
        (garbage, "not a transcript"),
        (leaving_link, "a link that leaves the folder"),
        (device_link, "a link that leaves the folder"),
        (link_to_nowhere, "no such file or directory"),
        (link_to_itself, ""),
    ],
)
async def test_what_cannot_be_read_is_reported_and_the_rest_listed(
    shelf: Shelf, make: Callable[[Path], None], why: str
) -> None:
    shelf.put(1)
    path = shelf.path(2)
    make(path)
    history = shelf.history()
    for page in (await history.list(), await history.list(), await shelf.history().list()):
        assert ids(page) == [1]
        [told] = page.unreadable
        assert told.startswith(f"{path}: {why}")
    assert await history.find(session_id(2)) is None


async def test_of_many_that_cannot_be_read_some_are_named_and_the_rest_counted(
    shelf: Shelf,
) -> None:
    for number in range(1, 251):
        shelf.put(number, b"garbage")
    page = await shelf.history().list()
    assert (len(page.unreadable), page.unreadable[-1]) == (101, "and 150 more")


async def test_a_file_without_permission_is_reported_until_it_has_it(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever runs the tests may be allowed everything.
    path, denied, real = shelf.put(1), True, os.open

    def guarded(name: str, *rest: int) -> int:
        if denied and name == str(path):
            raise PermissionError(13, "Permission denied")
        return real(name, *rest)

    monkeypatch.setattr(os, "open", guarded)
    history = shelf.history()
    assert (await history.list()).unreadable == [f"{path}: permission denied"]
    denied = False
    page = await history.list()
    assert (ids(page), page.unreadable) == ([1], [])


async def test_garbage_that_becomes_a_transcript_is_listed(shelf: Shelf) -> None:
    shelf.put(1, b"garbage")
    history = shelf.history()
    assert len((await history.list()).unreadable) == 1
    shelf.put(1)
    page = await history.list()
    assert (ids(page), page.unreadable) == ([1], [])


async def test_a_folder_that_cannot_be_read_is_reported(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.put(1, project="-a")
    path, real = shelf.put(2, project="-b").parent, os.scandir

    def guarded(name: str) -> object:
        if name == str(path):
            raise PermissionError(13, "Permission denied")
        return real(name)

    monkeypatch.setattr(os, "scandir", guarded)
    page = await shelf.history().list()
    assert (ids(page), page.unreadable) == ([1], [f"{path}: permission denied"])


async def test_a_file_where_the_folder_should_be_is_reported(shelf: Shelf) -> None:
    shelf.projects.rmdir()
    shelf.projects.touch()
    assert (await shelf.history().list()).unreadable == [f"{shelf.projects}: not a directory"]


async def test_a_folder_whose_name_is_no_text_is_reported_as_text(shelf: Shelf) -> None:
    os.mkdir(os.fsencode(shelf.projects) + b"/\xff")  # noqa: PTH102
    shelf.put(1)
    page = await shelf.history().list()
    assert (ids(page), page.unreadable) == (
        [1],
        [f"{shelf.projects}/\ufffd: its name is not utf-8"],
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
async def test_arbitrary_bytes_in_a_transcript_never_raise(shelf: Shelf, data: bytes) -> None:
    shelf.path(1).write_bytes(data)
    history = shelf.history()
    page = await history.list()
    found = await history.find(session_id(1))
    assert page.found in ([], [found])
    assert (found is None) == bool(page.unreadable)


# Links


async def test_links_within_the_folder_are_followed(shelf: Shelf, reads: list[str]) -> None:
    real = shelf.put(1, project="-a")
    shelf.path(2, "-b").symlink_to(real)
    (shelf.projects / "-c").symlink_to(shelf.projects / "-a")
    history = shelf.history()
    page = await history.list()
    assert (sorted(ids(page)), page.unreadable) == ([1, 2], [])
    reads.clear()
    await history.list()
    assert reads == []
    with real.open("ab") as file:
        file.write(encoded(noted("ai-title", aiTitle="new")))
    assert {each.title for each in (await history.list()).found} == {"new"}


async def test_a_folder_that_is_a_link_to_elsewhere_is_not_followed(
    shelf: Shelf, tmp_path: Path
) -> None:
    elsewhere = Shelf(tmp_path / "elsewhere")
    elsewhere.put(1)
    link = shelf.projects / "-link"
    link.symlink_to(elsewhere.projects / "-srv-harbour")
    history = shelf.history()
    page = await history.list()
    assert (page.found, page.unreadable) == ([], [f"{link}: a link that leaves the folder"])
    assert await history.find(session_id(1)) is None


async def test_a_neighbour_whose_name_begins_the_same_is_outside(
    shelf: Shelf, tmp_path: Path
) -> None:
    beside = tmp_path / "config-2"
    beside.mkdir()
    (beside / "x").write_bytes(encoded(said("p")))
    shelf.path(1).symlink_to(beside / "x")
    page = await shelf.history().list()
    assert (page.found, len(page.unreadable)) == ([], 1)


async def test_the_folder_itself_may_be_a_link(shelf: Shelf, tmp_path: Path) -> None:
    shelf.put(1)
    shelf.path(2).symlink_to(shelf.path(1))
    shelf.projects.rename(tmp_path / "moved")
    shelf.projects.symlink_to(tmp_path / "moved")
    (tmp_path / "other").symlink_to(shelf.config_dir)
    page = await History(tmp_path / "other").list()
    assert (sorted(ids(page)), page.unreadable) == ([1, 2], [])


# What people typed


async def test_what_a_person_typed_makes_a_session_interactive_and_names_it(shelf: Shelf) -> None:
    shelf.put(1, noted("cost-state"))
    shelf.put(2)
    shelf.type(typed(1, "Cast off"), typed(1, "Then sail"))
    page = await shelf.history().list()
    assert [each.interactive for each in page.found] == [False, True]
    found = page.found[1]
    assert (found.title, found.first_prompt, found.cwd) == ("Cast off", "Cast off", "/srv/harbour")
    assert found.created_at == 1_700_000_000_001


async def test_a_session_of_which_only_the_typed_prompts_are_left_is_not_listed(
    shelf: Shelf,
) -> None:
    shelf.type(typed(1, "Cast off"))
    history = shelf.history()
    assert (await history.list()).found == []
    assert await history.find(session_id(1)) is None


async def test_a_prompt_typed_later_is_seen_also_after_a_find(shelf: Shelf) -> None:
    shelf.put(1)
    history = shelf.history()
    assert not (await history.list()).found[0].interactive
    shelf.type(typed(1, "Cast off"))
    found = await history.find(session_id(1))
    assert found is not None
    assert found.interactive
    assert (await history.list()).found == [found]


async def test_a_line_of_an_older_cli_is_matched_by_its_words(shelf: Shelf) -> None:
    for number, prompt in enumerate(["Cast off", "Sail"], start=1):
        shelf.put(number, said(prompt, entrypoint=None))
    shelf.put(3, said("Cast off", entrypoint="sdk-py"))
    shelf.type(typed(1, "Cast  off", sessionId=None))
    page = await shelf.history().list()
    assert [each.interactive for each in page.found] == [False, False, True]


async def test_a_history_that_cannot_be_read_is_reported(shelf: Shelf) -> None:
    shelf.put(1)
    os.mkfifo(shelf.typed)
    page = await shelf.history().list()
    assert (ids(page), page.unreadable) == ([1], [f"{shelf.typed}: a pipe, not a transcript"])
