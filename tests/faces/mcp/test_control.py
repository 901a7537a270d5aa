"""What is done to sessions besides talking to them, on the simulator."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.scenario import reply, tool
from tests.support.mcp.harness import HELD, McpHarness, OpenMcp, ToolCaller, respond

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
MAKE = reply(tool("Write", file_path="{{cwd}}/FIRST", content="one\n"))
CHANGE = reply(tool("Edit", file_path="{{cwd}}/FIRST", old_string="one", new_string="two"))
PLAN = reply(tool("Write", file_path="{{plan_file}}", content="# Plan\n\n1. Look\n"))
EXIT = reply(tool("ExitPlanMode"))


async def control(
    model: ToolCaller, session_id: str, action: str, /, **more: Any
) -> dict[str, Any]:
    return await model.call("claude_control", sessionId=session_id, action=action, **more)


async def said(model: ToolCaller, session_id: str, message: str, /, **more: Any) -> dict[str, Any]:
    given = {"sessionId": session_id, "message": message, "waitSeconds": 50, **more}
    return await model.call("claude_say", **given)


# Settings


async def test_the_model_and_the_mode_change_for_later_turns(desk: OpenMcp) -> None:
    at = await desk("One.", "Two.", "Three.")
    async with at.client() as model:
        session_id = await model.start(waitSeconds=50)
        given = {"model": "claude-haiku-4-5", "thinkingTokens": 2000, "permissionMode": "plan"}
        done = await control(model, session_id, "set", **given)
        assert done["note"] == (
            "Set: permissionMode plan (at once), model claude-haiku-4-5, thinkingTokens 2000"
        )
        assert "result" not in done, "it is that of the turn before"
        status = await said(model, session_id, "and?")
        assert (status["model"], status["permissionMode"]) == ("claude-haiku-4-5", "plan")
        await control(model, session_id, "set", model="default")
        assert (await said(model, session_id, "so?"))["model"] != "claude-haiku-4-5"


async def test_to_set_nothing_is_refused_with_what_can_be_set(desk: OpenMcp) -> None:
    at = await desk("One.")
    async with at.client() as model:
        session_id = await model.start(waitSeconds=50)
        refused = await model.refused("claude_control", sessionId=session_id, action="set")
    assert "model, thinkingTokens or permissionMode" in refused


async def test_a_session_begins_with_a_schema_a_cap_and_a_budget_for_thoughts(
    desk: OpenMcp,
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    at = await desk(reply(tool("StructuredOutput", n=7)), strict=False)
    async with at.client() as model:
        given = {"jsonSchema": schema, "sessionCapUsd": 0.5, "thinkingTokens": 0}
        status = await model.call("claude_start", prompt="count", waitSeconds=50, **given)
        assert status["structuredOutput"] == {"n": 7}
        told = await at.house.engine.status(status["sessionId"])
    assert told.caps.session_usd == 0.5
    [record] = await at.house.records(status["sessionId"], "session.started")
    assert record["options"]["max_thinking_tokens"] == 0


async def test_no_turn_begins_beyond_the_cap(desk: OpenMcp) -> None:
    at = await desk("One.", "Two.")
    async with at.client() as model:
        session_id = await model.start(sessionCapUsd=0.000001, waitSeconds=50)
        refused = await model.refused("claude_say", sessionId=session_id, message="more")
    assert "a person has to raise the limit" in refused


# The conversation


async def test_the_conversation_is_compacted(desk: OpenMcp) -> None:
    at = await desk("One.", "A summary.", strict=False)
    async with at.client() as model:
        session_id = await model.start(waitSeconds=50)
        done = await control(model, session_id, "compact", instructions="keep the names")
        assert done["note"] == "The conversation is summarised now"
        await model.waited(session_id, after=done["cursor"])
        transcript = await model.transcript(session_id)
    assert "/compact keep the names" in transcript
    assert "_The conversation before this was summarised" in transcript


async def test_a_copy_ends_before_a_message(desk: OpenMcp) -> None:
    at = await desk("One.", "Two.", "Another.")
    async with at.client() as model:
        session_id = await model.start("first", waitSeconds=50)
        second = await said(model, session_id, "second thoughts")
        given = {"fork": True, "forkBefore": second["messageId"]}
        copy = await said(model, session_id, "other thoughts", **given)
        assert (copy["parentSessionId"], copy["result"]) == (session_id, "Another.")
    heard = at.house.heard()
    assert ("One." in heard, "other thoughts" in heard) == (True, True)
    assert "second thoughts" not in heard


async def test_a_copy_cannot_end_before_the_first_message(desk: OpenMcp) -> None:
    at = await desk("One.")
    async with at.client() as model:
        first = await model.call("claude_start", prompt="first", waitSeconds=50)
        given = {"sessionId": first["sessionId"], "message": "no", "fork": True}
        refused = await model.refused("claude_say", **given, forkBefore=first["messageId"])
        assert "claude_start begins anew" in refused
        refused = await model.refused("claude_say", **given, forkBefore="nobody")
        assert "no item of this conversation has that id" in refused
        alone = {**given, "fork": False, "forkBefore": first["messageId"]}
        assert "goes with fork: true" in await model.refused("claude_say", **alone)


async def test_a_queued_message_is_listed_and_taken_back(desk: OpenMcp) -> None:
    at = await desk(HELD, strict=False)
    async with at.client() as model:
        session_id = await model.start()
        await at.house.until_written(session_id, "One")
        queued = await model.call("claude_say", sessionId=session_id, message="not this")
        status = await model.status(session_id)
        assert status["queued"] == [{"messageId": queued["messageId"], "text": "not this"}]
        text = await model.text("claude_status", sessionId=session_id)
        assert f"No turn has these messages yet:\n> {queued['messageId']}: not this" in text
        done = await control(model, session_id, "cancel", messageId=queued["messageId"])
        assert (done["cancelled"], done["note"]) == (True, "The message was taken back")
        at.house.cli.release("held")
        ended = await model.waited(session_id)
        assert (ended["result"], "queued" in ended) == ("One and two.", False)
        refused = await model.refused(
            "claude_control", sessionId=session_id, action="cancel", messageId="nobody"
        )
        assert "nobody" in refused or "no queued message" in refused
        refused = await model.refused("claude_control", sessionId=session_id, action="cancel")
        assert "cancel needs messageId" in refused


# Files


async def test_files_go_back_to_before_a_message(desk: OpenMcp) -> None:
    at = await desk(MAKE, "Made.", CHANGE, "Changed.")
    path = at.house.cwd / "FIRST"
    async with at.client() as model:
        session_id = await model.start(permissionMode="acceptEdits", waitSeconds=50)
        changed = await said(model, session_id, "change it")
        given = {"messageId": changed["messageId"]}
        seen = await control(model, session_id, "rewind", **given, preview=True)
        assert seen["rewind"] == {
            "possible": True,
            "done": False,
            "files": [str(path)],
            "insertions": 1,
            "deletions": 1,
        }
        assert seen["note"] == (
            f"Nothing was changed. Without preview it would take back 1 file (+1 -1 lines): {path}"
        )
        assert path.read_text() == "two\n"
        done = await control(model, session_id, "rewind", **given)
        assert done["rewind"]["done"]
        assert done["note"].startswith("Taken back to before that message: 1 file ")
        assert path.read_text() == "one\n"
        nothing = await control(model, session_id, "rewind", messageId="nobody")
        assert nothing["note"].startswith("The files cannot be taken back: ")


async def test_where_only_a_person_approves_files_are_not_taken_back(desk: OpenMcp) -> None:
    at = await desk("One.", answers="person")
    async with at.client() as model:
        first = await model.call("claude_start", prompt="go", waitSeconds=50)
        given = {"sessionId": first["sessionId"], "messageId": first["messageId"]}
        refused = await model.refused("claude_control", action="rewind", **given)
        assert "only a person" in refused
        assert "preview: true" in refused
        seen = await model.call("claude_control", action="rewind", preview=True, **given)
        assert "rewind" in seen
        mode = {"sessionId": first["sessionId"], "permissionMode": "acceptEdits"}
        assert "only a person" in await model.refused("claude_control", action="set", **mode)


# The end


async def test_a_session_is_stopped_and_goes_on(desk: OpenMcp) -> None:
    at = await desk("One.", "Two.")
    async with at.client() as model:
        session_id = await model.start(waitSeconds=50)
        stopped = await control(model, session_id, "stop")
        assert stopped["note"] == "Its CLI was ended; a message starts one again"
        assert not (await at.house.engine.status(session_id)).live
        again = await control(model, session_id, "stop")
        assert again["note"] == "It had no CLI; a message starts one again"
        assert (await said(model, session_id, "more"))["resumed"]


# Images


@pytest.mark.parametrize("image", ["shot.png", URL], ids=["file", "url"])
async def test_images_reach_the_model(desk: OpenMcp, image: str) -> None:
    at = await desk("One.", "Two.")
    await asyncio.to_thread((at.house.cwd / "shot.png").write_bytes, PNG)
    async with at.client() as model:
        session_id = await model.start("see", images=[image], waitSeconds=50)
        assert sent(at, session_id) == [image_block()]
        await said(model, session_id, "and this", images=[image, image])
        assert len(sent(at, session_id)) == 3
        assert "see\n\n(image)" in await model.transcript(session_id)


def sent(at: McpHarness, session_id: str) -> list[dict[str, Any]]:
    """The images in the CLI's own transcript."""
    [file] = (at.house.cli.home / ".claude/projects").glob(f"*/{session_id}.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    contents = [line["message"]["content"] for line in lines if line.get("type") == "user"]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    return [block for block in blocks if block["type"] == "image"]


def image_block() -> dict[str, Any]:
    data = base64.b64encode(PNG).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


async def test_what_is_no_image_is_refused_before_anything_is_sent(
    desk: OpenMcp, tmp_path: Path
) -> None:
    at = await desk("One.")
    text, large = tmp_path / "notes.png", tmp_path / "large.png"
    await asyncio.to_thread(text.write_text, "notes")
    await asyncio.to_thread(large.write_bytes, PNG + bytes(5 * 1024 * 1024))
    async with at.client() as model:
        for image, why in (
            (str(text), "is no image that a model can see"),
            (str(large), "is larger than"),
            ("nowhere.png", "cannot be read: No such file"),
            ("data:text/plain;base64,eA==", "is no such URL"),
            ("data:image/png;base64,???", "is not in base64"),
        ):
            assert why in await model.refused("claude_start", prompt="see", images=[image])
        refused = await model.refused("claude_start", prompt="see", images=[URL] * 21)
        assert "images: " in refused
        assert (await model.call("claude_list"))["sessions"] == []


async def test_over_http_there_are_no_files_to_send(desk: OpenMcp) -> None:
    at = await desk("One.")
    over_http = McpHarness(at.house, default_cwd=None)
    async with over_http.client() as model:
        given = {"prompt": "see", "workingDirectory": str(at.house.cwd)}
        refused = await model.refused("claude_start", **given, images=["/shot.png"])
        assert "give a data: URL" in refused
        started = await model.call("claude_start", **given, images=[URL], waitSeconds=50)
        assert len(sent(at, started["sessionId"])) == 1
    await over_http.aclose()


# Plans


async def test_a_plan_is_revised_with_an_image(desk: OpenMcp) -> None:
    at = await desk(PLAN, EXIT, EXIT, "Done.", "Seen.", strict=False)
    async with at.client() as model:
        asked = await model.call(
            "claude_start", prompt="plan it", permissionMode="plan", waitSeconds=50
        )
        refused = await model.refused(
            "claude_respond",
            sessionId=asked["sessionId"],
            id=asked["pendingQuestion"]["id"],
            answers=["approve"],
            images=[URL],
        )
        assert "images go with the answer revise" in refused
        again = await respond(model, asked, "revise: as in the picture", images=[URL])
        assert again["pendingQuestion"]["type"] == "plan_approval"
        await respond(model, again, "approve_accept_edits")
    messages = await at.house.records(asked["sessionId"], "prompt.said")
    assert image_block() in messages[-1]["content"]


async def test_a_plan_is_approved_and_the_conversation_compacted(desk: OpenMcp) -> None:
    at = await desk(PLAN, EXIT, "Leapt.", "A summary.", strict=False)
    async with at.client() as model:
        asked = await model.call(
            "claude_start", prompt="plan it", permissionMode="plan", waitSeconds=50
        )
        await respond(model, asked, "approve_and_compact")
        session_id = asked["sessionId"]
        await at.house.when(session_id, lambda status: status.turns == 2)
        transcript = await model.transcript(session_id)
    assert "_The conversation before this was summarised" in transcript
