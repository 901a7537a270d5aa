"""The verbs about the machines that CLIs run on."""

from __future__ import annotations

from pilothouse.api.results import Runner, RunnerAdded
from pilothouse.errors import UnknownRunner

from .routes import Routes

__all__ = ["Machines"]


class Machines:
    """Lets runners in and out."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    async def runners(self) -> list[Runner]:
        """Every machine that may start CLIs, and how it is."""
        return self._routes.runners()

    async def add_runner(self, name: str) -> RunnerAdded:
        """Let a machine join; its token is returned this once."""
        return RunnerAdded(name=name, token=self._routes.add_runner(name))

    async def drain_runner(self, name: str, *, draining: bool = True) -> Runner:
        """Start no more sessions there; what runs goes on."""
        self._runner(name)
        self._routes.drain_runner(name, draining=draining)
        return self._runner(name)

    async def revoke_runner(self, name: str) -> Runner:
        """Let it in no more: its relays are refused, and end their CLIs. As it was before."""
        runner = self._runner(name)
        self._routes.revoke_runner(name)
        return runner

    def _runner(self, name: str) -> Runner:
        runners = self._routes.runners()
        for each in runners:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in runners) or "there are none yet"
        raise UnknownRunner(f"there is no runner {name}", advice=f"those there are: {names}")
