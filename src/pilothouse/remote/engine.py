"""An engine that is in another process, reached over HTTP."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import quote

from pilothouse.api.engine import Engine
from pilothouse.api.events import Batch
from pilothouse.api.items import ConversationPatches
from pilothouse.api.operations import OPERATIONS, Operation, OperationCall, no_such
from pilothouse.api.statuses import SessionChanges

from .event_stream import follow, follow_sessions, watch
from .http_client import HttpClient

if TYPE_CHECKING:
    import ssl

__all__ = ["RemoteEngine"]


Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])

_OPERATIONS: Final = {each.verb: each for each in reversed(OPERATIONS)}
"""By the engine's method; the first row is the one that is asked."""


def _remote(declared: Method) -> Method:
    """Return the method that asks a server for what this method of the protocol declares."""
    operation = _OPERATIONS[declared.__name__]

    async def method(self: RemoteEngine, *given: Any, **named: Any) -> Any:
        bound = _signature(declared).bind(self, *given, **named)
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        del arguments["self"]
        return await self.do(operation, operation.request(arguments))

    functools.update_wrapper(method, declared)
    method.__doc__ = f"{operation.summary}."
    return cast("Method", method)


@functools.cache
def _signature(declared: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(declared)


class RemoteEngine:
    """An `Engine` at an address such as `http://127.0.0.1:8137`."""

    def __init__(
        self,
        address: str,
        token: str,
        *,
        tls: ssl.SSLContext | None = None,
        patience: float = 60.0,
    ) -> None:
        """`tls`: whom to trust at an https address. `patience`: how long a watcher waits for a
        server that is gone to come back."""
        self._http = HttpClient(address, token, tls)
        self._patience = patience

    start = _remote(Engine.start)
    say = _remote(Engine.say)
    cancel = _remote(Engine.cancel)
    answer = _remote(Engine.answer)
    ask = _remote(Engine.ask)
    withdraw = _remote(Engine.withdraw)
    interrupt = _remote(Engine.interrupt)
    stop = _remote(Engine.stop)
    stop_all = _remote(Engine.stop_all)
    archive = _remote(Engine.archive)
    directories = _remote(Engine.directories)
    files = _remote(Engine.files)
    fork = _remote(Engine.fork)
    rewind = _remote(Engine.rewind)
    compact = _remote(Engine.compact)
    set_mode = _remote(Engine.set_mode)
    set_model = _remote(Engine.set_model)
    set_thinking = _remote(Engine.set_thinking)
    mcp_status = _remote(Engine.mcp_status)
    mcp_reconnect = _remote(Engine.mcp_reconnect)
    mcp_toggle = _remote(Engine.mcp_toggle)
    mcp_message = _remote(Engine.mcp_message)
    mcp_set = _remote(Engine.mcp_set)
    context_usage = _remote(Engine.context_usage)
    greeting = _remote(Engine.greeting)
    commands = _remote(Engine.commands)
    models = _remote(Engine.models)
    control = _remote(Engine.control)
    status = _remote(Engine.status)
    wait = _remote(Engine.wait)
    list = _remote(Engine.list)
    conversation = _remote(Engine.conversation)
    timeline = _remote(Engine.timeline)
    item_source = _remote(Engine.item_source)
    questions = _remote(Engine.questions)
    question = _remote(Engine.question)
    file_change = _remote(Engine.file_change)
    read = _remote(Engine.read)
    policy = _remote(Engine.policy)
    policy_dry_run = _remote(Engine.policy_dry_run)
    save_policy = _remote(Engine.save_policy)
    cost = _remote(Engine.cost)
    activity = _remote(Engine.activity)
    dial_in = _remote(Engine.dial_in)
    dial_ins = _remote(Engine.dial_ins)
    runners = _remote(Engine.runners)
    add_runner = _remote(Engine.add_runner)
    drain_runner = _remote(Engine.drain_runner)
    revoke_runner = _remote(Engine.revoke_runner)
    settings = _remote(Engine.settings)
    health = _remote(Engine.health)

    def watch(
        self, after: int | None = None, *, session_id: str | None = None
    ) -> AsyncGenerator[Batch]:
        """Yield events as they happen; reconnect at the same cursor when the server was away."""
        return watch(self._http, after, session_id, self._patience)

    def follow(
        self, session_id: str, after: int | None = None
    ) -> AsyncGenerator[ConversationPatches]:
        """Yield what changes of a conversation; reconnect at the same cursor as `watch` does."""
        return follow(self._http, session_id, after, self._patience)

    def follow_sessions(self, after: int | None = None) -> AsyncGenerator[SessionChanges]:
        """Yield what changes of the list of sessions; reconnect at the same cursor as `watch`."""
        return follow_sessions(self._http, after, self._patience)

    async def cassette(self, session_id: str) -> AsyncGenerator[bytes]:
        """Yield the lines of a session's cassette, in pieces."""
        path = f"/api/sessions/{_segment('session_id', session_id)}/cassette"
        async with aclosing(self._http.stream(path)) as pieces:
            async for piece in pieces:
                yield piece

    async def aclose(self) -> None:
        """Close the connections. The server and its sessions continue."""
        await self._http.aclose()

    async def do(self, operation: Operation, call: OperationCall) -> Any:
        """Ask the server for an operation of the table."""
        path = {name: _segment(name, value) for name, value in call.path.items()}
        return await self._http.ask(
            operation.result,
            operation.method,
            operation.path.format(**path),
            body=call.body,
            query=call.query or None,
            also=operation.ill or 0,
        )


def _segment(name: str, value: str) -> str:
    """Return a name quoted for a path. One that shortens the path would name something else."""
    if value in ("", ".", ".."):
        raise no_such(name)
    return quote(value, safe="")
