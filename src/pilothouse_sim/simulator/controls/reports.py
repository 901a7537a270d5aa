"""Requests that only report: models, costs, settings, rules, hooks, and what dialogs would show."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from pilothouse_sim.simulator import facts, user_extensions
from pilothouse_sim.simulator.controls.base import ControlAsk, Handler, RequestRefused
from pilothouse_sim.simulator.controls.context import get_context_usage
from pilothouse_sim.simulator.controls.costs import get_session_cost, get_usage
from pilothouse_sim.simulator.controls.rules import list_permission_rules
from pilothouse_sim.simulator.facts import api_key_source, project_folder
from pilothouse_sim.simulator.settings import section

if TYPE_CHECKING:
    from pathlib import Path

    from pilothouse_sim.simulator.session import SimulatedSession

__all__ = ["ANSWERS"]

_BUSY: Final = "The session is busy, so plugins were not reloaded. Ask again once it is idle."
_SETTING_NAMES: Final = {
    "userSettings": "User settings",
    "projectSettings": "Shared project settings",
    "localSettings": "Project local settings",
    "flagSettings": "Command line arguments",
}
_HOOK_SOURCES: Final = {
    "userSettings": "User settings (~/.claude/settings.json)",
    "projectSettings": "Project settings (.claude/settings.json)",
    "localSettings": "Local settings (.claude/settings.local.json)",
}


# The CLI itself


def get_binary_version(_session: SimulatedSession, _asked: ControlAsk) -> dict[str, Any]:
    """Which CLI this is."""
    return {"version": facts.VERSION, "buildTime": facts.BUILD_TIME}


def list_models(session: SimulatedSession, _: ControlAsk) -> dict[str, Any]:
    """Which models there are."""
    return {"models": facts.listed_models(session.state.desk.model_given)}


def get_settings(session: SimulatedSession, _: ControlAsk) -> dict[str, Any]:
    """The settings in force, and where they come from."""
    settings = session.state.desk.settings
    effective = settings.effective()
    layers = settings.layers().items()
    effort = effective.get("effortLevel") or session.state.launch.effort or "medium"
    applied = facts.reports()["applied_settings"] | {"effort": effort}
    return {
        "effective": effective,
        "sources": [{"source": source, "settings": layer} for source, layer in layers],
        "applied": {"model": session.state.model_name, **applied},
    }


def get_status(session: SimulatedSession, _: ControlAsk) -> dict[str, Any]:
    """The status page."""
    sections = [
        ("Session", _session_rows(session)),
        ("Environment", _environment_rows(session)),
    ]
    return {"sections": [{"title": title, "rows": _rows(rows)} for title, rows in sections]}


def _session_rows(session: SimulatedSession) -> list[tuple[str, str | None]]:
    return [
        ("Version", facts.VERSION),
        ("Session name", session.state.desk.title),
        ("Session ID", session.state.session_id),
        ("Session kind", "interactive"),
        ("Peer address", f"uds:/tmp/cc-socks/{os.getpid()}.sock"),
        ("cwd", str(session.state.cwd)),
        ("API key", api_key_source(session.state.environment)),
        ("Anthropic base URL", session.state.environment.get("ANTHROPIC_BASE_URL")),
    ]


def _environment_rows(session: SimulatedSession) -> list[tuple[str, str | None]]:
    layers = session.state.desk.settings.layers()
    own_url = "ANTHROPIC_BASE_URL" in session.state.environment
    managed = "not fetched — not available with a custom ANTHROPIC_BASE_URL" if own_url else None
    return [
        ("Model", session.state.model_name),
        ("Setting sources", ", ".join(_SETTING_NAMES[source] for source in layers) or None),
        ("Managed settings (remote)", managed),
        (
            "Organization policy",
            "not fetched with a custom ANTHROPIC_BASE_URL" if own_url else None,
        ),
        ("Auto mode server", "Disabled"),
    ]


def _rows(rows: list[tuple[str, str | None]]) -> list[dict[str, str]]:
    return [{"label": label, "value": value} for label, value in rows if value]


# What was loaded


def reload_plugins(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Load plugins again."""
    if asked.get("refuse_if_busy") is True and session.queue.is_busy:
        raise RequestRefused(_BUSY, "reload_plugins_busy")
    session.state.gather_customs()
    catalog = session.state.catalog
    body: dict[str, Any] = {
        "commands": catalog.commands,
        "agents": catalog.agents,
        "plugins": catalog.plugins,
        "mcpServers": session.mcp.listing(),
        "error_count": len(asked.get("add_plugins") or ()),
    }
    return body | ({"held": False} if asked.get("hold_on_cache_impact") is True else {})


def reload_skills(session: SimulatedSession, _: ControlAsk) -> dict[str, Any]:
    """Load skills again; those the model may use are listed."""
    session.state.gather_customs()
    known = facts.reports()
    listed = set(known["reloaded_skills"])
    hidden = [{**each, "builtin": True} for each in known["hidden_skills"]]
    commands = {each["name"]: each for each in [*session.state.catalog.commands, *hidden]}
    own = [each for each in session.state.catalog.commands if "builtin" not in each]
    names = [name for name in known["reloaded_skills"] if name in listed]
    return {"skills": [*own, *(commands[name] for name in names if name in commands)]}


