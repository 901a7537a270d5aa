"""The variables of one client: those that act for it, and those that it is told of."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from mcp import Client

from pilothouse.api.requests import SessionOptions, Start
from pilothouse.faces.mcp.client_settings import ClientSettings, Variable
from pilothouse.faces.mcp.engine_handle import EngineHandle
from pilothouse.faces.mcp.server import create_server
from pilothouse.faces.mcp.tool_handlers import ToolHandlers
from tests.support.http.fake_engine import FakeEngine
from tests.support.mcp.harness import text_of

OWN = ClientSettings(
    model="haiku",
    mode="plan",
    allowed_tools=("Read",),
    disallowed_tools=("WebFetch",),
    permission_timeout_ms=1500,
)
UNHEEDED = "the running server does not heed"


class Asked(FakeEngine):
    """An engine that keeps what it was asked to start."""

    def __init__(self, **configured: Any) -> None:
        super().__init__()
        self.started: list[Start] = []
        self.configured = {name: {"value": value} for name, value in configured.items()}

    async def start(self, request: Start) -> Any:
        self.started.append(request)
        return await super().start(request)

    async def settings(self) -> Any:
        return self.configured


def server_of(engine: Asked, client: ClientSettings) -> Any:
    async def connect() -> Any:
        return engine

    handle = EngineHandle(connect)
    handlers = ToolHandlers(handle, answers="anyone", client=client)
    return create_server(handlers, handle, default_cwd="/srv/boat")


async def test_sessions_of_a_client_begin_as_its_configuration_says() -> None:
    engine = Asked()
    async with Client(server_of(engine, OWN)) as client:
        await client.call_tool("claude_start", {"prompt": "go"})
    assert engine.started[0].options == SessionOptions(
        model="haiku",
        mode="plan",
        allowed_tools=["Read"],
        disallowed_tools=["WebFetch"],
        permission_timeout_ms=1500,
    )


async def test_what_a_caller_gives_counts_before_the_configuration() -> None:
    engine = Asked()
    given = {"model": "opus", "permissionMode": "default", "allowedTools": []}
    async with Client(server_of(engine, OWN)) as client:
        await client.call_tool("claude_start", {"prompt": "go", **given})
    options = engine.started[0].options
    assert (options.model, options.mode, options.allowed_tools) == ("opus", "default", [])
    assert options.disallowed_tools == ["WebFetch"]


@pytest.mark.parametrize(
    ("client", "setting"),
    [
        (ClientSettings(mode="acceptEdits"), "mcp_mode"),
        (ClientSettings(allowed_tools=("Bash",)), "mcp_allowed_tools"),
    ],
    ids=["mode", "tools"],
)
async def test_no_configuration_approves_where_only_a_person_may(
    client: ClientSettings, setting: str
) -> None:
    engine = Asked(mcp_answers="person")
    async with Client(server_of(engine, client)) as caller:
        refused = await caller.call_tool("claude_start", {"prompt": "go"})
    assert refused.is_error
    assert f"take {setting} out of this client's configuration" in text_of(refused)
    assert engine.started == []


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_variables_that_the_server_does_not_heed_are_named_in_the_first_result_and_the_log(
    caplog: pytest.LogCaptureFixture, era: str
) -> None:
    given = {
        "max_sessions": Variable("MAX_SESSIONS", 1),
        "allowed_roots": Variable("PILOTHOUSE_ALLOWED_ROOTS", ["/w"]),
        "event_buffer_size": Variable("EVENT_BUFFER_SIZE", 500),
    }
    engine = Asked(max_sessions=10, allowed_roots=[], event_buffer_size=500)
    caplog.set_level(logging.WARNING, "pilothouse.mcp")
    server = server_of(engine, ClientSettings(of_the_server=given))
    async with Client(server, mode=era) as client:
        first = await client.call_tool("claude_list", {})
        second = await client.call_tool("claude_list", {})
    named = (
        "MAX_SESSIONS=1 (the server has max_sessions 10); "
        'PILOTHOUSE_ALLOWED_ROOTS=["/w"] (the server has allowed_roots [])'
    )
    assert named in first.structured_content["note"]
    assert f"Note: This client's configuration sets what {UNHEEDED}: {named}" in text_of(first)
    assert "EVENT_BUFFER_SIZE" not in text_of(first)
    assert "note" not in second.structured_content
    [logged] = caplog.messages
    assert named in logged


async def test_an_error_that_comes_first_names_them_too() -> None:
    engine = Asked(max_sessions=10)
    given = {"max_sessions": Variable("MAX_SESSIONS", 1)}
    async with Client(server_of(engine, ClientSettings(of_the_server=given))) as client:
        refused = await client.call_tool("claude_status", {"sessionId": "nobody"})
    assert refused.is_error
    assert "MAX_SESSIONS=1" in text_of(refused)


async def test_what_the_server_has_as_well_is_not_worth_a_word() -> None:
    engine = Asked(max_sessions=1)
    given = {"max_sessions": Variable("MAX_SESSIONS", 1), "of_tomorrow": Variable("X", 1)}
    async with Client(server_of(engine, ClientSettings(of_the_server=given))) as client:
        told = await client.call_tool("claude_list", {})
    assert "note" not in told.structured_content
