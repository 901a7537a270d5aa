"""The permissions of a session: rules, updates, settings files, and what a verdict shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse_sim.simulator.permissions import (
    CliRule,
    PermissionState,
    judge,
    load_settings,
    parse_rule,
    persist,
)

if TYPE_CHECKING:
    from pathlib import Path


def _state(**fields: Any) -> PermissionState:
    return PermissionState(cwd="/w/project", home="/w", config_dir="/w/.claude", **fields)


def _rules(kind: str, content: str | None, **fields: Any) -> dict[str, Any]:
    rule = {"toolName": "Bash"} | ({} if content is None else {"ruleContent": content})
    update = {"type": kind, "rules": [rule], "behavior": "allow", "destination": "session"}
    return update | fields


def _decide(state: PermissionState, command: str) -> str:
    return judge("Bash", {"command": command}, state).behavior


@pytest.mark.parametrize(
    ("text", "tool", "content"),
    [
        ("Bash", "Bash", None),
        ("Bash(*)", "Bash", None),
        ("Bash(npm test:*)", "Bash", "npm test:*"),
        ("Bash(echo (a))", "Bash", "echo (a)"),
        ("Task(Explore)", "Agent", "Explore"),
        ("mcp__srv", "mcp__srv", None),
    ],
)
def test_a_rule_is_read_as_tool_and_content(text: str, tool: str, content: str | None) -> None:
    assert parse_rule(text, "session") == CliRule(tool, content, "session")


def test_what_is_no_rule_is_left_out() -> None:
    state = _state()
    state.add("allow", "cliArg", ["", "(x)", "Bash(ls)"])
    assert [rule.text for rule in state.rules["allow"]] == ["Bash(ls)"]


def test_added_rules_allow_and_removed_rules_ask_again() -> None:
    state = _state()
    assert _decide(state, "foo a") == "ask"
    assert state.apply(_rules("addRules", "foo:*"))
    assert _decide(state, "foo a") == "allow"
    assert state.apply(_rules("removeRules", "foo:*"))
    assert _decide(state, "foo a") == "ask"


def test_replaced_rules_leave_other_destinations_alone() -> None:
    state = _state()
    state.apply(_rules("addRules", "foo"))
    state.apply(_rules("addRules", "bar", destination="cliArg"))
    state.apply(_rules("replaceRules", "baz"))
    assert [_decide(state, name) for name in ("foo", "bar", "baz")] == ["ask", "allow", "allow"]


def test_a_denial_beats_a_question_and_a_question_beats_a_grant() -> None:
    state = _state()
    for behavior, content in (("allow", "foo:*"), ("ask", "foo b:*"), ("deny", "foo b c")):
        state.apply(_rules("addRules", content, behavior=behavior))
    commands = ("foo a", "foo b", "foo b c")
    assert [_decide(state, command) for command in commands] == ["allow", "ask", "deny"]


@pytest.mark.parametrize(
    "update",
    [
        {},
        {"type": "addRules"},
        _rules("addRules", "x", destination="nowhere"),
        _rules("addRules", "x", behavior="maybe"),
        _rules("addRules", "x", rules="x"),
        _rules("addRules", "x", rules=[{"ruleContent": "x"}]),
        {"type": "addDirectories", "directories": [5], "destination": "session"},
        {"type": "setMode", "mode": "bogus", "destination": "session"},
        {"type": "setMode", "mode": "bypassPermissions", "destination": "session"},
        {"type": "unheardOf", "destination": "session"},
    ],
)
def test_an_invalid_update_changes_nothing(update: dict[str, Any]) -> None:
    state = _state()
    assert not state.apply(update)
    assert state == _state()


def test_bypass_is_granted_where_the_launch_allowed_it() -> None:
    state = _state(bypass_allowed=True)
    assert state.apply({"type": "setMode", "mode": "bypassPermissions", "destination": "session"})
    assert _decide(state, "foo a") == "allow"


def test_plan_mode_remembers_the_mode_it_came_from() -> None:
    state = _state(mode="acceptEdits")
    state.set_mode("plan")
    state.set_mode("plan")
    assert state.before_plan == "acceptEdits"


def test_added_directories_are_worked_in_until_they_are_removed() -> None:
    state = _state(mode="acceptEdits")
    update = {"directories": ["/other"], "destination": "session"}
    write = {"file_path": "/other/x", "content": "x"}
    state.apply({"type": "addDirectories", **update})
    assert judge("Write", write, state).behavior == "allow"
    state.apply({"type": "removeDirectories", **update})
    assert judge("Write", write, state).behavior == "ask"


def test_a_folder_that_is_not_trusted_may_forbid_but_not_allow() -> None:
    state = _state()
    for behavior in ("allow", "deny"):
        update = _rules("addRules", behavior, behavior=behavior, destination="projectSettings")
        assert state.apply(update)
    assert [_decide(state, name) for name in ("allow", "deny")] == ["ask", "deny"]


def test_the_plan_file_may_be_written_in_plan_mode() -> None:
    state = _state(mode="plan", plan_file="/w/.claude/plans/p.md")
    verdict = judge("Write", {"file_path": "/w/.claude/plans/p.md", "content": "p"}, state)
    decision = {"decision": "accept", "source": "config", "reason_type": "other"}
    assert verdict.meta() == {"permission_decision": decision}


def test_the_tenth_call_without_a_safety_check_ends_the_turn() -> None:
    state = _state(mode="plan", unchecked=8)
    assert not judge("Bash", {"command": "foo"}, state).ends_turn
    state.unchecked = 9
    verdict = judge("Bash", {"command": "foo"}, state)
    assert verdict.ends_turn
    assert verdict.reason_code == "auto_mode_stop_no_check_in_session"


def test_relative_paths_begin_where_the_shell_stands() -> None:
    state = _state(folder="/w/project/src")
    verdict = judge("Bash", {"command": "touch a"}, state)
    assert verdict.blocked_path == "/w/project/src/a"


def _settings(file: Path, content: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))


def _home(root: Path) -> PermissionState:
    cwd, config_dir = root / "project", root / ".claude"
    return PermissionState(cwd=str(cwd), home=str(root), config_dir=str(config_dir))


def test_settings_are_read_from_the_sources_that_are_asked_for(tmp_path: Path) -> None:
    _settings(tmp_path / ".claude/settings.json", {"permissions": {"allow": ["Bash(user)", 5]}})
    local = {"permissions": {"allow": ["Bash(local)"], "defaultMode": "acceptEdits"}}
    _settings(tmp_path / "project/.claude/settings.local.json", local)
    both, user = _home(tmp_path), _home(tmp_path)
    load_settings(both)
    load_settings(user, sources=["user"])
    assert [_decide(both, name) for name in ("user", "local")] == ["allow", "allow"]
    assert [_decide(user, name) for name in ("user", "local")] == ["allow", "ask"]
    assert (both.mode, user.mode) == ("acceptEdits", "default")


def test_a_trusted_folder_may_allow(tmp_path: Path) -> None:
    _settings(tmp_path / "project/.claude/settings.json", {"permissions": {"allow": ["Bash(a)"]}})
    state = _home(tmp_path)
    load_settings(state)
    assert _decide(state, "a") == "ask"
    trust = {"projects": {state.cwd: {"hasTrustDialogAccepted": True}}}
    _settings(tmp_path / ".claude/.claude.json", trust)
    load_settings(state)
    assert _decide(state, "a") == "allow"


def test_unreadable_settings_count_as_none(tmp_path: Path) -> None:
    file = tmp_path / ".claude/settings.json"
    file.parent.mkdir()
    file.write_text("{")
    state = _home(tmp_path)
    load_settings(state)
    assert state.rules == {"deny": [], "ask": [], "allow": []}


def test_updates_for_files_are_written_and_keep_what_stands_there(tmp_path: Path) -> None:
    file = tmp_path / "project/.claude/settings.local.json"
    _settings(file, {"env": {"A": "1"}, "permissions": {"allow": ["Bash(one)", "Bash(two)"]}})
    updates = [
        _rules("addRules", "two", destination="localSettings"),
        _rules("addRules", "three", destination="localSettings"),
        _rules("removeRules", "one", destination="localSettings"),
        {"type": "addDirectories", "directories": ["/a", "/b"], "destination": "localSettings"},
        {"type": "removeDirectories", "directories": ["/a"], "destination": "localSettings"},
        {"type": "setMode", "mode": "acceptEdits", "destination": "localSettings"},
    ]
    for update in updates:
        assert persist(update, tmp_path / "project", tmp_path / ".claude")
    assert file.read_text().startswith('{\n  "env": {\n')
    assert json.loads(file.read_text()) == {
        "env": {"A": "1"},
        "permissions": {
            "allow": ["Bash(two)", "Bash(three)"],
            "additionalDirectories": ["/b"],
            "defaultMode": "acceptEdits",
        },
    }


def test_updates_for_memory_write_no_file(tmp_path: Path) -> None:
    assert not persist(_rules("addRules", "x"), tmp_path, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_whole_tool_that_is_denied_is_not_there() -> None:
    state = _state()
    state.add("deny", "cliArg", ["Bash", "mcp__srv"])
    for name in ("Bash", "mcp__srv__look"):
        verdict = judge(name, {}, state)
        assert not verdict.announced
        assert verdict.meta() == {}
        assert f"No such tool available: {name}" in verdict.message
