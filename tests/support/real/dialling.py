"""A door on loopback, a link to it that can be cut, and real CLIs that dial through both."""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from pilothouse import Client, ControlError, Options, SessionEnded
from pilothouse.client.launch import Launch, prepare
from pilothouse.doors.dialect import SdkUrlTransport
from pilothouse.doors.dialling_process import launched
from pilothouse.doors.door import Doors
from pilothouse.doors.http_server import serve
from pilothouse.doors.tokens import Keyring
from pilothouse.protocol import Initialize
from pilothouse_sim.real_cli import environment
from pilothouse_sim.scenario import Scenario
from pilothouse_sim.scripted_model import ScriptedModel
from tests.support.links import Link
from tests.support.versions import CACHE, NATIVE

REPEATING = frozenset({NATIVE})
"""The builds that say again what they said while nobody heard it."""


class Hall:
    """One door with one scripted model behind it."""

    def __init__(self, build: str, model: ScriptedModel, wire: Link, folder: Path) -> None:
        self.build = build
        self.model = model
        self.wire = wire
        self.keyring = Keyring(b"k" * 32)
        self.doors = Doors(self.keyring)
        self.session_id = str(uuid.uuid4())
        self.run = uuid.uuid4().hex
        self.token = self.keyring.issue(self.session_id, self.run)
        self.lost: list[str] = []
        self.reconnects = asyncio.Semaphore(0)
        """Released once for every new connection over which the CLI has answered."""
        self.cwd = folder / "project"
        self.home = folder / "home"
        self.cwd.mkdir()
        self.home.mkdir()
        self._greetings: list[asyncio.Task[None]] = []

    def options(self, **given: Any) -> Options:
        return Options(
            cli_path=CACHE / self.build / "claude",
            cwd=self.cwd,
            session_id=self.session_id,
            inherit_env=False,
            env=environment(self.home, self.model.url),
            include_partial_messages=True,
            **given,
        )

    def transport(self, launch: Launch, *, token: str, hybrid: bool) -> SdkUrlTransport:
        return launched(
            launch.argv,
            cwd=launch.cwd,
            env=launch.env,
            session_id=self.session_id,
            run=self.run,
            token=token,
            url=self.wire.url,
            hybrid=hybrid,
        )

    @asynccontextmanager
    async def dialling(
        self, *, token: str | None = None, hybrid: bool = False, **given: Any
    ) -> AsyncIterator[tuple[Client, SdkUrlTransport]]:
        """A client whose CLI dials; it is not connected yet."""
        options = self.options(**given)
        launch = prepare(options)
        transport = self.transport(launch, token=token or self.token, hybrid=hybrid)
        client = Client(options, transport=transport)
        transport.lost_lines = lambda because, lines=None: self.lost.append(because)
        transport.reconnected = lambda: self._greet(client)
        self.doors.expect(transport)
        try:
            yield client, transport
        finally:
            await client.aclose()
            await transport.aclose(grace=1)
            await asyncio.gather(*self._greetings)
            launch.clean_up()

    def _greet(self, client: Client) -> None:
        """What whoever hears of a reconnect has to do."""
        self._greetings.append(asyncio.create_task(self._greet_again(client)))

    async def _greet_again(self, client: Client) -> None:
        with suppress(ControlError, SessionEnded):
            await client.request(Initialize())
        self.reconnects.release()


@asynccontextmanager
async def hall(build: str, folder: Path, *replies: Any) -> AsyncIterator[Hall]:
    """A served door, and a model that says this to the CLI of this build."""
    listener = socket.create_server(("127.0.0.1", 0))
    wire = Link(listener.getsockname()[1])
    async with ScriptedModel(Scenario(replies=list(replies))) as model:
        it = Hall(build, model, wire, folder)
        async with serve(it.doors, listener), wire.opened():
            yield it
