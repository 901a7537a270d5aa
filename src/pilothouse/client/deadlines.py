"""How long to wait for the answer to a control request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["DEFAULT_DEADLINE", "deadline_for"]

DEFAULT_DEADLINE: Final = 5.0

DEADLINES: Final[Mapping[str, float | None]] = {
    "initialize": 60.0,
    "mcp_status": 60.0,
    "mcp_set_servers": 60.0,
    "mcp_reconnect": 60.0,
    "mcp_toggle": 60.0,
    "mcp_message": 60.0,
    "mcp_call": 60.0,
    "mcp_read_resource": 60.0,
    "mcp_authenticate": 60.0,
    "set_model": 30.0,
    "rewind_files": 30.0,
    "reload_plugins": 60.0,
    "reload_skills": 30.0,
    "get_context_usage": 30.0,
    "get_usage": 30.0,
    "export_conversation": 30.0,
    "get_workspace_diff": 30.0,
    "side_question": 300.0,
    "generate_session_title": 60.0,
    "submit_feedback": 60.0,
    "claude_authenticate": 60.0,
    "claude_oauth_wait_for_completion": None,
}


def deadline_for(subtype: str, chosen: Mapping[str, float | None]) -> float | None:
    """Seconds, or None for no limit: the caller's choice, ours, or the default."""
    if subtype in chosen:
        return chosen[subtype]
    return DEADLINES.get(subtype, DEFAULT_DEADLINE)
