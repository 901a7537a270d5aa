"""The documents: their examples run, their lists are whole, and their links lead somewhere.

A Python block whose fence follows `<!-- test: run SCENE prints TEXT -->` is executed. Clients it
makes are joined to a CLI played in memory, which does what the scene says; every other Python
block is compiled. In both the names that are imported, the options and the methods must exist.
"""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import importlib
import inspect
import io
import os
import re
import subprocess
import sys
import textwrap
import tokenize
import types
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import pilothouse
from pilothouse import Client, Options, errors, protocol
from pilothouse.client import client as client_module
from pilothouse.engine import cli_phase
from pilothouse.engine import session_state as machine
from pilothouse.protocol import ControlRequest, Initialize, Interrupt, UserMessage
from pilothouse.protocol.system import SystemMessage
from pilothouse.protocol.wire import JsonObject, members, tag_of
from pilothouse.transport import MemoryTransport
from pilothouse_sim.scripted_cli import ScriptedCLI
from tests.support.docs import (
    ANY_FENCE,
    DOCS,
    EXAMPLES,
    PAGES,
    Example,
    is_documented,
    page,
)
from tests.support.places import ROOT

ROW = re.compile(r"^\| ([A-H])(\d+) \|", re.MULTILINE)
CITED = re.compile(r"\b([A-H])(\d{1,2})(?:-\1(\d{1,2}))?\b")
CITING = [
    each
    for room in ("client", "clients", "real", "support/clients", "support/real")
    for each in (ROOT / "tests" / room).rglob("*.py")
]
# Rows that no test shows because nothing in a client brings them about, each with the reason.
NOT_MET_BY_A_CLIENT: dict[str, str] = {}
PLAYING_DEADLINE = 20


# The examples


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_an_example_uses_names_that_exist(example: Example):
    for node in ast.walk(example.parse()):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                home = importlib.import_module(module)
                assert [each.name for each in names if not hasattr(home, each.name)] == []
            case ast.Call(func=ast.Name(id="Options"), keywords=keywords):
                known = {field.name for field in dataclasses.fields(Options)}
                assert {each.arg for each in keywords} <= known
            case ast.Attribute(value=ast.Name(id="client"), attr=attribute):
                assert hasattr(Client, attribute)
            case _:
                pass


@pytest.mark.parametrize("example", [each for each in EXAMPLES if each.runs], ids=str)
def test_an_example_runs(
    example: Example,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    stage = Stage(example.scene)
    live_in(tmp_path, monkeypatch)
    monkeypatch.setattr(client_module, "StdioTransport", stage.transport)
    # Any program will do: it is never started.
    monkeypatch.setenv("CLAUDE_CODE_PATH", sys.executable)
    module = types.ModuleType("example")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(example.parse(), str(example), "exec"), vars(module))
    assert example.prints in capsys.readouterr().out


def live_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep an engine's journal, and whatever else belongs to a user, in this folder."""
    names = ("HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "CLAUDE_CONFIG_DIR")
    for name in names:
        place = folder / name.lower()
        place.mkdir(mode=0o700)
        monkeypatch.setenv(name, str(place))
    monkeypatch.setenv("PILOTHOUSE_SIMULATE", "always")
    monkeypatch.chdir(folder)


def test_most_examples_run():
    assert len([each for each in EXAMPLES if each.runs]) > len(EXAMPLES) // 2


# The CLI that plays along


class Stage:
    """Stands in for the transport to a real CLI: every client gets a CLI that plays the scene."""

    def __init__(self, scene: str) -> None:
        self._scene = SCENES[scene]
        self._tasks: list[asyncio.Task[None]] = []

    def transport(self, argv: list[str], **_: Any) -> MemoryTransport:
        player = Player()
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(player.play(self._scene)))
        return player.cli.transport


