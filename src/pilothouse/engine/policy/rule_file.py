"""From the text of a policy to its rules, or to the place where it is wrong."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, cast, get_args

from pilothouse.api.questions import QuestionKind
from pilothouse.errors import PolicyError
from pilothouse.protocol.permissions import PermissionMode

from . import patterns, rules
from .rules import Compound, Condition, Rule, Verdict

__all__ = ["MEMBERS", "parse_rules"]

ACTIONS: Final = get_args(Verdict)
KINDS: Final = get_args(QuestionKind)
MODES: Final = get_args(PermissionMode)
MEMBERS: Final = (
    "name", "action", "reason", "tool", "command", "compound", "path", "url", "domain", "input",
    "directory", "label", "mode", "kind",
)  # fmt: skip
_WHAT: Final = ("tool", "command", "path", "url", "domain", "input", "kind")
"""An allowing rule names at least one of these."""
_OWN_WORD: Final = {
    "command": "command",
    "file_path": "path",
    "notebook_path": "path",
    "path": "path",
    "url": "url",
}
"""Members of an input that a plain pattern would read too simply."""

_SHORT: Final = 60

_HEADER: Final = re.compile(r"^\s*\[\[\s*[\"']?rule[\"']?\s*\]\]|^\s*rule\s*=")
_STRINGS: Final = re.compile(r'"""(?:\\.|[^\\])*?"""|' + r"'''.*?'''", re.DOTALL)
_SYNTAX: Final = re.compile(r"(.*) \(at line (\d+), column (\d+)\)", re.DOTALL)

T = TypeVar("T")


def parse_rules(text: str, source: str, home: Path | None) -> tuple[Rule, ...]:
    """The rules in their order. Raises PolicyError."""
    whole, home = _toml(text, source), home or _home()
    lines = _Lines.of(text, source)
    for name in whole:
        if name != "rule":
            raise lines.error(f"{name!r} is not known; a policy has only [[rule]] tables", name)
    tables = whole.get("rule", [])
    if not isinstance(tables, list):
        raise lines.error("rules are written [[rule]], with two brackets", "rule")
    parsed = tuple(
        _Reader(table, number, lines, home).rule()
        for number, table in enumerate(cast("list[Any]", tables), 1)
    )
    _check_names(parsed, source)
    return parsed


def _home() -> Path:
    """The user's; where there is none `~` is no place."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("~")


