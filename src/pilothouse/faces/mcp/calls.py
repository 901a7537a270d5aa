"""The arguments of the tools, checked; an error says how a model can correct them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import FieldInfo, fields

from pilothouse.api.answers import OwnUpdate
from pilothouse.errors import UsageError

from .tools import LINES, MOST_IMAGES, MOST_LINES, MOST_SESSIONS, SESSIONS, TOOLS, WAIT_S

__all__ = [
    "CALLS",
    "Call",
    "ControlCall",
    "InterruptCall",
    "ListCall",
    "Mode",
    "RespondCall",
    "SayCall",
    "StartCall",
    "StatusCall",
    "read",
]

Mode = Literal["default", "acceptEdits", "plan", "bypassPermissions", "auto", "dontAsk"]
Text = Annotated[str, Meta(min_length=1)]
Id = Annotated[str, Meta(min_length=1, max_length=256)]
MOST: Final = (1 << 63) - 1
"""No cursor is beyond."""
Wait = Annotated[float, Meta(ge=0, le=WAIT_S)]
Dollars = Annotated[float, Meta(gt=0)]
Thinking = Annotated[int, Meta(ge=0, le=2**31)]
Images = Annotated[list[Text], Meta(max_length=MOST_IMAGES)]
Action = Literal["set", "compact", "rewind", "cancel", "stop"]


def _no_images() -> Images:
    return []


class Call(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The arguments of one tool."""


class StartCall(Call, frozen=True):
    prompt: Text
    working_directory: Text | UnsetType = UNSET
    model: Text | UnsetType = UNSET
    permission_mode: Mode | UnsetType = UNSET
    allowed_tools: list[str] | UnsetType = UNSET
    disallowed_tools: list[str] | UnsetType = UNSET
    max_turns: Annotated[int, Meta(ge=1, le=MOST)] | UnsetType = UNSET
    max_budget_usd: Dollars | UnsetType = UNSET
    session_cap_usd: Dollars | UnsetType = UNSET
    system_prompt: Text | UnsetType = UNSET
    thinking_tokens: Thinking | UnsetType = UNSET
    images: Images = field(default_factory=_no_images)
    json_schema: dict[str, Any] | UnsetType = UNSET
    dangerously_skip_permissions: bool = False
    wait_seconds: Wait = 0


class SayCall(Call, frozen=True):
    session_id: Id
    message: Text
    images: Images = field(default_factory=_no_images)
    permission_mode: Mode | UnsetType = UNSET
    fork: bool = False
    fork_before: Id | UnsetType = UNSET
    wait_seconds: Wait = 0


class StatusCall(Call, frozen=True):
    session_id: Id
    output_lines: Annotated[int, Meta(ge=0, le=MOST_LINES)] = LINES
    after: Annotated[int, Meta(ge=0, le=MOST)] | UnsetType = UNSET
    wait_seconds: Wait = 0


class RespondCall(Call, frozen=True):
    session_id: Id
    id: Id
    answers: Annotated[list[str], Meta(min_length=1)]
    updated_input: dict[str, Any] | UnsetType = UNSET
    updated_permissions: list[OwnUpdate] = field(default_factory=list[OwnUpdate])
    plan: Text | UnsetType = UNSET
    images: Images = field(default_factory=_no_images)
    notes: dict[str, str] = field(default_factory=dict[str, str])
    wait_seconds: Wait = 0


class InterruptCall(Call, frozen=True):
    session_id: Id


class ControlCall(Call, frozen=True):
    session_id: Id
    action: Action
    model: Text | UnsetType = UNSET
    thinking_tokens: Thinking | UnsetType = UNSET
    permission_mode: Mode | UnsetType = UNSET
    instructions: Text | UnsetType = UNSET
    message_id: Id | UnsetType = UNSET
    preview: bool = False


class ListCall(Call, frozen=True):
    working_directory: Text | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=MOST_SESSIONS)] = SESSIONS


CALLS: Final[Mapping[str, type[Call]]] = {
    "claude_start": StartCall,
    "claude_say": SayCall,
    "claude_status": StatusCall,
    "claude_respond": RespondCall,
    "claude_interrupt": InterruptCall,
    "claude_control": ControlCall,
    "claude_list": ListCall,
}


def read(name: str, arguments: Mapping[str, Any]) -> Call:
    """Return the call of this tool with these arguments; null counts as left out."""
    kind = CALLS[name]
    given = {key: _whole(value) for key, value in arguments.items() if value is not None}
    if wrong := [*_unknown(kind, given), *_missing(kind, given)]:
        raise UsageError(f"{name}: {'; '.join(wrong)}")
    try:
        call = msgspec.convert(given, kind)
        msgspec.json.encode(given)
        return call
    except UnicodeEncodeError:
        raise UsageError(f"{name}: a text has half of a character in it; leave it out") from None
    except msgspec.ValidationError as error:
        raise UsageError(f"{name}: {_told(name, str(error))}") from None


def _whole(value: Any) -> Any:
    """Return 5 for 5.0: JSON does not distinguish them."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _parameters(kind: type[Call]) -> dict[str, FieldInfo]:
    return {each.encode_name: each for each in fields(kind)}


def _unknown(kind: type[Call], given: Mapping[str, Any]) -> list[str]:
    known = _parameters(kind)
    return [_no_such(name, list(known)) for name in given if name not in known]


def _no_such(name: str, known: list[str]) -> str:
    shown = repr(name[:100])
    near = _near(name, known)
    if near is not None:
        return f"there is no parameter {shown}; did you mean {near!r}?"
    return f"there is no parameter {shown}; there are {', '.join(known)}"


def _near(name: str, known: list[str]) -> str | None:
    plain = {each.lower(): each for each in known}
    wanted = name[:100].replace("_", "").replace("-", "").lower()
    found = difflib.get_close_matches(wanted, plain, n=1)
    return plain[found[0]] if found else None


def _missing(kind: type[Call], given: Mapping[str, Any]) -> list[str]:
    needed = [name for name, each in _parameters(kind).items() if each.required]
    return [f"the parameter {name!r} is missing" for name in needed if name not in given]


def _told(tool: str, error: str) -> str:
    """Rewrite an error of msgspec: which parameter, what is wrong, what it takes."""
    what, _, where = error.replace("`", "").partition(" - at ")
    parameter = where.removeprefix("$.")
    schema = _SCHEMAS[tool].get(parameter.partition("[")[0])
    takes = f"; it takes {_takes(schema)}" if schema else ""
    return f"{parameter or 'the arguments'}: {what[:1].lower()}{what[1:]}{takes}"


_SCHEMAS: Final = {each["name"]: each["inputSchema"]["properties"] for each in TOOLS}


def _takes(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    if schema["type"] == "array":
        kind = schema["items"]["type"]
        return f"a list of {kind}s{_SUCH_AS.get(kind, '')}"
    least, most = schema.get("minimum"), schema.get("maximum")
    bounds = f" from {least} to {most}" if most is not None else ""
    return f"{_A[schema['type']]}{bounds}"


_SUCH_AS: Final = {"string": ', such as ["allow"]'}
_A: Final = {
    "string": "a string that is not empty",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "object": "an object",
}
