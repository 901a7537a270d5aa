"""What a relay has left is told to the next server, every line once, and is gone then."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.doors import left_transport
from pilothouse.doors.left_transport import Leftover, LeftTransport
from pilothouse.relay import door_frames, leftovers, registry
from pilothouse.relay.spool import Spool
from pilothouse.transport import Exit, TransportClosed, TransportError
from tests.support.doors.ledger import Disk, RecordedLedger, noted_in
from tests.support.relay.relays import python, relay
from tests.support.waiting import DEADLINE

END = door_frames.CLIExit(3, None, "oh", "")
TOLD = Exit(3, None, "oh", "")


def left(folder: Path, *lines: bytes, first: int = 1) -> Leftover:
    """These lines, left by a relay, with those before the first acknowledged."""
    folder.mkdir(exist_ok=True)
    spool = Spool(None)
    spool.append(b"known\n" * (first - 1) + b"".join(line + b"\n" for line in lines))
    spool.acknowledge(first - 1)
    assert leftovers.leave(folder, spool, "a-session", "a-run", END) == ""
    found = left_transport.find(folder)
    assert found is not None
    return found


def transport_of(leftover: Leftover, book: RecordedLedger) -> tuple[LeftTransport, list[str]]:
    transport = LeftTransport(leftover, book, carried=book.disk.carried())
    lost: list[str] = []
    transport.lost_lines = noted_in(lost)
    return transport, lost


async def closed(transport: LeftTransport) -> Exit:
    async with asyncio.timeout(DEADLINE):
        return await transport.aclose()


# What is found


async def test_what_a_relay_has_left_is_told_with_its_end(tmp_path: Path) -> None:
    source = "import sys; print('one'); print('two'); sys.exit(3)"
    haste = {"farewell": 0.1}
    will = ("--last-will", "0.3")
    async with relay("ws://127.0.0.1:9", tmp_path, python(source), *will, pace=haste) as running:
        assert await running.result() == 1
    found = left_transport.find(running.spool)
    assert found is not None
    assert (found.session_id, found.run, found.count) == ("a-session", "a-run", 2)
    book = RecordedLedger()
    transport, lost = transport_of(found, book)
    await transport.start(book)
    assert transport.connected
    assert await closed(transport) == Exit(3, None, "", "")
    assert book.disk.lines == [b"one", b"two"]
    assert book.calls == ["received 2", "data", "eof", "exited", "received 3"]
    assert book.disk.received == 3
    assert lost == []
    assert not transport.connected
    assert not running.spool.exists()


def test_a_folder_without_anything_left_has_nothing(tmp_path: Path) -> None:
    assert left_transport.find(tmp_path) is None
    assert left_transport.find(tmp_path / "missing") is None


def test_what_was_cut_off_before_it_was_complete_is_not_found(tmp_path: Path) -> None:
    left(tmp_path, b"one")
    (tmp_path / leftovers.NAME).rename(tmp_path / leftovers.PART)
    assert left_transport.find(tmp_path) is None


@pytest.mark.parametrize(
    "change",
    [
        {"first": 0},
        {"first": 3},
        {"first": True},
        {"next": 2**53},
        {"next": "2"},
        {"exit": None},
        {"exit": {"code": "0", "signal": None, "stderr_tail": "", "reason": ""}},
        {"exit": {}},
    ],
)
def test_what_makes_no_sense_is_not_found(tmp_path: Path, change: dict[str, object]) -> None:
    left(tmp_path, b"one")
    file = tmp_path / leftovers.NAME
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert left_transport.find(tmp_path) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "[" * 100_000])
def test_what_is_no_record_is_not_found(tmp_path: Path, text: str) -> None:
    (tmp_path / leftovers.NAME).write_text(text)
    assert left_transport.find(tmp_path) is None


# What is told


async def test_lines_that_were_committed_are_not_told_again(tmp_path: Path) -> None:
    book = RecordedLedger()
    book.disk.received = 6
    transport, lost = transport_of(left(tmp_path / "run", b"5", b"6", b"7", first=5), book)
    await transport.start(book)
    assert await closed(transport) == TOLD
    assert book.disk.lines == [b"7"]
    assert lost == []


@pytest.mark.parametrize("received", [7, 8])
async def test_the_end_is_told_even_if_every_line_was_committed(
    tmp_path: Path, received: int
) -> None:
    book = RecordedLedger()
    book.disk.received = received
    transport, lost = transport_of(left(tmp_path / "run", b"6", b"7", first=6), book)
    await transport.start(book)
    assert await closed(transport) == TOLD
    assert (book.disk.lines, book.exits, lost) == ([], [TOLD], [])
    assert book.disk.received >= received


async def test_lines_that_nobody_has_are_told_to_be_lost(tmp_path: Path) -> None:
    book = RecordedLedger()
    transport, lost = transport_of(left(tmp_path / "run", b"5", first=5), book)
    await transport.start(book)
    await closed(transport)
    assert book.disk.lines == [b"5"]
    assert lost == ["4 lines of the CLI were lost: neither its relay nor the journal has more"]


async def test_lines_for_which_there_was_no_room_are_told_to_be_lost(tmp_path: Path) -> None:
    book = RecordedLedger()
    found = left(tmp_path / "run", b"1", b"2", b"3")
    found.path.write_bytes(b"1\n2\nhal")
    transport, lost = transport_of(found, book)
    await transport.start(book)
    assert await closed(transport) == TOLD
    assert book.disk.lines == [b"1", b"2"]
    assert lost == ["1 line of the CLI was lost: neither its relay nor the journal has more"]
    assert book.disk.received == 4


async def test_a_line_longer_than_a_batch_is_told_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_transport, "BATCH", 10)
    book = RecordedLedger()
    lines = [b"a" * 1000, b"b", b"c" * 20, b"", b"d"]
    transport, _ = transport_of(left(tmp_path / "run", *lines), book)
    await transport.start(book)
    await closed(transport)
    assert book.disk.lines == lines
    assert book.calls.count("data") > 1


# What stays


async def test_nothing_is_removed_before_the_end_is_committed(tmp_path: Path) -> None:
    book = RecordedLedger(by_hand=True)
    folder = tmp_path / "run"
    transport, _ = transport_of(left(folder, b"1"), book)
    await transport.start(book)
    await book.until(lambda: "data" in book.calls)
    assert "exited" not in book.calls
    book.commit()
    await book.until(lambda: "exited" in book.calls)
    assert left_transport.find(folder) is not None
    book.commit()
    await closed(transport)
    assert not folder.exists()


@given(count=st.integers(0, 12), deaths=st.lists(st.integers(0, 6), max_size=6))
def test_wherever_servers_are_killed_every_line_is_committed_once(
    tmp_path_factory: pytest.TempPathFactory, count: int, deaths: list[int]
) -> None:
    lines = [b"%d" % number for number in range(count)]
    folder = tmp_path_factory.mktemp("left") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(left_transport, "BATCH", 6)
        disk = asyncio.run(served_by_mortals(left(folder, *lines), deaths))
    assert disk.lines == lines
    assert disk.exits == [TOLD]
    assert not folder.exists()


async def served_by_mortals(leftover: Leftover, deaths: list[int]) -> Disk:
    """The disk after servers that each commit so many times, and one that lives."""
    disk = Disk()
    for commits in deaths:
        book = RecordedLedger(disk, by_hand=True)
        transport, _ = transport_of(leftover, book)
        await transport.start(book)
        for _ in range(commits):
            await book.until(lambda book=book: bool(book._waiting) or bool(disk.exits))
            book.commit()
        transport.detach()
        book.dead = True
        if disk.exits:
            break
    if not disk.exits:
        book = RecordedLedger(disk)
        transport, _ = transport_of(leftover, book)
        await transport.start(book)
        await closed(transport)
    # What the one server committed and did not come to remove.
    left_transport.clear(leftover.path.parent)
    return disk


async def test_a_transport_that_is_detached_tells_nothing_more(tmp_path: Path) -> None:
    book = RecordedLedger()
    folder = tmp_path / "run"
    transport, _ = transport_of(left(folder, b"1"), book)
    await transport.start(book)
    transport.detach()
    assert (await closed(transport)).reason == "the server has left it"
    assert book.calls == []
    assert left_transport.find(folder) is not None


async def test_what_is_read_when_it_is_detached_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    read = left_transport._read

    def slowly(path: Path, start: int, skipped: int) -> left_transport.LeftLines:
        begun.set()
        go_on.wait(DEADLINE)
        return read(path, start, skipped)

    monkeypatch.setattr(left_transport, "_read", slowly)
    book = RecordedLedger()
    transport, _ = transport_of(left(tmp_path / "run", b"1"), book)
    await transport.start(book)
    await asyncio.to_thread(begun.wait, DEADLINE)
    transport.detach()
    go_on.set()
    loop = asyncio.get_running_loop()
    mistakes: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, context: mistakes.append(context))
    # The reading is over when its thread is, and has been told of a turn later.
    await loop.shutdown_default_executor()
    await asyncio.sleep(0)
    assert mistakes == []
    assert book.calls == []
    assert left_transport.find(tmp_path / "run") is not None


async def test_an_end_that_cannot_be_kept_leaves_the_files(tmp_path: Path) -> None:
    book = RecordedLedger(by_hand=True)
    folder = tmp_path / "run"
    transport, _ = transport_of(left(folder, b"1"), book)
    await transport.start(book)
    await book.until(lambda: "data" in book.calls)
    book.commit()
    await book.until(lambda: "exited" in book.calls)
    book.failure = OSError("no room")
    book.commit()
    await closed(transport)
    assert len(book.exits) == 1
    assert left_transport.find(folder) is not None


async def test_what_cannot_be_kept_stays_and_the_end_says_so(tmp_path: Path) -> None:
    book = RecordedLedger()
    book.failure = OSError("no room")
    folder = tmp_path / "run"
    transport, lost = transport_of(left(folder, b"1"), book)
    await transport.start(book)
    await closed(transport)
    assert [each.reason for each in book.exits] == ["what its relay has left cannot be kept"]
    assert len(lost) == 1
    assert left_transport.find(folder) is not None


async def test_what_cannot_be_read_stays_and_the_end_says_so(tmp_path: Path) -> None:
    book = RecordedLedger()
    folder = tmp_path / "run"
    found = left(folder, b"1")
    found.path.unlink()
    transport, lost = transport_of(found, book)
    await transport.start(book)
    await closed(transport)
    assert "cannot be read" in book.exits[0].reason
    assert book.exits[0].code == 3
    assert len(lost) == 1
    assert left_transport.find(folder) is not None


# Closing


async def test_closing_gives_up_on_what_is_not_kept_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_transport, "SHORTEST_GRACE", 0.05)
    book = RecordedLedger(by_hand=True)
    folder = tmp_path / "run"
    transport, _ = transport_of(left(folder, b"1"), book)
    await transport.start(book)
    async with asyncio.timeout(DEADLINE):
        first, second = await asyncio.gather(transport.aclose(grace=0), transport.aclose(grace=0))
    assert first == second
    assert "in time" in book.exits[0].reason
    assert left_transport.find(folder) is not None


async def test_a_caller_that_is_cancelled_does_not_stop_the_telling(tmp_path: Path) -> None:
    book = RecordedLedger()
    transport, _ = transport_of(left(tmp_path / "run", b"1"), book)
    await transport.start(book)
    closing = asyncio.create_task(transport.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    assert await closed(transport) == TOLD
    assert book.disk.lines == [b"1"]


async def test_closing_before_the_start_leaves_everything(tmp_path: Path) -> None:
    book = RecordedLedger()
    folder = tmp_path / "run"
    transport, _ = transport_of(left(folder, b"1"), book)
    assert await closed(transport) == Exit(None, None, "")
    with pytest.raises(TransportClosed):
        await transport.start(book)
    assert left_transport.find(folder) is not None


async def test_it_takes_nothing_and_starts_once(tmp_path: Path) -> None:
    book = RecordedLedger()
    transport, _ = transport_of(left(tmp_path / "run", b"1"), book)
    await transport.start(book)
    with pytest.raises(TransportError):
        await transport.start(book)
    with pytest.raises(TransportClosed):
        transport.write(b"x\n")
    with pytest.raises(TransportClosed):
        await transport.drain()
    transport.close_stdin()
    assert (transport.pid, transport.stderr_tail, transport.machine) == (None, "oh", "")
    await closed(transport)


def test_clearing_takes_the_folder_with_all_a_relay_had_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    left(folder, b"1")
    (folder / registry.LOG_NAME).touch()
    left_transport.clear(folder)
    assert not folder.exists()


# Lines that were too long


async def test_a_line_that_was_too_long_is_told_of_in_its_place(tmp_path: Path) -> None:
    spool = Spool(None, longest=5)
    spool.append(b"known\none\n" + b"x" * 9 + b"\ntwo\n" + b"y" * 7 + b"\n")
    spool.acknowledge(1)
    assert leftovers.leave(tmp_path, spool, "a-session", "a-run", END) == ""
    found = left_transport.find(tmp_path)
    assert found is not None
    assert (found.count, found.dropped) == (4, {3: 9, 5: 7})
    book = RecordedLedger()
    book.disk.received = 1
    transport, _ = transport_of(found, book)
    transport.lost_lines = book.lines_lost
    await transport.start(book)
    assert await closed(transport) == TOLD
    assert book.disk.lines == [b"one", b"two"]
    assert [each.split(",")[0] for each in book.lost] == [
        "a line of the CLI was lost: it had 9 bytes",
        "a line of the CLI was lost: it had 7 bytes",
    ]
    assert book.calls == [
        *("received 2", "data", "received 3", "lost"),
        *("received 4", "data", "received 5", "lost"),
        *("eof", "exited", "received 6"),
    ]


async def test_a_line_that_was_too_long_is_not_told_of_again(tmp_path: Path) -> None:
    spool = Spool(None, longest=5)
    spool.append(b"one\n" + b"x" * 9 + b"\ntwo\n")
    assert leftovers.leave(tmp_path, spool, "a-session", "a-run", END) == ""
    found = left_transport.find(tmp_path)
    assert found is not None
    book = RecordedLedger()
    book.disk.received = 2
    transport, lost = transport_of(found, book)
    await transport.start(book)
    assert await closed(transport) == TOLD
    assert (book.disk.lines, lost) == ([b"two"], [])


@pytest.mark.parametrize("dropped", [[[1]], [[0, 5]], [[1, "5"]], [[1, 2**53]], [1], {"1": 2}, 7])
def test_sizes_that_make_no_sense_are_not_found(tmp_path: Path, dropped: object) -> None:
    left(tmp_path, b"one")
    file = tmp_path / leftovers.NAME
    file.write_text(json.dumps(json.loads(file.read_text()) | {"dropped": dropped}))
    assert left_transport.find(tmp_path) is None


async def test_what_a_relay_left_that_knew_no_limit_is_told(tmp_path: Path) -> None:
    left(tmp_path, b"one")
    file = tmp_path / leftovers.NAME
    told = json.loads(file.read_text())
    del told["dropped"]
    file.write_text(json.dumps(told))
    found = left_transport.find(tmp_path)
    assert found is not None
    book = RecordedLedger()
    transport, lost = transport_of(found, book)
    await transport.start(book)
    assert await closed(transport) == TOLD
    assert (book.disk.lines, lost) == ([b"one"], [])
