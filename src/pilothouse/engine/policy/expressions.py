"""Regular expressions without backtracking.

Python's `re` can take forever for a short text (`(a+)+b`), and nothing else runs meanwhile. Here
an expression becomes an automaton of positions (Glushkov's): each character of a text is read
once, and the positions that can be reached are the bits of a number. What cannot be read that way,
looking around and referring back, is refused.

`^` and `$` are the start and the end of the text, never of a line in it. What stands for many
characters (`.`, `[^a]`, `\\s`, `\\W`, `\\D`) fits the end of a line only with DOTALL or `(?s)`: the
next line of a command is another command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from .effort import spend

__all__ = ["Expression"]

MOST_POSITIONS: Final = 1000
"""Characters and classes an expression may have, each repetition counted out."""
_STEP: Final = 8
"""What one step of ours costs, in those of `re`."""

_REPEAT: Final = re.compile(r"(?:[*+?]|\{(?=[^}])([0-9]*)(?:(,)([0-9]*))?\})(\+?)\??")
_OPENING: Final = re.compile(r"\((?:\?:|\?P<\w+>|(?!\?))")
_ONE: Final = re.compile(
    r"\[\^?\]?(?:\\.|[^\]\\])*\]"
    r"|\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[dDwWsSafnrtv]|[^A-Za-z0-9])"
    r"|[^\\()|^$*+?]",
    re.DOTALL,
)
_FLAGS: Final = re.compile(r"\(\?([is]+)\)")
_MANY: Final = re.compile(r"\.|\[\^|\[?(?:\\[^sDW]|[^\\])*\\[sDW]")
"""What stands for many characters, among them the ends of lines."""
_WITHIN_LINE: Final = r"(?![\n\r])"
_KNOWN: Final = "groups, |, classes, . and the repetitions * + ? {m,n}"


@dataclass(frozen=True, slots=True)
class _Node:
    kind: Literal["one", "all", "any", "many"]
    parts: tuple[_Node, ...] = ()
    one: re.Pattern[str] | None = None
    low: int = 1
    high: int | None = 1
    size: int = 0

    def __post_init__(self) -> None:
        if self.size > MOST_POSITIONS:
            raise ValueError(f"is too long: more than {MOST_POSITIONS} characters to be repeated")


_EMPTY: Final = _Node("all")


def _group(kind: Literal["all", "any"], parts: list[_Node]) -> _Node:
    return _Node(kind, tuple(parts), size=sum(part.size for part in parts))


@dataclass(slots=True)
class _Parser:
    """Reads what `re` has found to be right."""

    source: str
    flags: int
    at: int = 0

    def whole(self) -> _Node:
        node = self._any()
        if self.at < len(self.source):
            raise self._refusal()
        return node

    def _any(self) -> _Node:
        ways = [self._all()]
        while self._take("|"):
            ways.append(self._all())
        return _group("any", ways)

    def _all(self) -> _Node:
        parts: list[_Node] = []
        while self.at < len(self.source) and self.source[self.at] not in "|)":
            parts.append(self._repeated(self._one()))
        return _group("all", parts)

    def _one(self) -> _Node:
        if opening := _OPENING.match(self.source, self.at):
            self.at = opening.end()
            inner = self._any()
            self._take(")")
            return inner
        if (self.at == 0 and self._take("^")) or (self._is_last() and self._take("$")):
            return _EMPTY
        found = _ONE.match(self.source, self.at)
        if found is None:
            raise self._refusal()
        self.at = found.end()
        one = found[0]
        if _MANY.match(one) and not self.flags & re.DOTALL:
            one = _WITHIN_LINE + one
        return _Node("one", one=re.compile(one, self.flags), size=1)

    def _repeated(self, node: _Node) -> _Node:
        found = _REPEAT.match(self.source, self.at)
        if found is None:
            return node
        if found[4]:
            raise self._refusal()
        self.at = found.end()
        low, high = _times(found)
        if node.size == 0:
            return _EMPTY
        copies = max(low, 1) if high is None else high
        return _Node("many", (node,), low=low, high=high, size=node.size * copies)

    def _take(self, text: str) -> bool:
        taken = self.source.startswith(text, self.at)
        self.at += len(text) if taken else 0
        return taken

    def _is_last(self) -> bool:
        return self.at == len(self.source) - 1

    def _refusal(self) -> ValueError:
        what = self.source[self.at : self.at + 4]
        return ValueError(f"has {what!r} at {self.at}, which is not for a policy: only {_KNOWN}")


def _times(found: re.Match[str]) -> tuple[int, int | None]:
    """How often, at least and at most; None is without an end."""
    match found[0][0]:
        case "*":
            return 0, None
        case "+":
            return 1, None
        case "?":
            return 0, 1
        case _:
            low = int(found[1] or 0)
            upper = found[3] if found[2] else found[1]
            return low, int(upper) if upper else None


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the automaton: where it begins and ends, and whether it may be left out."""

    optional: bool = True
    first: int = 0
    last: int = 0


