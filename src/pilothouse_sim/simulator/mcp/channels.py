"""How messages reach a server: through the client, or over the pipes of a process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import msgspec

from pilothouse_sim.simulator.outlet import ClientGone, ClientRefused

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    from pilothouse_sim.simulator.outlet import Outlet

__all__ = ["HostChannel", "McpChannel", "McpFailure", "ProcessChannel", "Receive"]

GRACE: Final = 0.5
"""Seconds a process has to end by itself once its input is closed."""
MAX_LINE: Final = 1 << 26

Message = dict[str, Any]
Receive = Callable[[Message], None]


class McpFailure(Exception):
    """A server could not be reached, or refused; the text is its own."""


class McpChannel(Protocol):
    """Carries JSON-RPC to one server and back."""

    async def request(self, message: Message) -> Message:
        """Send a request and return the whole response; raise `McpFailure`."""
        ...

    async def notify(self, message: Message) -> None:
        """Send a message that has no response."""
        ...

    def tell(self, message: Message) -> None:
        """Send a notification without waiting for anything."""
        ...

    async def aclose(self) -> None:
        """End the connection."""
        ...


class HostChannel:
    """A server in the client: every message is a control request."""

    def __init__(self, outlet: Outlet, name: str) -> None:
        self._outlet = outlet
        self._name = name

    async def request(self, message: Message) -> Message:
        """Send a request and return the response that the client passes back."""
        answer = await self._ask(message)
        response = answer.get("mcp_response")
        return cast("Message", response) if isinstance(response, dict) else {}

    async def notify(self, message: Message) -> None:
        """Send a notification; the client acknowledges it."""
        await self._ask(message)

    async def _ask(self, message: Message) -> Message:
        try:
            answer = await self._outlet.ask("mcp_message", server_name=self._name, message=message)
        except ClientRefused as error:
            raise McpFailure(str(error)) from None
        except ClientGone:
            raise McpFailure("Connection closed") from None
        return cast("Message", answer) if isinstance(answer, dict) else {}

    def tell(self, message: Message) -> None:
        """Send a notification; the acknowledgement is not waited for."""
        self._outlet.post("mcp_message", server_name=self._name, message=message)

    async def aclose(self) -> None:
        """Nothing to end: the server is the client's."""


class ProcessChannel:
    """A server that is a child process, in a process group of its own."""

    def __init__(self, process: Process, receive: Receive, closed: Callable[[], None]) -> None:
        self._process = process
        self._receive = receive
        self._closed = closed
        self._waiting: dict[Any, asyncio.Future[Message]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(
        cls,
        command: list[str],
        environment: dict[str, str],
        receive: Receive,
        closed: Callable[[], None],
    ) -> ProcessChannel:
        """Start the server; raise `McpFailure` when there is no such command."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
                limit=MAX_LINE,
            )
        except OSError:
            # The real CLI names its own helper here, not the command.
            words = "ENOENT: no such file or directory, posix_spawn 'stdio'"
            raise McpFailure(words) from None
        return cls(process, receive, closed)

    async def request(self, message: Message) -> Message:
        """Send a request and wait for the response."""
        answer = asyncio.get_running_loop().create_future()
        self._waiting[message["id"]] = answer
        try:
            await self.notify(message)
            return await answer
        finally:
            self._waiting.pop(message["id"], None)

    async def notify(self, message: Message) -> None:
        """Write one line."""
        assert self._process.stdin is not None
        if self._reading.done():
            raise McpFailure("Connection closed")
        self.tell(message)
        try:
            await self._process.stdin.drain()
        except ConnectionError:
            raise McpFailure("Connection closed") from None

    def tell(self, message: Message) -> None:
        """Write one line and do not wait."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(message) + b"\n")

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            async for line in self._process.stdout:
                self._take(line)
        finally:
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(McpFailure("Connection closed"))
            self._closed()

    def _take(self, line: bytes) -> None:
        try:
            message = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError:
            # What is no message is noise of the server's.
            return
        answer = self._waiting.get(message.get("id")) if "method" not in message else None
        if answer is None:
            self._receive(message)
        elif not answer.done():
            answer.set_result(message)

    async def aclose(self) -> None:
        """Close the server's input, and end its whole group if it does not end by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        for final in (None, signal.SIGTERM, signal.SIGKILL):
            if final is not None:
                self._signal(final)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    await self._process.wait()
                    break
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    def _signal(self, number: int) -> None:
        # Not reaped yet, so the id still is that of our own child.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
