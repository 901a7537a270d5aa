"""The pytest plugin, in test runs of its own as a user's project would have them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import pilothouse_sim.clis
import pilothouse_sim.served_model
from tests.support.versions import CACHE, NEWEST

# What is imported above is one and the same in every run within this process.
pytest_plugins = ["pytester"]

REAL = CACHE / NEWEST / "claude"

# Not by its entry point: the tree is on the path, not installed.
PLUGIN = ("-p", "no:pilothouse", "-p", "pilothouse_sim.plugin", "-p", "no:cacheprovider")
NO_ASYNC = ("-p", "no:asyncio", "-p", "no:anyio")


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Runs one module of tests in a pytest of its own."""
    for name in ("CI", "CLAUDE_CODE_PATH", "PILOTHOUSE_CACHE"):
        monkeypatch.delenv(name, raising=False)

    def run_module(code: str, *arguments: str, plugins: Sequence[str] = NO_ASYNC):
        pytester.makepyfile(test_it=HEAD + code)
        # Faster than a new process, and what the fixtures start are processes anyway.
        return pytester.runpytest_inprocess(*PLUGIN, *plugins, *arguments)

    return run_module


HEAD = """
import asyncio, os, subprocess
import pytest
from pilothouse import Allow, Client, Deny, SessionEnded, run
from pilothouse_sim import *

QUIET = dict(stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

async def allow(request):
    return Allow()
"""


def test_a_simulated_cli_plays_what_the_test_says(run):
    result = run("""
def test_it(simulated_cli):
    cli = simulated_cli(reply("Ahoy."), reply("Twice."))
    assert run("Hello", cli.options()).text == "Ahoy."
    assert [request.last for request in cli.requests] == ["Hello"]
    assert cli.unscripted == []
""")
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "told",
    ['Scenario(replies=[reply("Ahoy.")])', 'reply("Ahoy.")', '"Ahoy."', "file(tmp_path)"],
)
def test_a_scenario_is_told_in_four_ways(run, told):
    result = run(f"""
def file(folder):
    save(Scenario(replies=[reply("Ahoy.")]), folder / "talk.json")
    return folder / "talk.json"

def test_it(simulated_cli, tmp_path):
    assert run("Hello", simulated_cli({told}).options()).text == "Ahoy."
""")
    result.assert_outcomes(passed=1)


def test_without_a_scenario_the_prompt_picks_a_scene(run):
    result = run("""
def test_it(simulated_cli):
    cli = simulated_cli()
    assert run("write a file", cli.options(on_permission=allow)).outcome == "finished"
    assert (cli.cwd / "hello.txt").exists()
""")
    result.assert_outcomes(passed=1)


def test_the_path_alone_is_enough_and_keeps_out_of_the_users_home(run, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    result = run("""
def test_it(simulated_cli):
    cli = simulated_cli("Ahoy.")
    command = [cli.path, "-p", "Hello"]
    done = subprocess.run(command, cwd=cli.cwd, **QUIET)
    assert done.stdout == "Ahoy.\\n"
    assert list(cli.home.glob(".claude/projects/*/*.jsonl"))
""")
    result.assert_outcomes(passed=1)
    assert list(tmp_path.iterdir()) == []


def test_a_test_waits_for_a_gate_and_opens_it(run):
    result = run("""
def test_it(simulated_cli):
    cli = simulated_cli(reply("Half ", gate("middle"), "whole."))

    async def main():
        async with asyncio.timeout(60), Client(cli.options()) as client:
            prompt = await client.say("Go on.")
            await cli.reached("middle")
            assert not prompt.answered
            cli.release("middle")
            return await prompt

    assert asyncio.run(main()).text == "Half whole."

def test_without_an_event_loop(simulated_cli):
    cli = simulated_cli(reply("Half ", gate("middle"), "whole."))
    command = [cli.path, "-p", "Go on."]
    pipes = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    with subprocess.Popen(command, cwd=cli.cwd, **pipes) as process:
        cli.wait_reached("middle")
        cli.release("middle")
        assert process.communicate()[0] == b"Half whole.\\n"
""")
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("mark", "plugins"),
    [
        ("asyncio", ("-p", "no:anyio", "-o", "asyncio_default_fixture_loop_scope=function")),
        ("anyio", ("-p", "no:asyncio")),
    ],
)
def test_asynchronous_tests_use_it_too(run, mark, plugins):
    result = run(
        f"""
@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.{mark}
async def test_it(simulated_cli):
    cli = simulated_cli(reply("Half ", gate("middle"), "whole."))
    async with Client(cli.options()) as client:
        prompt = await client.say("Go on.")
        await cli.reached("middle")
        cli.release("middle")
        assert (await prompt).text == "Half whole."
""",
        plugins=plugins,
    )
    result.assert_outcomes(passed=1)


