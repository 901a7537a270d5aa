"""Which labels are meant by a caller's words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.faces.mcp.label_match import pick_one, pick_several

LABELS = ["Red", "Blue, deep", "Blue", "3"]


@pytest.mark.parametrize(
    ("text", "picked"),
    [
        ("Red", "Red"),
        (" red ", "Red"),
        ("2", "2"),
        ("3", "3"),
        ("9", "9"),
        ("0", "0"),
        ("green", "green"),
        ("", ""),
    ],
)
def test_one_label_is_meant_by_its_words_and_a_number_is_a_number(text: str, picked: str) -> None:
    assert pick_one(LABELS, text) == picked


@pytest.mark.parametrize(
    ("text", "picked"),
    [
        ("Red", ["Red"]),
        ("Red, Blue", ["Red", "Blue"]),
        ("blue, deep, red", ["Blue, deep", "Red"]),
        ("Blue,Red", ["Blue", "Red"]),
        ("1, 3", ["1", "3"]),
        ("Red, Red", ["Red"]),
        ("Red, something else", ["Red", "something else"]),
        ("Redder", ["Redder"]),
        (" , ,", []),
    ],
)
def test_several_labels_are_joined_by_commas_which_they_may_have_themselves(
    text: str, picked: list[str]
) -> None:
    assert pick_several(LABELS, text) == picked


labels = st.lists(
    st.text(min_size=1).filter(lambda label: label.strip()),
    min_size=1,
    unique_by=lambda label: label.strip().casefold(),
)


@given(labels)
def test_each_label_means_itself(labels: list[str]) -> None:
    assert [pick_one(labels, each) for each in labels] == labels
    assert [pick_several(labels, each) for each in labels] == [[each] for each in labels]
