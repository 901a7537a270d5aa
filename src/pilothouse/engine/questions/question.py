"""A request of the CLI's as the question every face shows, and what becomes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast
from urllib.parse import urlsplit
from uuid import NAMESPACE_OID, UUID, uuid5

import msgspec

from pilothouse.api.answers import Answer
from pilothouse.api.questions import Option, Posed, Question, Way
from pilothouse.api.records import QuestionClosed, QuestionDecided
from pilothouse.client import permissions as client
from pilothouse.client.elicitation import ElicitationRequest
from pilothouse.client.permissions import (
    PermissionRequest,
    PlanRequest,
    QuestionOption,
    QuestionRequest,
    remembered,
)
from pilothouse.protocol import (
    AddDirectories,
    AddRules,
    MatchedAskRule,
    PermissionDestination,
    PermissionUpdate,
    SetMode,
)
from pilothouse.protocol.strict import clean
from pilothouse.protocol.wire import JsonObject, encode_json

from . import forms, plan
from .descriptions import describe, escape, one_line

__all__ = ["closed", "decided", "pose", "question_id", "same"]

RULES_SHOWN: Final = 300
ADDRESS_SHOWN: Final = 4_000
FILES: Final[dict[PermissionDestination, str]] = {
    "localSettings": "this project's local settings",
    "projectSettings": "this project's settings",
    "userSettings": "your own settings",
}


# Posing


def pose(
    request: PermissionRequest | ElicitationRequest,
    *,
    session_id: str,
    cwd: str,
    label: str | None,
    mode: str | None,
    now: int,
    expires_at: int | None,
    bypass_allowed: bool,
    foreign: bool = False,
    used: float | None = None,
) -> Question:
    """The question as every face shows it. A plan's text is taken now: the file may change.

    `used` is how full the context is, in percent, if that is known.
    """
    # Nobody knows in which modes a CLI that is not ours was let.
    bypass_allowed = bypass_allowed and not foreign
    base = Question(
        id=question_id(session_id, request.request_id),
        session_id=session_id,
        kind="tool",
        state="open",
        title="",
        opened_at=now,
        expires_at=expires_at,
        cwd=cwd,
        label=label,
        mode=mode,
        foreign=foreign,
    )
    if isinstance(request, ElicitationRequest):
        return _elicitation(base, request)
    base = _asked_by_tool(base, request)
    if isinstance(request, PlanRequest):
        return _plan(base, request, bypass_allowed=bypass_allowed, used=used)
    if isinstance(request, QuestionRequest):
        return _questions(base, request)
    return _tool(base, request, cwd, bypass_allowed=bypass_allowed)


def question_id(session_id: str, request_id: str) -> str:
    """The id of the question that a request becomes: whoever sees the request has the same."""
    try:
        space = UUID(session_id)
    except ValueError:
        space = uuid5(NAMESPACE_OID, session_id)
    return str(uuid5(space, request_id.encode(errors="backslashreplace").decode()))


def _asked_by_tool(base: Question, request: PermissionRequest) -> Question:
    asked = request.request
    reason, rule = asked.decision_reason, asked.matched_ask_rule
    return msgspec.structs.replace(
        base,
        tool_name=request.tool_name,
        tool_use_id=request.tool_use_id,
        agent_id=request.agent_id,
        input=clean(request.input),
        reason=None if reason is None else escape(reason),
        reason_type=_line(asked.decision_reason_type),
        matched_rule=None if rule is None else _line(_rule(rule)),
        blocked_path=_line(asked.blocked_path, ADDRESS_SHOWN),
    )


def _line(text: str | None, limit: int = RULES_SHOWN) -> str | None:
    return None if text is None else one_line(text, limit)


def _tool(
    base: Question, request: PermissionRequest, cwd: str, *, bypass_allowed: bool
) -> Question:
    described = describe(request.tool_name, request.input, cwd)
    return msgspec.structs.replace(
        base,
        title=described.title,
        text=described.text,
        format=described.format,
        url=_web_address(request.input.get("url")) if described.format == "url" else None,
        ways=_tool_ways(request, cwd, bypass_allowed=bypass_allowed),
    )


def _web_address(url: Any) -> str | None:
    """The address if a browser may be sent there: another scheme could run a script."""
    if not isinstance(url, str) or escape(url) != url:
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return url if parts.scheme in ("http", "https") and parts.netloc else None


def _plan(
    base: Question, request: PlanRequest, *, bypass_allowed: bool, used: float | None
) -> Question:
    if not plan.has_plan(request.plan):
        return msgspec.structs.replace(
            base,
            kind="plan",
            title="Leave plan mode without a plan",
            text="No plan was written.",
            ways=plan.ways(None, bypass_allowed=bypass_allowed),
        )
    asked_for = [
        {name: one_line(value, RULES_SHOWN) for name, value in each.items()}
        for each in plan.prompts(request.allowed_prompts)
    ]
    return msgspec.structs.replace(
        base,
        kind="plan",
        title=one_line(f"Approve the plan: {_headline(request.plan or '')}"),
        text=_plan_text(request.plan or "", asked_for),
        format="markdown",
        plan=request.plan,
        plan_file=request.plan_file,
        allowed_prompts=asked_for,
        ways=plan.ways(
            request.plan, bypass_allowed=bypass_allowed, own=not base.foreign, used=used
        ),
    )


def _headline(text: str) -> str:
    return next(line.lstrip("# ").strip() for line in text.splitlines() if line.strip())


def _plan_text(text: str, asked_for: Sequence[JsonObject]) -> str:
    shown = escape(text.replace("\r\n", "\n")).rstrip()
    if not asked_for:
        return shown
    lines = (f"- {each['tool']}: {each['prompt']}" for each in asked_for)
    return "\n".join([shown, "", "It asks leave, for this session, for:", "", *lines])


def _questions(base: Question, request: QuestionRequest) -> Question:
    posed = [_posed(each) for each in request.questions]
    more = f" (and {len(posed) - 1} more)" if len(posed) > 1 else ""
    return msgspec.structs.replace(
        base,
        kind="questions",
        title=one_line(posed[0].question if posed else "A question", 100) + more,
        text="\n\n".join(_posed_text(each) for each in posed),
        posed=posed,
        ways=[
            Way(id="choose", label="Answer", answer={"kind": "choose"}, needs=["answers"]),
            Way(id="skip", label="Go on without an answer", answer={"kind": "skip"}),
            _way("deny_and_stop", "Do not answer, and stop", {"kind": "deny", "stop": True}),
        ],
    )


def _posed(asked: client.ModelQuestion) -> Posed:
    return Posed(
        question=escape(asked.question),
        header=one_line(asked.header),
        options=[_option(each) for each in asked.options],
        multi_select=asked.multi_select,
    )


def _option(given: QuestionOption) -> Option:
    return Option(
        label=escape(given.label),
        description=escape(given.description),
        preview=None if given.preview is None else escape(given.preview),
    )


def _posed_text(asked: Posed) -> str:
    several = " (several may be chosen)" if asked.multi_select else ""
    options = (
        f"- {one_line(each.label)}{': ' if each.description else ''}{each.description}"
        for each in asked.options
    )
    return "\n".join([f"{asked.question}{several}", *options])


def _elicitation(base: Question, request: ElicitationRequest) -> Question:
    asked, message = request.request, escape(request.message)
    is_page = asked.mode == "url" or (asked.mode is None and asked.url is not None)
    address = one_line(asked.url or "", ADDRESS_SHOWN)
    page, form = f"{address}\n\n{message}", "\n".join([message, *forms.fields(request.schema)])
    return msgspec.structs.replace(
        base,
        kind="elicitation",
        title=one_line(f"{request.server_name} asks: {request.message}"),
        text=page if is_page else form,
        format="url" if is_page else "text",
        server_name=one_line(request.server_name),
        url=_web_address(asked.url) if is_page else None,
        schema=None if is_page else clean(request.schema),
        ways=_elicitation_ways(is_page=is_page),
    )


# Ways to answer


def _way(id: str, label: str, answer: JsonObject, *needs: str) -> Way:
    return Way(id=id, label=label, answer=answer, needs=list(needs))


def _elicitation_ways(*, is_page: bool) -> list[Way]:
    if is_page:
        first = _way("open", "Open the page", {"kind": "fill"})
    else:
        first = _way("fill", "Fill in", {"kind": "fill"}, "content")
    return [
        first,
        _way("decline", "Decline", {"kind": "decline"}),
        _way("dismiss", "Dismiss", {"kind": "dismiss"}),
    ]


def _tool_ways(request: PermissionRequest, cwd: str, *, bypass_allowed: bool) -> list[Way]:
    return [
        _way("allow", "Allow", {"kind": "allow"}),
        _way("allow_edited", "Allow it as edited here", {"kind": "allow"}, "input"),
        *_always_ways(request, cwd, bypass_allowed=bypass_allowed),
        _way("deny", "Deny, with a reason", {"kind": "deny"}, "reason"),
        _way("deny_and_stop", "Deny, and stop", {"kind": "deny", "stop": True}),
    ]


def _always_ways(request: PermissionRequest, cwd: str, *, bypass_allowed: bool) -> list[Way]:
    """Return one for each place that can store a rule, with the rule; none without a rule."""
    found: list[Way] = []
    here = remembered(request)
    modes = [each.mode for each in here if isinstance(each, SetMode)]
    if here and (bypass_allowed or "bypassPermissions" not in modes):
        label = f"Always allow in this session: {_kept(here, cwd)}"
        found.append(_way("always_session", label, {"kind": "allow", "always": True}))
    for destination, name in FILES.items():
        if updates := remembered(request, destination):
            label = f"Always allow, in {name}: {_kept(updates, cwd)}"
            answer: JsonObject = {"kind": "allow", "always": destination}
            found.append(_way(f"always_{destination}", label, answer))
    return found


def _kept(updates: Sequence[PermissionUpdate], cwd: str) -> str:
    """What would be allowed from then on, in words; a CLI suggests its own directory, too."""
    rules = [_rule(rule) for each in updates if isinstance(each, AddRules) for rule in each.rules]
    modes = [each.mode for each in updates if isinstance(each, SetMode)]
    folders = [
        name
        for each in updates
        if isinstance(each, AddDirectories)
        for name in each.directories
        if name != cwd
    ]
    parts = [
        ", ".join(rules),
        f"by changing to the mode {', '.join(modes)}" if modes else "",
        f"by working in {', '.join(folders)}" if folders else "",
    ]
    return one_line(" and ".join(part for part in parts if part), RULES_SHOWN)


def _rule(rule: client.PermissionRule | MatchedAskRule) -> str:
    if rule.rule_content is None:
        return rule.tool_name
    return f"{rule.tool_name}({rule.rule_content})"


# Afterwards


def closed(question: Question, record: QuestionClosed, at: int) -> Question:
    """The question as it is after this record."""
    return msgspec.structs.replace(
        question,
        state=record.state,
        answer=record.answer,
        answered_by=record.by,
        rule=record.rule or question.rule,
        closed_because=record.because,
        closed_at=at,
        decidable=record.decidable,
    )


def decided(question: Question, record: QuestionDecided, at: int) -> Question:
    """The question after it was decided although its CLI was gone. Why it closed stays."""
    return msgspec.structs.replace(
        question,
        state="answered",
        answer=record.answer,
        answered_by=record.by,
        closed_at=at,
        decidable=False,
    )


def same(one: Answer, other: Answer) -> bool:
    """Whether it is the same answer: of the same kind, with the same JSON."""
    return _canonical(one) == _canonical(other)


def _canonical(answer: Answer) -> bytes:
    # Compared as values, a 1 would be a true.
    return encode_json(_sorted(msgspec.to_builtins(answer)))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {name: _sorted(members[name]) for name in sorted(members)}
    if isinstance(value, list):
        return [_sorted(each) for each in cast("list[Any]", value)]
    return value
