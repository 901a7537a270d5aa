"""One prompt as an argument, and its result as text or JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.scenario import AnyReply, ApiError, Scenario, Script, reply, tool
from pilothouse_sim.simulator.flags import BadFlag, parse
from pilothouse_sim.simulator.launch_checks import check
from pilothouse_sim.simulator.model import Model
from pilothouse_sim.simulator.print_mode import PrintEnd
from pilothouse_sim.simulator.process import run
from pilothouse_sim.simulator.wire_ends import WireListener

LOOK = reply(tool("Bash", command="ls"))


class Pipe:
    """What stands behind stdin and stdout."""

    def __init__(self, piped: bytes) -> None:
        self.piped = piped
        self.written = b""

    async def start(self, listener: WireListener) -> None:
        listener.data_received(self.piped)
        listener.eof_received()

    def write(self, data: bytes) -> None:
        self.written += data

    async def aclose(self) -> None:
        pass


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / ".claude"))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return tmp_path


async def shoot(
    *argv: str, piped: bytes = b"", replies: tuple[AnyReply, ...] = (reply("Hi."),)
) -> tuple[int, str]:
    launch = parse(["-p", *argv])
    pipe = Pipe(piped)
    model = Model(Script(Scenario(replies=list(replies))), Path.cwd())
    return await run(launch, PrintEnd(launch, pipe), model), pipe.written.decode()


def asked(place: Path) -> Any:
    request = json.loads((place / "requests.jsonl").read_text().splitlines()[0])
    return request["messages"][0]["content"]


async def test_text_is_the_answer_and_a_newline() -> None:
    assert await shoot("Hello.") == (0, "Hi.\n")


async def test_a_newline_is_not_doubled() -> None:
    assert await shoot("Hello.", replies=(reply("Hi.\n"),)) == (0, "Hi.\n")


@pytest.mark.parametrize(
    ("prompt", "piped", "said"),
    [("Hello.", b"", "Hello."), ("", b"Piped.\n", "Piped.\n"), ("Both.", b"\xff\n", "Both.\n�\n")],
)
async def test_what_is_piped_in_stands_behind_the_prompt(
    place: Path, prompt: str, piped: bytes, said: str
) -> None:
    await shoot(prompt, piped=piped)
    assert asked(place) == said


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("", "Error: Input must be provided either through stdin or as a prompt argument"),
        (" \t", "Error: Input contained only whitespace. Provide a prompt with text"),
    ],
)
async def test_without_words_there_is_nothing_to_do(
    capsys: pytest.CaptureFixture[str], prompt: str, words: str
) -> None:
    assert await shoot(prompt) == (1, "")
    assert capsys.readouterr().err.startswith(words)


async def test_json_is_the_result_alone() -> None:
    code, written = await shoot("Hello.", "--output-format=json")
    result = json.loads(written)
    assert (code, result["type"], result["result"]) == (0, "result", "Hi.")
    assert "model_usage_since_last_result" not in result


async def test_verbose_json_is_one_list_of_all_messages() -> None:
    _, written = await shoot("Hello.", "--output-format=json", "--verbose")
    messages = json.loads(written)
    assert [each["type"] for each in messages] == ["system", "assistant", "result"]


async def test_an_error_of_the_api_is_the_answer() -> None:
    code, written = await shoot("Hello.", replies=(ApiError(status=403, message="no"),))
    assert (code, written) == (1, "Failed to authenticate. API Error: 403 no\n")


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--max-turns=1", "Error: Reached max turns (1)"),
        ("--max-budget-usd=0.0001", "Error: Exceeded USD budget (0.0001)"),
    ],
)
async def test_a_limit_is_told_in_place_of_an_answer(flag: str, words: str) -> None:
    assert await shoot("Hello.", flag, replies=(LOOK, reply("Never."))) == (1, words)


# What is refused before anything starts


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--input-format=stream-json"], "--input-format=stream-json requires output-format"),
        (["--output-format=stream-json"], "--output-format=stream-json requires --verbose"),
        (["--replay-user-messages"], "--replay-user-messages requires both"),
        (["--include-partial-messages"], "--include-partial-messages requires --print"),
        (["--session-id=x"], "Error: Invalid session ID. Must be a valid UUID."),
        (["--setting-sources=user,x"], "Invalid setting source: x. Valid options are: user, pr"),
        (["--settings=x.json"], "Error: Settings file not found: /"),
        (["--mcp-config={x"], "Error: Invalid MCP configuration:\nMCP config file not found: /"),
        (["--mcp-config={}"], "mcpServers: Invalid input: expected record, received undefined"),
        (["--system-prompt-file=x"], "Error: System prompt file not found: /"),
        (["--append-system-prompt-file=/x"], "Error: Append system prompt file not found: /x"),
        (["--json-schema={"], "Error: --json-schema is not valid JSON"),
    ],
)
def test_flags_that_cannot_be_followed_are_refused(argv: list[str], words: str) -> None:
    with pytest.raises(BadFlag) as caught:
        check(parse(["-p", "x", *argv]))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--output-format=yaml"], "argument 'yaml' is invalid. Allowed choices are text, json, s"),
        (["--permission-mode", "x"], "option '--permission-mode <mode>' argument 'x' is invalid."),
        (
            ["--max-turns=x"],
            "option '--max-turns <turns>' argument 'x' is invalid. must be a number",
        ),
        (["--max-budget-usd=0"], "--max-budget-usd must be a positive number greater than 0"),
        (["--task-budget=x"], "--task-budget must be a positive integer"),
        (["--verbose=3"], "unknown option '--verbose=3'\n(Did you mean --verbose?)"),
        (["--nonsense=3"], "error: unknown option '--nonsense=3'"),
        (["--max-turns"], "error: option '--max-turns <turns>' argument missing"),
    ],
)
def test_values_that_a_flag_cannot_have_are_refused(argv: list[str], words: str) -> None:
    with pytest.raises(BadFlag) as caught:
        parse(argv)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("argv", "read", "value"),
    [
        (["--max-turns=2.5"], lambda launch: launch.max_turns, 2),
        (["--permission-mode=default"], lambda launch: launch.permission_mode, "default"),
        (["--permission-mode=manual"], lambda launch: launch.permission_mode, "default"),
    ],
)
def test_some_values_are_taken_for_others(
    argv: list[str], read: Callable[[Any], Any], value: object
) -> None:
    assert read(parse(argv)) == value
