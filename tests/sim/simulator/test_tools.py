"""The simulator's tools against what the real CLI's tools answered to the same calls."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from pilothouse_sim.simulator.tools import bash, ids, registry
from pilothouse_sim.simulator.tools.base import ToolFailure, ToolSurroundings
from pilothouse_sim.simulator.tools.command import ShellCommand
from tests.support.waiting import DEADLINE

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "tools.json").read_text())


@pytest.fixture
def place(tmp_path: Path) -> ToolSurroundings:
    """A folder to work in, with commands that end with the test."""
    cwd = (tmp_path / "dev" / "project").resolve()
    cwd.mkdir(parents=True)
    (tmp_path / "tmp").mkdir()
    return ToolSurroundings(
        cwd=cwd,
        root=cwd,
        home=cwd.parent,
        config_dir=cwd.parent / ".claude",
        environment={
            "PATH": os.environ["PATH"],
            "HOME": str(cwd.parent),
            "LANG": "C.UTF-8",
            "TMPDIR": str(tmp_path / "tmp"),
        },
        session_id="11111111-2222-4333-8444-555555555555",
    )


def prepare(files: dict[str, Any], folder: Path) -> None:
    """Makes the files of a scene."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(text))


def content(text: Any) -> bytes:
    """What a file of a scene holds."""
    match text:
        case {"base64": str(encoded)}:
            return base64.b64decode(encoded)
        case {"text": str(words), "times": int(times)}:
            return words.encode() * times
        case _:
            return str(text).encode()


def change(step: dict[str, Any], folder: Path) -> None:
    """Does what somebody else did to a file, at a later time than anything before."""
    path = folder / step["other"]
    if step["text"] is None:
        path.unlink()
        return
    before = path.stat().st_mtime_ns
    path.write_text(step["text"])
    os.utime(path, ns=(before + 10**9, before + 10**9))


def plain(value: Any, place: ToolSurroundings) -> Any:
    """The value without what is made up anew in each run."""
    words = json.dumps(value, ensure_ascii=False)
    words = words.replace(bash.project_folder(place.home_folder), "{{project}}")
    words = words.replace(str(place.home_folder), "{{cwd}}").replace(str(place.home), "{{home}}")
    tasks = f"{place.environment['TMPDIR']}/claude-{os.getuid()}"
    words = words.replace(place.session_id, "{{session}}").replace(tasks, "{{tasks}}")
    return json.loads(re.sub(r"\bb[a-z0-9]{8}(?=[\".),])", "{{task}}", words))


def short(value: Any) -> Any:
    """The value without advice to the model, for which the simulator has its own words."""
    begins = (
        r"was moved to the background \(ID: [^)]*\)\.",
        r"instead of reading the whole file\.",
        r"sessions use to message it",
    )
    words = json.dumps(value, ensure_ascii=False)
    return json.loads(re.sub(rf'({"|".join(begins)})(?:[^"\\]|\\.)*', r"\1", words))


async def carried_out(step: dict[str, Any], place: ToolSurroundings) -> dict[str, Any]:
    """What comes of a call, in the words of the recording."""
    given = json.loads(json.dumps(step["input"]).replace("{{cwd}}", str(place.home_folder)))
    came: dict[str, Any] = {}
    try:
        tool = registry.find(step["call"])
        came["shown"] = registry.shown(step["call"], given, place)
        arguments = tool.validate(came["shown"])
        tool.check(arguments, place)
        if "asked" in step:
            came["asked"] = registry.asked(tool.name, arguments, place)
        if "adds" in step:
            arguments = tool.validate_answer({**arguments, **step["adds"]})
        outcome = await tool(arguments, place)
    except ToolFailure as failure:
        return {**came, "content": failure.text, "is_error": True, "result": failure.result}
    came |= {"content": outcome.content, "result": outcome.result}
    return came if outcome.is_error is UNSET else {**came, "is_error": outcome.is_error}


@pytest.mark.parametrize("name", RECORDED)
async def test_calls_get_the_real_clis_answers(name: str, place: ToolSurroundings) -> None:
    adopted: list[ShellCommand] = []
    place.adopt = adopted.append
    scene = RECORDED[name]
    prepare(scene["files"], place.cwd)
    for at, step in enumerate(scene["steps"]):
        if "other" in step:
            change(step, place.cwd)
            continue
        came = plain(await carried_out(step, place), place)
        keys = ("content", "is_error", "result", *(key for key in came if key in step))
        expected = {key: step[key] for key in keys if key in step}
        found = {key: came[key] for key in keys if key in came}
        assert short(found) == short(expected), (at, step["input"])
    for command in adopted:
        command.kill()
        await command.process.wait()


