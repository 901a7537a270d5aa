"""`pilothouse open`: a link of the running server that signs a browser in, and the browser."""

from __future__ import annotations

import html
import http.client
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import MsgspecError, json

from pilothouse.api.console import LINKS, ConsoleLink
from pilothouse.api.problems import Problem
from pilothouse.api.proof import NotProven
from pilothouse.errors import ServerError
from pilothouse.folders import replace_private
from pilothouse.settings import Settings

from .attendance import FACE
from .background import Address, find_or_start
from .probe import ANSWERS_WITHIN, connection_to

__all__ = ["ask_link", "show"]

FILE_NAME: Final = "console.html"
DISPLAYS: Final = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")


async def ask_link(settings: Settings, *, env: Mapping[str, str] | None = None) -> ConsoleLink:
    """Ask the one server of this user, which is started if there is none."""
    return _ask(await find_or_start(settings, env=env), settings.tls_cert)


def _ask(found: Address, certificate: Path | None) -> ConsoleLink:
    connection = connection_to(found, certificate, ANSWERS_WITHIN)
    headers = {"Authorization": f"Bearer {found.token}", "User-Agent": FACE}
    try:
        connection.request("POST", LINKS, headers=headers)
        response = connection.getresponse()
        return _read(response.status, response.read())
    except NotProven as error:
        raise ServerError(str(error)) from None
    except (OSError, http.client.HTTPException) as error:
        raise ServerError(f"the server at {found.address} gave no link: {error}") from None
    finally:
        connection.close()


def _read(status: int, body: bytes) -> ConsoleLink:
    try:
        if status == 200:
            return json.decode(body, type=ConsoleLink)
        told = json.decode(body, type=Problem)
    except MsgspecError:
        raise ServerError(f"the server gave no link, but {status}") from None
    if status == 404:
        raise ServerError("the running server has no console; end it: pilothouse stop")
    raise ServerError(f"the server gave no link: {told.detail}; {told.advice}")


def show(link: ConsoleLink, folder: Path, env: Mapping[str, str]) -> bool:
    """Open it in the user's browser, if there is a display; whether that was tried.

    Everybody on the machine can read the command line of a browser. So it is given the name of a
    private file in this folder, which leads to the link.
    """
    if sys.platform != "darwin" and not any(env.get(name) for name in DISPLAYS):
        return False
    import webbrowser  # only a person at a display needs it

    url = html.escape(link.url)
    page = f'<!doctype html>\n<meta http-equiv="refresh" content="0; url={url}">\n'
    file = folder / FILE_NAME
    try:
        replace_private(file, page.encode())
        return webbrowser.open(file.absolute().as_uri())
    except (OSError, webbrowser.Error):
        return False
