"""Who is let in, who is sent away with which code, and what happens to posts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from pilothouse.doors import door
from pilothouse.doors.door import STATUS, WORDS, Doors
from pilothouse.doors.sockets import Scope, Socket
from pilothouse.doors.tokens import Keyring
from pilothouse.relay.refusals import HEADER, PERMANENT, Refusal
from tests.support.waiting import DEADLINE

KEYRING = Keyring(b"k" * 32)
TOKEN = KEYRING.issue("a-session", "a-run")


class Guest:
    """A carrier that notes who came."""

    def __init__(
        self, route: str = "relay", machine: str = "", session_id: str = "a-session"
    ) -> None:
        self.session_id = session_id
        self.run = "a-run"
        self.machine = machine
        self.route = route
        self.visits = 0
        self.bodies: list[bytes] = []

    def is_other(self, headers: Mapping[str, str]) -> bool:
        return False

    async def visited(self, socket: Socket) -> None:
        self.visits += 1
        await socket.close(1000)

    async def posted(self, body: bytes) -> int:
        self.bodies.append(body)
        return 202


class RunnersSeen:
    def __init__(self, *trusted: str) -> None:
        self.trusted = trusted
        self.visits = 0

    def knows(self, token: str) -> bool:
        return token == TOKEN

    async def visited(self, socket: Socket) -> None:
        self.visits += 1
        await socket.close(1000)

    def is_trusted(self, machine: str) -> bool:
        return machine in self.trusted


def headers(token: str | None) -> list[tuple[bytes, bytes]]:
    return [] if token is None else [(b"authorization", f"Bearer {token}".encode("latin-1"))]


class Answer(NamedTuple):
    """What a WebSocket was answered with: an HTTP status, or a close code after it was accepted."""

    status: int
    code: int | None = None
    words: str = ""


def turned_away(refusal: Refusal) -> Answer:
    """The answer to one that gets no WebSocket, and is told which refusal it is."""
    return Answer(STATUS[refusal], refusal)


def sent_away(code: int) -> Answer:
    """The answer to one that got a WebSocket, which was closed then."""
    return Answer(101, code)


FORBIDDEN = Answer(403)


def refused(refusal: Refusal) -> Answer:
    """The answer to a CLI that dials: a status that is final, and why."""
    return Answer(403, words=WORDS[refusal])


async def knock(
    doors: Doors, path: str, token: str | None = TOKEN, *, can_answer: bool = True
) -> Answer:
    """Open a WebSocket."""
    sent: list[Scope] = []

    async def receive() -> Scope:
        return {"type": "websocket.connect"}

    async def send(message: Scope) -> None:
        sent.append(message)

    scope: Scope = {
        "type": "websocket",
        "path": path,
        "raw_path": path.encode(),
        "headers": headers(token),
        "extensions": {"websocket.http.response": {}} if can_answer else {},
    }
    await doors(scope, receive, send)
    match [each["type"].removeprefix("websocket.") for each in sent]:
        case ["close"]:
            return FORBIDDEN
        case ["http.response.start", "http.response.body"]:
            told = dict(sent[0]["headers"]).get(HEADER.encode())
            words = sent[1]["body"].decode().strip()
            return Answer(sent[0]["status"], int(told) if told else None, words)
        case ["accept", "close"]:
            return sent_away(sent[1]["code"])
        case other:
            raise AssertionError(other)


async def post(
    doors: Doors,
    path: str,
    *parts: bytes,
    token: str | None = TOKEN,
    method: str = "POST",
    leaves: bool = False,
) -> int | None:
    """Post a body in parts; the status, or None if there was no answer."""
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": part, "more_body": True} for part in parts
    ]
    ending = {"type": "http.disconnect"} if leaves else {"type": "http.request", "body": b""}
    coming = iter([*messages, ending])
    sent: list[Scope] = []

    async def receive() -> Scope:
        return next(coming)

    async def send(message: Scope) -> None:
        sent.append(message)

    scope: Scope = {"type": "http", "method": method, "path": path, "headers": headers(token)}
    await doors(scope, receive, send)
    return sent[0]["status"] if sent else None


def opened(*carriers: Guest, runners: RunnersSeen | None = None) -> Doors:
    doors = Doors(KEYRING, runners=runners)
    for each in carriers:
        doors.expect(each)
    return doors


@pytest.mark.parametrize(
    ("route", "path"), [("relay", "/relay/a-session"), ("ws", "/ws/a-session")]
)
async def test_a_run_that_is_expected_comes_in_with_its_token(route: str, path: str) -> None:
    guest = Guest(route)
    assert await knock(opened(guest), path) == sent_away(1000)
    assert guest.visits == 1


@pytest.mark.parametrize(
    "token",
    [
        None,
        "",
        "nonsense",
        "a-run.0000",
        KEYRING.issue("another-session", "a-run"),
    ],
)
async def test_a_token_that_is_not_this_sessions_is_refused(token: str | None) -> None:
    guest = Guest()
    assert await knock(opened(guest), "/relay/a-session", token) == turned_away(
        Refusal.TOKEN_REFUSED
    )
    assert guest.visits == 0


async def test_a_token_of_another_server_at_this_address_may_come_again() -> None:
    guest = Guest()
    token = Keyring(b"j" * 32).issue("a-session", "a-run")
    answer = await knock(opened(guest), "/relay/a-session", token)
    assert (answer, guest.visits) == (turned_away(Refusal.OTHER_SERVER), 0)
    assert answer.code not in PERMANENT


async def test_a_session_has_no_use_for_its_token_at_another_ones_door() -> None:
    guest = Guest(session_id="b-session")
    assert await knock(opened(guest), "/relay/b-session") == turned_away(Refusal.TOKEN_REFUSED)


async def test_the_token_of_an_ended_run_is_refused_as_such() -> None:
    doors = opened(Guest())
    doors.forget("a-run")
    doors.forget("a-run")
    assert await knock(doors, "/relay/a-session") == sent_away(Refusal.SESSION_ENDED)


async def test_a_run_has_one_route() -> None:
    assert await knock(opened(Guest("ws")), "/relay/a-session") == sent_away(
        Refusal.SESSION_UNKNOWN
    )
    assert await knock(opened(Guest("relay")), "/ws/a-session") == refused(Refusal.SESSION_UNKNOWN)


async def test_a_cli_is_refused_by_a_status_which_it_takes_for_final_and_told_why() -> None:
    forged = await knock(opened(Guest("ws")), "/ws/a-session", "nonsense")
    assert forged == refused(Refusal.TOKEN_REFUSED)
    foreign = Keyring(b"j" * 32).issue("a-session", "a-run")
    assert await knock(opened(), "/ws/a-session", foreign) == refused(Refusal.OTHER_SERVER)
    assert await knock(opened(), "/ws/a-session") == refused(Refusal.SESSION_ENDED)


async def test_the_runs_of_a_machine_come_in_while_it_is_trusted() -> None:
    guest, runners = Guest(machine="far"), RunnersSeen("far")
    doors = opened(guest, runners=runners)
    assert await knock(doors, "/relay/a-session") == sent_away(1000)
    runners.trusted = ()
    assert await knock(doors, "/relay/a-session") == sent_away(Refusal.TOKEN_REFUSED)
    assert await knock(opened(guest), "/relay/a-session") == sent_away(Refusal.TOKEN_REFUSED)
    assert guest.visits == 1


async def test_this_machine_needs_no_trust() -> None:
    assert await knock(opened(Guest(), runners=RunnersSeen()), "/relay/a-session") == sent_away(
        1000
    )


async def test_runners_have_a_door_where_there_are_any() -> None:
    runners = RunnersSeen()
    assert await knock(opened(runners=runners), "/runner") == sent_away(1000)
    assert runners.visits == 1
    assert await knock(opened(), "/runner") == turned_away(Refusal.SESSION_UNKNOWN)


@pytest.mark.parametrize("token", [None, "", "nonsense"])
async def test_a_runner_without_a_token_gets_no_websocket(token: str | None) -> None:
    runners = RunnersSeen()
    refused = await knock(opened(runners=runners), "/runner", token)
    assert (refused, runners.visits) == (turned_away(Refusal.TOKEN_REFUSED), 0)


async def test_a_server_that_cannot_say_which_refusal_it_is_refuses_all_the_same() -> None:
    assert await knock(opened(), "/relay/a-session", "nonsense", can_answer=False) == FORBIDDEN


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/relay",
        "/relay/",
        "/relay/a-session/more",
        "/other/a-session",
        "/session/a-session/events",
    ],
)
async def test_there_is_no_other_websocket(path: str) -> None:
    assert await knock(opened(Guest()), path) == turned_away(Refusal.SESSION_UNKNOWN)


@pytest.mark.parametrize("path", ["/relay/x", "/ws/x", "/session/x/events", "/runner"])
def test_it_knows_its_addresses(path: str) -> None:
    assert opened().takes(path)
    assert not opened().takes(f"/api{path}")
    assert not opened().takes(f"{path}/more")


async def test_an_id_may_need_quoting() -> None:
    guest = Guest(session_id="a/b c")
    token = KEYRING.issue("a/b c", "a-run")
    assert await knock(opened(guest), "/relay/a%2Fb%20c", token) == sent_away(1000)


async def test_who_leaves_before_being_accepted_is_let_go() -> None:
    async def receive() -> Scope:
        return {"type": "websocket.disconnect"}

    async def send(message: Scope) -> None:
        raise AssertionError(message)

    guest = Guest()
    scope: Scope = {"type": "websocket", "path": "/relay/a-session", "headers": headers(TOKEN)}
    await opened(guest)(scope, receive, send)
    assert guest.visits == 0


async def test_no_token_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    await knock(opened(), "/relay/a-session")
    await knock(opened(Guest()), "/relay/a-session", "a-run.forged-token")
    assert TOKEN not in caplog.text
    assert "forged-token" not in caplog.text


# -- posts


async def test_a_post_is_handed_over_whole_and_answered_as_the_carrier_says() -> None:
    guest = Guest("ws")
    assert await post(opened(guest), "/session/a-session/events", b'{"ev', b'ents":[]}') == 202
    assert guest.bodies == [b'{"events":[]}']


@pytest.mark.parametrize(
    ("carrier", "token", "status"),
    [
        (Guest("ws"), None, 401),
        (Guest("ws"), KEYRING.issue("another", "a-run"), 401),
        (Guest("ws"), KEYRING.issue("a-session", "b-run"), 410),
        (Guest("relay"), TOKEN, 404),
        (Guest("ws", machine="far"), TOKEN, 401),
    ],
)
async def test_a_post_that_has_no_right_to_be_there_is_refused(
    carrier: Guest, token: str | None, status: int
) -> None:
    assert await post(opened(carrier), "/session/a-session/events", token=token) == status
    assert carrier.bodies == []


async def test_other_paths_and_methods_are_refused() -> None:
    doors = opened(Guest("ws"))
    assert await post(doors, "/ws/a-session") == 404
    assert await post(doors, "/nowhere") == 404
    assert await post(doors, "/session/a-session/events", method="GET") == 405


async def test_a_body_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "BODY_LIMIT", 10)
    guest = Guest("ws")
    path = "/session/a-session/events"
    assert await post(opened(guest), path, b"12345", b"67890") == 202
    assert await post(opened(guest), path, b"12345", b"678901") == 413
    assert guest.bodies == [b"1234567890"]


async def test_half_a_body_is_nothing() -> None:
    guest = Guest("ws")
    path = "/session/a-session/events"
    assert await post(opened(guest), path, b"half", leaves=True) is None
    assert guest.bodies == []


async def test_the_life_of_the_server_is_answered() -> None:
    coming = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    sent: list[str] = []

    async def receive() -> Scope:
        return next(coming)

    async def send(message: Scope) -> None:
        sent.append(message["type"])

    async with asyncio.timeout(DEADLINE):
        await opened()({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
