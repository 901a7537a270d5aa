"""A door for CLIs that somebody starts by hand, without a server: `--sdk-url`, up to 2.1.120.

    async with listen(Options(on_permission=decide)) as door:
        print(door.command())             # to be pasted into a terminal
        client = await door.accept()      # connected, and closed together with the door
        turn = await client.ask("Hello! What can you do?")

A CLI is known by the path that it dials, so each needs one of its own; `command` makes one up. A
CLI that loses its connection and dials again goes on as if nothing had been. Who is refused gets
the reason as the body of an HTTP answer: that is final to every build, and a close code is not.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import secrets
import shlex
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from socket import create_server, socket
from typing import Final

from pilothouse.client.client import Client
from pilothouse.client.launch import Launch, prepare
from pilothouse.client.options import Options
from pilothouse.client.tools import tool_hosts
from pilothouse.errors import InvalidOption, ServerError, UsageError

from .dialect import SdkUrlTransport
from .dialling_process import FINAL, GONE_AFTER, TOKEN, hand_started
from .door import DoorPath, answer_with, path_of, place_in, read_body
from .http_server import serve
from .sockets import Receive, Scope, Send, Socket, admit

__all__ = ["DialInDoor", "listen", "shell_line"]

FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
UPGRADE: Final = 426

FALSE_TOKEN: Final = "the token is missing or wrong: CLAUDE_CODE_SESSION_ACCESS_TOKEN has it"
NO_BROWSER: Final = "this address is for a CLI; web pages are not let in"
TAKEN: Final = "another CLI is connected at this address; give each a path of its own"
OVER: Final = "the session of this CLI has ended; start the CLI again, with --resume to go on"
UNKNOWN: Final = "this CLI has spoken with another program before; start it again"

SHOWN: Final = (
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS",
    "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING",
)
"""The variables of a launch that a command to paste has, besides the token."""

log = logging.getLogger("pilothouse.doors")


@asynccontextmanager
async def listen(
    options: Options | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    gone_after: float = GONE_AFTER,
    insecure: bool = False,
) -> AsyncGenerator[DialInDoor]:
    """Listen for CLIs that dial in, while the context lasts.

    `token` is what a CLI has to show: made up if left out; empty for none, which is possible on
    loopback only. Nothing is encrypted: a host that other machines reach needs `insecure`.
    A CLI that has been away for `gone_after` seconds has ended.
    """
    with _bound(host, port) as listener:
        address, bound = listener.getsockname()[:2]
        is_local = ipaddress.ip_address(address).is_loopback
        if not is_local and (token == "" or not insecure):
            raise UsageError(
                f"{host} can be reached from other machines, and nothing is encrypted; "
                "listen on 127.0.0.1, or say insecure=True and have a token"
            )
        shown = f"[{address}]" if ":" in address else address
        secret = secrets.token_urlsafe(32) if token is None else token
        door = DialInDoor(options or Options(), f"ws://{shown}:{bound}", secret, gone_after)
        async with serve(door.app, listener):
            try:
                yield door
            finally:
                await door.aclose()


def _bound(host: str, port: int) -> socket:
    try:
        return create_server((host, port))
    except OSError as error:
        raise ServerError(f"{host}:{port} cannot be used: {error.strerror or error}") from None


class DialInDoor:
    """Where CLIs dial in: see `listen`."""

    def __init__(self, options: Options, url: str, token: str, gone_after: float) -> None:
        self.url: Final = url
        """Where it listens. Any path below it is one CLI's address, and so is the bare URL."""
        self.token: Final = token
        """What a CLI has to show; empty: nothing."""
        self.app: Final = _DoorApp(token, gone_after)
        self._options = options
        self._launches: list[Launch] = []
        self._clients: list[Client] = []

    def command(self) -> str:
        """Return a line for a shell that starts one CLI which dials in here, with the options that
        were given to `listen`. Each call makes one for another CLI."""
        names = list(tool_hosts(self._options.mcp_servers))
        program = [str(self._options.cli_path or "claude")]
        try:
            launch = prepare(self._options, names, command=program)
        except (TypeError, ValueError) as error:
            raise InvalidOption(str(error)) from error
        # What its flags name stays where it is for as long as the door is open.
        self._launches.append(launch)
        name = launch.session_id or str(uuid.uuid4())
        address = f"{self.url}/ws/{name}"
        return shell_line(launch.argv, address, token=self.token, cwd=launch.cwd, env=launch.env)

    async def accept(self, options: Options | None = None) -> Client:
        """Wait for the next CLI, and return a client that is connected to it.

        `options` say who answers what it asks, in the place of those of `listen`. What only a flag
        could tell the CLI has no effect.
        """
        while not (cli := await self.app.arrived.get()).connected:
            # It has left again meanwhile.
            self.app.forget(cli)
        given = options or self._options
        known = next((each for each in self._launches if each.session_id == cli.session_id), None)
        client = Client(
            replace(given, session_id=None if known is None else known.session_id),
            transport=cli,
            foreign=True,
        )
        cli.reconnected = client.greet_again
        cli.lost_lines = lambda because, lines=None: client.lines_lost(because)
        self._clients.append(client)
        await client.connect()
        return client

    async def aclose(self) -> None:
        """Let every CLI go, those as well that nobody has accepted."""
        self.app.close()
        await asyncio.gather(*(each.aclose() for each in self._clients))
        for launch in self._launches:
            launch.clean_up()


