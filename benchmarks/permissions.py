"""How many permission requests a second are asked and answered, one by one and ten at a time."""

from __future__ import annotations

import harness


def main() -> None:
    """Ask one after the other, then in groups, as subagents at work side by side do."""
    chosen = harness.settings()
    one_by_one = harness.rates(chosen, "permissions", "permissions", 5_000)
    ten_at_a_time = harness.rates(chosen, "permissions", "parallel_permissions", 20_000)
    harness.report(
        {
            "name": "permissions",
            "unit": "round trips/s",
            **one_by_one,
            "target": {"vs_peer": 3},
            "ten_at_a_time": ten_at_a_time,
        }
    )


if __name__ == "__main__":
    main()
