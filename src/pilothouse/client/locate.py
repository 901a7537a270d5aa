"""Where the Claude Code CLI is on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from pilothouse.errors import CLINotFound

from .versions import Version, parse_version

__all__ = ["ask_version", "find_cli", "usual_places"]

PATH_VARIABLE = "CLAUDE_CODE_PATH"
VERSION_DEADLINE = 20.0


def usual_places(home: Path) -> list[Path]:
    """Where the CLI's installers put it."""
    return [
        home / ".local/bin/claude",
        home / ".claude/local/claude",
        home / ".npm-global/bin/claude",
        home / ".bun/bin/claude",
        home / ".volta/bin/claude",
        home / ".yarn/bin/claude",
        home / "node_modules/.bin/claude",
        Path("/opt/homebrew/bin/claude"),
        Path("/usr/local/bin/claude"),
        Path("/usr/bin/claude"),
    ]


def find_cli(given: str | Path | None = None, env: Mapping[str, str] | None = None) -> Path:
    """The CLI to run: the given one, `CLAUDE_CODE_PATH`, the one on PATH, a usual place."""
    env = os.environ if env is None else env
    named = given or env.get(PATH_VARIABLE)
    if named:
        return _named(Path(named).expanduser(), env, "cli_path" if given else PATH_VARIABLE)
    for candidate in _candidates(env):
        if is_program(candidate):
            return candidate
    raise CLINotFound(
        "no Claude Code CLI on PATH or in the usual places; install it "
        f"(npm install -g @anthropic-ai/claude-code) or set {PATH_VARIABLE} to it"
    )


def ask_version(cli: str | Path, env: Mapping[str, str]) -> Version | None:
    """What a CLI says of its version; None if it says nothing. Blocks for up to half a second."""
    try:
        asked = subprocess.run(
            [str(cli), "--version"],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=VERSION_DEADLINE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_version(asked.stdout.decode(errors="replace"))


def is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _named(path: Path, env: Mapping[str, str], source: str) -> Path:
    found = shutil.which(str(path), path=env.get("PATH")) if len(path.parts) == 1 else path
    if found and is_program(Path(found)):
        return Path(found).absolute()
    problem = "is not executable" if path.exists() else "does not exist"
    raise CLINotFound(f"{source} names {path}, which {problem}")


def _candidates(env: Mapping[str, str]) -> Iterator[Path]:
    on_path = shutil.which("claude", path=env.get("PATH", ""))
    if on_path:
        yield Path(on_path)
    home = env.get("HOME")
    if home:
        yield from usual_places(Path(home))
