"""Compares two transcripts message by message. Pure.

What is made up anew in every run is left out of account: paths of the home, times, process ids.
Ids are compared by what they refer to: two transcripts agree when one's ids can be renamed into
the other's.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from tests.differential.driver import Transcript
from tests.support.raw_cli import Message

__all__ = [
    "Difference",
    "Intended",
    "Line",
    "Neighbours",
    "Unsteady",
    "Value",
    "align",
    "compare",
    "explain",
    "load_intended",
    "load_unsteady",
    "normalise",
    "plain",
]

HERE = Path(__file__).parent
Kind = Literal["value", "missing", "extra", "identity", "line missing", "line extra"]

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_OURS = "-0000-4000-8000-000000000000"
_MADE_UP = (
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"/plans/[^/\s\"'`\\]+?\.md"), "/plans/PLAN.md"),
    (re.compile(r"/cc-socks/\d+"), "/cc-socks/PID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?"), "TIME"),
    (re.compile(r"/tool-results/((?:[a-z]+-)*)[\w-]+\.(\w+)"), r"/tool-results/\1OUTPUT.\2"),
    (re.compile(r"\d{4}-\d\d-\d\d-\d{6}"), "TIME"),
    (re.compile(r"(duration_ms>)\d+"), r"\1MS"),
    (re.compile(r"(Total duration \(\w+\): +)[\dhms. ]+"), r"\1TIME"),
)
_TIMED = re.compile(r"_ms$|Ms$|^(timestamp|pid|end_time|start_time|duration|startTime|endTime)$")
_ID_FIELDS = {"task_id", "run_id", "agent_id", "agentId", "taskId", "backgroundTaskId"}


class Intended(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A difference that is meant to be, and why.

    An entry for scenes that it does not all name holds in `example`, which shows it is not stale.
    """

    message: str
    path: str
    scenes: tuple[str, ...]
    reason: str
    kind: str = "*"
    example: str = ""

    def explains(self, difference: Difference) -> bool:
        """Whether this is the entry for a difference."""
        return (
            any(_matches(scene, difference.scene) for scene in self.scenes)
            and _matches(self.message, difference.message)
            and _matches(self.path, difference.path)
            and _matches(self.kind, difference.kind)
        )

    def is_due_in(self, scene: str) -> bool:
        """Whether it is stale unless it explains something in this scene."""
        return scene == self.example or scene in self.scenes


