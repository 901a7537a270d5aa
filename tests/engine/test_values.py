"""Values that no CLI could be started with."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.api.records import SessionStarted, decode_record, storable
from pilothouse.api.requests import SessionOptions
from pilothouse.engine.values import (
    LARGEST_NUMBER,
    LARGEST_OBJECT,
    LONGEST_ARGUMENT,
    MOST_LEVELS,
    check_values,
)
from pilothouse.errors import InvalidOption

LONG = "x" * (LONGEST_ARGUMENT + 1)
NESTED: Any = {}
for _ in range(5000):
    NESTED = {"a": NESTED}

IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"max_turns": -5}, "max_turns is 1 to"),
    ({"max_turns": 0}, "max_turns is 1 to"),
    ({"max_turns": 2**63}, "max_turns is 1 to"),
    ({"max_thinking_tokens": -1}, "max_thinking_tokens is 0 to"),
    ({"max_thinking_tokens": 2**31}, "max_thinking_tokens is 0 to"),
    ({"max_budget_usd": 0.0}, "max_budget_usd is above 0"),
    ({"max_budget_usd": -1.0}, "max_budget_usd is above 0"),
    ({"max_budget_usd": float("inf")}, "max_budget_usd is above 0"),
    ({"max_budget_usd": float("nan")}, "max_budget_usd is above 0"),
    ({"model": "a\0b"}, "model has a null byte"),
    ({"model": LONG}, r"model has \d+ bytes"),
    ({"model": "\ud800"}, "model has half of a surrogate pair"),
    ({"fallback_model": "\0"}, "fallback_model has a null byte"),
    ({"tools": ["\0"]}, "tools has a null byte"),
    ({"allowed_tools": ["Read", "\0"]}, "allowed_tools has a null byte"),
    ({"allowed_tools": ["x" * 1000] * 200}, r"allowed_tools has \d+ bytes"),
    ({"disallowed_tools": ["\0"]}, "disallowed_tools has a null byte"),
    ({"add_dirs": ["/a\0"]}, "add_dirs has a null byte"),
    ({"add_dirs": ["/" + "x" * 100_000] * 20}, "at most 1048576 are possible"),
    ({"flags": {"name": "a\0"}}, r"flags\['name'\] has a null byte"),
    ({"system_prompt": "\0"}, "system_prompt has a null byte"),
    ({"append_system_prompt": "\ud800"}, "append_system_prompt has half of a surrogate"),
    ({"env": {"": "x"}}, "env has a name that no variable has: ''"),
    ({"env": {"A=B": "x"}}, "env has a name that no variable has: 'A=B'"),
    ({"env": {"A\0": "x"}}, "a name in env has a null byte"),
    ({"env": {"A": "x\0"}}, r"env\['A'\] has a null byte"),
    ({"env": {"A": LONG}}, r"env\['A'\] has \d+ bytes"),
    ({"env": {"A": "\udcff"}}, r"env\['A'\] has half of a surrogate"),
    ({"env": {str(number): "x" * 100_000 for number in range(20)}}, "at most 1048576 are possible"),
    ({"settings": {"env": {"": "x"}}}, "settings.env has a name that no variable has"),
    ({"settings": {"env": {"A": "\0"}}}, r"settings.env\['A'\] has a null byte"),
    ({"settings": {"a": "x" * LARGEST_OBJECT}}, r"settings has \d+ bytes as JSON"),
    ({"mcp_servers": {"a": {"b": "x" * LARGEST_OBJECT}}}, r"mcp_servers has \d+ bytes as JSON"),
    ({"agents": {"a": {"prompt": "x" * LARGEST_OBJECT}}}, r"agents has \d+ bytes as JSON"),
    ({"json_schema": NESTED}, "json_schema is nested too deep"),
]


@pytest.mark.parametrize(("given", "told"), IMPOSSIBLE, ids=[told for _, told in IMPOSSIBLE])
def test_what_no_cli_can_be_given_is_refused_in_words(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidOption, match=told) as refused:
        check_values(SessionOptions(**given))
    assert len(str(refused.value).encode()) < 300


def test_what_passes_is_kept_as_it_is() -> None:
    deep: Any = {}
    for _ in range(MOST_LEVELS - 1):
        deep = {"a": deep}
    options = SessionOptions(json_schema=deep)
    check_values(options)
    given = SessionStarted(cwd="/work", options=options)
    _, body = storable(given)
    assert decode_record(body) == given
    with pytest.raises(InvalidOption, match="json_schema is nested too deep"):
        check_values(SessionOptions(json_schema={"a": deep}))


def test_what_is_just_possible_passes() -> None:
    check_values(SessionOptions())
    check_values(
        SessionOptions(
            max_turns=1,
            max_thinking_tokens=0,
            max_budget_usd=0.01,
            model="x" * LONGEST_ARGUMENT,
            system_prompt="é" * 1_000_000,
            env={"A": "", "B": "x" * LONGEST_ARGUMENT},
            settings={"env": {"A": 1, "B": None}, "allow": ["Bash(ls)"] * 50_000},
        )
    )
    check_values(SessionOptions(max_turns=LARGEST_NUMBER, max_thinking_tokens=LARGEST_NUMBER))
