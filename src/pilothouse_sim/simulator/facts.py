"""What CLI 2.1.325 is and offers by itself: models and prices, tools, commands, agents.

The data lie in `facts/*.json`, each read when it is first needed. Names and numbers are those the
CLI reports; descriptions of commands and agents are in our own words.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from pilothouse_sim.simulator.models import (
    FOLDER,
    ModelFacts,
    data,
    is_known_model,
    listed_models,
    model,
    price,
    request_model,
    resolve_model,
)

__all__ = [
    "BUILD_TIME",
    "MODES",
    "VERSION",
    "Catalog",
    "ModelFacts",
    "builtin_catalog",
    "init_fields",
    "initialize_reply",
    "is_known_model",
    "listed_models",
    "model",
    "price",
    "reports",
    "request_model",
    "resolve_model",
    "tool_names",
]

VERSION: Final = "2.1.325"
BUILD_TIME: Final = "2026-11-13T18:52:23Z"
MODES: Final = ("acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan")
"""The permission modes, in the order in which the CLI's errors name them."""

_FAST_MODE: Final = {
    "fast_mode_state": "off",
    "fast_mode_disabled_reason": "sdk_opt_in_required",
}


class Catalog(Struct, frozen=True, kw_only=True):
    """What a session offers: the CLI's own things and what was found on disk."""

    commands: list[dict[str, Any]]
    skills: list[str]
    agents: list[dict[str, Any]]
    plugins: list[dict[str, Any]]
    output_styles: list[str]


@cache
def reports() -> dict[str, Any]:
    """The constant parts of the answers to rarer control requests."""
    return msgspec.json.decode((FOLDER / "reports.json").read_bytes())


# Tools


def tool_names(
    *,
    model_name: str,
    environment: Mapping[str, str],
    given: list[str] | None = None,
    denied: Iterable[str] = (),
    can_ask: bool = True,
    bare: bool = False,
    slash_commands: bool = True,
    structured: bool = False,
    structured_later: bool = False,
    resources: bool = False,
    mcp: Iterable[str] = (),
) -> list[str]:
    """The tools of a session as `init` lists them; `given` is what --tools asks for."""
    denied = {_shown(name) for name in denied}
    names = _offered(given, denied, model_name, bare=bare) - denied
    needs = data()["tools_by_need"]
    if not can_ask:
        names -= set(needs["asking"])
    if is_quiet(environment):
        names -= set(needs["online"])
    if environment.get("ENABLE_TOOL_SEARCH", "").lower() in ("false", "0"):
        names.discard("ToolSearch")
    if not slash_commands:
        names.discard("Skill")
    if structured:
        names.add("StructuredOutput")
    if resources:
        names |= set(needs["resources"])
    # `Task` is the old name of Agent, shown in Agent's place.
    own = sorted(names, key=lambda name: "Agent" if name == "Task" else name)
    # Asked for by `initialize`, it is added when the list is already in order.
    late = ["StructuredOutput"] if structured_later else []
    return [*own, *late, *(name for name in mcp if name not in denied)]


def _offered(given: list[str] | None, denied: set[str], model_name: str, *, bare: bool) -> set[str]:
    needs = data()["tools_by_need"]
    names = set(data()["tools"])
    if model(model_name).keeps_todo_tools:
        names |= set(needs["old_models"])
    if bare:
        return set(needs["bare"])
    if given is not None and given != ["default"]:
        return (names | set(needs["without_bash"])) & {_shown(name) for name in given}
    if "Bash" in denied:
        # Without a shell the model searches with tools of their own.
        return (names | set(needs["without_bash"])) - set(needs["with_bash"])
    return names


def _shown(name: str) -> str:
    return "Task" if name == "Agent" else name


# What a session offers


def builtin_catalog(environment: Mapping[str, str], *, safe: bool = False) -> Catalog:
    """What the CLI offers by itself."""
    known = data()
    quiet = is_quiet(environment)
    entries = [each for each in known["commands"] if not (quiet and each.get("online"))]
    entrypoint = environment.get("CLAUDE_CODE_ENTRYPOINT", "sdk-cli")
    agents = [_agent(each) for each in known["agents"] if _is_offered(each, entrypoint)]
    plugins = known["plugins"]
    if is_untracked(environment):
        plugins = [each for each in plugins if each["name"] != "cc-plugin-telemetry"]
    return Catalog(
        commands=[_command(each) for each in entries],
        skills=[each["name"] for each in entries if each.get("skill")],
        agents=[each for each in agents if not (safe and each["name"] == "statusline-setup")],
        plugins=plugins,
        output_styles=known["output_styles"],
    )


def _is_offered(agent: dict[str, Any], entrypoint: str) -> bool:
    return not (agent.get("outside_sdks") and entrypoint.startswith("sdk-"))


def _agent(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "outside_sdks"}


def _command(entry: dict[str, Any]) -> dict[str, Any]:
    shown = {key: value for key, value in entry.items() if key not in ("skill", "online")}
    return shown | {"builtin": True}


