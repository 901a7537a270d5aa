"""The MCP server: joins tools, forms, resources and prompts to the SDK's low-level one.

One server serves every client there is. What belongs to one of them ends with its connection.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from msgspec import json
from msgspec.structs import replace

from pilothouse import __version__
from pilothouse.api.questions import Question
from pilothouse.errors import PilothouseError, UsageError

from . import permission, problems, prompts
from .client_settings import Ignored
from .connections import Context, connection_of, has_handshake
from .elicitation import Round, can_elicit, can_open_pages, required, take
from .engine_handle import EngineHandle
from .form_push import REACHES, ClientStream, FormPush
from .resources import Resources
from .results import writable
from .session_wait import ASKING, telling
from .tool_handlers import DONE, Act, Outcome, ToolHandlers
from .tools import PERMISSION_CHECK, TOOLS, listed

__all__ = ["create_server"]

log = logging.getLogger("pilothouse.mcp")

Result = types.CallToolResult | types.InputRequiredResult

NAMES: Final = frozenset(each["name"] for each in TOOLS)
CLAUDE_CODE: Final = "claude-code"
"""What Claude Code calls itself: nobody else can use a permission tool."""
LONGEST_NAME: Final = 100
FORM_PUSH: Final = "pilothouse.form_push"
LAST_LOOK_S: Final = 0.001
"""A call that waits is told more than one that does not: so it waits once more, if for nothing."""
STEP: Final = 0.001
ONLY_WHILE_WAITING: Final = (
    "A person is shown what the session asks only while a call waits: give waitSeconds"
)
NOT_CHECKED: Final = {
    "behavior": "deny",
    "message": "Nobody decided about this: Pilothouse has failed; its log says why. "
    "It was not run.",
}


def create_server(
    tool_handlers: ToolHandlers,
    handle: EngineHandle,
    *,
    permission_check_only: bool = False,
    default_cwd: str | None = None,
) -> Server[Any]:
    """Return a server for any number of clients; sessions work in `default_cwd` by default."""
    face = _Face(tool_handlers, handle, default_cwd, tools=not permission_check_only)
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
        instructions=prompts.instructions(tool_handlers.answers),
        on_list_tools=face.list_tools,
        on_call_tool=face.call_tool,
        on_list_resources=resources.list,
        on_list_resource_templates=resources.templates,
        on_read_resource=resources.read,
        on_subscribe_resource=resources.subscribe,
        on_unsubscribe_resource=resources.unsubscribe,
        on_subscriptions_listen=resources.listen,
        on_list_prompts=prompts.list_prompts,
        on_get_prompt=prompts.getter(tool_handlers.who_answers),
    )


class _Server(Server[Any]):
    """A server that declares changing resources, and nothing else that changes."""

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

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        # From 2026-07-28 on the SDK says that whatever there is changes where anything may.
        told = super().get_capabilities(
            notification_options,
            experimental_capabilities,
            extensions,
            protocol_version=protocol_version,
        )
        for each in (told.tools, told.prompts):
            if each is not None:
                each.list_changed = False
        return told


class _Call:
    """One request, as the tool handlers see it."""

    def __init__(self, ctx: Context, default_cwd: str | None, own_sessions: frozenset[str]) -> None:
        self._session = ctx.session
        self.own_sessions = own_sessions
        self.name = _name(ctx)
        self.default_cwd = default_cwd
        self.shows_forms = can_elicit(ctx.session)
        self.act: Act | None = None
        """What was done, once it was."""
        self._before = self._last = 0.0
        self._told = -STEP

    async def progress(self, done: float, total: float | None, message: str) -> None:
        if done < self._last:
            # It waits once more; but what is told has to grow within a call.
            self._before = self._told
        self._last = done
        self._told = max(self._before + done, self._told + STEP)
        total = None if total is None else max(self._before + total, self._told)
        # Whoever has gone needs to be told nothing.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._session.report_progress(self._told, total, writable(message))

    def failed(self, why: str) -> Outcome:
        """Return a tool error that says what was done before, so that nobody does it again."""
        act = self.act
        done = "" if act is None else DONE.get(act.tool, "Session {}: ").format(act.session_id)
        return Outcome(structured={}, text=f"{done}{why}", is_error=True)


def _name(ctx: Context) -> str:
    params = ctx.session.client_params
    return "" if params is None else params.client_info.name[:LONGEST_NAME]


class _Face:
    """The handlers of one server, for all of its connections."""

    def __init__(
        self,
        tool_handlers: ToolHandlers,
        handle: EngineHandle,
        default_cwd: str | None,
        *,
        tools: bool,
    ) -> None:
        self._tool_handlers = tool_handlers
        self._handle = handle
        self._cwd = default_cwd
        self._tools = tools
        self._identity = permission.identify()
        own = (self._identity, permission.beside(self._identity))
        self._own_sessions = frozenset(own if default_cwd is not None else ())
        self._ignored = Ignored(handle, tool_handlers.client.of_the_server)
        self.resources = Resources(handle)

    async def list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Return the tools that this client can use."""
        # The permission tool has to run beside the CLI that asks.
        is_cli = _name(ctx) == CLAUDE_CODE and self._cwd is not None
        told = listed(permission_check=is_cli or not self._tools, tools=self._tools)
        return types.ListToolsResult(tools=[types.Tool.model_validate(each) for each in told])

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Result:
        """Call a tool. An error becomes its result."""
        call = _Call(ctx, self._cwd, self._own_sessions)
        if params.name == PERMISSION_CHECK["name"]:
            return await self._check_permission(ctx, params, call)
        if params.name not in NAMES or not self._tools:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        try:
            return await self._called(ctx, params, call)
        except MCPError:
            raise
        except PilothouseError as error:
            return _result(call.failed(problems.told(error)))
        except Exception:
            # The boundary: a fault of ours must not end the connection.
            log.exception("%s has failed", params.name)
            told = f"{params.name} has failed inside Pilothouse; its log says why"
            return _result(call.failed(told))

    async def _called(
        self, ctx: Context, params: types.CallToolRequestParams, call: _Call
    ) -> Result:
        answer = self._at_once if has_handshake(ctx) else self._in_rounds
        result = await answer(ctx, params, call)
        await self.resources.wake(ctx)
        if isinstance(result, types.CallToolResult):
            return _noted(result, await self._ignored.note())
        return result

    async def _begin(self, params: types.CallToolRequestParams, call: _Call) -> Act | Outcome:
        done = await self._tool_handlers.begin(params.name, params.arguments or {}, call)
        call.act = done if isinstance(done, Act) else None
        return done

    # Versions with a handshake: forms are pushed whenever there is something to ask

    async def _at_once(
        self, ctx: Context, params: types.CallToolRequestParams, call: _Call
    ) -> types.CallToolResult:
        push = self._form_push(ctx)
        if push is None:
            return _result(await self._alone(params, call))
        with push.calling(_stream_to(ctx, ctx.request_id)) as dealt_with:
            done = await self._begin(params, call)
            if isinstance(done, Outcome):
                return _result(done)
            for session_id in _sessions(done):
                push.follow(session_id)
            return _result(await self._while_asked(_Asked(push, dealt_with), done, call))

    async def _alone(self, params: types.CallToolRequestParams, call: _Call) -> Outcome:
        """Call a tool for a client that shows no forms."""
        done = await self._begin(params, call)
        return done if isinstance(done, Outcome) else await self._tool_handlers.finish(done, call)

    async def _while_asked(self, asked: _Asked, act: Act, call: _Call) -> Outcome:
        """Finish a call. One that waits goes on waiting while a person has the form before them."""
        ends = anyio.current_time() + act.wait_s
        act = await self._tool_handlers.look(act)
        questions = _open_questions(act)
        outcome: Outcome | None = None
        while outcome is None or (act.wait_s and asked.has_new(questions)):
            if act.wait_s and asked.has_new(questions):
                left = ends - anyio.current_time()
                dealt_with = await asked.settle(act.session_id, questions, left, call)
                act = replace(act, status=None, after=None if dealt_with else act.after)
            left = ends - anyio.current_time()
            wait_s = max(left, LAST_LOOK_S) if act.wait_s else 0
            outcome = await self._tool_handlers.finish(
                replace(act, wait_s=wait_s), call, closed=asked.closed
            )
            act = replace(act, status=None)
            questions = outcome.questions if left > 0 else ()
        return outcome

    def _form_push(self, ctx: Context) -> FormPush | None:
        """Return the forms of this connection, which end with it; None: the client shows none."""
        if not can_elicit(ctx.session):
            return None
        connection = connection_of(ctx)
        held: FormPush | None = connection.state.get(FORM_PUSH)
        if held is None:
            held = FormPush(self._handle, _stream_to(ctx), _name(ctx))
            connection.state[FORM_PUSH] = held
            connection.exit_stack.push_async_callback(held.aclose)
        return held

    # 2026-07-28: a call that waits asks in its result, and is called again with the answers

    async def _in_rounds(
        self, ctx: Context, params: types.CallToolRequestParams, call: _Call
    ) -> Result:
        this = await self._this_round(ctx, params, call)
        if isinstance(this, Outcome):
            return _result(this)
        # Whom a waiting call can ask is asked before it waits, and before it tells anything.
        act = await self._tool_handlers.look(this.act)
        if requests := _requests(ctx, this, _open_questions(act)):
            return requests
        call.shows_forms = call.shows_forms and not act.wait_s
        outcome = await self._tool_handlers.finish(act, call, closed=this.closed)
        return _requests(ctx, this, outcome.questions) or _result(outcome)

    async def _this_round(
        self, ctx: Context, params: types.CallToolRequestParams, call: _Call
    ) -> Round | Outcome:
        if params.request_state is not None:
            this = Round.opened(params.request_state, params.name)
            call.act = this.act
            return await self._answered(ctx, this, params.input_responses, call)
        if params.input_responses:
            raise UsageError("inputResponses came without the requestState they belong to")
        done = await self._begin(params, call)
        if isinstance(done, Outcome):
            return done
        if done.tool == "claude_start" and not done.wait_s and can_elicit(ctx.session):
            done = replace(done, told={**done.told, "note": ONLY_WHILE_WAITING})
        return Round(act=done)

    async def _answered(
        self,
        ctx: Context,
        this: Round,
        responses: Mapping[str, types.InputResponse] | None,
        call: _Call,
    ) -> Round:
        if not can_elicit(ctx.session):
            raise UsageError(
                "a client that shows no forms has nobody's answers to bring; "
                "claude_status tells what the session asks"
            )
        taken = await take(
            self._handle, responses, call.name, asked=this.asked, session_id=this.act.session_id
        )
        return this.answered(taken.noted, taken.closed)

    # For CLIs that somebody else started

    async def _check_permission(
        self, ctx: Context, params: types.CallToolRequestParams, call: _Call
    ) -> types.CallToolResult:
        try:
            # What cannot be written could be decided, but nobody be told.
            json.encode(params.arguments)
            told = await permission.check(
                self._handle,
                params.arguments,
                ctx.meta,
                identity=self._identity,
                cwd=self._cwd,
                progress=call.progress,
            )
        except Exception:
            # The boundary: nothing runs because something has failed here.
            log.exception("a permission could not be checked")
            told = json.encode(NOT_CHECKED).decode()
        return types.CallToolResult(content=[types.TextContent(type="text", text=writable(told))])


