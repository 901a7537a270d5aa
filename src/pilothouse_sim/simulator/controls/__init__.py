"""Answers the control requests of clients as CLI 2.1.325 does.

`ANSWERS` names the module of each subtype's handler. `answer` calls it, and is the one place where
a refusal becomes an error on the wire.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from pilothouse_sim.simulator.controls.base import Answer, ControlAsk, Handler, RequestRefused

if TYPE_CHECKING:
    from pilothouse_sim.simulator.session import SimulatedSession

__all__ = ["ANSWERS", "Answer", "ControlAsk", "RequestRefused", "answer", "handler_of"]

_ROOMS: Final = {
    "setters": (
        "initialize interrupt cancel_async_message end_session set_permission_mode "
        "set_mcp_permission_mode_override set_model set_max_thinking_tokens "
        "apply_flag_settings update_settings set_has_subscribers "
        "set_prompt_suggestions_paused message_rated"
    ),
    "reports": (
        "get_binary_version list_models get_settings get_status reload_plugins reload_skills "
        "reload_output_styles get_hooks_listing list_permission_rules get_memory_dialog "
        "get_skills_dialog get_sandbox_dialog get_chrome_dialog get_context_usage "
        "get_session_cost get_usage"
    ),
    "files": (
        "file_suggestions read_file seed_read_state rewind_files get_plan register_repo_root "
        "get_workspace_diff"
    ),
    "conversation": (
        "rename_session generate_session_title side_question export_conversation set_cwd"
    ),
    "servers": (
        "mcp_status mcp_set_servers mcp_reconnect mcp_toggle mcp_message mcp_call "
        "mcp_read_resource channel_enable mcp_authenticate mcp_clear_auth "
        "mcp_oauth_callback_url stop_task background_tasks get_task_output"
    ),
    "unavailable": (
        "claim_session get_chrome_browsers select_chrome_browser set_chrome_browser_hints "
        "set_color claude_authenticate claude_oauth_callback claude_oauth_wait_for_completion "
        "remote_control submit_feedback submit_survey_feedback ultrareview_launch "
        "fork_conversation"
    ),
}

ANSWERS: Final = {name: room for room, names in _ROOMS.items() for name in names.split()}
"""The module that answers each subtype. It is imported with the first request for it."""


def handler_of(subtype: str) -> Handler:
    """Who answers requests of this subtype."""
    if subtype not in ANSWERS:
        return _unsupported
    module = import_module(f"pilothouse_sim.simulator.controls.{ANSWERS[subtype]}")
    return module.ANSWERS[subtype]


async def answer(session: SimulatedSession, request_id: str, request: dict[str, Any]) -> None:
    """Answer one request, whatever becomes of it."""
    subtype = str(request.get("subtype", "undefined"))
    try:
        reply = handler_of(subtype)(session, ControlAsk(request_id, request))
        if inspect.isawaitable(reply):
            reply = await reply
    except RequestRefused as refusal:
        _write(session, request_id, {"subtype": "error", "error": refusal.text} | refusal.beside)
        return
    except Exception as error:  # noqa: BLE001
        # The boundary of all handlers: a client waits for an answer to whatever it asks, and what
        # it sends may have any shape.
        words = f"{subtype}: {type(error).__name__}: {error}"
        _write(session, request_id, {"subtype": "error", "error": words})
        return
    given = reply if isinstance(reply, Answer) else Answer(body=reply)
    body = {} if given.body is None else {"response": given.body}
    _write(session, request_id, {"subtype": "success"} | body | given.beside)
    if given.then is not None:
        given.then()


def _unsupported(_: SimulatedSession, asked: ControlAsk) -> None:
    subtype = asked.fields.get("subtype", "undefined")
    words = f"Unsupported control request subtype: {subtype}"
    raise RequestRefused(words, "unsupported_request")


def _write(session: SimulatedSession, request_id: str, members: dict[str, Any]) -> None:
    session.state.outlet.connection.send_answer(request_id, members)
    session.state.outlet.flush()
