"""A Messages API on the loopback interface that answers from a scenario.

The real CLI talks to it through `ANTHROPIC_BASE_URL`. It speaks just enough HTTP/1.1 for that.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Self

import msgspec

from pilothouse_sim.scenario import (
    ApiError,
    Broken,
    Gate,
    ModelRequest,
    Pause,
    Reply,
    Scenario,
    Script,
)
from pilothouse_sim.speech import Ids, speak, spoken

if TYPE_CHECKING:
    from types import TracebackType

    from pilothouse_sim.speech import Event

__all__ = ["ScriptedModel"]

_JSON = "application/json"
_SSE = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}


class _Call(msgspec.Struct, frozen=True):
    """One HTTP request, read in full."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class ScriptedModel:
    """Serves one scenario and remembers what it was asked.

    `requests` holds every Messages API call in order of arrival. Gates in the scenario hold a
    stream until `release`; `reached` tells when a stream stands there.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.requests: list[ModelRequest] = []
        self.script = Script(scenario)
        self.url = ""
        self._ids = Ids()
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._reached: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._released: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._arrived = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop serving; open streams are cut."""
        if self._server is None:
            return
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    async def reached(self, gate: str) -> None:
        """Wait until a stream stands at the gate."""
        await self._reached[gate].wait()

    def release(self, gate: str) -> None:
        """Open the gate, now and for every later stream that comes to it."""
        self._released[gate].set()

    async def asked(self, number: int) -> ModelRequest:
        """Wait for the request of this number, counted from 1, and return it."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= number)
        return self.requests[number - 1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            while (call := await _read_call(reader)) is not None:
                await self._serve(call, writer)
        except (ConnectionError, asyncio.CancelledError):
            # The CLI drops the connection when it is interrupted; the scenario may cut it; and
            # `aclose` cancels. Ending the task quietly is what all three ask for.
            pass
        finally:
            self._serving.discard(task)
            writer.close()

    async def _serve(self, call: _Call, writer: asyncio.StreamWriter) -> None:
        path = call.path.partition("?")[0]
        if call.method != "POST":
            await _send_json(writer, 200, {}, body=call.method != "HEAD")
        elif path.endswith("/v1/messages"):
            await self._answer(_decode(call.body), writer)
        elif path.endswith("/v1/messages/count_tokens"):
            await _send_json(writer, 200, {"input_tokens": max(len(call.body) // 4, 1)})
        else:
            await _send_json(writer, 200, {})

    async def _answer(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        request = ModelRequest.parse(body)
        async with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        answer = self.script.next(request)
        if isinstance(answer, ApiError):
            await _send_error(writer, answer)
        elif request.stream:
            await self._stream(answer, request, writer)
        else:
            whole = answer.reply if isinstance(answer, Broken) else answer
            await self._pass_gates(whole)
            message = spoken(whole, model=request.model, ids=self._ids)
            await _send_json(writer, 200, message)

    async def _stream(
        self, answer: Reply | Broken, request: ModelRequest, writer: asyncio.StreamWriter
    ) -> None:
        _send_head(writer, 200, _SSE)
        reply = answer.reply if isinstance(answer, Broken) else answer
        sent = 0
        for event in speak(reply, model=request.model, ids=self._ids):
            if isinstance(event, Gate):
                await self._wait_at(event.name)
            elif isinstance(event, Pause):
                await asyncio.sleep(event.seconds)
            else:
                if isinstance(answer, Broken) and sent == answer.after:
                    await self._break(answer, writer)
                await _send_event(writer, event)
                sent += 1
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _break(self, broken: Broken, writer: asyncio.StreamWriter) -> None:
        match broken.how:
            case "cut":
                # Closing without the last chunk: what was said before still arrives.
                raise ConnectionAbortedError
            case "malformed":
                _send_chunk(writer, b'event: content_block_delta\ndata: {"type": "content_bl\n\n')
            case "stall":
                await self._wait_at(broken.gate)

    async def _pass_gates(self, reply: Reply) -> None:
        for step in reply.steps:
            if isinstance(step, Gate):
                await self._wait_at(step.name)

    async def _wait_at(self, gate: str) -> None:
        self._reached[gate].set()
        await self._released[gate].wait()


def _decode(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        # Half of a surrogate pair: CLIs up to 2.1.119 pass it on as they got it.
        return json.loads(body)


async def _read_call(reader: asyncio.StreamReader) -> _Call | None:
    """The next request of a connection, or None when there is no more."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    start, *lines = head.rstrip().split("\r\n")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
    }
    method, path, _ = start.split(" ", 2)
    return _Call(method, path, headers, await _read_body(reader, headers))


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    body = bytearray()
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readline()
    return bytes(body)


def _send_head(writer: asyncio.StreamWriter, status: int, headers: dict[str, str]) -> None:
    lines = [f"HTTP/1.1 {status} Scripted"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode())


async def _send_json(
    writer: asyncio.StreamWriter,
    status: int,
    value: Event,
    *,
    body: bool = True,
    headers: dict[str, str] | None = None,
) -> None:
    data = msgspec.json.encode(value)
    length = {"content-type": _JSON, "content-length": str(len(data))}
    _send_head(writer, status, length | (headers or {}))
    if body:
        writer.write(data)
    await writer.drain()


async def _send_error(writer: asyncio.StreamWriter, error: ApiError) -> None:
    detail = {"type": error.error_type, "message": error.message}
    value = {"type": "error", "error": detail, "request_id": "req_scripted"}
    await _send_json(writer, error.status, value, headers=error.headers)


async def _send_event(writer: asyncio.StreamWriter, event: Event) -> None:
    data = msgspec.json.encode(event)
    _send_chunk(writer, b"event: %s\ndata: %s\n\n" % (str(event["type"]).encode(), data))
    await writer.drain()


def _send_chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))
