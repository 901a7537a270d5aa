"""Requests that change how the session goes on: initialize, interrupt, mode, model, settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from pilothouse_sim.simulator import facts
from pilothouse_sim.simulator.controls.base import (
    Answer,
    ControlAsk,
    Handler,
    RequestRefused,
    has_talked,
    note_command,
    open_requests,
    required,
    state_of,
)
from pilothouse_sim.simulator.permissions import grant

if TYPE_CHECKING:
    from pilothouse_sim.simulator.session import SimulatedSession

__all__ = ["ANSWERS"]

_BAD_HOOKS: Final = (
    "initialize: hooks must map hook events to arrays of matchers carrying hookCallbackIds arrays"
    " and string matchers"
)
_BAD_MODE: Final = f"Cannot set permission mode: must be one of {', '.join(facts.MODES)}"
_BAD_THINKING: Final = (
    "set_max_thinking_tokens: max_thinking_tokens must be an integer or null and thinking_display"
    ' must be "summarized", "omitted", "highlights", or null'
)
_NO_BYPASS: Final = (
    "Cannot set permission mode to bypassPermissions because the session was not launched with"
    " --dangerously-skip-permissions"
)
_FORBIDDEN: Final = {
    "auto": (
        "Cannot set permission mode to auto: auto mode disabled by settings",
        "auto_mode_settings",
    ),
    "bypassPermissions": (
        "Cannot set permission mode to bypassPermissions because it is disabled by settings or"
        " configuration",
        "bypass_disabled",
    ),
}
_WRITABLE: Final = {"userSettings": {"effortLevel"}, "localSettings": {"outputStyle"}}
_JS_TYPES: Final = {bool: "boolean", int: "number", float: "number", str: "string"}


# Beginning and stopping


async def initialize(session: SimulatedSession, asked: ControlAsk) -> Answer:
    """Begin, or register the client's hooks anew."""
    hooks = asked.get("hooks")
    if hooks is not None and not _are_hooks(hooks):
        raise RequestRefused(_BAD_HOOKS)
    desk = session.state.desk
    again, desk.is_initialized = desk.is_initialized, True
    if session.state.launch.bare and not again:
        session.state.outlet.system("ui_invalidate", event="ui.render")
    await _configure(session, asked.fields)
    body = facts.initialize_reply(
        catalog=session.state.catalog,
        environment=session.state.environment,
        config_dir=session.state.config_dir,
        permission_mode=session.state.permissions.mode,
        model_given=desk.model_given,
        output_style=desk.output_style,
        state=state_of(session),
    )
    if hooks:
        body["hooks_applied"] = True
    pending = {
        "pending_permission_requests": open_requests(session, "can_use_tool"),
        "pending_user_dialog_requests": open_requests(session, "request_user_dialog"),
    }
    then = (lambda: session.tasks.tell_list()) if again or _has_begun(session) else None
    return Answer(body=body, beside=pending, then=then)


def _has_begun(session: SimulatedSession) -> bool:
    return session.queue.is_busy or session.results.count > 0


async def _configure(session: SimulatedSession, options: dict[str, Any]) -> None:
    session.state.options = options
    session.state.schema = options.get("jsonSchema") or session.state.schema
    session.hooks.register(options.get("hooks") or {})
    session.state.gather_customs()
    await session.mcp.begin(options)


