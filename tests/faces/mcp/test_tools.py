"""The tools as clients are told of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import fields

from pilothouse.faces.mcp.calls import CALLS
from pilothouse.faces.mcp.tools import PERMISSION_CHECK, TOOLS, listed

NAMES = [
    "claude_start",
    "claude_say",
    "claude_status",
    "claude_respond",
    "claude_interrupt",
    "claude_control",
    "claude_list",
]


def test_there_are_seven_tools_in_little_space() -> None:
    assert [each["name"] for each in listed()] == NAMES
    told = listed(permission_check=True)
    assert len(json.dumps(told, separators=(",", ":")).encode()) < 12_000


@pytest.mark.parametrize("tool", [*TOOLS, PERMISSION_CHECK], ids=lambda tool: tool["name"])
def test_every_schema_is_one(tool: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(tool["inputSchema"])
    Draft202012Validator.check_schema(tool.get("outputSchema", {}))
    assert tool["inputSchema"]["type"] == tool.get("outputSchema", {"type": "object"})["type"]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool["name"])
def test_what_is_told_of_a_tool_is_what_it_takes(tool: dict[str, Any]) -> None:
    told, taken = tool["inputSchema"], fields(CALLS[tool["name"]])
    assert set(told["properties"]) == {each.encode_name for each in taken}
    assert set(told["required"]) == {each.encode_name for each in taken if each.required}
    assert told["additionalProperties"] is False
    for parameter in told["properties"].values():
        assert parameter["description"]


def test_hints_tell_who_only_reads() -> None:
    reading = [each["name"] for each in TOOLS if each["annotations"]["readOnlyHint"]]
    assert reading == ["claude_status", "claude_list"]
    for each in TOOLS:
        assert each["title"]
        if each["name"] not in reading:
            assert each["annotations"]["destructiveHint"]
