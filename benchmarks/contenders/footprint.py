"""What the contenders share: the command line, a stopwatch, a process's footprint (Linux)."""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

Task = Callable[[str, int], Coroutine[None, None, dict[str, float]]]


def main(tasks: dict[str, Task]) -> None:
    """Run the task named on the command line and print its figures as one JSON line."""
    name, cli_path, count = sys.argv[1:]
    figures = asyncio.run(tasks[name](cli_path, int(count)))
    sys.stdout.write(json.dumps(figures) + "\n")


class Stopwatch:
    """Wall time and processor time of this process, without its children, since it was made."""

    def __init__(self) -> None:
        self._begun, self._worked = time.perf_counter(), worked()

    def figures(self, count: int) -> dict[str, float]:
        """How many a second, and microseconds of work for each."""
        elapsed, spent = time.perf_counter() - self._begun, worked() - self._worked
        return {"per_second": count / elapsed, "cpu_us": spent / count * 1e6}


def worked() -> float:
    """Seconds that this process has kept a processor busy, in its own code and in the kernel."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


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

    @property
    def memory(self) -> int:
        """Of the process and its helpers together."""
        return self.private_bytes + self.helper_bytes


def growth(steps: Sequence[Footprint], clients: int) -> dict[str, float]:
    """What clients cost, from the footprints before any, with the first and with all of them."""
    none, one, every = steps
    return {
        "bytes_each": every.memory / clients,
        "bytes_each_added": (every.memory - none.memory) / clients,
        "bytes_each_further": (every.memory - one.memory) / (clients - 1),
        "helper_bytes": every.helper_bytes,
        "threads": every.threads - none.threads,
        "kernel_threads": every.kernel_threads - none.kernel_threads,
    }


def private_bytes(pid: str) -> int:
    """Memory written by this process alone.

    Clean pages are left out: they are the files of the interpreter, and count as private or shared
    by whether some other process happens to run it too.
    """
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(row.split()[1]) for row in rollup.splitlines() if "Private_Dirty" in row) * 1024


def helpers(pid: str) -> Iterator[str]:
    """Descendants of a process, the CLIs left out."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            if b"fake_cli" not in Path(f"/proc/{child}/cmdline").read_bytes():
                yield child
                yield from helpers(child)
