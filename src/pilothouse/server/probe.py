"""Whether the server that the runtime file names answers."""

from __future__ import annotations

import http.client
import ssl
import time
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from msgspec import DecodeError, json

from pilothouse.api.proof import LONGEST_ANSWER, Challenge, NotProven
from pilothouse.errors import ServerError
from pilothouse.settings import Settings

from . import runtime
from .attendance import FACE
from .runtime import Running

__all__ = ["ANSWERS_WITHIN", "Reachable", "answering", "connection_to", "health", "tls_context"]

ANSWERS_WITHIN: Final = 5.0


class Reachable(Protocol):
    """What is needed to speak to a server."""

    @property
    def address(self) -> str: ...

    @property
    def token(self) -> str: ...


def answering(settings: Settings, within: float = ANSWERS_WITHIN) -> Running | None:
    """The running server, if it answers."""
    running = runtime.find(settings.runtime_dir)
    answers = running is not None and health(running, settings.tls_cert, within)
    return running if answers else None


def health(
    running: Running, certificate: Path | None = None, within: float = ANSWERS_WITHIN
) -> dict[str, Any] | None:
    """What the server says of its health; None if it does not answer as one of ours.

    That something else answers in its place is a `ServerError`.
    """
    connection = connection_to(running, certificate, within)
    try:
        headers = {"Authorization": f"Bearer {running.token}", "User-Agent": FACE}
        connection.request("GET", "/healthz", headers=headers)
        return _told(connection.getresponse())
    except NotProven as error:
        raise ServerError(str(error)) from None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _told(response: http.client.HTTPResponse) -> dict[str, Any] | None:
    # 503: it is there, but something is wrong with it.
    if response.status not in (200, 503):
        return None
    try:
        return json.decode(response.read(), type=dict[str, Any])
    except DecodeError:
        return None


def connection_to(
    running: Reachable, certificate: Path | None, within: float
) -> http.client.HTTPConnection:
    """A connection for requests with the token; made, and the server proved, at the first one."""
    where = urlsplit(running.address)
    assert where.hostname is not None
    if where.scheme != "https":
        return _Proven(running, within)
    context = tls_context(certificate)
    return http.client.HTTPSConnection(where.hostname, where.port, timeout=within, context=context)


class _Proven(http.client.HTTPConnection):
    """Sends nothing before the server has proved that it knows the token."""

    def __init__(self, running: Reachable, within: float) -> None:
        where = urlsplit(running.address)
        assert where.hostname is not None
        super().__init__(where.hostname, where.port, timeout=within)
        self._running = running
        self._within = within

    def connect(self) -> None:
        super().connect()
        try:
            self._prove()
        except BaseException:
            self.close()
            raise
        self.sock.settimeout(self._within)

    def _prove(self) -> None:
        own, until = self.sock, time.monotonic() + self._within
        challenge = Challenge(
            self._running.address,
            self._running.token,
            server=own.getpeername(),
            client=own.getsockname(),
        )
        own.sendall(challenge.request)
        while not challenge.receive(own.recv(LONGEST_ANSWER)):
            # Whoever sends byte after byte is not waited for either.
            own.settimeout(max(0.001, until - time.monotonic()))


def tls_context(certificate: Path | None) -> ssl.SSLContext:
    """Trusts the server's own certificate and no other; on this machine it has many names."""
    try:
        context = ssl.create_default_context(cafile=certificate)
    except OSError as error:
        told = f"{certificate} cannot be read as a certificate: {error.strerror or error}"
        raise ServerError(f"{told}; set tls_cert to a PEM file") from None
    context.check_hostname = certificate is None
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
