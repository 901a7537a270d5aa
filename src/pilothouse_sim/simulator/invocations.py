"""Prompts that are commands: which of them the CLI knows, and which it carries out by itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from pilothouse_sim.simulator.facts import Catalog

__all__ = ["OWN_LINES", "UNAVAILABLE", "Invocation", "find", "is_command", "is_local"]

_NEEDING_TERMINAL: Final = (
    "add-dir advisor allowed-tools artifacts autofix-pr background bashes bg branch brief btw bug "
    "checkpoint chrome continue copy desktop diff exit export extra-usage feedback fork help hooks "
    "ide install-github-app keybindings login logout loops memory mobile passes permissions plan "
    "plugin plugins powerup privacy-settings quit radio rate-limit-options rc release-notes "
    "remote-control remote-env resume rewind sandbox schedule scroll-speed session setup-bedrock "
    "setup-vertex share skills status statusline stickers stop tasks terminal-setup theme tui "
    "ultraplan ultrareview undo upgrade vim voice web-setup workflows"
)
_DONE_HERE: Final = (
    "agents autocompact color config output-style context effort fast focus heapdump mcp model "
    "__remote-workflow workflow-launch-exec reload-plugins reload-skills rename usage recap "
    "list-agents"
)
UNAVAILABLE: Final = frozenset(_NEEDING_TERMINAL.split())
_LOCAL: Final = frozenset(_DONE_HERE.split())
OWN_LINES: Final = frozenset({"clear", "compact"})
"""Commands that write more than an answer."""


class Invocation(Struct, frozen=True, kw_only=True):
    """A command as it was typed."""

    typed: str
    name: str
    """What an alias stands for."""
    args: str

    @property
    def markup(self) -> str:
        """The command as transcripts and echoes show it."""
        return "\n            ".join(
            (
                f"<command-name>/{self.name}</command-name>",
                f"<command-message>{self.name}</command-message>",
                f"<command-args>{self.args}</command-args>",
            )
        )

    @property
    def skill_markup(self) -> str:
        """The same for commands that stand for a prompt."""
        shown = (
            f"<command-message>{self.name}</command-message>\n"
            f"<command-name>/{self.name}</command-name>"
        )
        return shown + (f"\n<command-args>{self.args}</command-args>" if self.args else "")


def find(catalog: Catalog, text: str) -> Invocation | None:
    """The command that a prompt is, if the CLI knows it."""
    matched = re.match(r"/(\S+)(?:\s+(.*))?", text, re.DOTALL)
    if matched is None:
        return None
    typed, args = matched[1], (matched[2] or "").strip()
    name = _names(catalog).get(typed)
    if name is None:
        return None
    return Invocation(typed=typed, name=name, args=args)


def is_command(catalog: Catalog, text: str) -> bool:
    """Whether a prompt is a command that the CLI knows."""
    return text.startswith("/") and find(catalog, text) is not None


def is_local(catalog: Catalog, text: str) -> bool:
    """Whether the CLI carries a prompt out by itself."""
    command = find(catalog, text) if text.startswith("/") else None
    return command is not None and command.name in UNAVAILABLE | _LOCAL | OWN_LINES


def _names(catalog: Catalog) -> dict[str, str]:
    known = {name: name for name in UNAVAILABLE}
    for entry in catalog.commands:
        known |= dict.fromkeys((entry["name"], *entry.get("aliases", ())), entry["name"])
    return known
