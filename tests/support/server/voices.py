"""Ways to ask a server and to watch it, for clients that live on when it is killed.

EngineVoice, watch_by_engine   the engine over HTTP
HttpVoice, watch_by_sse        bare HTTP
SocketVoice                    a bare WebSocket, which asks and watches
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, Final

import httpx
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from pilothouse.api.answers import Answer
from pilothouse.api.events import Event, Gap
from pilothouse.api.frames import Done, Events, Failed, Frame
from pilothouse.api.problems import Problem, code_of
from pilothouse.api.requests import Say, Start
from pilothouse.errors import Refused, ServerError
from pilothouse.remote import RemoteEngine
from tests.support.server.killable import KillableServer
from tests.support.server.load import Load, Lost, Members, No, Track
from tests.support.waiting import DEADLINE

ROUTES: Final = {
    "start": ("POST", "/api/sessions"),
    "say": ("POST", "/api/sessions/{session_id}/messages"),
    "cancel": ("DELETE", "/api/sessions/{session_id}/messages/{prompt_id}"),
    "interrupt": ("POST", "/api/sessions/{session_id}/interrupt"),
    "answer": ("POST", "/api/questions/{question_id}/answer"),
    "status": ("GET", "/api/sessions/{session_id}"),
    "question": ("GET", "/api/questions/{question_id}"),
    "questions": ("GET", "/api/questions"),
}


async def watch_by_engine(engine: RemoteEngine, track: Track) -> None:
    """It comes back by itself."""
    async with aclosing(engine.watch(0)) as batches:
        async for batch in batches:
            track.take(batch.events, batch.gaps, batch.cursor)


async def watch_by_sse(load: Load, track: Track) -> None:
    while True:
        await load.served()
        headers = _bearer(load.server) | {"Last-Event-ID": str(track.place)}
        try:
            async with (
                httpx.AsyncClient(timeout=None, trust_env=False) as http,
                http.stream(
                    "GET", f"{load.server.address}/api/events/stream", headers=headers
                ) as stream,
            ):
                assert stream.status_code == 200, await stream.aread()
                await _read_sse(stream, track)
        except httpx.HTTPError as error:
            load.check_lost(error)


async def _read_sse(stream: httpx.Response, track: Track) -> None:
    name = ""
    async for line in stream.aiter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data" and name == "gap":
            track.take((), [msgspec.json.decode(value, type=Gap)])
        elif field == "data":
            track.take([msgspec.json.decode(value, type=Event)], ())


def _bearer(server: KillableServer) -> dict[str, str]:
    return {"Authorization": f"Bearer {server.token}"}


class EngineVoice:
    """The engine over HTTP."""

    def __init__(self, engine: RemoteEngine) -> None:
        self._engine = engine

    async def ask(self, do: str, members: Members) -> Any:
        try:
            return msgspec.to_builtins(await self._call(do, dict(members)))
        except Refused as error:
            raise No(code_of(type(error))) from error
        except ServerError as error:
            if isinstance(error.__cause__, httpx.HTTPError):
                raise Lost from error
            raise

    async def _call(self, do: str, rest: Members) -> Any:
        engine = self._engine
        match do:
            case "start":
                return await engine.start(msgspec.convert(rest, Start))
            case "say":
                return await engine.say(rest.pop("session_id"), msgspec.convert(rest, Say))
            case "answer":
                answer: Any = msgspec.convert(_rest(rest, "question_id"), Answer)
                return await engine.answer(rest["question_id"], answer)
            case _:
                return await getattr(engine, do)(**rest)


def _rest(members: Members, *names: str) -> Members:
    return {name: value for name, value in members.items() if name not in names}


class HttpVoice:
    """Requests as anybody would write them."""

    def __init__(self, server: KillableServer) -> None:
        self._http = httpx.AsyncClient(
            base_url=server.address, headers=_bearer(server), timeout=DEADLINE, trust_env=False
        )

    async def ask(self, do: str, members: Members) -> Any:
        method, path = ROUTES[do]
        body = {name: value for name, value in members.items() if f"{{{name}}}" not in path}
        try:
            answer = await self._http.request(method, path.format(**members), json=body or None)
        except httpx.HTTPError as error:
            raise Lost from error
        return _meaning(answer.status_code, answer.content)

    async def aclose(self) -> None:
        await self._http.aclose()


def _meaning(status: int, content: bytes) -> Any:
    assert status < 500, content
    if status >= 400:
        raise No(msgspec.json.decode(content, type=Problem).code)
    return msgspec.json.decode(content)


class SocketVoice:
    """A WebSocket that asks and watches; `follow` opens it whenever there is a server."""

    def __init__(self, load: Load, track: Track) -> None:
        self._load = load
        self._track = track
        self._socket: ClientConnection | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._asked = 0

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    async def ask(self, do: str, members: Members) -> Any:
        if self._socket is None:
            raise Lost
        self._asked = number = self._asked + 1
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self._socket.send(
                msgspec.json.encode({"id": number, "do": do, **members}).decode()
            )
            return await waiting
        except ConnectionClosed as error:
            raise Lost from error
        finally:
            self._waiting.pop(number).cancel()

    async def follow(self) -> None:
        load = self._load
        while True:
            await load.served()
            url = f"ws://127.0.0.1:{load.server.port}/api/ws?after={self._track.place}"
            headers = _bearer(load.server)
            try:
                async with connect(url, additional_headers=headers, proxy=None) as self._socket:
                    async for text in self._socket:
                        self._heard(msgspec.json.decode(text, type=Frame))
            except (OSError, ConnectionClosed) as error:
                load.check_lost(error)
            finally:
                self._leave()

    def _leave(self) -> None:
        self._socket = None
        for waiting in self._waiting.values():
            waiting.set_exception(Lost())

    def _heard(self, frame: Events | Done | Failed) -> None:
        match frame:
            case Events():
                self._track.take(frame.events, frame.gaps, frame.cursor)
            case Done():
                self._waiting[int(frame.id)].set_result(msgspec.json.decode(frame.result))
            case Failed(id=number, problem=problem):
                assert number is not None, problem
                assert problem.status < 500, problem
                self._waiting[int(number)].set_exception(No(problem.code))
