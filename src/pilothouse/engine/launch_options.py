"""From what a caller asked of a session, now or long ago, to the options of a client."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pilothouse.api.requests import SessionOptions
from pilothouse.api.values import JsonObject
from pilothouse.client.options import Options
from pilothouse.errors import DirectoryRefused, InvalidOption
from pilothouse.protocol.permissions import PermissionMode
from pilothouse.protocol.wire import as_object

from .environment import check_environment

__all__ = [
    "asked_options",
    "check_directories",
    "check_flags",
    "check_path",
    "permitted_directory",
]

# A CLI has many flags that are not documented, and some of them lift what the engine relies on: its
# settings, its permissions, its conversation. So what is let through is listed.

VALUES: Final = frozenset(
    {
        "agent",
        "append-subagent-system-prompt",
        "autocompact",
        "betas",
        "name",
        "plan-mode-instructions",
        "system-prompt-snapshot",
        "task-budget",
        "thinking",
        "thinking-display",
    }
)
SWITCHES: Final = frozenset(
    {
        "disable-slash-commands",
        "exclude-dynamic-system-prompt-sections",
        "forward-subagent-text",
        "include-hook-events",
        "no-chrome",
    }
)
EITHER: Final = frozenset({"debug", "prompt-suggestions"})
"""With a value or without."""

OPTIONS: Final = {
    "add-dir": "add_dirs",
    "agents": "agents",
    "allow-dangerously-skip-permissions": "mode",
    "allowed-tools": "allowed_tools",
    "allowedtools": "allowed_tools",
    "append-system-prompt": "append_system_prompt",
    "append-system-prompt-file": "append_system_prompt",
    "dangerously-skip-permissions": "mode",
    "disallowed-tools": "disallowed_tools",
    "disallowedtools": "disallowed_tools",
    "effort": "effort",
    "fallback-model": "fallback_model",
    "json-schema": "json_schema",
    "managed-settings": "settings",
    "max-budget-usd": "max_budget_usd",
    "max-thinking-tokens": "max_thinking_tokens",
    "max-turns": "max_turns",
    "mcp-config": "mcp_servers",
    "model": "model",
    "no-session-persistence": "persist_session",
    "permission-mode": "mode",
    "setting-sources": "setting_sources",
    "settings": "settings",
    "strict-mcp-config": "strict_mcp_config",
    "system-prompt": "system_prompt",
    "system-prompt-file": "system_prompt",
    "tools": "tools",
}
"""Flag -> the option that does the same."""


def permitted_directory(given: str, roots: tuple[Path, ...]) -> str:
    """The directory as the session will know it, or `DirectoryRefused` with what to do."""
    if not given:
        raise DirectoryRefused("no working directory was given", advice="give an absolute path")
    if "\0" in given:
        raise DirectoryRefused(
            "the working directory has a null byte, which no path has", advice="leave it out"
        )
    check_path(given)
    path = Path(given)
    if not path.is_absolute():
        raise DirectoryRefused(f"{given} is not absolute", advice="give an absolute path")
    try:
        resolved = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DirectoryRefused(
            f"{given}: {reason}", advice="give a directory that exists"
        ) from None
    if not resolved.is_dir():
        raise DirectoryRefused(f"{given} is no directory", advice="give a directory")
    if roots and not any(resolved.is_relative_to(root.resolve()) for root in roots):
        allowed = ", ".join(_shown(str(root)) for root in roots)
        raise DirectoryRefused(
            f"{given} is outside the allowed roots", advice=f"choose one within {allowed}"
        )
    # A link may lead to what no record could hold.
    check_path(str(resolved))
    return str(resolved)


def check_path(path: str) -> None:
    """Refuse a path that no record could hold."""
    if _shown(path) != path:
        raise DirectoryRefused(
            f"the path {_shown(path)} is not UTF-8", advice="rename it, or choose another"
        )


def _shown(path: str) -> str:
    return path.encode("utf-8", "replace").decode()


def check_directories(wanted: SessionOptions, cwd: str, roots: tuple[Path, ...]) -> None:
    """Refuse directories beside the working directory that are outside the allowed roots, or
    whose names are no text."""
    permissions = as_object(as_object(wanted.settings).get("permissions"))
    more: Any = permissions.get("additionalDirectories")
    wished: list[Any] = [*wanted.add_dirs, *(more if isinstance(more, list) else ())]
    for each in wished:
        # The CLI looks for them from its own working directory.
        path = str(Path(cwd, str(each)))
        if roots:
            permitted_directory(path, roots)
        else:
            check_path(_led_to(path))


def _led_to(path: str) -> str:
    """Return where a path leads, as far as that is known."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path


