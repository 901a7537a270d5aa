"""System messages: one class per subtype, an open set."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pilothouse.protocol.messages import decode
from pilothouse.protocol.system import (
    ApiRetryMessage,
    CompactBoundaryMessage,
    InitMessage,
    MirrorErrorMessage,
    SessionMetadataMessage,
    SessionStateChangedMessage,
    StatusMessage,
    SystemMessage,
    UnknownSystemMessage,
    class_of,
)
from pilothouse.protocol.tasks import TaskNotificationMessage, TaskUpdatedMessage
from tests.support.protocol.declarations import FIELDS

SUBTYPES = [m["subtype"] for m in FIELDS["messages"] if m["type"] == "system"]


def system(subtype: Any, **members: Any) -> SystemMessage:
    message = decode(json.dumps({"type": "system", "subtype": subtype, **members}).encode())
    assert isinstance(message, SystemMessage)
    return message


@pytest.mark.parametrize("subtype", SUBTYPES)
def test_a_subtype_has_its_own_class_and_keeps_its_name(subtype: str) -> None:
    message = system(subtype)
    assert type(message) is class_of(subtype)
    assert (message.type, message.subtype) == ("system", subtype)
    assert class_of(subtype)().subtype == subtype


def test_no_two_subtypes_share_a_class() -> None:
    assert len({class_of(subtype) for subtype in SUBTYPES}) == len(SUBTYPES) == 33


def test_an_unknown_subtype_is_kept_with_everything_it_said() -> None:
    message = system("eclipse", moon="full", uuid="u")
    assert isinstance(message, UnknownSystemMessage)
    assert (message.subtype, message.uuid) == ("eclipse", "u")
    assert message.data == {"type": "system", "subtype": "eclipse", "moon": "full", "uuid": "u"}
    assert message.extra == {"moon": "full"}


def test_a_subtype_that_is_no_string_is_still_a_system_message() -> None:
    assert isinstance(system(7), UnknownSystemMessage)


def test_init_tells_what_the_session_is() -> None:
    message = system(
        "init",
        permissionMode="plan",
        apiKeySource="none",
        mcp_servers=[{"name": "calc", "status": "connected"}, "odd"],
    )
    assert isinstance(message, InitMessage)
    assert (message.permission_mode, message.api_key_source) == ("plan", "none")
    assert [server.name for server in message.mcp_servers] == ["calc"]


def test_a_status_may_be_nothing_but_a_mode() -> None:
    message = system("status", status=None, permissionMode="acceptEdits")
    assert isinstance(message, StatusMessage)
    assert (message.status, message.permission_mode) == (None, "acceptEdits")


def test_a_retry_without_an_answer_has_no_status() -> None:
    message = system("api_retry", attempt=1, error_status=None, retry_delay_ms=550.5)
    assert isinstance(message, ApiRetryMessage)
    assert (message.attempt, message.error_status, message.retry_delay_ms) == (1, None, 550.5)


def test_a_compaction_tells_what_it_kept() -> None:
    message = system(
        "compact_boundary",
        compact_metadata={"trigger": "auto", "preserved_messages": {"uuids": ["a"]}},
    )
    assert isinstance(message, CompactBoundaryMessage)
    assert message.compact_metadata.trigger == "auto"
    assert message.compact_metadata.preserved_messages is not None
    assert message.compact_metadata.preserved_messages.uuids == ["a"]


def test_a_task_patch_holds_only_what_changed() -> None:
    message = system("task_updated", task_id="t", patch={"status": "killed"})
    assert isinstance(message, TaskUpdatedMessage)
    assert (message.patch.status, message.patch.error) == ("killed", None)


def test_a_task_notification_may_link_resources() -> None:
    message = system("task_notification", resource_links=[{"uri": "u", "mimeType": "text/plain"}])
    assert isinstance(message, TaskNotificationMessage)
    assert message.resource_links[0].mime_type == "text/plain"


def test_the_key_of_a_mirror_error_is_read_from_camel_case() -> None:
    message = system("mirror_error", key={"projectKey": "p", "sessionId": "s"})
    assert isinstance(message, MirrorErrorMessage)
    assert (message.key.project_key, message.key.session_id) == ("p", "s")


def test_undocumented_members_are_found_in_extra() -> None:
    message = system("session_metadata", tags=["a"])
    assert isinstance(message, SessionMetadataMessage)
    assert message.extra == {"tags": ["a"]}


def test_a_state_unheard_of_is_given_as_it_is() -> None:
    message = system("session_state_changed", state="dreaming")
    assert isinstance(message, SessionStateChangedMessage)
    assert message.state == "dreaming"
