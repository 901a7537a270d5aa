"""Sessions and their transcripts as MCP resources, and notices of what changed in them.

    pilothouse://sessions                        every session, as GET /api/sessions tells them
    pilothouse://sessions/{id}                   one session, as GET /api/sessions/{id} tells it
    pilothouse://sessions/{id}/transcript        the conversation as Markdown, its newest part
    pilothouse://sessions/{id}/transcript?before=ID  the part before an item

Handshake versions of MCP subscribe and get notifications on their connection; 2026-07-28 asks for
a stream of them. What belongs to a connection ends with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar

import anyio
import mcp_types as types
import msgspec
from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp.shared.exceptions import MCPError

from pilothouse.api.codec import encode_strictly
from pilothouse.api.engine import Engine
from pilothouse.api.statuses import Listed, Status
from pilothouse.errors import PilothouseError, UnknownSession, UsageError

from .addresses import (
    SESSIONS,
    STATUS_TEMPLATE,
    TRANSCRIPT_TEMPLATE,
    ResourceTarget,
    address_at,
    address_of,
    target_of,
)
from .connections import Context, connection_of, has_handshake
from .engine_handle import EngineHandle
from .notices import EVERY_S, LIST, Notices
from .texts import line_of, time_of
from .transcripts import LIMIT, read_back

__all__ = ["MOST_STREAMS", "PAGE", "Resources"]

PAGE: Final = 50
"""How many sessions are listed at once."""
MOST_STREAMS: Final = 256
MOST_WANTED: Final = 1_000
"""How many resources one client may want to hear of."""
JSON: Final = "application/json"
MARKDOWN: Final = "text/markdown"
KEY: Final = "pilothouse.notices"

T = TypeVar("T")


class Resources:
    """The handlers of one server, for all of its connections."""

    def __init__(
        self, handle: EngineHandle, *, every_s: float = EVERY_S, limit: int = LIMIT
    ) -> None:
        self._handle = handle
        self._every_s = every_s
        self._limit = limit
        self._streams = 0

    # Reading

    async def list(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """A page of sessions, the most recent first. Who lists hears of new ones from then on."""
        offset = _offset(params)
        if has_handshake(ctx):
            await _telling(self._notices(ctx).want({LIST: LIST}))
        listing = await self._ask(lambda e: e.list(limit=PAGE, offset=offset))
        following = offset + len(listing.sessions)
        is_last = not listing.sessions or following >= listing.total
        return types.ListResourcesResult(
            resources=[
                *([] if offset else [_every_session()]),
                *(each for listed in listing.sessions for each in _resources_of(listed)),
            ],
            next_cursor=None if is_last else str(following),
        )

    async def templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """How an address is made of a session's id."""
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    name="session",
                    title="One session",
                    uri_template=STATUS_TEMPLATE,
                    description="State, open questions, running tools, cost.",
                    mime_type=JSON,
                ),
                types.ResourceTemplate(
                    name="transcript",
                    title="What was said and done in a session",
                    uri_template=TRANSCRIPT_TEMPLATE,
                    description="The newest part of it; `before` leads to the part before.",
                    mime_type=MARKDOWN,
                ),
            ]
        )

    async def read(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """What is at an address now."""
        target = _target(params.uri)
        if has_handshake(ctx):
            await _telling(self._notices(ctx).wake())
        kind = MARKDOWN if target.transcript else JSON
        try:
            text = await self._told(target)
        except PilothouseError as error:
            raise _refusal(error) from error
        content = types.TextResourceContents(uri=params.uri, mime_type=kind, text=text)
        return types.ReadResourceResult(contents=[content])

    async def _told(self, target: ResourceTarget) -> str:
        if target.session_id is None:
            return _json(await self._handle.ask(lambda engine: engine.list(limit=PAGE)))
        session_id = target.session_id
        status = await self._handle.ask(lambda engine: engine.status(session_id))
        if not target.transcript:
            return _json(status)
        return await self._transcript(status, target.before)

    async def _transcript(self, status: Status, before: str | None) -> str:
        session_id = status.session_id
        told = await read_back(self._handle, session_id, before, limit=self._limit)
        where = f"_A session in {line_of(status.cwd)}._"
        if told.before is not None:
            where = (
                f"_What came before: {address_of(session_id, 'transcript', before=told.before)}_"
            )
        text = told.text or "_Nothing was said yet._"
        return f"# Session {session_id}\n\n{where}\n\n{text}\n"

    async def _ask(self, verb: Callable[[Engine], Awaitable[T]]) -> T:
        try:
            return await self._handle.ask(verb)
        except PilothouseError as error:
            raise _refusal(error) from error

    # Notices, in handshake versions

    async def subscribe(
        self, ctx: Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Tell this client when the resource changes."""
        address = await self._changing(_target(params.uri))
        notices = self._notices(ctx)
        if notices.count >= MOST_WANTED:
            raise MCPError(types.INVALID_PARAMS, f"at most {MOST_WANTED} subscriptions")
        await _telling(notices.want({params.uri: address}))
        return types.EmptyResult()

    async def _changing(self, target: ResourceTarget) -> str:
        """The address under which changes of a target come; it may be named by another id."""
        named = target.session_id
        if named is None:
            return address_at(target)
        try:
            status = await self._handle.ask(lambda engine: engine.status(named))
        except UnknownSession:
            return address_at(target)
        except PilothouseError as error:
            raise _refusal(error) from error
        return address_at(target._replace(session_id=status.session_id))

    async def unsubscribe(
        self, ctx: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """Tell it no more."""
        await self._notices(ctx).forget(params.uri)
        return types.EmptyResult()

    async def wake(self, ctx: Context) -> None:
        """Go on telling this client of changes, after the engine was away.

        Whoever has just reached the engine for a client calls it.
        """
        held = connection_of(ctx).state.get(KEY)
        if held is not None:
            with suppress(PilothouseError):
                await held.wake()

    def _notices(self, ctx: Context) -> Notices:
        """Those of the connection, which end with it."""
        connection = connection_of(ctx)
        held: Notices | None = connection.state.get(KEY)
        if held is None:
            tell = _teller(connection)
            held = connection.state[KEY] = Notices(self._handle, tell, every_s=self._every_s)
            connection.exit_stack.push_async_callback(held.aclose)
        return held

    # Notices, in 2026-07-28

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """A stream of changes. It ends when the client does, or when the engine is gone."""
        if self._streams >= MOST_STREAMS or _count(params.notifications) > MOST_WANTED:
            raise MCPError(types.INTERNAL_ERROR, "too many subscriptions")
        bus = InMemorySubscriptionBus()
        stream = ListenHandler(bus)

        async def tell(address: str) -> None:
            await bus.publish(
                ResourcesListChanged() if address == LIST else ResourceUpdated(address)
            )

        notices = Notices(self._handle, tell, every_s=self._every_s, rested=stream.close)
        self._streams += 1
        try:
            await _telling(notices.want(await self._wanted(params.notifications)))
            return await stream(ctx, params)
        finally:
            self._streams -= 1
            with anyio.CancelScope(shield=True):
                await notices.aclose()

    async def _wanted(self, asked: types.SubscriptionFilter) -> dict[str, str]:
        targets = {each: target_of(each) for each in asked.resource_subscriptions or ()}
        known = {each: target for each, target in targets.items() if target is not None}
        wanted = {each: await self._changing(target) for each, target in known.items()}
        return wanted | ({LIST: LIST} if asked.resources_list_changed else {})


def _count(asked: types.SubscriptionFilter) -> int:
    return len(asked.resource_subscriptions or ())


async def _telling(wanting: Awaitable[None]) -> None:
    try:
        await wanting
    except PilothouseError as error:
        raise _refusal(error) from error


def _teller(connection: Connection) -> Callable[[str], Awaitable[None]]:
    async def tell(address: str) -> None:
        if address == LIST:
            await connection.send_resource_list_changed()
        else:
            await connection.send_resource_updated(address)

    return tell


# What is told


def _every_session() -> types.Resource:
    return types.Resource(
        name="sessions",
        title="Every session",
        uri=SESSIONS,
        description=f"The {PAGE} most recent sessions on this machine.",
        mime_type=JSON,
    )


def _resources_of(listed: Listed) -> Iterator[types.Resource]:
    title = listed.label or listed.title or listed.session_id
    annotations = types.Annotations(last_modified=time_of(listed.updated_at))
    yield types.Resource(
        name=f"session {listed.session_id}",
        title=title,
        uri=address_of(listed.session_id),
        description=f"{listed.state or 'not taken up'}, in {listed.cwd}",
        mime_type=JSON,
        annotations=annotations,
    )
    yield types.Resource(
        name=f"transcript {listed.session_id}",
        title=f"{title}: what was said and done",
        uri=address_of(listed.session_id, "transcript"),
        mime_type=MARKDOWN,
        annotations=annotations,
    )


def _json(value: Any) -> str:
    return msgspec.json.format(encode_strictly(value), indent=2).decode()


# What is refused


def _target(uri: str) -> ResourceTarget:
    target = target_of(uri)
    if target is None:
        known = f"{SESSIONS}, {STATUS_TEMPLATE} and {TRANSCRIPT_TEMPLATE}"
        raise MCPError(types.INVALID_PARAMS, f"there is no resource {uri[:200]}; there are {known}")
    return target


def _offset(params: types.PaginatedRequestParams | None) -> int:
    cursor = None if params is None else params.cursor
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdecimal() or len(cursor) > 9:
        raise MCPError(types.INVALID_PARAMS, "this cursor is none that was given out")
    return int(cursor)


def _refusal(error: PilothouseError) -> MCPError:
    is_theirs = isinstance(error, UnknownSession | UsageError)
    return MCPError(types.INVALID_PARAMS if is_theirs else types.INTERNAL_ERROR, str(error))