class _DoorApp:
    """The ASGI app: finds the CLI whose path was dialled, or takes it for a new one."""

    def __init__(self, token: str, gone_after: float) -> None:
        self.arrived: asyncio.Queue[SdkUrlTransport] = asyncio.Queue()
        """CLIs that nobody has accepted yet."""
        self._token = token
        self._gone_after = gone_after
        self._clis: dict[str, SdkUrlTransport] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = path_of(scope)
        place = place_in(path)
        if scope["type"] == "websocket":
            name = place.session_id if place is not None and place.route == "ws" else path
            await self._dialled(Socket(scope, receive, send), name)
        else:
            await answer_with(send, await self._posted(scope, receive, send, place))

    async def _dialled(self, socket: Socket, name: str) -> None:
        refusal = self._refusal(socket, self._clis.get(name))
        if refusal:
            log.warning("a CLI that dialled was refused", extra={"reason": refusal})
            await socket.refuse(FORBIDDEN, because=refusal)
        elif await socket.accept():
            await self._cli(name, socket.headers).visited(socket)

    def _refusal(self, socket: Socket, cli: SdkUrlTransport | None) -> str:
        """Why a dial is refused; empty if it is not."""
        goes_on = "x-last-request-id" in socket.headers
        if "origin" in socket.headers:
            return NO_BROWSER
        if not self._is_token(socket.bearer):
            return FALSE_TOKEN
        if cli is None:
            return UNKNOWN if goes_on else ""
        if cli.has_ended:
            return OVER if goes_on else ""
        return TAKEN if cli.connected and cli.is_other(socket.headers) else ""

    def _is_token(self, shown: str) -> bool:
        return not self._token or hmac.compare_digest(shown.encode(), self._token.encode())

    def _cli(self, name: str, headers: Mapping[str, str]) -> SdkUrlTransport:
        cli = self._clis.get(name)
        if cli is not None and not cli.has_ended and not cli.is_other(headers):
            return cli
        if cli is not None:
            cli.give_up("another CLI came to its address")
        new = hand_started(session_id=name, run=uuid.uuid4().hex, gone_after=self._gone_after)
        self._clis[name] = new
        self.arrived.put_nowait(new)
        return new

    async def _posted(
        self, scope: Scope, receive: Receive, send: Send, place: DoorPath | None
    ) -> int | None:
        """Take what a CLI posts in the hybrid mode: the status to answer with."""
        if place is None or place.route != "events" or scope["method"] != "POST":
            return UPGRADE
        cli = self._clis.get(place.session_id)
        if not self._is_token(Socket(scope, receive, send).bearer):
            return FORBIDDEN
        if cli is None:
            return NOT_FOUND
        admit(scope)
        body = await read_body(receive)
        return await cli.posted(body) if isinstance(body, bytes) else body

    def forget(self, cli: SdkUrlTransport) -> None:
        """Let a CLI come again that has left before anybody accepted it."""
        if self._clis.get(cli.session_id) is cli:
            del self._clis[cli.session_id]

    def close(self) -> None:
        """Send those away whom nobody has accepted."""
        while not self.arrived.empty():
            self.arrived.get_nowait().send_away(FINAL, "nobody is here to talk to")


def shell_line(
    argv: Sequence[str], url: str, *, token: str, cwd: str | None, env: Mapping[str, str]
) -> str:
    """Return a launch as a line for a shell, with the door that the CLI is to dial.

    Of its variables the line has those alone that are ours: the others are the shell's own.
    """
    words = [f"cd {shlex.quote(cwd)} &&"] if cwd else []
    given = {name: env[name] for name in SHOWN if name in env}
    given |= {TOKEN: token} if token else {}
    words += [f"{name}={shlex.quote(value)}" for name, value in given.items()]
    return " ".join([*words, shlex.join([*argv, f"--sdk-url={url}"])])
