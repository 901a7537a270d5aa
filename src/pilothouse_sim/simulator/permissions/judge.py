"""Decides on a tool call: the tool's own view, the rules about it, then the session's mode."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .commands import judge_command
from .draft import VerdictDraft, add_rules, allow, ask_by_rule, requested
from .files import judge_reading, judge_writing
from .paths import display, expand
from .verdict import Behavior, Json, Verdict
from .web import judge_fetching, judge_searching

if TYPE_CHECKING:
    from collections.abc import Callable

    from .rules import CliRule
    from .state import PermissionState

__all__ = ["is_withdrawn", "judge"]

_PATHS = {
    "Read": "file_path",
    "Write": "file_path",
    "Edit": "file_path",
    "NotebookEdit": "notebook_path",
}
_DESCRIBED = {
    "WebFetch": "url",
    "WebSearch": "query",
    "Agent": "description",
    "Monitor": "description",
}
_QUESTIONS = ("AskUserQuestion", "ExitPlanMode")
_ALWAYS_CHECKED = frozenset(("Agent", "SendMessage"))
_CHECKED_IN_AUTO = frozenset(("CronCreate", "ScheduleWakeup"))
_SOURCES = {
    "userSettings": "user_permanent",
    "localSettings": "user_permanent",
    "session": "user_temporary",
}
_DONT_ASK = (
    "Permission to use {} has been denied because Claude Code is running in don't ask mode. "
    "Another tool may do, but not as a way around this; where nothing else will, ask the user."
)
_UNCHECKED = (
    "Auto mode is unavailable: its safety check does not run for this session, so {} was not run"
)
_UNCHECKED_GO_ON = (
    ". Other actions that need the check will be denied too, and retrying won't help. Finish what "
    "you can without them, then tell the user what is blocked and that they can switch to another "
    "permission mode."
)
_UNCHECKED_STOP = (
    " and this turn has ended. Wait for the user's next message before doing anything further."
)
_PATIENCE = 9
"""After so many calls without a safety check the next one ends the turn."""


def judge(name: str, arguments: Json, state: PermissionState) -> Verdict:
    """Whether the call runs, is asked about, or is refused."""
    withdrawn = is_withdrawn(name, state)
    if withdrawn:
        text = f"<tool_use_error>{withdrawn}</tool_use_error>"
        return Verdict(behavior="deny", message=text, announced=False, decided=False)
    draft = _with_rules(name, _own_view(name, arguments, state), state)
    return _shape(name, arguments, _by_mode(name, draft, state), state)


def is_withdrawn(name: str, state: PermissionState) -> str:
    """Why the session has no such tool: a rule denies all of it, or nobody answers. Or nothing."""
    denied = any(rule.names(name) and rule.content is None for rule in state.rules["deny"])
    if not denied and (state.can_ask or name not in _QUESTIONS):
        return ""
    missing = f"Error: No such tool available: {name}"
    if name.startswith("mcp__"):
        return missing
    return f"{missing}. {name} is disabled for this session, in subagents as well as here."


def _own_view(name: str, arguments: Json, state: PermissionState) -> VerdictDraft:
    if name.startswith("mcp__"):
        return VerdictDraft(
            behavior="pass",
            message=requested(f"use {name}"),
            suggestions=[add_rules([(name, None)])],
            server_policy_ask_only=True,
        )
    view = _VIEWS.get(name)
    return allow() if view is None else view(arguments, state)


def _read(arguments: Json, state: PermissionState) -> VerdictDraft:
    return judge_reading(_text(arguments, "file_path"), state)


def _write(arguments: Json, state: PermissionState) -> VerdictDraft:
    return judge_writing(_text(arguments, "file_path"), state)


def _notebook(arguments: Json, state: PermissionState) -> VerdictDraft:
    return judge_writing(_text(arguments, "notebook_path"), state)


def _shell(arguments: Json, state: PermissionState) -> VerdictDraft:
    command = _text(arguments, "command")
    draft = judge_command(command, state)
    if state.mode != "auto" or draft.behavior in ("allow", "deny"):
        return draft
    accepting = judge_command(command, replace(state, mode="acceptEdits"))
    return allow("mode") if accepting.behavior == "allow" else draft


def _monitor(arguments: Json, state: PermissionState) -> VerdictDraft:
    draft = _shell(arguments, state)
    kept = [update for update in draft.suggestions or [] if update["type"] != "addRules"]
    return replace(draft, suggestions=None if draft.suggestions is None else kept)


def _fetch(arguments: Json, state: PermissionState) -> VerdictDraft:
    return judge_fetching(_text(arguments, "url"), state)


def _search(_: Json, __: PermissionState) -> VerdictDraft:
    return judge_searching()


def _question(_: Json, __: PermissionState) -> VerdictDraft:
    return VerdictDraft(behavior="ask")


_VIEWS: dict[str, Callable[[Json, PermissionState], VerdictDraft]] = {
    "AskUserQuestion": _question,
    "Bash": _shell,
    "Edit": _write,
    "ExitPlanMode": _question,
    "Monitor": _monitor,
    "NotebookEdit": _notebook,
    "Read": _read,
    "WebFetch": _fetch,
    "WebSearch": _search,
    "Write": _write,
}


def _with_rules(name: str, draft: VerdictDraft, state: PermissionState) -> VerdictDraft:
    """Rules about a whole tool: one that asks beats what the tool allows, not what it denies."""
    if draft.behavior == "deny" or name in _QUESTIONS:
        return draft
    asking = _whole_rule(name, "ask", state)
    if asking is not None:
        if draft.behavior == "ask":
            policy = None if draft.server_policy_ask_only is None else False
            return replace(draft, suggestions=None, rule=asking, server_policy_ask_only=policy)
        return ask_by_rule(asking, draft.message or requested(f"use {name}"))
    allowing = _whole_rule(name, "allow", state)
    if allowing is not None and _yields(draft):
        return allow("rule", allowing)
    return draft


def _yields(draft: VerdictDraft) -> bool:
    return draft.reason_type != "safetyCheck" and not (
        draft.behavior == "ask" and draft.reason_type == "rule"
    )


def _whole_rule(name: str, behavior: str, state: PermissionState) -> CliRule | None:
    found = (rule for rule in state.rules[behavior] if rule.content is None and rule.names(name))
    return next(found, None)


def _by_mode(name: str, draft: VerdictDraft, state: PermissionState) -> VerdictDraft:
    if draft.behavior == "deny":
        return draft
    # Questions and the rules that ask are put in every mode that asks at all.
    insists = name in _QUESTIONS or (draft.behavior == "ask" and draft.reason_type == "rule")
    change = _MODES.get(state.mode)
    if change is None or (insists and state.mode != "dontAsk"):
        return draft
    return change(name, draft, state)


def _bypass(_: str, __: VerdictDraft, ___: PermissionState) -> VerdictDraft:
    return allow("mode")


def _dont_ask(name: str, draft: VerdictDraft, _: PermissionState) -> VerdictDraft:
    if draft.behavior == "allow":
        return draft
    return VerdictDraft(behavior="deny", message=_DONT_ASK.format(name), reason_type="mode")


def _plan(name: str, draft: VerdictDraft, state: PermissionState) -> VerdictDraft:
    if name == "Read":
        return draft if draft.behavior == "allow" else allow("mode")
    if name in _PATHS and draft.reason_type not in ("safetyCheck", "other"):
        return _planned(f"write to {draft.path}")
    if name.startswith("mcp__") and draft.behavior == "pass" and name not in state.read_only_tools:
        return _planned(f"call {name}")
    return _checked(name, draft, state)


def _planned(what: str) -> VerdictDraft:
    message = f"Cannot {what} while in plan mode."
    return VerdictDraft(behavior="ask", message=message, reason_type="mode")


def _auto(name: str, draft: VerdictDraft, state: PermissionState) -> VerdictDraft:
    if name == "Read" or (name in _PATHS and draft.edits and draft.reason_type is None):
        return allow("mode") if draft.behavior != "allow" else draft
    if name in _CHECKED_IN_AUTO:
        return _unchecked(name, state)
    return _checked(name, draft, state)


def _checked(name: str, draft: VerdictDraft, state: PermissionState) -> VerdictDraft:
    """What needs a safety check is denied: the service that would run it is not there."""
    if name in _ALWAYS_CHECKED or draft.behavior in ("ask", "pass"):
        return _unchecked(name, state)
    return draft


def _unchecked(name: str, state: PermissionState) -> VerdictDraft:
    stops = state.unchecked >= _PATIENCE
    message = _UNCHECKED.format(name) + (_UNCHECKED_STOP if stops else _UNCHECKED_GO_ON)
    reason = (
        "Auto mode unavailable — stopped after repeated responses with no safety verdict"
        if stops
        else "Classifier unavailable"
    )
    return VerdictDraft(behavior="deny", message=message, reason=reason, reason_type="classifier")


_MODES: dict[str, Callable[[str, VerdictDraft, PermissionState], VerdictDraft]] = {
    "auto": _auto,
    "bypassPermissions": _bypass,
    "dontAsk": _dont_ask,
    "plan": _plan,
}


def _shape(name: str, arguments: Json, draft: VerdictDraft, state: PermissionState) -> Verdict:
    verdict = Verdict(
        behavior=_behavior(draft),
        message=draft.message,
        input=_asked_input(name, arguments, state),
        display_name=_display_name(name),
        reason=draft.reason,
        reason_type=draft.reason_type,
        source=_source(draft),
    )
    if draft.behavior == "deny":
        return _shape_denial(verdict, draft)
    if draft.behavior == "allow":
        return verdict
    asked = _shape_question(name, arguments, verdict, draft, state)
    if state.can_ask:
        return asked
    return replace(asked, behavior="deny", kind="user-rejected")


def _behavior(draft: VerdictDraft) -> Behavior:
    table: dict[str, Behavior] = {"allow": "allow", "deny": "deny"}
    return table.get(draft.behavior, "ask")


def _source(draft: VerdictDraft) -> str:
    if draft.rule is None or draft.reason_type != "rule":
        return "config"
    found = _SOURCES.get(draft.rule.source, "config")
    return found if draft.behavior == "allow" or found == "config" else "user_reject"


def _shape_denial(verdict: Verdict, draft: VerdictDraft) -> Verdict:
    if draft.reason_type != "classifier":
        kind = None if draft.silent else "permission-rule"
        return replace(verdict, kind=kind, announced=not draft.silent)
    stops = draft.message.endswith(_UNCHECKED_STOP)
    return replace(
        verdict,
        kind="automode-unavailable",
        reason_code=f"auto_mode_{'stop_' if stops else ''}no_check_in_session",
        ends_turn=stops,
    )


def _shape_question(
    name: str, arguments: Json, verdict: Verdict, draft: VerdictDraft, state: PermissionState
) -> Verdict:
    by_rule = draft.reason_type == "rule" and draft.rule is not None
    matched = (
        {"source": draft.rule.source, "tool_name": draft.rule.tool}
        if draft.rule is not None and not by_rule
        else None
    )
    return replace(
        verdict,
        source="config",
        description=_description(name, arguments, state),
        suggestions=draft.suggestions,
        blocked_path=draft.blocked_path,
        rule_source=draft.rule.source if draft.rule is not None and by_rule else None,
        matched_ask_rule=matched,
        server_policy_ask_only=draft.server_policy_ask_only,
        classifier_approvable=draft.classifier_approvable,
        suppress_always_allow_rule=draft.suppress_always_allow_rule,
        requires_user_interaction=True if name in _QUESTIONS else None,
    )


def _description(name: str, arguments: Json, state: PermissionState) -> str | None:
    if name in _PATHS:
        return display(expand(_text(arguments, _PATHS[name]), state), state)
    if name == "Bash":
        return _text(arguments, "description") or _text(arguments, "command")
    return _text(arguments, _DESCRIBED[name]) if name in _DESCRIBED else None


def _asked_input(name: str, arguments: Json, state: PermissionState) -> Json:
    field = _PATHS.get(name)
    if field is None or not isinstance(arguments.get(field), str):
        return arguments
    return {**arguments, field: expand(arguments[field], state)}


def _display_name(name: str) -> str:
    if not name.startswith("mcp__"):
        return name
    words = name.rpartition("__")[2].replace("_", " ")
    return re.sub(r"\b\w", lambda first: first[0].upper(), words)


def _text(arguments: Json, field: str) -> str:
    value = arguments.get(field)
    return value if isinstance(value, str) else ""
