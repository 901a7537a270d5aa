"""The folders that a command line opens to its CLI beside the one it works in.

    --add-dir=DIR, --add-dir DIR DIR                     folders
    --settings=JSON|FILE, --managed-settings=JSON|FILE   permissions.additionalDirectories

A word is taken for such a folder rather too often than too seldom: the CLI takes more than one
after `--add-dir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["SettingsUnreadable", "readings", "wished"]

FOLDERS: Final = "--add-dir"
SETTINGS: Final = frozenset({"--settings", "--managed-settings"})
BLANK: Final = " \t\r\n\ufeff"
LONGEST: Final = 16 * 1024 * 1024
"""A file of settings that is longer is none."""


class SettingsUnreadable(Exception):
    """Settings of which nobody can tell what they open; the text says why."""


class _Permissions(msgspec.Struct, rename="camel"):
    additional_directories: list[str] | None = None


class _Settings(msgspec.Struct):
    permissions: _Permissions | None = None


def wished(argv: Sequence[str], cwd: Path, files: Mapping[str, str]) -> Iterator[str]:
    """The folders as they are written there; raises `SettingsUnreadable`.

    `files` has the texts of those that came along with the order, by the path `argv` has.
    """
    for flag, value, is_joined in _values(argv):
        if flag == FOLDERS:
            yield value
        elif flag in SETTINGS and value.strip():
            # Only there does a file of ours take the place of the server's.
            text = files.get(value) if is_joined else None
            yield from _of_settings(value if text is None else text, cwd, is_text=text is not None)


def _values(argv: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    """Each flag with each value it may get, and whether both are one word."""
    flag, is_due = "", False
    for word in argv:
        is_flag = word.startswith("-") and word != "-"
        # A value that has to come may look like a flag.
        if is_due or (flag == FOLDERS and not is_flag):
            yield flag, word, False
        is_due = False
        if is_flag:
            flag, given, value = word.partition("=")
            is_due = not given
            if given:
                yield flag, value, True


def _of_settings(value: str, cwd: Path, *, is_text: bool) -> list[str]:
    is_json = value.strip(BLANK).startswith("{")
    text = value if is_text or is_json else _read(cwd / value)
    try:
        settings = msgspec.json.decode(text.strip(BLANK), type=_Settings)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise SettingsUnreadable(f"the session's settings cannot be read: {error}") from None
    permissions = settings.permissions
    return (permissions.additional_directories or []) if permissions else []


def _read(file: Path) -> str:
    try:
        if not file.is_file() or file.stat().st_size > LONGEST:
            raise SettingsUnreadable(f"{file} is no file of settings")
        return file.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise SettingsUnreadable(f"the session's settings {file} cannot be read: {error}") from None


def readings(written: str, cwd: Path, home: Path) -> Iterator[Path]:
    """What a folder as it is written may mean: a CLI trims it, and knows `~`."""
    yield cwd / written
    trimmed = written.strip()
    yield cwd / trimmed
    if trimmed == "~" or trimmed.startswith("~/"):
        yield home / trimmed[1:].lstrip("/")
