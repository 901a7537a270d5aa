"""The recorded streams are data for other tests; these tests guard the data itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.real_cli import CLI_WHEELS, NODE_CLIS
from tests.support.versions import EVERY, Since, can

STREAMS = Path(__file__).parent.parent / "data" / "streams"
RECORDINGS = sorted(STREAMS.glob("*/*.jsonl"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_recording_is_complete_and_tells_nothing_of_its_machine(path: Path) -> None:
    data = path.read_text()
    lines = [json.loads(line) for line in data.splitlines()]
    assert any(line["type"] == "result" for line in lines)
    assert not re.search(r"127\.0\.0\.1|sk-ant-|/root\b|pilothouse-rec", data)
    assert len(data) < 200_000


def test_every_version_has_the_same_scenes() -> None:
    scenes = {folder.name: {path.stem for path in folder.iterdir()} for folder in STREAMS.iterdir()}
    assert set(CLI_WHEELS) <= set(scenes) <= {*CLI_WHEELS, *NODE_CLIS}
    assert len({frozenset(names) for names in scenes.values()}) == 1


def _lines(version: str, scene: str) -> list[dict[str, Any]]:
    text = (STREAMS / version / f"{scene}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def _has(scene: str, words: str) -> Callable[[str], bool]:
    return lambda version: words in (STREAMS / version / f"{scene}.jsonl").read_text()


def _first_result(version: str, scene: str) -> dict[str, Any]:
    return next(line for line in _lines(version, scene) if line["type"] == "result")


def _init(version: str, scene: str) -> list[dict[str, Any]]:
    return [line for line in _lines(version, scene) if line.get("subtype") == "init"]


def _results(version: str, scene: str) -> int:
    return sum(line["type"] == "result" for line in _lines(version, scene))


SEEN: dict[Since, Callable[[str], bool]] = {
    Since.TURNS_ABOUT_TASKS: lambda version: _results(version, "background_bash") == 2,
    Since.REPORTS_IDLE: _has("plain_turn", '"state":"idle"'),
    Since.MERGES_QUEUED: lambda version: _results(version, "queued_prompts") == 2,
    Since.GIVES_REASONS: lambda version: (
        "terminal_reason" in _first_result(version, "max_turns")
        and _first_result(version, "max_turns")["is_error"]
    ),
    Since.REPORTS_RETRIES: _has("api_retry", '"api_retry"'),
    Since.ELICITS: _has("elicitation", '"subtype":"elicitation"'),
    Since.NAMES_PLAN_FILE: _has("exit_plan_mode", '"planFilePath"'),
    Since.GUARDS_BYPASS: _has("controls", "Cannot set permission mode to bypassPermissions"),
    Since.KEEPS_CUT_TEXT: lambda version: any(
        line["type"] == "assistant" and "Once upon" in str(line)
        for line in _lines(version, "interrupt_text")
    ),
    Since.GIVES_API_STATUS: lambda version: (
        _first_result(version, "api_error").get("api_error_status") == 400
    ),
    Since.REPORTS_PROGRESS: _has("agent", '"subtype":"task_progress"'),
    Since.RENAMES_WHEN_CLEARED: lambda version: (
        len({line["session_id"] for line in _init(version, "clear")}) == 2
    ),
    Since.CALLS_BATCH_HOOK: _has("hooks", '"PostToolBatch"'),
    Since.HONOURS_WRITING_RULES: _has("permission_allow", '"addRules"'),
    Since.CALLS_DISPLAY_HOOK: _has("hooks", '"MessageDisplay"'),
    Since.LACKS_SEARCH_TOOLS: lambda version: (
        "Grep" not in _init(version, "plain_turn")[0]["tools"]
    ),
    Since.AGENTS_IN_BACKGROUND: _has("agent", '"async_launched"'),
    Since.KNOWS_MODES: _has("controls", "Cannot set permission mode: must be one of"),
    Since.RETRIES_BROKEN_STREAMS: _has("stream_cut", '"api_retry"'),
    Since.SHUFFLES_MEMBERS: lambda version: (
        next(iter(_first_result(version, "interrupt_text"))) != "type"
    ),
    Since.TELLS_RESETS: _has("clear", '"conversation_reset"'),
    Since.TELLS_WHAT_NEEDS_A_PERSON: _has("ask_user_question", '"requires_user_interaction"'),
    Since.TELLS_WHAT_IS_QUEUED: _has("controls", '"still_queued"'),
}
"""What of it the recordings show."""


@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize("what", SEEN, ids=lambda what: what.name.lower())
def test_a_version_was_recorded_doing_what_it_is_said_to_do(version: str, what: Since) -> None:
    assert SEEN[what](version) == can(version, what)


@pytest.mark.parametrize("version", EVERY)
def test_every_version_tells_what_a_subagent_has_used(version: str) -> None:
    # A30: the result of the call that waited for it, or the notification of its end.
    told = [line.get("tool_use_result") or {} for line in _lines(version, "agent")]
    waited = [each["totalTokens"] for each in told if "totalTokens" in each]
    ended = [
        line["usage"]["total_tokens"]
        for line in _lines(version, "agent")
        if line.get("subtype") == "task_notification" and "usage" in line
    ]
    assert waited == ([] if can(version, Since.AGENTS_IN_BACKGROUND) else [105])
    assert bool(ended) == can(version, Since.REPORTS_PROGRESS)