class _Asked:
    """The forms that a person sees while one call waits."""

    def __init__(self, push: FormPush, dealt_with: Mapping[str, bool]) -> None:
        self._push = push
        self._dealt_with = dealt_with
        self._seen: set[str] = set()

    @property
    def closed(self) -> set[str]:
        """Questions whose form was closed without an answer."""
        return {each for each, answered in self._dealt_with.items() if not answered}

    def has_new(self, questions: Sequence[Question]) -> bool:
        return any(each.id not in self._seen for each in questions)

    async def settle(
        self, session_id: str, questions: Sequence[Question], within: float, call: _Call
    ) -> bool:
        """Wait until nobody has a form of these; return whether somebody dealt with one."""
        new = {each.id for each in questions} - self._seen
        self._seen |= new
        if new:
            with anyio.move_on_after(within):
                async with telling(call.progress, within, ASKING):
                    await self._push.settled(session_id, questions)
        return not new.isdisjoint(self._dealt_with)


def _stream_to(ctx: Context, call: types.RequestId | None = None) -> ClientStream:
    """Return the stream to a client beside its calls, or with the answer of one."""
    scope: Mapping[str, Any] = getattr(ctx.request, "scope", {})
    reaches = scope.get(REACHES)
    if reaches is None:
        return ClientStream(ctx.session, call)
    session_id = connection_of(ctx).session_id
    return ClientStream(ctx.session, call, lambda: reaches(session_id, call))


