"""What the CLI asks a person about tools, plans and questions, and the answers there are.

A handler gets a `ToolRequest`, a `QuestionRequest` or a `PlanRequest` and returns an answer, one of
`pilothouse.api.answers`; `settle` turns that, once, into the form which its CLI accepts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from pilothouse.api.answers import (
    Allow,
    ApprovePlan,
    Choose,
    Deny,
    RejectPlan,
    RevisePlan,
    Skip,
)
from pilothouse.protocol import (
    AddDirectories,
    AddRules,
    CanUseTool,
    PermissionAllow,
    PermissionDeny,
    PermissionDestination,
    PermissionMode,
    PermissionRule,
    PermissionUpdate,
    SetMode,
)
from pilothouse.protocol.wire import JsonObject, Record, convert, encode_json

from .versions import UNKNOWN, Features

__all__ = [
    "HandlerAnswer",
    "ModelQuestion",
    "PermissionRequest",
    "PlanRequest",
    "QuestionOption",
    "QuestionRequest",
    "Remembered",
    "Settled",
    "ToolRequest",
    "WithUpdates",
    "as_request",
    "own_rules",
    "remembered",
    "settle",
]

ASK_USER_QUESTION = "AskUserQuestion"
MOST_QUESTIONS = 100
"""Of one request; a CLI asks four at most."""
SPECIAL_REASONS = frozenset({"hook", "rule", "safetyCheck"})
"""Why a CLI asks about what was allowed before; such an ask is always a person's."""
EXIT_PLAN_MODE = "ExitPlanMode"
DENIED = "The user does not want this tool to be used."
REJECTED = "The user rejected the plan."


# What is asked


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """Something a session waits on a person for. `request` has every field the CLI sent."""

    request_id: str
    request: CanUseTool
    features: Features = UNKNOWN
    """What the CLI can do that asks."""

    @property
    def tool_name(self) -> str:
        return self.request.tool_name

    @property
    def input(self) -> JsonObject:
        return self.request.input

    @property
    def tool_use_id(self) -> str:
        return self.request.tool_use_id

    @property
    def agent_id(self) -> str | None:
        """The sub-agent that asks; None for the main conversation."""
        return self.request.agent_id

    @property
    def suggestions(self) -> Sequence[PermissionUpdate]:
        """What the CLI would remember. Its destinations may be settings files on disk."""
        return self.request.permission_suggestions


@dataclass(frozen=True, slots=True)
class ToolRequest(PermissionRequest):
    """May this tool run?"""


class QuestionOption(Record):
    """One option of a question."""

    label: str = ""
    description: str = ""
    preview: str | None = None


class ModelQuestion(Record):
    """One question of the model's."""

    question: str = ""
    header: str = ""
    options: list[QuestionOption] = msgspec.field(default_factory=list[QuestionOption])
    multi_select: bool = msgspec.field(default=False, name="multiSelect")


@dataclass(frozen=True, slots=True)
class QuestionRequest(PermissionRequest):
    """The model asks the person something."""

    @property
    def questions(self) -> list[ModelQuestion]:
        asked = _list(self.input.get("questions"))[:MOST_QUESTIONS]
        return [convert(ModelQuestion, each) for each in asked]


@dataclass(frozen=True, slots=True)
class PlanRequest(PermissionRequest):
    """Is this plan right?"""

    @property
    def plan(self) -> str | None:
        """The plan's text; None when the model wrote no plan file."""
        plan = self.input.get("plan")
        return plan if isinstance(plan, str) else None

    @property
    def plan_file(self) -> str | None:
        path = self.input.get("planFilePath")
        return path if isinstance(path, str) else None

    @property
    def allowed_prompts(self) -> list[Any]:
        return _list(self.input.get("allowedPrompts"))


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


_KINDS = {ASK_USER_QUESTION: QuestionRequest, EXIT_PLAN_MODE: PlanRequest}


def as_request(
    request_id: str, request: CanUseTool, features: Features = UNKNOWN
) -> PermissionRequest:
    """The typed request for the tool it is about."""
    return _KINDS.get(request.tool_name, ToolRequest)(request_id, request, features)


# What is answered


@dataclass(frozen=True, slots=True)
class WithUpdates:
    """A yes, and with it changes of what the CLI asks about, in the same moment."""

    answer: Allow | ApprovePlan
    updates: Sequence[PermissionUpdate] = ()
    mode: PermissionMode | None = None
    """The permission mode from here on."""


