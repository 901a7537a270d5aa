"""Streams over a WebSocket that may break: each event once, in order, after the cursor; and what
changes of a conversation, so that none of it is missed."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import structs

from pilothouse.api.events import Batch
from pilothouse.api.frames import SUBPROTOCOL, Done, Events, Failed, Frame, Patches, Rows
from pilothouse.api.items import ConversationPatches
from pilothouse.api.problems import error_from
from pilothouse.api.proof import WrongProof
from pilothouse.api.statuses import SessionChanges
from pilothouse.errors import JournalError, PilothouseError, ServerError

from .http_client import GONE, HttpClient, meant_by
from .proven_connection import dial

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection, connect

__all__ = ["follow", "follow_sessions", "watch"]

Piece = TypeVar("Piece", covariant=True)
StreamFrame = Events | Patches | Rows
"""What a stream sends by itself."""

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 5.0

_decode: Final = msgspec.json.Decoder(Frame).decode


class _Away(Exception):
    """The server cannot be reached at this moment."""


def watch(
    http: HttpClient, after: int | None, session_id: str | None, patience: float
) -> AsyncGenerator[Batch]:
    """Yield batches as they come; raise if the server is away for longer than `patience`."""
    return _stream(http, _EventPlace(after, session_id), patience)


def follow(
    http: HttpClient, session_id: str, after: int | None, patience: float
) -> AsyncGenerator[ConversationPatches]:
    """Yield what changes of a conversation, as `watch` does."""
    return _stream(http, _ConversationPlace(after, session_id), patience)


def follow_sessions(
    http: HttpClient, after: int | None, patience: float
) -> AsyncGenerator[SessionChanges]:
    """Yield what changes of the list of sessions, as `watch` does."""
    return _stream(http, _ListPlace(after), patience)


async def _stream(http: HttpClient, place: _Place[Piece], patience: float) -> AsyncGenerator[Piece]:
    waiting = _Waiting(patience)
    while not http.closed:
        try:
            async with aclosing(_connected(http, place)) as pieces:
                async for piece in pieces:
                    waiting.over()
                    if piece is not None:
                        yield piece
        except _Away as error:
            if not http.closed:
                await waiting.pause(http.address, error)


class _Place(Protocol[Piece]):
    """How far a watcher has come."""

    def address(self) -> str:
        """Return the path to go on from here."""
        ...

    def take(self, frame: StreamFrame) -> Piece | None:
        """Return what is new in a frame, if anything is."""
        ...


class _EventPlace:
    def __init__(self, cursor: int | None, session_id: str | None) -> None:
        self.cursor = cursor
        self._session_id = session_id

    def address(self) -> str:
        return f"/api/ws?{_written(after=self.cursor, session_id=self._session_id)}"

    def take(self, frame: StreamFrame) -> Batch | None:
        if not isinstance(frame, Events):
            return None
        before = -1 if self.cursor is None else self.cursor
        if any(gap.reason == "reset" for gap in frame.gaps):
            before = frame.cursor  # the server's journal ends before ours did
        self.cursor = max(before, frame.cursor)
        events = frame.events
        if events and events[0].seq <= before:
            events = [event for event in events if event.seq > before]
        if not events and not frame.gaps:
            return None
        return Batch(events=events, cursor=self.cursor, gaps=frame.gaps)


class _ConversationPlace:
    def __init__(self, cursor: int | None, session_id: str) -> None:
        self.cursor = cursor
        self._session_id = session_id

    def address(self) -> str:
        session = quote(self._session_id, safe="")
        return f"/api/sessions/{session}/conversation/ws?{_written(after=self.cursor)}"

    def take(self, frame: StreamFrame) -> ConversationPatches | None:
        self.cursor = frame.cursor
        if not isinstance(frame, Patches) or not (frame.patches or frame.unfinished is not None):
            return None
        return ConversationPatches(
            cursor=frame.cursor, patches=frame.patches, unfinished=frame.unfinished
        )


class _ListPlace:
    def __init__(self, cursor: int | None) -> None:
        self.cursor = cursor

    def address(self) -> str:
        return f"/api/sessions/ws?{_written(after=self.cursor)}"

    def take(self, frame: StreamFrame) -> SessionChanges | None:
        self.cursor = frame.cursor
        if not isinstance(frame, Rows):
            return None
        told = SessionChanges(**structs.asdict(frame))
        return None if told == SessionChanges(cursor=frame.cursor) else told


def _written(**parameters: Any) -> str:
    return urlencode({name: value for name, value in parameters.items() if value is not None})


class _Waiting:
    """Growing pauses between attempts, and an end to them."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: float | None = None
        self._pause = FIRST_PAUSE

    def over(self) -> None:
        self._since = None
        self._pause = FIRST_PAUSE

    async def pause(self, address: str, error: Exception) -> None:
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since >= self._patience:
            raise ServerError(f"the server at {address} is gone ({error}); {GONE}") from error
        # Not all watchers of one server come back in the same moment.
        await asyncio.sleep(self._pause * random.uniform(0.5, 1.0))
        self._pause = min(2 * self._pause, LONGEST_PAUSE)


async def _connected(http: HttpClient, place: _Place[Piece]) -> AsyncGenerator[Piece | None]:
    """Yield what comes by one connection, to its end. None: the server is there without news."""
    from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

    try:
        async with await _connect(http, place.address()) as socket:
            http.sockets.add(socket)
            try:
                async for frame in _frames(socket):
                    yield place.take(frame)
            finally:
                http.sockets.discard(socket)
    except WrongProof as error:
        # Another token: to come again would not help.
        raise ServerError(f"the server at {http.address} cannot be used: {error}") from error
    except InvalidStatus as error:
        answer = error.response
        if answer.status_code >= 500:
            raise _Away(f"status {answer.status_code}") from error
        headers = {name.lower(): value for name, value in answer.headers.raw_items()}
        raise meant_by(answer.status_code, headers, bytes(answer.body or b"")) from error
    except (ConnectionClosed, WebSocketException, OSError, TimeoutError) as error:
        raise _Away(str(error) or type(error).__name__) from error
    raise _Away("it closed the connection")


async def _connect(http: HttpClient, path: str) -> connect:
    from websockets.asyncio.client import connect
    from websockets.typing import Subprotocol

    scheme, _, place = http.address.partition("://")
    given: dict[str, Any] = {}
    if scheme != "https":
        given["sock"] = await dial(http.address, http.token)
    elif http.tls is not None:
        given["ssl"] = http.tls
    opening = connect(
        f"{'wss' if scheme == 'https' else 'ws'}://{place}{path}",
        subprotocols=[Subprotocol(SUBPROTOCOL)],
        additional_headers={"Authorization": f"Bearer {http.token}"},
        # One batch may be long, and a batch at a time is read ahead.
        max_size=None,
        max_queue=2,
        compression=None,
        # Neither the token nor the events are any proxy's business.
        proxy=None,
        open_timeout=10,
        # Who leaves reads no more, so the server's word of farewell may be behind what is unread.
        close_timeout=0,
        **given,
    )
    # Nor is it shown where a server might send us instead.
    opening.process_redirect = lambda exc: exc
    return opening


async def _frames(socket: ClientConnection) -> AsyncGenerator[StreamFrame]:
    async for text in socket:
        received: Frame = _decode(text)
        match received:
            case Events() | Patches() | Rows() as frame:
                yield frame
            case Failed() as frame:
                raise _failure(frame)
            case Done():  # answers what a watcher never asks
                pass


def _failure(frame: Failed) -> PilothouseError | _Away:
    error = error_from(frame.problem)
    return _Away(str(error)) if isinstance(error, JournalError) else error
