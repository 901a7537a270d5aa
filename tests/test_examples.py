"""The example projects, and the tests and scenarios that the documents show.

Here they run from the tree; `scripts/try-examples` runs the projects with the wheel alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from pilothouse_sim import (
    AnyReply,
    ApiError,
    Broken,
    Computed,
    Reply,
    Scenario,
    Step,
    Usage,
    When,
)
from pilothouse_sim.cassettes import read
from pilothouse_sim.simulator.faults import Faults
from pilothouse_sim.simulator.flags import LaunchFlags
from tests.support.docs import EXAMPLES, Example, page
from tests.support.places import ROOT
from tests.support.versions import CACHE, NEWEST

PROJECTS = sorted(path.parent for path in ROOT.glob("examples/*/pyproject.toml"))
RECORDING = [each for each in PROJECTS if (each / "tests/cassettes").is_dir()]
SHOWN = [each for each in EXAMPLES if "\ndef test_" in each.code]
PLUGINS = ("-p", "no:pilothouse", "-p", "pilothouse_sim.plugin")
# What a user need not have.
WITHOUT = ("-p", "no:asyncio", "-p", "no:anyio", "-p", "no:cacheprovider")
DEADLINE = 200

# Flags that are read and change nothing, as the page says of all it does not name.
IDLE = {"fallback_model", "max_thinking_tokens", "append_system_prompt", "agent", "debug_file"}
OWN = {"cassette", "speed"}


def run_pytest(folder: Path, *arguments: str, **env: str) -> str:
    command = [sys.executable, "-m", "pytest", *PLUGINS, *WITHOUT, *arguments]
    given = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**given, **env},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_the_tests_of_an_example_pass_as_in_ci(project: Path):
    said = run_pytest(project, CI="true")
    assert "skipped" not in said


@pytest.mark.parametrize("project", RECORDING, ids=lambda path: path.name)
def test_the_cassettes_of_an_example_are_redacted_and_of_the_newest_cli(project: Path):
    files = list(project.glob("tests/cassettes/*.jsonl"))
    assert files
    for file in files:
        cassette = read(file)
        assert cassette.header.redacted
        assert cassette.cli_version == NEWEST
        assert cassette.header.home == "/home/user"


@pytest.mark.parametrize("example", SHOWN, ids=str)
def test_the_tests_in_the_documents_pass(example: Example, tmp_path: Path):
    (tmp_path / "test_shown.py").write_text(example.code)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    run_pytest(tmp_path, f"--pilothouse-cli={CACHE / NEWEST / 'claude'}")


def test_every_fixture_is_shown_at_work():
    shown = "".join(each.code for each in SHOWN)
    assert [name for name in ("simulated_cli", "real_cli", "cassette") if name not in shown] == []


# The simulator's page


def tags(kinds: object) -> list[str]:
    return [str(each.__struct_config__.tag) for each in get_args(kinds) if each is not Computed]


def test_the_scenario_in_the_documents_is_one():
    [shown] = re.findall(r"^```json\n(.*?)^```$", page("howto-simulator.md"), re.M | re.S)
    scenario = msgspec.json.decode(shown, type=Scenario)
    kinds = {type(each) for each in scenario.replies}
    assert kinds == {Reply, ApiError, Broken}


def test_every_part_of_a_scenario_is_documented():
    text = page("howto-simulator.md")
    names = [*tags(AnyReply), *tags(Step)]
    for kind in (Reply, ApiError, Broken, *get_args(Step), Usage, When):
        names += kind.__struct_fields__
    assert [name for name in names if f"`{name}`" not in text] == []


def test_every_fault_is_documented():
    names = [name for name in Faults.__struct_encode_fields__ if name != "crash-signal"]
    text = page("howto-simulator.md")
    assert [name for name in names if not re.search(rf"^\| `{name}[=`]", text, re.M)] == []


def test_every_flag_that_does_something_is_documented():
    fields = set(LaunchFlags.__struct_fields__) - IDLE - OWN - {"prompt"}
    flags = {"--" + name.strip("_").replace("_", "-") for name in fields}
    section = page("howto-simulator.md").split("\n## Flags\n")[1].split("\nThe others")[0]
    assert set(re.findall(r"`(--[a-z-]+)`", section)) == flags


def test_every_setting_of_the_simulator_is_documented():
    sources = "".join(
        path.read_text() for path in ROOT.glob("src/pilothouse_sim/simulator/**/*.py")
    )
    settings = set(re.findall(r"PILOTHOUSE_[A-Z_]+", sources)) - {"PILOTHOUSE_VERSION"}
    for name in ("howto-simulator.md", "reference.md"):
        assert [each for each in settings if f"`{each}`" not in page(name)] == []


def test_every_public_name_for_tests_is_in_the_reference():
    import pilothouse_sim

    text = page("reference.md")
    names = pilothouse_sim.__all__
    assert [name for name in names if not re.search(rf"`[^`]*\b{name}\b[^`]*`", text)] == []
