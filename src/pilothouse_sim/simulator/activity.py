"""Whether the session runs, is idle or waits for an answer, as clients can watch it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pilothouse_sim.simulator.state import SessionState

__all__ = ["SessionActivity"]


class SessionActivity:
    """Writes `session_state_changed` lines, to whoever asked for them in the environment."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self.is_running = False
        self._open_questions = 0

    def start(self) -> None:
        """Say `running`, unless it was said already."""
        if not self.is_running:
            self.is_running = True
            self.tell("running")

    def settle(self) -> None:
        """Say `idle`, unless it was said already."""
        if self.is_running:
            self.is_running = False
            self.tell("idle")

    def say_again(self) -> None:
        """Say once more that nothing is going on, if so."""
        if not self.is_running:
            self.tell("idle")

    def require_action(self) -> None:
        """Note that a question to the client is open."""
        self._open_questions += 1
        self.tell("requires_action")

    def end_action(self) -> None:
        """Note that a question to the client is closed."""
        self._open_questions -= 1
        if self._open_questions == 0:
            self.tell("running")

    def tell(self, activity: str) -> None:
        """Write the line."""
        if self._state.is_set("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"):
            self._state.outlet.system("session_state_changed", state=activity)
        elif self._state.is_set("CLAUDE_CODE_SDK_READS_SESSION_STATE"):
            # The official SDKs set it, and keep these lines from their callers.
            self._state.outlet.system("session_state_changed", state=activity, sdk_host_only=True)
