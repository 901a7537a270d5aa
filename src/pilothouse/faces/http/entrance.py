"""What everything comes through that is served over TCP: one place for every check.

    a request of a relay ──> Host, Origin ──> the doors, which ask for tokens of their own
    any other ──> counted, traced ──> Host, Origin, token, length, a whole path ──> the router
                                                      │
                       in its place, of a browser that is signed in: a cookie

Host is checked so that no page can reach this server under a name of its own (DNS rebinding),
Origin so that no page of another site can use it, also over a WebSocket, which no browser limits
to its own site.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from pilothouse.api import proof
from pilothouse.api.frames import TOKEN_PREFIX
from pilothouse.doors.sockets import admit

from .problems import Unacceptable, no_such_path, problem_of, refuse
from .responses import ANSWERED, Answering

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from .traces import Tracing

__all__ = [
    "BROWSER",
    "CHALLENGE",
    "ConsoleApp",
    "DoorApp",
    "Entrance",
    "Guests",
    "NameCheck",
    "header",
    "headers",
    "signed_out",
    "subprotocols",
    "too_large",
    "without_port",
]

DEFAULT_PORTS: Final = {"http": 80, "https": 443}
SCHEMES: Final = {"ws": "http", "wss": "https"}
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
BROWSER: Final = "pilothouse.browser"
"""In a request's scope: the browser whose cookie it has shown in place of the token."""
CHALLENGE: Final = {"www-authenticate": 'Bearer realm="pilothouse"'}
"""The header that every 401 has."""


class DoorApp(Protocol):
    """Where relays, runners and CLIs that dial come in."""

    def takes(self, path: str) -> bool:
        """Return whether it is an address of theirs."""
        ...

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


class Guests(Protocol):
    """Counts who is being served."""

    def counted(self, scope: Any) -> AbstractContextManager[None]:
        """Count a request for as long as the context lasts."""
        ...


class ConsoleApp(Protocol):
    """The page for browsers, and those that are signed in to it."""

    def is_open(self, path: str) -> bool:
        """Return whether a path is for those who show nothing."""
        ...

    def admits(self, scope: Any) -> bool:
        """Return whether a request has a cookie that stands for the token; it is in the scope then.

        Raises `Unacceptable` for a cookie that is worth nothing.
        """
        ...

    def answers(self) -> Mapping[str, Mapping[str, Answering]]:
        """Return what each path of it answers, by its methods."""
        ...


class NameCheck:
    """Refuses what does not call the server by its name, or comes from a page of another site."""

    def __init__(self, hosts: Sequence[str], origins: Sequence[str]) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)

    def check(self, scope: Scope) -> None:
        """Raise `Unacceptable` for a request that may not come in."""
        self._check_host(scope)
        self._check_origin(scope)

    def _check_host(self, scope: Scope) -> None:
        given = headers(scope, b"host")
        if len(given) != 1 or not self._is_ours(given[0].lower()):
            raise Unacceptable(
                421,
                "foreign-host",
                "this server does not go by that name",
                advice="use an address it was started for, or add the name to its setting `hosts`",
            )

    def _is_ours(self, host: str) -> bool:
        return host in self._hosts or without_port(host) in self._hosts

    def _check_origin(self, scope: Scope) -> None:
        given = headers(scope, b"origin")
        if not given or all(self._may_ask(each.lower(), scope) for each in given):
            return
        raise Unacceptable(
            403,
            "foreign-origin",
            "a page of another site may not use this server",
            advice="add its origin to the setting `origins` if it may",
        )

    def _may_ask(self, origin: str, scope: Scope) -> bool:
        if origin in self._origins:
            return True
        scheme = SCHEMES.get(scope["scheme"], scope["scheme"])
        return _place(origin) == _place(f"{scheme}://{header(scope, b'host')}") is not None


