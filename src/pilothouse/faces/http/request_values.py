"""From a request to typed values, strictly: what does not fit is refused by the member's name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import parse_qsl

import msgspec

from pilothouse.api.codec import TooManyParts, check_parts
from pilothouse.api.operations import PARAMETERS, no_such
from pilothouse.api.problems import Wrong
from pilothouse.api.values import LONGEST_WORD

from .entrance import header
from .problems import Unacceptable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Scope

__all__ = ["IDEMPOTENCY_KEY", "check_path", "read_body", "read_query", "to_type", "with_key"]

IDEMPOTENCY_KEY: Final = "Idempotency-Key"

_patterns: Final = {
    name: re.compile(each.pattern.replace("$", r"\Z")) for name, each in PARAMETERS.items()
}
_at = re.compile(r"^(?P<what>.*?)(?: - at `(?P<where>[^`]*)`)?$", re.DOTALL)
_named = re.compile(r"(?:required|unknown) field `(?P<name>[^`]*)`")


def check_path(values: Mapping[str, str]) -> None:
    """Refuse an id that nothing can have, before it can mean anything to a file system."""
    for name, value in values.items():
        if _patterns[name].match(value) is None:
            raise no_such(name)


def read_query(query: bytes, kind: type[Any] | None) -> Any:
    """The parameters after the question mark."""
    given: dict[str, str] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name in given:
            _refuse("the query", [Wrong(name, "is given twice")])
        given[name] = value
    if kind is None:
        return _refuse_any(given)
    query = to_type(given, kind, "the query", strict=False)
    # Read leniently, the text "null" is nothing; but what is given is something.
    nothing = [Wrong(name, "is not such a value") for name in given if getattr(query, name) is None]
    if nothing:
        _refuse("the query", nothing)
    return query


def _refuse_any(given: Mapping[str, str]) -> None:
    if given:
        _refuse("the query", [Wrong(name, "is not known here") for name in given])


def read_body(scope: Scope, content: bytes, kind: Any) -> Any:
    """Return the body as this type."""
    _check_content_type(scope)
    try:
        check_parts(content)
        return msgspec.json.decode(content, type=kind)
    except TooManyParts as error:
        raise Unacceptable(
            422, "invalid", f"the body has {error}", advice="send less, or send it as text"
        ) from None
    except msgspec.ValidationError as error:
        _refuse("the body", [wrong_in(error, kind)])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unacceptable(
            400, "malformed", f"the body is no JSON: {error}", advice="send JSON in UTF-8"
        ) from None


def _check_content_type(scope: Scope) -> None:
    given = (header(scope, b"content-type") or "application/json").partition(";")[0].strip().lower()
    if given != "application/json":
        raise Unacceptable(
            415, "not-json", "the body is not JSON", advice="send `Content-Type: application/json`"
        )


def to_type(value: Any, kind: Any, where: str, *, strict: bool = True) -> Any:
    """A plain value as this type, or a refusal that names the member that is wrong."""
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        _refuse(where, [wrong_in(error, kind)])


def wrong_in(error: msgspec.ValidationError, kind: Any = None) -> Wrong:
    """Which member a validation error is about: `options.mode`, `answers[...]`, or none."""
    found = _at.match(str(error))
    what, where = (found["what"], found["where"] or "$") if found else (str(error), "$")
    member = where.removeprefix("$").removeprefix(".")
    if named := _named.search(what):
        member = f"{member}.{named['name']}" if member else named["name"]
    return Wrong(member, f"{what}{_hint(member, what, kind)}")


def _hint(member: str, what: str, kind: Any) -> str:
    """What was perhaps meant, where a member is in the wrong place or of the wrong shape."""
    if member == "answers" and "Expected `object`" in what:
        return "; give the text of each question and the label that is chosen for it"
    if "unknown field" not in what or not isinstance(kind, type):
        return ""
    members = msgspec.structs.fields(kind) if issubclass(kind, msgspec.Struct) else ()
    for each in members:
        if member in getattr(each.type, "__struct_fields__", ()):
            return f"; is `{each.encode_name}.{member}` meant?"
    return ""


def _refuse(where: str, wrong: list[Wrong]) -> NoReturn:
    said = "; ".join(
        f"{each.member}: {each.message}" if each.member else each.message for each in wrong
    )
    raise Unacceptable(
        422,
        "invalid",
        f"{where} cannot be taken: {said}",
        advice="see /openapi.json for what this path takes",
        wrong=tuple(wrong),
    )


def with_key(body: Any, key: str | None) -> Any:
    """The body with the key of the header, unless it has another one."""
    if key is None or body.key == key:
        return body
    if not 1 <= len(key) <= LONGEST_WORD:
        raise Unacceptable(
            422,
            "invalid",
            f"{IDEMPOTENCY_KEY} has 1 to {LONGEST_WORD} characters",
            advice="shorten it",
        )
    if body.key is not None:
        raise Unacceptable(
            409,
            "two-keys",
            f"the body's `key` and the header {IDEMPOTENCY_KEY} differ",
            advice="send one of them",
        )
    return msgspec.structs.replace(body, key=key)
