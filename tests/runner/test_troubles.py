"""What a runner says of each trouble on the way to its server."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.frames import Close

from pilothouse.relay.refusals import Refusal
from pilothouse.runner.control import gate_of
from pilothouse.runner.messages import MessageError
from pilothouse.runner.troubles import VERSIONS, describe

URL = "ws://pilot.example:8137"
TARGET = gate_of(URL, "a-token", ssl.create_default_context).target
REFUSED = f"[Errno {errno.ECONNREFUSED}] Connect call failed"
NOBODY = f"nobody listens at {URL}: start `pilothouse serve` there, or correct --connect"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), NOBODY),
        (OSError(f"Multiple exceptions: {REFUSED} ('::1', 1), {REFUSED} ('127.0.0.1', 1)"), NOBODY),
        (
            socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
            f"the host of {URL} is not known (Name or service not known): correct --connect",
        ),
        (TimeoutError(), f"the server does not answer at {URL}: see whether it runs, and the way"),
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), "with --ca"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), f"cannot connect to {URL}: "),
        (MessageError("no message"), f"refused what the server sent: no message; {VERSIONS}"),
    ],
)
def test_a_server_that_is_not_reached_is_told_with_what_to_do(error: Exception, told: str):
    code, text = describe(error, TARGET)
    assert code is None
    assert told in text


@pytest.mark.parametrize(
    ("code", "told"),
    [(1012, "it ends, or is started again"), (Refusal.FRAME_REFUSED, VERSIONS)],
)
def test_the_end_of_a_connection_has_its_code_and_its_meaning(code: int, told: str):
    closed = ConnectionClosedError(Close(code, ""), None)
    assert describe(closed, TARGET) == (code, f"the server closed: {code}; {told}")


def test_a_socket_that_is_not_there_is_named():
    target = gate_of("unix:/run/pilot.sock", "a-token", ssl.create_default_context).target
    _, text = describe(FileNotFoundError(errno.ENOENT, "No such file"), target)
    assert "nobody listens at unix:/run/pilot.sock" in text
