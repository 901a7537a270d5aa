"""The process of a CLI that dials: how it is started, and how it is ended."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from pilothouse import __version__
from pilothouse.transport.base import Exit
from pilothouse.transport.stdio import StdioTransport

from .dialect import SdkUrlTransport

__all__ = ["launched"]

TOKEN_DESCRIPTOR: Final = "CLAUDE_CODE_WEBSOCKET_AUTH_FILE_DESCRIPTOR"
TOKEN: Final = "CLAUDE_CODE_SESSION_ACCESS_TOKEN"


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

    def __init__(self, process: StdioTransport) -> None:
        self._process = process

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def stderr_tail(self) -> str:
        return self._process.stderr_tail

    async def start(self, ended: Callable[[Exit], None]) -> None:
        await self._process.start(_ProcessEnd(ended))

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