def test_a_gate_that_is_not_reached_says_how_far_the_session_came(run):
    result = run("""
def test_it(simulated_cli):
    cli = simulated_cli(reply(gate("first"), "Ahoy."))
    cli.release("first")
    run("Hello", cli.options())
    with pytest.raises(GateNotReached) as caught:
        cli.wait_reached("second", deadline=0)
    assert str(caught.value) == (
        "the gate 'second' was not reached in 0 s; gates reached: first; "
        "the model was asked 1 times, last: 'Hello'"
    )
    with pytest.raises(GateNotReached):
        asyncio.run(cli.reached("third", deadline=0))
""")
    result.assert_outcomes(passed=1)


def test_a_scenario_that_is_too_short_fails_the_test(run):
    result = run("""
def test_it(simulated_cli):
    cli = simulated_cli(reply(tool("Bash", command="pwd", description="Where")))
    assert run("Where are we?", cli.options()).outcome == "finished"
""")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*the scenario has no reply to 1 request(s) of the session:*"])
    result.stdout.fnmatch_lines(["*strict=False*"])


def test_it_may_be_too_short_on_demand(run):
    result = run("""
def test_it(simulated_cli):
    cli = simulated_cli("Only this.", strict=False)
    run("One", cli.options(session_id="6ee1c8ac-3ee0-4a9c-8d0e-9cbd8a0a1d3e"))
    again = cli.options(resume="6ee1c8ac-3ee0-4a9c-8d0e-9cbd8a0a1d3e")
    assert run("Two", again).text == "The scenario ends here."
    assert [request.last for request in cli.unscripted] == ["Two"]
""")
    result.assert_outcomes(passed=1)


def test_a_bad_scenario_says_what_is_wrong(run):
    result = run("""
def test_a_file(simulated_cli, tmp_path):
    (tmp_path / "bad.json").write_text('{"replies": [{"type": "reply", "steps": [{"type": "x"}]}]}')
    simulated_cli(tmp_path / "bad.json")

def test_code(simulated_cli):
    simulated_cli(computed(lambda request: reply("Ahoy.")))

def test_a_mixture(simulated_cli, tmp_path):
    simulated_cli(tmp_path, "Ahoy.")
""")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["*ScenarioError: *bad.json: not a scenario: *replies*steps*"])
    result.stdout.fnmatch_lines(["*ScenarioError: *a computed reply is code*"])
    result.stdout.fnmatch_lines(["*TypeError: give one scenario*"])


def test_a_session_goes_wrong_where_the_test_says(run):
    result = run("""
def test_it(simulated_cli):
    cli = simulated_cli("Ahoy.", "Ahoy again.")
    cli.faults(crash=2, crash_signal=9)
    with pytest.raises(SessionEnded):
        run("Hello", cli.options())
    cli.faults()
    assert run("Hello", cli.options()).text == "Ahoy."

def test_a_slow_one_that_also_talks_nonsense(simulated_cli):
    cli = simulated_cli("Ahoy.")
    cli.faults(delay=0.001, garbage=3, long=4, ignore_eof=True)
    assert run("Hello", cli.options(close_grace=0.1)).text == "Ahoy."
    assert cli.environment["PILOTHOUSE_FAULTS"] == "delay=0.001,garbage=3,long=4,ignore-eof"
""")
    result.assert_outcomes(passed=2)


def test_two_simulated_clis_of_one_test_do_not_meet(run):
    result = run("""
def test_it(simulated_cli, tmp_path):
    one, two = simulated_cli("One."), simulated_cli("Two.", cwd=tmp_path)
    assert two.cwd == tmp_path
    assert [run("Hello", cli.options()).text for cli in (two, one)] == ["Two.", "One."]
    assert len(one.requests) == len(two.requests) == 1
""")
    result.assert_outcomes(passed=1)


