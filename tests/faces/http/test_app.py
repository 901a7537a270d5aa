"""Every path once, and what is refused."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from pilothouse import errors
from pilothouse.api.operations import OPERATIONS, Operation
from pilothouse.api.problems import CODES, STATUSES, status_of
from pilothouse.api.requests import Start
from pilothouse.faces.http import Application, create_app
from tests.support.http.fake_engine import SECRET, FakeEngine
from tests.support.http.serving import BEARER, LIMIT, calling, make_app


@pytest.fixture
async def engine() -> FakeEngine:
    engine = FakeEngine()
    await engine.start(Start(prompt="hello", cwd="/"))
    engine.pose("session-1")
    engine.pose("session-1", foreign=True)
    await engine.add_runner("attic")
    return engine


@pytest.fixture
async def http(engine: FakeEngine) -> AsyncGenerator[httpx.AsyncClient]:
    async with calling(make_app(engine)) as client:
        yield client


S = "/api/sessions/session-1"
OWN_RULE: dict[str, Any] = {
    "kind": "allow",
    "updates": [
        {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "git:*"}]},
        {"type": "addDirectories", "directories": ["/srv/dock"]},
    ],
}
VERBS: dict[str, tuple[str, str, Any]] = {
    "start": ("POST", "/api/sessions", {"prompt": "hi", "cwd": "/"}),
    "list": ("GET", "/api/sessions?cwd=/&limit=3&offset=0&live=true", None),
    "status": ("GET", f"{S}?output_lines=2", None),
    "say": ("POST", f"{S}/messages", {"content": "more"}),
    "interrupt": ("POST", f"{S}/interrupt", None),
    "stop": ("POST", f"{S}/stop", None),
    "stop_all": ("POST", "/api/sessions/stop", None),
    "archive": ("POST", f"{S}/archive", {"archived": True}),
    "directories": ("GET", "/api/directories?path=/har", None),
    "files": ("GET", f"{S}/files?query=boat", None),
    "fork": ("POST", f"{S}/fork", {"prompt": "again"}),
    "rewind": ("POST", f"{S}/rewind", {"prompt_id": "p-1", "preview": True}),
    "compact": ("POST", f"{S}/compact", {"instructions": "keep names"}),
    "set_mode": ("PUT", f"{S}/mode", {"mode": "plan"}),
    "set_model": ("PUT", f"{S}/model", {"model": None}),
    "set_thinking": ("PUT", f"{S}/thinking", {"tokens": 1024}),
    "mcp_status": ("GET", f"{S}/mcp", None),
    "mcp_set": ("PUT", f"{S}/mcp", {"servers": {"files": {"command": "x"}}}),
    "mcp_reconnect": ("POST", f"{S}/mcp/plugin:files/reconnect", None),
    "mcp_message": (
        "POST",
        f"{S}/mcp/files/message",
        {"message": {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}},
    ),
    "mcp_toggle": ("PUT", f"{S}/mcp/claude.ai%20Mail", {"enabled": False}),
    "context_usage": ("GET", f"{S}/context", None),
    "greeting": ("GET", f"{S}/greeting", None),
    "conversation": ("GET", f"{S}/conversation?limit=3", None),
    "item_source": ("GET", f"{S}/conversation/source?item=t", None),
    "wait": ("GET", f"{S}/wait?seconds=1", None),
    "commands": ("GET", f"{S}/commands", None),
    "models": ("GET", f"{S}/models", None),
    "control": ("POST", f"{S}/control", {"subtype": "get_settings", "fields": {"a": 1}}),
    "questions": ("GET", "/api/questions?session_id=session-1&state=any", None),
    "question": ("GET", "/api/questions/q-3", None),
    "file_change": ("GET", "/api/questions/q-3/change", None),
    "answer": ("POST", "/api/questions/q-3/answer?by=me", OWN_RULE),
    "ask": (
        "POST",
        "/api/asks",
        {
            "tool_name": "Bash",
            "tool_use_id": "u",
            "input": {},
            "cwd": "/",
            "session_id": "s",
            "wait_s": 0,
        },
    ),
    "withdraw": ("POST", "/api/questions/q-4/withdraw", {"because": "it has gone"}),
    "policy": ("GET", "/api/policy", None),
    "policy_dry_run": ("POST", "/api/policy/dry-run", {"text": "x = 1"}),
    "save_policy": ("PUT", "/api/policy", {"text": "x = 1"}),
    "history": ("GET", "/api/history?limit=1", None),
    "cost": ("GET", "/api/cost?by=day&session_id=session-1&since=5", None),
    "timeline": ("GET", f"{S}/timeline", None),
    "activity": ("GET", "/api/activity?since=5", None),
    "dial_in": ("POST", "/api/dial-ins", {"cwd": "/", "mode": "plan", "prompt": "go"}),
    "dial_ins": ("GET", "/api/dial-ins", None),
    "runners": ("GET", "/api/runners", None),
    "add_runner": ("POST", "/api/runners", {"name": "shed"}),
    "drain_runner": ("POST", "/api/runners/attic/drain", {"draining": False}),
    "revoke_runner": ("DELETE", "/api/runners/attic", None),
    "settings": ("GET", "/api/settings", None),
    "health": ("GET", "/healthz", None),
    "read": ("GET", "/api/events?after=0&limit=2&session_id=session-1", None),
}


@pytest.mark.parametrize("name", [each.name for each in OPERATIONS if each.name != "cancel"])
async def test_each_verb_has_a_path(http: httpx.AsyncClient, name: str) -> None:
    method, path, body = VERBS[name]
    answer = await http.request(method, path, json=body)
    status = next(each.status for each in OPERATIONS if each.name == name)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"


async def test_a_queued_message_is_taken_back_once(http: httpx.AsyncClient) -> None:
    said = (await http.post(f"{S}/messages", json={"content": "more"})).json()
    path = f"{S}/messages/{said['prompt_id']}"
    assert (await http.delete(path)).json() == {"prompt_id": said["prompt_id"], "cancelled": True}
    again = await http.delete(path)
    assert (again.status_code, again.json()["code"]) == (404, "unknown-prompt")


async def test_parameters_reach_the_engine(http: httpx.AsyncClient) -> None:
    status = (await http.get(f"{S}?output_lines=2")).json()
    assert status["output"] == ["line", "line"]
    status = (await http.get(f"{S}?output_lines=2&after=7")).json()
    assert status["output"] == ["after 7"]
    cost = (await http.get("/api/cost?by=day&since=5")).json()
    assert (cost["by"], cost["lines"][0]["tokens"]["input"]) == ("day", 5)
    answered = (await http.post("/api/questions/q-3/answer?by=me", json={"kind": "skip"})).json()
    assert answered["question"]["answered_by"] == "me"
    page = (await http.get("/api/events?after=1&limit=1")).json()
    assert [each["seq"] for each in page["events"]] == [2]


async def test_all_sessions_are_stopped_at_once(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    other = (await engine.start(Start(prompt="hello", cwd="/"))).session_id
    for sessions in (["session-1", other], []):
        assert (await http.post("/api/sessions/stop")).json() == {"sessions": sessions}
    assert not any(each.live for each in engine.sessions.values())


async def test_a_runner_is_let_in_drained_and_sent_away(http: httpx.AsyncClient) -> None:
    added = await http.post("/api/runners", json={"name": "shed"})
    assert added.json() == {"name": "shed", "token": f"{SECRET}-shed"}
    assert [each["name"] for each in (await http.get("/api/runners")).json()] == ["attic", "shed"]
    path = "/api/runners/shed"
    assert (await http.post(f"{path}/drain")).json()["state"] == "draining"
    for body, state in [({}, "draining"), ({"draining": False}, "connected")]:
        assert (await http.post(f"{path}/drain", json=body)).json()["state"] == state
    assert (await http.delete(path)).json()["state"] == "connected"
    again = await http.delete(path)
    assert (again.status_code, again.json()["code"]) == (404, "unknown-runner")
    assert again.json()["advice"] == "there are none yet"
    assert SECRET not in (await http.get("/api/runners")).text


async def test_a_name_that_no_runner_may_have_is_the_engines_to_refuse(
    http: httpx.AsyncClient,
) -> None:
    for name in ("", "a b", "attic"):
        answer = await http.post("/api/runners", json={"name": name})
        assert (answer.status_code, answer.json()["code"]) == (422, "usage")


async def test_the_body_of_an_event_is_passed_on_byte_for_byte(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    body = b'{ "b" : 1.50 , "a":"\\u00e9", "a":null}'
    engine.append("session-1", body=body)
    page = await http.get("/api/events?after=2")
    assert body in page.content


async def test_a_key_may_come_as_a_header(http: httpx.AsyncClient) -> None:
    body = {"prompt": "hi", "cwd": "/"}
    key = {"idempotency-key": "k"}
    first = (await http.post("/api/sessions", json=body, headers=key)).json()
    second = (await http.post("/api/sessions", json={**body, "key": "k"}, headers=key)).json()
    assert second == {**first, "repeated": True}
    other = await http.post("/api/sessions", json={**body, "key": "j"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "two-keys")
    for wrong in ("", "k" * 257):
        long = await http.post("/api/sessions", json=body, headers={"idempotency-key": wrong})
        assert (long.status_code, long.json()["code"]) == (422, "invalid")
    reused = await http.post("/api/sessions", json={**body, "cwd": "/x"}, headers=key)
    assert (reused.status_code, reused.json()["code"]) == (409, "key-reused")


async def test_a_late_answer_is_shown_what_was_answered(http: httpx.AsyncClient) -> None:
    path = "/api/questions/q-3/answer"
    assert (await http.post(path, json={"kind": "allow"})).status_code == 200
    assert (await http.post(path, json={"kind": "allow"})).status_code == 200
    late = await http.post(path, json={"kind": "deny"})
    assert late.status_code == 409
    assert late.json()["question"]["answer"]["kind"] == "allow"


@pytest.mark.parametrize(
    ("method", "path", "body", "member"),
    [
        ("POST", "/api/sessions", {"prompt": "hi"}, "cwd"),
        ("POST", "/api/sessions", {"prompt": 1, "cwd": "/"}, "prompt"),
        ("POST", "/api/sessions", {"prompt": "", "cwd": "/", "wat": 1}, "wat"),
        (
            "POST",
            "/api/sessions",
            {"prompt": "", "cwd": "/", "options": {"mode": "x"}},
            "options.mode",
        ),
        (
            "POST",
            "/api/sessions",
            {"prompt": "", "cwd": "/", "options": {"via": "pigeon"}},
            "options.via",
        ),
        ("POST", "/api/runners", {}, "name"),
        ("POST", "/api/runners", {"name": "x" * 257}, "name"),
        ("POST", "/api/runners/attic/drain", {"draining": "no"}, "draining"),
        ("PUT", f"{S}/thinking", {"tokens": "5"}, "tokens"),
        ("PUT", f"{S}/thinking", {"tokens": -5}, "tokens"),
        ("POST", "/api/questions/q-3/answer", {"kind": "maybe"}, "kind"),
        ("POST", "/api/questions/q-3/answer", OWN_RULE | {"updates": [{}]}, "updates[0].type"),
        (
            "POST",
            "/api/questions/q-3/answer",
            OWN_RULE | {"updates": [OWN_RULE["updates"][0] | {"behaviour": "deny"}]},
            "updates[0].behaviour",
        ),
        ("GET", "/api/sessions?limit=no", None, "limit"),
        ("GET", "/api/sessions?limit=0", None, "limit"),
        ("GET", "/api/sessions?limit=1&limit=2", None, "limit"),
        ("GET", "/api/sessions?wat=1", None, "wat"),
        ("GET", "/api/policy?wat=1", None, "wat"),
        ("GET", "/api/events?after=99999999999999999999", None, "after"),
    ],
)
async def test_what_cannot_be_taken_is_refused_by_name(
    http: httpx.AsyncClient, method: str, path: str, body: Any, member: str
) -> None:
    answer = await http.request(method, path, json=body)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert [each["member"] for each in problem["errors"]] == [member]
    assert problem["code"] == "invalid"
    assert problem["type"] == "urn:pilothouse:invalid"
    assert member in problem["detail"]


@pytest.mark.parametrize(
    "content", [b"{", b"", b"\xff", b'"\xff"', b"[" * 60_000, b'{"a":"\\ud800"}']
)
async def test_what_is_no_json_is_refused(http: httpx.AsyncClient, content: bytes) -> None:
    answer = await http.post("/api/sessions", content=content)
    assert answer.status_code in {400, 422}
    assert answer.json()["code"] in {"malformed", "invalid"}


async def test_only_json_is_taken(http: httpx.AsyncClient) -> None:
    answer = await http.post("/api/sessions", data={"prompt": "hi", "cwd": "/"})
    assert (answer.status_code, answer.json()["code"]) == (415, "not-json")


async def test_compact_needs_no_body(http: httpx.AsyncClient) -> None:
    assert (await http.post(f"{S}/compact")).status_code == 202


@pytest.mark.parametrize(
    "path", ["/api/sessions", "/healthz", "/metrics", "/openapi.json", "/nope"]
)
@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 401, "no-token"),
        ({"authorization": "Bearer"}, 401, "wrong-token"),
        ({"authorization": "Bearer nope"}, 401, "wrong-token"),
        ({"authorization": f"Basic {BEARER['Authorization'][7:]}"}, 401, "no-token"),
        ({**BEARER, "host": "evil.example"}, 421, "foreign-host"),
        ({**BEARER, "host": "evil.example:80"}, 421, "foreign-host"),
        ({**BEARER, "host": "localhost.evil.example"}, 421, "foreign-host"),
        ({**BEARER, "host": ""}, 421, "foreign-host"),
        ({**BEARER, "host": "[::2]"}, 421, "foreign-host"),
        ({**BEARER, "origin": "http://evil.example"}, 403, "foreign-origin"),
        ({**BEARER, "origin": "http://localhost:81"}, 403, "foreign-origin"),
        ({**BEARER, "origin": "https://localhost"}, 403, "foreign-origin"),
        ({**BEARER, "origin": "null"}, 403, "foreign-origin"),
        ({**BEARER, "origin": ""}, 403, "foreign-origin"),
        ({**BEARER, "origin": "http://localhost:99999"}, 403, "foreign-origin"),
    ],
)
async def test_a_stranger_is_refused_everywhere(
    engine: FakeEngine, path: str, headers: dict[str, str], status: int, code: str
) -> None:
    async with calling(make_app(engine), headers=None) as http:
        answer = await http.get(path, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["advice"]
    assert ("www-authenticate" in answer.headers) == (status == 401)


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "localhost:1234"},
        {"host": "LOCALHOST"},
        {"host": "[::1]:80"},
        {"host": "[::1]"},
        {"host": "localhost:8080", "origin": "http://localhost:8080"},
        {"host": "localhost", "origin": "http://localhost:80"},
        {"origin": "https://console.example"},
        {"authorization": BEARER["Authorization"].replace("Bearer", "bEARER")},
    ],
)
async def test_who_belongs_here_is_let_in(engine: FakeEngine, headers: dict[str, str]) -> None:
    app = make_app(engine, origins=["https://console.example/"])
    async with calling(app) as http:
        assert (await http.get("/healthz", headers=headers)).status_code == 200


async def test_no_host_header_is_refused(engine: FakeEngine) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope: Any = {
        "type": "http",
        "scheme": "http",
        "method": "GET",
        "path": "/healthz",
        "query_string": b"",
        "headers": [(b"authorization", BEARER["Authorization"].encode())],
        "client": None,
    }
    await make_app(engine)(scope, lambda: None, send)  # pyright: ignore[reportArgumentType]
    assert sent[0]["status"] == 421


async def test_a_caller_without_an_address_is_served(engine: FakeEngine) -> None:
    transport = httpx.ASGITransport(make_app(engine), client=None)  # pyright: ignore[reportArgumentType]
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        assert (await http.get("/api/sessions", headers=BEARER)).status_code == 200


def test_an_app_without_a_token_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="token"):
        create_app(FakeEngine(), token="", hosts=["localhost"], body_limit=1, version="1")


async def test_a_body_of_too_many_parts_is_refused(engine: FakeEngine) -> None:
    prompt = b"[" + b",".join([b"{}"] * 300_000) + b"]"
    async with calling(make_app(engine, body_limit=2 * len(prompt))) as http:
        answer = await http.post(
            "/api/sessions",
            content=b'{"cwd":"/work","prompt":' + prompt + b"}",
            headers={"Content-Type": "application/json"},
        )
    assert answer.status_code == 422
    assert "more than 200000 arrays and objects" in answer.json()["detail"]


async def test_a_body_over_the_limit_is_refused_announced_or_not(http: httpx.AsyncClient) -> None:
    text = b'{"prompt":"' + b"x" * LIMIT + b'","cwd":"/"}'

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(text), 1000):
            yield text[start : start + 1000]

    for path in ("/api/sessions", f"{S}/interrupt"):
        for content in (text, pieces()):
            answer = await http.post(path, content=content)
            assert (answer.status_code, answer.json()["code"]) == (413, "too-large")


TRICKS = [
    "%2e%2e", "..", "%2e%2e%2f%2e%2e%2fetc", "a%2Fb", "a%00b", "%00", "%0a", "%20", "é", "%ff",
    "%F0%9F%98%80", "a" * 129, "a" * 5000, "-rf", "~", "$HOME", "a%5Cb", "%25", "*", "'--",
]  # fmt: skip


@pytest.mark.parametrize("trick", TRICKS)
async def test_tricks_in_ids_find_nothing(
    http: httpx.AsyncClient, engine: FakeEngine, trick: str
) -> None:
    for method, path in [
        ("GET", f"/api/sessions/{trick}"),
        ("GET", f"/api/sessions/{trick}/context"),
        ("DELETE", f"{S}/messages/{trick}"),
        ("GET", f"/api/questions/{trick}"),
        ("POST", f"/api/sessions/{trick}/stop"),
        ("POST", f"/api/runners/{trick}/drain"),
        ("DELETE", f"/api/runners/{trick}"),
        ("GET", f"/api/events/stream?session_id={trick}"),
    ]:
        answer = await http.request(method, path)
        # A path that the client itself makes shorter may name something that has other methods.
        assert answer.status_code in {404, 405, 422}, (path, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
    assert (engine.sessions["session-1"].live, [*engine.machines]) == (True, ["attic"])


@pytest.mark.parametrize(
    "path",
    [
        "/api/sessions//stop",
        "/api/sessions/%2F/stop",
        "/api/sessions/%2Fstop",
        "//api/sessions/stop",
    ],
)
async def test_a_path_without_its_id_stops_no_session(
    http: httpx.AsyncClient, engine: FakeEngine, path: str
) -> None:
    answer = await http.post(f"http://localhost{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, "no-such-path")
    assert engine.sessions["session-1"].live


async def asked(app: Application, method: str, raw_path: str) -> tuple[int, bytes]:
    """The status and the body for a path as it stands: a client would make it shorter first."""
    answers: list[Any] = []
    scope: Any = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": unquote(raw_path),
        "raw_path": raw_path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost"), (b"authorization", BEARER["Authorization"].encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    bodies = iter([{"type": "http.request", "body": b"{}"}])

    async def receive() -> Any:
        return next(bodies, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        answers.append(message)

    await app(scope, receive, send)
    return answers[0]["status"], b"".join(each.get("body", b"") for each in answers[1:])


def odd_paths(path: str) -> list[str]:
    """The same path for whoever is careless with slashes, dots and what comes after them."""
    head, _, tail = path.rpartition("/")
    odd = [f"{path}/", f"{path}//", f"/{path}", f"{head}//{tail}", f"{head}%2F{tail}", f"{path}%2f"]
    odd += [f"{head}/./{tail}", f"{head}/x/../{tail}", f"{path}/.", f"{path}/x/..", f"{path}/%2e"]
    odd += [f"{head}/%2E%2e/{tail}", f"{path}%0a", f"{path}%0A/"]
    # The name of a server may go on like this.
    return odd if "plugin:files" in path else [*odd, f"{head};a=1/{tail}", f"{path};a=1"]


PATHS = {
    operation.name: operation.path.format(
        session_id="session-1", question_id="q-3", prompt_id="p-1", server="plugin:files", name="x"
    )
    for operation in OPERATIONS
}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_no_other_path_is_taken_for_this_one(
    engine: FakeEngine, operation: Operation
) -> None:
    app, path = make_app(engine), PATHS[operation.name]
    assert b"no-such-" not in (await asked(app, operation.method, path))[1]
    for odd in odd_paths(path):
        status, body = await asked(app, operation.method, odd)
        assert (odd, status, body[:30]) in [
            (odd, 404, b'{"type":"urn:pilothouse:no-suc'),
            (odd, 404, b'{"type":"urn:pilothouse:unknow'),
            (odd, 405, b'{"type":"urn:pilothouse:no-suc'),
        ]


@pytest.mark.parametrize("odd", odd_paths("/api/sessions/stop"))
async def test_only_its_own_path_stops_every_session(engine: FakeEngine, odd: str) -> None:
    status, _ = await asked(make_app(engine), "POST", odd)
    assert (status in {404, 405}, engine.sessions["session-1"].live) == (True, True)


@pytest.mark.parametrize(
    "path", ["/healthz/", "/metrics/", "/openapi.json/", "/api/events/stream/"]
)
async def test_a_path_of_no_endpoint_is_held_to_the_same(engine: FakeEngine, path: str) -> None:
    status, body = await asked(make_app(engine), "GET", path)
    assert (status, b"no-such-path" in body) == (404, True)


@pytest.mark.parametrize("name", ["a%00b", "%0a", "a%2Fb", "%2F", "x" * 257])
async def test_tricks_in_names_of_servers_are_refused(http: httpx.AsyncClient, name: str) -> None:
    answer = await http.post(f"{S}/mcp/{name}/reconnect")
    assert answer.status_code in {404, 405, 422}


@pytest.mark.parametrize("cwd", ["%00", "/a%00b", "/a%00%0a", "/" + "a" * 5000])
@pytest.mark.parametrize("path", ["/api/sessions", "/api/history"])
async def test_a_directory_that_cannot_be_is_refused(
    http: httpx.AsyncClient, path: str, cwd: str
) -> None:
    answer = await http.get(f"{path}?cwd={cwd}")
    assert (answer.status_code, answer.json()["errors"][0]["member"]) == (422, "cwd")


async def test_another_method_is_refused_with_those_there_are(http: httpx.AsyncClient) -> None:
    for path in ("/api/sessions", "/api/events/stream", "/api/ws"):
        answer = await http.delete(path)
        assert (answer.status_code, answer.json()["code"]) == (405, "no-such-method")
        assert "GET" in answer.headers["allow"]


async def test_the_methods_of_a_path_can_be_asked_for(http: httpx.AsyncClient) -> None:
    answer = await http.options("/api/sessions")
    assert answer.status_code == 204
    assert set(answer.headers["allow"].split(", ")) == {"GET", "OPTIONS", "POST"}


async def test_no_path_takes_head(http: httpx.AsyncClient) -> None:
    for path in ("/healthz", "/api/sessions", "/api/events/stream"):
        answer = await http.head(path)
        assert (answer.status_code, "GET" in answer.headers["allow"]) == (405, True)


def test_every_error_of_ours_has_a_status_and_a_code() -> None:
    kinds = [getattr(errors, name) for name in errors.__all__]
    assert set(CODES.values()) == set(kinds)
    assert {status_of(kind) for kind in kinds} == set(STATUSES.values())


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.SessionTaken("taken", advice="x"), 409, "session-taken"),
        (errors.TooManySessions("many", advice="x"), 429, "too-many-sessions"),
        (errors.CapReached("spent", advice="x"), 402, "cap-reached"),
        (errors.InvalidOption("no"), 422, "invalid-option"),
        (errors.SessionEnded("gone", exit_code=3), 424, "session-ended"),
        (errors.ControlError("x", "y"), 409, "control-error"),
        (errors.ControlTimeout("x", 3), 504, "control-timeout"),
        (errors.CLINotFound("none"), 503, "cli-not-found"),
        (errors.JournalError("full"), 503, "journal-error"),
        (errors.BypassNotAllowed("set_mode"), 403, "bypass-not-allowed"),
        (errors.UnknownRunner("none", advice="x"), 404, "unknown-runner"),
    ],
)
async def test_an_error_of_the_engine_is_told_with_its_code(
    http: httpx.AsyncClient, engine: FakeEngine, error: Exception, status: int, code: str
) -> None:
    engine.raises = error
    answer = await http.get(S)
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code)
    assert problem["type"] == f"urn:pilothouse:{code}"


async def test_an_error_nobody_foresaw_tells_nothing_and_is_logged(
    http: httpx.AsyncClient, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.raises = ZeroDivisionError("the secret is 42")
    with caplog.at_level(logging.ERROR):
        answer = await http.get(S)
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "42" not in answer.text
    assert any(each.exc_info and each.exc_info[0] is ZeroDivisionError for each in caplog.records)


async def test_health_says_when_it_is_ill(http: httpx.AsyncClient, engine: FakeEngine) -> None:
    assert (await http.get("/healthz")).json()["ok"] is True
    engine.problem = "the disk is full"
    answer = await http.get("/healthz")
    assert (answer.status_code, answer.json()["problem"]) == (503, "the disk is full")


async def test_metrics_do_not_list_the_sessions_of_the_machine(
    http: httpx.AsyncClient, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[Any] = []
    monkeypatch.setattr(engine, "list", lambda **given: listed.append(given))
    assert (await http.get("/metrics")).status_code == 200
    assert listed == []


async def test_metrics_count_what_there_is(http: httpx.AsyncClient) -> None:
    await http.get(S)
    await http.get("/api/sessions/nope")
    await http.get("/made/up")
    answer = await http.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.text.splitlines()
    path = "/api/sessions/{session_id}"
    for line in (
        "pilothouse_up 1",
        'pilothouse_info{version="1.2.3"} 1',
        "pilothouse_sessions_live 1",
        'pilothouse_sessions{state="active"} 1',
        'pilothouse_sessions{state="done"} 0',
        "pilothouse_questions_open 2",
        "pilothouse_events_total 3",
        "pilothouse_journal_cursor 3",
        "pilothouse_cost_today_usd 0.25",
        "pilothouse_watchers 0",
        f'pilothouse_http_requests_total{{method="GET",route="{path}",status="200"}} 1',
        f'pilothouse_http_requests_total{{method="GET",route="{path}",status="404"}} 1',
        'pilothouse_http_requests_total{method="GET",route="unmatched",status="404"} 1',
    ):
        assert line in lines
