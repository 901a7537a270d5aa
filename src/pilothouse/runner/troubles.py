"""What stands between a runner and its server, in words that say what to do about it."""

from __future__ import annotations

import errno
import socket
import ssl
from typing import Final

from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from pilothouse import __version__
from pilothouse.relay.addresses import Target
from pilothouse.relay.refusals import HEADER, Refusal, refusal_in

from .messages import MessageError

__all__ = ["TROUBLES", "VERSIONS", "describe"]

TROUBLES: Final = (MessageError, WebSocketException, OSError, UnicodeError)
"""What may become of a connection: `OSError` has the timeouts and those of TLS."""
VERSIONS: Final = (
    f"it may be of another version than this runner, {__version__}: compare `pilothouse --version`"
)

_STATUSES: Final = {
    404: f"this is no server that takes runners, or {VERSIONS}",
    421: "it does not go by the name in this address; add it to its setting hosts",
}
_CLOSED: Final = {
    1001: "it ends",
    1012: "it ends, or is started again",
    Refusal.FRAME_REFUSED: VERSIONS,
}


def describe(error: BaseException, target: Target) -> tuple[int | None, str]:
    """Return the code that the server gave, if it gave one, and what to say of it."""
    match error:
        case ConnectionClosed():
            return _closed(error)
        case InvalidStatus(response=response):
            told = f"the server answered with HTTP {response.status_code}"
            advice = _STATUSES.get(response.status_code)
            code = refusal_in(response.headers.get_all(HEADER))
            return code, f"{told}: {advice}" if advice else told
        case MessageError():
            return None, f"refused what the server sent: {error}; {VERSIONS}"
        case _:
            return None, _unreached(error, _place(target))


def _closed(closed: ConnectionClosed) -> tuple[int | None, str]:
    received = closed.rcvd
    if received is None:
        return None, "the connection broke"
    told = f"the server closed: {received.code} {received.reason}".strip()
    advice = _CLOSED.get(received.code)
    return received.code, f"{told}; {advice}" if advice else told


def _unreached(error: BaseException, place: str) -> str:
    if isinstance(error, TimeoutError):
        return f"the server does not answer at {place}: see whether it runs, and the way there"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"cannot connect: {error}; name the authority that signed it with --ca"
    if isinstance(error, ssl.SSLError):
        told = "; if the server has no certificate, use ws://" if _is_plain(error) else ""
        return f"cannot connect: {error}{told}"
    if isinstance(error, socket.gaierror):
        return f"the host of {place} is not known ({error.strerror}): correct --connect"
    if isinstance(error, FileNotFoundError) or _is_refused(error):
        return f"nobody listens at {place}: start `pilothouse serve` there, or correct --connect"
    return f"cannot connect to {place}: {error}"


def _place(target: Target) -> str:
    return f"unix:{target.unix}" if target.unix else target.url.removesuffix("/runner")


def _is_refused(error: BaseException) -> bool:
    # Where a name has several addresses, asyncio joins what each of them said to one text.
    return isinstance(error, ConnectionRefusedError) or (
        isinstance(error, OSError) and f"[Errno {errno.ECONNREFUSED}]" in str(error)
    )


def _is_plain(error: ssl.SSLError) -> bool:
    """Whether what answered speaks no TLS at all."""
    return error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