def is_quiet(environment: Mapping[str, str]) -> bool:
    """Whether the CLI was told to stay off the network as far as it can."""
    return _is_on(environment, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC")


def is_untracked(environment: Mapping[str, str]) -> bool:
    """Whether the CLI was told not to report on its use."""
    return is_quiet(environment) or _is_on(environment, "DISABLE_TELEMETRY")


def _is_on(environment: Mapping[str, str], variable: str) -> bool:
    return environment.get(variable, "").lower() not in ("", "0", "false", "no", "off")


# The two descriptions of a session


def init_fields(
    *,
    cwd: Path,
    config_dir: Path,
    session_id: str,
    tools: list[str],
    mcp_servers: list[dict[str, Any]],
    model_name: str,
    permission_mode: str,
    catalog: Catalog,
    environment: Mapping[str, str],
    output_style: str = "default",
    original_cwd: Path | None = None,
    additional_directories: Iterable[str] = (),
    betas: list[str] | None = None,
    slash_commands: bool = True,
    bare: bool = False,
    safe: bool = False,
) -> dict[str, Any]:
    """The fields of `system/init`, but for its uuid and the prompts it speaks for."""
    terminal = {"terminal_slash_commands": data()["terminal_slash_commands"]}
    memory = {
        "memory_paths": {"auto": f"{project_folder(config_dir, original_cwd or cwd)}/memory/"}
    }
    socket = {"messaging_socket_path": f"/tmp/cc-socks/{os.getpid()}.sock"}
    return {
        "cwd": str(cwd),
        "session_id": session_id,
        "tools": tools,
        "mcp_servers": mcp_servers,
        "model": model_name,
        "permissionMode": permission_mode,
        "slash_commands": [each["name"] for each in catalog.commands] if slash_commands else [],
        **(terminal if slash_commands else {}),
        "apiKeySource": api_key_source(environment),
        **({"betas": betas} if betas else {}),
        "claude_code_version": VERSION,
        "output_style": output_style,
        "agents": [each["name"] for each in catalog.agents],
        "skills": catalog.skills if slash_commands else [],
        "plugins": catalog.plugins,
        "capabilities": data()["capabilities"],
        "analytics_disabled": is_untracked(environment),
        "product_feedback_disabled": is_quiet(environment),
        **({} if bare or safe else memory),
        "original_cwd": str(cwd),
        "additional_directories": list(additional_directories),
        **({} if bare else socket),
        **_FAST_MODE,
        "per_turn_effort_active": model(model_name).takes_effort,
        "ultrathink_available": False,
        "ultrathink_typed_raises": False,
        "view_mode": "default",
    }


def initialize_reply(
    *,
    catalog: Catalog,
    environment: Mapping[str, str],
    config_dir: Path,
    permission_mode: str,
    model_given: str | None = None,
    output_style: str = "default",
    slash_commands: bool = True,
    state: str = "idle",
) -> dict[str, Any]:
    """The answer to `initialize`."""
    return {
        "commands": _for_model(catalog.commands, model_given) if slash_commands else [],
        "agents": catalog.agents,
        "output_style": output_style,
        "available_output_styles": catalog.output_styles,
        "user_output_styles_dir": str(config_dir / "output-styles"),
        "models": listed_models(model_given),
        "account": {
            "tokenSource": "none",
            "apiKeySource": api_key_source(environment),
            "apiProvider": "firstParty",
        },
        "pid": os.getpid(),
        "claude_code_version": VERSION,
        "current_permission_mode": permission_mode,
        "hook_on_failure_supported": True,
        "other_hook_ask_outranks_host": True,
        "feedback_mode": {"kind": "disabled" if is_quiet(environment) else "post"},
        "analytics_disabled": is_untracked(environment),
        "remote_control_auto_enable": False,
        "remote_control_auto_connect_default": False,
        "remote_control_available": False,
        "remote_control_auto_on_by_default": False,
        "ide_rc_auto_enable_gate": False,
        **_FAST_MODE,
        "session_state": state,
        "capabilities": data()["initialize_capabilities"],
    }


def _for_model(commands: list[dict[str, Any]], given: str | None) -> list[dict[str, Any]]:
    """Old models have one level of effort less."""
    if not model(resolve_model(given)).keeps_todo_tools:
        return commands
    hint = "<low|medium|high|xhigh|max|auto>"
    return [
        each | {"argumentHint": hint} if each["name"] == "effort" else each for each in commands
    ]


def api_key_source(environment: Mapping[str, str]) -> str:
    """Where the API key comes from, in the CLI's words."""
    return "ANTHROPIC_API_KEY" if environment.get("ANTHROPIC_API_KEY") else "none"


def project_folder(config_dir: Path, cwd: Path) -> Path:
    """Where the CLI keeps what belongs to a working directory."""
    name = re.sub(r"[^A-Za-z0-9]", "-", str(cwd))
    if len(name) > 200:
        name = f"{name[:200]}-{_short_hash(str(cwd))}"
    return config_dir / "projects" / name


def _short_hash(words: str) -> str:
    number = 0
    for letter in words:
        number = (number * 31 + ord(letter)) & 0xFFFFFFFF
    number = min(number, (1 << 32) - number)
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"
