"""Which servers the command line and the project name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

if TYPE_CHECKING:
    from pilothouse_sim.simulator.flags import LaunchFlags

__all__ = ["complete", "configured"]

Config = dict[str, Any]


def configured(
    launch: LaunchFlags, cwd: Path, environment: Mapping[str, str]
) -> dict[str, tuple[Config, str]]:
    """Every server by name, with its configuration and where that comes from."""
    found: dict[str, tuple[Config, str]] = {}
    if not launch.strict_mcp_config and not launch.bare:
        project = _read(cwd / ".mcp.json")
        found |= {name: (each, "project") for name, each in _servers(project, environment)}
    for given in launch.mcp_config:
        table = _decode(given.encode()) if given.lstrip().startswith("{") else _read(cwd / given)
        found |= {name: (each, "dynamic") for name, each in _servers(table, environment)}
    return found


def complete(config: Config) -> Config:
    """A configuration with its type."""
    return {"type": "stdio", **config} if "type" not in config else config


def _servers(table: Config, environment: Mapping[str, str]) -> list[tuple[str, Config]]:
    servers = table.get("mcpServers")
    entries = cast("Config", servers).items() if isinstance(servers, dict) else ()
    return [
        (name, _expanded(complete(cast("Config", each)), environment))
        for name, each in entries
        if isinstance(each, dict)
    ]


def _expanded(value: Any, environment: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return re.sub(
            r"\$\{(\w+)(?::-([^}]*))?\}",
            lambda found: environment.get(found[1], found[2] or found[0]),
            value,
        )
    if isinstance(value, list):
        return [_expanded(each, environment) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        members = cast("Config", value).items()
        return {key: _expanded(each, environment) for key, each in members}
    return value


def _read(path: Path) -> Config:
    try:
        return _decode(path.read_bytes())
    except OSError:
        return {}


def _decode(text: bytes) -> Config:
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return cast("Config", found) if isinstance(found, dict) else {}
