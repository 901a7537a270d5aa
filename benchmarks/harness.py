"""Runs the contenders in turn, each in a fresh process, and reports one JSON line."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PEER_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
CONTENDERS = ("ours", "peer", "limit")
DEADLINE = 600.0
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")

Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line chose."""

    quick: bool
    rounds: int | None
    peer_python: Path | None

    @property
    def contenders(self) -> tuple[str, ...]:
        """Those that take part."""
        return tuple(name for name in CONTENDERS if name != "peer" or self.peer_python)

    def python(self, contender: str) -> str:
        """The interpreter that has the contender installed."""
        return str(self.peer_python) if contender == "peer" else sys.executable


def settings(arguments: Sequence[str] | None = None) -> Settings:
    """Read the command line that all benchmarks share."""
    parser = argparse.ArgumentParser(description="Print one JSON line of measured figures.")
    parser.add_argument("--quick", action="store_true", help="a short run: shows that it works")
    parser.add_argument("--rounds", type=int, help="how often each contender runs")
    parser.add_argument("--peer-python", type=Path, default=PEER_PYTHON, metavar="PATH")
    parser.add_argument("--without-peer", action="store_true", help="leave the peer out")
    chosen = parser.parse_args(arguments)
    if not chosen.without_peer and not chosen.peer_python.exists():
        parser.error(
            f"no interpreter with the peer at {chosen.peer_python}: make one with"
            " `python3 -m venv .venv-bench` and"
            " `.venv-bench/bin/pip install -r requirements/bench.txt`, or pass --without-peer"
        )
    peer_python = None if chosen.without_peer else chosen.peer_python.absolute()
    return Settings(quick=chosen.quick, rounds=chosen.rounds, peer_python=peer_python)


@contextmanager
def fake_cli(mode: str, count: int) -> Iterator[Path]:
    """An executable that serves one client in this mode."""
    command = [sys.executable, "-I", "-S", str(HERE / "fake_cli.py"), mode, str(count)]
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as folder:
        path = Path(folder) / "claude"
        path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        path.chmod(0o755)
        yield path


def environment() -> dict[str, str]:
    """A small, known environment; the package is imported from this checkout."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": tempfile.gettempdir(),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT / "src"),
    }


@contextmanager
def home() -> Iterator[dict[str, str]]:
    """The environment of a user who has nothing."""
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as folder:
        yield environment() | {"HOME": folder}


def run(command: Sequence[str]) -> str:
    """Run a command to its end and return what it printed; a failure ends the benchmark."""
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)} failed with {done.returncode}:\n{done.stderr}")
    return done.stdout


def contend(chosen: Settings, contender: str, task: str, cli: Path, count: int) -> Figures:
    """One contender's figures for one task, from a fresh process."""
    script = HERE / "contenders" / f"{contender}.py"
    output = run([chosen.python(contender), str(script), task, str(cli), str(count)])
    figures: Figures = json.loads(output.splitlines()[-1])
    if figures.get("seen", count) != count:
        sys.exit(f"{contender} saw {figures['seen']} of {count} in {task}")
    return figures


def interleave(
    contenders: Sequence[str], rounds: int, measure: Callable[[str], Figures]
) -> list[dict[str, Figures]]:
    """Measure all contenders once a round; each round starts with another one."""
    measured: list[dict[str, Figures]] = []
    for number in range(rounds):
        first = number % len(contenders)
        order = [*contenders[first:], *contenders[:first]]
        measured.append({name: measure(name) for name in order})
    return measured


def middle(rounds: Sequence[Mapping[str, Figures]], contender: str, key: str) -> float | None:
    """The median of a contender's figure, or None if it took no part."""
    values = [figures[contender][key] for figures in rounds if contender in figures]
    return significant(median(values)) if values else None


def ratio(
    rounds: Sequence[Mapping[str, Figures]], above: str, below: str, key: str
) -> float | None:
    """The median of the ratios of each round, in which the machine's noise mostly cancels."""
    pairs = [(one[above][key], one[below][key]) for one in rounds if {above, below} <= set(one)]
    return significant(median(over / under for over, under in pairs)) if pairs else None


def significant(value: float) -> float:
    """Four significant digits."""
    return float(f"{value:.4g}")


def compared(measured: Sequence[Mapping[str, Figures]], key: str) -> dict[str, float | None]:
    """A figure of ours and of the limit, less being better; in the ratio more is."""
    return {
        "ours": middle(measured, "ours", key),
        "peer": None,
        "limit": middle(measured, "limit", key),
        "vs_peer": None,
        "vs_limit": ratio(measured, "limit", "ours", key),
    }


def cpu_ms(pid: int) -> float:
    """What the process has worked; the shortest there is where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return TICK_MS
    return max(sum(map(int, fields[11:13])), 1) * TICK_MS


def report(line: dict[str, object]) -> None:
    """Print the one JSON line."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def spread(
    rounds: Sequence[Mapping[str, Figures]], above: str, below: str, key: str
) -> list[float] | None:
    """The least and the greatest of the ratios of each round."""
    ratios = [one[above][key] / one[below][key] for one in rounds if {above, below} <= set(one)]
    return [significant(min(ratios)), significant(max(ratios))] if ratios else None


def race(
    chosen: Settings, task: str, mode: str, count: int
) -> tuple[list[dict[str, Figures]], int]:
    """Let all contenders do a task in some rounds; how much of it each does."""
    count = min(count, 2000) if chosen.quick else count
    rounds = chosen.rounds or (1 if chosen.quick else 5)
    with fake_cli(mode, count) as cli:
        measured = interleave(
            chosen.contenders, rounds, lambda who: contend(chosen, who, task, cli, count)
        )
    return measured, count


def rates(measured: Sequence[Mapping[str, Figures]], count: int) -> dict[str, object]:
    """A rate per second, more being better: each contender's figure, and ours to others."""
    key = "per_second"
    return {
        **{who: middle(measured, who, key) for who in CONTENDERS},
        "vs_peer": ratio(measured, "ours", "peer", key),
        "vs_limit": ratio(measured, "ours", "limit", key),
        "count": count,
        "rounds": len(measured),
    }


def costs(measured: Sequence[Mapping[str, Figures]], key: str) -> dict[str, object]:
    """A cost, less being better: each contender's figure, others' to ours, and how they spread."""
    return {
        **{who: middle(measured, who, key) for who in CONTENDERS},
        "vs_peer": ratio(measured, "peer", "ours", key),
        "vs_peer_spread": spread(measured, "peer", "ours", key),
        "vs_limit": ratio(measured, "limit", "ours", key),
        "vs_limit_spread": spread(measured, "limit", "ours", key),
        "ours_to_limit": ratio(measured, "ours", "limit", key),
    }
