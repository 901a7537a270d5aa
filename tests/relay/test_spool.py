"""The spool gives every line once and in order, and keeps within its bounds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.relay import spool as spooling
from pilothouse.relay.spool import Spool

LINES = st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"") + b"\n"))


def everything(spool: Spool, limit: int = 100) -> tuple[int, bytes]:
    """The first number given out and all the bytes from there; no number may be left out."""
    first, expected, data = 0, 0, b""
    while (batch := spool.take(limit)) is not None:
        first = first or batch[0]
        assert expected in (0, batch[0])
        expected = batch[0] + batch[1].count(b"\n")
        data += batch[1]
    return first, data


@given(lines=LINES, cuts=st.lists(st.integers(1, 30)), acknowledged=st.integers(0, 60))
def test_lines_do_not_depend_on_where_the_bytes_were_cut(
    lines: list[bytes], cuts: list[int], acknowledged: int
) -> None:
    spool = Spool(None)
    data = b"".join(lines)
    for size in cuts:
        spool.append(data[:size]) if data[:size] else None
        data = data[size:]
    spool.append(data) if data else None
    everything(spool)
    known = min(acknowledged, len(lines))
    spool.acknowledge(known)
    spool.rewind()
    assert spool.first == known + 1
    assert everything(spool)[1] == b"".join(lines[known:])
    assert spool.next == len(lines) + 1


@given(
    lines=LINES,
    steps=st.lists(st.tuples(st.sampled_from(["take", "rewind", "ack"]), st.integers(0, 50))),
)
def test_what_is_on_the_disk_comes_back_like_what_is_in_memory(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], steps: list[tuple[str, int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spooling, "MEMORY", 50)
        patch.setattr(spooling, "SEGMENT", 100)
        patch.setattr(spooling, "CHUNK", 60)
        spool = Spool(tmp_path_factory.getbasetemp())
        acknowledged = 0
        left = list(lines)
        for step, number in steps:
            if left:
                spool.append(left.pop(0))
            match step:
                case "take":
                    spool.take(number)
                case "rewind":
                    spool.rewind()
                case _:
                    acknowledged = max(acknowledged, min(number, spool.next - 1))
                    spool.acknowledge(acknowledged)
        for line in left:
            spool.append(line)
        spool.rewind()
        assert everything(spool)[1] == b"".join(lines[acknowledged:])
        assert spool.in_flight == spool.held == len(b"".join(lines[acknowledged:]))
        spool.close()
        assert spool.held == spool.in_flight == 0


def test_files_have_no_name_and_are_closed_when_their_lines_are_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooling, "MEMORY", 0)
    monkeypatch.setattr(spooling, "SEGMENT", 10)
    before = open_fds()
    spool = Spool(tmp_path)
    for _ in range(5):
        spool.append(b"0123456789\n")
    assert open_fds() == before + 5
    assert list(tmp_path.iterdir()) == []
    spool.acknowledge(3)
    assert open_fds() == before + 2
    spool.close()
    assert open_fds() == before


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_it_is_full_at_its_limit_until_something_is_acknowledged(tmp_path: Path) -> None:
    spool = Spool(tmp_path, limit=20)
    spool.append(b"0123456789\n")
    assert not spool.full
    spool.append(b"0123456789\n")
    assert spool.full
    spool.acknowledge(1)
    assert not spool.full


def test_a_line_longer_than_the_limit_passes(tmp_path: Path) -> None:
    spool = Spool(tmp_path, limit=20)
    spool.append(b"x" * 30)
    assert not spool.full
    spool.append(b"x\n")
    assert spool.full
    assert everything(spool) == (1, b"x" * 31 + b"\n")


def test_a_disk_that_takes_nothing_makes_it_full_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooling, "MEMORY", 8)
    spool = Spool(tmp_path / "missing")
    spool.append(b"first\n")
    assert not spool.full
    spool.append(b"second\n")
    assert spool.full
    assert spool.trouble == "No such file or directory"
    (tmp_path / "missing").mkdir()
    spool.acknowledge(1)
    assert not spool.full
    spool.append(b"third\n")
    assert everything(spool) == (2, b"second\nthird\n")
    assert spool.trouble == ""
    spool.close()


def test_what_has_no_newline_at_the_end_is_a_line() -> None:
    spool = Spool(None)
    spool.append(b"whole\nhalf")
    spool.finish()
    assert everything(spool) == (1, b"whole\nhalf\n")
    spool.finish()
    assert spool.next == 3


# Lines that are too long


def entries(spool: Spool) -> list[bytes | int]:
    """Every line that is given out; of one that was dropped, its size."""
    found: list[bytes | int] = []
    while (batch := spool.take(100)) is not None:
        assert batch.first == spool.first + len(found)
        if batch.dropped:
            assert batch.data == b"\n"
            found.append(batch.dropped)
        else:
            found += batch.data.split(b"\n")[:-1]
    return found


@given(lines=LINES, cuts=st.lists(st.integers(1, 30)), longest=st.integers(0, 30))
def test_a_line_that_is_too_long_is_dropped_alone_and_keeps_its_number(
    lines: list[bytes], cuts: list[int], longest: int
) -> None:
    spool = Spool(None, longest=longest)
    data = b"".join(lines)
    for size in cuts:
        spool.append(data[:size]) if data[:size] else None
        data = data[size:]
        assert sum(map(len, spool._rest)) == spool._rest_size <= longest
    spool.append(data) if data else None
    plain = [line[:-1] for line in lines]
    expected = [line if len(line) <= longest else len(line) for line in plain]
    assert entries(spool) == expected
    sizes = enumerate(expected, 1)
    assert spool.dropped == [each for each in sizes if isinstance(each[1], int)]
    spool.rewind()
    known = len(lines) // 2
    spool.acknowledge(known)
    assert entries(spool) == expected[known:]
    spool.close()
    assert spool.held == spool.in_flight == 0


def test_a_line_without_end_is_counted_and_not_kept() -> None:
    spool = Spool(None, longest=10)
    for _ in range(1000):
        spool.append(b"x" * 8)
    assert spool.held == 0
    assert not spool.full
    spool.finish()
    assert entries(spool) == [8000]
    assert spool.next == 2
