"""The settings of a session: files of the user and the project, and what the command line gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec

__all__ = [
    "SOURCES",
    "CliSettings",
    "chosen_model",
    "merge",
    "read_inline",
    "section",
    "sound",
]

SOURCES: Final = ("userSettings", "projectSettings", "localSettings", "flagSettings")
"""Where settings come from; later ones win."""

_TEXTS: Final = ("model", "outputStyle")
_OBJECTS: Final = ("env", "hooks", "permissions")
_GUARDS: Final = ("PreToolUse", "PermissionRequest")
_LISTS: Final = ("allow", "ask", "deny", "additionalDirectories")
_SHORT: Final = {"user": "userSettings", "project": "projectSettings", "local": "localSettings"}


def chosen_model(
    flag: str | None, environment: Mapping[str, str], settings: CliSettings
) -> str | None:
    """The model a session starts with, as it was named, or None for the default one."""
    return flag or environment.get("ANTHROPIC_MODEL") or settings.effective().get("model")


class CliSettings:
    """Layers of settings, each as it was written."""

    def __init__(
        self, cwd: Path, config_dir: Path, inline: str | None = None, sources: str | None = None
    ) -> None:
        self.paths = {
            "userSettings": config_dir / "settings.json",
            "projectSettings": cwd / ".claude" / "settings.json",
            "localSettings": cwd / ".claude" / "settings.local.json",
        }
        self._read = _chosen(sources)
        self._flags = read_inline(inline, cwd)

    def layers(self) -> dict[str, dict[str, Any]]:
        """What each source says, without those that say nothing."""
        found = {name: _read(self.paths[name]) for name in self._read}
        layers = {**found, "flagSettings": self._flags}.items()
        return {name: kept for name, layer in layers if (kept := sound(layer))}

    def effective(self) -> dict[str, Any]:
        """All layers in one."""
        merged: dict[str, Any] = {}
        for layer in self.layers().values():
            merged = merge(merged, layer)
        return merged

    def apply(self, changes: dict[str, Any]) -> None:
        """Change what the command line said; None takes a setting away."""
        self._flags = merge(self._flags, changes)

    def write(self, source: str, changes: dict[str, Any]) -> None:
        """Change a file."""
        path = self.paths[source]
        path.parent.mkdir(parents=True, exist_ok=True)
        changed = merge(_read(path), changes)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(changed), indent=2) + b"\n")


def section(layer: dict[str, Any], name: str) -> dict[str, Any]:
    """The object that stands under a name, or an empty one."""
    found = layer.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def sound(layer: dict[str, Any]) -> dict[str, Any]:
    """A layer without what has the wrong shape.

    As the CLI has it, nothing of a layer counts with a model that is no text, or with a broken
    hook among those that guard tools: what it guards might be allowed in the same layer.
    """
    kept = {key: value for key, value in layer.items() if key not in _OBJECTS}
    kept |= {key: dict(section(layer, key)) for key in _OBJECTS if isinstance(layer.get(key), dict)}
    if any(not isinstance(layer.get(key, ""), str) for key in _TEXTS):
        return {}
    hooks = {event: _sound_groups(groups) for event, groups in section(kept, "hooks").items()}
    if any(event in _GUARDS and hooks[event] != kept["hooks"][event] for event in hooks):
        return {}
    if "hooks" in kept:
        kept["hooks"] = hooks
    if "permissions" in kept:
        kept["permissions"] = _sound_permissions(kept["permissions"])
    return kept


def _sound_groups(groups: Any) -> list[dict[str, Any]]:
    return [
        {**group, "hooks": [hook for hook in _objects(group["hooks"]) if _is_hook(hook)]}
        for group in _objects(groups)
        if isinstance(group.get("hooks"), list) and isinstance(group.get("matcher", ""), str)
    ]


def _is_hook(hook: dict[str, Any]) -> bool:
    timed = isinstance(hook.get("timeout", 0), int | float)
    return timed and (hook.get("type") != "command" or isinstance(hook.get("command"), str))


def _sound_permissions(given: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in given.items() if key not in (*_LISTS, "defaultMode")}
    for key in _LISTS:
        if isinstance(given.get(key), list):
            kept[key] = [each for each in given[key] if isinstance(each, str)]
    if isinstance(given.get("defaultMode"), str):
        kept["defaultMode"] = given["defaultMode"]
    return kept


def _objects(value: Any) -> list[dict[str, Any]]:
    entries = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", each) for each in entries if isinstance(each, dict)]


def merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Lay changes over a layer: objects are merged, lists joined, None removes."""
    merged = dict(base)
    for key, value in changes.items():
        before = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict) and isinstance(before, dict):
            merged[key] = merge(cast("dict[str, Any]", before), cast("dict[str, Any]", value))
        elif isinstance(value, list) and isinstance(before, list):
            joined = [*cast("list[Any]", before), *cast("list[Any]", value)]
            merged[key] = [each for at, each in enumerate(joined) if each not in joined[:at]]
        else:
            merged[key] = value
    return merged


def read_inline(given: str | None, cwd: Path) -> dict[str, Any]:
    """The settings of a flag: JSON itself, or the name of a file with it."""
    if not given:
        return {}
    if given.lstrip().startswith("{"):
        return _object(given.encode())
    return _read(cwd / given)


def _chosen(sources: str | None) -> list[str]:
    if sources is None:
        return list(_SHORT.values())
    named = {word.strip() for word in sources.split(",")}
    return [name for short, name in _SHORT.items() if short in named]


def _read(path: Path) -> dict[str, Any]:
    try:
        return _object(path.read_bytes())
    except OSError:
        return {}


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
