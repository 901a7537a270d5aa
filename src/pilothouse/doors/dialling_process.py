"""The process of a CLI that dials: one that we start, or one that somebody else has started."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from pilothouse import __version__
from pilothouse.transport.base import Exit
from pilothouse.transport.stdio import StdioTransport

from .dialect import SdkUrlTransport

__all__ = ["TOKEN", "hand_started", "launched"]

TOKEN_DESCRIPTOR: Final = "CLAUDE_CODE_WEBSOCKET_AUTH_FILE_DESCRIPTOR"
TOKEN: Final = "CLAUDE_CODE_SESSION_ACCESS_TOKEN"

GONE_AFTER: Final = 60.0
"""Seconds after which a CLI that lost its connection counts as ended."""
LEFT_GRACE: Final = 5.0
"""The same, after it has closed its connection: it ends, or dials again after 1.25 s at most."""
END_GRACE: Final = 2.0
"""For a CLI to take the request to end; those before 2.1.119 do not know it."""

END_SESSION: Final = (
    b'{"type":"control_request","request_id":"end","request":{"subtype":"end_session"}}\n'
)
NORMAL: Final = 1000
FINAL: Final = 4001
"""The close code that 2.1.119 does not dial again after; an older one is refused when it does."""


def launched(
    argv: Sequence[str],
    *,
    cwd: str | None,
    env: Mapping[str, str],
    session_id: str,
    run: str,
    token: str,
    url: str,
    hybrid: bool = False,
    on_stderr: Callable[[str], None] | None = None,
) -> SdkUrlTransport:
    """Return the transport of a CLI that we start ourselves, to dial our door.

    `argv` is a launch for pipes; `url` the server's, before `/ws/`: `ws://` or `wss://`.
    """
    process = StdioTransport(
        [*argv, f"--sdk-url={url.rstrip('/')}/ws/{quote(session_id, safe='')}"],
        cwd=cwd,
        env=_environment(env, session_id, run, hybrid=hybrid),
        on_stderr=on_stderr,
        # By a descriptor: it is to be seen neither in argv nor in the environment.
        secrets={TOKEN_DESCRIPTOR: token.encode()},
    )
    return SdkUrlTransport(_OwnProcess(process), session_id=session_id, run=run, hybrid=hybrid)


class _OwnProcess:
    """A process that we have started, behind our guard.

    Such a CLI has no input that could end: SIGINT ends it. 2.1.119 and the Node build then end
    with 0, the native 2.1.37 mostly by the signal; a running turn is not finished.
    """

    is_ours: bool = True

    def __init__(self, process: StdioTransport) -> None:
        self._process = process

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def stderr_tail(self) -> str:
        return self._process.stderr_tail

    async def start(self, cli: SdkUrlTransport) -> None:
        await self._process.start(_ProcessEnd(cli.process_ended))

    def came(self) -> None:
        """Its connections tell nothing: its process is seen."""

    def left(self, code: int | None) -> None:
        """Nor does their end."""

    def end(self) -> None:
        # Once: a second one kills a CLI that is ending in order.
        self._process.signal(signal.SIGINT)

    async def aclose(self, *, grace: float) -> Exit:
        # SIGTERM after `grace`, SIGKILL 2 s later.
        return await self._process.aclose(grace=grace)


class _ProcessEnd:
    """Hears of the process's end. Its pipes carry nothing that matters: the socket does."""

    def __init__(self, ended: Callable[[Exit], None]) -> None:
        self._ended = ended

    def data_received(self, data: bytes) -> None:
        pass

    def eof_received(self) -> None:
        pass

    def exited(self, exit: Exit) -> None:
        self._ended(exit)


def hand_started(*, session_id: str, run: str, gone_after: float = GONE_AFTER) -> SdkUrlTransport:
    """Return the transport of a CLI that somebody else has started."""
    return SdkUrlTransport(_ForeignProcess(gone_after), session_id=session_id, run=run)


class _ForeignProcess:
    """A process that somebody else has started: nothing is seen of it but its connections.

    A CLI that closes its connection and does not come back has ended in order, which counts as the
    exit code 0. One that stays away longer than it may has ended, too, and nobody knows how.
    """

    is_ours: bool = False
    pid: int | None = None
    stderr_tail: str = ""

    def __init__(self, gone_after: float) -> None:
        self._gone_after = gone_after
        self._cli: SdkUrlTransport | None = None
        self._is_ending = False
        self._exit: Exit | None = None
        self._ended = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    async def start(self, cli: SdkUrlTransport) -> None:
        self._cli = cli
        if not cli.connected:
            self.left(None)

    def came(self) -> None:
        self._cancel()

    def left(self, code: int | None) -> None:
        if self._is_ending:
            self._over(Exit(0, None, ""))
        elif code == NORMAL:
            self._after(LEFT_GRACE, Exit(0, None, ""))
        else:
            told = f"the CLI lost its connection, and was not back within {self._gone_after:g} s"
            self._after(self._gone_after, Exit(None, None, "", told))

    def end(self) -> None:
        self._is_ending = True
        if self._cli is None or not self._cli.connected:
            self._over(Exit(0, None, ""))
        else:
            self._cli.put(END_SESSION)
            self._cancel()
            self._timer = asyncio.get_running_loop().call_later(END_GRACE, self._send_away)

    async def aclose(self, *, grace: float) -> Exit:
        if self._cli is not None:
            # Not taken back if the caller is cancelled: what was begun comes to its end.
            giving_up = asyncio.get_running_loop().call_later(grace, self._give_up)
            await self._ended.wait()
            giving_up.cancel()
        return self._exit or Exit(None, None, "")

    def _send_away(self) -> None:
        if self._cli is not None:
            self._cli.send_away(FINAL, "the session has ended")

    def _give_up(self) -> None:
        self._send_away()
        self._over(Exit(0, None, ""))

    def _after(self, delay: float, exit_: Exit) -> None:
        self._cancel()
        self._timer = asyncio.get_running_loop().call_later(delay, self._over, exit_)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _over(self, exit_: Exit) -> None:
        if self._exit is None and self._cli is not None:
            self._cancel()
            self._exit = exit_
            self._ended.set()
            self._cli.process_ended(exit_)


def _environment(
    env: Mapping[str, str], session_id: str, run: str, *, hybrid: bool
) -> dict[str, str]:
    """The launch's environment, with what says that the CLI works for a server.

    What the launch itself says stays. `CLAUDE_CODE_REMOTE` is left to it: with that, later builds
    write the token to a file below /home/claude, whatever HOME is, and loosen what they ask about;
    the protocol's documentation has the list.
    """
    remote = {
        "CLAUDE_CODE_REMOTE_SESSION_ID": session_id,
        "CLAUDE_CODE_CONTAINER_ID": run,
        "CLAUDE_CODE_ENVIRONMENT_RUNNER_VERSION": f"pilothouse/{__version__}",
    }
    own = {"CLAUDE_CODE_POST_FOR_SESSION_INGRESS_V2": "1"} if hybrid else {}
    # A token in the environment would go before the descriptor's.
    return {name: value for name, value in (remote | dict(env) | own).items() if name != TOKEN}
