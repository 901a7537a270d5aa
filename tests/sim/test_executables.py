"""Programs that stand for a CLI: what reaches it of the environment of whoever starts it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pilothouse_sim.executables import isolated_executable

SAID = [
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS",
    "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_MAX_RETRIES",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE",
    "ENABLE_TOOL_SEARCH",
    "MAX_STRUCTURED_OUTPUT_RETRIES",
]
"""What official SDKs and their users tell a CLI, and the simulator heeds."""


def seen_by(program: Path, env: dict[str, str]) -> dict[str, str]:
    done = subprocess.run([program], env=env, capture_output=True, text=True, check=True)
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", SAID)
def test_what_a_client_tells_its_cli_reaches_a_real_one(tmp_path: Path, name: str) -> None:
    program = isolated_executable(tmp_path, ["/usr/bin/env"], {"PATH": "/usr/bin:/bin"})
    assert seen_by(program, {"PATH": "/usr/bin:/bin", name: "a b"})[name] == "a b"


def test_keys_of_the_client_do_not_reach_a_real_cli(tmp_path: Path) -> None:
    own = {"PATH": "/usr/bin:/bin", "ANTHROPIC_API_KEY": "scripted"}
    program = isolated_executable(tmp_path, ["/usr/bin/env"], own)
    names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
    secrets = dict.fromkeys(names, "secret")
    seen = seen_by(program, {**secrets, "PATH": "/usr/bin:/bin"})
    assert seen["ANTHROPIC_API_KEY"] == "scripted"
    assert "secret" not in seen.values()


def test_what_the_environment_of_the_cli_says_itself_wins(tmp_path: Path) -> None:
    own = {"PATH": "/usr/bin:/bin", "ENABLE_TOOL_SEARCH": "false"}
    program = isolated_executable(tmp_path, ["/usr/bin/env"], own)
    seen = seen_by(program, {"PATH": "/usr/bin:/bin", "ENABLE_TOOL_SEARCH": "auto"})
    assert seen["ENABLE_TOOL_SEARCH"] == "false"
