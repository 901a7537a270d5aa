"""Permission rules: how they are written, and what of a call they speak of.

A rule names a tool, `Bash`, or some of its calls: `Bash(npm run test *)`, `Read(//etc/**)`,
`WebFetch(domain:example.org)`. A rule for an MCP server, `mcp__srv`, covers its tools.
"""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache

from msgspec import Struct

__all__ = ["CliRule", "Places", "matches_command", "matches_domain", "matches_path", "parse_rule"]

_RULE = re.compile(r"(?P<tool>[^()]+?)\s*(?:\((?P<content>.*)\))?\s*", re.DOTALL)
_ALIASES = {"Task": "Agent"}


class CliRule(Struct, frozen=True):
    """One rule, and where it comes from."""

    tool: str
    content: str | None = None
    source: str = "session"

    @property
    def text(self) -> str:
        """The rule as it stands in a settings file."""
        return self.tool if self.content is None else f"{self.tool}({self.content})"

    def names(self, tool: str) -> bool:
        """Whether the rule speaks of this tool, be it only of some of its calls."""
        if self.tool == tool:
            return True
        server, _, rest = self.tool.removeprefix("mcp__").partition("__")
        return (
            self.tool.startswith("mcp__")
            and rest in ("", "*")
            and tool.startswith(f"mcp__{server}__")
        )


class Places(Struct, frozen=True):
    """The folders that the beginnings of path rules stand for."""

    cwd: str
    home: str
    config_dir: str

    def root(self, source: str) -> str | None:
        """Where a rule that starts with one slash begins. A flag's settings have no folder."""
        roots = {"userSettings": self.config_dir, "flagSettings": None}
        return roots.get(source, self.cwd)


def parse_rule(text: str, source: str) -> CliRule | None:
    """Read a rule; None for what is none."""
    found = _RULE.fullmatch(text)
    if not found:
        return None
    tool = _ALIASES.get(found["tool"], found["tool"])
    content = found["content"]
    return CliRule(tool, None if content in (None, "", "*") else content, source)


def matches_command(pattern: str, command: str, *, exactly: bool = False) -> bool:
    """Whether a Bash rule's content speaks of this command.

    `exactly`: as the whole of it, which is how a command is looked up before it is taken apart.
    """
    if pattern.endswith(":*"):
        prefix = pattern[:-2]
        return command == prefix or (not exactly and command.startswith(f"{prefix} "))
    if "*" not in pattern or exactly:
        return command == pattern
    return _wildcards(pattern).fullmatch(command) is not None


def matches_domain(pattern: str, host: str) -> bool:
    """Whether a WebFetch rule's content speaks of this host."""
    domain = pattern.removeprefix("domain:")
    if domain == pattern:
        return False
    if domain.startswith("*."):
        return host.endswith(domain[1:])
    return host == domain


def matches_path(rule: CliRule, path: str, places: Places) -> bool:
    """Whether a path rule speaks of this absolute path, in the manner of .gitignore."""
    root, pattern = _rooted(rule, places)
    if root is None:
        return False
    inner = posixpath.relpath(path, root)
    return not inner.startswith("..") and _ignoring(pattern).fullmatch(inner) is not None


def _rooted(rule: CliRule, places: Places) -> tuple[str | None, str]:
    pattern = rule.content or "**"
    if pattern.startswith("//"):
        return "/", "/" + pattern.lstrip("/")
    if pattern.startswith("~/"):
        return places.home, pattern[1:]
    if pattern.startswith("/"):
        return places.root(rule.source), pattern
    return places.cwd, pattern.removeprefix("./") if pattern != "./" else "**"


@lru_cache(maxsize=256)
def _wildcards(pattern: str) -> re.Pattern[str]:
    # `npm test *` covers `npm test` itself.
    tail = "(?: .*)?" if pattern.endswith(" *") and pattern.count("*") == 1 else ""
    body = pattern[:-2] if tail else pattern
    parts = [re.escape(part) for part in body.split("*")]
    return re.compile(".*".join(parts) + tail, re.DOTALL)


@lru_cache(maxsize=256)
def _ignoring(pattern: str) -> re.Pattern[str]:
    anchored = "/" in pattern.rstrip("/")
    body = pattern.strip("/")
    parts = re.split(r"(\*\*/|/\*\*$|\*\*|\*|\?)", body)
    table = {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    regex = "".join(table.get(part, re.escape(part)) for part in parts)
    return re.compile(f"{'' if anchored else '(?:.*/)?'}{regex}(?:/.*)?", re.DOTALL)