class Settled(Struct, frozen=True):
    """An answer as the CLI takes it, and what comes of it beyond this one call."""

    result: PermissionAllow | PermissionDeny
    is_for_good: bool = False
    """Whether the same call shall not be asked about again."""

    @property
    def updates(self) -> Sequence[PermissionUpdate]:
        """What it changes of what the CLI asks about."""
        result = self.result
        changed = result.updated_permissions if isinstance(result, PermissionAllow) else ()
        return changed or ()


HandlerAnswer = (
    Allow | Deny | Choose | Skip | ApprovePlan | RevisePlan | RejectPlan | WithUpdates | Settled
)
"""What a handler of the caller's may return."""
_PLAIN = WithUpdates(Allow())

_FITTING: Final[dict[type, tuple[type, ...]]] = {
    ToolRequest: (Allow, Deny),
    QuestionRequest: (Allow, Deny, Choose, Skip),
    PlanRequest: (Allow, Deny, ApprovePlan, RevisePlan, RejectPlan),
}


# From answer to wire


def settle(request: PermissionRequest, answer: HandlerAnswer) -> Settled:
    """The answer as the CLI takes it. One that is settled already stays as it is.

    The whole input is always echoed: older CLIs refuse an `allow` without it, and newer ones a
    question without its `questions`. A denial always has a message for the same reason.
    An answer that does not belong to the request raises TypeError: it must not become a yes. So
    does an `always` that nothing can be remembered for: it must not become a single yes.
    """
    if type(answer) is Allow and answer.always is False and not answer.updates:
        # By far the most frequent answer, and one to any request.
        given = request.request.input if answer.input is None else answer.input
        return Settled(PermissionAllow(updated_input=given))
    if isinstance(answer, Settled):
        return answer
    more, given = (answer, answer.answer) if isinstance(answer, WithUpdates) else (_PLAIN, answer)
    _check_kind(request, given)
    is_for_good = isinstance(given, Allow) and given.always is not False
    return Settled(_settle(request, given, more), is_for_good)


_Plain = Allow | Deny | Choose | Skip | ApprovePlan | RevisePlan | RejectPlan


def _settle(
    request: PermissionRequest, given: _Plain, more: WithUpdates
) -> PermissionAllow | PermissionDeny:
    match given:
        case Allow(input=edited):
            updates = [*more.updates, *(given.updates or ()), *_remembered(request, given)]
            return _allow(request.input if edited is None else edited, updates, more.mode)
        case Deny(reason=reason, stop=stop):
            return _deny(reason, stop=stop)
        case RejectPlan(reason=reason, stop=stop):
            return _deny(reason, REJECTED, stop=stop)
        case Choose():
            return _allow(_answered(request, given))
        case Skip():
            # Allowed without answers, 2.1.119 and older say that there are some.
            return _deny("The user did not answer the questions.")
        case ApprovePlan(mode=mode):
            wanted = WithUpdates(given, more.updates, more.mode or mode)
            return _approve(request, given.plan, wanted)
        case RevisePlan(feedback=feedback):
            return _deny(feedback)


def _check_kind(request: PermissionRequest, answer: Any) -> None:
    if not isinstance(answer, _FITTING.get(type(request), (Allow, Deny))):
        raise TypeError(f"{type(answer).__name__} is no answer to {request.tool_name}")
    if isinstance(answer, RevisePlan) and answer.images:
        raise TypeError("images cannot go with an answer; send them as a prompt")
    if isinstance(answer, ApprovePlan) and answer.compact:
        raise TypeError("no answer compacts the conversation; send /compact as a prompt")


def _allow(
    given: JsonObject, updates: Sequence[PermissionUpdate] = (), mode: PermissionMode | None = None
) -> PermissionAllow:
    every = [*updates]
    if mode is not None:
        every.append(SetMode(mode=mode, destination="session"))
    return PermissionAllow(updated_input=given, updated_permissions=every or msgspec.UNSET)


def _deny(message: str, usual: str = DENIED, *, stop: bool = False) -> PermissionDeny:
    return PermissionDeny(message=message.strip() or usual, interrupt=stop)


def _answered(request: PermissionRequest, answer: Choose) -> JsonObject:
    given = request.input
    # Several labels travel as one string: "Ham, Olives".
    answers = {
        question: chosen if isinstance(chosen, str) else ", ".join(chosen)
        for question, chosen in answer.answers.items()
    }
    if not answer.notes:
        return {**given, "answers": answers}
    if request.features.passes_notes:
        notes = {question: {"notes": note} for question, note in answer.notes.items()}
        return {**given, "answers": answers, "annotations": notes}
    for question, note in answer.notes.items():
        answers[question] = f"{answers.get(question, '')} (notes: {note})".lstrip()
    return {**given, "answers": answers}


