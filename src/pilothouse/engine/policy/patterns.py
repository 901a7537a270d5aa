"""The patterns of a policy: texts, paths and addresses.

Each is met in one of two ways. A rule that allows needs certainty: whatever cannot be told apart
from something else does not match. A rule that guards, one that denies or asks, matches as soon
as one reading of the value does.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote

from .effort import spend
from .expressions import Expression

__all__ = [
    "JudgedAddress",
    "JudgedPath",
    "PathPattern",
    "UrlPattern",
    "certain_address",
    "likely_addresses",
]
__all__ += ["TextPattern", "path_pattern", "text_pattern", "url_pattern"]

REGEX: Final = "re:"
LONGEST: Final = 4096
GUARDING: Final = re.DOTALL
"""How a guard reads an expression: whatever fits may be in any line."""


class TextPattern(Protocol):
    """A pattern for the whole of a text."""

    def fits(self, text: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Glob:
    """`re` finds the first place for what stands between two stars, and never tries another."""

    compiled: re.Pattern[str]
    weight: int
    """How often it may look at one character: what follows a star is tried at each."""

    @classmethod
    def of(cls, pattern: str, flags: int = 0) -> Glob:
        between = pattern.split("*")[1:]
        compiled = re.compile(fnmatch.translate(pattern), re.DOTALL | flags)
        return cls(compiled, 1 + max(map(len, between), default=0))

    def fits(self, text: str) -> bool:
        spend(self.weight * (len(text) + 32))
        return self.compiled.fullmatch(text) is not None


def text_pattern(pattern: str, flags: int = 0) -> TextPattern:
    """A glob over the whole text, or after `re:` a regular expression for all of it."""
    if not pattern:
        raise ValueError("is empty")
    if len(pattern) > LONGEST:
        raise ValueError(f"{pattern[:32] + '...'!r} is longer than {LONGEST} characters")
    try:
        regex = pattern.startswith(REGEX)
        return Expression(pattern[3:], flags) if regex else Glob.of(pattern, flags)
    except (ValueError, re.error) as error:
        raise ValueError(f"{pattern!r} {error}") from None
    except RecursionError:
        raise ValueError(f"{pattern!r} is nested too deeply") from None


# Paths


@dataclass(frozen=True, slots=True)
class JudgedPath:
    """A path as it is written, without `..`, and where it leads to when links are followed.

    It leads to two places where a link is followed before its `..` or after.
    """

    written: str
    real: tuple[str, ...]
    certain: bool
    """It can be a path, and all places it leads to are known."""

    @classmethod
    def of(
        cls, path: str, *, base: str | None = None, home: str | None = None
    ) -> JudgedPath | None:
        """None for a path that has no place: relative to nothing, or none at all."""
        if path == "~" or path.startswith("~/"):
            path = f"{home or ''}{path[1:]}" if home else ""
        joined = posixpath.join(base or "", path)
        if not path or path.startswith("~") or not joined.startswith("/"):
            return None
        written = _collapsed(joined)
        real = [_real(each) for each in (written, joined)]
        known = tuple(dict.fromkeys(each for each in real if each is not None))
        return cls(written, known, None not in real)


def _collapsed(path: str) -> str:
    return "/" + posixpath.normpath(path).lstrip("/")


def _real(path: str) -> str | None:
    """None for what can be no path: no system takes such a long one, or a NUL in it."""
    try:
        return os.path.realpath(path) if len(path) <= LONGEST else None
    except (OSError, ValueError):
        return None


def _below(path: str, base: str) -> list[str] | None:
    """The names that lead from the base to the path; None where it is not inside."""
    names, above = _names(path), _names(base)
    return names[len(above) :] if names[: len(above)] == above else None


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


@dataclass(frozen=True, slots=True)
class _Names:
    """A glob over the names of a path; None stands for `**`, any number of them."""

    globs: tuple[TextPattern | None, ...]

    def match(self, names: list[str]) -> bool:
        reached = self._onward({0})
        for name in names:
            spend(8 * len(reached))
            reached = self._onward({to for at in reached for to in self._after(at, name)})
        return len(self.globs) in reached

    def _after(self, at: int, name: str) -> Iterator[int]:
        if at < len(self.globs):
            glob = self.globs[at]
            if glob is None:
                yield at
            elif glob.fits(name):
                yield at + 1

    def _onward(self, reached: set[int]) -> set[int]:
        for at in sorted(reached):
            while at < len(self.globs) and self.globs[at] is None:
                at += 1
                reached.add(at)
        return reached


@dataclass(frozen=True, slots=True)
class PathPattern:
    """Over a path: from the root, or from a session's working directory."""

    globs: tuple[_Names, ...] = ()
    relative: bool = False
    anywhere: bool = False
    regex: TextPattern | None = None

    def certainly(self, place: JudgedPath, base: JudgedPath | None) -> bool:
        if not place.certain or (self.relative and not (base and base.certain)):
            return False
        start, real = (base.written, base.real[0]) if base and base.certain else (None, None)
        written = self._match(place.written, start)
        return written and all(self._match(path, real) for path in place.real)

    def possibly(self, place: JudgedPath, base: JudgedPath | None) -> bool:
        paths = (place.written, *place.real)
        bases = (base.written, *base.real) if base else (None,)
        if self.anywhere and any(self._match(path, "/") for path in paths):
            return True
        return any(self._match(path, start) for path in paths for start in bases)

    def _match(self, path: str, base: str | None) -> bool:
        if self.regex is not None:
            return self.regex.fits(path)
        names = _below(path, base or "/") if self.relative else _names(path)
        if names is None or (self.relative and base is None):
            return False
        return any(each.match(names) for each in self.globs)


