"""Every operation of an engine in one table: its name, its path, what goes in and what comes out.

The HTTP routes, what may be asked over the WebSocket, the engine over HTTP, the OpenAPI document
and the reference page all come from here. A new verb is a row here, a method of the `Engine` and
its test.

A row needs no code of its own, since its arguments are those of the engine's method of its name:
the parameters of the path, in their order; a whole request or answer as the next one; the members
of a query, and of a body of `Members`, by their names.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import force_setattr

from pilothouse.errors import (
    PilothouseError,
    Refused,
    UnknownPrompt,
    UnknownQuestion,
    UnknownRunner,
    UnknownSession,
    UsageError,
)

from . import events, items, questions, requests, results, statuses
from .answers import Answer
from .engine import Engine
from .queries import (
    ActivityQuery,
    AnswerQuery,
    ConversationQuery,
    CostQuery,
    DirectoriesQuery,
    EventsQuery,
    FilesQuery,
    ItemQuery,
    ListQuery,
    QuestionsQuery,
    SessionsQuery,
    StatusQuery,
    WaitQuery,
)
from .values import ID, ID_HAS, JsonObject

__all__ = ["OPERATIONS", "PARAMETERS", "Operation", "OperationCall", "PathParameter", "no_such"]


class OperationCall(NamedTuple):
    """One request, read: the values of the path, the query and the body."""

    path: Mapping[str, str]
    query: Any
    body: Any


class Operation(Struct, frozen=True, kw_only=True):
    """One thing that an engine can be asked for."""

    name: str
    """The operation's id, and `do` on the WebSocket."""
    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    summary: str
    result: Any
    body: Any = None
    query: type[Struct] | None = None
    status: int = 200
    ill: int | None = None
    """The status where the result is not `ok`."""
    errors: frozenset[str] = frozenset()
    """The codes of the problems it may have, besides those that everything may have."""
    tag: str = "sessions"
    body_optional: bool = False
    keyed: bool = False
    """Takes an idempotency key, in the body or as a header."""
    waits: bool = False
    """It may take long, and is given up once its caller has left or the server ends."""
    verb: str = ""
    """The engine's method; the one of the same name if left out."""
    parameters: tuple[str, ...] = ()
    """The names in the path, in order; found in it."""

    def __post_init__(self) -> None:
        force_setattr(self, "parameters", tuple(re.findall(r"{(\w+)}", self.path)))
        force_setattr(self, "verb", self.verb or self.name)

    def status_of(self, result: Any) -> int:
        """Return the HTTP status for a result."""
        return self.status if self.ill is None or result.ok else self.ill

    def call(self, engine: Engine, call: OperationCall) -> Awaitable[Any]:
        """Ask the engine for it."""
        arguments: list[Any] = [call.path[name] for name in self.parameters]
        named: dict[str, Any] = _members(call.query)
        if isinstance(call.body, requests.Members):
            named |= _members(call.body)
        elif self.body is not None:
            arguments.append(call.body)
        return getattr(engine, self.verb)(*arguments, **named)

    def request(self, arguments: Mapping[str, Any]) -> OperationCall:
        """Return the request that stands for a call of the engine's method with these arguments."""
        rest = dict(arguments)
        path = {name: rest.pop(name) for name in self.parameters}
        asked = () if self.query is None else self.query.__struct_fields__
        query = {name: rest.pop(name) for name in asked if name in rest}
        if self.body is None:
            return OperationCall(path, query, None)
        if isinstance(self.body, type) and issubclass(self.body, requests.Members):
            return OperationCall(path, query, self.body(**rest))
        (body,) = rest.values()
        return OperationCall(path, query, body)


def _members(given: Struct | None) -> dict[str, Any]:
    if given is None:
        return {}
    return {name: getattr(given, name) for name in given.__struct_fields__}


class PathParameter(NamedTuple):
    """A name that stands in a path."""

    words: str
    pattern: str
    unknown: type[PilothouseError]
    """The error for a value that nothing can have."""
    reason: str


PARAMETERS: Final = {
    "session_id": PathParameter(
        "A session's id, as `start` gave it.", ID, UnknownSession, "no session has this id"
    ),
    "question_id": PathParameter(
        "A question's id.", ID, UnknownQuestion, "no question has this id"
    ),
    "prompt_id": PathParameter(
        "A message's id, as `say` gave it.", ID, UnknownPrompt, "no queued message has this id"
    ),
    "name": PathParameter("A runner's name.", ID, UnknownRunner, "no runner has this name"),
    "server": PathParameter(
        "The name of an MCP server.",
        r"^[^\x00-\x1f\x7f/]{1,256}$",
        UsageError,
        "server: no MCP server has such a name",
    ),
}


