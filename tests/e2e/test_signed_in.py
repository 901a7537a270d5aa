"""A small set on the user's own signed-in CLI. It spends money, so it runs only when asked:

CLAUDE_CODE_E2E=true ./scripts/test tests/e2e
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from pilothouse import Allow, Client, Options, PermissionRequest

DEADLINE = 180.0
CHEAP = {"model": "haiku", "max_turns": 4, "max_budget_usd": 0.2}


async def test_a_plain_turn_finishes(tmp_path: Path) -> None:
    async with asyncio.timeout(DEADLINE), Client(Options(cwd=tmp_path, **CHEAP)) as client:
        turn = await client.ask("Answer with the single word: pilot")
        assert turn.outcome == "finished"
        assert "pilot" in turn.text.lower()
        assert turn.cost_usd >= 0


async def test_a_permission_is_asked_and_allowed(tmp_path: Path) -> None:
    asked: list[str] = []

    async def allow(request: PermissionRequest) -> Allow:
        asked.append(request.tool_name)
        return Allow()

    options = Options(cwd=tmp_path, on_permission=allow, **CHEAP)
    async with asyncio.timeout(DEADLINE), Client(options) as client:
        await client.ask("Use the Write tool to create made.txt with the text: made")
    assert asked
    assert (tmp_path / "made.txt").exists()


async def test_a_session_resumes_with_what_it_knew(tmp_path: Path) -> None:
    async with asyncio.timeout(DEADLINE):
        async with Client(Options(cwd=tmp_path, **CHEAP)) as client:
            await client.ask("Remember the word: barnacle")
            session = client.session_id
        async with Client(Options(cwd=tmp_path, resume=session, **CHEAP)) as client:
            turn = await client.ask("Which word did I ask you to remember? Only the word.")
    assert "barnacle" in turn.text.lower()
