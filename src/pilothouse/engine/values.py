"""What the options of a session may hold: what an operating system and a CLI can take.

A caller hears of a value that cannot be before anything is kept, and not from a session that never
starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pilothouse.api.requests import SessionOptions
from pilothouse.client.launch import ARGUMENT_LIMIT
from pilothouse.errors import InvalidOption
from pilothouse.protocol.strict import MAX_DEPTH, MOST_PARTS, TooManyParts, check_parts, is_deeper
from pilothouse.protocol.wire import as_object, encode_json

__all__ = ["check_values"]

LARGEST_NUMBER: Final = 2**31 - 1
LONGEST_ARGUMENT: Final = ARGUMENT_LIMIT - 1024
"""Bytes, with room for the flag or the name before it and the null byte after it."""
LARGEST_START: Final = 1024 * 1024
"""Bytes of all arguments and variables together; Linux takes twice as many, and some are ours."""
LARGEST_OBJECT: Final = 4 * 1024 * 1024
"""Bytes of settings, servers, agents or a schema as JSON: as much as of a settings file."""

MOST_LEVELS: Final = MAX_DEPTH - 2
"""Of arrays and objects: the journal stores them in a record, two levels further in."""


def check_values(wanted: SessionOptions) -> None:
    """Refuse numbers out of range, texts that are none, and what is too large; `InvalidOption`."""
    _check_number("max_turns", wanted.max_turns, 1)
    _check_number("max_thinking_tokens", wanted.max_thinking_tokens, 0)
    budget = wanted.max_budget_usd
    if budget is not None and not 0 < budget <= LARGEST_NUMBER:
        raise InvalidOption(f"max_budget_usd is above 0 and at most {LARGEST_NUMBER}, not {budget}")
    sizes = [_size(name, text) for name, text in _arguments(wanted)]
    sizes += _variables("env", wanted.env)
    _variables("settings.env", as_object(as_object(wanted.settings).get("env")))
    if sum(sizes) > LARGEST_START:
        raise InvalidOption(
            f"the options take {sum(sizes)} bytes as arguments and variables, and at most "
            f"{LARGEST_START} are possible; give fewer, or shorter ones"
        )
    _check_objects(wanted)


def _check_number(name: str, given: int | None, least: int) -> None:
    if given is not None and not least <= given <= LARGEST_NUMBER:
        raise InvalidOption(f"{name} is {least} to {LARGEST_NUMBER}, not {given}")


def _arguments(wanted: SessionOptions) -> Iterator[tuple[str, str]]:
    """What goes into a command line, by the name of its option."""
    yield "model", wanted.model or ""
    yield "fallback_model", wanted.fallback_model or ""
    yield "tools", ",".join(wanted.tools or ())
    yield "allowed_tools", ",".join(wanted.allowed_tools)
    yield "disallowed_tools", ",".join(wanted.disallowed_tools)
    for path in wanted.add_dirs:
        yield "add_dirs", path
    for flag, value in wanted.flags.items():
        yield f"flags[{flag[:64]!r}]", value or ""


def _variables(where: str, given: Mapping[str, Any]) -> list[int]:
    for name in given:
        if not name or "=" in name:
            raise InvalidOption(f"{where} has a name that no variable has: {name[:64]!r}")
        _size(f"a name in {where}", name)
    return [
        len(name) + _size(f"{where}[{name[:64]!r}]", value)
        for name, value in given.items()
        if isinstance(value, str)
    ]


def _size(where: str, text: str) -> int:
    size = len(_encoded(where, text))
    if size > LONGEST_ARGUMENT:
        raise InvalidOption(f"{where} has {size} bytes, and {LONGEST_ARGUMENT} are the most")
    return size


def _encoded(where: str, text: str) -> bytes:
    if "\0" in text:
        raise InvalidOption(f"{where} has a null byte, which no program can be given")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidOption(f"{where} has half of a surrogate pair, which is no text") from None


def _check_objects(wanted: SessionOptions) -> None:
    for name in ("system_prompt", "append_system_prompt"):
        _encoded(name, getattr(wanted, name) or "")
    for name in ("settings", "mcp_servers", "agents", "json_schema"):
        try:
            text = encode_json(getattr(wanted, name))
            check_parts(text)
            is_deep = is_deeper(text, MOST_LEVELS)
        except (RecursionError, TooManyParts):
            text, is_deep = b"", True
        if is_deep:
            raise InvalidOption(
                f"{name} is nested too deep, or has too many parts: at most {MOST_LEVELS} levels "
                f"and {MOST_PARTS} arrays and objects are taken; make it flatter"
            )
        if len(text) > LARGEST_OBJECT:
            raise InvalidOption(
                f"{name} has {len(text)} bytes as JSON, and {LARGEST_OBJECT} are the most"
            )
