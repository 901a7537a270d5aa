"""One line of a transcript, also a damaged one or the beginning of a long one."""

from __future__ import annotations

import re
from typing import Final, TypeVar

import msgspec
from msgspec import Raw, Struct

__all__ = ["Line", "completed", "decoded", "prompt_of", "reply_of", "shortened"]

T = TypeVar("T")

_SHOWN: Final = 200
_DEPTH: Final = 100


class Line(Struct, rename="camel", frozen=True, gc=False):
    """The members of a line that describe its session."""

    type: str = ""
    is_sidechain: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False
    prompt_source: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    version: str | None = None
    git_branch: str | None = None
    entrypoint: str | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    last_prompt: str | None = None
    summary: str | None = None
    operation: str | None = None
    content: Raw = Raw()
    message: Raw = Raw()


class _Block(Struct, frozen=True, gc=False):
    type: str = ""
    text: str = ""


_Content = str | list[_Block]


class _Message(Struct, frozen=True, gc=False):
    content: _Content = ""
    model: str = ""


_LINE: Final = msgspec.json.Decoder(Line)
_MESSAGE: Final = msgspec.json.Decoder(_Message)
_CONTENT: Final = msgspec.json.Decoder(_Content)


def decoded(data: bytes) -> Line | None:
    """The line, or None if it is none."""
    return _tolerantly(_LINE, data) if data[:1] == b"{" else None


# Damage


_HALF_PAIR: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
"""Half of a character. JavaScript leaves one where it cuts a text by length."""


def _tolerantly(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T | None:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _repaired(decoder, bytes(data))
    except RecursionError:
        return None


def _repaired(decoder: msgspec.json.Decoder[T], data: bytes) -> T | None:
    text = _HALF_PAIR.sub(rb"\\ufffd", data.decode(errors="replace").encode())
    try:
        return decoder.decode(text) if text != data else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


# Lines that were cut


_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:(")|\\?\Z)|[\[\]{},:]', re.DOTALL)
_UNCUT: Final = re.compile(rb'"(?:[^"\\]++|\\u[0-9a-fA-F]{4}|\\[^u])*+', re.DOTALL)
"""A string up to its end, or up to the escape in which it was cut."""


def completed(beginning: bytes) -> bytes:
    """The JSON that the beginning of an object amounts to: what was open is closed."""
    closers, before, end, closing = b"", b"", 0, b""
    for token in _TOKEN.finditer(beginning):
        mark = token[0][:1]
        if mark == b'"' and token[1] is None and _is_value(before, closers):
            cut = _UNCUT.match(beginning, token.start())
            return beginning[: cut.end() if cut else 0] + b'"' + closers
        if mark in b"{[":
            closers = (b"}" if mark == b"{" else b"]") + closers
        elif mark in b"}]":
            closers = closers[1:]
        if mark in b"{[}],":
            end, closing = (token.start() if mark == b"," else token.end()), closers
        if len(closers) > _DEPTH:
            break
        before = mark
    return beginning[:end] + closing


def _is_value(before: bytes, closers: bytes) -> bool:
    return before == b":" or (before in b"[," and closers[:1] == b"]")


# What a person said


_MACHINE_MADE: Final = re.compile(
    r"<(?:local-command-(?:stdout|stderr|caveat)|bash-std(?:out|err)|session-start-hook"
    r"|task-notification|system-reminder|tick|goal)>"
    r"|\[Request interrupted by user"
    r"|<(ide_opened_file|ide_selection)>.*</\1>$",
    re.DOTALL,
)
_COMMAND: Final = re.compile(r"<command-name>(.*?)</command-name>", re.DOTALL)


def prompt_of(line: Line) -> tuple[str, str]:
    """The prompt in a line, and the command in it: at most one of them is more than empty."""
    if line.type == "queue-operation" and line.operation == "enqueue":
        return _told(_tolerantly(_CONTENT, line.content))
    made = line.is_meta or line.is_compact_summary or line.is_sidechain
    if line.type != "user" or made or line.prompt_source == "system":
        return "", ""
    message = _tolerantly(_MESSAGE, line.message)
    return _told(message.content if message else None)


def reply_of(line: Line) -> tuple[str, str]:
    """The model of a line of its own, and the last line of its text; empty where there is none.

    What the CLI says in a model's name has none.
    """
    message = _tolerantly(_MESSAGE, line.message)
    if message is None:
        return "", ""
    words = [text for text in _texts(message.content) if text]
    last = words[-1].rpartition("\n")[2] if words else ""
    return "" if message.model.startswith("<") else message.model, shortened(last)


def _told(content: _Content | None) -> tuple[str, str]:
    for text in _texts(content or ""):
        if command := _COMMAND.search(text):
            return "", shortened(command[1])
        if text and not _MACHINE_MADE.match(text):
            return shortened(text), ""
    return "", ""


def _texts(content: _Content) -> list[str]:
    if isinstance(content, str):
        return [content.strip()]
    if any(block.type == "tool_result" for block in content):
        return []
    return [block.text.strip() for block in content if block.type == "text"]


def shortened(text: str) -> str:
    """The text in one line, as much of it as a list shows."""
    words = " ".join(text[: 4 * _SHOWN].split())
    return words if len(words) <= _SHOWN else words[:_SHOWN].rstrip() + "…"
