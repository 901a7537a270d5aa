"""The MCP server: joins tools, forms, resources and prompts to the SDK's low-level one.

One server serves every client there is. What belongs to one of them ends with its connection.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext, suppress
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec.structs import replace

from pilothouse import __version__
from pilothouse.errors import PilothouseError, UsageError

from . import problems, prompts
from .eliciting import Pushing, can_elicit, can_open_pages, required, take
from .operating import Act, Operator, Outcome
from .permission import check, identify
from .reaching import Reach
from .resources import Resources
from .results import writable
from .rounds import Round
from .tools import PERMISSION_CHECK, TOOLS, listed

__all__ = ["create_server"]

log = logging.getLogger("pilothouse.mcp")

Context = ServerRequestContext[Any, Any]
Result = types.CallToolResult | types.InputRequiredResult

NAMES: Final = frozenset(each["name"] for each in TOOLS)
CLAUDE_CODE: Final = "claude-code"
"""What Claude Code calls itself: nobody else can use a permission tool."""
LONGEST_NAME: Final = 100
PUSHING: Final = "pilothouse.pushing"
LAST_LOOK_S: Final = 0.001
"""A call that waits is told more than one that does not: so it waits once more, if for nothing."""
ONLY_WHILE_WAITING: Final = (
    "A person is shown what the session asks only while a call waits: give waitSeconds"
)
INSTRUCTIONS: Final = (
    "Operates Claude Code sessions on this machine. claude_start begins one and returns at once; "
    "follow it with claude_status (give waitSeconds, and the last result's cursor as after). "
    "When its status is awaiting_input, it asks: pass the question on to the user unless it is "
    "yours to decide, and answer with claude_respond. claude_say goes on with any session, also "
    "one that has ended."
)


def create_server(
    operator: Operator,
    reach: Reach,
    *,
    permission_check_only: bool = False,
    default_cwd: str | None = None,
) -> Server[Any]:
    """A server for any number of clients; `default_cwd` is where sessions work by default."""
    face = _Face(operator, reach, default_cwd, tools=not permission_check_only)
    if permission_check_only:
        return _Server(
            "pilothouse",
            version=__version__,
            title="Pilothouse",
            on_list_tools=face.list_tools,
            on_call_tool=face.call_tool,
        )
    resources = face.resources
    return _Server(
        "pilothouse",
        version=__version__,
        title="Pilothouse",
        instructions=INSTRUCTIONS,
        on_list_tools=face.list_tools,
        on_call_tool=face.call_tool,
        on_list_resources=resources.list,
        on_list_resource_templates=resources.templates,
        on_read_resource=resources.read,
        on_subscribe_resource=resources.subscribe,
        on_unsubscribe_resource=resources.unsubscribe,
        on_subscriptions_listen=resources.listen,
        on_list_prompts=prompts.list_prompts,
        on_get_prompt=prompts.get,
    )


class _Server(Server[Any]):
    """Says of itself that its resources change."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        changing = notification_options or NotificationOptions(resources_changed=True)
        return super().create_initialization_options(
            changing, experimental_capabilities, extensions
        )


class _Call:
    """One request, as the operator sees it."""

    def __init__(self, ctx: Context, default_cwd: str | None) -> None:
        self._session = ctx.session
        self.name = _name(ctx)
        self.default_cwd = default_cwd
        self.shows_forms = can_elicit(ctx.session)

    async def progress(self, done: float, total: float | None, message: str) -> None:
        # Whoever has gone needs to be told nothing.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._session.report_progress(done, total, writable(message))


def _name(ctx: Context) -> str:
    params = ctx.session.client_params
    return "" if params is None else params.client_info.name[:LONGEST_NAME]