def interrupt(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Stop the turn; queued prompts stay unless they are to go as well."""
    queued = [prompt.uuid for prompt in session.queue.prompts if prompt.uuid]
    if asked.get("cancel_queued") is True:
        for uuid in queued:
            session.queue.cancel(uuid)
        session.work.interrupt()
        return {"still_queued": [], "cancelled": queued}
    session.work.interrupt()
    return {"still_queued": queued}


def cancel_async_message(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Take a queued prompt back."""
    uuid = asked.get("message_uuid")
    return {"cancelled": isinstance(uuid, str) and session.queue.cancel(uuid)}


def end_session(session: SimulatedSession, _: ControlAsk) -> Answer:
    """End the process: as when the client closes its side, and at once."""

    def end() -> None:
        session.work.interrupt()
        session.queue.end_input()

    return Answer(then=end)


def _are_hooks(hooks: object) -> bool:
    if not isinstance(hooks, dict):
        return False
    groups = cast("dict[str, object]", hooks).values()
    return all(
        isinstance(group, list) and _are_matchers(cast("list[Any]", group)) for group in groups
    )


def _are_matchers(group: list[Any]) -> bool:
    return all(
        isinstance(each, dict)
        and isinstance(cast("dict[str, Any]", each).get("hookCallbackIds"), list)
        and isinstance(cast("dict[str, Any]", each).get("matcher") or "", str)
        for each in group
    )


# Mode, model, thinking


def set_permission_mode(session: SimulatedSession, asked: ControlAsk) -> Answer:
    """Change the permission mode; a status line follows where it is another."""
    mode = asked.get("mode")
    mode = "default" if mode == "manual" else mode
    if mode not in facts.MODES:
        raise RequestRefused(_BAD_MODE, "invalid_mode")
    if mode in session.state.permissions.forbidden:
        raise RequestRefused(*_FORBIDDEN[mode])
    if mode == "bypassPermissions" and not session.state.permissions.bypass_allowed:
        raise RequestRefused(_NO_BYPASS, "bypass_not_launched")
    if mode == session.state.permissions.mode:
        return Answer(body={"mode": mode})
    return Answer(body={"mode": mode}, then=lambda: session.state.set_mode(mode))


def set_mcp_permission_mode_override(
    session: SimulatedSession, asked: ControlAsk
) -> dict[str, Any]:
    """Change the mode for one server's tools, towards more questions only."""
    name = required(asked, "serverName", "set_mcp_permission_mode_override")
    mode = asked.get("mode")
    if mode is not None and mode not in facts.MODES:
        raise RequestRefused(_BAD_MODE)
    if mode not in (None, "default", "auto"):
        tighten = "Permission mode override over the control channel is tighten-only"
        raise RequestRefused(f"{tighten} ('default', 'auto', or null); rejected '{mode}'")
    modes = session.state.desk.mcp_modes
    had = modes.pop(name, None)
    if mode is not None:
        modes[name] = mode
    if name in {server["name"] for server in session.mcp.listing()}:
        return {}
    return {"warning": f"MCP server '{name}' {_unknown_server(mode, had)}"}


def _unknown_server(mode: str | None, had: str | None) -> str:
    if mode is not None:
        stored = "override stored but will not apply until a server with that exact name connects."
        return f"is not yet known; {stored}"
    outcome = "its stored override was cleared." if had else "no override was present to clear."
    return f"is not known; {outcome}"


async def set_model(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Switch the model; the conversation notes it once there is one."""
    given = asked.get("model")
    if given is not None and not isinstance(given, str):
        raise _not_set(session, "set_model: model must be a string", "invalid_request")
    if given == "":
        words = 'Model "(unrecognized model name)" is not a recognized model id.'
        raise _not_set(session, f"{words} Run /model to see available models.", "catalog_unknown")
    if given and given.lower() == "haiku[1m]":
        raise _not_set(session, _NO_LONG_HAIKU, "alias_1m_unsupported")
    resolved = facts.resolve_model(given)
    await switch_model(session, resolved, given)
    return {"model": resolved}


async def switch_model(session: SimulatedSession, resolved: str, given: str | None = None) -> None:
    """Make a model the session's and tell the client of a change."""
    if not facts.is_known_model(resolved) and resolved != session.state.model_name:
        # The CLI tries a model it does not know with one token.
        await session.requests.ask_aside(_probe(resolved), counts=False)
    if resolved != session.state.model_name:
        await session.hooks.model_switches(resolved, given, session.main.tokens)
    if resolved != session.state.model_name and has_talked(session):
        alias = given if given and given not in (resolved, "default") else None
        shown = f"{alias} ({resolved})" if alias else resolved
        note_command(session, f"/model {given or 'default'}", f"Set model to `{shown}`")
    session.state.model_name = resolved
    session.state.desk.model_given = given or resolved


def _probe(name: str) -> dict[str, Any]:
    return {"model": name, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}


def _not_set(session: SimulatedSession, text: str, code: str) -> RequestRefused:
    return RequestRefused(text, code, model=session.state.model_name)


_NO_LONG_HAIKU: Final = (
    "'haiku[1m]' isn't available: the haiku setting switches models in plan mode and has no 1M"
    " form. Run /model haiku, or /model sonnet[1m] for a 1M context window."
)


def set_max_thinking_tokens(session: SimulatedSession, asked: ControlAsk) -> None:
    """Limits the thinking."""
    tokens, display = asked.get("max_thinking_tokens"), asked.get("thinking_display")
    whole = tokens is None or (isinstance(tokens, int) and not isinstance(tokens, bool))
    if not whole or display not in (None, "summarized", "omitted", "highlights"):
        raise RequestRefused(_BAD_THINKING)


# Settings


async def apply_flag_settings(session: SimulatedSession, asked: ControlAsk) -> None:
    """Change settings for this process."""
    changes = _settings_of(asked, "apply_flag_settings")
    settings = session.state.desk.settings
    settings.apply(changes)
    grant(settings, session.state.permissions)
    if "model" in changes:
        resolved = facts.resolve_model(settings.effective().get("model"))
        await switch_model(session, resolved)


def update_settings(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Change a settings file, as far as a client may."""
    changes = _settings_of(asked, "update_settings")
    source = asked.get("source")
    if source not in _WRITABLE:
        raise RequestRefused(
            f"update_settings: unsupported source {'undefined' if source is None else source}"
        )
    if beyond := sorted(changes.keys() - _WRITABLE[source]):
        raise RequestRefused(f"update_settings keys not allowed: {', '.join(beyond)}")
    if odd := [key for key, value in changes.items() if not isinstance(value, str)]:
        words = "update_settings values must be strings (deletion is not supported)"
        raise RequestRefused(f"{words}: {', '.join(odd)}")
    session.state.desk.settings.write(source, changes)
    return {}


def _settings_of(asked: ControlAsk, subtype: str) -> dict[str, Any]:
    given = asked.get("settings")
    if isinstance(given, dict):
        return cast("dict[str, Any]", given)
    kind = _kind_of(asked, "settings")
    raise RequestRefused(f"{subtype} requires `settings` to be an object, got {kind}")


def _kind_of(asked: ControlAsk, name: str) -> str:
    """What JavaScript calls the type of a member."""
    if name not in asked.fields:
        return "undefined"
    if asked.get(name) is None:
        return "null"
    for kind, word in _JS_TYPES.items():
        if isinstance(asked.get(name), kind):
            return word
    return "object"


# What a client says about itself


def set_has_subscribers(_: SimulatedSession, asked: ControlAsk) -> None:
    """Take note whether anybody watches."""
    if "has_subscribers" not in asked.fields or asked.get("has_subscribers") not in (
        True,
        False,
        None,
    ):
        words = "Invalid set_has_subscribers: has_subscribers must be true, false or null"
        raise RequestRefused(words)


def set_prompt_suggestions_paused(_: SimulatedSession, asked: ControlAsk) -> None:
    """Take note whether suggestions are wanted."""
    paused = asked.get("paused")
    if not isinstance(paused, bool):
        kind = _kind_of(asked, "paused")
        words = "Invalid set_prompt_suggestions_paused: Invalid input: expected boolean"
        raise RequestRefused(f"{words}, received {kind}")


def message_rated(_: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Take note of a rating."""
    fine = (
        isinstance(asked.get("messageUuid"), str)
        and asked.get("sentiment") in ("positive", "negative")
        and asked.get("surface") in (None, "tool_use", "assistant_text")
        and isinstance(asked.get("cleared") or False, bool)
    )
    if not fine:
        rest = 'surface "tool_use" or "assistant_text", and cleared a boolean'
        first = 'message_rated: messageUuid must be a string, sentiment "positive" or "negative"'
        raise RequestRefused(f"{first}, {rest}")
    return {}


ANSWERS: dict[str, Handler] = {
    "initialize": initialize,
    "interrupt": interrupt,
    "cancel_async_message": cancel_async_message,
    "end_session": end_session,
    "set_permission_mode": set_permission_mode,
    "set_mcp_permission_mode_override": set_mcp_permission_mode_override,
    "set_model": set_model,
    "set_max_thinking_tokens": set_max_thinking_tokens,
    "apply_flag_settings": apply_flag_settings,
    "update_settings": update_settings,
    "set_has_subscribers": set_has_subscribers,
    "set_prompt_suggestions_paused": set_prompt_suggestions_paused,
    "message_rated": message_rated,
}
