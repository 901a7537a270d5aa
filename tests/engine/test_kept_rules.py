"""What answers allow and forbid for the rest of a session."""

from __future__ import annotations

from pilothouse.engine.kept_rules import kept_after
from pilothouse.engine.view import View
from pilothouse.protocol import (
    AddDirectories,
    AddRules,
    PermissionBehavior,
    PermissionRule,
    PermissionUpdate,
    RemoveDirectories,
    RemoveRules,
    ReplaceRules,
    SetMode,
)


def rules(*contents: str) -> list[PermissionRule]:
    return [PermissionRule(tool_name="Bash", rule_content=each) for each in contents]


def after(*updates: PermissionUpdate) -> View:
    """A session that was answered with these, one after the other."""
    view = View(session_id="s")
    for at, update in enumerate(updates, 1):
        kept = kept_after(view, [update])
        if kept is not None:
            view.apply_record(at, at, kept)
    return view


def test_rules_are_added_each_once() -> None:
    view = after(AddRules(rules=rules("ls", "git:*", "ls")), AddRules(rules=rules("ls")))
    assert view.rules == ["Bash(ls)", "Bash(git:*)"]
    assert after(AddRules(rules=[PermissionRule(tool_name="Read")])).rules == ["Read"]


def test_rules_are_removed_and_replaced() -> None:
    added = AddRules(rules=rules("ls", "git:*"))
    assert after(added, RemoveRules(rules=rules("ls"))).rules == ["Bash(git:*)"]
    assert after(added, ReplaceRules(rules=rules("make"))).rules == ["Bash(make)"]
    assert after(added, ReplaceRules(rules=[])).rules == []


def test_what_is_forbidden_is_kept_apart_from_what_is_allowed() -> None:
    def added(behavior: PermissionBehavior, content: str) -> AddRules:
        return AddRules(rules=rules(content), behavior=behavior)

    view = after(added("deny", "rm:*"), added("ask", "git push"), added("allow", "rm:*"))
    assert (view.deny_rules, view.ask_rules) == (["Bash(rm:*)"], ["Bash(git push)"])
    gone = RemoveRules(rules=rules("rm:*"), behavior="deny")
    view = after(added("deny", "rm:*"), added("allow", "rm:*"), gone)
    assert (view.rules, view.deny_rules) == (["Bash(rm:*)"], [])


def test_directories_are_opened_and_closed() -> None:
    opened = AddDirectories(directories=["/a", "/b"])
    assert after(opened).directories == ["/a", "/b"]
    assert after(opened, RemoveDirectories(directories=["/a", "/c"])).directories == ["/b"]


def test_what_is_not_for_the_session_is_not_kept() -> None:
    view = View(session_id="s")
    written = AddRules(rules=rules("ls"), destination="localSettings")
    assert kept_after(view, [written, SetMode(mode="plan")]) is None
