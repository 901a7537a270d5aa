"""How long the import takes in a fresh process, over what the bare interpreter takes."""

from __future__ import annotations

import time

import harness

STATEMENTS = {
    "ours": "import pilothouse",
    "ours_client": "from pilothouse import Client",
    "limit": "import asyncio, msgspec",
    "bare": "pass",
    "peer": "import claude_agent_sdk",
    "peer_bare": "pass",
}
# Two best times of the same command differ by about this much; less is not a measurement.
RESOLUTION_MS = 0.1


def main() -> None:
    """Import each library in fresh processes and compare the best times."""
    chosen = harness.settings()
    rounds = chosen.rounds or (2 if chosen.quick else 20)
    names = [name for name in STATEMENTS if chosen.peer_python or not name.startswith("peer")]
    measured = harness.interleave(names, rounds, lambda name: {"ms": wall_ms(chosen, name)})
    best = {name: min(one[name]["ms"] for one in measured) for name in names}
    cost = {
        name: max(best[name] - best["peer_bare" if name == "peer" else "bare"], RESOLUTION_MS)
        for name in names
        if not name.endswith("bare")
    }
    peer = cost.get("peer")
    harness.report(
        {
            "name": "import_time",
            "unit": "ms over the bare interpreter",
            "ours": harness.significant(cost["ours"]),
            "ours_client": harness.significant(cost["ours_client"]),
            "peer": peer and harness.significant(peer),
            "limit": harness.significant(cost["limit"]),
            "vs_peer": peer and harness.significant(peer / cost["ours"]),
            "client_vs_peer": peer and harness.significant(peer / cost["ours_client"]),
            "vs_limit": harness.significant(cost["limit"] / cost["ours_client"]),
            "target": {"vs_peer": 8},
            "bare_ms": harness.significant(best["bare"]),
            "rounds": rounds,
        }
    )


def wall_ms(chosen: harness.Settings, name: str) -> float:
    """The life of a process that runs one statement."""
    command = [chosen.python(name.partition("_")[0]), "-c", STATEMENTS[name]]
    start = time.perf_counter()
    harness.run(command)
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    main()