def _requests(
    ctx: Context, this: Round, questions: Sequence[Question]
) -> types.InputRequiredResult | None:
    """Return what the client is to ask a person, if there is something and it may be asked."""
    if not this.may_ask or not can_elicit(ctx.session):
        return None
    requests = required(questions, this.noted, pages=can_open_pages(ctx.session))
    if not requests:
        return None
    state = this.asking(requests).sealed()
    return types.InputRequiredResult(input_requests={**requests}, request_state=state)


def _open_questions(act: Act) -> Sequence[Question]:
    """Return the session's questions, if the call waits and somebody could answer meanwhile."""
    return act.status.questions if act.wait_s and act.status is not None else ()


def _sessions(act: Act) -> list[str]:
    new = act.told.get("newSessionId")
    return [act.session_id, *([new] if isinstance(new, str) else [])]


def _noted(result: types.CallToolResult, note: str) -> types.CallToolResult:
    """Return the result with a note on the client's configuration, if there is one."""
    if not note:
        return result
    text = types.TextContent(type="text", text=f"Note: {note}")
    told: dict[str, Any] = result.structured_content or {}
    notes = "\n".join(filter(None, (told.get("note"), note)))
    structured = {**told, "note": notes} if told else None
    return types.CallToolResult(
        content=[*result.content, text], structured_content=structured, is_error=result.is_error
    )


def _result(outcome: Outcome) -> types.CallToolResult:
    text = types.TextContent(type="text", text=writable(outcome.text))
    if outcome.is_error:
        return types.CallToolResult(content=[text], is_error=True)
    structured = writable(outcome.structured)
    return types.CallToolResult(content=[text], structured_content=structured)
