"""JSON in and out, forgiving in and exact out."""

from __future__ import annotations

import json
import math
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from pilothouse import protocol
from pilothouse.protocol.wire import (
    MOST_ITEMS,
    NULL,
    Lazy,
    Record,
    always,
    convert,
    encode,
    encode_json,
    load,
    members,
    parse,
)


class Wheel(Record):
    spokes: int = 0
    width: float = 0.5
    rim: str = ""


class Cart(Lazy):
    name: str = always("")
    load: float | None = None
    wheels: list[Wheel] = always([])
    by_side: dict[str, Wheel] | None = None
    colour: Literal["red", "blue"] = "red"
    rest: Raw = NULL


def test_what_does_not_fit_keeps_its_default() -> None:
    cart = load(Cart, b'{"name":5,"load":2,"wheels":[{"spokes":"x"},{"spokes":8},4]}')
    assert cart == Cart(load=2, wheels=[Wheel(), Wheel(spokes=8)])


@pytest.mark.parametrize("text", [b"", b"nope", b"null", b"[]", b"7", b'"x"'])
def test_what_is_no_object_is_read_as_an_empty_one(text: bytes) -> None:
    assert load(Cart, text) == Cart()


def test_of_many_that_do_not_fit_the_first_are_read() -> None:
    wheels = b",".join([b"0", b'{"spokes":"x"}'] * MOST_ITEMS)
    cart = load(Cart, b'{"wheels":[' + wheels + b"]}")
    assert cart.wheels == [Wheel()] * (MOST_ITEMS // 2)
    sides = b",".join(b'"%d":{"spokes":"x"}' % number for number in range(2 * MOST_ITEMS))
    assert len(load(Cart, b'{"by_side":{' + sides + b"}}").by_side or {}) == MOST_ITEMS


def test_what_was_read_is_remembered() -> None:
    text = b'{"name":"a", "novelty":[1]}'
    cart = load(Cart, text)
    assert (cart.raw, cart.extra) == (text, {"novelty": [1]})


def test_what_is_remembered_is_not_written() -> None:
    cart = load(Cart, b'{"name":"a","novelty":1}')
    assert encode_json(cart) == b'{"name":"a","wheels":[]}'


def test_whole_floats_are_integers_where_integers_are_due() -> None:
    assert load(Wheel, b'{"spokes":8.0}').spokes == 8
    assert load(Wheel, b'{"spokes":8.5}').spokes == 0


@pytest.mark.parametrize(
    "odd", [b'"\\ud83d"', b"1" + b"0" * 310, b"1" + b"0" * 10_000, b"1e400", b"NaN", b"true"]
)
def test_no_number_that_cannot_be_reckoned_with_is_taken(odd: bytes) -> None:
    wheel = load(Wheel, b'{"spokes":1e400,"width":' + odd + b',"rim":"kept"}')
    assert (wheel.width, wheel.spokes, wheel.rim) == (0.5, 0, "kept")


def test_an_integer_is_a_float_where_a_float_is_due() -> None:
    width = load(Wheel, b'{"width":2,"spokes":"x"}').width
    assert (width, type(width)) == (2.0, float)


def test_enumerations_of_the_wires_are_open() -> None:
    assert str(load(Cart, b'{"colour":"green"}').colour) == "green"
    assert str(load(Cart, b'{"colour":3}').colour) == "red"


def test_a_raw_member_survives_the_slow_way() -> None:
    cart = load(Cart, b'{"name":3,"rest":{"a":[1,"\\ud800"]}}')
    assert parse(cart.rest) == {"a": [1, "\ud800"]}


def test_named_members_are_read_one_by_one() -> None:
    cart = convert(Cart, {"by_side": {"left": {"spokes": 1}}, "name": 3})
    assert cart.by_side == {"left": Wheel(spokes=1)}


def test_lone_surrogates_are_escaped() -> None:
    cart = Cart(name="\ud83d", wheels=[Wheel(spokes=2)], rest=Raw(b'{"b":[true,null]}'))
    assert json.loads(encode_json(cart)) == {
        "name": "\ud83d",
        "wheels": [{"spokes": 2}],
        "rest": {"b": [True, None]},
    }


def test_surrogates_and_infinity_together_are_still_json() -> None:
    assert json.loads(encode_json({"a": "\ud800", "b": math.inf, "c": (1,)})) == {
        "a": "\ud800",
        "b": None,
        "c": [1],
    }


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=())),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=8,
    )
)
def test_a_value_is_one_line_which_reads_back(value: Any) -> None:
    line = encode(value)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert parse(line) == value


def test_members_of_what_is_no_object_are_none() -> None:
    assert members(b"[1]") == {}
    assert members(b"oops") == {}


def test_integers_of_any_length_are_read() -> None:
    assert parse(b"[%d]" % 10**40) == [10**40]
    assert parse(b"[" + b"9" * 5000 + b"]") == [math.inf]


def test_exports_are_sorted_and_there() -> None:
    assert protocol.__all__ == sorted(protocol.__all__)
    assert all(hasattr(protocol, name) for name in protocol.__all__)
