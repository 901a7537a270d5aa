"""Takes command lines apart, as far as the tools need it."""

from __future__ import annotations

import re

__all__ = ["is_reading", "segments"]

_OPERATORS = re.compile(r"&&|\|\||;|\||&(?!>)|\n")
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|>&\d?|<<-?\s*\w+")
_READING = re.compile(
    r"(basename|cat|cd|cut|date|diff|dirname|du|echo|false|file|find|grep|head|hostname|id|ls|printf"
    r"|pwd|readlink|rg|sleep|sort|stat|tail|test|tr|true|uname|uniq|wc|which|whoami)$"
)
_READING_GIT = frozenset(("blame", "branch", "diff", "log", "show", "status"))


def segments(command: str) -> list[str]:
    """The simple commands of a command line, in order."""
    blind = _QUOTED.sub(lambda found: "x" * len(found.group()), command)
    parts: list[str] = []
    start = 0
    for found in _OPERATORS.finditer(blind):
        parts.append(command[start : found.start()])
        start = found.end()
    parts.append(command[start:])
    return [stripped for segment in parts if (stripped := segment.strip())]


def is_reading(command: str) -> bool:
    """Whether a command changes nothing, so that others may run beside it."""
    simple = segments(command)
    blind = _QUOTED.sub("", command)
    return bool(simple) and ">" not in blind and all(_reads(part.split()) for part in simple)


def _reads(words: list[str]) -> bool:
    if words[0] == "git":
        return len(words) > 1 and words[1] in _READING_GIT
    return _READING.match(words[0]) is not None
