"""The parameters of the tools, and the CLI's words for calls that do not fit them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from pilothouse_sim.simulator.tools.base import ToolFailure

__all__ = ["Issue", "Parameter", "Schema", "invalid", "parameter", "validate", "validate_answer"]

Issue = dict[str, Any]
Where = tuple[str | int, ...]
_OF_HANDLER = (
    "This is a configuration issue in your canUseTool callback, PermissionRequest hook, or "
    "permission-prompt tool — updatedInput must satisfy the tool's input schema. The tool input "
    "from the model was valid."
)


class Parameter(Struct, frozen=True, kw_only=True):
    """One parameter: its type, and whether a call must give it."""

    kind: str
    required: bool = False
    choices: tuple[str, ...] = ()
    fields: Mapping[str, Parameter] | None = None
    """The fields of an object, or of the objects in an array; further ones are let through."""
    values: tuple[str, ...] = ()
    """The types a record's values may have; the first is the one the CLI names."""
    least: int = 0
    most: int = 0
    """How long an array or a string is; 0: no limit."""
    url: bool = False


Schema = Mapping[str, Parameter]


def parameter(kind: str, /, *, required: bool = False, **more: Any) -> Parameter:
    """One entry of a schema."""
    return Parameter(kind=kind, required=required, **more)