def no_such(parameter: str) -> PilothouseError:
    """Return the error for a value in a path that nothing can have."""
    told = PARAMETERS[parameter]
    if issubclass(told.unknown, Refused):
        return told.unknown(told.reason, advice=ID_HAS)
    return told.unknown(told.reason)


# Problems that come together

STARTING: Final = frozenset(
    {
        "bypass-not-allowed",
        "cap-reached",
        "cli-not-found",
        "cli-not-started",
        "directory-refused",
        "invalid-option",
        "not-now",
        "too-many-sessions",
    }
)
"""Where a CLI is started, now or a moment later."""
KNOWN: Final = frozenset({"unknown-session", "not-now"})
"""Where a session has to be the engine's already, and no foreign CLI at work in it."""
ADOPTING: Final = KNOWN | {"session-taken", "directory-refused"}
"""Where a session that was made elsewhere becomes the engine's."""
CONTROLLING: Final = frozenset({"session-ended", "control-error", "control-timeout", "unsupported"})
"""Where a CLI is asked."""
USING: Final = ADOPTING | STARTING | CONTROLLING
"""Where a session's CLI is asked, and started if there is none."""

SESSIONS: Final = "/api/sessions"
SESSION: Final = "/api/sessions/{session_id}"
QUESTION: Final = "/api/questions/{question_id}"
RUNNERS: Final = "/api/runners"
RUNNER: Final = "/api/runners/{name}"
Objects = list[JsonObject]

