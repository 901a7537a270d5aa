"""The codes of one-time links."""

from __future__ import annotations

import pytest

from pilothouse.faces.console.codes import OneTimeCodes


def test_a_code_works_once() -> None:
    codes = OneTimeCodes()
    code, _ = codes.make()
    assert len(code) == 43
    assert [codes.take(code), codes.take(code)] == [True, False]


@pytest.mark.parametrize("guess", ["", "x" * 43, "\ud800", "é" * 200])
def test_what_was_never_made_does_not_work(guess: str) -> None:
    codes = OneTimeCodes()
    code, _ = codes.make()
    assert not codes.take(guess)
    assert codes.take(code)


def test_a_code_ends_by_itself() -> None:
    codes = OneTimeCodes(lasts_s=0)
    code, _ = codes.make()
    assert not codes.take(code)


def test_there_are_so_many_and_no_more() -> None:
    codes = OneTimeCodes(most=3)
    made = [codes.make()[0] for _ in range(5)]
    assert [codes.take(each) for each in made] == [False, False, True, True, True]
