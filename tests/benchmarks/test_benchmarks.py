"""Each benchmark runs in its short form; what it measures is never asserted here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.switches import PROVING

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
PEER_PYTHON = BENCHMARKS.parent / ".venv-bench" / "bin" / "python"
WITH_PEER = PROVING and PEER_PYTHON.exists()
DEADLINE = 120.0


def run_quick(name: str) -> dict[str, Any]:
    peer = () if WITH_PEER else ("--without-peer",)
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / f"{name}.py"), "--quick", *peer],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    return json.loads(line)


def check_figures(figures: dict[str, Any]) -> None:
    compared = ("peer", "vs_peer") if WITH_PEER else ()
    for key in ("ours", "limit", "vs_limit", *compared):
        assert figures[key] > 0, key
    assert {"peer", "vs_peer", "rounds"} <= figures.keys()


@pytest.mark.parametrize(
    "name", ["streaming", "permissions", "import_time", "idle_clients", "history"]
)
def test_a_benchmark_prints_one_line_with_its_figures_and_target(name: str) -> None:
    figures = run_quick(name)
    assert figures["name"] == name
    assert figures["unit"]
    assert figures["target"]
    check_figures(figures)
    if name == "permissions":
        for asks in (figures, figures["ten_at_a_time"]):
            check_figures(asks)
            check_figures({**asks["cpu"], "rounds": asks["rounds"]})


def test_the_benchmark_of_the_simulator_prints_its_times_and_memory() -> None:
    figures = run_quick("simulator")
    assert figures["name"] == "simulator"
    assert figures["target"]
    for part in (figures, figures["version"], figures["first_result"], figures["cpu"]):
        assert min(part["ours"], part["limit"], part["vs_limit"]) > 0
    assert figures["memory"].keys() == figures["cpu"].keys()


def test_the_benchmark_of_the_conversation_prints_rates_and_the_cost_of_a_patch() -> None:
    figures = run_quick("conversation")
    assert figures["ours"] > 0
    assert figures["limit"] > 0
    assert figures["patch"]["few"] > 0
    assert figures["patch"]["many"] > 0


def test_the_benchmark_of_the_journal_prints_rates_and_times_to_catch_up() -> None:
    figures = run_quick("journal")
    assert figures["name"] == "journal"
    assert figures["target"]
    assert min(figures["ours"], figures["limit"], figures["vs_limit"]) > 0
    assert min(figures["catch_up"][key] for key in ("short", "long", "long_to_short")) > 0


def test_the_benchmark_of_growth_prints_what_sessions_at_rest_cost() -> None:
    figures = run_quick("growth")
    assert figures["name"] == "growth"
    assert figures["target"]
    assert min(figures["ours"], figures["limit"], figures["vs_limit"]) > 0
    for part in ("memory_kib", "list_ms", "touch_ms"):
        assert min(figures[part].values()) > 0


@pytest.mark.parametrize("name", ["mcp", "serve"])
def test_the_benchmark_of_a_start_prints_the_time_until_it_is_ready(name: str) -> None:
    figures = run_quick(name)
    assert figures["name"] == name
    assert figures["target"]
    for part in (figures, figures["cpu"]):
        assert min(part["ours"], part["limit"], part["vs_limit"]) > 0
    assert figures["ours_to_limit"] > 0


def test_the_benchmark_of_the_console_prints_times_frames_memory_and_bytes() -> None:
    figures = run_quick("console")
    assert figures["name"] == "console"
    assert figures["target"]
    assert min(figures[key] for key in ("ours", "limit", "many_to_few")) > 0
    assert min(figures["new_server"].values()) > 0
    assert min(figures["first_load_bytes"].values()) > 0
    assert min(figures["frames"]["p99_ms"].values()) > 0
    for held in figures["memory"].values():
        assert min(part["nodes"] for part in held.values()) > 0
    for watched in figures["watchers"].values():
        assert 0 < watched["phone"]["frames"] < watched["events"]


def fake_cli_turn(mode: str, count: int, *lines: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-I", "-S", str(BENCHMARKS / "fake_cli.py"), mode, str(count)]
    asked = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(
        command, input=asked.encode(), capture_output=True, timeout=DEADLINE, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_fake_cli_streams_a_whole_turn() -> None:
    messages = fake_cli_turn("stream", 1500, '{"type":"user","message":{}}')
    assert messages[0]["subtype"] == "init"
    assert messages[-1]["type"] == "result"
    events = [one["event"] for one in messages if one["type"] == "stream_event"]
    texts = [one["delta"]["text"] for one in events if one["type"] == "content_block_delta"]
    whole = [one["message"]["content"][0]["text"] for one in messages if one["type"] == "assistant"]
    assert len(texts) == 1500
    assert "".join(texts) == "".join(whole)


def test_the_fake_cli_asks_as_often_as_it_is_told() -> None:
    answer = '{"type":"control_response","response":{"response":{"behavior":"allow"}}}'
    messages = fake_cli_turn("permissions", 3, '{"type":"user","message":{}}', *[answer] * 3)
    asked = [one["request_id"] for one in messages if one["type"] == "control_request"]
    assert len(set(asked)) == 3
    assert messages[-1]["type"] == "result"


def test_the_benchmark_of_the_engine_prints_rates_latencies_and_memory() -> None:
    figures = run_quick("engine")
    assert figures["name"] == "engine"
    assert figures["target"]
    assert min(figures[key] for key in ("ours", "limit", "vs_limit")) > 0
    assert min(figures["fan_out"].values()) > 0
    assert figures["idle_session_kib"] != 0
