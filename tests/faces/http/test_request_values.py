"""Requests that do not fit, and what was perhaps meant."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pilothouse.api.answers import Choose
from pilothouse.api.requests import Start
from pilothouse.faces.http.request_values import wrong_in


@pytest.mark.parametrize(
    ("given", "kind", "member", "hint"),
    [
        ({"prompt": "p", "cwd": "/", "mode": "plan"}, Start, "mode", "is `options.mode` meant?"),
        ({"prompt": "p", "cwd": "/", "bogus": 1}, Start, "bogus", "unknown field `bogus`"),
        ({"kind": "choose", "answers": ["a"]}, Choose, "answers", "the text of each question"),
    ],
)
def test_a_misplaced_member_is_told_with_its_place(
    given: Any, kind: Any, member: str, hint: str
) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(given, kind)
    wrong = wrong_in(refused.value, kind)
    assert wrong.member == member
    assert hint in wrong.message
