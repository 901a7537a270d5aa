"""A server with a simulated CLI, as somebody with a browser has it."""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.request
from contextlib import suppress
from typing import Any

from playwright.async_api import Browser

from tests.support.console.browser import Viewer, viewer
from tests.support.server.machine import Machine, Serving


class House:
    """A machine with a server, and the people at its console."""

    def __init__(self, machine: Machine, browser: Browser) -> None:
        self.machine = machine
        self.project = machine.folder / "project"
        self.project.mkdir()
        self._browser = browser
        self._viewers: list[Viewer] = []
        self._server: Serving | None = None

    async def open(self) -> None:
        self._server = await self.machine.serve()
        # The next one is where the pages look for it.
        self.machine.env["PILOTHOUSE_PORT"] = self.address.rpartition(":")[2]

    @property
    def address(self) -> str:
        assert self._server is not None
        return self._server.address

    async def kill(self) -> None:
        assert self._server is not None
        await self._server.end(signal.SIGKILL)

    async def link(self) -> str:
        ran = await self.machine.run("open", "--print")
        assert ran.code == 0, ran.err
        return ran.out.strip().splitlines()[-1].split()[-1]

    async def viewer(self, **context: Any) -> Viewer:
        """Somebody who is signed in."""
        made = await viewer(self._browser, self.address, **context)
        self._viewers.append(made)
        await made.enter(await self.link())
        return made

    async def stranger(self, **context: Any) -> Viewer:
        """Somebody who is not."""
        made = await viewer(self._browser, self.address, **context)
        self._viewers.append(made)
        return made

    # What happens without a browser

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Call the API with the token."""
        token = (self.machine.settings.state_dir / "token").read_text().strip()
        request = urllib.request.Request(
            self.address + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.loads(response.read())

    def start(self, prompt: str, **more: Any) -> str:
        """Start a session; its id."""
        body = {"prompt": prompt, "cwd": str(self.project), **more}
        return self.ask("POST", "/api/sessions", body)["session_id"]

    async def aclose(self) -> None:
        for each in self._viewers:
            await each.context.close()
        with suppress(OSError):
            await self._stop_sessions()
        await self.machine.aclose()

    async def _stop_sessions(self) -> None:
        """End their CLIs, which a server does sooner than relays that have lost theirs."""
        sessions = self.ask("GET", "/api/sessions")["sessions"]
        paths = [f"/api/sessions/{each['session_id']}/stop" for each in sessions]
        await asyncio.gather(*(asyncio.to_thread(self.ask, "POST", path) for path in paths))
