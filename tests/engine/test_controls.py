"""What a live CLI is asked: files put back, MCP servers, context, commands, models, the rest."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.errors import BypassNotAllowed, ControlError, ControlRefused
from pilothouse_sim.scenario import reply, tool
from tests.support.engine.harness import EngineHarness, OpenEngine
from tests.support.engine.mcp_servers import PARROT, server
from tests.support.versions import NEWEST

NOBODY = "00000000-0000-4000-8000-000000000000"
MAKE = reply(tool("Write", file_path="{{cwd}}/FIRST", content="one\n"))
CHANGE = reply(tool("Edit", file_path="{{cwd}}/FIRST", old_string="one", new_string="two"))


# Files


@pytest.mark.simulated
async def test_files_go_back_to_where_they_were_first_on_trial_then_for_real(
    house: OpenEngine,
) -> None:
    it = await house(MAKE, "Made.", CHANGE, "Changed.")
    path = it.cwd / "FIRST"
    session_id = await it.done("make it", mode="acceptEdits")
    prompt_id = await it.say(session_id, "change it")
    await it.when(session_id, lambda status: status.turns == 2)
    preview = await it.engine.rewind(session_id, prompt_id, preview=True)
    assert (preview.possible, preview.done, preview.files) == (True, False, [str(path)])
    assert (preview.insertions, preview.deletions) == (1, 1)
    assert path.read_text() == "two\n"
    rewound = await it.engine.rewind(session_id, prompt_id)
    assert (rewound.possible, rewound.done) == (True, True)
    assert path.read_text() == "one\n"


async def test_files_go_back_after_the_cli_was_gone(house: OpenEngine) -> None:
    it = await house(MAKE, "Made.", CHANGE, "Changed.")
    session_id = await it.done("make it", mode="acceptEdits")
    prompt_id = await it.say(session_id, "change it")
    await it.when(session_id, lambda status: status.turns == 2)
    await it.engine.stop(session_id)
    assert (await it.engine.rewind(session_id, prompt_id)).done
    assert (it.cwd / "FIRST").read_text() == "one\n"


@pytest.mark.simulated
async def test_files_do_not_go_back_to_a_message_nobody_sent(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done()
    for preview in (True, False):
        rewound = await it.engine.rewind(session_id, NOBODY, preview=preview)
        assert (rewound.possible, rewound.done) == (False, False)
        assert rewound.reason == "No file checkpoint found for this message."


# MCP servers


@pytest.mark.simulated
async def test_a_server_is_turned_off_and_on_and_connected_again(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done(mcp_servers={"parrot": server(PARROT)})
    await it.connected(session_id, "parrot")
    [parrot] = await it.engine.mcp_status(session_id)
    assert [each["name"] for each in parrot["tools"]] == ["shout"]
    [parrot] = await it.engine.mcp_toggle(session_id, "parrot", enabled=False)
    assert parrot["status"] == "disabled"
    [parrot] = await it.engine.mcp_toggle(session_id, "parrot", enabled=True)
    assert parrot["status"] == "connected"
    [parrot] = await it.engine.mcp_reconnect(session_id, "parrot")
    assert parrot["status"] == "connected"


@pytest.mark.simulated
async def test_a_server_nobody_configured_is_not_found(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done()
    with pytest.raises(ControlError, match="Server not found: nobody"):
        await it.engine.mcp_reconnect(session_id, "nobody")


async def test_servers_are_set_now_and_for_every_later_start(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done()
    broken = {"type": "stdio", "command": "/no/such/program", "args": []}
    told = await it.engine.mcp_set(session_id, {"late": server(PARROT), "broken": broken})
    assert sorted(told["added"]) == ["broken", "late"]
    assert list(told["errors"]) == ["broken"]
    await it.engine.stop(session_id)
    await it.connected(session_id, "late")


async def test_a_message_in_the_name_of_a_server_reaches_the_cli(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done(mcp_servers={"parrot": server(PARROT)})
    await it.connected(session_id, "parrot")
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    assert await it.engine.mcp_message(session_id, "parrot", message=changed) == {}


# What a CLI knows


async def test_the_context_the_commands_and_the_models_are_told(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done()
    context = await it.engine.context_usage(session_id)
    assert context["maxTokens"] > context["totalTokens"] > 0
    assert "compact" in [each["name"] for each in await it.engine.commands(session_id)]
    assert {"default", "haiku"} <= {each["value"] for each in await it.engine.models(session_id)}


async def test_the_greeting_of_a_cli_is_told(house: OpenEngine) -> None:
    it = await house("One.")
    told = await it.engine.greeting(await it.done())
    assert told["output_style"] in told["available_output_styles"]
    assert isinstance(told["account"], dict)
    assert "models" not in told


async def test_a_session_at_rest_gets_a_cli_to_be_asked(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done()
    await it.engine.stop(session_id)
    assert await it.engine.commands(session_id)
    status = await it.engine.status(session_id)
    assert (status.live, status.state, status.turns) == (True, "done", 1)


@pytest.mark.versions(NEWEST, why="2.1.119 has no rename_session")
async def test_a_control_request_on_the_list_reaches_the_cli(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done()
    told = await it.engine.control(session_id, "get_binary_version", {})
    assert told["version"] == it.version
    await it.engine.control(session_id, "rename_session", {"title": "To the sea"})


@pytest.mark.simulated
async def test_a_control_request_that_is_not_on_the_list_is_refused(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done()
    refused: list[tuple[str, dict[str, Any]]] = [
        ("set_permission_mode", {"mode": "plan"}),
        ("initialize", {}),
        ("interrupt", {}),
        ("no_such_thing", {}),
    ]
    for subtype, fields in refused:
        with pytest.raises(ControlRefused, match="`controls`"):
            await it.engine.control(session_id, subtype, fields)
    await _still_default(it, session_id)


@pytest.mark.simulated
async def test_the_operator_can_put_a_control_request_on_the_list(house: OpenEngine) -> None:
    it = await house("One.", controls=["get_settings", "set_permission_mode"])
    session_id = await it.done()
    assert "effective" in await it.engine.control(session_id, "get_settings", {})
    fields = {"mode": "bypassPermissions"}
    with pytest.raises(BypassNotAllowed, match="PILOTHOUSE_ALLOW_BYPASS"):
        await it.engine.control(session_id, "set_permission_mode", fields)
    await _still_default(it, session_id)


async def _still_default(it: EngineHarness, session_id: str) -> None:
    assert (await it.engine.status(session_id)).mode == "default"
