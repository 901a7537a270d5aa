"""The old `--sdk-url` end against a server on loopback, with a clock that the test turns."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pilothouse_sim.simulator.flags import BadFlag
from pilothouse_sim.simulator.sdk_url import DIALECTS, Dialect, SdkUrlEnd, choose
from pilothouse_sim.simulator.sdk_url.dialect import Backoff
from pilothouse_sim.simulator.sdk_url.poster import post_url
from tests.support.sim.sdk_url_server import CUT, Message, SdkUrlServer, Visit
from tests.support.waiting import DEADLINE

TOKEN = {"CLAUDE_CODE_SESSION_ACCESS_TOKEN": "the-token"}
HYBRID = {**TOKEN, "CLAUDE_CODE_POST_FOR_SESSION_INGRESS_V2": "1"}
OLD = DIALECTS["2.1.37"]


class TurnedClock:
    """Time that stands still until `elapse` wakes the one who sleeps for just so long."""

    def __init__(self, chance: float = 0.5) -> None:
        self.time = 0.0
        self.luck = chance
        self._sleepers: list[tuple[float, float, asyncio.Future[None]]] = []
        self._asked = asyncio.Condition()

    def now(self) -> float:
        return self.time

    def chance(self) -> float:
        return self.luck

    @property
    def is_forgotten(self) -> bool:
        """Whether nobody waits for anything."""
        return not self._sleepers

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        sleeper = (seconds, self.time + seconds, woken)
        async with self._asked:
            self._sleepers.append(sleeper)
            self._asked.notify_all()
        try:
            await woken
        finally:
            self._sleepers.remove(sleeper)

    async def elapse(self, seconds: float) -> None:
        """Waits until somebody sleeps for this long, and lets the time pass for it alone."""
        async with asyncio.timeout(DEADLINE), self._asked:
            await self._asked.wait_for(lambda: self._find(seconds))
        sleeper = self._find(seconds)
        assert sleeper is not None
        self.time = max(self.time, sleeper[1])
        sleeper[2].set_result(None)

    def _find(self, seconds: float) -> tuple[float, float, asyncio.Future[None]] | None:
        asleep = (one for one in self._sleepers if not one[2].done())
        return next((one for one in asleep if one[0] == pytest.approx(seconds)), None)


class Ear:
    """What the simulator behind the end would hear."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.ends = 0
        self._news = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def data_received(self, data: bytes) -> None:
        self.heard += data
        self._tell()

    def eof_received(self) -> None:
        self.ends += 1
        self._tell()

    def _tell(self) -> None:
        task = asyncio.create_task(self._notify())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _notify(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def hears(self, data: bytes) -> None:
        async with asyncio.timeout(DEADLINE), self._news:
            await self._news.wait_for(lambda: bytes(self.heard) == data)

    async def hears_the_end(self) -> None:
        async with asyncio.timeout(DEADLINE), self._news:
            await self._news.wait_for(lambda: self.ends == 1)


class Played:
    """An end that has been started."""

    def __init__(self, end: SdkUrlEnd, clock: TurnedClock, ear: Ear) -> None:
        self.end = end
        self.clock = clock
        self.ear = ear

    def write(self, *messages: Message) -> None:
        self.end.write(b"".join(line(message) for message in messages))


@asynccontextmanager
async def played(
    url: str,
    environment: dict[str, str] | None = None,
    dialect: Dialect | None = None,
    chance: float = 0.5,
) -> AsyncIterator[Played]:
    clock, ear = TurnedClock(chance), Ear()
    end = SdkUrlEnd(url, environment=environment or {}, dialect=dialect, clock=clock)
    await end.start(ear)
    try:
        yield Played(end, clock, ear)
    finally:
        async with asyncio.timeout(DEADLINE):
            await end.aclose()


@pytest.fixture
async def harbour() -> AsyncIterator[SdkUrlServer]:
    async with SdkUrlServer() as harbour:
        yield harbour


def line(message: Message) -> bytes:
    return json.dumps(message).encode() + b"\n"


def said(number: int) -> Message:
    return {"type": "assistant", "uuid": f"uuid-{number}"}


def delta(number: int) -> Message:
    return {"type": "stream_event", "uuid": f"uuid-{number}"}


ASK: Message = {
    "type": "control_request",
    "request_id": "r",
    "request": {"subtype": "can_use_tool"},
}


async def met(harbour: SdkUrlServer, sim: Played, number: int) -> Visit:
    """The visit of this number, once both sides know that it is open."""
    visit = await harbour.visit(number)
    visit.send(b"hello\n")
    await sim.ear.hears(b"hello\n" * number)
    return visit


async def comes(harbour: SdkUrlServer, visit: Visit, *uuids: str | None) -> None:
    await harbour.until(lambda: len(visit.texts) >= len(uuids))
    assert visit.uuids == list(uuids)


def posted(harbour: SdkUrlServer) -> list[list[str]]:
    return [[event["uuid"] for event in post.events] for post in harbour.posts]


# The dialects


def test_the_delays_double_up_to_half_a_minute_and_vary_by_a_quarter() -> None:
    least, most = Backoff(Dialect(), TurnedClock(0.0)), Backoff(Dialect(), TurnedClock(1.0))
    assert [least.next_delay(opened=False) for _ in range(7)] == [0.75, 1.5, 3, 6, 12, 22.5, 22.5]
    assert [most.next_delay(opened=False) for _ in range(7)] == [1.25, 2.5, 5, 10, 20, 37.5, 37.5]


def test_a_connection_that_opened_makes_the_delays_short_again() -> None:
    backoff = Backoff(Dialect(), TurnedClock())
    assert [backoff.next_delay(opened=False) for _ in range(2)] == [1, 2]
    backoff.reset()
    assert backoff.next_delay(opened=True) == 1


def test_a_lost_connection_is_given_up_with_the_first_failure_after_ten_minutes() -> None:
    clock = TurnedClock()
    backoff = Backoff(Dialect(), clock)
    backoff.next_delay(opened=True)
    clock.time = 599.9
    assert backoff.next_delay(opened=False) is not None
    clock.time = 600.0
    assert backoff.next_delay(opened=False) is None


@pytest.mark.parametrize(
    ("failures", "delays"), [([True, False, False], [1, 4, None]), ([False, False], [2, None])]
)
def test_the_older_dialect_counts_a_failed_dial_twice_and_bears_three_failures(
    failures: list[bool], delays: list[float | None]
) -> None:
    backoff = Backoff(OLD, TurnedClock(0.9))
    assert [backoff.next_delay(opened=opened) for opened in failures] == delays


def test_the_environment_chooses_the_dialect() -> None:
    assert choose({}) is DIALECTS["2.1.119"]
    assert choose({"PILOTHOUSE_SDK_URL_DIALECT": "2.1.37"}) is OLD
    with pytest.raises(BadFlag, match=r"choose one of: 2\.1\.119, 2\.1\.37"):
        choose({"PILOTHOUSE_SDK_URL_DIALECT": "3"})


def test_websockets_is_not_imported_before_an_end_dials() -> None:
    code = "import sys, pilothouse_sim.simulator.sdk_url; print('websockets' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


async def test_a_machine_without_websockets_is_told_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "websockets", None)
    with pytest.raises(BadFlag, match="needs the package websockets"):
        await SdkUrlEnd("ws://127.0.0.1:9/", environment={}).start(Ear())