# Real CLIs


def test_a_real_cli_is_called_like_a_simulated_one(run):
    result = run(
        """
@pytest.fixture(params=["simulated_cli", "real_cli"])
def cli(request):
    return request.getfixturevalue(request.param)

def test_it(cli):
    cli = cli(reply(tool("Bash", command="touch made", description="Make it")),
              reply("Done", gate("end"), "."))

    async def main():
        async with asyncio.timeout(60), Client(cli.options(on_permission=allow)) as client:
            prompt = await client.say("Make it.")
            await cli.reached("end")
            cli.release("end")
            return await prompt

    assert asyncio.run(main()).text == "Done."
    assert (cli.cwd / "made").exists()
    assert len(cli.requests) == 2
    with pytest.raises(GateNotReached, match="gates reached: end; the model was asked 2 times"):
        cli.wait_reached("nowhere", deadline=0)
""",
        f"--pilothouse-cli={REAL}",
    )
    result.assert_outcomes(passed=2)


def test_a_real_cli_sees_nothing_of_the_environment_it_is_started_in(run, monkeypatch):
    monkeypatch.setenv("SECRET_OF_MINE", "s3cret")
    monkeypatch.setenv("CLAUDE_CODE_PATH", str(REAL))
    result = run("""
def test_it(real_cli):
    cli = real_cli(reply(tool("Bash", command="env | sort", description="Look")), "Seen.",
                   env={"GIVEN": "by-the-test"})
    command = [cli.path, "-p", "Look.", "--allowedTools", "Bash"]
    done = subprocess.run(command, cwd=cli.cwd, **QUIET)
    assert done.stdout == "Seen.\\n"
    seen = cli.requests[-1].last
    assert "GIVEN=by-the-test" in seen
    assert f"HOME={cli.home}" in seen
    assert "s3cret" not in seen
""")
    result.assert_outcomes(passed=1)


