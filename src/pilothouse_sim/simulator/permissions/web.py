"""Judges the tools that go to the web."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .draft import VerdictDraft, add_rules, allow, ask_by_rule, requested
from .rules import matches_domain
from .tables import names

if TYPE_CHECKING:
    from .rules import CliRule
    from .state import PermissionState
    from .verdict import Json

__all__ = ["judge_fetching", "judge_searching"]

_HOST = re.compile(r"\w+://(?:[^/@]*@)?(\[[^\]]*\]|[^/:?#]*)")
_DOCUMENTATION = names(
    """
    angular.io cloud.google.com code.claude.com developer.mozilla.org doc.rust-lang.org
    docs.aws.amazon.com docs.djangoproject.com docs.python.org fastapi.tiangolo.com
    flask.palletsprojects.com git-scm.com kubernetes.io learn.microsoft.com modelcontextprotocol.io
    nextjs.org nodejs.org numpy.org pandas.pydata.org platform.claude.com pytorch.org react.dev
    vuejs.org www.postgresql.org www.typescriptlang.org
    """
)
"""Hosts that may be read unasked; the CLI knows more of them."""


def judge_fetching(url: str, state: PermissionState) -> VerdictDraft:
    """What WebFetch thinks of an address."""
    found = _HOST.match(url)
    host = found[1].lower() if found else ""
    suggestions = [add_rules([("WebFetch", f"domain:{host}")])]
    for behavior in ("deny", "ask", "allow"):
        for rule in state.rules[behavior]:
            if rule.tool == "WebFetch" and rule.content and matches_domain(rule.content, host):
                return _ruled(behavior, rule, host, suggestions)
    if host in _DOCUMENTATION:
        return allow("other")
    return VerdictDraft(behavior="ask", message=requested("use WebFetch"), suggestions=suggestions)


def _ruled(behavior: str, rule: CliRule, host: str, suggestions: list[Json]) -> VerdictDraft:
    if behavior == "allow":
        return allow("rule", rule)
    if behavior == "ask":
        return replace(ask_by_rule(rule, requested("use WebFetch")), suggestions=suggestions)
    message = f"WebFetch denied access to domain:{host}."
    return VerdictDraft(behavior="deny", message=message, reason_type="rule", rule=rule)


def judge_searching() -> VerdictDraft:
    """What WebSearch thinks of any query."""
    return VerdictDraft(
        behavior="pass",
        message=requested("use WebSearch"),
        suggestions=[add_rules([("WebSearch", None)])],
    )
