"""What a connected client costs while it waits: private memory and threads."""

from __future__ import annotations

from pathlib import Path

import harness


def main() -> None:
    """Measure 50 idle clients in one process."""
    chosen = harness.settings()
    count, rounds = (10, 1) if chosen.quick else (50, 3)
    rounds = chosen.rounds or rounds
    with harness.fake_cli("idle", 0) as cli:
        measured = harness.interleave(
            chosen.contenders, rounds, lambda who: idle(chosen, who, cli, count)
        )
    harness.report(
        {
            "name": "idle_clients",
            "unit": "KiB of private memory for each client",
            **compared(measured, "each"),
            "target": {"vs_peer": 1, "extra_threads": 0},
            "each_added": compared(measured, "added"),
            "each_further": compared(measured, "further"),
            "guard": harness.middle(measured, "ours", "helper"),
            "extra_threads": {
                who: harness.middle(measured, who, "threads") for who in harness.CONTENDERS
            },
            "count": count,
            "rounds": rounds,
        }
    )


def compared(measured: list[dict[str, harness.Figures]], key: str) -> dict[str, float | None]:
    """One figure of every contender, and how ours stands to the others'."""
    return {
        **{who: harness.middle(measured, who, key) for who in harness.CONTENDERS},
        "vs_peer": harness.ratio(measured, "peer", "ours", key),
        "vs_limit": harness.ratio(measured, "limit", "ours", key),
    }


def idle(chosen: harness.Settings, contender: str, cli: Path, count: int) -> harness.Figures:
    """One contender's figures, memory in KiB."""
    figures = harness.contend(chosen, contender, "idle", cli, count)
    return {
        "each": figures["bytes_each"] / 1024,
        "added": figures["bytes_each_added"] / 1024,
        "further": figures["bytes_each_further"] / 1024,
        "helper": figures["helper_bytes"] / 1024,
        "threads": max(figures["threads"], figures["kernel_threads"]),
    }


if __name__ == "__main__":
    main()
