"""Answers of a given shape: the StructuredOutput tool, and what happens without a fitting call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from pilothouse_sim.simulator.json_schema import Schema, misfits
from pilothouse_sim.simulator.tally import TurnEnding
from pilothouse_sim.simulator.tools.base import ToolFailure, ToolOutcome

if TYPE_CHECKING:
    from pilothouse_sim.simulator.conversation import ModelConversation
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.tally import Tally

__all__ = ["Structure"]

ATTEMPTS: Final = 5
ACCEPTED: Final = "Structured output provided successfully"
REMINDER: Final = (
    "[structured-output-enforce] You MUST call the StructuredOutput tool to complete this request."
    " Call this tool now."
)


class Structure:
    """Holds the model to the shape that the session's answers must have, if there is one."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._reminded: Tally | None = None

    def take(self, tally: Tally, answer: dict[str, Any]) -> ToolOutcome:
        """Take the model's answer; raise `ToolFailure` if it has another shape."""
        wrong = ", ".join(f"{at or 'root'}: {what}" for at, what in misfits(answer, self._schema))
        if wrong:
            words = f"Output does not match required schema: {wrong}"
            tally.misfits.append(words)
            raise ToolFailure(words)
        tally.structured = answer
        return ToolOutcome(content=ACCEPTED, result=ACCEPTED)

    @property
    def _schema(self) -> Schema:
        return self._state.schema or {}

    def ending(self, tally: Tally) -> TurnEnding | None:
        """How the turn ends now: with an answer, or because there were too many wrong ones."""
        if tally.structured is not None:
            tally.last_text = msgspec.json.encode(tally.structured).decode()
            return TurnEnding()
        if len(tally.misfits) < self._attempts:
            return None
        # The CLI ends the turn before it has counted the last reply.
        tally.spent.take_back(tally.last_usage)
        failed = f"Failed to provide valid structured output after {self._attempts} attempts"
        return TurnEnding(
            reason="structured_output_retry_exhausted",
            subtype="error_max_structured_output_retries",
            is_error=True,
            errors=[f"{failed} — last StructuredOutput error: {tally.misfits[-1]}"],
        )

    @property
    def _attempts(self) -> int:
        return int(self._state.environment.get("MAX_STRUCTURED_OUTPUT_RETRIES") or ATTEMPTS)

    def enforce(self, conversation: ModelConversation, tally: Tally) -> bool:
        """Remind a model that wants to stop without an answer of it, once in a turn."""
        if self._state.schema is None or not conversation.is_main or self._reminded is tally:
            return False
        self._reminded = tally
        conversation.note(REMINDER, tally)
        return True
