"""The tools on the user's own signed-in CLI. It spends money, so it runs only when asked:

CLAUDE_CODE_E2E=true ./scripts/test tests/e2e
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.mcp.end_to_end import operate, standalone

DEADLINE = 600.0


async def test_a_session_is_started_followed_talked_to_interrupted_and_listed_by_the_tools(
    tmp_path: Path,
) -> None:
    async with standalone(os.environ, tmp_path) as model:
        await operate(model, tmp_path, within=DEADLINE)
