"""The sockets a server listens on, bound before anything else is opened."""

from __future__ import annotations

import errno
import ipaddress
import socket
import ssl
from pathlib import Path
from typing import Final

from pilothouse.errors import ServerError
from pilothouse.settings import Settings

__all__ = ["address_of", "bind", "check_exposure", "hosts_of", "is_loopback"]

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_exposure(settings: Settings) -> None:
    """Refuse what would let others listen in, unless the user said the word for it."""
    if settings.tls_key is not None and settings.tls_cert is None:
        raise ServerError("tls_key is set without tls_cert; set both")
    for path in (settings.tls_cert, settings.tls_key):
        if path is not None and not path.is_file():
            raise ServerError(f"{path} is no file; set tls_cert and tls_key to PEM files")
    if settings.tls_cert is not None:
        _check_certificate(settings.tls_cert, settings.tls_key)
    if is_loopback(settings.host) or settings.tls_cert is not None or settings.insecure:
        return
    raise ServerError(
        f"{settings.host} can be reached from other machines; give --tls-cert and --tls-key, "
        "or --insecure if the network is to be trusted with the token"
    )


def _check_certificate(certificate: Path, key: Path | None) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except OSError as error:
        told = f"{certificate} and its key cannot be used: {error.strerror or error}"
        raise ServerError(f"{told}; set tls_cert and tls_key to PEM files that fit") from None


def bind(host: str, port: int) -> socket.socket:
    """A socket on the address; `listen` was not called yet."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ServerError(f"{host} is no address of this machine ({error.strerror})") from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # Two sockets may be bound to one port as long as neither listens.
        listener.listen()
    except OSError as error:
        listener.close()
        raise ServerError(_why_not(host, port, error)) from None
    return listener


def _why_not(host: str, port: int, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            told = f"port {port} on {host} is used by another program"
            return f"{told}; choose another: pilothouse serve --port {_another(port)}"
        case errno.EACCES:
            return f"port {port} is not for users to listen on; choose one above 1023 with --port"
        case errno.EADDRNOTAVAIL:
            return f"{host} is no address of this machine; choose another with --host"
        case _:
            return f"{host} port {port} cannot be listened on: {error.strerror}"


def _another(port: int) -> int:
    return port + 1 if port < 65535 else 0


def address_of(listener: socket.socket, *, tls: bool) -> str:
    """The URL at which programs on this machine reach the socket."""
    host, port = listener.getsockname()[:2]
    reached = ipaddress.ip_address(host.partition("%")[0])
    if reached.is_unspecified:
        reached = ipaddress.ip_address("127.0.0.1" if reached.version == 4 else "::1")
    name = f"[{reached}]" if reached.version == 6 else str(reached)
    return f"{'https' if tls else 'http'}://{name}:{port}"


def hosts_of(settings: Settings) -> list[str]:
    """The names by which requests may call this server; any other one is a rebound name."""
    names = [*LOOPBACK_NAMES, *settings.hosts]
    if not is_loopback(settings.host):
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        names += [host, socket.gethostname()]
    return names