@dataclass(slots=True)
class _Automaton:
    tests: list[re.Pattern[str]] = field(default_factory=list[re.Pattern[str]])
    follow: list[int] = field(default_factory=list[int])

    def build(self, node: _Node) -> _Piece:
        match node.kind:
            case "one":
                return self._position(node)
            case "all":
                return self._joined(map(self.build, node.parts))
            case "any":
                ways = [self.build(part) for part in node.parts]
                return _Piece(
                    any(way.optional for way in ways),
                    sum(way.first for way in ways),
                    sum(way.last for way in ways),
                )
            case "many":
                return self._joined(self._copies(node))

    def _position(self, node: _Node) -> _Piece:
        assert node.one is not None
        bit = 1 << len(self.tests)
        self.tests.append(node.one)
        self.follow.append(0)
        return _Piece(False, bit, bit)

    def _joined(self, pieces: Iterator[_Piece]) -> _Piece:
        whole = _Piece()
        for piece in pieces:
            self._link(whole.last, piece.first)
            whole = _Piece(
                whole.optional and piece.optional,
                whole.first | (piece.first if whole.optional else 0),
                piece.last | (whole.last if piece.optional else 0),
            )
        return whole

    def _copies(self, node: _Node) -> Iterator[_Piece]:
        copies = max(node.low, 1) if node.high is None else node.high
        for number in range(1, copies + 1):
            piece = self.build(node.parts[0])
            if node.high is None and number == copies:
                self._link(piece.last, piece.first)
            yield _Piece(piece.optional or number > node.low, piece.first, piece.last)

    def _link(self, before: int, after: int) -> None:
        for position in _bits(before):
            self.follow[position] |= after


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


class Expression:
    """One expression, for the whole of a text. Raises ValueError for one that it cannot be."""

    __slots__ = ("_follow", "_piece", "_tests")

    def __init__(self, source: str, flags: int = 0) -> None:
        try:
            re.compile(source, flags)
        except (re.error, OverflowError) as error:
            raise ValueError(f"is no regular expression: {error}") from None
        if given := _FLAGS.match(source):
            source = source[given.end() :]
            flags |= re.IGNORECASE if "i" in given[1] else 0
            flags |= re.DOTALL if "s" in given[1] else 0
        automaton = _Automaton()
        self._piece = automaton.build(_Parser(source, flags).whole())
        self._tests, self._follow = tuple(automaton.tests), tuple(automaton.follow)

    def fits(self, text: str) -> bool:
        spend(_STEP * len(text))
        fitting, following = dict[str, int](), dict[int, int]()
        reached, onward = 0, self._piece.first
        for char in text:
            if char not in fitting:
                fitting[char] = self._fitting(char)
            reached = onward & fitting[char]
            if not reached:
                return False
            if reached not in following:
                following[reached] = self._following(reached)
            onward = following[reached]
        return bool(reached & self._piece.last) if text else self._piece.optional

    def _fitting(self, char: str) -> int:
        spend(2 * _STEP * len(self._tests))
        return sum(1 << at for at, test in enumerate(self._tests) if test.fullmatch(char))

    def _following(self, reached: int) -> int:
        spend(2 * _STEP * reached.bit_count())
        onward = 0
        for position in _bits(reached):
            onward |= self._follow[position]
        return onward
