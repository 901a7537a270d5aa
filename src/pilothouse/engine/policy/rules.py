"""One rule of a policy: its conditions, and what it is asked about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, cast

from pilothouse.api.questions import Question, QuestionKind

from . import patterns
from .patterns import JudgedPath, PathPattern, TextPattern, UrlPattern
from .shell import joined_texts, plain_text, runs_any

__all__ = ["Compound", "JudgedAsk", "Rule", "Verdict"]

Verdict = Literal["allow", "deny", "ask"]
Compound = Literal["no", "each", "whole"]

PATH_MEMBERS: Final = ("file_path", "notebook_path", "path")
# Where a search would look outside the folder it is given: `..`, or an absolute alternative.
_SEARCHES_OUTSIDE: Final = re.compile(r"\.\.|(?:^|[{,])[/~]")

Texts = tuple[TextPattern, ...]


@dataclass(frozen=True, slots=True)
class JudgedAsk:
    """What a policy is asked."""

    tool_name: str
    input: dict[str, Any] = field(default_factory=dict[str, Any])
    cwd: str | None = None
    label: str | None = None
    mode: str | None = None
    kind: QuestionKind = "tool"

    @classmethod
    def of(cls, question: Question) -> JudgedAsk:
        """The question of an MCP server comes from a tool named `mcp__<server>`."""
        server = f"mcp__{question.server_name}" if question.server_name else ""
        given = {"url": question.url} if question.url else {}
        return cls(
            tool_name=question.tool_name or server,
            input={**given, **question.input},
            cwd=question.cwd,
            label=question.label,
            mode=question.mode,
            kind=question.kind,
        )


class Condition(Protocol):
    """Met certainly, for a rule that allows, or possibly, for one that guards."""

    def met(self, ask: JudgedAsk, *, guard: bool) -> bool: ...


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    action: Verdict
    kinds: frozenset[str]
    conditions: tuple[Condition, ...]
    reason: str
    line: int

    def matches(self, ask: JudgedAsk) -> bool:
        guard = self.action != "allow"
        return ask.kind in self.kinds and all(
            each.met(ask, guard=guard) for each in self.conditions
        )


def _any(texts: Texts, value: str) -> bool:
    return any(each.fits(value) for each in texts)


@dataclass(frozen=True, slots=True)
class ToolIs:
    tools: Texts

    def met(self, ask: JudgedAsk, *, guard: bool) -> bool:
        return _any(self.tools, ask.tool_name)


@dataclass(frozen=True, slots=True)
class LabelIs:
    labels: Texts

    def met(self, ask: JudgedAsk, *, guard: bool) -> bool:
        return ask.label is not None and _any(self.labels, ask.label)


@dataclass(frozen=True, slots=True)
class ModeIs:
    modes: frozenset[str]

    def met(self, ask: JudgedAsk, *, guard: bool) -> bool:
        return (ask.mode or "default") in self.modes


@dataclass(frozen=True, slots=True)
class DirectoryIs:
    directories: tuple[PathPattern, ...]

    def met(self, ask: JudgedAsk, *, guard: bool) -> bool:
        place = JudgedPath.of(ask.cwd or "")
        return place is not None and _placed(self.directories, place, None, guard=guard)


def _placed(
    globs: tuple[PathPattern, ...], place: JudgedPath, base: JudgedPath | None, *, guard: bool
) -> bool:
    if guard:
        return any(each.possibly(place, base) for each in globs)
    return any(each.certainly(place, base) for each in globs)


@dataclass(frozen=True, slots=True)
class CommandIs:
    commands: Texts
    compound: Compound

    def met(self, ask: JudgedAsk, *, guard: bool) -> bool:
        command = ask.input.get("command")
        if not isinstance(command, str):
            return False
        if guard:
            return runs_any(command, lambda text: _any(self.commands, text))
        texts = self._certain(command, shell=ask.tool_name == "Bash")
        return texts is not None and all(_any(self.commands, text) for text in texts)

    def _certain(self, command: str, *, shell: bool) -> list[str] | None:
        match self.compound:
            case "whole":
                return [command]
            case "each":
                return joined_texts(command, shell=shell)
            case "no":
                text = plain_text(command, shell=shell)
                return None if text is None else [text]


@dataclass(frozen=True, slots=True)
class PathIs:
    paths: tuple[PathPattern, ...]
    home: str

    def met(self, ask: JudgedAsk, *, guard: bool) -> bool:
        base = JudgedPath.of(ask.cwd or "")
        places = list(self._places(ask, base))
        if guard:
            return any(_placed(self.paths, each, base, guard=True) for each in places if each)
        return bool(places) and all(
            each is not None and _placed(self.paths, each, base, guard=False) for each in places
        )

    def _places(self, ask: JudgedAsk, base: JudgedPath | None) -> Iterator[JudgedPath | None]:
        """Every path it names; None for one that nobody can place."""
        start = base.written if base else None
        for member in PATH_MEMBERS:
            value = ask.input.get(member)
            if isinstance(value, str):
                yield JudgedPath.of(value.strip(), base=start, home=self.home)
            # A tool may or may not strip a path: what is stripped here has no certain place.
            if value is not None and not (isinstance(value, str) and value == value.strip()):
                yield None
        search = ask.input.get("pattern")
        if ask.tool_name == "Glob" and isinstance(search, str):
            yield from self._searched(search, ask.input.get("path"), start)

    def _searched(self, search: str, path: Any, start: str | None) -> Iterator[JudgedPath | None]:
        if _SEARCHES_OUTSIDE.search(search):
            yield None
        folder = JudgedPath.of(path, base=start, home=self.home) if isinstance(path, str) else None
        yield JudgedPath.of(search, base=folder.written if folder else start, home=self.home)


@dataclass(frozen=True, slots=True)
class UrlIs:
    urls: tuple[UrlPattern, ...]

    def met(self, ask: JudgedAsk, *, guard: bool) -> bool:
        return any(url.match(each) for each in _addresses(ask, guard=guard) for url in self.urls)


@dataclass(frozen=True, slots=True)
class DomainIs:
    domains: Texts

    def met(self, ask: JudgedAsk, *, guard: bool) -> bool:
        return any(_any(self.domains, each.domain) for each in _addresses(ask, guard=guard))


def _addresses(ask: JudgedAsk, *, guard: bool) -> list[patterns.JudgedAddress]:
    url = ask.input.get("url")
    if not isinstance(url, str):
        return []
    if guard:
        return list(patterns.likely_addresses(url))
    certain = patterns.certain_address(url)
    return [] if certain is None else [certain]


@dataclass(frozen=True, slots=True)
class InputIs:
    """A member of the input, by its dotted name, against patterns or plain values."""

    member: str
    texts: Texts
    values: tuple[bool | int, ...]

    def met(self, ask: JudgedAsk, *, guard: bool) -> bool:
        found = [self._fits(value) for value in self._found(ask.input)]
        return any(found) if guard else bool(found) and all(found)

    def _found(self, given: dict[str, Any]) -> Iterator[Any]:
        """As one name with dots in it and as a way through objects: both may be there."""
        if "." in self.member and self.member in given:
            yield given[self.member]
        value: Any = given
        for name in self.member.split("."):
            if not isinstance(value, dict) or name not in value:
                return
            value = cast("dict[str, Any]", value)[name]
        yield value

    def _fits(self, value: Any) -> bool:
        if isinstance(value, str):
            return _any(self.texts, value)
        return any(type(value) is type(each) and value == each for each in self.values)