class Player:
    """A CLI that answers every prompt in the same way."""

    def __init__(self) -> None:
        self.cli = ScriptedCLI()
        self.cli.on_request = self._requested
        self.initialize = Initialize()
        self.interrupted = asyncio.Event()

    def _requested(self, message: ControlRequest) -> None:
        match message.client_request:
            case Initialize() as initialize:
                self.initialize = initialize
            case Interrupt():
                self.interrupted.set()
            case _:
                pass

    async def play(self, scene: Callable[[Player], Awaitable[str]]) -> None:
        while True:
            prompt = await self.cli.prompts.get()
            self.write("system", subtype="init", claude_code_version="2.1.325", model="scripted")
            try:
                async with asyncio.timeout(PLAYING_DEADLINE):
                    text = await scene(self)
            except Exception as error:  # noqa: BLE001 - the example must see it, not wait
                self.cli.exit(1, repr(error))
                return
            self._end(prompt, text)

    def _end(self, prompt: UserMessage, text: str) -> None:
        stopped = self.interrupted.is_set()
        self.write(
            "result",
            subtype="error_during_execution" if stopped else "success",
            is_error=stopped,
            terminal_reason="aborted_streaming" if stopped else "completed",
            result=text,
            num_turns=1,
            total_cost_usd=0.01,
            user_message_uuid=prompt.uuid,
        )

    def write(self, kind: str, **fields: Any) -> None:
        self.cli.write({"type": kind, "session_id": "s", **fields})

    def say(self, *blocks: JsonObject) -> None:
        for block in blocks:
            self.write("assistant", message={"role": "assistant", "content": [block]})

    async def ask(self, subtype: str, **fields: Any) -> JsonObject:
        _, answer = self.cli.ask(subtype, **fields)
        response = await answer
        assert response.subtype == "success", response.error
        return members(response.body.response_raw)

    async def ask_for(self, tool_name: str, **given: Any) -> JsonObject:
        self.say({"type": "tool_use", "id": "toolu_1", "name": tool_name, "input": given})
        return await self.ask(
            "can_use_tool", tool_name=tool_name, input=given, tool_use_id="toolu_1"
        )

    async def call_hook(self, event: str, **fields: Any) -> JsonObject:
        [hook] = msgspec.to_builtins(self.initialize.hooks)[event]
        [callback_id] = hook["hookCallbackIds"]
        told = {"hook_event_name": event, **fields}
        return await self.ask("hook_callback", callback_id=callback_id, input=told)

    async def call_server(self, method: str, **params: Any) -> JsonObject:
        [server] = msgspec.to_builtins(self.initialize.sdk_mcp_servers)
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = await self.ask("mcp_message", server_name=server, message=message)
        return answer["mcp_response"]["result"]


async def text_scene(player: Player) -> str:
    for word in ("Aye, ", "aye."):
        delta = {"type": "text_delta", "text": word}
        event = {"type": "content_block_delta", "index": 0, "delta": delta}
        player.write("stream_event", event=event)
    player.say({"type": "text", "text": "Aye, aye."})
    return "Aye, aye."


async def tool_scene(player: Player) -> str:
    answer = await player.ask_for("Bash", command="python -m pytest -q")
    return "They pass." if answer["behavior"] == "allow" else answer["message"]


async def held_scene(player: Player) -> str:
    await player.interrupted.wait()
    return ""


async def plan_scene(player: Player) -> str:
    answer = await player.ask_for("ExitPlanMode", plan="1. Add it.")
    assert answer["behavior"] == "deny"
    answer = await player.ask_for("ExitPlanMode", plan=f"1. Add it. 2. {answer['message']}")
    [update] = answer["updatedPermissions"]
    return f"Working in {update['mode']}."


async def question_scene(player: Player) -> str:
    colours = [{"label": "Red"}, {"label": "Blue"}]
    asked = [
        {"question": "Which colour?", "options": colours, "multiSelect": False},
        {"question": "Which parts?", "options": colours, "multiSelect": True},
    ]
    answer = await player.ask_for("AskUserQuestion", questions=asked)
    answers = answer["updatedInput"]["answers"]
    return f"{answers['Which colour?']}; {answers['Which parts?']}."


async def hook_scene(player: Player) -> str:
    context = await player.call_hook("UserPromptSubmit", prompt="Tidy up.")
    verdict = await player.call_hook(
        "PreToolUse", tool_name="Bash", tool_input={"command": "rm -rf ."}
    )
    specific = verdict["hookSpecificOutput"]
    assert specific["permissionDecision"] == "deny"
    told = context["hookSpecificOutput"]["additionalContext"]
    return f"{told} {specific['permissionDecisionReason']}"


async def mcp_scene(player: Player) -> str:
    await player.call_server("initialize", protocolVersion="2025-11-25")
    [listed] = (await player.call_server("tools/list"))["tools"]
    arguments = {"a": 2, "b": 40}
    result = await player.call_server("tools/call", name=listed["name"], arguments=arguments)
    return f"It is {result['content'][0]['text']}."


