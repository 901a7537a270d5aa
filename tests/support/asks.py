"""What the tests of questions share: requests as a CLI makes them, and one of each answer."""

from __future__ import annotations

from typing import Any

from pilothouse.api.answers import (
    Allow,
    Answer,
    ApprovePlan,
    Choose,
    ClearContext,
    Decline,
    Deny,
    Dismiss,
    Fill,
    RejectPlan,
    RevisePlan,
    Skip,
)
from pilothouse.api.questions import Question
from pilothouse.client.elicitation import ElicitationRequest
from pilothouse.client.permissions import PermissionRequest, as_request
from pilothouse.client.versions import Features
from pilothouse.engine.questions import pose
from pilothouse.protocol.control import CanUseTool, Elicitation
from pilothouse.protocol.wire import encode_json, load

SESSION = "7b0d4a44-5b0c-4b7e-9a8e-0a4f3f6f7c11"
CWD = "/srv/boat"
PLAN = "# Leap\n\n1. Look\n2. Leap\n"
RULE = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "make test:*"}],
    "behavior": "allow",
    "destination": "localSettings",
}
MODE = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "Red", "description": "Loud"}, {"label": "Blue", "description": ""}],
    "multiSelect": False,
}
SAILS = {
    "question": "Which sails?",
    "header": "Sails",
    "options": [{"label": "Main"}, {"label": "Jib"}],
    "multiSelect": True,
}
SCHEMA = {
    "type": "object",
    "properties": {
        "day": {"type": "string", "enum": ["Monday", "Friday"], "description": "When"},
        "crew": {"type": "integer", "minimum": 1, "maximum": 6},
        "draft": {"type": "number"},
        "night": {"type": "boolean"},
        "name": {"type": "string", "minLength": 2, "maxLength": 5},
        "ports": {"type": "array", "items": {"enum": ["Oslo", "Bergen"]}, "maxItems": 1},
        "tide": {"oneOf": [{"const": "low", "title": "Low"}, {"const": "high"}]},
    },
    "required": ["day"],
}


def tool_request(tool_name: str, given: dict[str, Any], **fields: Any) -> PermissionRequest:
    wire = {
        "subtype": "can_use_tool",
        "tool_name": tool_name,
        "input": given,
        "tool_use_id": "toolu_1",
        **fields,
    }
    features = Features(version=(2, 1, 325))
    return as_request("request-1", load(CanUseTool, encode_json(wire)), features)


def bash(**fields: Any) -> PermissionRequest:
    return tool_request("Bash", {"command": "make test"}, **fields)


def plan_request(**given: Any) -> PermissionRequest:
    return tool_request("ExitPlanMode", given)


def asked(*questions: dict[str, Any]) -> PermissionRequest:
    return tool_request("AskUserQuestion", {"questions": list(questions)})


def elicitation(**fields: Any) -> ElicitationRequest:
    wire = {"subtype": "elicitation", "mcp_server_name": "harbour", "message": "When?", **fields}
    return ElicitationRequest("request-1", load(Elicitation, encode_json(wire)))


def posed(
    request: PermissionRequest | ElicitationRequest,
    *,
    bypass_allowed: bool = False,
    expires_at: int | None = None,
) -> Question:
    return pose(
        request,
        session_id=SESSION,
        cwd=CWD,
        label="nightly",
        mode="default",
        now=1_000,
        expires_at=expires_at,
        bypass_allowed=bypass_allowed,
    )


def form() -> Question:
    return posed(elicitation(mode="form", requested_schema=SCHEMA))


def page(url: str = "https://example.com/login") -> Question:
    return posed(elicitation(mode="url", url=url))


EVERY: dict[str, PermissionRequest | ElicitationRequest] = {
    "tool": bash(permission_suggestions=[RULE]),
    "plan": plan_request(plan=PLAN),
    "no plan": plan_request(),
    "questions": asked(COLOUR, SAILS),
    "form": elicitation(mode="form", requested_schema=SCHEMA),
    "page": elicitation(mode="url", url="https://example.com/login"),
}
FILLED: dict[str, Any] = {
    "input": {"command": "make lint"},
    "reason": "Not now.",
    "plan": "1. Look twice",
    "feedback": "Look first.",
    "answers": {"Which colour?": "Red", "Which sails?": ["Main", "Jib"]},
    "content": {"day": "Monday"},
}
ONE_OF_EACH: list[Answer] = [
    Allow(),
    Deny(),
    Choose(answers={"Which colour?": "Red"}),
    Skip(),
    ApprovePlan(),
    RevisePlan(feedback="Look first."),
    RejectPlan(),
    ClearContext(),
    Fill(content={"day": "Monday"}),
    Decline(),
    Dismiss(),
]
