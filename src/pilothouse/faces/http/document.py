"""The OpenAPI document, made from the table of operations and the types themselves."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import msgspec

from pilothouse.api import (
    answers,
    console,
    events,
    frames,
    items,
    problems,
    proof,
    questions,
    requests,
    results,
    statuses,
    tool_views,
)
from pilothouse.api.operations import OPERATIONS, PARAMETERS, Operation
from pilothouse.api.problems import PROBLEM, STATUSES, Problem
from pilothouse.api.queries import FollowQuery, ProofQuery, StreamQuery
from pilothouse.api.values import LONGEST_WORD

from .request_values import IDEMPOTENCY_KEY
from .words import describe, structs_in

__all__ = ["make_document"]

JSON: Final = "application/json"
REFS: Final = "#/components/schemas/{name}"
Schema = dict[str, Any]

ALWAYS: Final = (400, 401, 403, 404, 413, 421, 422, 500, 503)
WHEN_ACTING: Final = (402, 409, 415, 424, 429, 504)
WORDS: Final = {
    400: "The request is not what HTTP or JSON allow.",
    401: "The token is missing or wrong, or the browser is not signed in.",
    402: "The money that may be spent is spent.",
    403: "Not allowed: a foreign origin, a cookie alone, or what the operator has not opened.",
    404: "There is no such session, question, message, runner or path.",
    409: "The session or the question is in no state for it.",
    413: "The body is larger than the server takes.",
    415: "The body is not JSON.",
    421: "The Host header names another server.",
    422: "The request is understood, but cannot be taken; `errors` says which member is wrong.",
    424: "The session's CLI is gone.",
    426: "This path is for WebSockets.",
    429: "As many CLIs as allowed are busy.",
    500: "The server failed.",
    503: "The server cannot work: no CLI, or its journal cannot be written.",
    504: "The CLI did not answer in time.",
}
QUERY_WORDS: Final = {
    "after": "The cursor to go on from, or the item of a conversation: everything after it.",
    "archived": "The sessions in the archive; else those that are not.",
    "at_rest": "Wait until it neither works nor asks; else until it does not work by itself.",
    "before": "Only what comes before the question or item of this id, or the line of this group.",
    "by": "What to group by, or who answers.",
    "cwd": "Only sessions of this working directory.",
    "item": "The id of an item of the conversation.",
    "label": "Only sessions with this label.",
    "limit": "At most as many.",
    "live": "Only sessions with a CLI alive.",
    "machine": "Only sessions on this machine.",
    "nonce": "32 random bytes in base64url, never used before.",
    "offset": "Leave out as many at the beginning.",
    "output_lines": "How many of the last lines of the model's text to include.",
    "path": "What is typed of a path; `~` is the home of the server's user.",
    "query": "What is typed of a file's path.",
    "search": "Of sessions, words that are all in the row; of a conversation, this text.",
    "seconds": "How long to wait at most.",
    "session_id": "Only this session.",
    "since": "Only from this moment on, in milliseconds since the epoch.",
    "state": "Only sessions, or questions, in this state.",
}
CONVERSATION: Final = "/api/sessions/{session_id}/conversation"
STREAMED: Final[dict[str, tuple[Any, str]]] = {
    "events": (events.Event, "an event"),
    "gap": (events.Gap, "what is missing"),
    "patches": (items.ConversationPatches, "what changed"),
    "sessions": (statuses.SessionChanges, "the rows that changed"),
    "error": (Problem, "why the stream ends"),
}
"""What the data of each kind of server-sent events is."""
CONSOLE: Final = (
    console.ConsoleLink,
    console.EnterConsole,
    console.LeaveConsole,
    console.SignedIn,
    console.SignedOut,
)
"""What a browser sends and gets that signs in or out."""
TAGS: Final = {
    "sessions": "Start sessions, talk to them, steer them.",
    "questions": "What sessions wait on a person for, and the answers.",
    "events": "Everything that happens, kept and as it happens.",
    "policy": "Rules that answer in a person's place.",
    "history": "Sessions of this machine, whoever started them.",
    "cost": "What was spent.",
    "machines": "Other machines that run sessions for the server.",
    "server": "The server itself.",
    "console": "Browsers: links that sign one in, and who is signed in.",
}


DESCRIBED: Final = (
    requests,
    answers,
    questions,
    statuses,
    results,
    events,
    items,
    tool_views,
    problems,
    frames,
    proof,
    console,
)
"""Where the types are that the document shows."""


def make_document(version: str) -> Schema:
    """The document for this version."""
    schemas, components = _schemas()
    paths: dict[str, Schema] = {}
    for operation in OPERATIONS:
        shown = _operation(operation, schemas)
        paths.setdefault(operation.path, {})[operation.method.lower()] = shown
    paths.update(_other_paths(schemas))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Pilothouse",
            "version": version,
            "description": "Start, watch, steer and answer Claude Code sessions on this machine.",
        },
        "tags": [{"name": name, "description": words} for name, words in TAGS.items()],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {str(status): _problem(status) for status in WORDS},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token the server made when it was first started. A browser "
                    "that is signed in to the console has a cookie in its place, and sends "
                    f"`{console.HEADER}: 1` with every request.",
                }
            },
        },
    }


class _Schemas:
    """The schema of each type, referring to the components."""

    def __init__(self, types: list[Any], schemas: tuple[Schema, ...]) -> None:
        self._types = types
        self._schemas = schemas

    def __getitem__(self, kind: Any) -> Schema:
        return self._schemas[self._types.index(kind)]


def _schemas() -> tuple[_Schemas, Schema]:
    types: list[Any] = [Problem, StreamQuery, frames.Frame, proof.Proof, *CONSOLE]
    types += [carried for carried, _ in STREAMED.values()]
    for operation in OPERATIONS:
        types += [kind for kind in (operation.body, operation.result, operation.query) if kind]
    schemas, components = msgspec.json.schema_components(types, ref_template=REFS)
    describe(components, structs_in(*DESCRIBED))
    return _Schemas(types, schemas), components


def _operation(operation: Operation, schemas: _Schemas) -> Schema:
    result = schemas[operation.result]
    shown: Schema = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": _parameters(operation),
        "responses": {
            str(operation.status): _success(operation.status, result),
            **_problems_of(operation),
            **({} if operation.ill is None else {str(operation.ill): _ill(operation.ill, result)}),
        },
    }
    if operation.body is not None:
        shown["requestBody"] = {
            "required": not operation.body_optional,
            "content": {JSON: {"schema": schemas[operation.body]}},
        }
    return shown


def _problems_of(operation: Operation) -> Schema:
    """What it may be refused with; the codes of its own are named."""
    acting = operation.method != "GET" or operation.parameters
    shown = _problems(ALWAYS + (WHEN_ACTING if acting else ()))
    for code in sorted(operation.errors):
        told = shown[str(STATUSES[code])]
        told["description"] = (
            f"{told['description']}, `{code}`" if "description" in told else (f"`{code}`")
        )
    return shown


def _ill(status: int, schema: Schema) -> Schema:
    return {
        "description": "Something is wrong; `problem` says what.",
        "content": {JSON: {"schema": schema}, **_problem(status)["content"]},
    }


def _success(status: int, schema: Schema) -> Schema:
    return {"description": HTTPStatus(status).phrase, "content": {JSON: {"schema": schema}}}


def _problem(status: int) -> Schema:
    ref = {"$ref": REFS.format(name=Problem.__name__)}
    said: Schema = {"description": WORDS[status], "content": {PROBLEM: {"schema": ref}}}
    if status == 401:
        said["headers"] = {"WWW-Authenticate": {"required": True, "schema": {"type": "string"}}}
    return said


def _problems(statuses: tuple[int, ...]) -> Schema:
    return {str(each): {"$ref": f"#/components/responses/{each}"} for each in sorted(statuses)}


def _parameters(operation: Operation) -> list[Schema]:
    return [
        *map(_path_parameter, operation.parameters),
        *_query_parameters(operation.query),
        *([_KEY] if operation.keyed else []),
    ]


def _path_parameter(name: str) -> Schema:
    parameter = PARAMETERS[name]
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": parameter.words,
        "schema": {"type": "string", "pattern": parameter.pattern},
    }


def _query_parameters(query: type[msgspec.Struct] | None) -> list[Schema]:
    if query is None:
        return []
    _, components = msgspec.json.schema_components([query], ref_template=REFS)
    described = components[query.__name__]
    return [
        {**_query_parameter(name, schema), "required": name in described.get("required", ())}
        for name, schema in described["properties"].items()
    ]


def _query_parameter(name: str, schema: Schema) -> Schema:
    # A parameter that may be left out is null to the type, but no null can be written in a query.
    choices = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    shown = choices[0] if len(choices) == 1 else schema
    return {"name": name, "in": "query", "description": QUERY_WORDS[name], "schema": shown}


_KEY: Final[Schema] = {
    "name": IDEMPOTENCY_KEY,
    "in": "header",
    "description": "The same key with the same request does it once. As the body's `key`.",
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_WORD},
}
_LAST_EVENT_ID: Final[Schema] = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The id of the last event that was seen; goes before `after`.",
    "schema": {"type": "string", "pattern": "^[0-9]{1,18}$"},
}
_CONSOLE: Final[Schema] = {
    "name": console.HEADER,
    "in": "header",
    "required": True,
    "description": "That it is the page which asks.",
    "schema": {"enum": ["1"]},
}


def _other_paths(schemas: _Schemas) -> dict[str, Schema]:
    """What is no verb of the engine's."""
    text: Schema = {"schema": {"type": "string"}}
    stream = [*_query_parameters(StreamQuery), _LAST_EVENT_ID]
    pieces = {"schema": _server_sent(schemas, "events", "gap")}
    changes = {"schema": _server_sent(schemas, "patches")}
    follow = [_path_parameter("session_id"), *_query_parameters(FollowQuery)]
    return {
        "/api/events/stream": _get(
            "stream",
            "events",
            "Events as they happen, as server-sent events",
            "text/event-stream",
            pieces,
            stream,
        ),
        "/api/ws": _socket(
            "socket",
            "A WebSocket: events as they happen, requests and their answers",
            schemas[frames.Frame],
            _query_parameters(StreamQuery),
        ),
        "/api/sessions/stream": _get(
            "follow_sessions",
            "sessions",
            "What changes of the list of sessions, as server-sent events",
            "text/event-stream",
            {"schema": _server_sent(schemas, "sessions")},
            [*_query_parameters(FollowQuery), _LAST_EVENT_ID],
        ),
        "/api/sessions/ws": _socket(
            "sessions_socket",
            "A WebSocket: what changes of the list of sessions, requests and their answers",
            schemas[frames.Frame],
            _query_parameters(FollowQuery),
        ),
        "/api/sessions/{session_id}/cassette": _get(
            "cassette",
            "sessions",
            "What passed between a session's CLI and the server, as a cassette for the simulator",
            "application/jsonl",
            {"schema": {"type": "string"}},
            [_path_parameter("session_id")],
        ),
        f"{CONVERSATION}/stream": _get(
            "follow",
            "sessions",
            "What changes of a conversation, as server-sent events",
            "text/event-stream",
            changes,
            [*follow, _LAST_EVENT_ID],
        ),
        f"{CONVERSATION}/ws": _socket(
            "conversation_socket",
            "A WebSocket: what changes of a conversation, requests and their answers",
            schemas[frames.Frame],
            follow,
        ),
        "/metrics": _get("metrics", "server", "Metrics for Prometheus", "text/plain", text, []),
        "/openapi.json": _get(
            "document", "server", "This document", JSON, {"schema": {"type": "object"}}, []
        ),
        proof.PATH: _proof(schemas[proof.Proof]),
        **_console(schemas),
    }