SCENES: dict[str, Callable[[Player], Awaitable[str]]] = {
    "held": held_scene,
    "hook": hook_scene,
    "mcp": mcp_scene,
    "plan": plan_scene,
    "question": question_scene,
    "text": text_scene,
    "tool": tool_scene,
}


# The reference


def options_section() -> str:
    return page("reference.md").split("\n## Options\n")[1].split("\n## ")[0]


def test_the_reference_lists_the_options_there_are():
    names = re.findall(r"^\| `(\w+)` \|", options_section(), re.MULTILINE)
    assert sorted(names) == sorted(field.name for field in dataclasses.fields(Options))


def test_the_reference_tells_the_defaults_of_the_options():
    text = options_section()
    for field in dataclasses.fields(Options):
        if field.default is not dataclasses.MISSING:
            row = re.search(rf"^\| `{field.name}` \|.*$", text, re.MULTILINE)
            assert row
            assert f"| `{field.default!r}` |" in row[0]


def test_every_public_member_of_the_client_is_in_the_reference():
    text = page("reference.md")
    names = [name for name in dir(Client) if not name.startswith("_")]
    assert [name for name in names if not is_documented(name, text)] == []


def test_every_argument_of_the_clients_methods_is_in_the_reference():
    text = page("reference.md")
    for name, method in inspect.getmembers(Client, inspect.iscoroutinefunction):
        if name.startswith("_"):
            continue
        row = re.search(rf"`{name}\(.*", text)
        assert row, name
        parameters = list(inspect.signature(method).parameters)[1:]
        assert [each for each in parameters if each not in row[0]] == [], name


def test_every_public_name_is_in_the_reference():
    text = page("reference.md")
    assert [name for name in pilothouse.__all__ if not is_documented(name, text)] == []


def test_the_tree_of_errors_is_the_one_in_the_code():
    _, tree, *_ = (errors.__doc__ or "").split("\n\n")
    assert f"```\n{textwrap.dedent(tree).strip()}\n```" in page("reference.md")


def help_text(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pilothouse", *arguments, "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
    )
    return done.stdout.strip()


def test_the_help_text_of_every_command_is_in_the_reference():
    text = page("reference.md")
    overview = help_text()
    listed = re.search(r"\{([a-z][a-z,-]*)\}", overview)
    assert listed
    assert f"```\n{overview}\n```" in text
    for command in listed[1].split(","):
        assert f"### pilothouse {command}\n\n```\n{help_text(command)}\n```" in text


# The protocol


def test_the_rows_of_each_section_are_numbered_in_order():
    numbers: dict[str, list[int]] = {}
    for section, number in ROW.findall(page("protocol.md")):
        numbers.setdefault(section, []).append(int(number))
    assert "".join(numbers) == "ABCDEFGH"
    for found in numbers.values():
        assert found == list(range(1, len(found) + 1))


def test_every_row_has_a_cell_for_each_version():
    text = page("protocol.md")
    rows = [line for line in text.splitlines() if ROW.match(line)]
    assert [row for row in rows if len(re.findall(r"(?<!\\)\|", row)) != 6] == []


def rows() -> set[str]:
    return {f"{section}{number}" for section, number in ROW.findall(page("protocol.md"))}


def remarks(source: str) -> Iterator[str]:
    """The comments of a module and the docstrings within it; its own only gives an overview."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    documented = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented):
            yield ast.get_docstring(node) or ""


def cited(path: Path) -> set[str]:
    """The rows a module of tests names, one by one or as `G1-G8`."""
    return {
        f"{section}{number}"
        for text in remarks(path.read_text())
        for section, first, last in CITED.findall(text)
        for number in range(int(first), int(last or first) + 1)
    }


@pytest.mark.parametrize("path", CITING, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_row_that_a_test_cites_exists(path: Path):
    assert cited(path) <= rows()


def test_every_row_is_shown_by_a_test_or_out_of_a_clients_reach():
    shown = set[str]().union(*map(cited, CITING))
    unmet = set(NOT_MET_BY_A_CLIENT)
    assert shown & unmet == set()
    assert sorted(rows() - shown - unmet) == []
    assert unmet <= rows()


def wire_names() -> Iterator[str]:
    """What the protocol's classes stand for on the wire: types, subtypes, hook events."""
    bases = (protocol.Message, protocol.Request, protocol.CLIRequest, protocol.HookInput)
    for name in protocol.__all__:
        value = getattr(protocol, name)
        if inspect.isclass(value) and issubclass(value, bases):
            tag = tag_of(value)
            if tag and tag != name:
                yield tag