OPERATIONS: Final[tuple[Operation, ...]] = (
    # Paths are tried in this order: what is asked for most stands first, and a path with a name in
    # it behind those that it would hide.
    Operation(
        name="health",
        method="GET",
        path="/healthz",
        summary="Whether the server is in order",
        tag="server",
        result=results.Health,
        ill=503,
    ),
    Operation(
        name="start",
        method="POST",
        path=SESSIONS,
        summary="Start a session with its first prompt, or go on with the latest of a directory",
        body=requests.Start,
        result=results.Started,
        status=201,
        keyed=True,
        errors=USING | {"key-reused"},
    ),
    Operation(
        name="list",
        method="GET",
        path=SESSIONS,
        summary="Every session on this machine, and the server's on others, the newest first",
        query=SessionsQuery,
        result=statuses.Listing,
        errors=frozenset({"usage"}),
    ),
    Operation(
        name="directories",
        method="GET",
        path="/api/directories",
        summary="The directories whose path begins like this, where sessions may work",
        query=DirectoriesQuery,
        result=results.Paths,
    ),
    Operation(
        name="stop_all",
        method="POST",
        path=f"{SESSIONS}/stop",
        summary="End every CLI in order, on other machines too; messages start them again",
        result=results.AllStopped,
    ),
    Operation(
        name="status",
        method="GET",
        path=SESSION,
        summary="Everything to know about a session at this moment",
        query=StatusQuery,
        result=statuses.Status,
        errors=frozenset({"unknown-session"}),
    ),
    Operation(
        name="conversation",
        method="GET",
        path=f"{SESSION}/conversation",
        summary="What a person reads of a session: its newest items, those before or after one, or"
        " where words stand",
        query=ConversationQuery,
        result=items.ConversationPage,
        errors=frozenset({"unknown-session", "usage"}),
    ),
    Operation(
        name="item_source",
        method="GET",
        path=f"{SESSION}/conversation/source",
        summary="The lines that an item of the conversation was made of, as the CLI wrote them",
        query=ItemQuery,
        result=items.ItemSource,
        errors=frozenset({"unknown-session", "usage"}),
    ),
    Operation(
        name="timeline",
        method="GET",
        path=f"{SESSION}/timeline",
        summary="What a session's time went into: the model, tools, waiting for people, nothing",
        result=results.Timeline,
        errors=frozenset({"unknown-session"}),
    ),
    Operation(
        name="wait",
        method="GET",
        path=f"{SESSION}/wait",
        summary="The session's status once it waits for somebody or is done, or time is over",
        query=WaitQuery,
        result=statuses.Status,
        waits=True,
        errors=frozenset({"unknown-session"}),
    ),
    Operation(
        name="say",
        method="POST",
        path=f"{SESSION}/messages",
        summary="Say something to a session; one at rest is resumed",
        body=requests.Say,
        result=results.Said,
        status=202,
        keyed=True,
        errors=USING | {"key-reused"},
    ),
    Operation(
        name="cancel",
        method="DELETE",
        path=f"{SESSION}/messages/{{prompt_id}}",
        summary="Take back a message that no turn has taken yet",
        result=results.Cancelled,
        errors=KNOWN | CONTROLLING | {"unknown-prompt"},
    ),
    Operation(
        name="interrupt",
        method="POST",
        path=f"{SESSION}/interrupt",
        summary="Stop the running turn; the session stays",
        result=results.Interrupted,
        errors=KNOWN | CONTROLLING,
    ),
    Operation(
        name="stop",
        method="POST",
        path=f"{SESSION}/stop",
        summary="End the session's CLI; a message starts it again",
        result=results.Stopped,
        errors=KNOWN,
    ),
    Operation(
        name="archive",
        method="POST",
        path=f"{SESSION}/archive",
        summary="Put a session that rests into the archive, which lists leave out, or take it out",
        body=requests.Archive,
        body_optional=True,
        result=statuses.Listed,
        errors=ADOPTING | {"not-now"},
    ),
    Operation(
        name="fork",
        method="POST",
        path=f"{SESSION}/fork",
        summary="Start a session that begins with this one's conversation",
        body=requests.Fork,
        result=results.Started,
        status=201,
        keyed=True,
        errors=ADOPTING | STARTING | {"key-reused"},
    ),
    Operation(
        name="rewind",
        method="POST",
        path=f"{SESSION}/rewind",
        summary="Take files back to where they were before a message, or see what that would do",
        body=requests.Rewind,
        result=results.Rewound,
        errors=USING,
    ),
    Operation(
        name="compact",
        method="POST",
        path=f"{SESSION}/compact",
        summary="Summarise the conversation to make room",
        body=requests.Compact,
        body_optional=True,
        result=results.Said,
        status=202,
        errors=USING,
    ),
    Operation(
        name="set_mode",
        method="PUT",
        path=f"{SESSION}/mode",
        summary="Switch the permission mode",
        body=requests.ModeChange,
        result=results.ModeSet,
        errors=USING,
    ),
    Operation(
        name="set_model",
        method="PUT",
        path=f"{SESSION}/model",
        summary="Switch the model",
        body=requests.ModelChange,
        result=statuses.Status,
        errors=ADOPTING | CONTROLLING | {"invalid-option"},
    ),
    Operation(
        name="set_thinking",
        method="PUT",
        path=f"{SESSION}/thinking",
        summary="Set how many tokens a thought may have",
        body=requests.ThinkingChange,
        result=statuses.Status,
        errors=ADOPTING | CONTROLLING | {"invalid-option"},
    ),
    Operation(
        name="mcp_status",
        method="GET",
        path=f"{SESSION}/mcp",
        summary="The session's MCP servers and how they are",
        result=Objects,
        errors=USING,
    ),
    Operation(
        name="mcp_set",
        method="PUT",
        path=f"{SESSION}/mcp",
        summary="Replace the MCP servers that were set for the session",
        body=requests.Servers,
        result=JsonObject,
        errors=USING,
    ),
    Operation(
        name="mcp_reconnect",
        method="POST",
        path=f"{SESSION}/mcp/{{server}}/reconnect",
        summary="Connect an MCP server again",
        result=Objects,
        errors=USING,
    ),
    Operation(
        name="mcp_message",
        method="POST",
        path=f"{SESSION}/mcp/{{server}}/message",
        summary="Send the CLI a message in the name of an MCP server of the session's",
        body=requests.McpMessage,
        result=JsonObject,
        errors=USING,
    ),
    Operation(
        name="mcp_toggle",
        method="PUT",
        path=f"{SESSION}/mcp/{{server}}",
        summary="Turn an MCP server on or off",
        body=requests.Enable,
        result=Objects,
        errors=USING,
    ),
    Operation(
        name="context_usage",
        method="GET",
        path=f"{SESSION}/context",
        summary="What fills the session's context",
        result=JsonObject,
        errors=USING,
    ),
    Operation(
        name="commands",
        method="GET",
        path=f"{SESSION}/commands",
        summary="The slash commands the session knows",
        result=Objects,
        errors=USING,
    ),
    Operation(
        name="files",
        method="GET",
        path=f"{SESSION}/files",
        summary="The files below the session's directory that fit what was typed, best first",
        query=FilesQuery,
        result=results.Paths,
        errors=KNOWN,
    ),
    Operation(
        name="greeting",
        method="GET",
        path=f"{SESSION}/greeting",
        summary="What the session's CLI is: account, output styles, fast mode, agents",
        result=JsonObject,
        errors=USING,
    ),
    Operation(
        name="models",
        method="GET",
        path=f"{SESSION}/models",
        summary="The models the session can use",
        result=Objects,
        errors=USING,
    ),
    Operation(
        name="control",
        method="POST",
        path=f"{SESSION}/control",
        summary="Send a control request that is on the list of allowed ones",
        body=requests.ControlCall,
        result=JsonObject,
        errors=USING | {"control-refused"},
    ),
    Operation(
        name="questions",
        method="GET",
        path="/api/questions",
        summary="What sessions wait on a person for",
        tag="questions",
        query=QuestionsQuery,
        result=list[questions.Question],
        errors=frozenset({"unknown-question"}),
    ),
    Operation(
        name="question",
        method="GET",
        path=QUESTION,
        summary="One question, open or settled",
        tag="questions",
        result=questions.Question,
        errors=frozenset({"unknown-question"}),
    ),
    Operation(
        name="file_change",
        method="GET",
        path=f"{QUESTION}/change",
        summary="What the call that is asked about would change in its file, as the file is now",
        tag="questions",
        result=questions.FileChange,
        errors=frozenset({"unknown-question"}),
    ),
    Operation(
        name="answer",
        method="POST",
        path=f"{QUESTION}/answer",
        summary="Answer a question; the first answer counts",
        tag="questions",
        query=AnswerQuery,
        body=Answer,
        result=questions.Answered,
        errors=STARTING
        | {"answer-refused", "question-settled", "session-taken", "unknown-question", "usage"},
    ),
    Operation(
        name="ask",
        method="POST",
        path="/api/asks",
        summary="Ask for a CLI that somebody else has started, and wait a while for the answer",
        tag="questions",
        body=requests.Ask,
        result=questions.Asked,
        waits=True,
        errors=frozenset({"not-now", "too-many-sessions", "directory-refused", "usage"}),
    ),
    Operation(
        name="withdraw",
        method="POST",
        path=f"{QUESTION}/withdraw",
        summary="Take back a question of a CLI that is not the server's",
        tag="questions",
        body=requests.Withdraw,
        result=questions.Question,
        errors=frozenset({"unknown-question", "refused"}),
    ),
    Operation(
        name="policy",
        method="GET",
        path="/api/policy",
        summary="The policy in force, and what is wrong with its file",
        tag="policy",
        result=results.PolicyReport,
    ),
    Operation(
        name="policy_dry_run",
        method="POST",
        path="/api/policy/dry-run",
        summary="Which past questions a changed policy would have decided otherwise",
        tag="policy",
        body=requests.DryRunText,
        result=results.DryRun,
        errors=frozenset({"policy-error"}),
    ),
    Operation(
        name="save_policy",
        method="PUT",
        path="/api/policy",
        summary="Replace the policy's file; its rules are in force at once",
        tag="policy",
        body=requests.PolicyText,
        result=results.PolicyReport,
        errors=frozenset({"policy-error", "not-now", "usage"}),
    ),
    Operation(
        name="history",
        method="GET",
        path="/api/history",
        summary="Every session on this machine, whoever started it",
        tag="history",
        query=ListQuery,
        result=statuses.Listing,
        verb="list",
    ),
    Operation(
        name="cost",
        method="GET",
        path="/api/cost",
        summary="What was spent, by turn, session, project, day or model",
        tag="cost",
        query=CostQuery,
        result=results.CostReport,
    ),
    Operation(
        name="activity",
        method="GET",
        path="/api/activity",
        summary="What was done and waited for on each day, and how often each rule decided",
        tag="cost",
        query=ActivityQuery,
        result=results.Activity,
    ),
    Operation(
        name="dial_in",
        method="POST",
        path="/api/dial-ins",
        summary="Expect a CLI that somebody starts by hand; its token is told this once",
        tag="machines",
        body=requests.DialIn,
        result=results.DialInOpened,
        status=201,
        errors=STARTING,
    ),
    Operation(
        name="dial_ins",
        method="GET",
        path="/api/dial-ins",
        summary="The CLIs that are expected and have not come yet",
        tag="machines",
        result=list[results.DialInWaiting],
    ),
    Operation(
        name="runners",
        method="GET",
        path=RUNNERS,
        summary="The other machines that may run sessions, and how they are",
        tag="machines",
        result=list[results.Runner],
    ),
    Operation(
        name="add_runner",
        method="POST",
        path=RUNNERS,
        summary="Let a machine in; its token is told this once",
        tag="machines",
        body=requests.AddRunner,
        result=results.RunnerAdded,
        status=201,
        errors=frozenset({"invalid-option", "usage"}),
    ),
    Operation(
        name="drain_runner",
        method="POST",
        path=f"{RUNNER}/drain",
        summary="Start no more sessions there, or start some again; what runs goes on",
        tag="machines",
        body=requests.RunnerDrain,
        body_optional=True,
        result=results.Runner,
        errors=frozenset({"unknown-runner"}),
    ),
    Operation(
        name="revoke_runner",
        method="DELETE",
        path=RUNNER,
        summary="Let a machine in no more: its relays are refused, and end their CLIs",
        tag="machines",
        result=results.Runner,
        errors=frozenset({"unknown-runner"}),
    ),
    Operation(
        name="settings",
        method="GET",
        path="/api/settings",
        summary="The settings in force and where each comes from",
        tag="server",
        result=JsonObject,
    ),
    Operation(
        name="read",
        method="GET",
        path="/api/events",
        summary="A page of what happened after a cursor",
        tag="events",
        query=EventsQuery,
        result=events.Batch,
    ),
)
