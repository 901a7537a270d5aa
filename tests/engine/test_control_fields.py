"""Control requests of callers: their fields are data, whatever their names."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.errors import UsageError
from tests.support.engine.harness import OpenEngine
from tests.support.engine.mcp_servers import PARROT, server


@pytest.mark.simulated
@pytest.mark.parametrize("fields", [{"self": 1}, {"deadline": -1}, {"kind": "x", "fields": {}}])
async def test_a_field_may_have_the_name_of_an_argument(
    house: OpenEngine, fields: dict[str, Any]
) -> None:
    it = await house("Hello.")
    session_id = await it.done()
    assert await it.engine.control(session_id, "get_binary_version", fields)


@pytest.mark.simulated
async def test_fields_cannot_name_another_subtype(house: OpenEngine) -> None:
    it = await house("Hello.")
    session_id = await it.done()
    with pytest.raises(UsageError, match="another subtype"):
        await it.engine.control(session_id, "get_status", {"subtype": "set_model"})


async def test_how_a_server_is_configured_is_told_without_its_secrets(house: OpenEngine) -> None:
    it = await house("Hello.")
    parrot = {**server(PARROT), "env": {"PARROT_TOKEN": "hush"}}
    session_id = await it.done(mcp_servers={"parrot": parrot})
    told = [
        await it.engine.mcp_status(session_id),
        await it.engine.control(session_id, "mcp_status", {}),
    ]
    assert "parrot" in str(told)
    assert "hush" not in str(told)
