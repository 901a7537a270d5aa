"""A connection to a server that has proved itself on it, so that the token may follow."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final
from urllib.parse import urlsplit

from pilothouse.api.proof import NOT_SENT, Challenge, NotProven

__all__ = ["dial"]

PROVES_WITHIN: Final = 10.0
RECEIVE: Final = 4096


async def dial(address: str, token: str) -> socket.socket:
    """Connect to the server at an `http` address; raises `OSError` if it is not there.

    A name may lead to several addresses, and others may listen at some of them: the first that
    proves itself is taken.
    """
    where = urlsplit(address)
    failure: OSError = ConnectionError("the name leads nowhere")
    for family, kind, protocol, _, place in await _places(where.hostname or "", where.port or 80):
        try:
            return await _proven(socket.socket(family, kind, protocol), place, address, token)
        except OSError as error:
            # That somebody else is there says more than that nobody is.
            failure = failure if isinstance(failure, NotProven) else error
    raise failure


async def _places(host: str, port: int) -> list[Any]:
    try:
        # To look a name up takes a thread.
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def _proven(own: socket.socket, place: Any, address: str, token: str) -> socket.socket:
    loop = asyncio.get_running_loop()
    try:
        own.setblocking(False)
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        async with asyncio.timeout(PROVES_WITHIN):
            await loop.sock_connect(own, place)
            challenge = Challenge(
                address, token, server=own.getpeername(), client=own.getsockname()
            )
            await loop.sock_sendall(own, challenge.request)
            while not challenge.receive(await loop.sock_recv(own, RECEIVE)):
                pass
    except TimeoutError:
        own.close()
        told = f"what listens at {place[0]} port {place[1]} proved nothing"
        raise TimeoutError(f"{told} within {PROVES_WITHIN:g} s; {NOT_SENT}") from None
    except BaseException:
        own.close()
        raise
    return own