def _console(schemas: _Schemas) -> dict[str, Schema]:
    """How a browser signs in and out. The page itself is nothing for programs."""
    link = _post(
        "console_link", "Make a link that signs a browser in, once", schemas[console.ConsoleLink]
    )
    enter = _post(
        "enter_console",
        "Sign this browser in with the code of a link",
        schemas[console.SignedIn],
        schemas[console.EnterConsole],
    )
    enter["security"] = []
    enter["parameters"] = [_CONSOLE]
    enter["description"] = (
        "Asked without the token, by the page: with its own `Origin`, which browsers send. The "
        "answer has the cookie, `pilothouse-` and the port."
    )
    leave = _post(
        "leave_console",
        "Sign this browser out, or all of them",
        schemas[console.SignedOut],
        schemas[console.LeaveConsole],
    )
    leave["requestBody"]["required"] = False
    me = _get(
        "console_me",
        "console",
        "Whether this browser is signed in",
        JSON,
        {"schema": schemas[console.SignedIn]},
        [],
    )
    return {
        console.LINKS: {"post": link},
        console.ENTER: {"post": enter},
        console.LEAVE: {"post": leave},
        console.ME: me,
    }


def _post(name: str, summary: str, result: Schema, body: Schema | None = None) -> Schema:
    shown: Schema = {
        "operationId": name,
        "summary": summary,
        "tags": ["console"],
        "parameters": [],
        "responses": {"200": _success(200, result), **_problems((*ALWAYS, 415))},
    }
    if body is not None:
        shown["requestBody"] = {"required": True, "content": {JSON: {"schema": body}}}
    return shown


