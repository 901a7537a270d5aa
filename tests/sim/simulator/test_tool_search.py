"""The model searches for tools, and a server of its own searches the web for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.scenario import Raw, Reply, reply, tool
from tests.support.sim.client import sim_client


def searching(query: str, **more: Any) -> Reply:
    return reply(tool("ToolSearch", query=query, **more))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("select:WebFetch, Bash,Nothing", ["WebFetch", "Bash"]),
        ("notebook edit", ["NotebookEdit"]),
        ("+web fetch", ["WebFetch", "WebSearch"]),
        ("zeppelin", []),
        ("bash", []),
    ],
)
async def test_tools_are_found_by_their_names_or_by_words_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, found: list[str]
) -> None:
    replies = (searching(query), reply("Done."))
    async with sim_client(tmp_path, monkeypatch, *replies) as client:
        await client.ask("Search.")
    references = [{"type": "tool_reference", "tool_name": name} for name in found]
    assert client.results() == [references or "No matching deferred tools found"]
    [told] = [line["tool_use_result"] for line in client.lines if line["type"] == "user"]
    assert told["matches"] == found


def event(kind: str, index: int, **members: Any) -> Raw:
    return Raw({"type": kind, "index": index, **members})


async def test_what_a_server_tool_was_asked_and_what_is_cited_is_in_the_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    cited = {"type": "web_search_result_location", "url": "https://tides.test/"}
    said = reply(
        event("content_block_start", 0, content_block=call),
        event(
            "content_block_delta",
            0,
            delta={"type": "input_json_delta", "partial_json": '{"query":"tides"}'},
        ),
        event("content_block_stop", 0),
        event("content_block_start", 1, content_block={"type": "text", "text": ""}),
        event("content_block_delta", 1, delta={"type": "text_delta", "text": "At noon."}),
        event("content_block_delta", 1, delta={"type": "citations_delta", "citation": cited}),
        event("content_block_stop", 1),
    )
    async with sim_client(tmp_path, monkeypatch, said) as client:
        result = await client.ask("Tides?")
    spoken = [line["message"]["content"] for line in client.lines if line["type"] == "assistant"]
    assert spoken == [
        [{**call, "input": {"query": "tides"}}],
        [{"type": "text", "text": "At noon.", "citations": [cited]}],
    ]
    assert result["result"] == "At noon."
