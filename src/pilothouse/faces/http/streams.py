"""Events as they happen: server-sent events, and what they share with the WebSocket.

A reader that is slow makes its own stream wait: the journal is read on only when the socket took
the last piece. Under load many events go into one piece; after silence the first goes at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from pilothouse.api.engine import Engine
from pilothouse.api.events import Batch
from pilothouse.api.items import ConversationPatches
from pilothouse.api.problems import ENDING
from pilothouse.api.queries import FollowQuery, StreamQuery
from pilothouse.api.statuses import SessionChanges
from pilothouse.errors import PilothouseError, ServerError

from .entrance import header
from .frames import Piece, sse_chunk, sse_error
from .problems import Unacceptable, no_such_method, problem_of
from .request_values import check_path, read_query
from .responses import begin_response

if TYPE_CHECKING:
    from collections.abc import Generator

    from starlette.types import Receive, Scope, Send

__all__ = [
    "Begin",
    "Begun",
    "Streams",
    "begin_conversation",
    "begin_events",
    "begin_sessions",
    "caller_left",
    "check_method",
    "first_of",
    "pump",
    "serve_stream",
    "unless",
]

T = TypeVar("T")

HEARTBEAT_SECONDS: Final = 15.0
PAUSE_SECONDS: Final = 0.003
MANY: Final = 100
"""A piece with as many events needs no pause to gather more."""

HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class Streams:
    """The open streams of one application."""

    def __init__(self, longest: float | None = None) -> None:
        self.watchers = 0
        self._ending = asyncio.Event()
        self._longest = longest

    async def end_of_one(self) -> None:
        """Wait until a stream that begins now has to end."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), self._longest)

    async def ending(self) -> ServerError:
        """Wait until the server ends; what is told to whoever waited for something else."""
        await self._ending.wait()
        return ServerError(ENDING)

    def end(self) -> None:
        """End every stream, so that a server can stop."""
        self._ending.set()

    @contextlib.contextmanager
    def one(self) -> Generator[None]:
        """Count a stream as long as it is open."""
        self.watchers += 1
        try:
            yield
        finally:
            self.watchers -= 1


async def first_of(*work: Coroutine[Any, Any, Any]) -> None:
    """Run them together until the first ends; the others are cancelled, and all are awaited."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


async def unless(work: Awaitable[T], *ends: Coroutine[Any, Any, Exception]) -> T:
    """What the work comes to, or the error that one of the ends comes to before it."""
    doing = asyncio.ensure_future(work)
    watching = [asyncio.create_task(each) for each in ends]
    try:
        await asyncio.wait([doing, *watching], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (doing, *watching):
            task.cancel()
        await asyncio.gather(doing, *watching, return_exceptions=True)
    if doing.cancelled():
        ended = (each.result() for each in watching if not each.cancelled())
        # Nobody here has cancelled it: whoever does the work ends.
        raise next(ended, ServerError(ENDING))
    return doing.result()


def caller_left() -> Unacceptable:
    """What nobody hears any more."""
    return Unacceptable(400, "disconnected", "the caller left before this was answered")


class Begun(NamedTuple):
    """A stream: where it begins, as a piece without content, and what follows."""

    first: Piece
    rest: AsyncGenerator[Piece]


Begin = Callable[[Engine, "Scope"], Awaitable[Begun]]
"""How a stream begins; a session that is unknown is refused by it."""


async def begin_events(engine: Engine, scope: Scope) -> Begun:
    """What happens, in all sessions or in one."""
    query: StreamQuery = read_query(scope["query_string"], StreamQuery)
    if query.session_id is not None:
        await _check_session(engine, query.session_id)
    after = await _cursor(engine, scope, query.after)
    return Begun(Batch(events=(), cursor=after), engine.watch(after, session_id=query.session_id))


async def begin_conversation(engine: Engine, scope: Scope) -> Begun:
    """What changes of a session's conversation."""
    session_id: str = scope["path_params"]["session_id"]
    query: FollowQuery = read_query(scope["query_string"], FollowQuery)
    await _check_session(engine, session_id)
    after = await _cursor(engine, scope, query.after)
    return Begun(ConversationPatches(patches=[], cursor=after), engine.follow(session_id, after))


async def begin_sessions(engine: Engine, scope: Scope) -> Begun:
    """What changes of the list of sessions."""
    query: FollowQuery = read_query(scope["query_string"], FollowQuery)
    after = await _cursor(engine, scope, query.after)
    return Begun(SessionChanges(cursor=after), engine.follow_sessions(after))


async def _check_session(engine: Engine, session_id: str) -> None:
    check_path({"session_id": session_id})
    await engine.status(session_id)


async def _cursor(engine: Engine, scope: Scope, after: int | None) -> int:
    seen = _last_event_id(scope)
    if seen is not None:
        return seen
    return (await engine.health()).cursor if after is None else after


def _last_event_id(scope: Scope) -> int | None:
    given = header(scope, b"last-event-id")
    if given is None or not given.strip():
        return None
    if not given.isascii() or not given.isdecimal() or len(given) > 18:
        raise Unacceptable(
            422, "invalid", "Last-Event-ID is no cursor", advice="send the `id` of an event"
        )
    return int(given)


async def pump(pieces: AsyncGenerator[Piece], give: Callable[[Piece], Awaitable[None]]) -> None:
    """Hand on what is watched, piece by piece."""
    async with aclosing(pieces):
        async for piece in pieces:
            await give(piece)
            if not isinstance(piece, Batch) or len(piece.events) < MANY:
                # Under load the next piece gathers meanwhile; after a silence nobody waits for it.
                await asyncio.sleep(PAUSE_SECONDS)


async def serve_stream(
    begun: Begun,
    streams: Streams,
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """Send what a stream has until one of the two leaves."""
    await begin_response(scope, send, 200, HEADERS)
    speaker = _Speaker(send)
    with streams.one():
        await speaker.say(b": from %d\n\n" % begun.first.cursor)
        try:
            await first_of(
                pump(begun.rest, speaker.give),
                speaker.beat(),
                _until_gone(receive),
                streams.end_of_one(),
            )
        except PilothouseError as error:
            # The status was sent long ago, so the stream itself has to tell.
            await speaker.say(sse_error(problem_of(error)))
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def check_method(scope: Scope) -> None:
    """These paths take nothing but GET."""
    if scope["method"] != "GET":
        raise no_such_method("GET")


class _Speaker:
    """Writes the pieces of one stream, and a comment where there is nothing to write."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._said = 0
        self._saying = False

    async def give(self, piece: Piece) -> None:
        if chunk := sse_chunk(piece):
            await self.say(chunk)

    async def say(self, chunk: bytes) -> None:
        self._said += 1
        self._saying = True
        try:
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        finally:
            self._saying = False

    async def beat(self) -> None:
        """A comment whenever nothing was said for a while: proxies end what is silent."""
        while True:
            before = self._said
            await asyncio.sleep(HEARTBEAT_SECONDS)
            if self._said == before and not self._saying:
                await self.say(b":\n\n")


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
