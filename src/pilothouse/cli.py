"""The `pilothouse` command: the one place that wires the rooms together."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from pilothouse import __version__

__all__ = ["main"]

MARKS = {"ok": "ok      ", "note": "note    ", "problem": "PROBLEM "}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0 where nothing is wrong."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["record"]:
        # Its flags and the recorded command's are its own to tell apart.
        return _record(words[1:])
    chosen = _parser().parse_args(words)
    return int(chosen.command(chosen))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pilothouse", description="Steer Claude Code sessions.")
    parser.add_argument("--version", action="version", version=f"pilothouse {__version__}")
    commands = parser.add_subparsers(required=True, metavar="{demo,doctor,record}")
    demo = commands.add_parser("demo", help="show one turn of the simulator; spends nothing")
    demo.set_defaults(command=_demo)
    doctor = commands.add_parser(
        "doctor", help="find the CLI, its version and a credential, and say what to do"
    )
    doctor.set_defaults(command=_doctor)
    commands.add_parser("record", help="run a CLI and keep what passes, to be replayed later")
    return parser


def _demo(_: argparse.Namespace) -> int:
    from pilothouse.demo import demonstrate  # the doctor needs none of it

    print("A turn of the simulator (no CLI, no model, no money):")
    turn = asyncio.run(demonstrate(print))
    return 0 if turn.outcome == "finished" else 1


def _record(words: list[str]) -> int:
    from pilothouse.testing.recording import main as record  # nothing else needs it

    return record(words)


def _doctor(_: argparse.Namespace) -> int:
    from pilothouse.client.doctor import examine  # the demonstration needs none of it

    findings = examine()
    for finding in findings:
        print(f"{MARKS[finding.state]}{finding.name}: {finding.text}")
        if finding.advice:
            print(f"        -> {finding.advice}")
    return 1 if any(finding.state == "problem" for finding in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
