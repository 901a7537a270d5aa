"""The console's own paths, and the check of its cookie.

    a link, made for whoever has the token ──> the page ── POST /console/enter ──> a cookie

The cookie stands for the token on every path. A browser also sends it with what a page of another
site makes it send, so a cookie alone opens nothing: a request must have a header that such a page
cannot set, and whatever acts, and every WebSocket, an Origin of ours. That those which are there
are ours was checked before.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec import json

from pilothouse.api import console as api
from pilothouse.api.console import (
    ConsoleLink,
    EnterConsole,
    LeaveConsole,
    SignedIn,
    SignedOut,
)
from pilothouse.doors.sockets import admit
from pilothouse.errors import ServerError
from pilothouse.faces.http.app import read_bytes
from pilothouse.faces.http.entrance import BROWSER, CHALLENGE, header
from pilothouse.faces.http.problems import Unacceptable, no_such_path
from pilothouse.faces.http.request_values import read_body, read_query
from pilothouse.faces.http.responses import Answering, HttpAnswer

from .browsers import LASTS_S, Browser, Browsers
from .codes import OneTimeCodes
from .cookies import clear_cookie, cookies_of, set_cookie
from .page_files import MISSING, PAGE_PATHS, PREFIXES, SINGLE, PageFiles

if TYPE_CHECKING:
    from starlette.types import Receive, Scope

__all__ = ["Console"]

HEADER: Final = api.HEADER.lower().encode()
OPEN: Final = frozenset({api.ENTER, *SINGLE})
READING: Final = frozenset({"GET", "HEAD"})
BODY_LIMIT: Final = 4096
"""Bytes; one of these paths is open to strangers."""
HOW: Final = "run: pilothouse open"
NOT_KEPT: Final = ((b"cache-control", b"no-store"),)


class Console:
    """The browser's way in: the page, its links, and who is signed in."""

    def __init__(self, browsers: Browsers, files: PageFiles, *, version: str) -> None:
        self._browsers = browsers
        self._files = files
        self._version = version
        self._codes = OneTimeCodes()

    @property
    def lack(self) -> str:
        """Why there is no page; empty if there is one."""
        return "" if self._files.is_built() else MISSING

    def make_link(self, address: str) -> ConsoleLink:
        """Return a link to the server at this address."""
        code, until = self._codes.make()
        return ConsoleLink(url=f"{address}/#enter={code}", expires_at=until, warning=self.lack)

    async def aclose(self) -> None:
        """Store when each browser was last used, if the disk takes it."""
        with suppress(ServerError):
            await self._browsers.aclose()

    # What the entrance asks

    def is_open(self, path: str) -> bool:
        """Return whether a path is for those who show nothing."""
        return path in OPEN or path.startswith(PREFIXES)

    def admits(self, scope: Any) -> bool:
        """Return whether a request has the cookie of a browser that is signed in.

        Raises `Unacceptable` for a cookie that is none any more, or that a page of another site
        may have caused to be sent.
        """
        cookies = cookies_of(scope)
        if not cookies:
            return False
        origin = _deliberate_origin(scope)
        browser = next(filter(None, map(self._browsers.find, cookies)), None)
        if browser is None:
            raise _signed_out("this browser is not signed in any more")
        if origin not in ("", browser.origin):
            raise _foreign_page()
        scope[BROWSER] = browser
        return True

    def answers(self) -> Mapping[str, Mapping[str, Answering]]:
        """Return what each path answers, by its methods."""
        page = {"GET": self._page, "HEAD": self._page}
        return {
            api.LINKS: {"POST": self._link},
            api.ENTER: {"POST": self._enter},
            api.LEAVE: {"POST": self._leave},
            api.ME: {"GET": self._me},
            **dict.fromkeys(PAGE_PATHS, page),
        }

    # What is answered

    async def _page(self, scope: Scope, _: Receive) -> HttpAnswer:
        file = await self._files.find(scope["path"])
        if file is None:
            raise no_such_path()
        return file.answer(scope)

    async def _link(self, scope: Scope, receive: Receive) -> HttpAnswer:
        read_query(scope["query_string"], None)
        await read_bytes(receive, BODY_LIMIT)
        # A browser knows best how it got here, through whatever proxies.
        used = header(scope, b"origin") or f"{scope['scheme']}://{header(scope, b'host')}"
        return _answer(self.make_link(used))

    async def _enter(self, scope: Scope, receive: Receive) -> HttpAnswer:
        origin = _deliberate_origin(scope)
        asked: EnterConsole = await _body(scope, receive, EnterConsole)
        if not self._codes.take(asked.code):
            raise _signed_out("this link was used before, or is too old, or is another server's")
        cookie, browser = await self._browsers.add(origin, cookies_of(scope))
        admit(scope)
        return _answer(self._signed_in(browser), set_cookie(scope, cookie, LASTS_S))

    async def _leave(self, scope: Scope, receive: Receive) -> HttpAnswer:
        asked: LeaveConsole = await _body(scope, receive, LeaveConsole)
        browser: Browser | None = scope.get(BROWSER)
        if asked.everywhere:
            # Somebody who is to go may have made links to come back by.
            self._codes.clear()
            gone = await self._browsers.remove_all()
        else:
            gone = 0 if browser is None else await self._browsers.remove(browser)
        return _answer(SignedOut(browsers=gone), clear_cookie(scope))

    async def _me(self, scope: Scope, _: Receive) -> HttpAnswer:
        read_query(scope["query_string"], None)
        browser: Browser | None = scope.get(BROWSER)
        if browser is None:
            raise _signed_out("no browser is signed in by a token")
        return _answer(self._signed_in(browser))

    def _signed_in(self, browser: Browser) -> SignedIn:
        return SignedIn(since=browser.since, expires_at=browser.expires_at, version=self._version)


def _deliberate_origin(scope: Scope) -> str:
    """Return whose page asks, empty where none says; refuse what a page of another site can make a
    browser send."""
    is_request = scope["type"] == "http"
    if is_request and header(scope, HEADER) != "1":
        raise Unacceptable(
            403,
            "no-console-header",
            "a cookie opens nothing without the console's header",
            advice=f"send `{api.HEADER}: 1`, or the token in place of the cookie",
        )
    origin = header(scope, b"origin")
    if origin is None and not (is_request and scope["method"] in READING):
        raise Unacceptable(
            403,
            "no-origin",
            "a cookie acts, or opens a WebSocket, for a page of ours alone",
            advice="send the server's own `Origin`, as browsers do, or the token",
        )
    return (origin or "").lower()


def _foreign_page() -> Unacceptable:
    return Unacceptable(
        403,
        "foreign-origin",
        "this cookie is for the pages of the address at which it was given",
        advice="open the console there, or send the token",
    )


def _signed_out(detail: str) -> Unacceptable:
    return Unacceptable(401, "signed-out", detail, advice=HOW, headers=CHALLENGE)


async def _body(scope: Scope, receive: Receive, kind: Any) -> Any:
    read_query(scope["query_string"], None)
    content = await read_bytes(receive, BODY_LIMIT)
    return read_body(scope, content or b"{}", kind)


def _answer(value: Any, *headers: tuple[bytes, bytes]) -> HttpAnswer:
    return HttpAnswer(json.encode(value), headers=(*NOT_KEPT, *headers))
