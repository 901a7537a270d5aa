"""What is wrong with a call is told such that it can be mended."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.errors import UsageError
from pilothouse.faces.mcp.calls import CALLS, StartCall, StatusCall, read

SAID = {"sessionId": "a", "message": "b"}
ANSWERED = {"sessionId": "a", "id": "b"}


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("claude_start", {}, "the parameter 'prompt' is missing"),
        ("claude_start", {"prompt": 1}, "prompt: expected str, got int"),
        ("claude_start", {"prompt": ""}, "a string that is not empty"),
        ("claude_start", {"prompt": "a", "cwd": "/"}, "there is no parameter 'cwd'; there are"),
        ("claude_start", {"prompt": "a", "working_directory": "/"}, "mean 'workingDirectory'?"),
        ("claude_start", {"prompt": "a", "maxTurns": 0}, "maxTurns: expected int >= 1"),
        ("claude_start", {"prompt": "a", "maxBudgetUsd": 0}, "maxBudgetUsd: expected float > 0"),
        ("claude_start", {"prompt": "a", "allowedTools": "Read"}, "a list of strings"),
        ("claude_say", {**SAID, "permissionMode": "yolo"}, "one of default, acceptEdits, plan"),
        ("claude_say", {**SAID, "fork": "yes"}, "fork: expected bool, got str; it takes true"),
        ("claude_status", {"sessionId": "a", "waitSeconds": 51}, "a number from 0 to 50"),
        ("claude_status", {"sessionId": "a", "outputLines": 1.5}, "a whole number from 0 to 1000"),
        ("claude_status", {"sessionId": "a", "after": 1 << 64}, "after"),
        ("claude_respond", {**ANSWERED, "answers": "allow"}, 'such as ["allow"]'),
        ("claude_respond", {**ANSWERED, "answers": [1]}, "answers[0]: expected str, got int"),
        ("claude_respond", {**ANSWERED, "answers": []}, "answers: expected array of length >= 1"),
        ("claude_respond", {**ANSWERED, "answers": ["a"], "updatedInput": 1}, "an object"),
        (
            "claude_respond",
            {**ANSWERED, "answers": ["allow"], "updatedPermissions": ["Bash(git:*)"]},
            "a list of objects",
        ),
        ("claude_interrupt", {"sessionId": "a" * 300}, "length <= 256"),
        ("claude_start", {"prompt": "a\ud800"}, "half of a character"),
        ("claude_start", {"prompt": "a", "allowedTools": ["\udfff"]}, "half of a character"),
        ("claude_interrupt", {"session": "a"}, "mean 'sessionId'?"),
        ("claude_list", {"limit": 0}, "limit: expected int >= 1"),
    ],
)
def test_what_is_wrong_is_told_with_what_is_wanted(
    tool: str, arguments: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read(tool, arguments)
    assert str(caught.value).startswith(f"{tool}: ")
    assert told in str(caught.value)


def test_everything_wrong_with_the_names_is_told_at_once() -> None:
    with pytest.raises(UsageError, match=r"mode.*prompt.*missing"):
        read("claude_start", {"mode": "plan"})


def test_null_is_nothing_and_a_whole_number_is_one_in_any_form() -> None:
    assert read("claude_start", {"prompt": "a", "model": None}) == StartCall(prompt="a")
    assert read("claude_status", {"sessionId": "a", "outputLines": 5.0}) == StatusCall(
        session_id="a", output_lines=5
    )


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
names = st.sampled_from(
    ["prompt", "sessionId", "message", "id", "answers", "waitSeconds", "after", "fork", "limit"]
)


@given(st.sampled_from(sorted(CALLS)), st.dictionaries(names | st.text(), anything))
def test_a_call_is_read_or_refused_whatever_it_is(tool: str, arguments: dict[str, Any]) -> None:
    try:
        read(tool, arguments)
    except UsageError as error:
        assert str(error).startswith(f"{tool}: ")  # noqa: PT017 - either is fine
