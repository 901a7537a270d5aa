"""Where a door is, and how its name becomes addresses without holding up the loop."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    Address = tuple[int, tuple[Any, ...] | str]
    """A socket's family, and what its `connect` takes."""

__all__ = ["BadAddress", "Resolver", "Target", "parse", "reachable"]

SCHEMES: Final = {"ws": False, "http": False, "wss": True, "https": True}
LONGEST: Final = 107 if sys.platform == "linux" else 103
"""Bytes of a path that fit into a Unix socket's address."""
LONGEST_NAME: Final = LONGEST - len("/proc/self/fd/9999999999/")
"""Bytes of a name, where the folder can be told by a descriptor."""


class BadAddress(ValueError):
    """It names no door."""


class Target(NamedTuple):
    """One session's door."""

    url: str
    """For the request line and the `Host` header."""
    host: str
    port: int
    secure: bool
    unix: str = ""

    @property
    def is_local(self) -> bool:
        return bool(self.unix) or self.host == "localhost" or _is_loopback(self.host)


def parse(connect: str, session_id: str) -> Target:
    """Read `ws://HOST[:PORT][/PREFIX]`, `wss://...` or `unix:PATH`; raises `BadAddress`."""
    path = f"/relay/{quote(session_id, safe='')}"
    if connect.startswith("unix:"):
        if not (place := connect.removeprefix("unix:")):
            raise BadAddress("unix: names no socket")
        _check_length(place)
        return Target(f"ws://localhost{path}", "localhost", 0, secure=False, unix=place)
    try:
        parts = urlsplit(connect)
        secure = SCHEMES[parts.scheme]
        port = parts.port or (443 if secure else 80)
    except (KeyError, ValueError):
        raise BadAddress(f"{connect} is no ws://, wss:// or unix: address") from None
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise BadAddress("the address is to have no user, password, query or fragment")
    if not parts.hostname:
        raise BadAddress(f"{connect} names no host")
    scheme = "wss" if secure else "ws"
    url = f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}{path}"
    return Target(url, parts.hostname, port, secure=secure)


def _check_length(place: str) -> None:
    path = Path(place)
    fits = len(bytes(path)) <= LONGEST
    if not fits and (sys.platform != "linux" or len(os.fsencode(path.name)) > LONGEST_NAME):
        told = f"{place} is too long for the path of a socket"
        raise BadAddress(f"{told}; set state_dir to a shorter folder")


@contextmanager
def reachable(place: str) -> Generator[str]:
    """A name of this Unix socket that its address can hold, for as long as the context lasts.

    Linux leads from a descriptor of the folder to what is in it, however long its path is.
    """
    path = Path(place)
    if len(bytes(path)) <= LONGEST or sys.platform != "linux":
        yield str(path)
        return
    fd = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{path.name}"
    finally:
        os.close(fd)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Resolver:
    """Looks names up in a thread, which ends with each answer: `getaddrinfo` can take very long."""

    def __init__(self) -> None:
        self._readable, self._writable = os.pipe()
        os.set_blocking(self._readable, False)
        self._then: Callable[[list[Address]], None] | None = None
        self._found: dict[int, list[Address]] = {}
        self._asked = 0

    def fileno(self) -> int:
        """Readable when there is an answer: then call `ready`."""
        return self._readable

    def ask(self, target: Target, then: Callable[[list[Address]], None]) -> None:
        """Call `then` with the addresses, at once where there is nothing to look up."""
        if target.unix:
            then([(socket.AF_UNIX, target.unix)])
        elif known := _lookup(target, socket.AI_NUMERICHOST):
            then(known)
        else:
            self._asked += 1
            self._then = then
            threading.Thread(target=self._look, args=(target, self._asked), daemon=True).start()

    def forget(self) -> None:
        """Nobody waits for the answer any more."""
        self._then = None

    def ready(self) -> None:
        os.read(self._readable, 4096)
        found = self._found.pop(self._asked, None)
        for late in [number for number in self._found if number < self._asked]:
            del self._found[late]
        if found is not None and self._then is not None:
            then, self._then = self._then, None
            then(found)

    def _look(self, target: Target, number: int) -> None:
        self._found[number] = _lookup(target, 0)
        os.write(self._writable, b".")


def _lookup(target: Target, flags: int) -> list[Address]:
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM, flags=flags)
    except OSError:
        return []
    return [(family, address) for family, _, _, _, address in found]
