"""Every path of the API in one table: what it takes, what it gives, and the verb it stands for.

The handlers, the OpenAPI document and what may be asked over the WebSocket all come from here.
Litestar could read handlers' signatures instead, but it takes bodies leniently ("1" for 1, names
nobody knows), and its document would not say what this one has to: exactly what is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Struct

from pilothouse.api import events, questions, requests, results, statuses
from pilothouse.api.answers import Answer
from pilothouse.api.engine import Engine
from pilothouse.api.queries import (
    AnswerQuery,
    CostQuery,
    EventsQuery,
    ListQuery,
    QuestionsQuery,
    SessionsQuery,
    StatusQuery,
)
from pilothouse.api.values import JsonObject

from .problems import Unacceptable

__all__ = ["ENDPOINTS", "IDEMPOTENCY_KEY", "Call", "Endpoint"]

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
LONGEST_KEY: Final = 256


class Call(NamedTuple):
    """A request, read."""

    path: Mapping[str, str]
    query: Any
    body: Any


class Endpoint(Struct, frozen=True, kw_only=True):
    """One method of one path."""

    name: str
    """The verb: the operation's id, and `do` on the WebSocket."""
    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    summary: str
    gives: Any
    call: Callable[[Engine, Call], Awaitable[Any]]
    takes: Any = None
    query: type[Struct] | None = None
    status: int = 200
    tag: str = "sessions"
    body_optional: bool = False
    keyed: bool = False
    """Takes an idempotency key, in the body or as a header."""
    waits: bool = False
    """It may take long, and is given up once its caller has left or the server ends."""

    @property
    def parameters(self) -> list[str]:
        """The names in the path, in order."""
        return re.findall(r"{(\w+)}", self.path)


def with_key(body: Any, key: str | None) -> Any:
    """The body with the key of the header, unless it has another one."""
    if key is None or body.key == key:
        return body
    if not 1 <= len(key) <= LONGEST_KEY:
        raise Unacceptable(
            422,
            "invalid",
            f"{IDEMPOTENCY_KEY} has 1 to {LONGEST_KEY} characters",
            advice="shorten it",
        )
    if body.key is not None:
        raise Unacceptable(
            409,
            "two-keys",
            f"the body's `key` and the header {IDEMPOTENCY_KEY} differ",
            advice="send one of them",
        )
    return msgspec.structs.replace(body, key=key)


def _answer(engine: Engine, call: Call) -> Awaitable[questions.Answered]:
    return engine.answer(call.path["question_id"], call.body, by=call.query.by)


def _questions(engine: Engine, call: Call) -> Awaitable[Any]:
    query: QuestionsQuery = call.query
    return engine.questions(
        session_id=query.session_id, state=query.state, limit=query.limit, before=query.before
    )


def _status(engine: Engine, call: Call) -> Awaitable[statuses.Status]:
    query: StatusQuery = call.query
    session_id = call.path["session_id"]
    return engine.status(session_id, output_lines=query.output_lines, after=query.after)


def _list(engine: Engine, call: Call) -> Awaitable[statuses.Listing]:
    query: ListQuery = call.query
    live = isinstance(query, SessionsQuery) and query.live
    return engine.list(cwd=query.cwd, limit=query.limit, offset=query.offset, live=live)


def _read(engine: Engine, call: Call) -> Awaitable[events.Batch]:
    query: EventsQuery = call.query
    return engine.read(query.after, session_id=query.session_id, limit=query.limit)


def _cost(engine: Engine, call: Call) -> Awaitable[results.CostReport]:
    query: CostQuery = call.query
    return engine.cost(
        query.by,
        session_id=query.session_id,
        since=query.since,
        limit=query.limit,
        before=query.before,
    )


def _rewind(engine: Engine, call: Call) -> Awaitable[results.Rewound]:
    body: requests.Rewind = call.body
    return engine.rewind(call.path["session_id"], body.prompt_id, preview=body.preview)


def _control(engine: Engine, call: Call) -> Awaitable[JsonObject]:
    body: requests.Control = call.body
    return engine.control(call.path["session_id"], body.subtype, body.fields)


def _toggle(engine: Engine, call: Call) -> Awaitable[list[JsonObject]]:
    path, body = call.path, call.body
    return engine.mcp_toggle(path["session_id"], path["server"], enabled=body.enabled)


