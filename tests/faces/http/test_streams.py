"""Events as they happen: server-sent events and the WebSocket, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import httpx
import pytest
from msgspec import Raw
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from pilothouse.api.answers import Allow
from pilothouse.api.events import Batch, Event, Gap
from pilothouse.api.requests import Start
from pilothouse.errors import JournalError, ServerError
from pilothouse.faces.http import end_streams, sockets, streams
from pilothouse.faces.http.frames import sse_chunk
from tests.support.http.fake_engine import FakeEngine
from tests.support.http.serving import BEARER, LIMIT, TOKEN, calling, make_app, served

DEADLINE = 20


@pytest.fixture
async def engine() -> FakeEngine:
    engine = FakeEngine()
    await engine.start(Start(prompt="hello", cwd="/"))
    await engine.start(Start(prompt="hello", cwd="/"))
    return engine


@pytest.fixture
async def address(engine: FakeEngine) -> AsyncGenerator[str]:
    async with served(make_app(engine, origins=["https://console.example"])) as address:
        yield address


async def messages(response: httpx.Response) -> AsyncIterator[dict[str, str]]:
    """Server-sent events as a browser reads them; a comment is under the name ``."""
    current: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            current[name] = f"{current[name]}\n{value}" if name in current else value
        else:
            yield current
            current = {}


async def take(stream: AsyncIterator[dict[str, str]], count: int) -> list[dict[str, str]]:
    async with asyncio.timeout(DEADLINE):
        return [await anext(stream) for _ in range(count)]


def seqs(found: list[dict[str, str]]) -> list[int]:
    return [int(each["id"]) for each in found]


async def test_a_stream_begins_after_its_cursor_and_goes_on(
    address: str, engine: FakeEngine
) -> None:
    async with (
        httpx.AsyncClient(base_url=address, headers=BEARER) as http,
        http.stream("GET", "/api/events/stream?after=1") as response,
    ):
        assert response.headers["content-type"].startswith("text/event-stream")
        stream = messages(response)
        assert "" in (await take(stream, 1))[0]
        (second,) = await take(stream, 1)
        assert second["event"] == "events"
        assert json.loads(second["data"]) == {
            "seq": 2,
            "session_id": engine.journal[1].session_id,
            "kind": "session.started",
            "at": engine.journal[1].at,
            "body": {"cwd": "/"},
        }
        engine.append("session-1")
        assert seqs(await take(stream, 1)) == [3]


async def test_a_stream_goes_on_from_the_last_event_that_was_seen(
    address: str, engine: FakeEngine
) -> None:
    for _ in range(10):
        engine.append("session-1")
    last = {"last-event-id": "9"}
    async with (
        httpx.AsyncClient(base_url=address, headers=BEARER) as http,
        http.stream("GET", "/api/events/stream?after=1", headers=last) as response,
    ):
        assert seqs((await take(messages(response), 4))[1:]) == [10, 11, 12]


async def test_changes_of_a_conversation_are_server_sent(address: str, engine: FakeEngine) -> None:
    path = "/api/sessions/session-1/conversation/stream"
    async with httpx.AsyncClient(base_url=address, headers=BEARER) as http:
        async with http.stream("GET", f"{path}?after=0") as response:
            begin, told = await take(messages(response), 2)
            assert begin[""] == "from 0"
            assert (told["event"], told["id"]) == ("patches", "2")
            changes = json.loads(told["data"])
            assert changes == {
                "cursor": 2,
                "patches": [{"id": "t", "append": " 1"}],
                "unfinished": ["t"],
            }
        last = {"last-event-id": told["id"]}
        engine.append("session-1")
        async with http.stream("GET", path, headers=last) as response:
            _, told = await take(messages(response), 2)
            assert json.loads(told["data"])["patches"] == [{"id": "t", "append": " 3"}]


async def test_a_socket_has_changes_of_a_conversation_and_takes_requests(address: str) -> None:
    place = address.replace("http", "ws")
    async with connect(
        f"{place}/api/sessions/session-1/conversation/ws?after=0", additional_headers=BEARER
    ) as socket:
        begin = json.loads(await socket.recv())
        assert (begin["type"], begin["cursor"], begin["patches"]) == ("patches", 0, [])
        told = json.loads(await socket.recv())
        assert told["patches"] == [{"id": "t", "append": " 1"}]
        await socket.send(json.dumps({"id": 1, "do": "conversation", "session_id": "session-1"}))
        done = json.loads(await socket.recv())
        assert (done["type"], done["id"]) == ("done", 1)


async def test_rows_that_change_are_server_sent(address: str, engine: FakeEngine) -> None:
    async with httpx.AsyncClient(base_url=address, headers=BEARER) as http:
        cursor = (await http.get("/api/sessions")).json()["cursor"]
        engine.append("session-1")
        async with http.stream("GET", f"/api/sessions/stream?after={cursor}") as response:
            begin, told = await take(messages(response), 2)
            assert begin[""] == f"from {cursor}"
            assert (told["event"], told["id"]) == ("sessions", "3")
            changes = json.loads(told["data"])
            assert [each["session_id"] for each in changes["changed"]] == ["session-1"]
            assert (changes["cursor"], changes["removed"], changes["reset"]) == (3, [], False)
        question = engine.pose("session-1")
        async with http.stream(
            "GET", "/api/sessions/stream", headers={"last-event-id": told["id"]}
        ) as response:
            _, told = await take(messages(response), 2)
            assert [each["id"] for each in json.loads(told["data"])["questions"]] == [question.id]


async def test_a_socket_has_rows_that_change_and_takes_requests(
    address: str, engine: FakeEngine
) -> None:
    place = address.replace("http", "ws")
    async with connect(f"{place}/api/sessions/ws", additional_headers=BEARER) as socket:
        begin = json.loads(await socket.recv())
        assert (begin["type"], begin["cursor"], begin["changed"]) == ("sessions", 2, [])
        await socket.send(json.dumps({"id": 1, "do": "list"}))
        done = json.loads(await socket.recv())
        assert (done["type"], done["result"]["total"]) == ("done", 2)
        engine.append("session-1")
        told = json.loads(await socket.recv())
        assert (told["type"], told["cursor"]) == ("sessions", 3)
        assert [each["session_id"] for each in told["changed"]] == ["session-1"]


async def test_who_follows_the_list_with_a_foreign_cursor_is_told_to_list_again(
    address: str,
) -> None:
    place = address.replace("http", "ws")
    async with connect(f"{place}/api/sessions/ws?after=900", additional_headers=BEARER) as socket:
        await socket.recv()
        told = json.loads(await socket.recv())
        assert (told["reset"], told["cursor"], told["changed"]) == (True, 2, [])


@pytest.mark.parametrize("path", ["stream", "ws"])
async def test_a_conversation_of_nobody_is_refused(address: str, path: str) -> None:
    async with httpx.AsyncClient(base_url=address, headers=BEARER) as http:
        answer = await http.get(f"/api/sessions/nobody/conversation/{path}")
        assert answer.status_code == (404 if path == "stream" else 426)
        answer = await http.get(f"/api/sessions/session-1/conversation/{path}?since=3")
        assert answer.status_code == (422 if path == "stream" else 426)


async def test_a_stream_has_one_session_when_asked(address: str, engine: FakeEngine) -> None:
    other = list(engine.sessions)[1]
    async with (
        httpx.AsyncClient(base_url=address, headers=BEARER) as http,
        http.stream("GET", f"/api/events/stream?after=0&session_id={other}") as response,
    ):
        stream = messages(response)
        assert seqs((await take(stream, 2))[1:]) == [2]
        engine.append("session-1")
        engine.append(other)
        assert seqs(await take(stream, 1)) == [4]


async def test_a_stream_without_a_cursor_begins_now(address: str, engine: FakeEngine) -> None:
    async with (
        httpx.AsyncClient(base_url=address, headers=BEARER) as http,
        http.stream("GET", "/api/events/stream") as response,
    ):
        stream = messages(response)
        await take(stream, 1)
        engine.append("session-1")
        assert seqs(await take(stream, 1)) == [3]


async def test_a_silent_stream_has_a_heart_that_beats(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.01)
    async with (
        httpx.AsyncClient(base_url=address, headers=BEARER) as http,
        http.stream("GET", "/api/events/stream") as response,
    ):
        assert await take(messages(response), 3) == [{"": "from 2"}, {"": ""}, {"": ""}]


async def test_a_stream_that_fails_says_why_and_ends_properly(
    address: str, engine: FakeEngine
) -> None:
    async with (
        httpx.AsyncClient(base_url=address, headers=BEARER) as http,
        http.stream("GET", "/api/events/stream") as response,
    ):
        stream = messages(response)
        await take(stream, 1)
        await engine.watched()
        engine.fail(JournalError("the disk is full"))
        (last,) = await take(stream, 1)
        problem = json.loads(last["data"])
        assert (last["event"], "id" in last) == ("error", False)
        assert (problem["code"], problem["detail"]) == ("journal-error", "the disk is full")
        with pytest.raises(StopAsyncIteration):
            await take(stream, 1)


@pytest.mark.parametrize("headers", [{}, {"last-event-id": "900"}])
async def test_a_stream_from_beyond_the_end_is_told_and_goes_on_from_there(
    address: str, engine: FakeEngine, headers: dict[str, str]
) -> None:
    async with (
        httpx.AsyncClient(base_url=address, headers=BEARER) as http,
        http.stream("GET", "/api/events/stream?after=900", headers=headers) as response,
    ):
        stream = messages(response)
        _, told = await take(stream, 2)
        assert (told["event"], told["id"]) == ("gap", "2")
        gap = {"first": 3, "last": 900, "count": 0, "reason": "reset"}
        assert json.loads(told["data"]) == gap
        engine.append("session-1")
        assert seqs(await take(stream, 1)) == [3]


async def test_streams_can_be_ended(engine: FakeEngine) -> None:
    app = make_app(engine)
    async with (
        served(app) as address,
        httpx.AsyncClient(base_url=address, headers=BEARER) as http,
        http.stream("GET", "/api/events/stream") as response,
    ):
        stream = messages(response)
        await take(stream, 1)
        end_streams(app)
        with pytest.raises(StopAsyncIteration):
            await take(stream, 1)


async def test_a_stream_may_have_a_longest_time(engine: FakeEngine) -> None:
    async with calling(make_app(engine, stream_seconds=0)) as http:
        answer = await http.get("/api/events/stream")
    assert (answer.status_code, answer.text) == (200, ": from 2\n\n")


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        ("session_id=nope", {}, 404),
        ("after=-1", {}, 422),
        ("after=x", {}, 422),
        ("", {"last-event-id": "x"}, 422),
        ("", {"last-event-id": "9" * 30}, 422),
        ("wat=1", {}, 422),
    ],
)
async def test_a_stream_that_cannot_be_is_refused(
    engine: FakeEngine, query: str, headers: dict[str, str], status: int
) -> None:
    async with calling(make_app(engine)) as http:
        answer = await http.get(f"/api/events/stream?{query}", headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_gap_is_told_in_its_place() -> None:
    events = [Event(seq, "s", "cli", 1, Raw(b"{}")) for seq in (1, 5, 9)]
    gaps = [
        Gap(first=6, last=8, count=3, reason="retention"),
        Gap(first=2, last=4, count=2, reason="partials"),
        Gap(first=10, last=12, count=3, reason="partials"),
    ]
    text = sse_chunk(Batch(events=events, cursor=12, gaps=gaps)).decode()
    ids = [line for line in text.splitlines() if line.startswith("id")]
    kinds = [line[7:] for line in text.splitlines() if line.startswith("event")]
    assert ids == [f"id: {seq}" for seq in (1, 4, 5, 8, 9, 12)]
    assert kinds == ["events", "gap", "events", "gap", "events", "gap"]


def test_a_line_end_in_a_body_does_not_end_its_event() -> None:
    body = b'{\r\n"a":\r1}'
    text = sse_chunk(Batch(events=[Event(1, "s", "cli", 1, Raw(body))], cursor=1)).decode()
    data = "\n".join(line[6:] for line in text.splitlines() if line.startswith("data: "))
    assert json.loads(data)["body"] == {"a": 1}
    assert text.count("\n\n") == 1


async def test_a_slow_reader_makes_only_its_own_stream_wait(engine: FakeEngine) -> None:
    """The journal is not read on while a piece waits to be taken."""
    for _ in range(5000):
        engine.append("session-1")
    stuck = asyncio.Event()
    gone = asyncio.Event()
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)
        if b"event: events" in message.get("body", b""):
            stuck.set()
            await gone.wait()

    async def receive() -> Any:
        await gone.wait()
        return {"type": "http.disconnect"}

    scope = a_scope("http", "/api/events/stream", b"after=0")
    serving = asyncio.create_task(make_app(engine)(scope, receive, send))
    await asyncio.wait_for(stuck.wait(), DEADLINE)
    engine.append("session-1")
    for _ in range(100):
        await asyncio.sleep(0)
    assert engine.reads == 1
    gone.set()
    await asyncio.wait_for(serving, DEADLINE)


def a_scope(kind: str, path: str, query: bytes) -> Any:
    return {
        "type": kind,
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http" if kind == "http" else "ws",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query,
        "headers": [(b"host", b"localhost"), (b"authorization", BEARER["Authorization"].encode())],
        "client": None,
        "server": None,
        "extensions": {},
    }


# The WebSocket


def socket_to(address: str, query: str = "", **more: Any) -> connect:
    given: dict[str, Any] = {"additional_headers": BEARER, "proxy": None, **more}
    return connect(f"{address.replace('http', 'ws', 1)}/api/ws?{query}", **given)


async def hear(socket: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(DEADLINE):
        return json.loads(await socket.recv())


async def hear_of(socket: ClientConnection, kind: str) -> dict[str, Any]:
    while (frame := await hear(socket))["type"] != kind:
        pass
    return frame


async def do(socket: ClientConnection, **members: Any) -> dict[str, Any]:
    await socket.send(json.dumps({"id": 7, **members}))
    while (frame := await hear(socket))["type"] == "events":
        pass
    assert frame["id"] == 7
    return frame


async def test_a_socket_tells_where_it_begins_and_what_happens(
    address: str, engine: FakeEngine
) -> None:
    async with socket_to(address) as socket:
        assert await hear(socket) == {"type": "events", "events": [], "cursor": 2, "gaps": []}
        engine.append("session-1", body=b'{"a":1.50}')
        async with asyncio.timeout(DEADLINE):
            text = await socket.recv(decode=False)
        assert b'"body":{"a":1.50}' in text
        frame = json.loads(text)
        assert ([each["seq"] for each in frame["events"]], frame["cursor"]) == ([3], 3)


async def test_a_socket_from_beyond_the_end_is_told(address: str) -> None:
    async with socket_to(address, "after=900") as socket:
        await hear(socket)
        frame = await hear(socket)
        assert ([gap["reason"] for gap in frame["gaps"]], frame["cursor"]) == (["reset"], 2)


async def test_a_socket_that_fails_says_why_and_closes(address: str, engine: FakeEngine) -> None:
    async with socket_to(address) as socket:
        await hear(socket)
        await engine.watched()
        engine.fail(JournalError("the disk is full"))
        failed = await hear(socket)
        assert (failed["type"], failed["problem"]["code"]) == ("failed", "journal-error")
        with pytest.raises(ConnectionClosed):
            await hear(socket)


async def test_events_that_come_together_go_together(address: str, engine: FakeEngine) -> None:
    async with socket_to(address, "after=0") as socket:
        await hear(socket)
        assert len((await hear(socket))["events"]) == 2
        for _ in range(50):
            engine.append("session-1")
        frames = [await hear(socket)]
        while frames[-1]["cursor"] < 52:
            frames.append(await hear(socket))
        assert sum(len(each["events"]) for each in frames) == 50
        assert len(frames) < 5


async def test_a_socket_takes_prompts_answers_and_interrupts(
    address: str, engine: FakeEngine
) -> None:
    question = engine.pose("session-1")
    async with socket_to(address) as socket:
        said = await do(socket, do="say", session_id="session-1", content="more")
        assert (said["type"], said["result"]["queued"]) == ("done", True)
        answer = {"question_id": question.id, "kind": "deny", "reason": "no", "by": "me"}
        answered = await do(socket, do="answer", **answer)
        assert answered["result"]["question"]["answer"]["reason"] == "no"
        assert answered["result"]["question"]["answered_by"] == "me"
        stopped = await do(socket, do="interrupt", session_id="session-1")
        assert stopped["result"]["state"] == "interrupted"
        events = await do(socket, do="read", after=0, limit=1)
        assert events["result"]["events"][0]["seq"] == 1
        started = await do(socket, do="start", prompt="x", cwd="/")
        assert started["result"]["state"] == "active"


ASK = {
    "tool_name": "Bash",
    "tool_use_id": "u",
    "input": {},
    "cwd": "/",
    "session_id": "a-guest",
    "wait_s": 60,
}


async def asked(engine: FakeEngine) -> str:
    """Wait until somebody asks; the id of the question."""
    async with asyncio.timeout(DEADLINE):
        async for batch in engine.watch(0):
            if batch.events[-1].kind == "question.opened":
                break
    [question] = engine.asked.values()
    return question.id


async def test_an_ask_waits_for_its_answer(address: str, engine: FakeEngine) -> None:
    async with httpx.AsyncClient(base_url=address, headers=BEARER, trust_env=False) as http:
        asking = asyncio.create_task(http.post("/api/asks", json=ASK, timeout=DEADLINE))
        question_id = await asked(engine)
        assert engine.waiting == 1
        await engine.answer(question_id, Allow())
        told = (await asking).json()
    assert (told["question"]["id"], told["response"]) == (question_id, {"behavior": "allow"})


async def test_whoever_asks_and_leaves_waits_no_more(address: str, engine: FakeEngine) -> None:
    async with httpx.AsyncClient(base_url=address, headers=BEARER, trust_env=False) as http:
        asking = asyncio.create_task(http.post("/api/asks", json=ASK, timeout=DEADLINE))
        question_id = await asked(engine)
        asking.cancel()
        await asyncio.wait([asking])
    await asyncio.wait_for(engine.left.wait(), DEADLINE)
    assert (engine.waiting, engine.asked[question_id].state) == (0, "open")


async def test_whoever_asks_through_a_socket_that_closes_waits_no_more(
    address: str, engine: FakeEngine
) -> None:
    async with socket_to(address) as socket:
        await socket.send(json.dumps({"id": 7, "do": "ask", **ASK}))
        await asked(engine)
    await asyncio.wait_for(engine.left.wait(), DEADLINE)
    assert engine.waiting == 0


async def test_asks_that_wait_do_not_keep_a_socket_from_anything_else(
    address: str, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "WAITING", 3)
    monkeypatch.setattr(sockets, "AT_ONCE", 1)
    async with socket_to(address) as socket:
        for n in range(3):
            ask = {**ASK, "tool_use_id": f"toolu_{n}"}
            await socket.send(json.dumps({"id": n, "do": "ask", **ask}))
        assert (await do(socket, do="policy"))["type"] == "done"
        assert engine.waiting == 3
        refused = (await do(socket, do="ask", **{**ASK, "tool_use_id": "toolu_3"}))["problem"]
        assert (refused["status"], refused["code"]) == (429, "too-many-waiting")
        assert engine.waiting == 3
        question_id = next(iter(engine.asked))
        await socket.send(
            json.dumps({"id": 9, "do": "answer", "question_id": question_id, "kind": "allow"})
        )
        told = [await hear_of(socket, "done") for _ in range(2)]
        assert {each["id"] for each in told} == {0, 9}
        # There is room again.
        await socket.send(json.dumps({"id": 5, "do": "ask", **ASK, "tool_use_id": "toolu_5"}))
        assert (await do(socket, do="policy"))["type"] == "done"
        assert engine.waiting == 3
    async with asyncio.timeout(DEADLINE):
        while engine.waiting:
            engine.left.clear()
            await engine.left.wait()


async def test_work_that_its_own_doer_gives_up_is_told_as_an_end() -> None:
    async def given_up() -> None:
        raise asyncio.CancelledError

    async def never() -> Exception:
        return await asyncio.Event().wait() and RuntimeError()

    with pytest.raises(ServerError, match="ask the next one again"):
        await streams.unless(given_up(), never())


async def test_a_server_that_ends_sends_whoever_waits_to_the_next(engine: FakeEngine) -> None:
    app = make_app(engine)
    async with served(app) as address:
        http = httpx.AsyncClient(base_url=address, headers=BEARER, trust_env=False)
        async with http:
            asking = asyncio.create_task(http.post("/api/asks", json=ASK, timeout=DEADLINE))
            await asked(engine)
            end_streams(app)
            answer = await asking
    assert (answer.status_code, answer.json()["code"]) == (503, "server-error")
    assert engine.waiting == 0


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ('{"id":7,"do":"say","session_id":"nope","content":""}', "unknown-session"),
        ('{"id":7,"do":"say","session_id":"../x","content":""}', "unknown-session"),
        ('{"id":7,"do":"say","content":""}', "unknown-session"),
        ('{"id":7,"do":"say","session_id":"session-1"}', "invalid"),
        ('{"id":7,"do":"say","session_id":1,"content":""}', "invalid"),
        ('{"id":7,"do":"interrupt","session_id":"session-1","wat":1}', "invalid"),
        ('{"id":7,"do":"fly"}', "invalid"),
        ('{"id":7,"do":"read","after":-1}', "invalid"),
        ('{"id":7,"do":"list","cwd":"/a\\u0000b"}', "invalid"),
        ('{"id":7,"do":"history","cwd":"\\u0000"}', "invalid"),
    ],
)
async def test_a_request_that_cannot_be_done_is_answered_and_the_socket_stays(
    address: str, frame: str, code: str
) -> None:
    async with socket_to(address) as socket:
        await socket.send(frame)
        failed = await hear_of(socket, "failed")
        assert (failed["id"], failed["problem"]["code"]) == (7, code)
        assert (await do(socket, do="policy"))["type"] == "done"


@pytest.mark.parametrize(
    "frame", ["", "nonsense", "[]", '{"do":"list"}', b"\xff", "9" * (LIMIT + 1)]
)
async def test_nonsense_is_answered_without_an_id(address: str, frame: str | bytes) -> None:
    async with socket_to(address) as socket:
        await socket.send(frame)
        failed = await hear_of(socket, "failed")
        assert failed["id"] is None
        assert failed["problem"]["status"] in {400, 413, 422}


async def test_requests_are_done_although_their_caller_left(
    engine: FakeEngine,
) -> None:
    held, leave = asyncio.Event(), asyncio.Event()
    say = engine.say

    async def slow(session_id: str, request: Any) -> Any:
        held.set()
        await leave.wait()
        return await say(session_id, request)

    engine.say = slow  # pyright: ignore[reportAttributeAccessIssue]
    async with served(make_app(engine)) as address:
        async with socket_to(address) as socket:
            await socket.send('{"id":1,"do":"say","session_id":"session-1","content":"x"}')
            await asyncio.wait_for(held.wait(), DEADLINE)
        leave.set()
    assert engine.journal[-1].kind == "prompt.said"


@pytest.mark.parametrize(
    ("query", "more", "status"),
    [
        ("", {"additional_headers": {}}, 401),
        ("", {"additional_headers": {"authorization": "Bearer no"}}, 401),
        ("", {"origin": "http://evil.example"}, 403),
        ("", {"origin": "null"}, 403),
        ("session_id=nope", {}, 404),
        ("after=x", {}, 422),
        (f"token={TOKEN}", {"additional_headers": {}}, 401),
    ],
)
async def test_a_socket_of_a_stranger_is_refused(
    address: str, query: str, more: dict[str, Any], status: int
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with socket_to(address, query, **more):
            pass
    answer = refused.value.response
    assert answer.status_code == status
    assert json.loads(bytes(answer.body or b""))["status"] == status


@pytest.mark.parametrize("path", ["/nope", "/healthz", "/api/sessions", "/api/events/stream"])
async def test_a_socket_to_another_path_is_told_that_nothing_is_there(
    address: str, path: str
) -> None:
    url = f"{address.replace('http', 'ws', 1)}{path}"
    with pytest.raises(InvalidStatus) as refused:
        async with connect(url, additional_headers=BEARER, proxy=None):
            pass
    answer = refused.value.response
    assert answer.status_code == 404
    assert json.loads(bytes(answer.body or b""))["code"] == "no-such-path"


async def test_a_foreign_host_gets_no_socket(address: str) -> None:
    port = int(address.rpartition(":")[2])
    with pytest.raises(InvalidStatus) as refused:
        async with connect(
            f"ws://evil.example:{port}/api/ws",
            host="127.0.0.1",
            additional_headers=BEARER,
            proxy=None,
        ):
            pass
    assert refused.value.response.status_code == 421


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["pilothouse", f"bearer.{TOKEN}"], "pilothouse"),
        ([f"bearer.{TOKEN}"], f"bearer.{TOKEN}"),
    ],
)
async def test_a_browser_shows_its_token_as_a_subprotocol(
    address: str, offered: list[str], chosen: str
) -> None:
    protocols = [Subprotocol(each) for each in offered]
    origin = {"origin": "https://console.example"}
    async with socket_to(
        address, subprotocols=protocols, additional_headers={}, **origin
    ) as socket:
        assert socket.subprotocol == chosen
        assert (await hear(socket))["type"] == "events"


async def test_a_socket_is_counted_while_it_is_open(address: str) -> None:
    async with (
        httpx.AsyncClient(base_url=address, headers=BEARER) as http,
        socket_to(address) as socket,
    ):
        await hear(socket)
        assert "pilothouse_watchers 1" in (await http.get("/metrics")).text


async def test_a_socket_closes_when_streams_are_ended(engine: FakeEngine) -> None:
    app = make_app(engine)
    async with served(app) as address, socket_to(address) as socket:
        await hear(socket)
        end_streams(app)
        with pytest.raises(ConnectionClosed):
            await hear(socket)


async def test_a_plain_request_to_the_socket_is_told_to_upgrade(engine: FakeEngine) -> None:
    async with calling(make_app(engine)) as http:
        answer = await http.get("/api/ws")
    assert (answer.status_code, answer.json()["code"]) == (426, "upgrade-required")
    assert answer.headers["upgrade"] == "websocket"
