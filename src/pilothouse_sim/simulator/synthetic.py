"""Messages that the CLI itself writes in the model's place."""

from __future__ import annotations

from typing import Any

from pilothouse_sim.simulator.outlet import new_id

__all__ = ["synthetic"]


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
