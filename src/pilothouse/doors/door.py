"""The ASGI app that lets in whoever works for a session: relays, CLIs that dial, and runners.

    /relay/SESSION                 a relay's WebSocket
    /ws/SESSION                    the WebSocket of a CLI that was given its address ...
    POST /session/SESSION/events   ... and what such a CLI posts beside it
    /runner                        a runner's WebSocket

Each but a runner comes with the token of its run. A WebSocket is given only to whoever shows a
token of ours; everybody else gets an HTTP status, and nothing more is read from them. The status
names the refusal in a header: alone, it may come from anything in between (see `relay.refusals`).
A run that shows its token and is refused all the same is told by a close code, which relays of
earlier versions understand too; only a CLI that dials gets the status then.

A run that is not expected is refused for good, and its relay ends the CLI. So everything that goes
on after a restart is to be expected before the app is served.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple, Protocol
from urllib.parse import unquote

from pilothouse.relay.refusals import HEADER, Refusal

from .contract import Carrier
from .sockets import Receive, Scope, Send, Socket, admit
from .tokens import Keyring

__all__ = ["DoorPath", "Doors", "RunnerDoor", "answer_with", "path_of", "place_in", "read_body"]

BODY_LIMIT: Final = 32 * 1024 * 1024

STATUS: Final = {
    Refusal.TOKEN_REFUSED: 401,
    Refusal.SESSION_UNKNOWN: 404,
    Refusal.SESSION_ENDED: 410,
    Refusal.OTHER_SERVER: 503,
}
WORDS: Final = {
    Refusal.TOKEN_REFUSED: "this token does not open this address; ask for another",
    Refusal.SESSION_UNKNOWN: "no CLI is expected at this address; ask for another",
    Refusal.SESSION_ENDED: "the session that this token was for has ended; ask for another",
    Refusal.OTHER_SERVER: "this token is of another server than the one that runs here now",
}
"""What a CLI is told that dials and is refused. It shows that in its debug output alone."""
TAKEN: Final = "another CLI has come with this token, which is for one alone; ask for another"
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
WRONG_METHOD: Final = 405
TOO_LARGE: Final = 413

log = logging.getLogger("pilothouse.doors")


class RunnerDoor(Protocol):
    """Who speaks with runners, and knows which of them are trusted."""

    def knows(self, token: str) -> bool:
        """Whether a runner that is trusted has this token."""
        ...

    async def visited(self, socket: Socket) -> None:
        """Speak with a runner. It has shown a token, but not yet who it is."""
        ...

    def is_trusted(self, machine: str) -> bool:
        """Whether the sessions of this machine may come in."""
        ...


class DoorPath(NamedTuple):
    """What a path names."""

    route: str
    session_id: str = ""


class Doors:
    """Checks who comes, and hands over to the carrier of its run."""

    def __init__(self, keyring: Keyring, *, runners: RunnerDoor | None = None) -> None:
        self._keyring = keyring
        self._runners = runners
        self._carriers: dict[str, Carrier] = {}

    def expect(self, carrier: Carrier) -> None:
        """Let this run in from now on."""
        self._carriers[carrier.run] = carrier

    def forget(self, run: str) -> None:
        """Let this run in no more; who is there may stay."""
        self._carriers.pop(run, None)

    def takes(self, path: str) -> bool:
        """Whether it is an address of ours."""
        return place_in(path) is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "websocket":
                await self._open(Socket(scope, receive, send), place_in(path_of(scope)))
            case "http":
                await answer_with(send, await self._post(scope, receive, send))
            case "lifespan":
                await _live(receive, send)
            case _:
                return

    # -- WebSockets

    async def _open(self, socket: Socket, place: DoorPath | None) -> None:
        if place is None or place.route == "events":
            await _turn_away(socket, Refusal.SESSION_UNKNOWN)
        elif place.route == "runner":
            await self._let_runner_in(socket)
        elif place.route == "ws":
            await self._let_dial_in(socket, place.session_id)
        else:
            await self._let_relay_in(socket, place.session_id)

    async def _let_relay_in(self, socket: Socket, session_id: str) -> None:
        found = self._find(session_id, socket.bearer, "relay")
        if not isinstance(found, Refusal):
            if await socket.accept():
                await found.visited(socket)
        elif self._keyring.run_of(session_id, socket.bearer) is None:
            await _turn_away(socket, found)
        elif await socket.accept():
            await socket.close(found)

    async def _let_dial_in(self, socket: Socket, session_id: str) -> None:
        found = self._find(session_id, socket.bearer, "ws")
        if isinstance(found, Refusal):
            # 2.1.37 knows no close code that is final: only an HTTP status keeps it from dialling
            # again each second.
            await _refuse_cli(socket, WORDS[found])
        elif found.is_other(socket.headers):
            await _refuse_cli(socket, TAKEN)
        elif await socket.accept():
            await found.visited(socket)

    async def _let_runner_in(self, socket: Socket) -> None:
        if self._runners is None:
            await _turn_away(socket, Refusal.SESSION_UNKNOWN)
        elif not self._runners.knows(socket.bearer):
            await _turn_away(socket, Refusal.TOKEN_REFUSED)
        elif await socket.accept():
            await self._runners.visited(socket)

    def _find(self, session_id: str, token: str, route: str) -> Carrier | Refusal:
        """Who carries the run of this token, or why it cannot come in."""
        run = self._keyring.run_of(session_id, token)
        if run is None and self._keyring.is_foreign(token):
            return Refusal.OTHER_SERVER
        if run is None:
            return Refusal.TOKEN_REFUSED
        carrier = self._carriers.get(run)
        if carrier is None or carrier.session_id != session_id:
            return Refusal.SESSION_ENDED
        if carrier.route != route:
            return Refusal.SESSION_UNKNOWN
        return carrier if self._is_trusted(carrier.machine) else Refusal.TOKEN_REFUSED

    def _is_trusted(self, machine: str) -> bool:
        return not machine or (self._runners is not None and self._runners.is_trusted(machine))

    # -- posts

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> int | None:
        """The status to answer with; None if nobody is there to hear it."""
        place = place_in(path_of(scope))
        if place is None or place.route != "events":
            return NOT_FOUND
        if scope["method"] != "POST":
            return WRONG_METHOD
        token = Socket(scope, receive, send).bearer
        found = self._find(place.session_id, token, "ws")
        if isinstance(found, Refusal):
            return STATUS[found]
        admit(scope)
        body = await read_body(receive)
        return await found.posted(body) if isinstance(body, bytes) else body


def path_of(scope: Scope) -> str:
    # The raw one: an id may have a slash in it, in its quoted form.
    raw: bytes | None = scope.get("raw_path")
    path = raw.decode("latin-1") if raw is not None else scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def place_in(path: str) -> DoorPath | None:
    match path.split("/"):
        case ["", "runner"]:
            return DoorPath("runner")
        case ["", ("relay" | "ws") as route, session_id] if session_id:
            return DoorPath(route, unquote(session_id))
        case ["", "session", session_id, "events"] if session_id:
            return DoorPath("events", unquote(session_id))
        case _:
            return None


async def _refuse_cli(socket: Socket, because: str) -> None:
    log.info("a CLI that dialled was refused", extra={"reason": because})
    await socket.refuse(FORBIDDEN, because=because)


async def _turn_away(socket: Socket, refusal: Refusal) -> None:
    """Refuse one that is to get no WebSocket."""
    await socket.refuse(STATUS[refusal], {HEADER: str(refusal.value)})


async def read_body(receive: Receive) -> bytes | int | None:
    """All of it; a status if it is too much, None if the peer has left."""
    parts: list[bytes] = []
    left = BODY_LIMIT
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        part: bytes = message.get("body", b"")
        left -= len(part)
        if left < 0:
            return TOO_LARGE
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


async def answer_with(send: Send, status: int | None) -> None:
    if status is None:
        return
    headers = [(b"content-length", b"0")]
    headers += [(b"www-authenticate", b"Bearer")] if status == STATUS[Refusal.TOKEN_REFUSED] else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _live(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
