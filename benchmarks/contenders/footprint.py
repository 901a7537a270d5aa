"""What the contenders share: the command line, and the footprint of a process (Linux)."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path

Task = Callable[[str, int], Coroutine[None, None, dict[str, float]]]


def main(tasks: dict[str, Task]) -> None:
    """Run the task named on the command line and print its figures as one JSON line."""
    name, cli_path, count = sys.argv[1:]
    figures = asyncio.run(tasks[name](cli_path, int(count)))
    sys.stdout.write(json.dumps(figures) + "\n")


@dataclass(frozen=True, slots=True)
class Footprint:
    """Private memory of this process and its helpers, and its threads."""

    private_bytes: int
    helper_bytes: int
    threads: int
    kernel_threads: int

    @classmethod
    def now(cls) -> Footprint:
        """Measure this process and every descendant that is not a CLI."""
        gc.collect()
        return cls(
            private_bytes=private_bytes("self"),
            helper_bytes=sum(private_bytes(pid) for pid in helpers("self")),
            threads=threading.active_count(),
            kernel_threads=sum(1 for _ in Path("/proc/self/task").iterdir()),
        )

    def growth_since(self, before: Footprint, clients: int) -> dict[str, float]:
        """The cost of so many clients, memory as bytes for each."""
        own = self.private_bytes - before.private_bytes
        helper = self.helper_bytes - before.helper_bytes
        return {
            "bytes_each": (own + helper) / clients,
            "helper_bytes": helper,
            "threads": self.threads - before.threads,
            "kernel_threads": self.kernel_threads - before.kernel_threads,
        }


def private_bytes(pid: str) -> int:
    """The unique set size: pages that belong to this process alone."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    rows = (row.split() for row in rollup.splitlines() if row.startswith("Private_"))
    return sum(int(row[1]) for row in rows) * 1024


def helpers(pid: str) -> Iterator[str]:
    """Descendants of a process, the CLIs left out."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            if b"fake_cli" not in Path(f"/proc/{child}/cmdline").read_bytes():
                yield child
                yield from helpers(child)
