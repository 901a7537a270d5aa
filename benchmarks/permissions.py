"""What a permission request costs a client that is asked and answers at once.

Round trips a second, and the processor time of the client alone for each: where asks come one by
one, most of the wall time is two processes waking each other, which hides what a client adds.
"""

from __future__ import annotations

import harness


def main() -> None:
    """Ask one after the other, then in groups, as subagents at work side by side do."""
    chosen = harness.settings()
    harness.report(
        {
            "name": "permissions",
            "unit": "round trips/s",
            **measured(chosen, "permissions", 5_000),
            "target": {"cpu": {"vs_peer": 3, "ours_to_limit": 1.7}},
            "ten_at_a_time": {
                **measured(chosen, "parallel_permissions", 20_000),
                "target": {"vs_limit": 0.6},
            },
        }
    )


def measured(chosen: harness.Settings, mode: str, count: int) -> dict[str, object]:
    """The rate in wall time, and the microseconds of processor time for each ask."""
    rounds, count = harness.race(chosen, "permissions", mode, count)
    return {
        **harness.rates(rounds, count),
        "vs_limit_spread": harness.spread(rounds, "ours", "limit", "per_second"),
        "cpu": {"unit": "us/ask", **harness.costs(rounds, "cpu_us")},
    }


if __name__ == "__main__":
    main()
