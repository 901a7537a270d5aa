"""From what a caller asked of a session, now or long ago, to the options of a client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pilothouse.client.options import Options
from pilothouse.errors import DirectoryRefused
from pilothouse.protocol.permissions import PermissionMode
from pilothouse.protocol.wire import as_object

from .contract import JsonObject, SessionOptions

__all__ = ["client_options", "permitted_directory"]


def permitted_directory(given: str, roots: tuple[Path, ...]) -> str:
    """The directory as the session will know it, or `DirectoryRefused` with what to do."""
    if "\0" in given or not given:
        raise DirectoryRefused("no working directory was given", advice="give an absolute path")
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
        allowed = ", ".join(map(str, roots))
        raise DirectoryRefused(
            f"{given} is outside the allowed roots", advice=f"choose one within {allowed}"
        )
    return str(resolved)


def client_options(
    wanted: SessionOptions,
    *,
    cwd: str,
    mode: PermissionMode | None,
    rules: Sequence[str] = (),
    allow_bypass: bool,
    partials: bool,
    cli_path: str | Path | None,
    env: Mapping[str, str],
    inherit_env: bool,
    conversation: Mapping[str, Any],
    handlers: Mapping[str, Any],
) -> Options:
    """Only what was asked for reaches the CLI, and what an engine itself needs."""
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
        "settings": _settings(wanted.settings, rules, allow_bypass=allow_bypass),
        "setting_sources": wanted.setting_sources,
        "json_schema": wanted.json_schema,
        "extra_args": wanted.flags,
    }
    return Options(
        cli_path=cli_path,
        cwd=cwd,
        env={**env, **wanted.env},
        inherit_env=inherit_env,
        permission_mode=mode,
        allow_bypass=allow_bypass,
        include_partial_messages=partials,
        enable_file_checkpointing=True,
        stall_after=None,
        **given,
        **conversation,
        **handlers,
    )


def _settings(
    wanted: JsonObject | None, rules: Sequence[str], *, allow_bypass: bool
) -> JsonObject | None:
    """The caller's settings, what was allowed for the session, and the gate.

    The CLI's own settings files could start it in bypassPermissions; they cannot lift this.
    """
    settings = dict(wanted or {})
    permissions = dict(as_object(settings.get("permissions")))
    if rules:
        given: Any = permissions.get("allow")
        permissions["allow"] = [*(given if isinstance(given, list) else ()), *rules]
    if not allow_bypass:
        permissions["disableBypassPermissionsMode"] = "disable"
    if permissions:
        settings["permissions"] = permissions
    return settings or None