def is_running(group: int) -> bool:
    """Whether a process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def number_in(path: Path) -> int:
    """The number a command wrote to a file; 0 before it did."""
    return int(path.read_text() or 0) if path.exists() else 0


async def started(path: Path) -> int:
    """The number a command wrote to a file, once it is there."""
    async with asyncio.timeout(DEADLINE):
        while not number_in(path):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return number_in(path)


async def test_a_cancelled_command_leaves_no_process_behind(place: ToolSurroundings) -> None:
    words = "sleep 600 & (sleep 601; true) & echo $$ > own; sleep 602"
    running = asyncio.create_task(bash.run({"command": words}, place))
    group = await started(place.cwd / "own")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with asyncio.timeout(DEADLINE):
        while is_running(group):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert not list(bash.tasks_folder(place).iterdir())


async def test_a_command_in_the_background_is_handed_over_with_its_output(
    place: ToolSurroundings,
) -> None:
    adopted: list[ShellCommand] = []
    place.adopt, place.tool_use_id = adopted.append, "toolu_1"
    arguments = {"command": "echo now", "description": "Say", "run_in_background": True}
    outcome = await bash.run(arguments, place)
    (command,) = adopted
    assert await command.wait() == 0
    assert command.output() == "now"
    assert (command.command, command.description) == ("echo now", "Say")
    assert command.tool_use_id == "toolu_1"
    assert outcome.result["backgroundTaskId"] == command.task_id
    assert outcome.content == bash.background(command)


async def test_a_command_that_nobody_adopts_ends_with_its_time(place: ToolSurroundings) -> None:
    outcome = await bash.run({"command": "echo $$ > own; sleep 600", "timeout": 500}, place)
    assert outcome.result["timedOutAfterMs"] == 500
    group = await started(place.cwd / "own")
    async with asyncio.timeout(DEADLINE):
        while is_running(group):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_killed_command_tells_so_when_it_is_waited_for(place: ToolSurroundings) -> None:
    command = await bash.start({"command": "sleep 600"}, place)
    os.killpg(command.process.pid, signal.SIGTERM)
    assert await command.wait() == 144


async def test_commands_see_the_environment_of_the_cli(place: ToolSurroundings) -> None:
    outcome = await bash.run({"command": "env"}, place)
    seen = dict(line.split("=", 1) for line in outcome.result["stdout"].splitlines())
    assert seen["CLAUDECODE"] == "1"
    assert seen["CLAUDE_CODE_ENTRYPOINT"] == "sdk-cli"
    assert seen["CLAUDE_CODE_SESSION_ID"] == place.session_id
    assert seen["HOME"] == str(place.home)


async def test_two_reading_commands_may_run_beside_each_other_and_a_changing_one_may_not() -> None:
    def safe(command: str) -> bool:
        return registry.is_concurrency_safe("Bash", {"command": command})

    assert safe("cat a; sleep 1 | wc -l")
    assert safe("git status && echo '>'")
    assert not safe("echo x > a")
    assert not safe("touch a")
    assert not safe("git commit")
    assert registry.is_concurrency_safe("Read", {})
    assert registry.is_concurrency_safe("Task", {})
    assert not registry.is_concurrency_safe("Write", {})
    assert not registry.is_concurrency_safe("Nope", {})


async def test_files_are_announced_before_they_change(place: ToolSurroundings) -> None:
    before: list[tuple[str, bool]] = []
    place.touched = lambda path: before.append((path.name, path.exists()))
    await registry.TOOLS["Write"]({"file_path": "a.txt", "content": "x"}, place)
    arguments = {"file_path": "a.txt", "old_string": "x", "new_string": "y"}
    await registry.TOOLS["Edit"](arguments, place)
    assert before == [("a.txt", False), ("a.txt", True)]
    assert (place.cwd / "a.txt").read_text() == "y"


async def test_a_tool_that_is_not_listed_cannot_be_called(place: ToolSurroundings) -> None:
    with pytest.raises(ToolFailure, match="No such tool available: Bash"):
        registry.validate("Bash", {"command": "ls"}, ["Read"])
    assert registry.validate("Agent", {"description": "d", "prompt": "p"}, ["Task"])


async def test_the_tools_stand_in_the_order_of_the_init_line() -> None:
    assert registry.LISTED[:3] == ("Task", "AskUserQuestion", "Bash")
    assert list(registry.LISTED[1:]) == sorted(registry.LISTED[1:])


async def test_a_plan_is_approved_as_it_was_written_or_edited(place: ToolSurroundings) -> None:
    place.mode, place.plan_file = "plan", place.config_dir / "plans" / "a-plan.md"
    leave = registry.TOOLS["ExitPlanMode"]
    leave.check({}, place)
    none = await leave({}, place)
    assert none.content == "User has approved exiting plan mode. You can now proceed."
    assert none.result == {"plan": None, "isAgent": False, "filePath": str(place.plan_file)}
    place.plan_file.parent.mkdir(parents=True)
    place.plan_file.write_text("# Plan\n")
    kept = await leave({"plan": "# Plan\n", "planFilePath": str(place.plan_file)}, place)
    assert str(kept.content).endswith("\n\n## Approved Plan:\n# Plan\n")
    assert "planWasEdited" not in kept.result
    edited = await leave({"plan": "# Mine\n"}, place)
    assert str(edited.content).endswith("\n\n## Approved Plan (edited by user):\n# Mine\n")
    assert edited.result["planWasEdited"] is True


async def test_entering_plan_mode_says_so_first(place: ToolSurroundings) -> None:
    outcome = await registry.TOOLS["EnterPlanMode"]({}, place)
    assert str(outcome.content).startswith(outcome.result["message"])


async def test_a_task_is_stopped_by_whoever_keeps_it(place: ToolSurroundings) -> None:
    async def stop(task: str) -> dict[str, Any]:
        return {"message": "stopped", "task_id": task}

    place.stop_task = stop
    outcome = await registry.TOOLS["TaskStop"]({"task_id": "b12345678"}, place)
    assert outcome.content == '{"message":"stopped","task_id":"b12345678"}'


def test_ids_look_like_the_clis() -> None:
    assert re.fullmatch(r"b[a-z0-9]{8}", ids.task_id())
    assert re.fullmatch(r"a[0-9a-f]{16}", ids.agent_id())
    assert re.fullmatch(r"0[a-z0-9]{8}-[0-9a-f]{8}", ids.run_id())


async def test_a_command_cancelled_while_it_starts_leaves_no_process_behind(
    place: ToolSurroundings,
) -> None:
    starting = asyncio.create_task(bash.start({"command": "echo $$ > own; sleep 600"}, place))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    async with asyncio.timeout(DEADLINE):
        while (own := number_in(place.cwd / "own")) and is_running(own):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert not list(bash.tasks_folder(place).iterdir())


async def test_a_monitor_is_handed_over_as_one(place: ToolSurroundings) -> None:
    adopted: list[ShellCommand] = []
    place.adopt = adopted.append
    arguments = {"description": "Watch", "command": "echo event"}
    outcome = await registry.TOOLS["Monitor"](arguments, place)
    (command,) = adopted
    assert await command.wait() == 0
    assert command.is_monitor
    assert outcome.result == {
        "taskId": command.task_id,
        "timeoutMs": 300_000,
        "persistent": False,
    }


async def test_what_is_not_simulated_says_so(place: ToolSurroundings) -> None:
    arguments = {"cron": "* * * * *", "prompt": "p"}
    registry.check("CronCreate", arguments, place)
    with pytest.raises(ToolFailure, match="not simulated"):
        await registry.TOOLS["CronCreate"](arguments, place)


async def test_the_list_of_agents_names_the_session(place: ToolSurroundings) -> None:
    outcome = await registry.TOOLS["ListAgents"]({}, place)
    assert str(outcome.content).startswith("This session is project-11 [111111] — the name")


async def test_a_search_without_a_network_finds_nothing(place: ToolSurroundings) -> None:
    outcome = await registry.TOOLS["WebSearch"]({"query": "some thing"}, place)
    assert outcome.result["results"] == []


async def test_a_cell_is_inserted_after_the_one_that_is_named(place: ToolSurroundings) -> None:
    cells = [{"cell_type": "code", "id": "aa", "metadata": {}, "source": "1", "outputs": []}]
    book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path = place.cwd / "nb.ipynb"
    path.write_text(json.dumps(book))
    await registry.TOOLS["Read"]({"file_path": "nb.ipynb"}, place)
    arguments = {
        "notebook_path": "nb.ipynb",
        "cell_id": "aa",
        "new_source": "2",
        "cell_type": "code",
        "edit_mode": "insert",
    }
    outcome = await registry.TOOLS["NotebookEdit"](arguments, place)
    sources = [cell["source"] for cell in json.loads(path.read_text())["cells"]]
    assert sources == ["1", "2"]
    assert outcome.content == f"Inserted cell {outcome.result['cell_id']} with 2"
    assert "old_source" not in outcome.result