class Neighbours(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two kinds of lines which the real CLI itself writes now in one order, now in the other.

    Before transcripts are compared, `later` is moved behind `earlier` where it stands before it.
    """

    earlier: str
    later: str
    scenes: tuple[str, ...]
    reason: str


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A field whose value the real CLI itself does not repeat; only its type is compared."""

    message: str
    path: str
    scenes: tuple[str, ...]
    reason: str

    def is_about(self, difference: Difference) -> bool:
        """Whether this is a difference in a value that means nothing."""
        return (
            difference.kind == "value"
            and type(difference.real) is type(difference.simulated)
            and any(_matches(scene, difference.scene) for scene in self.scenes)
            and _matches(self.message, difference.message)
            and _matches(self.path, difference.path)
        )


class Unsteady(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In what two runs of the real CLI differ from each other."""

    order: list[Neighbours]
    values: list[Value]


@dataclass(frozen=True)
class Difference:
    """One thing in which the simulator is not like the real CLI."""

    scene: str
    number: int
    """The line of the real transcript, or of the simulated one when the real has none; from 1."""
    message: str
    path: str
    kind: Kind
    real: Any = None
    simulated: Any = None

    def __str__(self) -> str:
        where = f"{self.number:>3} {self.message} {self.path}".rstrip()
        match self.kind:
            case "missing" | "line missing":
                return f"{where}: {self.kind}, real has {_short(self.real)}"
            case "extra" | "line extra":
                return f"{where}: {self.kind}, simulated has {_short(self.simulated)}"
            case _:
                return f"{where}: {_short(self.real)} | simulated {_short(self.simulated)}"


@dataclass(frozen=True)
class Line:
    """A message with everything made up taken out of it."""

    number: int
    kind: str
    message: Message = field(hash=False)


class Text(msgspec.Struct, frozen=True):
    """A string in which ids stand: what is around them, and the ids."""

    words: str
    ids: tuple[str, ...]


def load_intended() -> list[Intended]:
    """The differences that are meant to be."""
    return msgspec.json.decode((HERE / "intended.json").read_bytes(), type=list[Intended])


def load_unsteady() -> Unsteady:
    """What means nothing when it differs."""
    return msgspec.json.decode((HERE / "unsteady.json").read_bytes(), type=Unsteady)


def explain(
    differences: Iterable[Difference], intended: list[Intended]
) -> tuple[list[Difference], set[Intended]]:
    """The differences nobody meant, and the entries that explain the others."""
    unexplained: list[Difference] = []
    used: set[Intended] = set()
    for difference in differences:
        entries = {entry for entry in intended if entry.explains(difference)}
        used |= entries
        if not entries:
            unexplained.append(difference)
    return unexplained, used


def compare(
    scene: str, real: Transcript, simulated: Transcript, unsteady: Unsteady
) -> list[Difference]:
    """All differences, in the order of the real transcript."""
    rules = [rule for rule in unsteady.order if any(_matches(each, scene) for each in rule.scenes)]
    left, right = (in_order(normalise(each), rules) for each in (real, simulated))
    names = _Names()
    found: list[Difference] = []
    for one, other in align(left, right):
        if one and other:
            found += _Pair(scene, one, names).differences(one.message, other.message)
        elif one:
            found.append(
                Difference(scene, one.number, one.kind, "", "line missing", real=one.message)
            )
        elif other:
            found.append(
                Difference(scene, other.number, other.kind, "", "line extra", None, other.message)
            )
    return [each for each in found if not any(one.is_about(each) for one in unsteady.values)]


def align(left: list[Line], right: list[Line]) -> Iterator[tuple[Line | None, Line | None]]:
    """Pairs lines of the same kind, so that one missing line does not shift the rest."""
    kinds = [line.kind for line in left], [line.kind for line in right]
    matcher = difflib.SequenceMatcher(None, *kinds, autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag == "equal":
            yield from zip(left[start:end], right[other_start:other_end], strict=True)
        else:
            yield from ((line, None) for line in left[start:end])
            yield from ((None, line) for line in right[other_start:other_end])


def in_order(lines: list[Line], rules: list[Neighbours]) -> list[Line]:
    """The lines with unordered neighbours in the order that the rules name first."""
    lines = list(lines)
    for _ in lines:
        swaps = [
            at
            for at in range(len(lines) - 1)
            if any(_out_of_order(rule, lines[at], lines[at + 1]) for rule in rules)
        ]
        if not swaps:
            break
        for at in swaps:
            if any(_out_of_order(rule, lines[at], lines[at + 1]) for rule in rules):
                lines[at], lines[at + 1] = lines[at + 1], lines[at]
    return lines


def _out_of_order(rule: Neighbours, first: Line, second: Line) -> bool:
    return (
        _matches(rule.later, first.kind)
        and _matches(rule.earlier, second.kind)
        and not _matches(rule.earlier, first.kind)
    )


# Kinds


def kind_of(message: Message) -> str:
    """What sort of line this is, in a few words with slashes between them."""
    name = "/".join(str(part) for part in _kind_parts(message))
    return f"child/{name}" if message.get("parent_tool_use_id") else name


def _kind_parts(message: Message) -> tuple[Any, ...]:
    kind = message.get("type")
    match message:
        case {"type": "stream_event", "event": {"type": event, "delta": {"type": delta}}}:
            return kind, event, delta
        case {"type": "stream_event", "event": {"type": event}}:
            return kind, event
        case {"type": "assistant" | "user", "message": {"content": content}}:
            echo = ("replay",) if message.get("isReplay") else ()
            return kind, _content_kind(content), *echo
        case {"type": "control_request", "request": request}:
            return kind, request.get("subtype"), *_request_parts(request)
        case {"type": "control_response", "response": response}:
            return kind, response.get("subtype"), _asked(str(response.get("request_id")))
        case _:
            members = (message.get(name) for name in ("subtype", "state", "name"))
            return kind, *(each for each in members if isinstance(each, str))


def _request_parts(request: Message) -> tuple[Any, ...]:
    match request:
        case {"input": {"hook_event_name": event}}:
            return (event,)
        case {"message": {"method": method}}:
            return (method,)
        case {"tool_name": name}:
            return (name,)
        case _:
            return ()


def _asked(request_id: str) -> str:
    """The subtype of a request of the host's, which stands in the id that the driver gave it."""
    return request_id.split("-", 2)[2] if request_id.startswith("req-") else "echo"


def _content_kind(content: Any) -> str:
    if isinstance(content, str):
        return "words"
    return "+".join(str(block.get("type")) for block in content)


# Normal form


def normalise(transcript: Transcript) -> list[Line]:
    """The transcript's lines without what is made up in every run."""
    cleaner = _Cleaner(transcript)
    return [
        Line(number, kind_of(message), cleaner.clean(message))
        for number, message in enumerate(transcript.lines, 1)
    ]


class _Cleaner:
    def __init__(self, transcript: Transcript) -> None:
        self._root = transcript.root
        self._slug = re.sub(r"[^A-Za-z0-9]", "-", transcript.root)
        named = sorted({re.escape(each) for each in _named_ids(transcript.lines)})
        parts = [_UUID, r"\b(?:msg|toolu|req)_\w+", *named]
        self._ids = re.compile("|".join(parts))

    def clean(self, value: Any, key: str = "") -> Any:
        match value:
            case dict():
                return {self._plain(name): self.clean(each, name) for name, each in value.items()}
            case list():
                return [self.clean(each, key) for each in value]
            case bool() | None:
                return value
            case _ if _TIMED.search(key):
                return f"<{type(value).__name__}>"
            case str():
                return self._text(value)
            case _:
                return value

    def _plain(self, words: str) -> str:
        words = words.replace(self._root, "/ROOT").replace(self._slug, "-ROOT")
        for pattern, name in _MADE_UP:
            words = pattern.sub(name, words)
        return words

    def _text(self, words: str) -> str | Text:
        words = self._plain(words)
        ids: list[str] = []

        def take(found: re.Match[str]) -> str:
            if found[0].endswith(_OURS):
                return found[0]
            ids.append(found[0])
            return "<id>"

        words = self._ids.sub(take, words)
        return Text(words, tuple(ids)) if ids else words


def _named_ids(value: Any) -> Iterator[str]:
    """Ids that only the name of their field tells."""
    match value:
        case dict():
            for name, each in value.items():
                if name in _ID_FIELDS and isinstance(each, str) and len(each) > 5:
                    yield each
                yield from _named_ids(each)
        case list():
            for each in value:
                yield from _named_ids(each)
        case _:
            pass


# Two lines


class _Names:
    """Which id of the one transcript stands for which of the other."""

    def __init__(self) -> None:
        self._forth: dict[str, str] = {}
        self._back: dict[str, str] = {}
        self._first: dict[str, str] = {}
        self._told: set[tuple[str, str]] = set()

    def agree(self, real: str, simulated: str, where: str) -> tuple[str, str] | None:
        """None, or what the two ids are when they do not stand for the same."""
        known = self._first.get(f"real {real}"), self._first.get(f"simulated {simulated}")
        self._first.setdefault(f"real {real}", where)
        self._first.setdefault(f"simulated {simulated}", where)
        if self._forth.setdefault(real, simulated) == simulated and (
            self._back.setdefault(simulated, real) == real
        ):
            return None
        if (real, simulated) in self._told:
            return None
        self._told.add((real, simulated))
        names = (f"id of {first}" if first else "a new id" for first in known)
        one, other = names
        return one, other


@dataclass
class _Pair:
    scene: str
    line: Line
    names: _Names

    def differences(self, real: Any, simulated: Any, path: str = "") -> Iterator[Difference]:
        if isinstance(real, dict) and isinstance(simulated, dict):
            yield from self._members(real, simulated, path)
        elif isinstance(real, list) and isinstance(simulated, list):
            yield from self._lists(real, simulated, path)
        elif isinstance(real, Text) and isinstance(simulated, Text):
            yield from self._texts(real, simulated, path)
        elif type(real) is not type(simulated) or real != simulated:
            yield self._found(path, "value", real, simulated)

    def _members(
        self, real: Message, simulated: Message, path: str, form: str = ".{}"
    ) -> Iterator[Difference]:
        for name in [*real, *(name for name in simulated if name not in real)]:
            own = path + form.format(name)
            if name not in simulated:
                yield self._found(own, "missing", real[name], None)
            elif name not in real:
                yield self._found(own, "extra", None, simulated[name])
            else:
                yield from self.differences(real[name], simulated[name], own)

    def _lists(self, real: list[Any], simulated: list[Any], path: str) -> Iterator[Difference]:
        if _named(real) and _named(simulated):
            left, right = ({each["name"]: each for each in side} for side in (real, simulated))
            yield from self._members(left, right, path, "[{}]")
            if list(left) != list(right) and left.keys() == right.keys():
                yield self._found(f"{path}[]", "value", list(left), list(right))
        elif len(real) == len(simulated) and not _scalars(real):
            for number, (one, other) in enumerate(zip(real, simulated, strict=True)):
                yield from self.differences(one, other, f"{path}[{number}]")
        elif real != simulated:
            yield from self._elements(real, simulated, f"{path}[]")

    def _elements(self, real: list[Any], simulated: list[Any], path: str) -> Iterator[Difference]:
        missing = [each for each in real if each not in simulated]
        extra = [each for each in simulated if each not in real]
        if missing:
            yield self._found(path, "missing", missing, None)
        if extra:
            yield self._found(path, "extra", None, extra)
        if not missing and not extra:
            ids = any(isinstance(each, Text) for each in real)
            yield self._found(path, "value", len(real) if ids else real, simulated)

    def _texts(self, real: Text, simulated: Text, path: str) -> Iterator[Difference]:
        if real.words != simulated.words or len(real.ids) != len(simulated.ids):
            yield self._found(path, "value", real, simulated)
            return
        where = f"line {self.line.number} {path}"
        for one, other in zip(real.ids, simulated.ids, strict=True):
            if conflict := self.names.agree(one, other, where):
                yield self._found(path, "identity", *conflict)

    def _found(self, path: str, kind: Kind, real: Any, simulated: Any) -> Difference:
        return Difference(self.scene, self.line.number, self.line.kind, path, kind, real, simulated)


def _named(entries: list[Any]) -> bool:
    names = [each.get("name") for each in entries if isinstance(each, dict)]
    return len(names) == len(entries) == len(set(map(str, names))) and None not in names


def _scalars(entries: list[Any]) -> bool:
    return all(not isinstance(each, dict | list | Text) for each in entries)


def plain(value: Any) -> Any:
    """A value of a normalised line as JSON has it again."""
    match value:
        case Text():
            return value.words
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case list():
            return [plain(each) for each in value]
        case _:
            return value


def _short(value: Any, limit: int = 160) -> str:
    words = msgspec.json.encode(plain(value)).decode()
    return words if len(words) <= limit else f"{words[:limit]}… ({len(words)})"


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, glob.split("*"))), re.DOTALL)


def _matches(glob: str, words: str) -> bool:
    """A `*` stands for anything; nothing else is special, brackets in particular."""
    return _pattern(glob).fullmatch(words) is not None
