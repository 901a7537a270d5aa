"""The folder through which a test and simulated CLIs meet: gates, and what the model was asked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from pilothouse_sim.scenario import ModelRequest

__all__ = ["DEADLINE", "GateNotReached", "Stage", "shortened"]

DEADLINE: Final = 30.0
"""Seconds a wait may take unless it is told otherwise: a bound for what hangs."""

_POLL: Final = 0.01


class GateNotReached(AssertionError):
    """No session came to a gate in time; the text says how far they came."""

    def __init__(
        self, gate: str, deadline: float, reached: list[str], asked: list[ModelRequest]
    ) -> None:
        last = f"{len(asked)} times, last: {shortened(asked[-1].last)}" if asked else "nothing"
        super().__init__(
            f"the gate {gate!r} was not reached in {deadline:g} s; "
            f"gates reached: {', '.join(reached) or 'none'}; the model was asked {last}"
        )


class Stage:
    """Gates and requests of the simulated CLIs that have this folder in PILOTHOUSE_STAGE."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def requests(self) -> list[ModelRequest]:
        """What the model was asked so far, in order."""
        return [ModelRequest.parse(body) for body in self._logged("requests")]

    @property
    def unscripted(self) -> list[ModelRequest]:
        """The requests for which the scenario had no reply left."""
        return [ModelRequest.parse(body) for body in self._logged("unscripted")]

    @property
    def gates_reached(self) -> list[str]:
        """The gates at which a session has stood."""
        return sorted(path.stem for path in self.folder.glob("*.reached"))

    async def reached(self, gate: str, *, deadline: float = DEADLINE) -> None:
        """Wait until a session stands at the gate; `GateNotReached` if none does in time."""
        import asyncio  # tests without an event loop need none

        for pause in self._waits_for(gate, deadline):
            await asyncio.sleep(pause)

    def wait_reached(self, gate: str, *, deadline: float = DEADLINE) -> None:
        """The same for tests without an event loop; it blocks."""
        for pause in self._waits_for(gate, deadline):
            time.sleep(pause)

    def release(self, gate: str) -> None:
        """Open the gate, now and for every session that comes to it later."""
        (self.folder / f"{gate}.open").touch()

    def _waits_for(self, gate: str, deadline: float) -> Iterator[float]:
        end = time.monotonic() + deadline
        while not (self.folder / f"{gate}.reached").exists():
            if time.monotonic() > end:
                raise GateNotReached(gate, deadline, self.gates_reached, self.requests)
            yield _POLL

    def _logged(self, name: str) -> Iterator[dict[str, Any]]:
        path = self.folder / f"{name}.jsonl"
        if path.exists():
            # The last line may be in the middle of being written.
            yield from map(msgspec.json.decode, path.read_bytes().split(b"\n")[:-1])


def shortened(words: str, limit: int = 200) -> str:
    """Words on one line, for an error."""
    line = " ".join(words.split())
    return repr(line if len(line) <= limit else f"{line[:limit]}…")
