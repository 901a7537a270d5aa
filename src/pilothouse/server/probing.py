"""Whether the server that the runtime file names answers."""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import DecodeError, json

from pilothouse.errors import ServerError
from pilothouse.settings import Settings

from . import runtime
from .attendance import FACE
from .runtime import Running

__all__ = ["answering", "health", "tls_context"]

ANSWERS_WITHIN: Final = 5.0


def answering(settings: Settings) -> Running | None:
    """The running server, if it answers."""
    running = runtime.find(settings.runtime_dir)
    return running if running is not None and health(running, settings.tls_cert) else None


def health(running: Running, certificate: Path | None = None) -> dict[str, Any] | None:
    """What the server says of its health; None if it does not answer as one of ours."""
    where = urlsplit(running.address)
    assert where.hostname is not None
    if where.scheme == "https":
        context = tls_context(certificate)
        connection = http.client.HTTPSConnection(
            where.hostname, where.port, timeout=ANSWERS_WITHIN, context=context
        )
    else:
        connection = http.client.HTTPConnection(where.hostname, where.port, timeout=ANSWERS_WITHIN)
    try:
        headers = {"Authorization": f"Bearer {running.token}", "User-Agent": FACE}
        connection.request("GET", "/healthz", headers=headers)
        return _told(connection.getresponse())
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
