"""What a CLI calls its conversation: an id, and never the name of a file."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

import pytest

from tests.support.engine.played import EngineStage, quick_folder, staged
from tests.support.engine.relayed_stage import relayed

PRECIOUS = "precious"
UP = "../../../.."
"""From where locks are, in home/.claude/.pilothouse/writers."""


class Staging(Protocol):
    def __call__(self, folder: Path) -> AbstractAsyncContextManager[EngineStage]: ...


def snapshot(folder: Path) -> dict[str, int]:
    """Every file outside of the engine's own folders, and how long it is."""
    own = {"home", "0", "1", "state"}
    files = [path for path in folder.rglob("*") if path.is_file()]
    here = [path.relative_to(folder) for path in files]
    return {str(path): (folder / path).stat().st_size for path in here if path.parts[0] not in own}


@pytest.mark.parametrize("staging", [staged, relayed], ids=["pipes", "relay"])
@pytest.mark.parametrize("climb", [True, False], ids=["climbing", "absolute"])
@pytest.mark.parametrize("kind", ["init", "result"])
async def test_a_conversation_that_is_called_like_a_file_touches_none(
    staging: Staging, climb: bool, kind: str
) -> None:
    with quick_folder() as folder:
        lock = folder / "project" / "Cargo.lock"
        lock.parent.mkdir()
        lock.write_text(PRECIOUS)
        called = f"{UP if climb else folder}/project/Cargo"
        async with staging(folder) as stage:
            before = snapshot(folder)
            session_id = await stage.start()
            await stage.settle()
            cli = stage.cli(session_id)
            assert cli is not None
            cli.begin()
            fields = {"init": {"subtype": "init"}, "result": {"subtype": "success"}}[kind]
            types = {"init": "system", "result": "result"}
            cli.write({"type": types[kind], "session_id": called, "uuid": "u", **fields})
            await stage.settle()
            status = await stage.engine.status(session_id)
            assert status.claude_session_id == session_id
            await stage.engine.stop(session_id)
            await stage.settle()
            assert snapshot(folder) == before
        assert lock.read_text() == PRECIOUS