def validate(name: str, schema: Schema, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments, numbers and truths made of strings; raises ToolFailure if they do not fit."""
    fitted = {key: _converted(schema.get(key), value) for key, value in arguments.items()}
    issues = _fields_issues(schema, fitted, ())
    extra = [key for key in fitted if key not in schema]
    # A tool that takes anything says so with an entry named "*".
    if extra and "*" not in schema:
        issues.append(_unrecognized(extra))
    if issues:
        raise invalid(name, issues)
    return fitted


def validate_answer(name: str, schema: Schema, arguments: dict[str, Any]) -> dict[str, Any]:
    """The same for the input a permission handler sent back; what it added is dropped."""
    fitted = {key: _converted(schema.get(key), value) for key, value in arguments.items()}
    issues = _fields_issues(schema, fitted, ())
    if issues:
        raise ToolFailure(
            f"<tool_use_error>The permission handler returned updatedInput for {name} that failed "
            f"schema validation: {_words(name, issues)}\n{_OF_HANDLER}</tool_use_error>",
            result="InputValidationError: permission handler updatedInput failed schema for "
            f"{name}",
        )
    return {key: value for key, value in fitted.items() if key in schema or "*" in schema}


def invalid(name: str, issues: list[Issue]) -> ToolFailure:
    """A call whose arguments do not fit."""
    return ToolFailure(
        f"<tool_use_error>InputValidationError: {_words(name, issues)}</tool_use_error>",
        result=f"InputValidationError: {_listing(issues)}",
    )


def kind_of(value: object) -> str:
    """The CLI's name for the type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _converted(expected: Parameter | None, value: Any) -> Any:
    if expected is None or not isinstance(value, str):
        return value
    if expected.kind == "boolean":
        return {"true": True, "false": False}.get(value, value)
    return _number(value) if expected.kind == "number" else value


def _number(value: str) -> Any:
    try:
        number = float(value)
    except ValueError:
        return value
    return int(number) if number.is_integer() else number


def _fields_issues(schema: Schema, values: dict[str, Any], path: Where) -> list[Issue]:
    issues: list[Issue] = []
    for key, expected in schema.items():
        if key in values:
            issues += _value_issues(expected, values[key], (*path, key))
        elif expected.required:
            issues.append(_missing(expected, (*path, key)))
    return issues


def _value_issues(expected: Parameter, value: Any, path: Where) -> list[Issue]:
    if expected.choices:
        return [] if value in expected.choices else [_no_choice(expected, path)]
    received = kind_of(value)
    if expected.kind == "any":
        return []
    if received != {"record": "object"}.get(expected.kind, expected.kind):
        return [_wrong(expected.kind, received, path)]
    if expected.url and "://" not in str(value):
        return [_issue("invalid_format", path, "Invalid URL", format="url")]
    return [*_inner_issues(expected, value, path), *_size_issues(expected, value, path)]


def _inner_issues(expected: Parameter, value: Any, path: Where) -> list[Issue]:
    issues: list[Issue] = []
    if isinstance(value, list) and expected.fields is not None:
        entry = Parameter(kind="object", fields=expected.fields)
        for at, inner in enumerate(cast("list[Any]", value)):
            issues += _value_issues(entry, inner, (*path, at))
    elif isinstance(value, dict):
        inside = cast("dict[str, Any]", value)
        issues += _fields_issues(expected.fields or {}, inside, path)
        for key, inner in inside.items():
            if expected.values and kind_of(inner) not in expected.values:
                issues.append(_wrong(expected.values[0], kind_of(inner), (*path, key)))
    return issues


def _size_issues(expected: Parameter, value: Any, path: Where) -> list[Issue]:
    if not isinstance(value, (list, str)):
        return []
    size = len(cast("list[Any] | str", value))
    if expected.most and size > expected.most:
        return [_size(expected, "too_big", "maximum", expected.most, path)]
    if size < expected.least:
        return [_size(expected, "too_small", "minimum", expected.least, path)]
    return []


def _missing(expected: Parameter, path: Where) -> Issue:
    if expected.choices:
        return _no_choice(expected, path)
    return _wrong(expected.kind, "undefined", path)


def _issue(code: str, path: Where, message: str, **first: Any) -> Issue:
    return {"code": code, **first, "path": list(path), "message": message}


def _wrong(expected: str, received: str, path: Where) -> Issue:
    message = f"Invalid input: expected {expected}, received {received}"
    return {"expected": expected, **_issue("invalid_type", path, message)}


def _no_choice(expected: Parameter, path: Where) -> Issue:
    options = "|".join(f'"{choice}"' for choice in expected.choices)
    message = f"Invalid option: expected one of {options}"
    return _issue("invalid_value", path, message, values=list(expected.choices))


def _unrecognized(keys: list[str]) -> Issue:
    names = ", ".join(f'"{key}"' for key in keys)
    message = f"Unrecognized key{'s' if len(keys) > 1 else ''}: {names}"
    return _issue("unrecognized_keys", (), message, keys=keys)


def _size(expected: Parameter, code: str, limit: str, count: int, path: Where) -> Issue:
    word, sign = ("big", "<=") if code == "too_big" else ("small", ">=")
    noun = "items" if expected.kind == "array" else "characters"
    message = f"Too {word}: expected {expected.kind} to have {sign}{count} {noun}"
    more = {limit: count, "inclusive": True}
    return {"origin": expected.kind, **_issue(code, path, message, **more)}


def _words(name: str, issues: list[Issue]) -> str:
    lines = _sentences(issues)
    if not lines:
        return _listing(issues)
    noun = "issue" if len(lines) == 1 else "issues"
    return "\n".join([f"{name} failed due to the following {noun}:", *lines])


def _listing(issues: list[Issue]) -> str:
    return msgspec.json.format(msgspec.json.encode(issues), indent=2).decode()


def _sentences(issues: list[Issue]) -> list[str]:
    """The issues in words; the CLI has none for wrong choices and sizes."""
    missing = [issue for issue in issues if _received(issue) == "undefined"]
    wrong = [issue for issue in issues if _received(issue) not in ("", "undefined")]
    extra = [key for issue in issues for key in issue.get("keys", ())]
    return [
        *(f"The required parameter `{_where(issue)}` is missing" for issue in missing),
        *(f"An unexpected parameter `{key}` was provided" for key in extra),
        *(
            f"The parameter `{_where(issue)}` type is expected as `{issue['expected']}` "
            f"but provided as `{_received(issue)}`"
            for issue in wrong
        ),
    ]


def _received(issue: Issue) -> str:
    if issue["code"] != "invalid_type":
        return ""
    return str(issue["message"]).rsplit(" ", 1)[-1]


def _where(issue: Issue) -> str:
    where = ""
    for part in issue["path"]:
        where += f"[{part}]" if isinstance(part, int) else f".{part}" if where else str(part)
    return where