def path_pattern(
    pattern: str, *, home: Path, relative: bool = True, guard: bool = False, flags: int = 0
) -> PathPattern:
    """A path glob: `*` stays within a name, `**` spans folders; `re:` sees the absolute path.

    A guard does not tell `.ENV` from `.env`: on some disks both are the same file.
    """
    flags |= GUARDING | re.IGNORECASE if guard else 0
    if pattern.startswith(REGEX):
        return PathPattern(regex=text_pattern(pattern, flags))
    _check_path(pattern)
    if pattern == "~" or pattern.startswith("~/"):
        rest, homes = _compiled(pattern[2:], flags), {str(home), _real(str(home)) or str(home)}
        return PathPattern(tuple(_Names((*_literal(each), *rest)) for each in sorted(homes)))
    if pattern.startswith("/"):
        return PathPattern((_Names(_compiled(pattern, flags)),))
    if not relative and not pattern.startswith("**"):
        raise ValueError(f"{pattern!r} must start with /, ~/ or **")
    names = _Names(_compiled(pattern, flags))
    return PathPattern((names,), relative=relative, anywhere=pattern.startswith("**"))


def _check_path(pattern: str) -> None:
    if not pattern:
        raise ValueError("is empty")
    if ".." in pattern.split("/"):
        raise ValueError(f"{pattern!r} has '..' in it; write the path it leads to")
    if pattern.endswith("/") and pattern != "/":
        raise ValueError(f"{pattern!r} ends in '/'; for all below it write '{pattern}**'")


def _compiled(pattern: str, flags: int) -> tuple[TextPattern | None, ...]:
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    return tuple(None if name == "**" else text_pattern(_glob(name), flags) for name in names)


def _glob(name: str) -> str:
    """A name that happens to start like a regular expression is still a glob."""
    return "[r]" + name[1:] if name.startswith(REGEX) else name


def _literal(path: str) -> tuple[TextPattern, ...]:
    return tuple(Glob.of(escape(name)) for name in _names(path))


# Addresses


@dataclass(frozen=True, slots=True)
class JudgedAddress:
    scheme: str
    host: str
    """With the port, where it is not the scheme's own."""
    rest: str
    text: str

    @property
    def domain(self) -> str:
        return re.sub(r":\d*\Z", "", self.host)


_CERTAIN: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9.-]+|\[[0-9a-f:.]+\])(?P<port>:\d{1,5})?"
    r"(?P<rest>[/?#][\x21-\x7e]*)?",
    re.IGNORECASE,
)
_LIKELY: Final = re.compile(
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]*):)?/*(?P<authority>[^/?#]*)(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_OWN_PORTS: Final = {"http": ":80", "https": ":443"}


def certain_address(url: str) -> JudgedAddress | None:
    """What every reader of addresses agrees it is; None if two could differ."""
    found = _CERTAIN.fullmatch(url)
    if found is None or "\\" in url:
        return None
    rest = found["rest"] or "/"
    path = re.split(r"[?#]", rest, maxsplit=1)[0]
    if any(unquote(name) in (".", "..") for name in re.split(r"/|%2f|%5c", path, flags=re.I)):
        return None
    return _address(found["scheme"], found["host"] + (found["port"] or ""), rest, url)


def likely_addresses(url: str) -> Iterator[JudgedAddress]:
    """What some reader may take it for."""
    text = re.sub(r"[\x00-\x20]+", "", url).replace("\\", "/")
    yield from _likely(text)
    if not text.lower().startswith(("http:", "https:")):
        yield from _likely(f"https://{text}")


def _likely(text: str) -> Iterator[JudgedAddress]:
    found = _LIKELY.fullmatch(text)
    if found is None:
        return
    host = unicodedata.normalize("NFKC", unquote(found["authority"].rpartition("@")[2]))
    rest = found["rest"] or "/"
    path, *query = re.split(r"(?=[?#])", rest, maxsplit=1)
    for each in dict.fromkeys((rest, "".join([_collapsed(unquote(path)), *query]))):
        yield _address(found["scheme"] or "https", host, each, text)


def _address(scheme: str, host: str, rest: str, text: str) -> JudgedAddress:
    scheme = scheme.lower()
    host = host.lower().removesuffix(_OWN_PORTS.get(scheme, ":"))
    name, colon, port = host.partition(":") if not host.startswith("[") else (host, "", "")
    return JudgedAddress(scheme, name.rstrip(".") + colon + port, rest, text)


@dataclass(frozen=True, slots=True)
class UrlPattern:
    """Globs for scheme, host and the rest, each for itself: no `*` reaches over a border."""

    scheme: TextPattern | None = None
    host: TextPattern | None = None
    rest: TextPattern | None = None
    regex: TextPattern | None = None

    def match(self, address: JudgedAddress) -> bool:
        if self.regex is not None:
            return self.regex.fits(address.text)
        pairs = (
            (self.scheme, address.scheme),
            (self.host, address.host),
            (self.rest, address.rest),
        )
        return all(glob is not None and glob.fits(text) for glob, text in pairs)


def url_pattern(pattern: str, flags: int = 0) -> UrlPattern:
    """`https://example.org/docs/*`, or after `re:` a regular expression for the whole address."""
    if pattern.startswith(REGEX):
        return UrlPattern(regex=text_pattern(pattern, flags))
    scheme, mark, after = pattern.partition("://")
    host, slash, rest = after.partition("/")
    if not (scheme and mark and host and slash):
        raise ValueError(f"{pattern!r} must have a scheme, a host and a path: https://host/*")
    scheme, host = scheme.lower(), host.lower()
    host = host.removesuffix(_OWN_PORTS.get(scheme, "/"))
    return UrlPattern(text_pattern(scheme), text_pattern(host), text_pattern("/" + rest))
