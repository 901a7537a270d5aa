"""Going back to files as they were at a prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.scenario import Scenario, reply, tool
from tests.support.sim.client import SimClient
from tests.support.sim.home import FIRST, Home, script

VARIABLE = "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"
NOTE = "{{cwd}}/note.txt"
FLAGS = (f"--session-id={FIRST}", "--permission-mode=acceptEdits")
EDITS = script(
    reply(tool("Write", file_path=NOTE, content="one\n")),
    reply("Written."),
    reply(tool("Edit", file_path=NOTE, old_string="one", new_string="two\nthree")),
    reply("Changed."),
    reply("Aye."),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv(VARIABLE, "1")
    return Home(tmp_path, monkeypatch, EDITS)


def own(number: int) -> str:
    return f"{number:08}-0000-4000-8000-000000000000"


async def turn(client: SimClient, number: int) -> None:
    before = sum(line["type"] == "result" for line in client.lines)
    said = {"role": "user", "content": "Go."}
    client.send({"type": "user", "message": said, "uuid": own(number)})
    await client.until(lambda _: sum(line["type"] == "result" for line in client.lines) > before)


async def rewound(client: SimClient, number: int, **fields: Any) -> Any:
    response = await client.control("rewind_files", user_message_id=own(number), **fields)
    return response.get("response", response.get("error"))


async def test_a_file_goes_back_to_what_it_was(home: Home) -> None:
    note = home.cwd / "note.txt"
    async with home.run(*FLAGS) as client:
        await turn(client, 1)
        await turn(client, 2)
        assert note.read_text() == "two\nthree\n"
        assert await rewound(client, 2) == {"canRewind": True, "skippedLinks": 0}
        assert note.read_text() == "one\n"
        assert await rewound(client, 1) == {"canRewind": True, "skippedLinks": 0}
        assert not note.exists()


async def test_a_trial_changes_nothing(home: Home) -> None:
    note = home.cwd / "note.txt"
    async with home.run(*FLAGS) as client:
        await turn(client, 1)
        await turn(client, 2)
        assert await rewound(client, 2, dry_run=True) == {
            "canRewind": True,
            "filesChanged": [str(note)],
            "insertions": 1,
            "deletions": 2,
        }
        assert note.read_text() == "two\nthree\n"


async def test_a_resumed_session_can_go_back_as_well(home: Home) -> None:
    async with home.run(*FLAGS) as client:
        await turn(client, 1)
        await turn(client, 2)
    async with home.run(f"--resume={FIRST}") as client:
        await rewound(client, 2)
    assert (home.cwd / "note.txt").read_text() == "one\n"


async def test_a_fork_has_checkpoints_of_its_own(home: Home) -> None:
    async with home.run(*FLAGS) as client:
        await turn(client, 1)
        await turn(client, 2)
    async with home.run(f"--resume={FIRST}", "--fork-session") as client:
        await rewound(client, 2)
    assert (home.cwd / "note.txt").read_text() == "one\n"


async def test_a_prompt_that_never_was_has_no_checkpoint(home: Home) -> None:
    missing = "No file checkpoint found for this message."
    async with home.run(*FLAGS) as client:
        await turn(client, 1)
        assert await rewound(client, 9) == missing
        assert await rewound(client, 9, dry_run=True) == {"canRewind": False, "error": missing}


async def test_nothing_is_kept_unless_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path, monkeypatch, Scenario(replies=list(EDITS.replies)))
    async with home.run(*FLAGS) as client:
        await turn(client, 1)
        assert await rewound(client, 1) == "File rewinding is not enabled."
    assert not home.lines(FIRST, "file-history-snapshot", "file-history-delta")
