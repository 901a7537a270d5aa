"""Plan mode: the file a plan is written to, and the mode the session goes back to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pilothouse_sim.simulator.conversation import ModelConversation
    from pilothouse_sim.simulator.state import SessionState

__all__ = ["Plans"]

_HOW = ("brisk", "calm", "deep", "eager", "fair", "gentle", "keen", "merry", "steady", "swift")
_WHO = ("anchor", "beacon", "compass", "harbour", "keel", "lantern", "mast", "rudder", "sextant")


class Plans:
    """The session's plan."""

    def __init__(self, state: SessionState, conversation: ModelConversation) -> None:
        self._state = state
        self._conversation = conversation
        self._path: Path | None = None

    @property
    def path(self) -> Path:
        """Where the plan is, or will be once the model writes it."""
        if self._path is None:
            import random  # few sessions plan, and every start would pay for it

            words = re.findall(r"[a-z0-9]+", self._conversation.first_words().lower())[:6]
            slug = "-".join((*words, random.choice(_HOW), random.choice(_WHO)))
            self._path = self._state.config_dir / "plans" / f"{slug}.md"
        return self._path

    def text(self) -> str | None:
        """The plan, if one was written."""
        return self.path.read_text() if self.path.exists() else None

    def shown(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """ExitPlanMode's input: the plan that was written, not what the model says it is."""
        plan = self.text()
        if plan is None:
            return arguments
        return {**arguments, "plan": plan, "planFilePath": str(self.path)}

    def asked(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the client is asked about: without a file there is no plan."""
        shown = self.shown(arguments)
        if "planFilePath" in shown:
            return shown
        return {key: value for key, value in shown.items() if key != "plan"}

    def after(self, tool: str) -> None:
        """Change the mode once a tool has begun or ended the planning."""
        permissions = self._state.permissions
        if tool == "EnterPlanMode" and permissions.mode != "plan":
            self._state.set_mode("plan")
        elif tool == "ExitPlanMode" and permissions.mode == "plan":
            self._state.set_mode(permissions.before_plan)
