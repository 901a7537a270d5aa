"""Messages that the CLI itself writes in the model's place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pilothouse_sim.simulator.models import spoken_name
from pilothouse_sim.simulator.outlet import new_id

if TYPE_CHECKING:
    from pilothouse_sim.simulator.conversation import ModelConversation
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.tally import Tally

__all__ = ["say_failure", "synthetic", "tell_refused"]


def synthetic(words: str, *, stop_reason: str = "stop_sequence") -> dict[str, Any]:
    """A message of no model's, with these words."""
    usage = {
        "output_tokens_details": None,
        "input_tokens": 0,
        "output_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": None,
        "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
        "inference_geo": None,
        "iterations": None,
        "speed": None,
        "fallback_credit": None,
    }
    return {
        "diagnostics": None,
        "id": new_id(),
        "container": None,
        "model": "<synthetic>",
        "role": "assistant",
        "stop_details": None,
        "stop_reason": stop_reason,
        "stop_sequence": "",
        "type": "message",
        "usage": usage,
        "content": [{"type": "text", "text": words}],
        "context_management": None,
    }


def say_failure(
    conversation: ModelConversation, tally: Tally, message: dict[str, Any], **extra: Any
) -> None:
    """Say in the model's place what went wrong."""
    conversation.echo_prompts()
    named = {"error": extra.pop("error"), "is_api_error_message": True}
    conversation.write_assistant(message, tally, **named, **extra)
    tally.last_text = message["content"][0]["text"]
    tally.stop_reason = message["stop_reason"]


def tell_refused(
    state: SessionState, conversation: ModelConversation, tally: Tally, message_id: str
) -> None:
    """Say that the model refuses a second time; it is said before the reply's own end."""
    state.outlet.system(
        "model_refusal_no_fallback",
        original_model=state.model_name,
        request_id=None,
        api_refusal_category=None,
        api_refusal_explanation=None,
        refused_user_message_uuid=tally.uuids[0] if tally.uuids else None,
        content="",
    )
    name = spoken_name(state.model_name)
    words = (
        f"API Error: {name}'s safeguards flagged this message, and {name} does not answer it.\n\n"
        f"Message ID: {message_id}"
    )
    say_failure(
        conversation,
        tally,
        synthetic(words, stop_reason="refusal"),
        error="invalid_request",
        refused_message_id=message_id,
    )
