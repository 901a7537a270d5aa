"""What this machine has for running sessions, and what to do about what it lacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

from pilothouse.errors import CLINotFound

from .locate import find_cli
from .versions import NEWEST_TRIED, OLDEST_SUPPORTED, Features, Version, parse_version

__all__ = ["Finding", "examine", "missing"]

CREDENTIAL_VARIABLES: Final = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
)

VERSION_DEADLINE: Final = 20.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    state: Literal["ok", "note", "problem"]
    text: str
    advice: str = ""


def examine(
    env: Mapping[str, str] | None = None, cli_path: str | Path | None = None
) -> list[Finding]:
    """Look at everything; the order is the order in which to mend."""
    return list(_examine(os.environ if env is None else env, cli_path))


def missing(env: Mapping[str, str], cli_path: str | Path | None = None) -> Finding | None:
    """The first thing without which no session can run, if one is missing. No CLI is run."""
    findings = (_cli(cli_path, env), _credential(env))
    return next((each for each in findings if each.state == "problem"), None)


def _examine(env: Mapping[str, str], cli_path: str | Path | None) -> Iterator[Finding]:
    yield _python()
    yield _platform()
    cli = _cli(cli_path, env)
    yield cli
    if cli.state == "ok":
        yield from _version(Path(cli.text), env)
    yield _credential(env)
    if "CLAUDECODE" in env:
        text = "this shell runs inside a Claude Code session; its variables are kept from new ones"
        yield Finding("enclosing session", "note", text)


def _cli(given: str | Path | None, env: Mapping[str, str]) -> Finding:
    try:
        return Finding("cli", "ok", str(find_cli(given, env)))
    except CLINotFound as error:
        # The error brings the same advice, for those who see nothing else.
        advice = "npm install -g @anthropic-ai/claude-code, or set CLAUDE_CODE_PATH"
        return Finding("cli", "problem", str(error).partition(";")[0], advice)


def _python() -> Finding:
    return Finding("python", "ok", ".".join(map(str, sys.version_info[:3])))


def _platform() -> Finding:
    if sys.platform == "linux":
        return Finding("platform", "ok", "linux")
    if sys.platform == "darwin":
        text = "macOS: tools that leave their process group may outlive a killed program"
        return Finding("platform", "note", text)
    advice = "use Linux or macOS; on Windows, WSL"
    return Finding("platform", "problem", f"{sys.platform} has no transport", advice)


def _version(cli: Path, env: Mapping[str, str]) -> Iterator[Finding]:
    try:
        told = subprocess.run(
            [str(cli), "--version"],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=VERSION_DEADLINE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("version", "problem", f"the CLI does not run: {error}", "reinstall it")
        return
    version = parse_version(told.stdout)
    if version is None:
        last = (told.stderr.strip().splitlines() or ["no output"])[-1]
        text = f"the CLI does not tell its version (exit {told.returncode}: {last})"
        yield Finding("version", "problem", text, "reinstall it")
        return
    yield _judged(version)
    yield Finding("supports", "ok", ", ".join(_supports(version)))


def _judged(version: Version) -> Finding:
    text = _dotted(version)
    if version < OLDEST_SUPPORTED:
        advice = f"update it: {_dotted(OLDEST_SUPPORTED)} is the oldest supported"
        return Finding("version", "problem", f"{text} is too old", advice)
    if version > NEWEST_TRIED:
        text += f", newer than the newest tried ({_dotted(NEWEST_TRIED)})"
        return Finding("version", "note", text)
    return Finding("version", "ok", text)


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))


def _supports(version: Version) -> Iterator[str]:
    features = Features(version=version)
    yield "turns, permissions, questions, plans, hooks, in-process tools, resume, fork"
    if features.reports_idle:
        yield "reports when it is idle"
    if features.edits_plans:
        yield "edited plans"
    if features.applies_environment_updates:
        yield "environment updates"


def _credential(env: Mapping[str, str]) -> Finding:
    """Whether one is there. What it is, is never read."""
    for name in CREDENTIAL_VARIABLES:
        if env.get(name):
            return Finding("credential", "ok", f"{name} is set")
    config = env.get("CLAUDE_CONFIG_DIR") or str(Path(env.get("HOME", "/")) / ".claude")
    if (Path(config) / ".credentials.json").exists():
        return Finding("credential", "ok", "signed in")
    kept = _kept_by_cli(Path(config), env)
    if kept:
        return Finding("credential", "ok", kept)
    if sys.platform == "darwin":
        return Finding("credential", "note", "none in the environment; the keychain was not asked")
    advice = "run `claude` once and sign in, or set ANTHROPIC_API_KEY"
    return Finding("credential", "problem", "none found", advice)


def _kept_by_cli(config: Path, env: Mapping[str, str]) -> str | None:
    """What the CLI's own files have for a credential, by its name alone."""
    beside = config if env.get("CLAUDE_CONFIG_DIR") else Path(env.get("HOME", "/"))
    if "primaryApiKey" in _members(beside / ".claude.json"):
        return "signed in with a key"
    settings = _members(config / "settings.json")
    if "apiKeyHelper" in settings:
        return "the CLI's settings have an apiKeyHelper"
    variables: Any = settings.get("env")
    names = cast("dict[str, Any]", variables) if isinstance(variables, dict) else {}
    found = next((name for name in CREDENTIAL_VARIABLES if names.get(name)), None)
    return found and f"the CLI's settings set {found}"


def _members(file: Path) -> dict[str, Any]:
    try:
        read: Any = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", read) if isinstance(read, dict) else {}
