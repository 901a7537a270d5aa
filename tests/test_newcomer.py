"""What somebody new is told to type: README and tutorial, line by line, in a home that is new.

A block of shell lines says in a comment before its fence how it is tried: `type` is typed line by
line after the start, `serve` begins with a line that goes on in a terminal of its own, `install`
needs the wheels that `scripts/prove` fetches; `scripts` is what runs these tests, and the start.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.docs import DOCS, EXAMPLES, Example, ShellBlock, shell_blocks
from tests.support.newcomer import Newcomer, copy_tree, install_at_once, install_offline
from tests.support.places import ROOT
from tests.support.server.machine import Machine
from tests.support.waiting import DEADLINE

PAGES = [ROOT / "README.md", DOCS / "tutorial.md"]
PROJECTS = sorted(ROOT.glob("examples/*/README.md"))
INSTALLING = 180
BLOCKS = [each for path in [*PAGES, *PROJECTS] for each in shell_blocks(path)]
OF_PROJECTS = [each for path in PROJECTS for each in shell_blocks(path)]
STARTED = "serving at http://127.0.0.1:8137"
SHOWN_ON = {
    path.name: [each for each in EXAMPLES if each.runs and each.page == path.name] for path in PAGES
}
SHOWN = [each for examples in SHOWN_ON.values() for each in examples]


def blocks(how: str) -> list[ShellBlock]:
    return [each for each in BLOCKS if each.how == how]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree whose environment is made, with a project in it that has a test."""
    tree = copy_tree(tmp_path_factory.mktemp("newcomer") / "pilothouse")
    install_at_once(tree)
    return tree


@pytest.fixture
async def newcomer(tmp_path: Path, tree: Path) -> AsyncIterator[Newcomer]:
    newcomer = Newcomer(Machine(tmp_path), tree)
    try:
        yield newcomer
    finally:
        await newcomer.aclose()


def test_every_shell_line_is_tried():
    assert [str(each) for each in BLOCKS if not each.how] == []
    assert {each.how for each in BLOCKS} == {"install", "scripts", "serve", "type"}


@pytest.mark.parametrize("block", blocks("serve"), ids=str)
async def test_a_server_is_started_and_asked_as_the_page_says(
    block: ShellBlock, newcomer: Newcomer
):
    first, *rest = block.lines
    await newcomer.start_beside(first, STARTED)
    for line in rest:
        if "/events/stream" in line:
            await newcomer.watch(line, "turn.ended")
        elif line.startswith("curl") and "/questions " in line:
            await look_until_asked(newcomer, line)
        else:
            assert "urn:pilothouse:" not in await newcomer.type(line)
    await newcomer.type(".venv/bin/pilothouse stop --all")


async def look_until_asked(newcomer: Newcomer, line: str) -> None:
    """A CLI takes its time to start; who sees no question looks again."""
    async with asyncio.timeout(DEADLINE):
        while '"id":' not in await newcomer.type(line):
            pass


@pytest.mark.parametrize("block", blocks("type"), ids=str)
async def test_each_line_does_its_work(block: ShellBlock, newcomer: Newcomer):
    await newcomer.type('PATH="$PATH:$PWD/.venv/bin"')
    for line in block.lines:
        for name in re.findall(r"python (\w+\.py)", line):
            save(newcomer.tree / name, SHOWN_ON[block.path.name][0])
        shown = await newcomer.type(line)
        assert shown or line.startswith(("PATH=", "export "))


@pytest.mark.parametrize("example", SHOWN, ids=str)
async def test_an_example_runs_on_the_simulator(example: Example, newcomer: Newcomer):
    work = newcomer.machine.folder / "work"
    work.mkdir()
    (work / "test_of_theirs.py").write_text("def test_it():\n    assert True\n")
    save(work / "shown.py", example)
    await newcomer.type(f'cd {work}; PATH="{newcomer.tree}/.venv/bin:$PATH"')
    await newcomer.type("export CLAUDE_CODE_PATH=pilothouse-sim")
    if "\ndef test_" in example.code:
        said = await newcomer.type("python -m pytest -p pilothouse_sim.plugin shown.py")
    else:
        said = await newcomer.type("python shown.py")
    assert example.simulated in said


def save(path: Path, example: Example) -> None:
    path.write_text(example.code)


# The long forms: what is installed

INSTALLING_LINES = [
    line for each in blocks("install") if each not in OF_PROJECTS for line in each.lines
]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tools") / "env"


@pytest.fixture
async def installer(tmp_path: Path, tools: Path) -> AsyncIterator[Newcomer]:
    """Who has a new tree, too, and pipx and uv."""
    machine = Machine(tmp_path)
    install_offline(machine.env, tools)
    newcomer = Newcomer(machine, copy_tree(tmp_path / "pilothouse"))
    try:
        yield newcomer
    finally:
        await newcomer.aclose()


@pytest.mark.slow
async def test_the_start_script_installs_what_it_needs(installer: Newcomer):
    await installer.start_beside("./scripts/start", STARTED, INSTALLING)
    assert STARTED in await installer.type(".venv/bin/pilothouse status")


@pytest.mark.slow
@pytest.mark.parametrize("line", INSTALLING_LINES)
async def test_a_line_that_installs_works_as_it_stands(line: str, installer: Newcomer):
    if " serve" in line:
        await installer.start_beside(line, STARTED, INSTALLING)
        return
    await installer.type(line, INSTALLING)
    await installer.type('PATH="$HOME/.local/bin:$PWD/my-env/bin"')
    assert "pilothouse " in await installer.type("pilothouse --version")
    assert "hello.txt" in await installer.type('pilothouse-sim -p "write a file"')


@pytest.mark.slow
@pytest.mark.parametrize("block", OF_PROJECTS, ids=str)
async def test_an_example_project_is_installed_and_tested_as_it_says(
    block: ShellBlock, installer: Newcomer
):
    await installer.type(f"cd {block.path.parent.relative_to(ROOT)}")
    *lines, last = block.lines
    # What waits for somebody shows the command for them.
    waits = "main()" in last
    said = [await installer.type(each, INSTALLING) for each in (lines if waits else block.lines)]
    assert " passed" in said[-1]
    if waits:
        await installer.watch(last, "--sdk-url")
