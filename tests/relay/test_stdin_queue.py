"""What a door says is written to the CLI once and in order; what is missing is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.relay.child_supervisor import OutOfOrder, StdinQueue


class Input:
    """An intake and the other end of its pipe."""

    def __init__(self) -> None:
        self._readable, self._writable = os.pipe()
        os.set_blocking(self._writable, False)
        os.set_blocking(self._readable, False)
        self.obeyed: list[str] = []
        self.intake = StdinQueue(self._writable, self.obeyed.append, self._close)

    def _close(self) -> None:
        os.close(self._writable)
        self._writable = -1

    def read(self) -> bytes | None:
        try:
            return os.read(self._readable, 1 << 20)
        except BlockingIOError:
            return None

    def leave(self) -> None:
        os.close(self._readable)
        self._readable = -1

    def close(self) -> None:
        self.intake.close()
        if self._readable >= 0:
            os.close(self._readable)


@pytest.fixture
def it() -> Iterator[Input]:
    it = Input()
    yield it
    it.close()


def test_lines_are_written_and_counted(it: Input) -> None:
    assert it.intake.take_lines(1, b"one\ntwo\n")
    assert it.read() == b"one\ntwo\n"
    assert (it.intake.taken, it.intake.written) == (2, 2)


def test_what_came_before_is_not_written_again(it: Input) -> None:
    it.intake.take_lines(1, b"one\ntwo\n")
    assert not it.intake.take_lines(1, b"one\ntwo\n")
    assert it.intake.take_lines(2, b"two\nthree\n")
    assert it.read() == b"one\ntwo\nthree\n"


def test_what_skips_a_number_is_refused(it: Input) -> None:
    it.intake.take_lines(1, b"one\n")
    with pytest.raises(OutOfOrder):
        it.intake.take_lines(3, b"three\n")
    with pytest.raises(OutOfOrder):
        it.intake.take_order(3, "kill")
    assert it.read() == b"one\n"
    assert it.obeyed == []


def test_half_a_line_is_refused(it: Input) -> None:
    with pytest.raises(OutOfOrder):
        it.intake.take_lines(1, b"one\ntw")
    assert it.read() is None


@given(
    lines=st.lists(st.binary(max_size=9).map(lambda line: line.replace(b"\n", b"") + b"\n")),
    sent=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 8))),
)
def test_however_often_lines_are_sent_each_is_written_once(
    lines: list[bytes], sent: list[tuple[int, int]]
) -> None:
    it = Input()
    try:
        written = b""
        for first, count in sent:
            some = b"".join(lines[first - 1 : first - 1 + count])
            if some and first <= it.intake.taken + 1:
                it.intake.take_lines(first, some)
                written += it.read() or b""
        assert written == b"".join(lines[: it.intake.taken])
        assert it.intake.written == it.intake.taken
    finally:
        it.close()


def test_a_full_pipe_holds_lines_back_and_counts_only_whole_ones(it: Input) -> None:
    line = b"x" * 40_000 + b"\n"
    it.intake.take_lines(1, line * 4)
    assert it.intake.waiting
    assert (it.intake.taken, it.intake.written) == (4, 1)
    got = it.read() or b""
    while it.intake.waiting:
        it.intake.flush()
        got += it.read() or b""
    got += it.read() or b""
    assert got == line * 4
    assert it.intake.written == 4


def test_orders_keep_their_place_and_take_a_number(it: Input) -> None:
    it.intake.take_lines(1, b"one\n")
    assert it.intake.take_order(2, "close_input")
    assert not it.intake.take_order(2, "close_input")
    assert it.intake.written == 2
    assert it.read() == b"one\n"
    assert it.read() == b""


def test_the_input_is_closed_behind_the_lines_that_wait(it: Input) -> None:
    it.intake.take_lines(1, b"x" * 100_000 + b"\n")
    it.intake.take_order(2, "close_input")
    assert not it.intake.broken
    size = 0
    while got := it.read():
        size += len(got)
        it.intake.flush()
    assert size == 100_001
    assert it.intake.written == 2


@pytest.mark.parametrize("do", ["terminate", "kill", "end"])
def test_an_order_to_end_does_not_wait_behind_lines_that_nobody_reads(it: Input, do: str) -> None:
    it.intake.take_lines(1, b"x" * 100_000 + b"\n")
    it.intake.take_order(2, do)
    assert it.obeyed == [do]
    assert it.intake.written == 0
    while it.intake.waiting:
        it.read()
        it.intake.flush()
    assert it.obeyed == [do]
    assert it.intake.written == 2


def test_what_the_cli_did_not_take_is_never_called_written(it: Input) -> None:
    it.intake.take_lines(1, b"one\n")
    it.leave()
    it.intake.take_lines(2, b"two\n")
    it.intake.take_order(3, "kill")
    assert it.intake.broken
    assert it.obeyed == ["kill"]
    assert (it.intake.taken, it.intake.written) == (3, 1)


def test_a_line_of_the_relays_own_stands_between_two_of_the_doors(it: Input) -> None:
    it.intake.take_lines(1, b"one\n")
    it.intake.say(b"mine\n")
    it.intake.take_lines(2, b"two\n")
    it.intake.end()
    assert it.read() == b"one\nmine\ntwo\n"
    assert it.intake.written == 2
