"""What is found out about one command, and the rules that speak of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from .rules import CliRule, matches_command
from .tables import SAFE_VARIABLES

if TYPE_CHECKING:
    from .shell import Part
    from .state import PermissionState

__all__ = ["ALLOWED", "WRAPPING", "CommandFinding", "find_command_rule", "is_plain", "unwrapped"]

WRAPPING = ("timeout", "nohup", "nice", "time", "command")


class CommandFinding(Struct, frozen=True, kw_only=True):
    """What was found out about a command or a part of it."""

    behavior: str
    message: str = ""
    reason: str | None = None
    reason_type: str | None = None
    blocked_path: str | None = None
    writes: bool = False
    redirects: bool = False
    folder: str | None = None
    """The folder a question suggests to open up."""
    rule: CliRule | None = None
    text: str = ""
    cautious: bool = False
    """Asked about even in modes that ask less; no rule can allow it."""


ALLOWED = CommandFinding(behavior="allow", reason_type="subcommandResults")


def find_command_rule(part: Part, behavior: str, state: PermissionState) -> CliRule | None:
    """The first rule about this command's text. A denial looks behind any variables, too."""
    bare = " ".join(part.raw)
    texts = {part.text, " ".join(unwrapped(part.raw, WRAPPING))}
    if behavior != "allow" or is_plain(part):
        texts |= {bare}
    else:
        texts = {part.text}
    for rule in state.rules[behavior]:
        pattern = rule.content if rule.tool == "Bash" else None
        if pattern and any(matches_command(pattern, text) for text in texts):
            return rule
    return None


def is_plain(part: Part) -> bool:
    """Whether nothing is set in front of the command that could change what it does."""
    return all(entry.partition("=")[0] in SAFE_VARIABLES for entry in part.environment)


def unwrapped(words: list[str], wrappers: tuple[str, ...]) -> list[str]:
    """The command behind programs that merely run it."""
    while len(words) > 1 and words[0] in wrappers and words[:2] != ["command", "-v"]:
        skipped = 1
        while skipped < len(words) and re.fullmatch(r"-.*|[\d.]+[smhd]?", words[skipped]):
            skipped += 1
        words = words[skipped:]
    return words
