"""Small words for tests of the policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from pilothouse.engine.policy import JudgedAsk, Policy

PIECES = ["a", "b", " ", " ", ";", "&", "|", "'", '"', "\\", "$(", "`", "(", ")", "\n", "#"]
PIECES += ["<<a\n", "{ ", "}", "! ", "<", "2>&1", ">/dev/null", "a ", "b "]
scripts = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
"""Shell commands, most of them odd."""


def rule(*lines: str) -> str:
    return "\n".join(["[[rule]]", *lines, ""])


def bash(command: str, **more: Any) -> JudgedAsk:
    return JudgedAsk("Bash", {"command": command}, **more)


def verdict(text: str, ask: JudgedAsk, home: Path | None = None) -> str:
    return Policy.parse(text, home=home).decide(ask).verdict
