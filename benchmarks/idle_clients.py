"""What a connected client costs while it waits: private memory and threads."""

from __future__ import annotations

import harness


def main() -> None:
    """Measure 50 idle clients in one process."""
    chosen = harness.settings()
    count, rounds = (5, 1) if chosen.quick else (50, 3)
    rounds = chosen.rounds or rounds
    with harness.fake_cli("idle", 0) as cli:
        measured = harness.interleave(
            chosen.contenders,
            rounds,
            lambda who: {
                **(figures := harness.contend(chosen, who, "idle", cli, count)),
                "kib_each": figures["bytes_each"] / 1024,
                "helper_kib": figures["helper_bytes"] / 1024,
            },
        )
    threads = {who: harness.middle(measured, who, "kernel_threads") for who in harness.CONTENDERS}
    harness.report(
        {
            "name": "idle_clients",
            "unit": "KiB of private memory for each client",
            **{who: harness.middle(measured, who, "kib_each") for who in harness.CONTENDERS},
            "vs_peer": harness.ratio(measured, "peer", "ours", "kib_each"),
            "vs_limit": harness.ratio(measured, "limit", "ours", "kib_each"),
            "extra_threads": threads,
            "guard_kib": harness.middle(measured, "ours", "helper_kib"),
            "target": {"vs_peer": 1, "extra_threads": 0},
            "count": count,
            "rounds": rounds,
        }
    )


if __name__ == "__main__":
    main()
