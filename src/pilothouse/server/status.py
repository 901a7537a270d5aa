"""What the running server has to do, and its end."""

from __future__ import annotations

import http.client
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, NamedTuple

from msgspec import DecodeError, Struct, json

from pilothouse import __version__
from pilothouse.api.proof import NotProven
from pilothouse.errors import ServerError
from pilothouse.settings import Settings

from . import runtime, survivors
from .attendance import FACE
from .probe import ANSWERS_WITHIN, connection_to, health
from .runtime import Running
from .survivors import going_on, sessions

__all__ = ["NONE", "report", "stop", "stop_all"]

ENDS_WITHIN: Final = 60.0
SESSIONS_END_WITHIN: Final = 120.0
LOOK_AGAIN_AFTER: Final = 0.05
NONE: Final = "no server is running; start one: pilothouse serve"
IN_TOUCH: Final = ("connected", "draining")


def report(settings: Settings) -> tuple[list[str], bool]:
    """Lines for a user, and whether a server answers."""
    running = runtime.find(settings.runtime_dir)
    behind = survivors.count(settings)
    if running is None:
        return [NONE, *([going_on(behind)] if behind else [])], False
    told = health(running, settings.tls_cert)
    where = f"at {running.address} (pid {running.pid})"
    if told is None:
        return [f"the server {where} does not answer; end it: pilothouse stop"], False
    return _lines(running, told, behind), True


def _lines(running: Running, told: dict[str, Any], behind: int) -> list[str]:
    since = datetime.fromtimestamp(running.started_at / 1000).astimezone()
    lines = [
        f"serving at {running.address} (pid {running.pid}, since {since:%Y-%m-%d %H:%M:%S})",
        f"sessions: {told.get('live', '?')} live of {told.get('sessions', '?')}; "
        f"open questions: {told.get('questions', '?')}",
    ]
    if behind:
        lines.append(f"{sessions(behind)} behind relays on this machine")
    if told.get("simulated"):
        lines.append("sessions run on the simulator")
    if told.get("problem"):
        lines.append(f"PROBLEM {told['problem']}")
    if told.get("policy_error"):
        lines.append(f"PROBLEM policy: {told['policy_error']}")
    if running.version != __version__:
        lines.append(f"it is version {running.version}, this is {__version__}: pilothouse stop")
    return lines


def stop(settings: Settings) -> str:
    """Ask the server to end, and wait until it has; its sessions go on behind their relays."""
    running = runtime.find(settings.runtime_dir)
    elsewhere, doubt = _elsewhere(running, settings) if running else (0, "")
    told = _end(running, settings) if running else "no server is running"
    behind = survivors.count(settings) + elsewhere
    return "; ".join(filter(None, [told, doubt, going_on(behind) if behind else ""]))


def stop_all(settings: Settings, tell: Callable[[str], None] = lambda _: None) -> str:
    """Have the server close every session in order, and end it and what relays there still are.

    `tell` gets what is done meanwhile: it may take a minute.
    """
    running = runtime.find(settings.runtime_dir)
    if behind := survivors.count(settings):
        tell(f"closing {sessions(behind)}; a CLI at work may take up to a minute")
    closed, doubt = _close_sessions(running, settings) if running else (set[str](), "")
    told = _end(running, settings) if running else "no server is running"
    # Those of the simulator and of the real CLI have one server at a time, and it may not answer.
    left = survivors.end(settings) - closed
    done = [f"{sessions(len(closed))} closed in order"] if closed else []
    more = [f"{sessions(len(left))} without a server ended in order"] if left else []
    return "; ".join(filter(None, [*done, told, doubt, *more]))


def _close_sessions(running: Running, settings: Settings) -> tuple[set[str], str]:
    answer = _ask(running, settings, "POST", "/api/sessions/stop", SESSIONS_END_WITHIN)
    try:
        return {*json.decode(answer.content, type=_Closed).sessions}, ""
    except DecodeError:
        return set(), answer.doubt


def _end(running: Running, settings: Settings) -> str:
    # It may have ended since.
    with suppress(ProcessLookupError):
        os.kill(running.pid, signal.SIGTERM)
    lock = runtime.Lock(settings.runtime_dir / runtime.LOCK_NAME)
    until = time.monotonic() + ENDS_WITHIN
    while lock.is_held() or not _has_ended(running.pid):
        if time.monotonic() > until:
            told = f"the server (pid {running.pid}) has not ended within {ENDS_WITHIN:g} s"
            raise ServerError(f"{told}; wait, or end it now: kill -9 {running.pid}")
        time.sleep(LOOK_AGAIN_AFTER)
    return f"the server at {running.address} has ended"


def _has_ended(pid: int) -> bool:
    """Whether the process is gone, also where nobody has reaped it yet.

    It lets go of the lock some time before.
    """
    if sys.platform != "linux":
        return not runtime.is_alive(pid)
    try:
        held = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([held], [], [], 0)[0])
    finally:
        os.close(held)


# Questions to the server, without what a whole engine over HTTP would have to load.


class _Answer(NamedTuple):
    """What the server said, or why something else did that is not to see the token."""

    content: bytes = b""
    doubt: str = ""


class _Closed(Struct):
    sessions: list[str]


class _Runner(Struct):
    state: str
    sessions: list[str]


def _elsewhere(running: Running, settings: Settings) -> tuple[int, str]:
    """How many sessions run on other machines, where the server's end does not end them either."""
    answer = _ask(running, settings, "GET", "/api/runners", ANSWERS_WITHIN)
    try:
        runners = json.decode(answer.content, type=list[_Runner])
    except DecodeError:
        return 0, answer.doubt
    return sum(len(each.sessions) for each in runners if each.state in IN_TOUCH), ""


def _ask(running: Running, settings: Settings, method: str, path: str, within: float) -> _Answer:
    """What the server answers; nothing if it does not, or with anything but a success."""
    connection = connection_to(running, settings.tls_cert, within)
    headers = {"Authorization": f"Bearer {running.token}", "User-Agent": FACE}
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return _Answer(response.read() if 200 <= response.status < 300 else b"")
    except NotProven as error:
        return _Answer(doubt=str(error))
    except (OSError, http.client.HTTPException):
        return _Answer()
    finally:
        connection.close()
