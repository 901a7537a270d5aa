"""Replies that end too soon: cut off, refused by the model, or without a word to show.

The CLI asks the model to go on, so many times, and then says in the model's place that it gives up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pilothouse_sim.simulator import facts
from pilothouse_sim.simulator.models import spoken_name
from pilothouse_sim.simulator.synthetic import say_failure, synthetic
from pilothouse_sim.simulator.tally import TurnEnding

if TYPE_CHECKING:
    from pilothouse_sim.simulator.conversation import ModelConversation
    from pilothouse_sim.simulator.reply_writer import SpokenReply
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.tally import Tally

__all__ = ["Patience"]

_TOO_LONG: Final = frozenset({"max_tokens", "model_context_window_exceeded"})
_TIMES: Final = 3
"""How often in a row a reply that grew too long may be taken up again."""

_CUT_SHORT: Final = (
    "Output token limit hit. Resume directly — no apology, no recap of what you were doing. Pick "
    "up mid-thought if that is where the cut happened. Break remaining work into smaller pieces."
)
_CUT_OFF: Final = (
    "Your response above was cut off mid-stream. Resume directly from where it stops — no apology, "
    "no recap. If none of it survived, answer the request from the start."
)
_STOPPED: Final = (
    "Your response above was stopped by a safety classifier — this is not a tool or API error. The "
    "rest of it was withheld, and tool calls in it that had not finished did not run. Do not "
    "produce that content again, even reworded."
)
_NOTHING: Final = (
    "[Your previous response had no visible output. Please continue and produce a user-visible "
    "response.]"
)
_LOST: Final = "API Error: Connection lost mid-response. The response above may be incomplete."


class Patience:
    """What one turn has put up with so far."""

    def __init__(self, state: SessionState, conversation: ModelConversation, tally: Tally) -> None:
        self._state = state
        self._conversation = conversation
        self._tally = tally
        self._cuts = 0
        self._is_asked_for_words = False

    def used_tools(self, spoken: SpokenReply) -> None:
        """The reply had calls, and they were made: the count begins again."""
        self._cuts = 0
        if spoken.is_cut:
            message = synthetic(_LOST, stop_reason="tool_use")
            self._say(message, error="server_error", api_error="connection_failed")

    def asks_for_more(self, spoken: SpokenReply) -> bool:
        """Ask the model to go on if the reply ended too soon."""
        if spoken.is_cut:
            return self._note(_CUT_OFF)
        if spoken.stop_reason in _TOO_LONG:
            self._cuts += 1
            return self._cuts <= _TIMES and self._note(_CUT_SHORT)
        if spoken.stop_reason == "refusal":
            return self._tally.refusals == 1 and self._tell_stopped(spoken)
        if not _is_visible(spoken) and not self._is_asked_for_words:
            self._is_asked_for_words = True
            return self._note(_NOTHING)
        return False

    def gives_up(self, spoken: SpokenReply) -> TurnEnding | None:
        """How the turn ends because of a reply that was not to be had whole."""
        if spoken.stop_reason in _TOO_LONG:
            error = "max_output_tokens"
            self._say(
                synthetic(self._too_long()),
                error=error,
                api_error=error,
                api_error_params={"cut": "output_limit"},
            )
            extra = {"api_error": error}
            return TurnEnding(reason="api_error", is_error=True, error=error, extra=extra)
        if spoken.stop_reason == "refusal":
            return TurnEnding(reason="api_error", is_error=True, error="invalid_request")
        return None

    def _too_long(self) -> str:
        most = facts.model(self._state.model_name).max_output_tokens
        return (
            f"API Error: Claude's response exceeded the {most} output token maximum. To configure "
            "this behavior, set the CLAUDE_CODE_MAX_OUTPUT_TOKENS environment variable."
        )

    def _tell_stopped(self, spoken: SpokenReply) -> bool:
        self._conversation.echo_prompts()
        name = spoken_name(self._state.model_name)
        self._state.outlet.system(
            "informational",
            content=f"{name}'s safeguards stopped the response above · "
            "continuing once with that noted",
            level="notice",
        )
        return self._note(_STOPPED, refused_message_id=spoken.id)

    def _note(self, words: str, **extra: Any) -> bool:
        self._conversation.note(words, self._tally, **extra)
        return True

    def _say(self, message: dict[str, Any], **extra: Any) -> None:
        say_failure(self._conversation, self._tally, message, **extra)


def _is_visible(spoken: SpokenReply) -> bool:
    return any(block["type"] != "thinking" for block in spoken.blocks)