def reload_output_styles(session: SimulatedSession, _: ControlAsk) -> dict[str, Any]:
    """Load output styles again."""
    session.state.gather_customs()
    return {"available_output_styles": session.state.catalog.output_styles}


def get_hooks_listing(session: SimulatedSession, _: ControlAsk) -> dict[str, Any]:
    """The hooks that settings configure; those of the client are not listed."""
    catalog = facts.reports()["hook_events"]
    hooks = [
        hook
        for source, layer in session.state.desk.settings.layers().items()
        for event, groups in section(layer, "hooks").items()
        for group in groups
        for hook in _hooks_of(source, event, group)
    ]
    counts = {each["name"]: sum(h["event"] == each["name"] for h in hooks) for each in catalog}
    events = [{**each, "hookCount": counts[each["name"]]} for each in catalog]
    return {
        "events": [each for each in events if each["hookCount"]],
        "hooks": hooks,
        "eventCatalog": catalog,
        "policy": facts.reports()["hooks_policy"],
    }


def _hooks_of(source: str, event: str, group: dict[str, Any]) -> list[dict[str, Any]]:
    return [_hook(source, event, group.get("matcher", ""), config) for config in group["hooks"]]


def _hook(source: str, event: str, matcher: str, config: dict[str, Any]) -> dict[str, Any]:
    text = config.get("command") or config.get("prompt") or config.get("url") or ""
    kept = {"timeout": config["timeout"]} if "timeout" in config else {}
    return {
        "event": event,
        "matcher": matcher,
        "source": source,
        "sourceLabel": _HOOK_SOURCES.get(source, source),
        "type": config["type"],
        "displayText": text,
        "commandText": text,
        "contentLabel": config["type"].capitalize(),
        **kept,
        "editable": {"matcher": matcher, "config": config},
    }


# Dialogs


def get_memory_dialog(session: SimulatedSession, _: ControlAsk) -> dict[str, Any]:
    """The files with instructions, those that exist first, and the folder of memories."""
    user, project = session.state.config_dir / "CLAUDE.md", session.state.cwd / "CLAUDE.md"
    in_repository = any(
        (each / ".git").exists() for each in (session.state.cwd, *session.state.cwd.parents)
    )
    checked_in = "Checked in at" if in_repository and project.exists() else "Saved in"
    files = [
        _memory_file("user", user, "User instructions", "Saved in ~/.claude/CLAUDE.md"),
        _memory_file("project", project, "Project instructions", f"{checked_in} ./CLAUDE.md"),
    ]
    folder = f"{project_folder(session.state.config_dir, session.state.original_cwd)}/memory/"
    opened = {"label": "Open auto-memory folder", "description": ""}
    return {
        "files": sorted(files, key=lambda each: not each["exists"]),
        "folders": [{"kind": "auto", "path": folder, **opened}],
        "memories": [],
        "auto_memory": {"enabled": True, "toggleable": True, "status": "on"},
        "auto_dream": {
            "shown": False,
            "enabled": False,
            "toggleable": True,
            "status": "off",
            "detail": "",
        },
    }


def _memory_file(kind: str, path: Path, label: str, description: str) -> dict[str, Any]:
    named = {"kind": kind, "path": str(path), "label": label, "description": description}
    return named | {"exists": path.is_file()}


def get_skills_dialog(session: SimulatedSession, _: ControlAsk) -> dict[str, Any]:
    """The user's own skills and commands."""
    sources = session.state.launch.setting_sources
    found = user_extensions.own_commands(session.state.cwd, session.state.config_dir, sources)
    ordered = sorted(found, key=lambda each: (each.label, each.name))
    return {"skills": [_skill(each) for each in ordered]}


def _skill(custom: user_extensions.Custom) -> dict[str, Any]:
    return {
        "name": custom.name,
        "display_name": custom.name,
        "description": custom.description,
        "source": custom.label,
        # About three letters a token.
        "tokens": round(len(f"{custom.name} {custom.description}") / 3),
        "state": "on",
        "advertised": True,
        "handles": {},
    }


def get_sandbox_dialog(session: SimulatedSession, _: ControlAsk) -> dict[str, Any]:
    """Whether commands run in a sandbox."""
    given = section(session.state.desk.settings.effective(), "sandbox")
    return facts.reports()["sandbox"] | {"excluded_commands": given.get("excludedCommands", [])}


def get_chrome_dialog(_session: SimulatedSession, _asked: ControlAsk) -> dict[str, Any]:
    """Whether a browser may be used; there is none."""
    return facts.reports()["chrome"]


ANSWERS: dict[str, Handler] = {
    "get_binary_version": get_binary_version,
    "list_models": list_models,
    "get_settings": get_settings,
    "get_status": get_status,
    "reload_plugins": reload_plugins,
    "reload_skills": reload_skills,
    "reload_output_styles": reload_output_styles,
    "get_hooks_listing": get_hooks_listing,
    "list_permission_rules": list_permission_rules,
    "get_memory_dialog": get_memory_dialog,
    "get_skills_dialog": get_skills_dialog,
    "get_sandbox_dialog": get_sandbox_dialog,
    "get_chrome_dialog": get_chrome_dialog,
    "get_context_usage": get_context_usage,
    "get_session_cost": get_session_cost,
    "get_usage": get_usage,
}