def _proof(schema: Schema) -> Schema:
    """The one path that takes no token."""
    path = _get(
        "proof",
        "server",
        "Prove that the server knows the token",
        JSON,
        {"schema": schema},
        _query_parameters(ProofQuery),
    )
    path["get"]["security"] = []
    path["get"]["description"] = (
        "Asked without the token, on the connection that the token will be sent on. HMAC-SHA256, "
        "in hexadecimal, with the token as the key, over four lines without a line break at the "
        "end: `pilothouse proof v1`, the nonce, the server's end of this connection and the "
        "caller's, such as `127.0.0.1:8137` or `[::1]:8137`."
    )
    return path


def _server_sent(schemas: _Schemas, *kinds: str) -> Schema:
    """One event of a stream; its data is JSON."""
    told = {kind: STREAMED[kind] for kind in (*kinds, "error")}
    data = {"anyOf": [schemas[carried] for carried, _ in told.values()]}
    return {
        "type": "object",
        "description": "; ".join(f"`{kind}` carries {words}" for kind, (_, words) in told.items()),
        "required": ["event", "data"],
        "properties": {
            "id": {"type": "string", "description": "The cursor to go on from."},
            "event": {"enum": list(told)},
            "data": {
                "type": "string",
                "contentMediaType": JSON,
                "contentSchema": data,
            },
        },
    }


def _get(
    name: str,
    tag: str,
    summary: str,
    media: str,
    content: Schema,
    parameters: list[Schema],
) -> Schema:
    responses = {"200": {"description": "OK", "content": {media: content}}, **_problems(ALWAYS)}
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "tags": [tag],
            "parameters": parameters,
            "responses": responses,
        }
    }


def _socket(name: str, summary: str, frames: Schema, parameters: list[Schema]) -> Schema:
    """OpenAPI has no words for a WebSocket: the handshake is described, and the frames."""
    description = (
        "Send `{id, do, ...}`: `do` is an operation's id, the rest its parameters and the members "
        "of its body. A browser offers the subprotocols `pilothouse` and `bearer.<token>`."
    )
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "description": description,
            "tags": ["events"],
            "parameters": parameters,
            "responses": {
                "101": {"description": "The WebSocket is open.", "x-frames": frames},
                **_problems((*ALWAYS, 426)),
            },
        }
    }
