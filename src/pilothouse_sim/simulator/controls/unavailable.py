"""Requests that a CLI without a network, a browser or a login refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pilothouse_sim.simulator.controls.base import ControlAsk, Handler, RequestRefused

if TYPE_CHECKING:
    from pilothouse_sim.simulator.session import SimulatedSession

__all__ = ["ANSWERS"]

_NO_BROWSER: Final = "Claude in Chrome is not connected in this session"
_NOT_SPARE: Final = (
    "not_a_spare: claim_session is only accepted by a process started with --await-claim that"
    " has not been claimed yet"
)
# What the real CLI says to these was never asked: they would contact its makers' service.
_NO_SERVICE: Final = "The service cannot be reached"


def _refusing(text: str, code: str | None = None) -> Handler:
    def refuse(session: SimulatedSession, asked: ControlAsk) -> None:
        raise RequestRefused(text, code)

    return refuse


def submit_survey_feedback(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Take an answer to a survey."""
    return {}


def fork_conversation(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Say that there is nobody who controls the session remotely."""
    for name in ("target_message_uuid", "title"):
        if not isinstance(asked.get(name), str | None):
            raise RequestRefused(f"fork_conversation: {name} must be a string")
    return {"forked": False, "error": "unsupported", "reason": "unsupported"}


def _unsupported(subtype: str) -> Handler:
    return _refusing(f"Unsupported control request subtype: {subtype}", "unsupported_request")


ANSWERS: dict[str, Handler] = {
    "claim_session": _refusing(_NOT_SPARE),
    "get_chrome_browsers": _refusing(_NO_BROWSER),
    "select_chrome_browser": _refusing(_NO_BROWSER),
    "set_chrome_browser_hints": _refusing(
        "set_chrome_browser_hints is only accepted in a remote-hosted session"
    ),
    "set_color": _unsupported("set_color"),
    "fork_conversation": fork_conversation,
    "claude_authenticate": _refusing(_NO_SERVICE),
    "claude_oauth_callback": _refusing(_NO_SERVICE),
    "claude_oauth_wait_for_completion": _refusing(_NO_SERVICE),
    "remote_control": _refusing(_NO_SERVICE),
    "submit_feedback": _refusing(_NO_SERVICE),
    "submit_survey_feedback": submit_survey_feedback,
    "ultrareview_launch": _refusing(_NO_SERVICE),
}