# Dialling


async def test_the_dial_carries_the_token_and_the_runners_version(harbour: SdkUrlServer) -> None:
    environment = TOKEN | {"CLAUDE_CODE_ENVIRONMENT_RUNNER_VERSION": "runner-9"}
    async with played(harbour.url, environment):
        visit = await harbour.visit(1)
    assert visit.path == "/v1/ws/abc"
    assert visit.headers["Authorization"] == "Bearer the-token"
    assert visit.headers["X-Environment-Runner-Version"] == "runner-9"
    assert "X-Last-Request-Id" not in visit.headers
    offered = visit.headers["Sec-WebSocket-Extensions"]
    assert offered == "permessage-deflate; client_max_window_bits"


@pytest.mark.parametrize(
    ("extra", "expected"),
    [({}, "Bearer from-the-pipe"), (TOKEN, "Bearer the-token")],
    ids=["the pipe's", "the environment's first"],
)
async def test_the_token_may_come_through_a_file_descriptor(
    harbour: SdkUrlServer, extra: dict[str, str], expected: str
) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"from-the-pipe\n")
    os.close(writing)
    try:
        number = {"CLAUDE_CODE_WEBSOCKET_AUTH_FILE_DESCRIPTOR": str(reading)}
        async with played(harbour.url, number | extra):
            visit = await harbour.visit(1)
    finally:
        os.close(reading)
    assert visit.headers["Authorization"] == expected