def _approve(
    request: PermissionRequest, edited: str | None, more: WithUpdates
) -> PermissionAllow | PermissionDeny:
    if edited is None:
        return _allow(request.input, more.updates, more.mode)
    if request.features.edits_plans:
        return _allow({**request.input, "plan": edited}, more.updates, more.mode)
    return _deny(f"The user edited the plan. Use this plan instead:\n\n{edited}")


def _remembered(request: PermissionRequest, answer: Allow) -> list[PermissionUpdate]:
    if answer.always is False:
        return []
    destination = "session" if answer.always is True else answer.always
    updates = remembered(request, destination, edited=answer.input)
    if not updates and not _is_remembered_here(request):
        raise TypeError(
            f"nothing can be remembered for this call of {request.tool_name}, "
            "so it cannot be allowed for good; allow it once"
        )
    return updates


def _is_remembered_here(request: PermissionRequest) -> bool:
    """Whether `Remembered` does it, whatever the CLI keeps."""
    is_kept = request.features.forgets_rules and request.tool_name == "Bash"
    return is_kept and not request.request.suppress_always_allow_rule


def remembered(
    request: PermissionRequest,
    destination: PermissionDestination = "session",
    *,
    edited: JsonObject | None = None,
) -> list[PermissionUpdate]:
    """What keeps the CLI from asking this again, and no more; empty if nothing does.

    A suggested rule is enough, with the directories that it needs: the mode beside it is an
    alternative, and the widest. Where no rule is suggested, the mode and the directories belong
    together: in acceptEdits a file outside of them is still asked about.
    """
    if request.request.suppress_always_allow_rule:
        return []
    if edited not in (None, request.input):
        # The suggestions are about the input as it was, which has not been allowed.
        return own_rules(request.tool_name, edited or {}, destination)
    suggested = request.suggestions
    rules = [u for u in suggested if isinstance(u, AddRules) and u.behavior == "allow"]
    folders = [u for u in suggested if isinstance(u, AddDirectories)]
    if rules:
        return [msgspec.structs.replace(u, destination=destination) for u in (*rules, *folders)]
    modes = [u for u in suggested if isinstance(u, SetMode)][:1]
    if "command" in request.input or not (modes or folders):
        return own_rules(request.tool_name, request.input, destination)
    if destination not in ("session", "cliArg"):
        # In a settings file the mode would be every session's, and without it they are no use.
        return []
    return [msgspec.structs.replace(u, destination=destination) for u in (*modes, *folders)]


def own_rules(
    tool_name: str, given: JsonObject, destination: PermissionDestination
) -> list[PermissionUpdate]:
    """Without a suggestion of the CLI's: this very command, or a tool of an MCP server.

    A `*` in a rule stands for anything, so a command with one has no rule that means it alone;
    and a rule for a built-in tool without more would allow all it can do.
    """
    command = given.get("command")
    if isinstance(command, str):
        exact = PermissionRule(tool_name=tool_name, rule_content=command)
        return [] if "*" in command else [AddRules(rules=[exact], destination=destination)]
    if tool_name.startswith("mcp__"):
        return [AddRules(rules=[PermissionRule(tool_name=tool_name)], destination=destination)]
    return []


class Remembered:
    """The Bash calls that were allowed for good, for a CLI that forgets it."""

    def __init__(self) -> None:
        self._calls: set[bytes] = set()

    def note(self, request: PermissionRequest, settled: Settled) -> None:
        result = settled.result
        if settled.is_for_good and isinstance(result, PermissionAllow):
            self._calls.add(_call(request.tool_name, result.updated_input or {}))

    def covers(self, request: PermissionRequest) -> bool:
        """Whether it need not be asked: the same call, and no special reason to ask."""
        asked = request.request
        if request.tool_name != "Bash" or asked.decision_reason_type in SPECIAL_REASONS:
            return False
        if asked.matched_ask_rule or asked.default_to_no or asked.suppress_always_allow_rule:
            return False
        return _call(request.tool_name, request.input) in self._calls


def _call(tool_name: str, given: JsonObject) -> bytes:
    # The description is the model's comment, worded anew each time.
    said = {name: value for name, value in given.items() if name != "description"}
    return encode_json([tool_name, sorted(said.items())])
