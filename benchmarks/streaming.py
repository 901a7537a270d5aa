"""How many streamed text deltas a second reach the caller of the public iterator."""

from __future__ import annotations

import harness


def main() -> None:
    """Stream one long turn through each contender."""
    figures = harness.rates(*harness.race(harness.settings(), "stream", "stream", 200_000))
    target = {"vs_peer": 10, "vs_limit": 0.6}
    harness.report({"name": "streaming", "unit": "deltas/s", **figures, "target": target})


if __name__ == "__main__":
    main()