def check_flags(flags: Mapping[str, str | None]) -> None:
    """Refuse flags that would change what an engine itself passes to a CLI."""
    for name, value in flags.items():
        if name not in VALUES | SWITCHES | EITHER:
            raise InvalidOption(f"the flag {name!r} is not passed on; {_instead_of(name)}")
        # Without its value a flag would take the next one for it.
        if name in VALUES and value is None:
            raise InvalidOption(f"the flag {name!r} needs a value; give one")
        if name in SWITCHES and value is not None:
            raise InvalidOption(f"the flag {name!r} takes no value; give null")


def _instead_of(name: str) -> str:
    bare = name.strip("- ").partition("=")[0]
    if bare in VALUES | SWITCHES | EITHER:
        return f"write it as {bare!r}, and its value as the value"
    option = OPTIONS.get(bare.lower().replace("_", "-"))
    if option is not None:
        return f"use the option `{option}`"
    return f"leave it out; those that are: {', '.join(sorted(VALUES | SWITCHES | EITHER))}"


def asked_options(
    wanted: SessionOptions,
    *,
    cwd: str,
    mode: PermissionMode | None,
    kept: Mapping[str, Sequence[str]] | None = None,
    allow_bypass: bool,
    allowed_env: Sequence[str] = (),
) -> Options:
    """Return the options of a client that a caller may choose; the engine adds its own to them.

    `kept` is what answers have changed for the session: lists of the settings' permissions.
    """
    check_environment(wanted, allowed_env, allow_bypass=allow_bypass)
    given: dict[str, Any] = {
        "model": wanted.model,
        "fallback_model": wanted.fallback_model,
        "effort": wanted.effort,
        "max_thinking_tokens": wanted.max_thinking_tokens,
        "tools": wanted.tools,
        "allowed_tools": wanted.allowed_tools,
        "disallowed_tools": wanted.disallowed_tools,
        "add_dirs": wanted.add_dirs,
        "max_turns": wanted.max_turns,
        "max_budget_usd": wanted.max_budget_usd,
        "system_prompt": wanted.system_prompt,
        "append_system_prompt": wanted.append_system_prompt,
        "agents": wanted.agents,
        "mcp_servers": wanted.mcp_servers,
        "strict_mcp_config": wanted.strict_mcp_config,
        "settings": _settings(wanted.settings, kept or {}, allow_bypass=allow_bypass),
        "setting_sources": wanted.setting_sources,
        "json_schema": wanted.json_schema,
        "persist_session": wanted.persist_session,
        "extra_args": wanted.flags,
    }
    return Options(
        cwd=cwd,
        env=wanted.env,
        permission_mode=mode,
        allow_bypass=allow_bypass,
        enable_file_checkpointing=True,
        stall_after=None,
        **given,
    )


def _settings(
    wanted: JsonObject | None, kept: Mapping[str, Sequence[str]], *, allow_bypass: bool
) -> JsonObject | None:
    """The caller's settings, what was allowed for the session, and the gate.

    The CLI's own settings files could start it in bypassPermissions; they cannot lift this.
    """
    settings = dict(wanted or {})
    permissions = dict(as_object(settings.get("permissions")))
    for name, more in kept.items():
        if more:
            given: Any = permissions.get(name)
            permissions[name] = [*(given if isinstance(given, list) else ()), *more]
    if not allow_bypass:
        permissions["disableBypassPermissionsMode"] = "disable"
    if permissions:
        settings["permissions"] = permissions
    return settings or None
