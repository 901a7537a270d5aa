"""What settings take: each kind in words, and as a function that says no with ValueError."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from pilothouse.errors import SettingError

__all__ = [
    "ORIGINS",
    "PATH",
    "PATHS",
    "PROGRAM",
    "SWITCH",
    "TEXT",
    "URL",
    "WORDS",
    "Around",
    "ValueKind",
    "claude_folder",
    "in_config",
    "number",
    "one_of",
    "optional",
    "runtime_folder",
    "state_folder",
    "whole",
]

YES: Final = ("1", "true", "yes", "on")
NO: Final = ("0", "false", "no", "off")


class Around(NamedTuple):
    """What a value may refer to: the environment, and the folder relative paths start from."""

    env: Mapping[str, str]
    folder: Path


class ValueKind(NamedTuple):
    """What a setting takes, in words and as a function that raises ValueError."""

    allowed: str
    parse: Callable[[Any, Around], Any]
    write: Callable[[Any], str] = str
    """The value as a variable's text."""


def whole(least: int, most: int | None = None) -> ValueKind:
    allowed = f"a whole number of {least} or more" if most is None else f"{least} to {most}"

    def parse(raw: Any, _: Around) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int | str):
            raise ValueError(raw)
        return _within(int(raw), least, most)

    return ValueKind(allowed, parse)


def number(least: float) -> ValueKind:
    def parse(raw: Any, _: Around) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float | str):
            raise ValueError(raw)
        return _within(float(raw), least, None)

    return ValueKind(f"a number of {least:g} or more", parse)


def _within(value: Any, least: float, most: float | None) -> Any:
    # Not `value < least`: a NaN is neither.
    if not value >= least or value == float("inf") or (most is not None and value > most):
        raise ValueError(value)
    return value


def optional(kind: ValueKind) -> ValueKind:
    def parse(raw: Any, around: Around) -> Any:
        return None if raw == "none" else kind.parse(raw, around)

    def write(value: Any) -> str:
        return "none" if value is None else kind.write(value)

    return ValueKind(f'{kind.allowed}, or "none"', parse, write)


def _parse_switch(raw: Any, _: Around) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.lower() in YES + NO:
        return raw.lower() in YES
    raise ValueError(raw)


def _write_switch(value: Any) -> str:
    return str(value).lower()


def one_of(*words: str, **also: str) -> ValueKind:
    """One of these words; `also` are others that mean one of them."""

    def parse(raw: Any, _: Around) -> str:
        word = raw.lower() if isinstance(raw, str) else ""
        if word in words or word in also:
            return also.get(word, word)
        raise ValueError(raw)

    return ValueKind(_or(words), parse)


def _parse_text(raw: Any, _: Around) -> str:
    if not isinstance(raw, str) or not raw.strip() or not raw.isprintable():
        raise ValueError(raw)
    return raw.strip()


def _parse_path(raw: Any, around: Around) -> Path:
    """Absolute, so that it means the same to a process started elsewhere."""
    text = str(raw) if isinstance(raw, Path) else raw
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError(raw)
    if text == "~" or text.startswith("~/"):
        return _home(around.env) / text[2:]
    return around.folder / text


def _parse_program(raw: Any, around: Around) -> str:
    """A path; a name without a slash is looked for on PATH."""
    if isinstance(raw, str) and raw and "/" not in raw and raw != "~":
        return raw
    return str(_parse_path(raw, around))


def _parse_url(raw: Any, around: Around) -> str:
    text = _parse_text(raw, around)
    if not re.match(r"https?://[^/]", text):
        raise ValueError(raw)
    return text


def _parse_origin(raw: Any, around: Around) -> str:
    text = _parse_text(raw, around)
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s]+", text, re.IGNORECASE):
        raise ValueError(raw)
    return text.lower()


def _parse_root(raw: Any, around: Around) -> Path:
    path = _parse_path(raw, around)
    if ":" in str(path):
        raise ValueError(raw)
    return path


def _list(allowed: str, separator: str, item: Callable[[Any, Around], Any]) -> ValueKind:
    def parse(raw: Any, around: Around) -> tuple[Any, ...]:
        if isinstance(raw, str):
            raw = [each.strip() for each in raw.split(separator) if each.strip()]
        if not isinstance(raw, list | tuple):
            raise ValueError(raw)
        return tuple(item(each, around) for each in cast("Sequence[Any]", raw))

    def write(values: Sequence[Any]) -> str:
        return separator.join(map(str, values))

    return ValueKind(
        f'a list of {allowed} (in a variable: with "{separator}" between)', parse, write
    )


SWITCH: Final = ValueKind("true or false", _parse_switch, _write_switch)
TEXT: Final = ValueKind("a text", _parse_text)
PATH: Final = ValueKind("a path", _parse_path)
PROGRAM: Final = ValueKind("a path, or a name on PATH", _parse_program)
URL: Final = ValueKind("an http or https URL", _parse_url)
PATHS: Final = _list("paths without a colon", ":", _parse_root)
ORIGINS: Final = _list("origins like https://example.com", ",", _parse_origin)
WORDS: Final = _list("names", ",", _parse_text)


def _or(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


# Places


def _home(env: Mapping[str, str]) -> Path:
    """The user's folder as the environment has it; the system's list of users is not asked."""
    home = env.get("HOME", "")
    if not home.startswith("/"):
        raise SettingError("HOME is not set to an absolute path; set it, or set every folder")
    return Path(home)


def _base(env: Mapping[str, str], variable: str, fallback: str) -> Path:
    """A folder of the XDG base directory specification, which says to ignore relative ones."""
    given = env.get(variable, "")
    return Path(given) if given.startswith("/") else _home(env) / fallback


def in_config(name: str) -> Callable[[Mapping[str, str]], Path]:
    return lambda env: _base(env, "XDG_CONFIG_HOME", ".config") / "pilothouse" / name


def state_folder(env: Mapping[str, str]) -> Path:
    return _base(env, "XDG_STATE_HOME", ".local/state") / "pilothouse"


def runtime_folder(env: Mapping[str, str], state: Path) -> Path:
    given = env.get("XDG_RUNTIME_DIR", "")
    return Path(given) / "pilothouse" if given.startswith("/") else state / "run"


def claude_folder(env: Mapping[str, str]) -> Path:
    return _home(env) / ".claude"
