"""What a session is allowed: its mode, its rules, the folders it works in."""

from __future__ import annotations

from typing import Any, cast

from msgspec import Struct, field

from .rules import CliRule, Places, parse_rule
from .verdict import Json

__all__ = ["BEHAVIORS", "BYPASS", "DESTINATIONS", "MODES", "PermissionState"]

BYPASS = "bypassPermissions"
MODES = ("default", "acceptEdits", "bypassPermissions", "plan", "dontAsk", "auto")
BEHAVIORS = ("deny", "ask", "allow")
DESTINATIONS = ("userSettings", "projectSettings", "localSettings", "session", "cliArg")


class PermissionState(Struct, kw_only=True):
    """The permissions of one session, as they are now."""

    cwd: str
    home: str
    config_dir: str
    mode: str = "default"
    before_plan: str = "default"
    """The mode that an approved plan leads back to."""
    rules: dict[str, list[CliRule]] = field(
        default_factory=lambda: {behavior: [] for behavior in BEHAVIORS}
    )
    directories: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Folders beside the current one, by where they come from."""
    folder: str = ""
    """Where relative paths begin, when a shell has left `cwd`."""
    plan_file: str = ""
    can_ask: bool = True
    """Whether its client is asked."""
    bypass_allowed: bool = False
    forbidden: set[str] = field(default_factory=set[str])
    """Modes that the settings switch off."""
    trusted: bool = False
    """Whether the folder's own settings may allow anything."""
    read_only_tools: set[str] = field(default_factory=set[str])
    """MCP tools whose annotations say `readOnlyHint`; in plan mode they need a safety check."""
    unchecked: int = 0
    """Calls of this turn that were denied for want of a safety check; the tenth ends it."""

    @property
    def places(self) -> Places:
        """The folders that path rules are read against."""
        return Places(self.cwd, self.home, self.config_dir)

    @property
    def working_directories(self) -> list[str]:
        """The current folder and the added ones."""
        added = [folder for folders in self.directories.values() for folder in folders]
        return list(dict.fromkeys([self.cwd, *added]))

    def add(self, behavior: str, source: str, texts: list[str]) -> None:
        """Add rules as they are written in flags and settings; what is no rule is left out."""
        known = self.rules[behavior]
        for text in texts:
            rule = parse_rule(text, source)
            if rule is not None and rule not in known:
                known.append(rule)

    def set_mode(self, mode: str, *, starting: bool = False) -> bool:
        """Change the mode; False where the session may not have it.

        Who starts a session may choose any mode that the settings leave.
        """
        if mode not in MODES or mode in self.forbidden:
            return False
        if mode == BYPASS and not (self.bypass_allowed or starting):
            return False
        if mode == "plan" and self.mode != "plan":
            self.before_plan = self.mode
        self.mode = mode
        return True

    def apply(self, update: Json) -> bool:
        """Carry out a client's PermissionUpdate; False for an invalid one, which is ignored."""
        destination = update.get("destination")
        change = _CHANGES.get(str(update.get("type")))
        if change is None or destination not in DESTINATIONS:
            return False
        return change(self, update, cast("str", destination))


def _set_mode(state: PermissionState, update: Json, _: str) -> bool:
    return state.set_mode(str(update.get("mode")))


def _change_rules(state: PermissionState, update: Json, destination: str) -> bool:
    behavior = update.get("behavior")
    given = _rules(update.get("rules"), destination)
    if behavior not in BEHAVIORS or given is None:
        return False
    if destination == "projectSettings" and behavior == "allow" and not state.trusted:
        return True
    kept = state.rules[cast("str", behavior)]
    if update["type"] == "removeRules":
        kept[:] = [rule for rule in kept if rule not in given]
        return True
    if update["type"] == "replaceRules":
        kept[:] = [rule for rule in kept if rule.source != destination]
    kept.extend(rule for rule in given if rule not in kept)
    return True


def _change_directories(state: PermissionState, update: Json, destination: str) -> bool:
    given = _texts(update.get("directories"))
    if given is None:
        return False
    held = state.directories.get(destination, [])
    if update["type"] == "addDirectories":
        state.directories[destination] = list(dict.fromkeys([*held, *given]))
    else:
        state.directories[destination] = [folder for folder in held if folder not in given]
    return True


_CHANGES = {
    "setMode": _set_mode,
    "addRules": _change_rules,
    "replaceRules": _change_rules,
    "removeRules": _change_rules,
    "addDirectories": _change_directories,
    "removeDirectories": _change_directories,
}


def _rules(given: Any, source: str) -> list[CliRule] | None:
    if not isinstance(given, list):
        return None
    found: list[CliRule] = []
    for entry in cast("list[Any]", given):
        if not isinstance(entry, dict):
            return None
        fields = cast("Json", entry)
        tool, content = fields.get("toolName"), fields.get("ruleContent")
        if not isinstance(tool, str) or not isinstance(content, str | None):
            return None
        rule = parse_rule(tool if content is None else f"{tool}({content})", source)
        if rule is None:
            return None
        found.append(rule)
    return found


def _texts(given: Any) -> list[str] | None:
    if not isinstance(given, list):
        return None
    entries = cast("list[Any]", given)
    return entries if all(isinstance(entry, str) for entry in entries) else None
