"""A relay's transport, frame by frame: numbers, commits, acknowledgements, and who may speak."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.doors import frame_checks, relay_link, relay_transport
from pilothouse.doors.contract import Carried, Outgoing
from pilothouse.doors.relay_transport import RelayTransport
from pilothouse.relay import door_frames
from pilothouse.relay.door_frames import CLIExit as Ending
from pilothouse.relay.door_frames import Frame, FrameKind, Order
from pilothouse.relay.refusals import Refusal
from pilothouse.transport import Exit, SpawnFailed, TransportClosed
from tests.support.doors.ledger import RecordedLedger, noted_in
from tests.support.doors.relay_peer import RUN, SESSION, RelayPeer, settle, visit
from tests.support.waiting import DEADLINE

ENDED = door_frames.pack(Ending(3, None, "last words"))


async def begin(book: RecordedLedger, carried: Carried | None = None) -> RelayTransport:
    transport = RelayTransport(SESSION, RUN, book, carried=carried or book.disk.carried())
    await transport.start(book)
    return transport


def hello(**others: Any) -> bytes:
    about: dict[str, Any] = {"session_id": SESSION, "run": RUN, "first": 1, **others}
    return door_frames.pack(door_frames.RelayHello(**about))


def order(do: str) -> bytes:
    return door_frames.pack(Order(do))


# -- what comes


async def test_lines_are_noted_before_they_are_told_and_acknowledged_when_committed() -> None:
    book = RecordedLedger()
    async with visit(await begin(book)) as peer:
        peer.greet()
        assert await peer.welcomed() == 0
        book.by_hand = True
        peer.say(FrameKind.LINES, 1, b"one\ntwo\n")
        await book.until(lambda: book.told == b"one\ntwo\n")
        assert book.calls == ["received 2", "data"]
        await settle()
        assert not peer.has_heard()
        book.commit()
        assert await peer.hear() == Frame(FrameKind.ACK, 0, 2)
        assert book.disk.lines == [b"one", b"two"]


async def test_a_commit_acknowledges_nothing_that_came_after_it_was_asked_for() -> None:
    book = RecordedLedger()
    async with visit(await begin(book)) as peer:
        peer.greet()
        await peer.welcomed()
        book.by_hand = True
        peer.say(FrameKind.LINES, 1, b"one\n")
        peer.say(FrameKind.LINES, 2, b"two\n")
        await book.until(lambda: book.told == b"one\ntwo\n")
        # The note, the line and the question whether they are kept: of the first line only.
        book.commit(3)
        assert await peer.hear() == Frame(FrameKind.ACK, 0, 1)
        book.commit()
        assert await peer.hear() == Frame(FrameKind.ACK, 0, 2)


async def turns(book: RecordedLedger, lines: int) -> list[int]:
    """How many lines had come at each turn of the loop, until all have."""
    seen = [0]
    async with asyncio.timeout(DEADLINE):
        while seen[-1] < lines:
            await asyncio.sleep(0)
            seen.append(book.told.count(b"\n"))
    return seen


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param([b"x\n"] * 5000, id="many frames"),
        pytest.param([b"x\n" * 5000], id="many lines in a frame"),
    ],
)
async def test_a_flood_leaves_turns_to_others(
    flood: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_checks, "LINES_AT_ONCE", 10)
    book = RecordedLedger()
    async with visit(await begin(book)) as peer:
        peer.greet()
        await peer.welcomed()
        number = 1
        for payload in flood:
            peer.say(FrameKind.LINES, number, payload)
            number += payload.count(b"\n")
        seen = await turns(book, 5000)
        assert max(after - before for before, after in pairwise(seen)) <= 10
        await book.until(lambda: book.disk.received == 5000)
    assert book.disk.lines == [b"x"] * 5000


async def test_a_newer_connection_takes_over_in_the_middle_of_a_long_frame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frame_checks, "LINES_AT_ONCE", 1)
    book = RecordedLedger()
    transport = await begin(book)
    lines = b"".join(b"%d\n" % number for number in range(100))
    async with visit(transport) as old:
        old.greet()
        await old.welcomed()
        old.say(FrameKind.LINES, 1, lines)
        await book.until(lambda: b"3\n" in book.told)
        async with visit(transport) as new:
            new.greet()
            committed = await new.welcomed()
            assert 3 < committed < 100
            new.say(FrameKind.LINES, 1, lines)
            await book.until(lambda: book.disk.received == 100)
    assert book.told == lines


@given(st.lists(st.binary(max_size=4).map(lambda line: line.replace(b"\n", b"x") + b"\n")))
def test_the_parts_of_a_frame_are_its_lines_in_order(lines: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame_checks, "LINES_AT_ONCE", 3)
        frame = Frame(FrameKind.LINES, 7, 5, b"".join(lines))
        parts = list(frame_checks.parts(frame))
    assert b"".join(part.payload for part in parts) == frame.payload
    assert all(part.payload.count(b"\n") <= 3 for part in parts)
    assert [part.number for part in parts[1:]] == [part.last + 1 for part in parts[:-1]]
    assert {(part.kind, part.acknowledged) for part in parts} == {(FrameKind.LINES, 5)}
    assert parts[0].number == 7


async def test_what_comes_while_a_commit_is_under_way_is_acknowledged_together() -> None:
    book = RecordedLedger()
    async with visit(await begin(book)) as peer:
        peer.greet()
        await peer.welcomed()
        book.by_hand = True
        for number in range(1, 6):
            peer.say(FrameKind.LINES, number, b"a line\n")
        await book.until(lambda: "received 5" in book.calls)
        book.commit()
        await settle()
        book.commit()
        heard = [await peer.hear()]
        while heard[-1].acknowledged < 5:
            heard.append(await peer.hear())
        assert len(heard) <= 2


async def test_lines_that_came_before_are_left_out_and_the_rest_is_taken() -> None:
    book = RecordedLedger()
    async with visit(await begin(book)) as peer:
        peer.greet()
        await peer.welcomed()
        peer.say(FrameKind.LINES, 1, b"one\ntwo\n")
        peer.say(FrameKind.LINES, 1, b"one\ntwo\n")
        peer.say(FrameKind.LINES, 2, b"two\nthree\n")
        await book.until(lambda: len(book.disk.lines) == 3)
        assert book.told == b"one\ntwo\nthree\n"


async def test_lines_that_cannot_be_taken_have_not_come(caplog: pytest.LogCaptureFixture) -> None:
    book = RecordedLedger()
    transport = await begin(book)
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        book.refusing = RuntimeError("no")
        peer.say(FrameKind.LINES, 1, b"one\ntwo\n")
        assert await peer.closed() == relay_link.FAILED
    assert "cannot be taken" in caplog.text
    book.refusing = None
    async with visit(transport) as peer:
        peer.greet()
        assert await peer.welcomed() == 0
        peer.say(FrameKind.LINES, 1, b"one\ntwo\n")
        await book.until(lambda: book.disk.lines == [b"one", b"two"])
    assert book.told == b"one\ntwo\n"


async def test_lines_that_fail_after_they_are_stored_do_not_come_again() -> None:
    book = RecordedLedger()
    transport = await begin(book)
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        book.failing = RuntimeError("too late")
        peer.say(FrameKind.LINES, 1, b"one\ntwo\n")
        assert await peer.closed() == relay_link.FAILED
    book.failing = None
    async with visit(transport) as peer:
        peer.greet()
        assert await peer.welcomed() == 2
        peer.say(FrameKind.LINES, 1, b"one\ntwo\nthree\n")
        await book.until(lambda: len(book.disk.lines) == 3)
    assert book.told == b"one\ntwo\nthree\n"


async def test_no_more_is_heard_while_too_much_waits_to_be_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay_link, "ROOM", 10)
    book = RecordedLedger()
    async with visit(await begin(book)) as peer:
        peer.greet()
        await peer.welcomed()
        book.by_hand = True
        for number in range(1, 4):
            peer.say(FrameKind.LINES, number, b"ten bytes!\n")
        await settle()
        assert book.told == b"ten bytes!\n"
        book.by_hand = False
        book.commit()
        await book.until(lambda: len(book.disk.lines) == 3)


@pytest.mark.parametrize(
    ("number", "payload"),
    [(2, b"a gap\n"), (0, b"no number\n"), (1, b"no end"), (1, b"")],
)
async def test_lines_out_of_order_are_refused_so_that_the_relay_connects_anew(
    number: int, payload: bytes
) -> None:
    book = RecordedLedger()
    async with visit(await begin(book)) as peer:
        peer.greet()
        await peer.welcomed()
        peer.say(FrameKind.LINES, number, payload)
        assert await peer.closed() == Refusal.FRAME_REFUSED
        assert book.told == b""


async def test_the_end_is_told_once_and_acknowledged_before_the_link_is_closed() -> None:
    book = RecordedLedger()
    transport = await begin(book)
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        peer.say(FrameKind.LINES, 1, b"one\n")
        peer.say(FrameKind.EXIT, 2, ENDED)
        while (await peer.hear()).acknowledged < 2:
            pass
        assert await peer.closed() == 1000
    assert book.calls == ["received 1", "data", "eof", "exited", "received 2"]
    assert book.exits == [Exit(3, None, "last words")]
    assert transport.stderr_tail == "last words"
    assert await transport.aclose() == book.exits[0]
    with pytest.raises(TransportClosed):
        transport.write(b"too late\n")


@pytest.mark.parametrize(
    "told",
    [
        {"code": 2**70},
        {"code": "0"},
        {"code": True},
        {"signal": -9},
        {"signal": 2**40},
        {"stderr_tail": None},
        {"reason": ["a", "list"]},
    ],
)
async def test_an_end_that_cannot_be_is_refused_and_the_run_goes_on(told: dict[str, Any]) -> None:
    book = RecordedLedger()
    transport = await begin(book)
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        peer.say(FrameKind.EXIT, 1, json.dumps({"code": 0, "signal": None, **told}).encode())
        assert await peer.closed() == Refusal.FRAME_REFUSED
    assert book.calls == []
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        peer.say(FrameKind.EXIT, 1, ENDED)
        assert (await book.ended()).code == 3


async def test_last_words_are_cut_and_can_be_written_down() -> None:
    book = RecordedLedger()
    async with visit(await begin(book)) as peer:
        peer.greet()
        await peer.welcomed()
        told = {"code": 1, "signal": None, "stderr_tail": "x" * 10**6 + "end", "reason": "\ud800"}
        peer.say(FrameKind.EXIT, 1, json.dumps(told).encode())
        exit_ = await book.ended()
    assert (exit_.reason, len(exit_.stderr_tail)) == ("?", 64 * 1024)
    assert exit_.stderr_tail.endswith("xend")


async def test_lines_beyond_the_last_number_are_refused() -> None:
    book = RecordedLedger()
    async with visit(await begin(book)) as peer:
        peer.greet(first=2**53 - 1)
        await peer.welcomed()
        peer.say(FrameKind.LINES, 2**53 - 1, b"the last\nand one more\n")
        assert await peer.closed() == Refusal.FRAME_REFUSED
    assert book.told == b""


async def test_a_relay_that_missed_the_last_acknowledgement_is_told_again() -> None:
    book = RecordedLedger()
    transport = await begin(book)
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        peer.say(FrameKind.EXIT, 1, ENDED)
        await book.ended()
    async with visit(transport) as again:
        again.greet()
        assert await again.welcomed() == 1
        assert await again.closed() == 1000
    assert len(book.exits) == 1


async def test_lines_that_nobody_has_any_more_are_reported() -> None:
    book, missing = RecordedLedger(), list[str]()
    transport = await begin(book, Carried(received=4))
    transport.lost_lines = noted_in(missing)
    async with visit(transport) as peer:
        peer.greet(first=8)
        assert await peer.welcomed() == 7
        peer.say(FrameKind.LINES, 8, b"eight\n")
        await book.until(lambda: book.disk.lines == [b"eight"])
    [sentence] = missing
    assert sentence.startswith("3 lines of the CLI were lost")
    assert book.disk.received == 8


async def test_what_cannot_be_committed_is_not_acknowledged() -> None:
    book = RecordedLedger()
    async with visit(await begin(book)) as peer:
        peer.greet()
        await peer.welcomed()
        book.failure = OSError("the disk is full")
        peer.say(FrameKind.LINES, 1, b"one\n")
        assert await peer.closed() == 1011
        assert book.disk.lines == []


async def test_a_welcome_waits_for_what_came_on_the_connection_before() -> None:
    book = RecordedLedger()
    transport = await begin(book)
    async with visit(transport) as first:
        first.greet()
        await first.welcomed()
        book.by_hand = True
        first.say(FrameKind.LINES, 1, b"one\n")
        await book.until(lambda: book.told == b"one\n")
    async with visit(transport) as second:
        second.greet()
        await settle()
        assert not second.has_heard()
        assert not transport.connected
        book.commit()
        assert await second.welcomed() == 1
        assert transport.connected


async def test_a_relay_is_not_welcomed_when_nothing_can_be_committed() -> None:
    book = RecordedLedger()
    book.failure = OSError("the disk is full")
    async with visit(await begin(book)) as peer:
        peer.greet()
        assert await peer.closed() == 1011


# -- who may speak


async def test_the_newest_connection_wins_and_the_older_ones_lines_count_no_more() -> None:
    book = RecordedLedger()
    transport = await begin(book)
    async with visit(transport) as older, visit(transport) as newer:
        older.greet()
        await older.welcomed()
        newer.greet()
        older.say(FrameKind.LINES, 1, b"of the older one\n")
        await newer.welcomed()
        assert await older.closed() == Refusal.REPLACED
        newer.say(FrameKind.LINES, 1, b"of the newer one\n")
        await book.until(lambda: book.disk.lines == [b"of the newer one"])
        transport.write(b"for the newer one\n")
        heard = await newer.hear()
        while heard.kind is FrameKind.ACK:
            heard = await newer.hear()
        assert heard.payload == b"for the newer one\n"


async def test_a_newer_connection_does_not_wait_for_an_older_one_that_takes_nothing() -> None:
    book = RecordedLedger()
    transport = await begin(book)
    async with visit(transport) as older:
        older.greet()
        await older.welcomed()
        older.taking.clear()
        transport.write(b"stuck\n")
        async with visit(transport) as newer:
            newer.greet()
            await newer.welcomed()
            assert (await newer.hear()).payload == b"stuck\n"
        older.taking.set()


@pytest.mark.parametrize(
    ("others", "code"),
    [
        ({"run": "another"}, Refusal.SESSION_UNKNOWN),
        ({"session_id": "another"}, Refusal.SESSION_UNKNOWN),
        ({"version": 99}, Refusal.FRAME_REFUSED),
        ({"first": "1"}, Refusal.FRAME_REFUSED),
        ({"first": 0}, Refusal.FRAME_REFUSED),
        ({"first": 2**53}, Refusal.FRAME_REFUSED),
        ({"first": 2**70}, Refusal.FRAME_REFUSED),
        ({"first": True}, Refusal.FRAME_REFUSED),
        ({"first": 1.0}, Refusal.FRAME_REFUSED),
        ({"written": -1}, Refusal.FRAME_REFUSED),
        ({"written": 2**53}, Refusal.FRAME_REFUSED),
        ({"written": None}, Refusal.FRAME_REFUSED),
        ({"pid": 2**70}, Refusal.FRAME_REFUSED),
        ({"pid": "77"}, Refusal.FRAME_REFUSED),
        ({"relay_pid": 0}, Refusal.FRAME_REFUSED),
        ({"guard_pid": -1}, Refusal.FRAME_REFUSED),
        ({"host": 7}, Refusal.FRAME_REFUSED),
        ({"program": "x" * 2000}, Refusal.FRAME_REFUSED),
    ],
)
async def test_a_greeting_that_does_not_fit_is_refused(others: dict[str, Any], code: int) -> None:
    book = RecordedLedger()
    transport = await begin(book)
    async with visit(transport) as peer:
        about: dict[str, Any] = {"first": 1, "written": 0, **others}
        about = {"session_id": SESSION, "run": RUN, **about}
        hello = door_frames.pack(door_frames.RelayHello(**about))
        peer.say(FrameKind.HELLO, 1, hello)
        assert await peer.closed() == code
        assert transport.hello is None
        assert book.calls == []


@pytest.mark.parametrize(
    "say",
    [
        lambda peer: peer.say(FrameKind.LINES, 1, b"no greeting\n"),
        lambda peer: peer.say_raw(text="text"),
        lambda peer: peer.say_raw(bytes=b"\xff"),
        lambda peer: peer.say(FrameKind.HELLO, 1, b"no json"),
    ],
)
async def test_whoever_does_not_greet_first_is_sent_away(say: Callable[[RelayPeer], None]) -> None:
    async with visit(await begin(RecordedLedger())) as peer:
        say(peer)
        assert await peer.closed() == Refusal.FRAME_REFUSED


async def test_whoever_says_nothing_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_link, "HELLO_DEADLINE", 0.01)
    async with visit(await begin(RecordedLedger())) as peer:
        assert await peer.closed() == Refusal.FRAME_REFUSED


async def test_a_relay_that_comes_too_early_is_to_try_again() -> None:
    async with visit(RelayTransport(SESSION, RUN, RecordedLedger())) as peer:
        peer.greet()
        assert await peer.closed() == 1013


@pytest.mark.parametrize("kind", [FrameKind.HELLO, FrameKind.WELCOME, FrameKind.ORDER])
async def test_a_relay_that_was_greeted_says_only_lines_and_its_end(kind: FrameKind) -> None:
    async with visit(await begin(RecordedLedger())) as peer:
        peer.greet()
        await peer.welcomed()
        peer.say(kind, 1, b"{}")
        assert await peer.closed() == Refusal.FRAME_REFUSED


# -- what goes


async def test_nothing_is_sent_before_it_is_committed() -> None:
    book = RecordedLedger()
    transport = await begin(book)
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        book.by_hand = True
        transport.write(b"one\ntw")
        transport.write(b"o\n")
        await settle()
        assert not peer.has_heard()
        book.commit()
        assert await peer.hear() == Frame(FrameKind.LINES, 1, 0, b"one\ntwo\n")
        assert list(book.disk.outgoing) == [1, 2]


async def test_what_was_written_before_the_relay_came_is_sent_when_it_comes() -> None:
    book = RecordedLedger()
    transport = await begin(book)
    transport.write(b"one\ntwo\n")
    transport.close_stdin()
    transport.close_stdin()
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        assert await peer.hear() == Frame(FrameKind.LINES, 1, 0, b"one\ntwo\n")
        assert await peer.hear() == Frame(FrameKind.ORDER, 3, 0, order("close_input"))
    with pytest.raises(TransportClosed):
        transport.write(b"three\n")


async def test_what_has_no_newline_is_a_line_when_the_input_ends() -> None:
    transport = await begin(RecordedLedger())
    transport.write(b"half")
    transport.close_stdin()
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        assert (await peer.hear()).payload == b"half\n"


async def test_a_relay_gets_what_it_has_not_written_and_nothing_else() -> None:
    book = RecordedLedger()
    transport = await begin(book)
    transport.write(b"one\ntwo\nthree\n")
    async with visit(transport) as first:
        first.greet()
        await first.welcomed()
        await first.hear()
        first.say(FrameKind.ACK, 0, acknowledged=1)
        await book.until(lambda: book.taken_upto == [1])
    async with visit(transport) as second:
        second.greet(written=2)
        await second.welcomed()
        assert await second.hear() == Frame(FrameKind.LINES, 3, 0, b"three\n")
    assert book.taken_upto == [1, 2]
    assert list(book.disk.outgoing) == [3]


async def test_a_stale_greeting_gets_nothing_that_was_taken() -> None:
    book = RecordedLedger()
    transport = await begin(book)
    transport.write(b"one\ntwo\n")
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        assert (await peer.hear()).number == 1
        peer.say(FrameKind.ACK, 0, acknowledged=1)
        await book.until(lambda: book.taken_upto == [1])
    async with visit(transport) as stale:
        stale.greet(written=0)
        await stale.welcomed()
        assert await stale.hear() == Frame(FrameKind.LINES, 2, 0, b"two\n")


async def test_more_is_not_acknowledged_than_was_sent() -> None:
    async with visit(await begin(RecordedLedger())) as peer:
        peer.greet()
        await peer.welcomed()
        peer.say(FrameKind.ACK, 0, acknowledged=1)
        assert await peer.closed() == Refusal.FRAME_REFUSED


async def test_what_is_kept_and_not_sent_yet_cannot_be_acknowledged() -> None:
    book = RecordedLedger()
    transport = await begin(book)
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        peer.taking.clear()
        transport.write(b"one\n")
        await book.until(lambda: list(book.disk.outgoing) == [1])
        await settle()
        # One is on its way, and two is behind it.
        transport.write(b"two\n")
        await book.until(lambda: list(book.disk.outgoing) == [1, 2])
        peer.say(FrameKind.ACK, 0, acknowledged=2)
        await settle()
        peer.taking.set()
        assert await peer.closed() == Refusal.FRAME_REFUSED
    assert list(book.disk.outgoing) == [1, 2]


async def test_what_an_earlier_connection_was_sent_may_be_acknowledged_on_the_next() -> None:
    book = RecordedLedger()
    transport = await begin(book)
    transport.write(b"one\ntwo\n")
    async with visit(transport) as first:
        first.greet()
        await first.welcomed()
        await first.hear()
    async with visit(transport) as second:
        second.say(FrameKind.HELLO, 1, hello(written=0))
        second.say(FrameKind.ACK, 0, acknowledged=2)
        await book.until(lambda: book.taken_upto == [2])


async def test_numbers_that_a_relay_knows_are_not_used_again() -> None:
    transport = await begin(RecordedLedger())
    transport.write(b"known to nobody\n")
    async with visit(transport) as peer:
        peer.greet(written=5)
        await peer.welcomed()
        transport.write(b"six\n")
        assert await peer.hear() == Frame(FrameKind.LINES, 6, 0, b"six\n")


async def test_a_number_beyond_all_reason_costs_no_time() -> None:
    transport = await begin(RecordedLedger())
    async with visit(transport) as peer:
        peer.greet(written=2**53 - 1)
        assert await peer.welcomed() == 0


async def test_long_lines_have_a_frame_each_and_short_ones_share_one() -> None:
    transport = await begin(RecordedLedger())
    long = b"x" * 200_000 + b"\n"
    transport.write(long + long + b"a\nb\n")
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        assert [len((await peer.hear()).payload) for _ in range(2)] == [200_001, 200_005]


async def test_draining_waits_for_the_cli_to_take_some_of_it() -> None:
    transport = await begin(RecordedLedger())
    transport.write(b"x" * relay_transport.HIGH_WATER + b"\n")
    draining = asyncio.ensure_future(transport.drain())
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        await peer.hear()
        await settle()
        assert not draining.done()
        peer.say(FrameKind.ACK, 0, acknowledged=1)
        await draining


async def test_draining_ends_with_the_relay() -> None:
    transport = await begin(RecordedLedger())
    transport.write(b"x" * relay_transport.HIGH_WATER + b"\n")
    draining = asyncio.ensure_future(transport.drain())
    await settle()
    transport.lost("its relay was killed")
    with pytest.raises(TransportClosed):
        await draining


async def test_nothing_follows_what_could_not_be_kept() -> None:
    book = RecordedLedger()
    transport = await begin(book)
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        book.failure = OSError("the disk is full")
        transport.write(b"one\n")
        assert await peer.closed() == 1011
    book.failure = None
    with pytest.raises(TransportClosed):
        transport.write(b"two\n")
    async with visit(transport) as peer:
        peer.greet()
        assert await peer.closed() == 1011


async def test_a_link_that_takes_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = await begin(RecordedLedger())
    peer = RelayPeer()
    visiting = asyncio.ensure_future(transport.visited(peer.socket()))
    peer.greet()
    await peer.welcomed()
    peer.taking.clear()
    monkeypatch.setattr(relay_link, "SEND_DEADLINE", 0.01)
    monkeypatch.setattr(relay_link, "CLOSE_DEADLINE", 0.01)
    transport.write(b"stuck\n")
    await visiting
    assert not transport.connected


async def test_a_restarted_server_goes_on_with_what_was_kept() -> None:
    book = RecordedLedger()
    before = await begin(book)
    before.write(b"one\ntwo\n")
    async with visit(before) as peer:
        peer.greet()
        await peer.welcomed()
        peer.say(FrameKind.LINES, 1, b"said\n", acknowledged=1)
        await book.until(lambda: book.disk.lines == [b"said"] and list(book.disk.outgoing) == [2])
        before.write(b"not kept\n")
        book.dead = True
        before.detach()
    after = await begin(RecordedLedger(book.disk))
    async with visit(after) as peer:
        peer.greet(first=1, written=1)
        assert await peer.welcomed() == 1
        assert await peer.hear() == Frame(FrameKind.LINES, 2, 1, b"two\n")
        after.write(b"three\n")
        assert await peer.hear() == Frame(FrameKind.LINES, 3, 1, b"three\n")


def test_what_is_carried_may_be_orders() -> None:
    from pilothouse.doors.relay_link import OutgoingQueue

    carried = Carried(0, 3, [Outgoing(3, int(FrameKind.ORDER), order("kill"))])
    outbox = OutgoingQueue(carried)
    assert (outbox.taken, outbox.ready, outbox.last) == (2, 3, 3)
    assert outbox.gather(3) == (3, FrameKind.ORDER, order("kill"))


# -- the end


async def test_closing_goes_from_the_end_of_input_to_killing_and_gives_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay_transport, "TERM_GRACE", 0.02)
    monkeypatch.setattr(relay_transport, "KILL_GRACE", 0.02)
    book = RecordedLedger()
    transport = await begin(book)
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        exit_ = await transport.aclose(grace=0.02)
        heard = [door_frames.unpack(Order, (await peer.hear()).payload).do for _ in range(3)]
        assert heard == ["close_input", "terminate", "kill"]
        assert await peer.closed() == Refusal.SESSION_ENDED
    assert exit_ == Exit(None, None, "", "its relay does not answer")
    assert book.calls == ["eof", "exited"]
    assert book.exits == [exit_]
    async with visit(transport) as late:
        late.greet()
        assert await late.closed() == Refusal.SESSION_ENDED


def in_haste(monkeypatch: pytest.MonkeyPatch, *, kill: float = 0.02, end: float = 1000) -> None:
    monkeypatch.setattr(relay_transport, "TERM_GRACE", 0.02)
    monkeypatch.setattr(relay_transport, "KILL_GRACE", kill)
    monkeypatch.setattr(relay_transport, "END_GRACE", end)


async def test_a_relay_that_does_not_answer_is_ended_before_its_run_counts_as_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_haste(monkeypatch)
    book, asked, lost = RecordedLedger(), asyncio.Event(), list[str]()
    transport = await begin(book)
    transport.lost_lines = noted_in(lost)

    def end() -> bool:
        asked.set()
        return True

    transport.end_relay = end
    closing = asyncio.ensure_future(transport.aclose(grace=0.02))
    await asked.wait()
    await settle()
    assert not closing.done()
    transport.lost("its relay was killed")
    assert await closing == Exit(None, None, "", "its relay does not answer")
    assert lost == [
        "its relay does not answer: what it had not delivered of the CLI's lines is lost"
    ]
    assert book.calls == ["eof", "exited"]


@pytest.mark.parametrize("under_way", [True, False])
async def test_a_relay_that_cannot_be_ended_is_written_off_all_the_same(
    monkeypatch: pytest.MonkeyPatch, under_way: bool
) -> None:
    in_haste(monkeypatch, end=0.02 if under_way else 1000)
    transport, lost = await begin(RecordedLedger()), list[str]()
    transport.lost_lines = noted_in(lost)
    transport.end_relay = lambda: under_way
    assert (await transport.aclose(grace=0.02)).reason == "its relay does not answer"
    assert len(lost) == 1


async def test_a_relay_that_is_being_ended_may_still_tell_how_the_cli_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_haste(monkeypatch)
    book, asked = RecordedLedger(), asyncio.Event()
    transport = await begin(book)
    transport.end_relay = lambda: asked.set() is None
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        closing = asyncio.ensure_future(transport.aclose(grace=0.02))
        await asked.wait()
        peer.say(FrameKind.EXIT, 1, ENDED)
        assert (await closing).code == 3


async def slowly(peer: RelayPeer, book: RecordedLedger, lines: int) -> None:
    for number in range(1, lines + 1):
        await asyncio.sleep(0.02)
        peer.say(FrameKind.LINES, number, b"late\n")
        await book.until(lambda number=number: len(book.disk.lines) == number)


async def test_a_relay_that_delivers_its_backlog_is_not_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_haste(monkeypatch, kill=0.5)
    book, given_up = RecordedLedger(), list[bool]()
    transport = await begin(book)
    transport.end_relay = lambda: bool(given_up.append(True))
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        closing = asyncio.ensure_future(transport.aclose(grace=0.02))
        # For longer than any single step lasts.
        await slowly(peer, book, 60)
        peer.say(FrameKind.EXIT, 61, ENDED)
        assert (await closing).code == 3
    assert given_up == []


async def test_a_relay_that_never_comes_to_an_end_is_given_up_after_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_haste(monkeypatch, kill=1000)
    monkeypatch.setattr(relay_transport, "DELIVERY_LIMIT", 0.1)
    book = RecordedLedger()
    transport = await begin(book)
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        closing = asyncio.ensure_future(transport.aclose(grace=0.02))
        talking = asyncio.ensure_future(slowly(peer, book, 10_000))
        assert (await closing).reason == "its relay does not answer"
        talking.cancel()
        await asyncio.wait([talking])


async def test_one_that_is_given_up_from_outside_says_that_lines_may_be_missing() -> None:
    book, lost = RecordedLedger(), list[str]()
    transport = await begin(book)
    transport.lost_lines = noted_in(lost)
    transport.give_up("the machine box has been gone for 60 s")
    transport.give_up("again")
    assert book.exits[0].reason == "the machine box has been gone for 60 s"
    assert len(lost) == 1


async def test_closing_ends_with_the_cli_whoever_waits_for_it() -> None:
    transport = await begin(RecordedLedger())
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        first = asyncio.ensure_future(transport.aclose(grace=1000))
        second = asyncio.ensure_future(transport.aclose(grace=0))
        assert (await peer.hear()).payload == order("close_input")
        first.cancel()
        peer.say(FrameKind.EXIT, 1, ENDED)
        assert await second == await transport.aclose() == Exit(3, None, "last words")


async def test_what_was_never_started_is_closed_at_once() -> None:
    book = RecordedLedger()
    transport = RelayTransport(SESSION, RUN, book)
    with pytest.raises(TransportClosed):
        transport.write(b"too early\n")
    assert await transport.aclose() == Exit(None, None, "")
    with pytest.raises(TransportClosed):
        await transport.start(book)
    assert book.calls == []


async def test_a_relay_that_cannot_be_started_is_told_by_start() -> None:
    async def launch() -> None:
        raise SpawnFailed("the relay", "no room")

    book = RecordedLedger()
    transport = RelayTransport(SESSION, RUN, book, launch=launch)
    with pytest.raises(SpawnFailed):
        await transport.start(book)
    assert await transport.aclose() == Exit(None, None, "")
    assert book.calls == []


async def test_closing_while_the_relay_starts_ends_what_comes_of_it() -> None:
    go_on = asyncio.Event()

    async def launch() -> None:
        await go_on.wait()

    book = RecordedLedger()
    transport = RelayTransport(SESSION, RUN, book, launch=launch)
    starting = asyncio.ensure_future(transport.start(book))
    await settle()
    closing = asyncio.ensure_future(transport.aclose(grace=1000))
    await settle()
    go_on.set()
    with pytest.raises(TransportClosed):
        await starting
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        assert (await peer.hear()).payload == order("close_input")
        peer.say(FrameKind.EXIT, 1, ENDED)
        assert (await closing).code == 3


async def test_detaching_leaves_the_cli_and_tells_nobody() -> None:
    book = RecordedLedger()
    transport = await begin(book)
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        transport.detach()
        peer.say(FrameKind.LINES, 1, b"unheard\n")
        assert await peer.closed() == 1001
    async with visit(transport) as peer:
        peer.greet()
        assert await peer.closed() == 1001
    transport.lost("not any more")
    assert book.calls == []
    with pytest.raises(TransportClosed):
        transport.write(b"to nobody\n")
    assert (await transport.aclose()).code is None


async def test_a_lost_relay_is_told_with_the_reason_once() -> None:
    book = RecordedLedger()
    transport = await begin(book)
    transport.lost("its relay was killed")
    transport.lost("again")
    assert book.calls == ["eof", "exited"]
    assert book.exits == [Exit(None, None, "", "its relay was killed")]
    async with visit(transport) as peer:
        peer.greet()
        assert await peer.closed() == Refusal.SESSION_ENDED


async def test_what_a_lost_relay_has_sent_still_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_transport, "LOST_GRACE", 1000)
    book = RecordedLedger()
    transport = await begin(book)
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        peer.say(FrameKind.LINES, 1, b"one\n")
        transport.lost("its relay was killed")
        peer.leave()
        await book.until(lambda: bool(book.exits))
    assert book.told == b"one\n"
    assert book.exits[0].reason == "its relay was killed"


async def test_a_lost_relay_whose_connection_stays_is_waited_for_no_longer_than_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay_transport, "LOST_GRACE", 0.01)
    book = RecordedLedger()
    transport = await begin(book)
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        transport.lost("its relay was killed")
        await book.until(lambda: bool(book.exits))


async def test_one_that_is_refused_is_sent_away_with_the_code() -> None:
    transport = await begin(RecordedLedger())
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        transport.refuse(Refusal.TOKEN_REFUSED)
        assert await peer.closed() == Refusal.TOKEN_REFUSED


async def test_the_greeting_says_which_process_it_is() -> None:
    transport = await begin(RecordedLedger())
    assert transport.pid is None
    async with visit(transport) as peer:
        peer.greet(host="elsewhere")
        await peer.welcomed()
        assert transport.pid == 77
        assert transport.hello is not None
        assert transport.hello.host == "elsewhere"
    assert await transport.posted(b"") == 404


# -- lines that are too long


def dropped(size: object = 70_000_000) -> bytes:
    return json.dumps({"size": size}).encode()


async def test_a_line_that_a_relay_has_dropped_is_told_of_in_its_place_and_once() -> None:
    book = RecordedLedger()
    transport = await begin(book)
    transport.lost_lines = book.lines_lost
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        peer.say(FrameKind.LINES, 1, b"one\n")
        peer.say(FrameKind.DROPPED, 2, dropped())
        peer.say(FrameKind.LINES, 3, b"three\n")
        await book.until(lambda: book.disk.received == 3)
    async with visit(transport) as again:
        again.greet(first=2)
        assert await again.welcomed() == 3
        again.say(FrameKind.DROPPED, 2, dropped())
        again.say(FrameKind.LINES, 3, b"three\nfour\n")
        again.say(FrameKind.EXIT, 5, ENDED)
        await book.ended()
    assert book.disk.lines == [b"one", b"three", b"four"]
    [sentence] = book.lost
    assert sentence.startswith("a line of the CLI was lost: it had 70000000 bytes")
    assert book.calls[:5] == ["received 1", "data", "received 2", "lost", "received 3"]


@pytest.mark.parametrize("size", [0, -1, True, 1.5, "7", None, 2**53])
async def test_a_dropped_line_without_a_size_is_refused(size: object) -> None:
    book = RecordedLedger()
    async with visit(await begin(book)) as peer:
        peer.greet()
        await peer.welcomed()
        peer.say(FrameKind.DROPPED, 1, dropped(size))
        assert await peer.closed() == Refusal.FRAME_REFUSED
    assert book.calls == []


async def test_a_dropped_line_is_refused_where_another_has_to_come() -> None:
    book = RecordedLedger()
    async with visit(await begin(book)) as peer:
        peer.greet()
        await peer.welcomed()
        peer.say(FrameKind.DROPPED, 2, dropped())
        assert await peer.closed() == Refusal.FRAME_REFUSED
    assert book.calls == []


async def test_a_relay_of_the_version_before_is_welcome() -> None:
    book = RecordedLedger()
    async with visit(await begin(book)) as peer:
        peer.greet(version=1)
        await peer.welcomed()
        peer.say(FrameKind.LINES, 1, b"one\n")
        await book.until(lambda: book.disk.lines == [b"one"])


async def test_a_relay_that_sends_more_than_a_line_at_once_is_refused_for_good() -> None:
    book, missing = RecordedLedger(), list[str]()
    transport = await begin(book)
    transport.lost_lines = noted_in(missing)
    async with visit(transport) as peer:
        peer.greet()
        await peer.welcomed()
        peer.leave(1009)
        exit_ = await book.ended()
    assert exit_.reason == "its relay sent a line that is longer than any that is taken"
    assert len(missing) == 1
    async with visit(transport) as again:
        again.greet()
        assert await again.closed() == Refusal.SESSION_ENDED
