"""What a server of this user needs besides a CLI: findings for `pilothouse doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pilothouse.client.doctor import Finding
from pilothouse.engine.policy import read_policy
from pilothouse.errors import PolicyError
from pilothouse.settings import Settings

__all__ = ["examine_server"]


def examine_server(settings: Settings) -> Iterator[Finding]:
    """Look at what the settings name; in the order in which to mend."""
    yield _policy(settings.policy_file)


def _policy(path: Path) -> Finding:
    if not path.exists():
        return Finding("policy", "ok", "no rules: every question is asked")
    try:
        rules = len(read_policy(path).rules)
    except PolicyError as error:
        advice = "mend it: until then no server starts, and one that runs keeps its last good rules"
        return Finding("policy", "problem", str(error), advice)
    return Finding("policy", "ok", f"{path}: {rules} rule{'' if rules == 1 else 's'}")
