"""Answers of a given shape, and the schema they are held to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.scenario import ToolCall, reply
from pilothouse_sim.simulator.json_schema import BadSchema, misfits, read_schema
from tests.support.sim.client import sim_client

SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}, "size": {"type": "integer", "minimum": 1}},
    "required": ["answer"],
    "additionalProperties": False,
}


def shaped(**given: Any) -> ToolCall:
    return ToolCall(name="StructuredOutput", input=given)


@pytest.mark.parametrize(
    ("schema", "value", "wrong"),
    [
        ({}, 1, []),
        (True, 1, []),
        (False, 1, [("", "boolean schema is false")]),
        ({"type": "string"}, 1, [("", "must be string")]),
        ({"type": ["string", "null"]}, 1, [("", "must be string,null")]),
        ({"type": "integer"}, 1.0, []),
        ({"type": "integer"}, 1.5, [("", "must be integer")]),
        ({"type": "number"}, True, [("", "must be number")]),
        ({"minimum": 1}, 0, [("", "must be >= 1")]),
        ({"exclusiveMaximum": 1}, 1, [("", "must be < 1")]),
        ({"multipleOf": 2}, 3, [("", "must be multiple of 2")]),
        ({"minLength": 1}, "", [("", "must NOT have fewer than 1 characters (got 0)")]),
        ({"maxItems": 1}, [1, 2], [("", "must NOT have more than 1 items (got 2)")]),
        ({"pattern": "^a"}, "b", [("", 'must match pattern "^a"')]),
        (
            {"uniqueItems": True},
            [1, 2, 1],
            [("", "must NOT have duplicate items (items ## 2 and 0 are identical)")],
        ),
        ({"items": {"type": "string"}}, ["a", 1], [("/1", "must be string")]),
        ({"const": "a"}, "b", [("", 'must be equal to constant: "a"')]),
        ({"enum": [1, 2]}, 3, [("", "must be equal to one of the allowed values: [1,2]")]),
        ({"not": {"type": "string"}}, "a", [("", "must NOT be valid")]),
        ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 4, [("", "must be <= 3")]),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            1,
            [
                ("", "must be string"),
                ("", "must be null"),
                ("", "must match a schema in anyOf"),
            ],
        ),
        (
            {"oneOf": [{"type": "number"}, {"minimum": 0}]},
            1,
            [("", "must match exactly one schema in oneOf")],
        ),
        (
            {"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False},
            {"x-a": 1, "b": 2},
            [
                ("", "must NOT have additional properties ('b' is not allowed)"),
                ("/x-a", "must be string"),
            ],
        ),
        ({"minProperties": 1}, {}, [("", "must NOT have fewer than 1 properties")]),
        (
            {"$ref": "#/$defs/place", "$defs": {"place": {"required": ["town"]}}},
            {},
            [("", "must have required property 'town'")],
        ),
        (
            {"properties": {"a/b": {"type": "string"}}},
            {"a/b": 1},
            [("/a~1b", "must be string")],
        ),
    ],
)
def test_what_is_wrong_is_said_where_it_is(
    schema: Any, value: Any, wrong: list[tuple[str, str]]
) -> None:
    assert misfits(value, schema) == wrong


def test_a_schema_that_is_none_is_refused_in_the_words_of_the_cli() -> None:
    with pytest.raises(BadSchema, match=r"^Error: --json-schema is not a valid JSON Schema: data"):
        read_schema('{"type": "nonsense"}')
    with pytest.raises(BadSchema, match="not valid JSON"):
        read_schema("{")


async def test_the_answer_is_in_the_result_and_the_model_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # E5
    async with sim_client(tmp_path, monkeypatch, reply(shaped(answer="42"))) as client:
        await client.control("initialize", jsonSchema=SCHEMA)
        result = await client.ask("What is the answer?")
    assert result["structured_output"] == {"answer": "42"}
    assert json.loads(result["result"]) == {"answer": "42"}
    assert client.results() == ["Structured output provided successfully"]


async def test_the_model_may_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # E5
    flag = f"--json-schema={json.dumps(SCHEMA)}"
    replies = reply(shaped(size=0)), reply(shaped(answer="42"))
    async with sim_client(tmp_path, monkeypatch, *replies, flags=(flag,)) as client:
        result = await client.ask("What is the answer?")
    wrong = "root: must have required property 'answer', /size: must be >= 1"
    assert client.results()[0] == f"Output does not match required schema: {wrong}"
    assert result["structured_output"] == {"answer": "42"}


async def test_five_wrong_answers_end_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # E5
    replies = [reply(shaped(size=0)) for _ in range(6)]
    flag = f"--json-schema={json.dumps(SCHEMA)}"
    async with sim_client(tmp_path, monkeypatch, *replies, flags=(flag,)) as client:
        result = await client.ask("What is the answer?")
    assert len(client.results()) == 5
    assert result["subtype"] == "error_max_structured_output_retries"
    assert result["terminal_reason"] == "structured_output_retry_exhausted"


async def test_a_model_that_gives_no_answer_is_reminded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # E5
    replies = [reply("Forty-two.") for _ in range(3)]
    flag = f"--json-schema={json.dumps(SCHEMA)}"
    async with sim_client(tmp_path, monkeypatch, *replies, flags=(flag,)) as client:
        result = await client.ask("What is the answer?")
    assert sum(line.get("isSynthetic", False) for line in client.lines) == 1
    assert result["result"] == "Forty-two."
    assert "structured_output" not in result
