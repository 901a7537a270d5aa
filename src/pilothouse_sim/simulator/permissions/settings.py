"""Permissions in settings files: which are read at the start, and what an answer writes back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from pilothouse_sim.simulator.settings import CliSettings, section, sound

from .state import BEHAVIORS, MODES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .state import PermissionState
    from .verdict import Json

__all__ = ["grant", "is_trusted", "load_settings", "persist", "settings_file"]

_NAMES = {"user": "userSettings", "project": "projectSettings", "local": "localSettings"}


def settings_file(destination: str, cwd: Path, config_dir: Path) -> Path | None:
    """The file behind a destination; None for those that live in memory."""
    files = {
        "userSettings": config_dir / "settings.json",
        "projectSettings": cwd / ".claude" / "settings.json",
        "localSettings": cwd / ".claude" / "settings.local.json",
    }
    return files.get(destination)


def is_trusted(cwd: Path, config_dir: Path) -> bool:
    """Whether somebody has accepted this folder's own settings."""
    projects = _members(_read(config_dir / ".claude.json").get("projects"))
    return _members(projects.get(str(cwd))).get("hasTrustDialogAccepted") is True


def load_settings(
    state: PermissionState,
    *,
    sources: Iterable[str] = ("user", "project", "local"),
    flag_settings: Json | None = None,
) -> None:
    """Read the permissions of the settings files and of `--settings` into the state.

    `--permission-mode`, `--allowedTools`, `--disallowedTools` and `--add-dir` come after it.
    """
    cwd, config_dir = Path(state.cwd), Path(state.config_dir)
    state.trusted = is_trusted(cwd, config_dir)
    for source in ("user", "project", "local"):
        destination = _NAMES[source]
        file = settings_file(destination, cwd, config_dir)
        if source in sources and file is not None:
            _take(state, destination, _read(file))
    if flag_settings is not None:
        _take(state, "flagSettings", flag_settings)


def grant(settings: CliSettings, permissions: PermissionState) -> str | None:
    """Add the rules and folders of the settings; return the mode they ask for."""
    mode: str | None = None
    for source, layer in settings.layers().items():
        given = section(layer, "permissions")
        # A project that nobody has trusted may forbid, and may not allow.
        trusted = source != "projectSettings"
        for behavior in ("allow", "ask", "deny") if trusted else ("ask", "deny"):
            permissions.add(behavior, source, given.get(behavior) or [])
        if trusted:
            _add_folders(permissions, given.get("additionalDirectories") or [])
        mode = given.get("defaultMode") or mode
    return mode


def _add_folders(permissions: PermissionState, folders: list[str]) -> None:
    """Add them as local ones, which is what the CLI takes the folders of every file for."""
    if folders:
        rest = dict(permissions.directories)
        held = rest.pop("localSettings", [])
        permissions.directories = {"localSettings": list(dict.fromkeys([*held, *folders])), **rest}


def persist(update: Json, cwd: Path, config_dir: Path) -> bool:
    """Write a PermissionUpdate to the settings file it names; False where it names none."""
    file = settings_file(str(update.get("destination")), cwd, config_dir)
    write = _WRITERS.get(str(update.get("type")))
    if file is None or write is None:
        return False
    settings = _read(file)
    before = msgspec.json.encode(settings)
    permissions = _members(settings.setdefault("permissions", {}))
    settings["permissions"] = permissions
    write(permissions, update)
    after = msgspec.json.encode(settings)
    if after != before:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.format(after, indent=2) + b"\n")
    return True


def _take(state: PermissionState, source: str, settings: Json) -> None:
    permissions = _members(sound(settings).get("permissions"))
    honoured = source != "projectSettings" or state.trusted
    for behavior in BEHAVIORS:
        # A folder nobody has trusted may forbid, but not allow.
        if honoured or behavior != "allow":
            state.add(behavior, source, _texts(permissions.get(behavior)))
    if honoured and (folders := _texts(permissions.get("additionalDirectories"))):
        state.directories[source] = folders
    _forbid(state, permissions, settings)
    mode = permissions.get("defaultMode")
    if mode in MODES:
        # A folder's own settings start no session without permissions, trusted or not.
        state.set_mode(mode, starting=source in ("userSettings", "flagSettings"))


def _forbid(state: PermissionState, permissions: Json, settings: Json) -> None:
    if permissions.get("disableBypassPermissionsMode") == "disable":
        state.forbidden.add("bypassPermissions")
    if settings.get("disableAutoMode") == "disable":
        state.forbidden.add("auto")
    if state.mode in state.forbidden:
        state.mode = "default"


def _write_rules(permissions: Json, update: Json) -> None:
    behavior = str(update.get("behavior"))
    if behavior not in BEHAVIORS:
        return
    given = [_rule_text(rule) for rule in cast("list[Json]", update.get("rules") or [])]
    held = _texts(permissions.get(behavior))
    if update["type"] == "removeRules":
        permissions[behavior] = [text for text in held if text not in given]
        return
    kept = held if update["type"] == "addRules" else []
    permissions[behavior] = list(dict.fromkeys([*kept, *given]))


def _rule_text(rule: Json) -> str:
    content = rule.get("ruleContent")
    return str(rule.get("toolName")) + (f"({content})" if content else "")


def _write_directories(permissions: Json, update: Json) -> None:
    given = _texts(update.get("directories"))
    held = _texts(permissions.get("additionalDirectories"))
    permissions["additionalDirectories"] = (
        list(dict.fromkeys([*held, *given]))
        if update["type"] == "addDirectories"
        else [folder for folder in held if folder not in given]
    )


def _write_mode(permissions: Json, update: Json) -> None:
    permissions["defaultMode"] = update.get("mode")


_WRITERS = {
    "addRules": _write_rules,
    "replaceRules": _write_rules,
    "removeRules": _write_rules,
    "addDirectories": _write_directories,
    "removeDirectories": _write_directories,
    "setMode": _write_mode,
}


def _read(file: Path) -> Json:
    try:
        return _members(msgspec.json.decode(file.read_bytes()))
    except (OSError, msgspec.DecodeError):
        return {}


def _members(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _texts(value: Any) -> list[str]:
    entries = cast("list[Any]", value) if isinstance(value, list) else []
    return [entry for entry in entries if isinstance(entry, str)]
