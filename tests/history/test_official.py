"""The official SDK's list of the same transcripts, as an independent opinion."""

from __future__ import annotations

from typing import Any

import pytest
from claude_agent_sdk import SDKSessionInfo, list_sessions

from pilothouse.history import FoundSession
from pilothouse.history.header import WINDOW
from tests.support.history.transcripts import Line, Shelf, noted, place, replied, said

TOOL = {"type": "tool_result", "content": "x"}
LONG = noted("attachment", attachment={"x": "y" * 3 * WINDOW})
TRANSCRIPTS: list[list[Line | bytes]] = [
    [said("plain")],
    [said("first"), replied("Aye."), said("second")],
    [said("p"), noted("last-prompt", lastPrompt="last")],
    [said("p"), noted("ai-title", aiTitle="by the model"), replied("Aye.")],
    [said("p"), noted("ai-title", aiTitle="m"), noted("custom-title", customTitle="by a person")],
    [said("p"), noted("custom-title", customTitle="one"), noted("custom-title", customTitle="two")],
    [said("p"), noted("summary", summary="in short")],
    [said("p", isSidechain=True)],
    [noted("cost-state")],
    [noted("custom-title", customTitle="nothing but a name")],
    [said("m", isMeta=True), said([TOOL]), said("p", cwd="/elsewhere"), said("q", gitBranch="b")],
    [said("<command-name>/review</command-name>")],
    [said("<command-name>/review</command-name>"), said("and more")],
    [said("[Request interrupted by user]"), said("[Request interrupted by user for tool use]")],
    [said([{"type": "text", "text": "<tick>"}, {"type": "text", "text": "block"}])],
    [said("é\U0001f600 " * 300)],
    [said("p", gitBranch="")],
    [said("p"), LONG, replied("Aye.")],
    [said("p"), noted("ai-title", aiTitle="early"), LONG, noted("last-prompt", lastPrompt="late")],
    [noted("permission-mode"), said("p")],
    [said("p", timestamp="never")],
    [b"garbage", said("p"), b'{"type":"custom-title","customTi'],
    [place(type="user", message={"role": "user", "content": "no time"})],
]


def ours(found: FoundSession) -> dict[str, Any]:
    return {
        "id": found.session_id,
        "title": found.title,
        "prompt": found.first_prompt,
        "cwd": found.cwd,
        "branch": found.branch,
        "updated": found.updated_at,
        "size": found.size,
    }


def theirs(info: SDKSessionInfo) -> dict[str, Any]:
    return {
        "id": info.session_id,
        "title": info.summary,
        "prompt": info.first_prompt or "",
        "cwd": info.cwd,
        "branch": info.git_branch,
        "updated": info.last_modified,
        "size": info.file_size,
    }


async def test_it_lists_the_same_sessions_with_the_same_titles(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, lines in enumerate(TRANSCRIPTS, start=1):
        shelf.put(number, *lines, project=f"-{number % 3}")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(shelf.config_dir))
    page = await shelf.history().list()
    assert [ours(each) for each in page.found] == [theirs(each) for each in list_sessions()]
    assert len(page.found) == len(TRANSCRIPTS) - 3
