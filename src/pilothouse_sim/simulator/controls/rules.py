"""Which permission rules are in force, and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pilothouse_sim.simulator.controls.base import ControlAsk
    from pilothouse_sim.simulator.session import SimulatedSession

__all__ = ["list_permission_rules"]

_EDITABLE: Final = {
    "userSettings": "persistent",
    "projectSettings": "persistent",
    "localSettings": "persistent",
    "flagSettings": "readonly",
    "cliArg": "session",
    "session": "session",
}


def list_permission_rules(session: SimulatedSession, _: ControlAsk) -> dict[str, Any]:
    """All rules, by what they do and where they come from."""
    state = {
        "rules": [_entry(*each) for each in _rules(session)],
        "workspaceDirectories": list(_directories(session)),
        "originalCwd": str(session.state.cwd),
        "managedOnly": False,
    }
    return {"state": state}


def _rules(session: SimulatedSession) -> Iterator[tuple[str, str, str]]:
    for behavior in ("allow", "ask", "deny"):
        rules = session.state.permissions.rules[behavior]
        for source in _EDITABLE:
            yield from ((behavior, source, rule.text) for rule in rules if rule.source == source)


def _directories(session: SimulatedSession) -> Iterator[dict[str, str]]:
    # Folders of any settings file are shown as local ones.
    for source, folders in session.state.permissions.directories.items():
        shown = "localSettings" if source.endswith("Settings") else source
        yield from ({"path": path, "source": shown} for path in folders)


def _entry(behavior: str, source: str, rule: str) -> dict[str, Any]:
    described = _described(rule)
    return {
        "behavior": behavior,
        "source": source,
        "rule": rule,
        **({"description": described} if described else {}),
        "editability": _EDITABLE[source],
    }


def _described(rule: str) -> dict[str, str] | None:
    tool, _, content = rule.removesuffix(")").partition("(")
    if not content:
        if tool == "Bash":
            return {"prefix": "Any Bash command"}
        return {"prefix": "Any use of the ", "emphasis": tool, "suffix": " tool"}
    if tool != "Bash":
        return None
    for wildcard in (":*", " *"):
        if content.endswith(wildcard):
            start = content.removesuffix(wildcard)
            return {"prefix": "Any Bash command starting with ", "emphasis": start}
    return {"prefix": "The Bash command ", "emphasis": content}
