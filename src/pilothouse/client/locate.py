"""Where the Claude Code CLI is on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pilothouse.errors import CLINotFound

from .versions import Version, parse_version

__all__ = ["ask_version", "cli_command", "find_cli", "usual_places"]

PATH_VARIABLE = "CLAUDE_CODE_PATH"
VERSION_DEADLINE = 20.0
LONGEST_SHEBANG = 256
"""As many bytes of a script's first line as Linux reads."""


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


def cli_command(given: str | Path | None = None, env: Mapping[str, str] | None = None) -> list[str]:
    """The words that start the CLI: it, after the interpreter that it would look for on PATH.

    The npm package begins with `#!/usr/bin/env node`. Found here, the interpreter is the one of
    this environment, whatever the environment is that the CLI gets.
    """
    env = os.environ if env is None else env
    cli = find_cli(given, env)
    match _shebang(cli):
        case [loader, *words] if Path(loader).name == "env":
            return [*_interpreter(cli, words, env), str(cli)]
        case _:
            return [str(cli)]


def _shebang(cli: Path) -> list[str]:
    try:
        with cli.open("rb") as file:
            first = file.readline(LONGEST_SHEBANG)
    except OSError:
        return []
    return os.fsdecode(first[2:]).split() if first.startswith(b"#!") else []


def _interpreter(cli: Path, words: Sequence[str], env: Mapping[str, str]) -> list[str]:
    name, *arguments = [each for each in words if each != "-S"] or [""]
    if not name or name.startswith("-") or "=" in name:
        # It is told more than the interpreter: no installer writes such a line.
        return []
    found = shutil.which(name, path=env.get("PATH", os.defpath))
    if found is None:
        raise CLINotFound(f"{cli} needs {name}, which is not on PATH; install it, or set PATH")
    return [str(Path(found).absolute()), *arguments]


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
        # What PATH names from here means something else in a session's directory.
        yield Path(on_path).absolute()
    home = env.get("HOME")
    if home:
        yield from usual_places(Path(home))