def _toml(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        placed = _SYNTAX.fullmatch(str(error))
        where = f"{source}:{placed[2]}:{placed[3]}: {placed[1]}" if placed else f"{source}: {error}"
        raise PolicyError(where) from None
    except RecursionError:
        raise PolicyError(f"{source}: values are nested too deeply") from None
    except ValueError as error:
        # A number of thousands of digits, which is TOML.
        raise PolicyError(f"{source}: {error}") from None


def _check_names(parsed: tuple[Rule, ...], source: str) -> None:
    seen: dict[str, int] = {}
    for rule in parsed:
        if rule.name in seen:
            first = seen[rule.name]
            raise PolicyError(
                f"{source}:{rule.line}: rule {rule.name!r}: `name` is taken by line {first}"
            )
        seen[rule.name] = rule.line


@dataclass(frozen=True, slots=True)
class _Lines:
    """Where things stand in the file. tomllib gives no positions, so the text is searched."""

    source: str
    lines: tuple[str, ...]
    headers: tuple[int, ...]

    @classmethod
    def of(cls, text: str, source: str) -> _Lines:
        blanked = _STRINGS.sub(lambda found: "\n" * found[0].count("\n"), text)
        lines = tuple(blanked.split("\n"))
        headers = tuple(at for at, line in enumerate(lines, 1) if _HEADER.match(line))
        return cls(source, lines, headers)

    def rule(self, number: int) -> int:
        if not self.headers:
            return 1
        return self.headers[min(number, len(self.headers)) - 1]

    def member(self, number: int, name: str) -> int:
        """The line of a member of a rule, or of the rule where it cannot be found."""
        start = self.rule(number)
        later = [at for at in self.headers if at > start]
        end = later[0] - 1 if later else len(self.lines)
        return self._find(name, start, end) or start

    def _find(self, name: str, start: int, end: int) -> int | None:
        wanted = re.compile(rf"\s*\[?\s*(?:rule\.)?[\"']?{re.escape(name)}[\"']?\s*[\].=]")
        return next((at for at in range(start, end + 1) if wanted.match(self.lines[at - 1])), None)

    def error(self, message: str, name: str) -> PolicyError:
        return PolicyError(f"{self.source}:{self._find(name, 1, len(self.lines)) or 1}: {message}")


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one table. Every complaint names file, line, rule and member."""

    table: Any
    number: int
    lines: _Lines
    home: Path

    @property
    def name(self) -> str:
        table = cast("dict[str, Any]", self.table) if isinstance(self.table, dict) else {}
        named = table.get("name")
        return named if isinstance(named, str) and named.strip() else f"rule {self.number}"

    def _full_name(self) -> str:
        """A number means nothing once the file has changed: conditions are added to it."""
        named = isinstance(self.table.get("name"), str)
        shown = "" if named else " ".join(", ".join(self._shown()).split())
        short = shown if len(shown) <= _SHORT else shown[: _SHORT - 3] + "..."
        return f"{self.name} ({short})" if short else self.name

    def _shown(self) -> Iterator[str]:
        for member in (*_WHAT, "directory", "label", "mode"):
            value = self.table.get(member, [])
            if isinstance(value, dict):
                for name, each in cast("dict[str, Any]", value).items():
                    yield f"{name}={each}"
            else:
                yield from cast("list[str]", value) if isinstance(value, list) else [value]

    def rule(self) -> Rule:
        if not isinstance(self.table, dict):
            raise self.wrong("rule", "must be a table: [[rule]]")
        self._check_members()
        action = self._action()
        kinds = frozenset(self._choices("kind", KINDS) or ("tool",))
        self._check_allow(action, kinds)
        conditions = tuple(self._conditions(action))
        return Rule(
            name=self._full_name(),
            action=action,
            kinds=kinds,
            conditions=conditions,
            reason=self._text("reason") or "",
            line=self.lines.rule(self.number),
        )

    def wrong(self, member: str, what: str) -> PolicyError:
        line = self.lines.member(self.number, member.split(".")[0])
        return PolicyError(f"{self.lines.source}:{line}: rule {self.name!r}: `{member}` {what}")

    def _check_members(self) -> None:
        for member in self.table:
            if member not in MEMBERS:
                raise self.wrong(member, f"is not known; a rule may have {', '.join(MEMBERS)}")
        self._text("name")

    def _text(self, member: str) -> str | None:
        value = self.table.get(member)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(member, "must be a text that is not empty")
        return value

    def _action(self) -> Verdict:
        action = self.table.get("action")
        if action not in ACTIONS:
            raise self.wrong("action", f"must be one of {_listed(ACTIONS)}")
        if "reason" in self.table and action != "deny":
            raise self.wrong("reason", 'is what a denied tool is told: only for action = "deny"')
        return cast("Verdict", action)

    def _check_allow(self, action: Verdict, kinds: frozenset[str]) -> None:
        if action != "allow":
            return
        if speechless := kinds & {"questions", "elicitation"}:
            kind = min(speechless)
            raise self.wrong("kind", f"{kind!r} needs an answer in words: a policy may deny or ask")
        if not any(member in self.table for member in _WHAT):
            raise self.wrong("action", 'allows without saying what; for all tools write tool = "*"')

    def _conditions(self, action: Verdict) -> Iterator[Condition]:
        if texts := self._patterns("tool", self._any_text):
            yield rules.ToolIs(texts)
        if modes := self._choices("mode", MODES):
            yield rules.ModeIs(frozenset(modes))
        if texts := self._patterns("label", self._any_text):
            yield rules.LabelIs(texts)
        if places := self._patterns("directory", self._directory):
            yield rules.DirectoryIs(places)
        yield from self._inputs(action)

    def _inputs(self, action: Verdict) -> Iterator[Condition]:
        compound = self._compound(action)
        if texts := self._patterns("command", self._any_text):
            yield rules.CommandIs(texts, compound)
        if urls := self._patterns("url", self._url):
            yield rules.UrlIs(urls)
        if texts := self._patterns("domain", self._domain):
            yield rules.DomainIs(texts)
        if "input" in self.table:
            yield from self._members("input", self.table["input"])
        if places := self._patterns("path", self._path):
            yield rules.PathIs(places, str(self.home))

    @property
    def _guard(self) -> bool:
        return self.table["action"] != "allow"

    @property
    def _flags(self) -> int:
        return patterns.GUARDING if self._guard else 0

    def _any_text(self, pattern: str) -> patterns.TextPattern:
        return patterns.text_pattern(pattern, self._flags)

    def _url(self, pattern: str) -> patterns.UrlPattern:
        return patterns.url_pattern(pattern, self._flags)

    def _domain(self, pattern: str) -> patterns.TextPattern:
        return _domain(pattern, self._flags)

    def _path(self, pattern: str) -> patterns.PathPattern:
        return patterns.path_pattern(pattern, home=self.home, guard=self._guard)

    def _directory(self, pattern: str) -> patterns.PathPattern:
        return patterns.path_pattern(pattern, home=self.home, relative=False, flags=self._flags)

    def _compound(self, action: Verdict) -> Compound:
        value = self.table.get("compound", False)
        if "compound" in self.table and (action != "allow" or "command" not in self.table):
            raise self.wrong(
                "compound",
                "goes with `command` in a rule that allows; others look at every part anyway",
            )
        if not isinstance(value, bool) and value != "whole":
            raise self.wrong("compound", 'must be true, false or "whole"')
        return "whole" if value == "whole" else "each" if value else "no"

    def _members(self, where: str, table: Any) -> Iterator[Condition]:
        if not isinstance(table, dict) or not table:
            raise self.wrong(where, 'must be a table of patterns: { subject = "draft *" }')
        for member, value in cast("dict[str, Any]", table).items():
            path = f"{where}.{member}"
            if path.startswith("input.") and (word := _OWN_WORD.get(path[6:])):
                raise self.wrong(path, f"is too simple for this member: write `{word} = ...`")
            if isinstance(value, dict):
                yield from self._members(path, value)
            else:
                yield self._member(path, value)

    def _member(self, path: str, value: Any) -> Condition:
        wanted = cast("list[Any]", value) if isinstance(value, list) else [value]
        if not wanted or not all(isinstance(each, str | bool | int) for each in wanted):
            raise self.wrong(path, "must be a pattern, true, false, an integer, or a list of these")
        texts = tuple(
            self._made(path, self._any_text, each) for each in wanted if isinstance(each, str)
        )
        values = tuple(each for each in wanted if isinstance(each, bool | int))
        return rules.InputIs(path.removeprefix("input."), texts, values)

    def _patterns(self, member: str, make: Callable[[str], T]) -> tuple[T, ...]:
        return tuple(self._made(member, make, each) for each in self._strings(member))

    def _made(self, member: str, make: Callable[[str], T], pattern: str) -> T:
        try:
            return make(pattern)
        except ValueError as error:
            raise self.wrong(member, str(error)) from None

    def _strings(self, member: str) -> list[str]:
        if member not in self.table:
            return []
        value = self.table[member]
        wanted = cast("list[Any]", value) if isinstance(value, list) else [value]
        if not wanted or not all(isinstance(each, str) and each for each in wanted):
            raise self.wrong(member, "must be a text or a list of texts, none of them empty")
        return cast("list[str]", wanted)

    def _choices(self, member: str, allowed: tuple[str, ...]) -> list[str]:
        chosen = self._strings(member)
        if any(each not in allowed for each in chosen):
            raise self.wrong(member, f"must be one or several of {_listed(allowed)}")
        return chosen


def _domain(pattern: str, flags: int) -> patterns.TextPattern:
    if not pattern.startswith(patterns.REGEX) and re.search(r"[/:@]", pattern):
        raise ValueError(f"{pattern!r} must be a host alone, such as *.example.org")
    lowered = pattern if pattern.startswith(patterns.REGEX) else pattern.lower()
    return patterns.text_pattern(lowered, flags)


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(f'"{word}"' for word in words)
