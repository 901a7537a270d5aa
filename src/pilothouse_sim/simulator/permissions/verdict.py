"""What became of a tool call: it may run, somebody is asked, or it may not run."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

__all__ = ["Behavior", "Json", "Verdict"]

Json = dict[str, Any]
Behavior = Literal["allow", "ask", "deny"]

_ASK_FIELDS = {
    "description": "description",
    "permission_suggestions": "suggestions",
    "blocked_path": "blocked_path",
    "decision_reason": "reason",
    "decision_reason_type": "reason_type",
    "decision_reason_hook_event": "hook_event",
    "decision_reason_hook_source": "hook_source",
    "decision_reason_rule_source": "rule_source",
    "matched_ask_rule": "matched_ask_rule",
    "server_policy_ask_only": "server_policy_ask_only",
    "classifier_approvable": "classifier_approvable",
    "suppress_always_allow_rule": "suppress_always_allow_rule",
    "requires_user_interaction": "requires_user_interaction",
}
_DENIED_FIELDS = {
    "decision_reason_type": "reason_type",
    "decision_reason": "reason",
    "decision_reason_code": "reason_code",
    "message": "message",
}


class Verdict(Struct, frozen=True, kw_only=True):
    """The decision on one call, with everything the wire shows of it.

    `ask_fields`, `denied_fields` and `meta` are the lines' fields; None in an attribute means
    that its field is not written.
    """

    behavior: Behavior
    message: str = ""
    """What the model reads instead of a result when the call does not run."""
    input: Json = {}
    """The call's input as the client is asked about it: paths are absolute there."""
    display_name: str = ""
    description: str | None = None
    suggestions: list[Json] | None = None
    blocked_path: str | None = None
    reason: str | None = None
    reason_type: str | None = None
    reason_code: str | None = None
    rule_source: str | None = None
    hook_event: str | None = None
    hook_source: str | None = None
    matched_ask_rule: Json | None = None
    server_policy_ask_only: bool | None = None
    classifier_approvable: bool | None = None
    suppress_always_allow_rule: bool | None = None
    requires_user_interaction: bool | None = None
    source: str = "config"
    """Who decided, in the result's `permission_decision`."""
    kind: str | None = None
    """The result's `non_execution_kind`."""
    announced: bool = True
    """Whether a `system/permission_denied` line tells of the denial."""
    decided: bool = True
    """Whether the result carries a `permission_decision`."""
    ends_turn: bool = False

    @property
    def tool_use_result(self) -> str:
        """The `tool_use_result` of a call that may not run."""
        bare = self.message.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
        return bare if bare.startswith("Error: ") else f"Error: {bare}"

    def ask_fields(self) -> Json:
        """The fields of `can_use_tool` that stand between `input` and the ids."""
        return _written(self, _ASK_FIELDS)

    def denied_fields(self) -> Json:
        """The fields of `system/permission_denied` that tell why."""
        return _written(self, _DENIED_FIELDS)

    def meta(self) -> Json:
        """The entry of `tool_result_meta`, without the id; empty where none is written."""
        found: Json = {} if self.kind is None else {"non_execution_kind": self.kind}
        if self.decided:
            decision: Json = {
                "decision": "accept" if self.behavior == "allow" else "reject",
                "source": self.source,
            }
            # A denial for want of anybody to ask does not say what the question was about.
            if self.reason_type is not None and self.kind != "user-rejected":
                decision["reason_type"] = self.reason_type
            found["permission_decision"] = decision
        return found


def _written(verdict: Verdict, fields: dict[str, str]) -> Json:
    values = ((name, getattr(verdict, attribute)) for name, attribute in fields.items())
    return {name: value for name, value in values if value is not None}
