"""Words of somebody else's in a text of ours."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.faces.mcp.texts import bounded, line_of, list_of, members_of, quoted, time_of


@given(st.text())
def test_every_line_of_a_quotation_is_marked(text: str):
    assert all(line.startswith(">") for line in quoted(text).splitlines())
    assert quoted(text)


@given(st.text())
def test_a_line_is_one(text: str):
    assert len(line_of(text).splitlines()) <= 1


def test_a_long_text_says_how_much_is_left_and_where():
    assert bounded("abc", 3, "there") == "abc"
    assert bounded("abcde", 3, "there") == "abc\n[2 more characters: read the resource there]"


def test_what_should_be_an_object_or_a_list_and_is_none_is_empty():
    assert (members_of({"a": 1}), members_of([1]), members_of(None)) == ({"a": 1}, {}, {})
    assert (list_of([1]), list_of("ab"), list_of(None)) == ([1], [], [])


def test_times_are_told_in_utc():
    assert time_of(1_700_000_000_999) == "2023-11-14T22:13:20+00:00"