SESSIONS: Final = "/api/sessions"
SESSION: Final = "/api/sessions/{session_id}"
QUESTION: Final = "/api/questions/{question_id}"
RUNNERS: Final = "/api/runners"
RUNNER: Final = "/api/runners/{name}"
Objects = list[JsonObject]

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint(
        name="start",
        method="POST",
        path=SESSIONS,
        summary="Start a session with its first prompt",
        takes=requests.Start,
        gives=results.Started,
        status=201,
        keyed=True,
        call=lambda engine, call: engine.start(call.body),
    ),
    Endpoint(
        name="list",
        method="GET",
        path=SESSIONS,
        summary="Every session on this machine, the newest first",
        query=SessionsQuery,
        gives=statuses.Listing,
        call=_list,
    ),
    Endpoint(
        name="stop_all",
        method="POST",
        path=f"{SESSIONS}/stop",
        summary="End every CLI in order, on other machines too; messages start them again",
        gives=results.AllStopped,
        call=lambda engine, call: engine.stop_all(),
    ),
    Endpoint(
        name="status",
        method="GET",
        path=SESSION,
        summary="Everything to know about a session at this moment",
        query=StatusQuery,
        gives=statuses.Status,
        call=_status,
    ),
    Endpoint(
        name="say",
        method="POST",
        path=f"{SESSION}/messages",
        summary="Say something to a session; one at rest is resumed",
        takes=requests.Say,
        gives=results.Said,
        status=202,
        keyed=True,
        call=lambda engine, call: engine.say(call.path["session_id"], call.body),
    ),
    Endpoint(
        name="cancel",
        method="DELETE",
        path=f"{SESSION}/messages/{{prompt_id}}",
        summary="Take back a message that no turn has taken yet",
        gives=results.Cancelled,
        call=lambda engine, call: engine.cancel(call.path["session_id"], call.path["prompt_id"]),
    ),
    Endpoint(
        name="interrupt",
        method="POST",
        path=f"{SESSION}/interrupt",
        summary="Stop the running turn; the session stays",
        gives=results.Interrupted,
        call=lambda engine, call: engine.interrupt(call.path["session_id"]),
    ),
    Endpoint(
        name="stop",
        method="POST",
        path=f"{SESSION}/stop",
        summary="End the session's CLI; a message starts it again",
        gives=results.Stopped,
        call=lambda engine, call: engine.stop(call.path["session_id"]),
    ),
    Endpoint(
        name="fork",
        method="POST",
        path=f"{SESSION}/fork",
        summary="Start a session that begins with this one's conversation",
        takes=requests.Fork,
        gives=results.Started,
        status=201,
        keyed=True,
        call=lambda engine, call: engine.fork(call.path["session_id"], call.body),
    ),
    Endpoint(
        name="rewind",
        method="POST",
        path=f"{SESSION}/rewind",
        summary="Take files back to where they were before a message, or see what that would do",
        takes=requests.Rewind,
        gives=results.Rewound,
        call=_rewind,
    ),
    Endpoint(
        name="compact",
        method="POST",
        path=f"{SESSION}/compact",
        summary="Summarise the conversation to make room",
        takes=requests.Compact,
        body_optional=True,
        gives=results.Said,
        status=202,
        call=lambda engine, call: engine.compact(call.path["session_id"], call.body.instructions),
    ),
    Endpoint(
        name="set_mode",
        method="PUT",
        path=f"{SESSION}/mode",
        summary="Switch the permission mode",
        takes=requests.SetMode,
        gives=results.ModeSet,
        call=lambda engine, call: engine.set_mode(call.path["session_id"], call.body.mode),
    ),
    Endpoint(
        name="set_model",
        method="PUT",
        path=f"{SESSION}/model",
        summary="Switch the model",
        takes=requests.SetModel,
        gives=statuses.Status,
        call=lambda engine, call: engine.set_model(call.path["session_id"], call.body.model),
    ),
    Endpoint(
        name="set_thinking",
        method="PUT",
        path=f"{SESSION}/thinking",
        summary="Set how many tokens a thought may have",
        takes=requests.SetThinking,
        gives=statuses.Status,
        call=lambda engine, call: engine.set_thinking(call.path["session_id"], call.body.tokens),
    ),
    Endpoint(
        name="mcp_status",
        method="GET",
        path=f"{SESSION}/mcp",
        summary="The session's MCP servers and how they are",
        gives=Objects,
        call=lambda engine, call: engine.mcp_status(call.path["session_id"]),
    ),
    Endpoint(
        name="mcp_set",
        method="PUT",
        path=f"{SESSION}/mcp",
        summary="Replace the MCP servers that were set for the session",
        takes=requests.Servers,
        gives=JsonObject,
        call=lambda engine, call: engine.mcp_set(call.path["session_id"], call.body.servers),
    ),
    Endpoint(
        name="mcp_reconnect",
        method="POST",
        path=f"{SESSION}/mcp/{{server}}/reconnect",
        summary="Connect an MCP server again",
        gives=Objects,
        call=lambda engine, call: engine.mcp_reconnect(
            call.path["session_id"], call.path["server"]
        ),
    ),
    Endpoint(
        name="mcp_toggle",
        method="PUT",
        path=f"{SESSION}/mcp/{{server}}",
        summary="Turn an MCP server on or off",
        takes=requests.Enable,
        gives=Objects,
        call=_toggle,
    ),
    Endpoint(
        name="context_usage",
        method="GET",
        path=f"{SESSION}/context",
        summary="What fills the session's context",
        gives=JsonObject,
        call=lambda engine, call: engine.context_usage(call.path["session_id"]),
    ),
    Endpoint(
        name="commands",
        method="GET",
        path=f"{SESSION}/commands",
        summary="The slash commands the session knows",
        gives=Objects,
        call=lambda engine, call: engine.commands(call.path["session_id"]),
    ),
    Endpoint(
        name="models",
        method="GET",
        path=f"{SESSION}/models",
        summary="The models the session can use",
        gives=Objects,
        call=lambda engine, call: engine.models(call.path["session_id"]),
    ),
    Endpoint(
        name="control",
        method="POST",
        path=f"{SESSION}/control",
        summary="Send a control request that is on the list of allowed ones",
        takes=requests.Control,
        gives=JsonObject,
        call=_control,
    ),
    Endpoint(
        name="questions",
        method="GET",
        path="/api/questions",
        summary="What sessions wait on a person for",
        tag="questions",
        query=QuestionsQuery,
        gives=list[questions.Question],
        call=_questions,
    ),
    Endpoint(
        name="question",
        method="GET",
        path=QUESTION,
        summary="One question, open or settled",
        tag="questions",
        gives=questions.Question,
        call=lambda engine, call: engine.question(call.path["question_id"]),
    ),
    Endpoint(
        name="answer",
        method="POST",
        path=f"{QUESTION}/answer",
        summary="Answer a question; the first answer counts",
        tag="questions",
        query=AnswerQuery,
        takes=Answer,
        gives=questions.Answered,
        call=_answer,
    ),
    Endpoint(
        name="ask",
        method="POST",
        path="/api/asks",
        summary="Ask for a CLI that somebody else has started, and wait a while for the answer",
        tag="questions",
        takes=requests.Ask,
        gives=questions.Asked,
        waits=True,
        call=lambda engine, call: engine.ask(call.body),
    ),
    Endpoint(
        name="withdraw",
        method="POST",
        path=f"{QUESTION}/withdraw",
        summary="Take back a question of such a CLI",
        tag="questions",
        takes=requests.Withdraw,
        gives=questions.Question,
        call=lambda engine, call: engine.withdraw(call.path["question_id"], call.body.because),
    ),
    Endpoint(
        name="policy",
        method="GET",
        path="/api/policy",
        summary="The policy in force, and what is wrong with its file",
        tag="policy",
        gives=results.PolicyReport,
        call=lambda engine, call: engine.policy(),
    ),
    Endpoint(
        name="policy_dry_run",
        method="POST",
        path="/api/policy/dry-run",
        summary="Which past questions a changed policy would have decided otherwise",
        tag="policy",
        takes=requests.DryRunText,
        gives=results.DryRun,
        call=lambda engine, call: engine.policy_dry_run(call.body.text),
    ),
    Endpoint(
        name="history",
        method="GET",
        path="/api/history",
        summary="Every session on this machine, whoever started it",
        tag="history",
        query=ListQuery,
        gives=statuses.Listing,
        call=_list,
    ),
    Endpoint(
        name="cost",
        method="GET",
        path="/api/cost",
        summary="What was spent, by turn, session, project or day",
        tag="cost",
        query=CostQuery,
        gives=results.CostReport,
        call=_cost,
    ),
    Endpoint(
        name="runners",
        method="GET",
        path=RUNNERS,
        summary="The other machines that may run sessions, and how they are",
        tag="machines",
        gives=list[results.Runner],
        call=lambda engine, call: engine.runners(),
    ),
    Endpoint(
        name="add_runner",
        method="POST",
        path=RUNNERS,
        summary="Let a machine in; its token is told this once",
        tag="machines",
        takes=requests.AddRunner,
        gives=results.RunnerAdded,
        status=201,
        call=lambda engine, call: engine.add_runner(call.body.name),
    ),
    Endpoint(
        name="drain_runner",
        method="POST",
        path=f"{RUNNER}/drain",
        summary="Start no more sessions there, or start some again; what runs goes on",
        tag="machines",
        takes=requests.Drain,
        body_optional=True,
        gives=results.Runner,
        call=lambda engine, call: engine.drain_runner(
            call.path["name"], draining=call.body.draining
        ),
    ),
    Endpoint(
        name="revoke_runner",
        method="DELETE",
        path=RUNNER,
        summary="Let a machine in no more: its relays are refused, and end their CLIs",
        tag="machines",
        gives=results.Runner,
        call=lambda engine, call: engine.revoke_runner(call.path["name"]),
    ),
    Endpoint(
        name="settings",
        method="GET",
        path="/api/settings",
        summary="The settings in force and where each comes from",
        tag="server",
        gives=JsonObject,
        call=lambda engine, call: engine.settings(),
    ),
    Endpoint(
        name="read",
        method="GET",
        path="/api/events",
        summary="A page of what happened after a cursor",
        tag="events",
        query=EventsQuery,
        gives=events.Batch,
        call=_read,
    ),
)