def test_without_a_real_cli_the_test_is_skipped_with_the_reason(run):
    result = run("def test_it(real_cli): real_cli('Ahoy.')", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no real CLI: name one with --pilothouse-cli=PATH*"])


def test_a_cli_that_cannot_be_fetched_is_a_reason_too(run, monkeypatch, tmp_path):
    monkeypatch.setenv("PILOTHOUSE_CACHE", str(tmp_path))
    result = run("def test_it(real_cli): real_cli('Ahoy.', version='1.0.0')", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no wheel is known for CLI 1.0.0*"])


def test_a_fetched_cli_is_taken_from_the_cache(run, monkeypatch):
    monkeypatch.setenv("PILOTHOUSE_CACHE", str(CACHE))
    result = run(f"""
def test_it(real_cli):
    assert str(real_cli("Ahoy.").binary) == {str(REAL)!r}
""")
    result.assert_outcomes(passed=1)


def test_a_cli_that_is_not_there_fails(run, tmp_path):
    result = run(
        "def test_it(real_cli): real_cli('Ahoy.')", f"--pilothouse-cli={tmp_path / 'none'}"
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*there is no CLI that can be run at *none*"])


def test_a_scripted_model_serves_while_the_test_runs(run):
    result = run("""
import json
import urllib.request

def test_it(scripted_model):
    model = scripted_model("Ahoy.")
    body = {"model": "m", "max_tokens": 9, "tools": [{"name": "Bash"}],
            "messages": [{"role": "user", "content": "Hello"}]}
    asked = urllib.request.Request(f"{model.url}/v1/messages", json.dumps(body).encode())
    with urllib.request.urlopen(asked) as answer:
        assert json.load(answer)["content"] == [{"type": "text", "text": "Ahoy."}]
    assert [request.prompt for request in model.requests] == ["Hello"]
    assert model.unscripted == []
""")
    result.assert_outcomes(passed=1)


# Cassettes

TALK = """
def test_it(cassette):
    cli = cassette("talk", reply(tool("Bash", command="echo hi", description="Say")), "Said.")

    async def main():
        async with asyncio.timeout(60), Client(cli.options(on_permission=allow)) as client:
            return await client.ask("Say hi.")

    assert asyncio.run(main()).text == "Said."
    print("recording" if cli.recording else "replaying")
"""


def test_a_cassette_is_recorded_once_and_replayed_after(run, pytester):
    file = pytester.path / "cassettes" / "talk.jsonl"
    first = run(TALK, "-s", f"--pilothouse-cli={REAL}")
    first.assert_outcomes(passed=1)
    first.stdout.fnmatch_lines(["*recording*"])
    recorded = file.read_text()
    assert str(pytester.path) not in recorded
    second = run(TALK, "-s", f"--pilothouse-cli={REAL}")
    second.assert_outcomes(passed=1)
    second.stdout.fnmatch_lines(["*replaying*"])
    assert file.read_text() == recorded
    third = run(TALK, "-s", f"--pilothouse-cli={REAL}", "--pilothouse-record")
    third.assert_outcomes(passed=1)
    assert file.read_text() != recorded


def test_the_users_own_cli_is_recorded_in_the_users_environment(run, pytester, monkeypatch):
    # A simulated CLI stands in for the one that is signed in.
    monkeypatch.setenv("OF_MINE", "kept")
    result = run(
        """
def test_it(simulated_cli, cassette, monkeypatch):
    own = simulated_cli(reply(tool("Bash", command="echo $OF_MINE $MORE")), "Said.")
    monkeypatch.setenv("CLAUDE_CODE_PATH", str(own.path))
    cli = cassette("talk", env={"MORE": "given"})
    assert cli.recording
    assert run("Say hi.", cli.options(allowed_tools=["Bash"])).text == "Said."
    assert "kept given" in own.requests[-1].last
"""
    )
    result.assert_outcomes(passed=1)
    assert (pytester.path / "cassettes" / "talk.jsonl").exists()


def test_ci_does_not_record(run, monkeypatch, pytester):
    monkeypatch.setenv("CI", "true")
    result = run(TALK, f"--pilothouse-cli={REAL}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*there is no cassette *talk.jsonl, and CI does not record: run*"])
    assert not (pytester.path / "cassettes").exists()


@pytest.mark.parametrize("arguments", [(), ("--pilothouse-record",)])
def test_nothing_is_recorded_unless_a_cli_is_named(run, arguments):
    result = run(TALK, *arguments)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*no CLI is named that could be recorded: run*--pilothouse-cli=PATH*"]
    )


def test_a_test_that_fails_leaves_no_cassette(run, pytester):
    result = run(TALK + "    assert False\n", f"--pilothouse-cli={REAL}")
    result.assert_outcomes(failed=1)
    assert not (pytester.path / "cassettes").exists()


def test_a_cassette_is_one_session(run, pytester):
    result = run(
        """
def test_it(cassette):
    cli = cassette("talk", "One.", "Two.")
    for _ in range(2):
        run("Hello", cli.options())
""",
        f"--pilothouse-cli={REAL}",
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*a cassette is one session*"])
    assert not (pytester.path / "cassettes").exists()


# What it costs, and its names


def test_a_run_that_uses_no_fixture_loads_nothing_more():
    code = "import sys, pilothouse_sim.plugin; print(*sys.modules)"
    plain = "import sys, pytest; print(*sys.modules)"
    loaded, before = (
        set(
            subprocess.run(
                [sys.executable, "-c", each], capture_output=True, text=True, check=True
            ).stdout.split()
        )
        for each in (code, plain)
    )
    assert {each for each in loaded - before if not each.startswith("pilothouse")} == set()
    assert "pilothouse_sim.scenario" not in loaded


def test_importing_the_package_imports_neither_pytest_nor_a_decoder():
    code = "import sys, pilothouse_sim; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"pytest", "asyncio", "msgspec"} & set(done.stdout.split()) == set()


def test_every_public_name_of_the_testing_package_resolves():
    assert list(pilothouse_sim.__all__) == sorted(set(pilothouse_sim.__all__))
    assert set(pilothouse_sim._HOME_OF) == set(pilothouse_sim.__all__)
    for name in pilothouse_sim.__all__:
        assert getattr(pilothouse_sim, name) is not None
        assert name in dir(pilothouse_sim)


def test_an_unknown_name_of_the_testing_package_is_an_attribute_error():
    name = "no_such_name"
    with pytest.raises(AttributeError, match=name):
        getattr(pilothouse_sim, name)


def test_the_entry_point_leads_to_the_plugin():
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\npilothouse = "pilothouse_sim.plugin"\n' in project
