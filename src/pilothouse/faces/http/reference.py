"""The tables of operations in the reference page, made from the table of operations.

    python -m pilothouse.faces.http.reference docs/reference-http.md

writes them anew, each between its two comments:

    <!-- operations: sessions -->       the operations with these tags
    <!-- problems of operations -->     what each may be refused with
    <!-- end -->
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import msgspec
from msgspec import Meta, structs

from pilothouse.api.answers import Answer
from pilothouse.api.operations import OPERATIONS, Operation
from pilothouse.api.problems import STATUSES
from pilothouse.api.values import JsonObject

__all__ = ["render"]

WORDS: Final[dict[Any, str]] = {
    Answer: "an [answer](howto-questions.md#all-answers)",
    JsonObject: "an object",
    list[JsonObject]: "a list of objects",
}
_part = re.compile(
    r"^<!-- (operations: (?P<tags>[\w ]+)|problems of operations) -->\n.*?^<!-- end -->$",
    re.MULTILINE | re.DOTALL,
)


def render(page: str) -> str:
    """The page with its tables as they have to be."""
    return _part.sub(_written, page)


def _written(part: re.Match[str]) -> str:
    table = _operations(part["tags"].split()) if part["tags"] else _problems()
    return f"<!-- {part[1]} -->\n{table}<!-- end -->"


def _operations(tags: list[str]) -> str:
    rows = [_operation(each) for tag in tags for each in OPERATIONS if each.tag == tag]
    return _table(["route", "`do`", "what", "takes", "gives"], rows)


def _operation(operation: Operation) -> list[str]:
    status = "" if operation.status == 200 else f"{operation.status} "
    ill = "" if operation.ill is None else f"; {operation.ill} if it is not `ok`"
    return [
        f"`{operation.method} {operation.path}`",
        f"`{operation.name}`",
        operation.summary,
        _takes(operation),
        f"{status}{_type(operation.result)}{ill}",
    ]


def _takes(operation: Operation) -> str:
    body = [] if operation.body is None else [_type(operation.body)]
    if operation.body_optional:
        body = [f"{body[0]}, or no body"]
    members = () if operation.query is None else structs.fields(operation.query)
    query = [f"{_name(each.name, first=not at)}{_limits(each)}" for at, each in enumerate(members)]
    return "; ".join([*body, ", ".join(query)] if query else body)


def _name(name: str, *, first: bool) -> str:
    return f"`?{name}`" if first else f"`{name}`"


def _limits(member: structs.FieldInfo) -> str:
    """The default of a parameter, and what else it may be."""
    default = _value(member.default)
    kinds = [each for each in (member.type, *get_args(member.type)) if get_origin(each) is Literal]
    choices = [f"`{each}`" for kind in kinds for each in get_args(kind) if each != member.default]
    if choices:
        return f" ({default}; {', '.join(choices)})"
    metas = [each for each in get_args(member.type) if isinstance(each, Meta)]
    most = [f"at most {each.le:,}" for each in metas if each.le is not None and each.le < 2**31]
    told = [each for each in (default, *most) if each]
    return f" ({', '.join(told)})" if told else ""


def _value(default: Any) -> str:
    if default is None or default is msgspec.NODEFAULT:
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    return f"`{default}`" if isinstance(default, str) else str(default)


def _type(kind: Any) -> str:
    if told := WORDS.get(kind):
        return told
    if get_origin(kind) is list:
        return f"a list of {_type(get_args(kind)[0])}"
    return f"`{kind.__name__}`"


def _problems() -> str:
    """Operations with the same problems stand together."""
    alike: dict[frozenset[str], list[str]] = {}
    for each in OPERATIONS:
        if each.errors:
            alike.setdefault(each.errors, []).append(f"`{each.name}`")
    rows = [
        [", ".join(names), ", ".join(f"{STATUSES[code]} `{code}`" for code in _in_order(codes))]
        for codes, names in alike.items()
    ]
    return _table(["operations", "problems"], rows)


def _in_order(codes: frozenset[str]) -> list[str]:
    return sorted(codes, key=lambda code: (STATUSES[code], code))


def _table(head: list[str], rows: list[list[str]]) -> str:
    rule = f"|{'---|' * len(head)}\n"
    first, *others = [f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in (head, *rows)]
    return "".join([first, rule, *others])


def _main(path: Path) -> None:
    path.write_text(render(path.read_text()))


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
