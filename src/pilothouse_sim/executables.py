"""Programs on disk for clients that take nothing but a path to a CLI."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pilothouse.folders import make_private

__all__ = ["isolated_executable", "simulator_executable"]

_RUN = "from pilothouse_sim.simulator.main import main; raise SystemExit(main())"

# What clients tell their CLI by the environment and no user keeps a secret in. The simulator, which
# gets all of the client's, heeds no other of them: both CLIs of a test must be told the same.
_PASSED_ON = (
    "ANTHROPIC_MODEL",
    "CLAUDE_AGENT_SDK_CLIENT_APP",
    "CLAUDE_AGENT_SDK_DERIVED_CLIENT_APP",
    "CLAUDE_AGENT_SDK_DISABLE_BUILTIN_AGENTS",
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS",
    "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_MAX_RETRIES",
    "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE",
    "CLAUDE_CODE_STREAM_CLOSE_TIMEOUT",
    "ENABLE_TOOL_SEARCH",
    "IS_SANDBOX",
    "MAX_STRUCTURED_OUTPUT_RETRIES",
    "PILOTHOUSE_CHILD",
    "PILOTHOUSE_VERSION",
    "PWD",
)


def simulator_executable(folder: Path | str, environment: Mapping[str, str] | None = None) -> Path:
    """Write a `claude` into the folder that is the simulator, run by this very interpreter.

    It needs no installed console script and nothing from the environment of whoever starts it;
    `environment` goes over that one.
    """
    # Not a `#!` line with the interpreter: it would not survive a long path or one with spaces.
    command = shlex.join([sys.executable, "-P", "-c", _RUN])
    exports = [f"export {_setting(*each)}\n" for each in (environment or {}).items()]
    return _write(folder, f'{"".join(exports)}exec {command} "$@"\n')


def isolated_executable(
    folder: Path | str, command: Sequence[str | Path], environment: Mapping[str, str]
) -> Path:
    """Write a `claude` into the folder that runs the command in this environment and no other.

    The official SDKs give a CLI all of their own process's environment, keys included.
    """
    settings = [_setting(*each) for each in environment.items()]
    passed_on = [f'${{{each}+"{each}=${each}"}}' for each in _PASSED_ON if each not in environment]
    words = ["exec", "env", "-i", *settings, *passed_on, shlex.join(map(str, command)), '"$@"']
    return _write(folder, " ".join(words) + "\n")


def _setting(name: str, value: str) -> str:
    return f"{name}={shlex.quote(value)}"


def _write(folder: Path | str, script: str) -> Path:
    program = Path(folder).absolute() / "claude"
    make_private(program.parent)
    # Before there is anything in it: it may have a key in it.
    program.touch(0o700)
    program.chmod(0o700)
    program.write_text(f"#!/bin/sh\n{script}")
    return program
