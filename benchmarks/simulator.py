"""What a simulator costs: the time until it speaks, and its memory after a turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import harness

LIMIT = "import asyncio, msgspec, sys; print('ready', flush=True); sys.stdin.read()"
SIMULATOR = "from pilothouse_sim.simulator.main import main; raise SystemExit(main())"
TALKING = ("-p", "--output-format=stream-json", "--input-format=stream-json", "--verbose")
INITIALIZE = {
    "type": "control_request",
    "request_id": "req_1",
    "request": {"subtype": "initialize"},
}
PROMPT = {"type": "user", "message": {"role": "user", "content": "go"}}
SCENARIO = {"replies": [{"type": "reply", "steps": [{"type": "text", "text": "Gone."}]}]}


def main() -> None:
    """Start simulators and bare interpreters in turn."""
    chosen = harness.settings()
    rounds = chosen.rounds or (1 if chosen.quick else 20)
    with home() as env:
        run("turn", env)  # what the disk has to be asked for is paid here
        measured = harness.interleave(
            ["limit", "version", "initialize", "turn"], rounds, lambda who: run(who, env)
        )
    harness.report(
        {
            "name": "simulator",
            "unit": "ms from the start to the first line, after `initialize`",
            **compared(measured, "initialize", "ms"),
            "target": {"vs_limit": 0.5, "memory_vs_limit": 0.667},
            "version": compared(measured, "version", "ms"),
            "first_result": compared(measured, "turn", "ms"),
            "cpu": compared(measured, "turn", "cpu_ms"),
            "memory": compared(measured, "turn", "kib"),
            "rounds": rounds,
        }
    )


def compared(
    measured: list[dict[str, harness.Figures]], ours: str, key: str
) -> dict[str, float | None]:
    """One figure of ours and of the limit; more is better in the ratio."""
    return {
        "ours": harness.middle(measured, ours, key),
        "peer": None,
        "limit": harness.middle(measured, "limit", key),
        "vs_peer": None,
        "vs_limit": harness.ratio(measured, "limit", ours, key),
    }


@contextmanager
def home() -> Iterator[dict[str, str]]:
    """The environment of a user who has a scenario and nothing else."""
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as folder:
        script = Path(folder) / "scenario.json"
        script.write_text(json.dumps(SCENARIO))
        own = {"HOME": folder, "CLAUDE_CONFIG_DIR": str(Path(folder) / ".claude")}
        yield harness.environment() | own | {"PILOTHOUSE_SCENARIO": str(script)}


def run(who: str, env: Mapping[str, str]) -> harness.Figures:
    """One process: milliseconds until the awaited line, peak memory there, processor time."""
    code, flags, said, awaited = {
        "limit": (LIMIT, (), (), b"ready"),
        "version": (SIMULATOR, ("--version",), (), b"Claude Code"),
        "initialize": (SIMULATOR, TALKING, (INITIALIZE,), b'"control_response"'),
        "turn": (SIMULATOR, TALKING, (PROMPT,), b'"result"'),
    }[who]
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code, *flags],
        env=env,
        cwd=env["HOME"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin as tell, process.stdout as told:
        for message in said:
            tell.write(json.dumps(message).encode() + b"\n")
        tell.flush()
        if not any(awaited in line for line in told):
            sys.exit(f"{who} never said {awaited.decode()}")
        spent, memory = time.perf_counter() - begun, peak_kib(process.pid)
        tell.close()
        told.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{who} failed with {process.returncode}")
    return {
        "ms": spent * 1000,
        "kib": memory,
        "cpu_ms": (usage.ru_utime + usage.ru_stime) * 1000,
    }


def peak_kib(pid: int) -> float:
    """The most memory a process had at once; 0 where the system does not tell, or it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    peak = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return float(peak[0]) if peak else 0.0


if __name__ == "__main__":
    main()
