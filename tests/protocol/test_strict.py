"""JSON that every reader takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pilothouse.protocol import NotAMessage, decode
from pilothouse.protocol import strict as strictness
from pilothouse.protocol.messages import decode_lines
from pilothouse.protocol.strict import (
    DEEPEST_READ,
    MAX_DEPTH,
    MOST_PARTS,
    MOST_VALUES,
    TooManyParts,
    are_strict,
    check_parts,
    clean_text,
    is_strict,
    is_too_deep,
    strict,
)


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


REFUSED = [
    pytest.param(b'{"a":"half \\ud83d a pair"}', {"a": "half \ufffd a pair"}, id="half a pair"),
    pytest.param(b'{"\\ude00":1}', {"\ufffd": 1}, id="half a pair in a name"),
    pytest.param(b'{"a":"\xff"}', {"a": "\ufffd"}, id="no UTF-8"),
    pytest.param(b'{"a":[NaN,-Infinity,1]}', {"a": [None, None, 1]}, id="no number of JSON's"),
    pytest.param(b'{"a":1e400}', {"a": None}, id="beyond any double"),
    pytest.param(b'{"a":' + b"9" * 10_000 + b"}", {"a": None}, id="ten thousand digits"),
    pytest.param(b'{"a":-' + b"9" * 309 + b"}", {"a": None}, id="an integer beyond any double"),
    pytest.param(b'{"a":"\x01"}', None, id="a control character, which is no JSON"),
]


@pytest.mark.parametrize(("text", "value"), REFUSED)
def test_what_some_readers_refuse_becomes_what_all_take(text: bytes, value: Any) -> None:
    assert not is_strict(text)
    if value is None:
        with pytest.raises(ValueError, match="control character"):
            strict(text)
    else:
        assert json.loads(strict(text)) == value
        assert is_strict(strict(text))


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 5_000, 199_000])
def test_what_lies_too_deep_is_left_out(depth: int) -> None:
    text = b'{"a":' + nested(depth) + b',"b":[[1],{"c":"]["}]}'
    assert not is_strict(text)
    kept = strict(text)
    assert is_strict(kept)
    assert json.loads(kept)["b"] == [[1], {"c": "]["}]
    assert kept.count(b"[") - kept.count(b'"][') == MAX_DEPTH - 1 + 2


def test_a_text_may_be_as_deep_as_is_allowed_and_as_wide_as_it_likes() -> None:
    assert is_strict(nested(MAX_DEPTH))
    assert not is_strict(nested(MAX_DEPTH + 1))
    assert is_strict(b"[" + b",".join([nested(MAX_DEPTH - 1)] * 500) + b"]")


def test_a_name_that_comes_twice_hides_no_depth() -> None:
    assert not is_strict(b'{"a":' + nested(MAX_DEPTH) + b',"a":1}')


def test_brackets_in_strings_are_none() -> None:
    inside = b'"' + b"[" * 5_000 + b'\\"' + b"]" * 5_000 + b'"'
    deepest = b"[" * (DEEPEST_READ - 1) + b"[" + inside + b"]" + b"]" * (DEEPEST_READ - 1)
    assert not is_too_deep(deepest)
    assert is_too_deep(b"[" + deepest + b"]")


@pytest.mark.parametrize("end", [b"", b"\\", b'\\"'])
def test_a_string_without_an_end_hides_what_follows(end: bytes) -> None:
    assert not is_too_deep(b'["' + b"[" * 5_000 + end)
    assert is_too_deep(b"[" * 5_000 + b'"' + b"]" * 5_000 + end)


@pytest.mark.parametrize("before", range(0, 64, 7))
def test_a_long_number_is_found_wherever_it_stands(before: int) -> None:
    assert is_strict(b'{"a":"' + b"x" * before + b'","b":' + b"9" * 308 + b"}")
    assert not is_strict(b'{"a":"' + b"x" * before + b'","b":' + b"9" * 309 + b"}")


def test_what_has_too_many_parts_is_no_json_to_anybody() -> None:
    values = b'{"type":"x","a":[' + b"0," * MOST_VALUES + b"0,0]}"
    with pytest.raises(NotAMessage, match="or 1000000 values"):
        decode(values)
    text = b'{"type":"x","a":[' + b"[]," * MOST_PARTS + b"[]]}"
    assert not is_strict(text)
    with pytest.raises(ValueError, match="more than 200000 arrays and objects"):
        strict(text)
    with pytest.raises(NotAMessage, match="more than 200000 arrays and objects"):
        decode(text)
    assert decode_lines([text]) is None
    assert is_strict(b'{"a":"' + b"[]," * MOST_PARTS + b'"}')


VALUES = st.recursive(
    st.text('[{,"\\\\a', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.text('[",\\\\'), inner, max_size=3)
    ),
)


@given(VALUES, st.integers(1, 9))
def test_parts_are_counted_outside_strings_wherever_a_text_is_cut(value: Any, size: int) -> None:
    text = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strictness, "_AT_ONCE", size)
        patch.setattr(strictness, "MOST_PARTS", parts_of(value) - 1)
        with pytest.raises(TooManyParts):
            check_parts(text)
        patch.setattr(strictness, "MOST_PARTS", parts_of(value))
        check_parts(text)


def parts_of(value: Any) -> int:
    """How many arrays and objects there are."""
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + sum(map(parts_of, value)) if isinstance(value, list) else 0


def test_one_line_among_many_is_found() -> None:
    lines = [b'{"a":1}', b'{"b":"x"}']
    assert are_strict(lines)
    for odd in (b'"\\ud800"', b'"\xff"', nested(200), b"1e999"):
        assert not are_strict([*lines, odd, *lines])


def test_two_texts_on_a_line_are_no_line() -> None:
    assert not are_strict([b'{"a":1}{"b":2}'])


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=20))
@example("\ud83d\ude00")
def test_text_stays_as_it_is_but_for_halves_of_pairs(text: str) -> None:
    cleaned = clean_text(text)
    cleaned.encode()
    if all(not "\ud800" <= each <= "\udfff" for each in text):
        assert cleaned == text