def test_everything_on_the_wire_that_has_a_class_is_listed():
    text = page("protocol.md")
    assert sorted({name for name in wire_names() if f"| `{name}` |" not in text}) == []


def test_every_system_message_is_listed():
    text = page("protocol.md")
    classes = [each.__name__ for each in SystemMessage.__subclasses__()]
    assert classes
    assert [name for name in classes if f"`{name}`" not in text] == []


# The documents


DOCUMENT = re.compile(
    r"^\| [^|]+ \| (?P<status>done|different) \|(?P<how>[^|]*)\|(?P<test>[^|]*)\|$"
)
NAMED_TEST = re.compile(r"`(?P<file>[\w/]+\.py)::(?P<name>test_\w+)`")


def document_rows() -> list[re.Match[str]]:
    lines = page("documents.md").partition("\n## ")[2].splitlines()
    listed = [each for each in lines if each.startswith("| ") and not each.startswith("| item ")]
    rows = [row for row in map(DOCUMENT.match, listed) if row is not None]
    assert len(rows) == len(listed)
    return rows


def functions_of(file: str) -> set[str]:
    body = ast.parse((ROOT / "tests" / file).read_text()).body
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in body if isinstance(node, functions)}


def test_every_test_that_the_documents_page_names_exists():
    named = [row for row in map(NAMED_TEST.search, page("documents.md").splitlines()) if row]
    known = {file: functions_of(file) for file in {row["file"] for row in named}}
    assert [row[0] for row in named if row["name"] not in known[row["file"]]] == []


def test_every_item_of_the_documents_has_its_test_or_its_reason():
    for row in document_rows():
        if row["status"] == "done":
            assert NAMED_TEST.search(row["test"]), row[0]
        else:
            assert row["how"].strip(), row[0]


def test_the_items_of_the_documents_are_counted():
    statuses = [row["status"] for row in document_rows()]
    counted = [statuses.count(each) for each in ("done", "different")]
    told = re.search(r"^\| all \| (\d+) \| (\d+) \| (\d+) \|$", page("documents.md"), re.M)
    assert told
    assert [int(each) for each in told.groups()] == [len(statuses), *counted]


# Other lists and links


@pytest.mark.parametrize("name", ["migrating.md", "protocol.md"])
def test_every_protocol_class_that_is_named_exists(name: str):
    named = re.findall(r"`(?:pilothouse\.)?protocol\.([A-Z]\w+)`", page(name))
    assert [each for each in named if each != "X" and not hasattr(protocol, each)] == []


def test_every_name_that_the_migration_leads_to_exists():
    text = page("migrating.md")
    attributes = {*dir(Client), *vars(Client())}
    assert [each for each in re.findall(r"`Client\.(\w+)", text) if each not in attributes] == []


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", ANY_FENCE.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_relative_link_leads_somewhere(path: Path):
    for target in re.findall(r"\]\(([^)\s]+)\)", ANY_FENCE.sub("", path.read_text())):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        leads_to = (path.parent / file).resolve() if file else path
        assert leads_to.exists(), target
        assert not anchor or anchor in anchors(leads_to), target


@pytest.mark.parametrize("room", ["client", "faces/mcp", "remote"])
def test_the_design_names_every_room_and_every_module_of_some(room: str):
    text = page("design.md")
    source = ROOT / "src/pilothouse"
    rooms = [path.parent.name for path in source.glob("*/__init__.py")]
    modules = [path.stem for path in source.glob(f"{room}/*.py") if path.stem != "__init__"]
    assert [room for room in rooms if f"  {room}/ " not in text] == []
    assert [module for module in modules if f"`{module}`" not in text] == []


@pytest.mark.parametrize("table", [machine, cli_phase], ids=["states", "phases"])
def test_the_design_draws_the_tables_as_they_are(table: types.ModuleType):
    assert f"```mermaid\n{table.draw()}```" in (ROOT / "docs/design.md").read_text()


def test_the_readme_leads_to_every_page():
    readme = (ROOT / "README.md").read_text()
    assert [path.name for path in DOCS.glob("*.md") if f"(docs/{path.name})" not in readme] == []