@pytest.mark.parametrize("number", ["", "none", "-1", "65000"])
async def test_without_a_readable_token_there_is_no_authorization(
    harbour: SdkUrlServer, number: str
) -> None:
    async with played(harbour.url, {"CLAUDE_CODE_WEBSOCKET_AUTH_FILE_DESCRIPTOR": number}):
        visit = await harbour.visit(1)
    assert "Authorization" not in visit.headers


async def test_a_token_that_was_replaced_counts_at_the_next_dial(harbour: SdkUrlServer) -> None:
    environment = dict(TOKEN)
    async with played(harbour.url, environment) as sim:
        first = await harbour.visit(1)
        environment["CLAUDE_CODE_SESSION_ACCESS_TOKEN"] = "newer"
        first.cut()
        await sim.clock.elapse(1)
        assert (await harbour.visit(2)).headers["Authorization"] == "Bearer newer"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/ws/x", "nowhere", "ws://", "ws://h:port/", "ws://h/x#y"]
)
async def test_a_url_that_is_no_websockets_is_the_end_at_once(url: str) -> None:
    async with played(url) as sim:
        await sim.ear.hears_the_end()


def self_signed(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate for 127.0.0.1, and what a server needs to show it."""
    from datetime import UTC, datetime, timedelta
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "harbour")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1)
    )
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    shown, hidden = folder / "shown.pem", folder / "hidden.pem"
    shown.write_bytes(certificate.public_bytes(pem))
    plain = serialization.NoEncryption()
    hidden.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown, hidden)
    return shown, context


async def test_a_secure_server_is_dialled_and_posted_to_if_its_certificate_is_trusted(
    tmp_path: Path,
) -> None:
    trusted, context = self_signed(tmp_path)
    harbour = SdkUrlServer()
    await harbour.open(ssl=context)
    try:
        async with played(harbour.url, HYBRID | {"NODE_EXTRA_CA_CERTS": str(trusted)}) as sim:
            (await harbour.visit(1)).send(b"in\n")
            await sim.ear.hears(b"in\n")
            sim.write(said(1))
            await harbour.until(lambda: harbour.posts)
    finally:
        await harbour.__aexit__()


# Frames


async def test_every_line_is_a_text_frame_of_its_own_with_its_newline(
    harbour: SdkUrlServer,
) -> None:
    async with played(harbour.url) as sim:
        visit = await met(harbour, sim, 1)
        sim.write(said(1), ASK)
        sim.write({"type": "user", "text": "\u2028 grüße"})
        await harbour.until(lambda: len(visit.texts) == 3)
    sent = [said(1), ASK, {"type": "user", "text": "\u2028 grüße"}]
    assert visit.texts == [line(message) for message in sent]


async def test_incoming_frames_are_bytes_of_one_stream(harbour: SdkUrlServer) -> None:
    async with played(harbour.url) as sim:
        visit = await harbour.visit(1)
        visit.send(b'{"a":1}\n{"b":2}\n{"c"')
        visit.send(b":3}", binary=True)
        visit.send(b"\n")
        await sim.ear.hears(b'{"a":1}\n{"b":2}\n{"c":3}\n')


async def test_a_request_right_behind_the_servers_handshake_is_answered(
    harbour: SdkUrlServer,
) -> None:
    class Answering(Ear):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            end.write(line({"type": "control_response"}))

    harbour.greeting = b'{"type":"control_request"}\n'
    end = SdkUrlEnd(harbour.url, environment={}, clock=TurnedClock())
    await end.start(Answering())
    visit = await harbour.visit(1)
    await harbour.until(lambda: visit.texts)
    await end.aclose()
    assert visit.messages == [{"type": "control_response"}]


async def test_pings_and_keep_alive_go_out_in_their_time(harbour: SdkUrlServer) -> None:
    async with played(harbour.url) as sim:
        visit = await harbour.visit(1)
        for number in (1, 2):
            await sim.clock.elapse(10)
            await harbour.until(lambda number=number: visit.pings == number)
            await sim.clock.elapse(300)
            await harbour.until(lambda number=number: len(visit.texts) == number)
    assert visit.texts == [b'{"type":"keep_alive"}\n'] * 2


async def test_an_unanswered_ping_ends_the_connection_and_leads_to_a_new_one(
    harbour: SdkUrlServer,
) -> None:
    async with played(harbour.url) as sim:
        visit = await harbour.visit(1)
        harbour.quiet = True
        await sim.clock.elapse(10)
        await harbour.until(lambda: visit.pings == 1)
        await sim.clock.elapse(10)
        await harbour.until(lambda: visit.ended)
        harbour.quiet = False
        await sim.clock.elapse(1)
        await harbour.visit(2)
    assert visit.close_codes == [1000]


async def test_the_older_dialect_sends_nothing_of_its_own_accord(harbour: SdkUrlServer) -> None:
    async with played(harbour.url, dialect=OLD) as sim:
        await met(harbour, sim, 1)
        assert sim.clock.is_forgotten


# Reconnecting


@pytest.mark.parametrize("code", [1000, 1001, 1008, 4000])
async def test_after_a_close_it_comes_again_with_everything_it_said(
    harbour: SdkUrlServer, code: int
) -> None:
    async with played(harbour.url) as sim:
        first = await met(harbour, sim, 1)
        sim.write(said(1), said(2))
        await comes(harbour, first, "uuid-1", "uuid-2")
        first.close(code)
        await sim.clock.elapse(1)
        second = await met(harbour, sim, 2)
        assert second.headers["X-Last-Request-Id"] == "uuid-2"
        await comes(harbour, second, "uuid-1", "uuid-2")
        sim.write(said(3))
        await comes(harbour, second, "uuid-1", "uuid-2", "uuid-3")
    assert sim.ear.ends == 0


async def test_what_is_said_while_away_is_replayed_if_it_has_a_uuid(harbour: SdkUrlServer) -> None:
    async with played(harbour.url) as sim:
        first = await met(harbour, sim, 1)
        first.cut()
        await harbour.until(lambda: first.ended)
        sim.write(said(1), ASK, said(2))
        await sim.clock.elapse(1)
        second = await harbour.visit(2)
        assert second.headers["X-Last-Request-Id"] == "uuid-2"
        await comes(harbour, second, "uuid-1", "uuid-2")


async def test_a_permission_request_is_not_replayed(harbour: SdkUrlServer) -> None:
    async with played(harbour.url) as sim:
        first = await met(harbour, sim, 1)
        sim.write(said(1), ASK)
        await comes(harbour, first, "uuid-1", None)
        first.cut()
        await sim.clock.elapse(1)
        second = await met(harbour, sim, 2)
        sim.write(said(2))
        await comes(harbour, second, "uuid-1", "uuid-2")


async def test_the_last_thousand_messages_are_replayed(harbour: SdkUrlServer) -> None:
    async with played(harbour.url) as sim:
        first = await met(harbour, sim, 1)
        sim.write(*(said(number) for number in range(1500)))
        await harbour.until(lambda: len(first.texts) == 1500)
        first.cut()
        await sim.clock.elapse(1)
        await comes(harbour, await harbour.visit(2), *(f"uuid-{n}" for n in range(500, 1500)))


async def test_the_older_dialect_replays_nothing(harbour: SdkUrlServer) -> None:
    async with played(harbour.url, dialect=OLD) as sim:
        first = await met(harbour, sim, 1)
        sim.write(said(1))
        await comes(harbour, first, "uuid-1")
        first.cut()
        await sim.clock.elapse(1)
        second = await met(harbour, sim, 2)
        assert second.headers["X-Last-Request-Id"] == "uuid-1"
        sim.write(said(2))
        await comes(harbour, second, "uuid-2")


async def test_a_server_that_hangs_up_is_dialled_with_growing_delays(harbour: SdkUrlServer) -> None:
    harbour.refusals = [CUT] * 3
    async with played(harbour.url, chance=1.0) as sim:
        for delay in (1.25, 2.5, 5):
            await sim.clock.elapse(delay)
        first = await harbour.visit(1)
        first.cut()
        await sim.clock.elapse(1.25)
        await harbour.visit(2)
    assert harbour.dials == 5


async def test_nobody_listening_is_given_up_after_ten_minutes() -> None:
    async with SdkUrlServer() as harbour:
        pass
    async with played(harbour.url) as sim:
        for delay in (1, 2, 4, 8, 16, *[30] * 19):
            await sim.clock.elapse(delay)
        await sim.ear.hears_the_end()
        assert sim.clock.time == pytest.approx(601)


async def test_the_older_dialect_gives_up_after_two_dials(harbour: SdkUrlServer) -> None:
    harbour.refusals = [503, CUT]
    async with played(harbour.url, dialect=OLD) as sim:
        await sim.clock.elapse(2)
        await sim.ear.hears_the_end()
    assert harbour.dials == 2


@pytest.mark.parametrize("code", [1002, 4001, 4003])
async def test_some_close_codes_are_final(harbour: SdkUrlServer, code: int) -> None:
    async with played(harbour.url) as sim:
        visit = await harbour.visit(1)
        visit.close(code)
        await sim.ear.hears_the_end()
    assert visit.close_codes == [code]
    assert harbour.dials == 1


async def test_no_close_code_is_final_to_the_older_dialect(harbour: SdkUrlServer) -> None:
    async with played(harbour.url, dialect=OLD) as sim:
        (await harbour.visit(1)).close(4001)
        await sim.clock.elapse(1)
        await harbour.visit(2)


@pytest.mark.parametrize("status", [302, 401, 403, 404, 503])
async def test_any_http_answer_but_101_is_final(harbour: SdkUrlServer, status: int) -> None:
    harbour.refusals = [status]
    async with played(harbour.url) as sim:
        await sim.ear.hears_the_end()
    assert harbour.dials == 1


# Closing


async def test_closing_lets_everything_through_and_says_goodbye(harbour: SdkUrlServer) -> None:
    async with played(harbour.url) as sim:
        visit = await met(harbour, sim, 1)
        sim.write(*(said(number) for number in range(5000)))
        await sim.end.aclose()
        await harbour.until(lambda: visit.ended)
    assert len(visit.texts) == 5000
    assert visit.close_codes == [1000]
    assert sim.ear.ends == 0


async def test_closing_while_away_waits_for_nothing(harbour: SdkUrlServer) -> None:
    async with played(harbour.url) as sim:
        first = await met(harbour, sim, 1)
        first.cut()
        await harbour.until(lambda: first.ended)
        sim.write(said(1))
        await sim.end.aclose()
    assert harbour.dials == 1


# Hybrid


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("wss://h/ws/x", "https://h/session/x/events"),
        ("ws://h:8/v1/session_ingress/ws/x", "http://h:8/v1/session_ingress/session/x/events"),
        ("ws://h/v1/ws/ws/x/", "http://h/v1/session/ws/x/events"),
        ("ws://h/x?y=1", "http://h/x/events?y=1"),
    ],
)
def test_where_the_posts_go_follows_from_the_url(url: str, expected: str) -> None:
    assert post_url(url) == expected


@pytest.mark.parametrize("value", ["1", "true", "YES", " on "])
async def test_the_hybrid_way_posts_what_it_says_and_reads_the_socket(
    harbour: SdkUrlServer, value: str
) -> None:
    environment = TOKEN | {"CLAUDE_CODE_POST_FOR_SESSION_INGRESS_V2": value}
    async with played(harbour.url, environment) as sim:
        visit = await harbour.visit(1)
        visit.tell({"type": "user"})
        await sim.ear.hears(b'{"type": "user"}\n')
        sim.write(said(1), ASK)
        await harbour.until(lambda: len(harbour.posts) == 2)
        await sim.clock.elapse(300)
        await harbour.until(lambda: visit.texts)
    assert [post.events for post in harbour.posts] == [[said(1)], [ASK]]
    assert harbour.posts[0].target == "/v1/session/abc/events"
    assert harbour.posts[0].headers["authorization"] == "Bearer the-token"
    assert harbour.posts[0].headers["content-type"] == "application/json"
    assert visit.texts == [b'{"type":"keep_alive"}\n']


@pytest.mark.parametrize("value", ["", "0", "false", "2"])
async def test_other_values_leave_the_socket_its_work(harbour: SdkUrlServer, value: str) -> None:
    environment = TOKEN | {"CLAUDE_CODE_POST_FOR_SESSION_INGRESS_V2": value}
    async with played(harbour.url, environment) as sim:
        visit = await met(harbour, sim, 1)
        sim.write(said(1))
        await comes(harbour, visit, "uuid-1")


async def test_stream_events_wait_for_the_next_message_and_share_its_post(
    harbour: SdkUrlServer,
) -> None:
    async with played(harbour.url, HYBRID) as sim:
        sim.write(delta(1), delta(2), said(3), delta(4), said(5))
        await harbour.until(lambda: len(harbour.posts) == 2)
    assert posted(harbour) == [["uuid-1", "uuid-2", "uuid-3"], ["uuid-4", "uuid-5"]]


async def test_stream_events_wait_a_tenth_of_a_second_at_most(harbour: SdkUrlServer) -> None:
    async with played(harbour.url, HYBRID) as sim:
        sim.write(delta(1), delta(2))
        await sim.clock.elapse(0.1)
        await harbour.until(lambda: harbour.posts)
        sim.write(delta(3))
        await sim.clock.elapse(0.1)
        await harbour.until(lambda: len(harbour.posts) == 2)
    assert posted(harbour) == [["uuid-1", "uuid-2"], ["uuid-3"]]


async def test_one_post_at_a_time_with_five_hundred_events_at_most(harbour: SdkUrlServer) -> None:
    async with played(harbour.url, HYBRID) as sim:
        harbour.holding.clear()
        sim.write(delta(0))
        await sim.clock.elapse(0.1)
        await harbour.until(lambda: harbour.posts)
        sim.write(*(delta(number) for number in range(1, 1200)))
        await sim.clock.elapse(0.1)
        assert len(harbour.posts) == 1
        harbour.holding.set()
        await harbour.until(lambda: len(harbour.posts) == 4)
    assert [len(batch) for batch in posted(harbour)] == [1, 500, 500, 199]
    assert [uuid for batch in posted(harbour) for uuid in batch] == [
        f"uuid-{number}" for number in range(1200)
    ]


async def test_a_failed_post_is_repeated_with_growing_delays_and_chance(
    harbour: SdkUrlServer,
) -> None:
    harbour.statuses = [500, CUT, 429, 503, 500, 500, *[500] * 6]
    async with played(harbour.url, HYBRID, chance=0.25) as sim:
        sim.write(said(1), said(2))
        for delay in (0.75, 1.25, 2.25, 4.25, *[8.25] * 8):
            await sim.clock.elapse(delay)
        await harbour.until(lambda: len(harbour.posts) == 14)
    assert posted(harbour) == [["uuid-1"]] * 13 + [["uuid-2"]]


async def test_a_post_without_an_answer_is_repeated(harbour: SdkUrlServer) -> None:
    harbour.holding.clear()
    async with played(harbour.url, HYBRID, chance=0.0) as sim:
        sim.write(said(1))
        await harbour.until(lambda: len(harbour.posts) == 1)
        await sim.clock.elapse(15)
        await sim.clock.elapse(0.5)
        await harbour.until(lambda: len(harbour.posts) == 2)
        harbour.holding.set()
    assert posted(harbour) == [["uuid-1"]] * 2


async def test_events_that_are_refused_for_good_are_dropped(harbour: SdkUrlServer) -> None:
    harbour.statuses = [400, 404, 401]
    async with played(harbour.url, HYBRID) as sim:
        sim.write(*(said(number) for number in range(1, 5)))
        await harbour.until(lambda: len(harbour.posts) == 4)
    assert posted(harbour) == [["uuid-1"], ["uuid-2"], ["uuid-3"], ["uuid-4"]]


async def test_the_older_dialect_posts_one_by_one_and_tries_ten_times(
    harbour: SdkUrlServer,
) -> None:
    harbour.statuses = [500] * 10
    async with played(harbour.url, HYBRID, dialect=OLD, chance=0.9) as sim:
        sim.write(delta(1), delta(2))
        for delay in (0.5, 1, 2, 4, *[8] * 5):
            await sim.clock.elapse(delay)
        await harbour.until(lambda: len(harbour.posts) == 11)
    assert posted(harbour) == [["uuid-1"]] * 10 + [["uuid-2"]]


async def test_without_a_token_nothing_is_posted(harbour: SdkUrlServer) -> None:
    async with played(harbour.url, {"CLAUDE_CODE_POST_FOR_SESSION_INGRESS_V2": "1"}) as sim:
        visit = await met(harbour, sim, 1)
        sim.write(said(1))
        await sim.end.aclose()
        await harbour.until(lambda: visit.ended)
    assert harbour.posts == []
    assert visit.texts == []


async def test_a_reconnect_of_the_hybrid_way_replays_nothing(harbour: SdkUrlServer) -> None:
    async with played(harbour.url, HYBRID) as sim:
        first = await harbour.visit(1)
        sim.write(said(1))
        await harbour.until(lambda: harbour.posts)
        first.cut()
        await sim.clock.elapse(1)
        second = await harbour.visit(2)
        assert "X-Last-Request-Id" not in second.headers
        await sim.clock.elapse(300)
        await harbour.until(lambda: second.texts)
    assert second.texts == [b'{"type":"keep_alive"}\n']


async def test_closing_posts_what_was_said(harbour: SdkUrlServer) -> None:
    async with played(harbour.url, HYBRID) as sim:
        visit = await harbour.visit(1)
        visit.close(4001)
        await sim.ear.hears_the_end()
        sim.write(said(1), delta(2))
    assert posted(harbour) == [["uuid-1"], ["uuid-2"]]


async def test_closing_does_not_wait_for_ever_for_posts(harbour: SdkUrlServer) -> None:
    harbour.holding.clear()
    async with played(harbour.url, HYBRID) as sim:
        sim.write(said(1), said(2))
        await harbour.until(lambda: harbour.posts)
        closing = asyncio.create_task(sim.end.aclose())
        await sim.clock.elapse(30)
        async with asyncio.timeout(DEADLINE):
            await closing
    assert posted(harbour) == [["uuid-1"]]