class Entrance:
    """An ASGI application that lets through what may come in, and answers everything else itself.

    Who works for a session comes to the doors, and is no guest: whether anybody needs the server,
    the sessions tell.
    """

    def __init__(
        self,
        app: ASGIApp,
        names: NameCheck,
        *,
        token: str,
        body_limit: int,
        mounts: Collection[str] = (),
        tracing: Tracing | None = None,
        answers: Counter[tuple[str, str, int]] | None = None,
        doors: DoorApp | None = None,
        guests: Guests | None = None,
        console: ConsoleApp | None = None,
    ) -> None:
        """`answers`: how often each method of each route was answered with each status."""
        if not token:
            raise ValueError("a server without a token would be open to everybody")
        self._app = app
        self._names = names
        self._token = token.encode()
        self._body_limit = body_limit
        self._roots = frozenset(f"{path}/" for path in mounts)
        self._tracing = tracing
        self._answers = Counter[tuple[str, str, int]]() if answers is None else answers
        self._doors = doors
        self._guests = guests
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        is_for_doors = self._doors is not None and self._doors.takes(scope["path"])
        with nullcontext() if is_for_doors else self._noted(scope):
            try:
                self._names.check(scope)
                if self._doors is not None and is_for_doors:
                    app = self._doors
                else:
                    self._check(scope)
            except Unacceptable as error:
                await refuse(scope, send, problem_of(error), error.headers)
            else:
                if (browser := scope.get(BROWSER)) is not None:
                    receive = _until(browser.left, receive, scope["type"])
                await app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        if not self._is_open(scope):
            self._check_token(scope)
            admit(scope)
        self._check_length(scope)
        if scope["path"] in self._roots:
            scope["path"] = scope["path"].removesuffix("/")
        else:
            _check_path(scope)

    def _is_open(self, scope: Scope) -> bool:
        if scope["type"] != "http":
            return False
        path = scope["path"]
        # A client that asks for the proof does not show the token to whom it may not know.
        return path == proof.PATH or (self._console is not None and self._console.is_open(path))

    @contextmanager
    def _noted(self, scope: Scope) -> Generator[None]:
        """Count the caller, and the answer for `/metrics`; trace it where that is configured."""
        with nullcontext() if self._guests is None else self._guests.counted(scope):
            if scope["type"] != "http":
                yield
            elif self._tracing is None:
                scope[ANSWERED] = partial(self._count, scope)
                yield
            else:
                with self._traced(self._tracing, scope):
                    yield

    @contextmanager
    def _traced(self, tracing: Tracing, scope: Scope) -> Generator[None]:
        method = _method(scope)
        carried = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        with tracing.request(method, carried) as span:

            def answered(status: int) -> None:
                self._count(scope, status)
                # A stream has no end of its own: its span is the time until it begins.
                tracing.answered(span, method, _route(scope), status)

            scope[ANSWERED] = answered
            yield

    def _count(self, scope: Scope, status: int) -> None:
        self._answers[_method(scope), _route(scope), status] += 1

    def _check_token(self, scope: Scope) -> None:
        given = bearer(scope)
        if given is not None and hmac.compare_digest(given.encode(), self._token):
            return
        if given is None and self._console is not None and self._console.admits(scope):
            return
        raise Unacceptable(
            401,
            "no-token" if given is None else "wrong-token",
            "this server wants its token" if given is None else "this is not the server's token",
            advice="send `Authorization: Bearer <token>`; the file `token` in state_dir has it. "
            "To sign a browser in, run: pilothouse open",
            headers=CHALLENGE,
        )

    def _check_length(self, scope: Scope) -> None:
        announced = header(scope, b"content-length")
        if announced is not None and announced.isdecimal() and int(announced) > self._body_limit:
            raise too_large(self._body_limit)


async def signed_out(scope: Scope) -> None:
    """Wait until the browser that asks is signed out; for ever, if it is none."""
    browser = scope.get(BROWSER)
    await asyncio.wait({asyncio.Future[None]() if browser is None else browser.left})


def _until(left: asyncio.Future[None], receive: Receive, kind: str) -> Receive:
    """Return what has the caller leave once it is signed out, if it does not before."""

    async def receive_until() -> Any:
        receiving = asyncio.ensure_future(receive())
        try:
            await asyncio.wait({receiving, left}, return_when=asyncio.FIRST_COMPLETED)
            # Who sends without a pause is no exception.
            if not left.done():
                return receiving.result()
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)
        return {"type": f"{kind}.disconnect", "code": 1001}

    return receive_until


def _method(scope: Scope) -> str:
    """Callers may make methods up: those are counted as one."""
    method = str(scope["method"])
    return method if method in METHODS else "OTHER"


def _route(scope: Scope) -> str:
    """The path as the API's document has it; callers may make paths up: those are one."""
    route = scope.get("route")
    return "unmatched" if route is None else str(route.path)


def _check_path(scope: Any) -> None:
    """Refuse what others take for a shorter path, or for one with more names.

    A slash in its quoted form is one for the router, and its patterns take a line break at the end
    for nothing: without an id, what is for one session would be for all of them.
    """
    raw: bytes = scope.get("raw_path") or b""
    if scope["path"] == "/":
        return
    names = scope["path"].split("/")[1:]
    if scope["path"].endswith("\n"):
        raise no_such_path()
    if not {"", ".", ".."}.isdisjoint(names) or b"%2f" in raw.lower():
        raise Unacceptable(
            404,
            "no-such-path",
            "the path has a name in it that is empty, `.` or `..`, or a quoted slash",
            advice="check the id or the name that was put there, and the slash at the end",
        )


def too_large(limit: int) -> Unacceptable:
    """The refusal of a body over the limit."""
    return Unacceptable(
        413,
        "too-large",
        f"a request may have {limit} bytes at most",
        advice="send less, or raise the setting `body_limit`",
        headers={"connection": "close"},
    )


def headers(scope: Scope, name: bytes) -> list[str]:
    """The values of every header of this name."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def header(scope: Scope, name: bytes) -> str | None:
    """The value of the first header of this name."""
    return next(iter(headers(scope, name)), None)


def bearer(scope: Scope) -> str | None:
    """The token a caller shows: in a header, or among the subprotocols of a WebSocket."""
    scheme, _, token = (header(scope, b"authorization") or "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    shown = (each for each in subprotocols(scope) if each.startswith(TOKEN_PREFIX))
    return next((each.removeprefix(TOKEN_PREFIX) for each in shown), None)


def subprotocols(scope: Any) -> list[str]:
    """What a WebSocket offers to speak."""
    return [str(each) for each in scope.get("subprotocols") or ()]


def without_port(host: str) -> str:
    """The host of a Host header: `localhost:80` -> `localhost`, `[::1]:80` -> `[::1]`."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def _place(origin: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None for what is no origin, such as `null`."""
    try:
        parts = urlsplit(origin)
        port = parts.port or DEFAULT_PORTS[parts.scheme]
    except (KeyError, ValueError):
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname else None
