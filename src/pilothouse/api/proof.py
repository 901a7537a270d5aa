"""How a server proves that it knows the token, before anybody shows it the token.

What is sent to an address goes to whoever listens there, and after a server has ended that may be
another user of the machine. So a client asks first, on the very connection it is about to use:

    GET /proof?nonce=NONCE     without the token
    {"proof": CODE}            made with the token, over the nonce and both ends of the connection

Both ends are in it, so that the proof is worth nothing on any other connection: a listener that
hands the question on to the real server gets the proof of its own connection to that server. The
server's end alone would not do: a listener could keep a client waiting, leave the port to the real
server, and ask it then. For the same reason there is no proof through a tunnel or a proxy; there
the certificate of `https` is the proof.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import MsgspecError, Struct, json

__all__ = ["NONCE_LENGTH", "PATH", "Challenge", "NotProven", "Proof", "WrongProof", "make_proof"]

PATH: Final = "/proof"
NONCE_BYTES: Final = 32
NONCE_LENGTH: Final = 43
"""Characters of so many bytes in base64url."""
LONGEST_ANSWER: Final = 8192
SUCCESS: Final = b"HTTP/1.1 200 "
FOREIGN_HOST: Final = b"HTTP/1.1 421 "
NOT_SENT: Final = "the token was not sent"

End = Sequence[Any] | None
"""One end of a connection: host, port and perhaps more; None where nobody knows it."""


class NotProven(ConnectionError):
    """Something answers, but not as the server would."""


class WrongProof(NotProven):
    """A proof of another token, or of another connection."""


class Proof(Struct, frozen=True):
    """That the server knows the token."""

    proof: str


def make_proof(token: str, nonce: str, server: End, client: End) -> str:
    """Return the proof for a connection between these ends, as sockets or ASGI name them."""
    text = "\n".join(("pilothouse proof v1", nonce, _written(server), _written(client)))
    return hmac.new(token.encode(), text.encode(), hashlib.sha256).hexdigest()


def _written(end: End) -> str:
    """Return an end of a connection as both sides write it: `127.0.0.1:8137`, `[::1]:8137`."""
    if end is None:
        return "-"
    host, port = str(end[0]), end[1]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return f"{host}:{port}"
    # One side of a connection may see ::ffff:127.0.0.1 where the other sees 127.0.0.1.
    address = getattr(address, "ipv4_mapped", None) or address
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


class Challenge:
    """Asks for the proof on one connection, and checks it; does no I/O itself."""

    def __init__(self, address: str, token: str, *, server: End, client: End) -> None:
        """`address` is the server's URL; `server` and `client` are the ends of the connection."""
        nonce = secrets.token_urlsafe(NONCE_BYTES)
        where = urlsplit(address)
        target = f"{where.path.rstrip('/')}{PATH}?nonce={nonce}"
        self.request = f"GET {target} HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode()
        self._expected = make_proof(token, nonce, server, client)
        self._place = _written(server)
        self._received = b""

    def receive(self, data: bytes) -> bool:
        """Take what came, and return whether the proof is complete, and right.

        Raises `NotProven`, or another `ConnectionError` where the connection has ended.
        """
        if not data:
            raise ConnectionResetError(
                f"what listens at {self._place} closed the connection; {NOT_SENT}"
            )
        self._received += data
        head, is_whole, body = self._received.partition(b"\r\n\r\n")
        if is_whole:
            self._check_status(head)
            length = _length(head)
            if length is None or len(body) > length:
                raise self._foreign("its answer is no proof")
            if len(body) == length:
                self._check_proof(body)
                return True
        if len(self._received) > LONGEST_ANSWER:
            raise self._foreign("its answer is too long")
        return False

    def _check_status(self, head: bytes) -> None:
        status = head.partition(b"\r\n")[0]
        if status.startswith(FOREIGN_HOST):
            told = f"the server at {self._place} does not go by the name in this address"
            raise NotProven(f"{told}; add it to its setting `hosts`; {NOT_SENT}")
        if not status.startswith(SUCCESS):
            raise self._foreign(f"it answers {_printable(status)} where a proof is due")

    def _check_proof(self, body: bytes) -> None:
        try:
            given = json.decode(body, type=Proof).proof
        except (MsgspecError, UnicodeDecodeError):
            raise self._foreign("its answer is no proof") from None
        if not hmac.compare_digest(given.encode(errors="replace"), self._expected.encode()):
            raise WrongProof(
                f"what answers at {self._place} is not the server of this token: another program "
                "has the port, or the token is another server's, or there is a tunnel or a proxy "
                f"between, through which only https can be used; {NOT_SENT}"
            )

    def _foreign(self, why: str) -> NotProven:
        told = f"something else than the server answers at {self._place}, or an older server"
        return NotProven(f"{told}: {why}; {NOT_SENT}")


def _length(head: bytes) -> int | None:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length" and value.strip().isdigit():
            return int(value)
    return None


def _printable(line: bytes) -> str:
    text = line[:40].decode("ascii", "replace")
    return repr("".join(each if each.isprintable() else "?" for each in text))
