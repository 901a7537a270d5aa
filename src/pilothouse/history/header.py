"""What the beginning and the end of a transcript have about its session."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from msgspec import Struct

from .lines import Line, completed, decoded, prompt_of, reply_of, shortened

__all__ = ["WINDOW", "Header", "header_of"]

WINDOW: Final = 64 * 1024
"""How much of either end is read."""

_WITH_A_PERSON: Final = frozenset({"cli", "claude-vscode", "claude-desktop", "claude-desktop-3p"})
"""Entry points of sessions that a person sits at; programs have `sdk-cli`, `sdk-py`, ..."""
_CONVERSATION: Final = frozenset({"user", "assistant"})
_PLACE: Final = re.compile(
    rb'"cwd":("(?:[^"\\]|\\.)*+"),"sessionId":"[^"\\]*"'
    rb'(?:,"version":("[^"\\]*"))?(?:,"gitBranch":("(?:[^"\\]|\\.)*+"))?'
)
"""How the CLI ends its lines. Within a string the quotes would be escaped."""


class Header(Struct, frozen=True, array_like=True, gc=False):
    """What is known of a session by its transcript alone."""

    cwd: str | None = None
    title: str = ""
    first_prompt: str = ""
    created_at: int | None = None
    interactive: bool | None = None
    """None: it is not in the transcript."""
    branch: str | None = None
    version: str | None = None
    is_sidechain: bool = False
    is_talk: bool = False
    """Somebody said something in it, perhaps where it was not read."""
    model: str | None = None
    """The one that spoke last, and the last line of what it said, as far as the ends have it."""
    last_line: str = ""


class _Beginning(Struct):
    prompt: str = ""
    command: str = ""
    enqueued: str = ""
    cwd: str | None = None
    created_at: int | None = None
    entrypoint: str | None = None
    is_sidechain: bool | None = None
    lines: int = 0

    def take(self, line: Line) -> bool:
        """Take in one more line; return whether nothing is missing any more."""
        self.lines += bool(line.type)
        self._take_prompt(line)
        self.cwd = self.cwd or line.cwd
        self.entrypoint = self.entrypoint or line.entrypoint
        if self.created_at is None:
            self.created_at = _milliseconds(line.timestamp)
        if self.is_sidechain is None and line.type in _CONVERSATION:
            self.is_sidechain = line.is_sidechain
        return bool(self.prompt and self.cwd and self.created_at and self.entrypoint)

    def _take_prompt(self, line: Line) -> None:
        prompt, command = prompt_of(line)
        if line.type == "user":
            self.prompt = self.prompt or prompt
        else:
            self.enqueued = self.enqueued or prompt
        self.command = self.command or command

    @property
    def first_prompt(self) -> str:
        # What was enqueued is said again in a line of its own, unless that lies behind the window.
        return self.prompt or self.enqueued or self.command


def header_of(head: bytes, tail: bytes) -> Header | None:
    """Return what the ends of a transcript have; `tail` is empty where `head` is all there is.

    None if there is no line of a transcript in it.
    """
    begun = _Beginning()
    any(begun.take(line) for line in _lines(head, is_cut=bool(tail)))
    ends = [tail, head] if tail else [head]
    last = next(_with(ends, b'"cwd"', _is_placed), None)
    if not begun.lines and last is None and next(_with(ends, b'"type"', _is_typed), None) is None:
        return None
    return _header(begun, ends, last or _place(ends))


def _header(begun: _Beginning, ends: list[bytes], last: Line | None) -> Header:
    first = begun.first_prompt or (_later_prompt(ends[0]) if len(ends) > 1 else "")
    model, last_line = _last_reply(ends)
    entrypoints = {begun.entrypoint, last.entrypoint if last else None} - {None}
    return Header(
        cwd=begun.cwd or (last.cwd if last else None),
        title=_title(ends) or first,
        first_prompt=first,
        created_at=begun.created_at,
        interactive=not entrypoints.isdisjoint(_WITH_A_PERSON) if entrypoints else None,
        branch=_branch(last),
        version=last.version if last else None,
        is_sidechain=bool(begun.is_sidechain),
        is_talk=bool(first)
        or (len(ends) > 1 and any(b'"type":"assistant"' in end for end in ends)),
        model=model or None,
        last_line=last_line,
    )


def _last_reply(ends: list[bytes]) -> tuple[str, str]:
    """The model that spoke last, and the last line that it wrote."""
    newest = ""
    for line in _with(ends, b'"type":"assistant"', _is_reply):
        model, words = reply_of(line)
        newest = newest or model
        if words:
            return newest, words
    return newest, ""


def _branch(line: Line | None) -> str | None:
    # Outside a repository the CLI writes HEAD.
    return line.git_branch if line and line.git_branch not in ("", "HEAD") else None


# Titles


def _title(ends: list[bytes]) -> str:
    """What the person called it, what the model called it, what was last said in it."""
    return (
        _newest(ends, b'"customTitle"', lambda line: line.custom_title)
        or _newest(ends, b'"aiTitle"', lambda line: line.ai_title)
        or _newest(ends, b'"lastPrompt"', lambda line: line.last_prompt)
        or _newest(
            ends, b'"summary"', lambda line: line.summary if line.type == "summary" else None
        )
    )


def _newest(ends: list[bytes], key: bytes, member: Callable[[Line], str | None]) -> str:
    """The member where it was last set; an empty one takes a title back."""
    found = _with(ends, key, lambda line: member(line) is not None)
    return shortened(next((member(line) or "" for line in found), ""))


# Lines


def _lines(head: bytes, *, is_cut: bool) -> Iterator[Line]:
    start = 0
    while (end := head.find(b"\n", start)) >= 0:
        if line := decoded(head[start:end]):
            yield line
        start = end + 1
    rest = head[start:]
    if line := decoded(completed(rest) if is_cut and rest else rest):
        yield line


def _with(ends: list[bytes], key: bytes, accept: Callable[[Line], bool]) -> Iterator[Line]:
    """The lines that have a member, newest first."""
    for data in ends:
        at = len(data)
        while (at := data.rfind(key, 0, at)) >= 0:
            start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
            line = decoded(data[start : end if end >= 0 else len(data)])
            if line is not None and accept(line):
                yield line
            at = start


def _is_typed(line: Line) -> bool:
    return bool(line.type)


def _is_reply(line: Line) -> bool:
    return line.type == "assistant" and not line.is_sidechain


def _is_placed(line: Line) -> bool:
    return bool(line.type and line.cwd)


def _later_prompt(tail: bytes) -> str:
    begun = _Beginning()
    any(begun.take(line) for line in _lines(tail, is_cut=False))
    return begun.first_prompt


def _place(ends: list[bytes]) -> Line | None:
    """Where a session is by the remains of lines that are longer than what was read."""
    for data in ends:
        if found := list(_PLACE.finditer(data)):
            names = (b'"cwd":', b'"version":', b'"gitBranch":')
            pairs = zip(names, found[-1].groups(), strict=True)
            return decoded(b"{" + b",".join(name + value for name, value in pairs if value) + b"}")
    return None


def _milliseconds(timestamp: str | None) -> int | None:
    try:
        at = datetime.fromisoformat(timestamp or "").timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return int(at * 1000) if at > 0 else None