class _Face:
    """The handlers of one server, for all of its connections."""

    def __init__(
        self, operator: Operator, reach: Reach, default_cwd: str | None, *, tools: bool
    ) -> None:
        self._operator = operator
        self._reach = reach
        self._cwd = default_cwd
        self._tools = tools
        self._identity = identify()
        self.resources = Resources(reach)

    async def list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """The tools this client has a use for."""
        is_cli = _name(ctx) == CLAUDE_CODE
        told = listed(permission_check=is_cli or not self._tools, tools=self._tools)
        return types.ListToolsResult(tools=[types.Tool.model_validate(each) for each in told])

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Result:
        """Do what a tool says. Whatever goes wrong with that is told as its result."""
        call = _Call(ctx, self._cwd)
        if params.name == PERMISSION_CHECK["name"]:
            return await self._check_permission(ctx, params, call)
        if params.name not in NAMES or not self._tools:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        try:
            return await self._called(ctx, params, call)
        except MCPError:
            raise
        except Exception:
            # The boundary: a fault of ours must not end the connection.
            log.exception("%s has failed", params.name)
            told = f"{params.name} has failed inside Pilothouse; its log says why"
            return _result(Outcome(structured={}, text=told, is_error=True))

    async def _called(
        self, ctx: Context, params: types.CallToolRequestParams, call: _Call
    ) -> Result:
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            result = await self._in_rounds(ctx, params, call)
        else:
            result = await self._at_once(ctx, params, call)
        await self.resources.wake(ctx)
        return result

    # Versions with a handshake: forms are pushed whenever there is something to ask

    async def _at_once(
        self, ctx: Context, params: types.CallToolRequestParams, call: _Call
    ) -> types.CallToolResult:
        pushing = self._pushing(ctx)
        with nullcontext() if pushing is None else pushing.calling():
            done = await self._operator.begin(params.name, params.arguments or {}, call)
            if isinstance(done, Outcome):
                return _result(done)
            if pushing is not None:
                for session_id in _sessions(done):
                    pushing.follow(session_id)
            outcome = await self._while_asked(pushing, done, call)
            return _result(outcome)

    async def _while_asked(self, pushing: Pushing | None, act: Act, call: _Call) -> Outcome:
        """Finish a call. One that waits goes on waiting while a person has the form before them."""
        ends = anyio.current_time() + act.wait_s
        outcome = await self._operator.finish(act, call)
        asked: set[str] = set()
        while pushing is not None and anyio.current_time() < ends:
            new = {each.id for each in outcome.questions} - asked
            if not new:
                break
            asked |= new
            with anyio.move_on_after(ends - anyio.current_time()):
                await pushing.settled(act.session_id, outcome.questions)
            left = max(ends - anyio.current_time(), LAST_LOOK_S)
            outcome = await self._operator.finish(replace(act, wait_s=left), call)
        return outcome

    def _pushing(self, ctx: Context) -> Pushing | None:
        """The forms of this connection, which end with it; None: the client shows none."""
        if not can_elicit(ctx.session):
            return None
        # The SDK gives handlers no other way to what lasts as long as the client is there.
        connection = ctx.session._connection  # pyright: ignore[reportPrivateUsage]
        held: Pushing | None = connection.state.get(PUSHING)
        if held is None:
            held = connection.state[PUSHING] = Pushing(self._reach, ctx.session, _name(ctx))
            connection.exit_stack.push_async_callback(held.aclose)
        return held

    # 2026-07-28: a call that waits asks in its result, and is called again with the answers

    async def _in_rounds(
        self, ctx: Context, params: types.CallToolRequestParams, call: _Call
    ) -> Result:
        try:
            this = await self._this_round(ctx, params, call)
        except PilothouseError as error:
            return _result(Outcome(structured={}, text=problems.told(error), is_error=True))
        if isinstance(this, Outcome):
            return _result(this)
        # Whom a waiting call can ask is asked before it tells anything.
        call.shows_forms = call.shows_forms and not this.act.wait_s
        outcome = await self._operator.finish(this.act, call)
        if not this.may_ask or not can_elicit(ctx.session):
            return _result(outcome)
        pages = can_open_pages(ctx.session)
        requests = required(outcome.questions, this.noted, pages=pages)
        if not requests:
            return _result(outcome)
        state = this.asked().sealed()
        return types.InputRequiredResult(input_requests={**requests}, request_state=state)

    async def _this_round(
        self, ctx: Context, params: types.CallToolRequestParams, call: _Call
    ) -> Round | Outcome:
        if params.request_state is not None:
            this = Round.opened(params.request_state, params.name)
            return this.answered(await take(self._reach, params.input_responses, call.name))
        if params.input_responses:
            raise UsageError("inputResponses came without the requestState they belong to")
        done = await self._operator.begin(params.name, params.arguments or {}, call)
        if isinstance(done, Outcome):
            return done
        if done.tool == "claude_start" and not done.wait_s and can_elicit(ctx.session):
            done = replace(done, told={**done.told, "note": ONLY_WHILE_WAITING})
        return Round(act=done)

    # For CLIs that somebody else started

    async def _check_permission(
        self, ctx: Context, params: types.CallToolRequestParams, call: _Call
    ) -> types.CallToolResult:
        told = await check(
            self._reach,
            params.arguments,
            ctx.meta,
            identity=self._identity,
            cwd=self._cwd,
            progress=call.progress,
        )
        return types.CallToolResult(content=[types.TextContent(type="text", text=told)])


def _sessions(act: Act) -> list[str]:
    new = act.told.get("newSessionId")
    return [act.session_id, *([new] if isinstance(new, str) else [])]


def _result(outcome: Outcome) -> types.CallToolResult:
    text = types.TextContent(type="text", text=writable(outcome.text))
    if outcome.is_error:
        return types.CallToolResult(content=[text], is_error=True)
    structured = writable(outcome.structured)
    return types.CallToolResult(content=[text], structured_content=structured)
