"""What answers allow and forbid for the rest of a session, for its later CLIs.

A CLI keeps that in its memory and forgets it when it ends. So the engine keeps it as well, and
starts the next one with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pilothouse.api.records import RulesKept
from pilothouse.protocol import (
    AddDirectories,
    AddRules,
    PermissionRule,
    PermissionUpdate,
    RemoveDirectories,
    RemoveRules,
    ReplaceRules,
)

from .snapshot import Facts

__all__ = ["kept_after"]


def kept_after(facts: Facts, updates: Sequence[PermissionUpdate]) -> RulesKept | None:
    """Return all that is kept once these updates are in force; None if they change nothing."""
    before = _kept(facts)
    after = {name: list(each) for name, each in before.items()}
    for update in updates:
        _apply(after, update)
    if after == before:
        return None
    return RulesKept(
        rules=after["allow"],
        deny=after["deny"],
        ask=after["ask"],
        directories=after["directories"],
        is_whole=True,
    )


def _kept(facts: Facts) -> dict[str, list[str]]:
    return {
        "allow": facts.rules,
        "deny": facts.deny_rules,
        "ask": facts.ask_rules,
        "directories": facts.directories,
    }


def _apply(kept: dict[str, list[str]], update: PermissionUpdate) -> None:
    match update:
        case AddRules(destination="session", behavior=behavior, rules=rules):
            _add(kept[behavior], map(_rule_text, rules))
        case ReplaceRules(destination="session", behavior=behavior, rules=rules):
            kept[behavior] = []
            _add(kept[behavior], map(_rule_text, rules))
        case RemoveRules(destination="session", behavior=behavior, rules=rules):
            gone = {*map(_rule_text, rules)}
            kept[behavior] = [each for each in kept[behavior] if each not in gone]
        case AddDirectories(destination="session", directories=directories):
            _add(kept["directories"], directories)
        case RemoveDirectories(destination="session", directories=directories):
            kept["directories"] = [e for e in kept["directories"] if e not in directories]
        case _:
            # Settings files are the CLI's to read, and the CLI reports its mode.
            pass


def _add(kept: list[str], more: Iterable[str]) -> None:
    kept += [each for each in dict.fromkeys(more) if each not in kept]


def _rule_text(rule: PermissionRule) -> str:
    """Return the rule as the CLI's settings have it."""
    return f"{rule.tool_name}({rule.rule_content})" if rule.rule_content else rule.tool_name
