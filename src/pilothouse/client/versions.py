"""What differs between CLI versions. The only place that compares them.

A fact is decided by what the CLI reports about itself where it reports it, and by its version
otherwise. Until either is known (CLIs before 2.1.325 tell their version in the first turn only)
the answer is the careful one: what works on all.

Every version named here was measured: on it the fact holds, and on the next one that was tried it
is otherwise (docs/protocol.md has both).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from pilothouse.errors import Unsupported

__all__ = ["NEWEST_TRIED", "OLDEST_SUPPORTED", "Features", "Version", "parse_version"]

Version = tuple[int, int, int]

OLDEST_SUPPORTED: Final[Version] = (2, 1, 37)
NEWEST_TRIED: Final[Version] = (2, 1, 325)

ANSWERED_BY_ALL: Final = frozenset(
    {
        "initialize",
        "interrupt",
        "mcp_message",
        "mcp_reconnect",
        "mcp_set_servers",
        "mcp_status",
        "mcp_toggle",
        "rewind_files",
        "set_max_thinking_tokens",
        "set_model",
        "set_permission_mode",
    }
)
"""The control requests 2.1.37 answers. It leaves any other without a word."""


def parse_version(text: str | None) -> Version | None:
    """`2.1.325`, also within `2.1.325 (Claude Code)`."""
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", text or "")
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


@dataclass(frozen=True, slots=True)
class Features:
    """What one CLI can do, as far as it is known by now."""

    version: Version | None = None
    capabilities: frozenset[str] = field(default_factory=frozenset[str])
    greeted_with_pid: bool = True
    """Its answer to `initialize` had a pid, which 2.1.37 does not send."""

    @property
    def edits_plans(self) -> bool:
        """An approved plan may carry an edited text. Older CLIs ignore the edit."""
        return self.version is not None and self.version >= (2, 1, 81)

    @property
    def reports_idle(self) -> bool:
        """It says itself when it is idle; otherwise that is inferred."""
        return self.version is not None and self.version >= (2, 1, 84)

    @property
    def passes_notes(self) -> bool:
        """Notes to a question reach the model. Older CLIs drop them."""
        return self.version is not None and self.version >= (2, 1, 45)

    @property
    def forgets_rules(self) -> bool:
        """It asks about a command that writes files in spite of a rule that allows it."""
        return self.version is not None and self.version < (2, 1, 132)

    @property
    def applies_environment_updates(self) -> bool:
        """`update_environment_variables` reaches the tools. Newer CLIs take it without effect.

        Those can be asked for their version before they have told it.
        """
        return self.version is None or self.version <= (2, 1, 167)

    @property
    def answers_unknown_controls(self) -> bool:
        """A control request it does not know is answered with an error, not with silence."""
        return self.greeted_with_pid

    def check(self, subtype: str) -> None:
        """Refuse a control request that this CLI would leave without an answer."""
        if subtype not in ANSWERED_BY_ALL and not self.answers_unknown_controls:
            raise Unsupported(subtype, "this CLI does not know it")


UNKNOWN: Final = Features()
"""A CLI of which nothing is known: it gets what every version takes."""
