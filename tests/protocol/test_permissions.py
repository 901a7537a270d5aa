"""Permission updates and results, both ways."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import pytest

from pilothouse.protocol import permissions
from pilothouse.protocol.permissions import (
    AddRules,
    PermissionAllow,
    PermissionDeny,
    PermissionMode,
    PermissionRule,
    SetMode,
    UnknownUpdate,
    decode_permission_result,
    decode_updates,
)
from pilothouse.protocol.wire import encode_json
from tests.support.protocol.declarations import FIELDS, undeclared


def raw(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize("kind", FIELDS["permission_updates"])
def test_every_documented_update_has_its_class(kind: str) -> None:
    (update,) = decode_updates(raw([{"type": kind}]))
    assert isinstance(update, msgspec.Struct)
    assert undeclared(type(update), FIELDS["permission_updates"][kind]) == []
    assert update.type == kind


@pytest.mark.parametrize("name", ["PermissionAllow", "PermissionDeny", "PermissionRule"])
def test_every_documented_member_is_declared(name: str) -> None:
    assert undeclared(getattr(permissions, name), FIELDS["shapes"][name]) == []


def test_there_are_six_modes() -> None:
    assert len(get_args(PermissionMode)) == 6


def test_a_suggestion_can_be_sent_back_as_it_came() -> None:
    suggestions = [
        {
            "type": "addRules",
            "rules": [{"toolName": "Bash", "ruleContent": "npm test:*"}, {"toolName": "Read"}],
            "behavior": "allow",
            "destination": "localSettings",
        },
        {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
        {"type": "addDirectories", "directories": ["/a"], "destination": "session"},
        {"type": "grantWish", "wish": ["x"]},
    ]
    updates = decode_updates(raw(suggestions))
    assert json.loads(encode_json(PermissionAllow(updated_permissions=updates))) == {
        "behavior": "allow",
        "updatedPermissions": suggestions,
    }


def test_an_unknown_update_keeps_its_members() -> None:
    (update,) = decode_updates(raw([{"type": "grantWish", "wish": 1}]))
    assert isinstance(update, UnknownUpdate)
    assert (update.type, update.data) == ("grantWish", {"type": "grantWish", "wish": 1})


def test_an_update_of_an_unknown_destination_keeps_its_class() -> None:
    (update,) = decode_updates(raw([{"type": "setMode", "mode": "odd", "destination": "moon"}]))
    assert isinstance(update, SetMode)
    assert (str(update.mode), str(update.destination)) == ("odd", "moon")


@pytest.mark.parametrize("value", [None, {}, "x", [1, None]])
def test_what_is_no_list_of_updates_gives_none(value: Any) -> None:
    assert decode_updates(raw(value)) == []


def test_rules_are_written_in_the_wires_own_case() -> None:
    update = AddRules(rules=[PermissionRule(tool_name="Bash", rule_content="ls")])
    assert json.loads(encode_json(update)) == {
        "type": "addRules",
        "rules": [{"toolName": "Bash", "ruleContent": "ls"}],
        "behavior": "allow",
        "destination": "session",
    }


def test_a_denial_writes_only_what_was_set() -> None:
    assert json.loads(encode_json(PermissionDeny(message="no"))) == {
        "behavior": "deny",
        "message": "no",
    }
    assert json.loads(encode_json(PermissionDeny(message="no", tool_use_id="t"))) == {
        "behavior": "deny",
        "message": "no",
        "toolUseID": "t",
    }


def test_results_are_read_back() -> None:
    allow = decode_permission_result(
        raw({"behavior": "allow", "updatedInput": {"a": 1}, "updatedPermissions": [{"type": "x"}]})
    )
    assert isinstance(allow, PermissionAllow)
    assert (allow.updated_input, allow.updated_permissions) == ({"a": 1}, [{"type": "x"}])
    deny = decode_permission_result(raw({"behavior": "deny", "message": "no", "interrupt": True}))
    assert deny == PermissionDeny(message="no", interrupt=True)


@pytest.mark.parametrize("value", [None, {}, {"behavior": "maybe"}, {"behavior": 1}, []])
def test_what_is_no_result_is_told_apart(value: Any) -> None:
    assert decode_permission_result(raw(value)) is None
