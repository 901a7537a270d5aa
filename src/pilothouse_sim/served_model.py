"""A scripted model in a thread of its own, for tests with any event loop, or none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Any, Self

from pilothouse_sim.scripted_model import ScriptedModel
from pilothouse_sim.stage import DEADLINE, GateNotReached

if TYPE_CHECKING:
    from types import TracebackType

    from pilothouse_sim.scenario import ModelRequest, Scenario

__all__ = ["ServedModel"]


class _Model(ScriptedModel):
    @property
    def gates_reached(self) -> list[str]:
        return sorted(name for name, event in list(self._reached.items()) if event.is_set())


class ServedModel:
    """Serves one scenario at `url` between `start` and `close`, or within `with`."""

    def __init__(self, scenario: Scenario) -> None:
        self._model = _Model(scenario)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="scripted model", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()
        self._call(self._model.__aenter__()).result(DEADLINE)

    def close(self) -> None:
        """Stop serving; open streams are cut."""
        self._call(self._model.aclose()).result(DEADLINE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE)
        self._loop.close()

    @property
    def url(self) -> str:
        """Where it listens; the value for ANTHROPIC_BASE_URL."""
        return self._model.url

    @property
    def requests(self) -> list[ModelRequest]:
        """What it was asked so far, in order."""
        return list(self._model.requests)

    @property
    def unscripted(self) -> list[ModelRequest]:
        """The requests for which the scenario had no reply left."""
        return list(self._model.script.unscripted)

    @property
    def gates_reached(self) -> list[str]:
        """The gates at which a stream has stood."""
        return self._model.gates_reached

    async def reached(self, gate: str, *, deadline: float = DEADLINE) -> None:
        """Wait until a stream stands at the gate; `GateNotReached` if none does in time."""
        try:
            async with asyncio.timeout(deadline):
                await asyncio.wrap_future(self._call(self._model.reached(gate)))
        except TimeoutError:
            raise self._not_reached(gate, deadline) from None

    def wait_reached(self, gate: str, *, deadline: float = DEADLINE) -> None:
        """The same for tests without an event loop; it blocks."""
        waiting = self._call(self._model.reached(gate))
        try:
            waiting.result(deadline)
        except FutureTimeout:
            waiting.cancel()
            raise self._not_reached(gate, deadline) from None

    def release(self, gate: str) -> None:
        """Open the gate, now and for every stream that comes to it later."""
        self._loop.call_soon_threadsafe(self._model.release, gate)

    def _not_reached(self, gate: str, deadline: float) -> GateNotReached:
        return GateNotReached(gate, deadline, self.gates_reached, self.requests)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _call(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)
