"""One engine, asked directly and over HTTP: the same results, the same errors, the same events."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any
from unittest.mock import AsyncMock

import pytest
from msgspec import Raw

from pilothouse import errors
from pilothouse.api.answers import Allow, Choose, ClearContext, Deny, RevisePlan
from pilothouse.api.engine import Engine
from pilothouse.api.events import Batch, Gap
from pilothouse.api.operations import OPERATIONS
from pilothouse.api.problems import CODES, code_of
from pilothouse.api.requests import Ask, Caps, DialIn, Fork, Say, SessionOptions, Start
from pilothouse.remote import RemoteEngine, event_stream
from tests.support.http.fake_engine import FakeEngine
from tests.support.http.serving import TOKEN, calling, make_app, served
from tests.support.ports import free_port

DEADLINE = 30
S = "session-1"
Verb = Callable[[Engine], Any]


@asynccontextmanager
async def over_http(engine: FakeEngine) -> AsyncGenerator[RemoteEngine]:
    async with served(make_app(engine)) as address:
        remote = RemoteEngine(address, TOKEN)
        try:
            yield remote
        finally:
            await remote.aclose()


@asynccontextmanager
async def in_memory(engine: FakeEngine) -> AsyncGenerator[RemoteEngine]:
    """As over HTTP, but the requests go to the application without a socket between."""
    remote = RemoteEngine("http://localhost", TOKEN)
    remote._http._client = calling(make_app(engine))  # pyright: ignore[reportPrivateUsage]
    try:
        yield remote
    finally:
        await remote.aclose()


async def prepared() -> FakeEngine:
    engine = FakeEngine()
    await engine.start(Start(prompt="hello", cwd="/", label="first"))
    await engine.add_runner("attic")
    for foreign in (False, False, True):
        engine.pose(S, foreign=foreign)
    await engine.say(S, Say(content="one more"))
    return engine


OPTIONS = SessionOptions(model="m", mode="plan", env={"A": "é"}, flags={"debug": None})
ASK = Ask(
    tool_name="Bash",
    tool_use_id="u",
    input={"command": "make", "é": [None]},
    cwd="/w",
    session_id="a-guest",
    label="claude -p",
    wait_s=0.0,
)
VERBS: dict[str, Verb] = {
    "start": lambda e: e.start(Start(prompt="x", cwd="/w", options=OPTIONS, key="k")),
    "start with blocks": lambda e: e.start(
        Start(prompt=[{"type": "text", "text": "x"}], cwd="/w", caps=Caps(session_usd=0.5))
    ),
    "start nowhere": lambda e: e.start(Start(prompt="x", cwd="nowhere")),
    "say": lambda e: e.say(S, Say(content="hello", mode="plan", priority="now")),
    "say to nobody": lambda e: e.say("nobody", Say(content="hello")),
    "cancel": lambda e: e.cancel(S, "p-6"),
    "cancel nothing": lambda e: e.cancel(S, "p-77"),
    "allow": lambda e: e.answer("q-3", Allow(input={"a": [1, None]}, always="session"), by="me"),
    "choose": lambda e: e.answer("q-3", Choose(answers={"Which?": ["a", "b"]}, notes={"W": "n"})),
    "revise": lambda e: e.answer("q-3", RevisePlan(feedback="more", images=[{"type": "image"}])),
    "clear": lambda e: e.answer("q-3", ClearContext()),
    "answer nothing": lambda e: e.answer("q-77", Deny()),
    "ask": lambda e: e.ask(ASK),
    "withdraw": lambda e: e.withdraw("q-5", "it has gone"),
    "withdraw what is not a guest's": lambda e: e.withdraw("q-3", "it has gone"),
    "interrupt": lambda e: e.interrupt(S),
    "stop": lambda e: e.stop(S),
    "stop_all": lambda e: e.stop_all(),
    "archive": lambda e: e.archive(S),
    "take out of the archive": lambda e: e.archive(S, archived=False),
    "directories": lambda e: e.directories("/é/ü ?"),
    "files": lambda e: e.files(S),
    "files like": lambda e: e.files(S, query="a b&c"),
    "fork": lambda e: e.fork(S, Fork(prompt="again", at="u", options=OPTIONS)),
    "rewind": lambda e: e.rewind(S, "p-2"),
    "preview": lambda e: e.rewind(S, "p-2", preview=True),
    "compact": lambda e: e.compact(S),
    "compact to": lambda e: e.compact(S, "names"),
    "set_mode": lambda e: e.set_mode(S, "acceptEdits"),
    "bypass": lambda e: e.set_mode(S, "bypassPermissions"),
    "set_model": lambda e: e.set_model(S, "m"),
    "unset_model": lambda e: e.set_model(S, None),
    "set_thinking": lambda e: e.set_thinking(S, 17),
    "unset_thinking": lambda e: e.set_thinking(S, None),
    "mcp_status": lambda e: e.mcp_status(S),
    "mcp_reconnect": lambda e: e.mcp_reconnect(S, "claude.ai Mail? #1 100%"),
    "mcp_toggle": lambda e: e.mcp_toggle(S, "plugin:é", enabled=False),
    "mcp_message": lambda e: e.mcp_message(S, "files", message={"method": "x", "id": 1}),
    "mcp_set": lambda e: e.mcp_set(S, {"x": {"command": "y"}}),
    "context_usage": lambda e: e.context_usage(S),
    "greeting": lambda e: e.greeting(S),
    "conversation": lambda e: e.conversation(S, before="turn/1", limit=7),
    "conversation with": lambda e: e.conversation(S, search="a b&ü", before="turn/1", limit=7),
    "item_source": lambda e: e.item_source(S, "turn/1 é"),
    "wait": lambda e: e.wait(S),
    "wait for the end": lambda e: e.wait(S, seconds=1.5, after=3, at_rest=True),
    "wait for nobody": lambda e: e.wait("nobody", seconds=0),
    "commands": lambda e: e.commands(S),
    "models": lambda e: e.models(S),
    "control": lambda e: e.control(S, "get_settings", {"a": {"b": None}}),
    "control refused": lambda e: e.control(S, "shutdown", {}),
    "status": lambda e: e.status(S, output_lines=2),
    "status after a cursor": lambda e: e.status(S, output_lines=2, after=3),
    "status of nobody": lambda e: e.status("nobody"),
    "status of a trick": lambda e: e.status("nobody"),
    "timeline": lambda e: e.timeline(S),
    "timeline of nobody": lambda e: e.timeline("nobody"),
    "activity": lambda e: e.activity(since=5),
    "list": lambda e: e.list(),
    "list some": lambda e: e.list(cwd="/", limit=1, offset=0, live=True),
    "list the archive": lambda e: e.list(archived=True, search="session", state="done"),
    "list labelled": lambda e: e.list(label="é", machine="dock"),
    "list none": lambda e: e.list(cwd="/é ?&", limit=1),
    "questions": lambda e: e.questions(),
    "questions of one": lambda e: e.questions(session_id=S, state="any"),
    "questions answered": lambda e: e.questions(state="answered"),
    "questions of a page": lambda e: e.questions(state="any", limit=1),
    "questions before one": lambda e: e.questions(state="any", limit=1, before="q-4"),
    "questions before none": lambda e: e.questions(before="q-99"),
    "question": lambda e: e.question("q-3"),
    "file_change": lambda e: e.file_change("q-3"),
    "read": lambda e: e.read(1, limit=2),
    "read of one": lambda e: e.read(session_id=S),
    "policy": lambda e: e.policy(),
    "policy_dry_run": lambda e: e.policy_dry_run("x = 1"),
    "save_policy": lambda e: e.save_policy("x = 1", replaces=""),
    "policy wrong": lambda e: e.policy_dry_run("["),
    "cost": lambda e: e.cost(),
    "cost by day": lambda e: e.cost("day", session_id=S, since=3),
    "cost of a page": lambda e: e.cost("turn", limit=7, before="x"),
    "dial_in": lambda e: e.dial_in(DialIn(cwd="/", label="by hand", prompt="go")),
    "dial_ins": lambda e: e.dial_ins(),
    "runners": lambda e: e.runners(),
    "add_runner": lambda e: e.add_runner("shed"),
    "add_runner again": lambda e: e.add_runner("attic"),
    "add_runner with no name": lambda e: e.add_runner(""),
    "add_runner with a bad name": lambda e: e.add_runner("a/b é"),
    "drain_runner": lambda e: e.drain_runner("attic"),
    "drain_runner no more": lambda e: e.drain_runner("attic", draining=False),
    "drain_runner nobody": lambda e: e.drain_runner("nobody"),
    "revoke_runner": lambda e: e.revoke_runner("attic"),
    "revoke_runner nobody": lambda e: e.revoke_runner("nobody"),
    "settings": lambda e: e.settings(),
    "health": lambda e: e.health(),
}


async def outcome(engine: Engine, verb: Verb) -> Any:
    """What a verb returns, or the error with all it says and carries."""
    try:
        return await verb(engine)
    except errors.PilothouseError as error:
        return type(error), str(error), {**vars(error)}


@pytest.fixture(scope="module", params=sorted(VERBS))
def verb(request: pytest.FixtureRequest) -> Verb:
    return VERBS[request.param]


async def test_each_verb_gives_the_same_over_http(verb: Verb) -> None:
    direct, behind = await prepared(), await prepared()
    async with in_memory(behind) as remote:
        for _ in range(2):
            told = await outcome(remote, verb)
            assert told == await outcome(direct, verb)
            if isinstance(told, tuple):
                assert code_of(told[0]) in foreseen(verb)
        assert behind.sessions == direct.sessions
        assert behind.asked == direct.asked
        assert behind.machines == direct.machines
        assert behind.journal == direct.journal


async def test_a_cassette_comes_over_http_as_it_is_written() -> None:
    async with in_memory(await prepared()) as remote:
        direct = await prepared()
        told = b"".join([piece async for piece in remote.cassette(S)])
        assert told == b"".join([piece async for piece in direct.cassette(S)])
        with pytest.raises(errors.UnknownSession):
            await anext(remote.cassette("nobody"))


def foreseen(verb: Verb) -> set[str]:
    """The problems that the table names for the operation that a verb asks for."""
    rows = [each for each in OPERATIONS if each.verb in verb.__code__.co_names]
    return {"usage"}.union(*(each.errors for each in rows))


def test_every_verb_of_the_contract_is_asked_over_http() -> None:
    verbs = {name for name in vars(Engine) if not name.startswith("_")}
    verbs -= {"watch", "follow", "follow_sessions", "cassette", "aclose"}
    asked = {name for each in VERBS.values() for name in each.__code__.co_names}
    assert verbs <= asked


@pytest.mark.parametrize(
    "error",
    [
        *(
            kind("no", advice="do this")
            for kind in CODES.values()
            if issubclass(kind, errors.Refused)
        ),
        errors.Refused("no advice"),
        errors.InvalidOption("no CLI takes that"),
        errors.BypassNotAllowed("set_mode"),
        errors.SessionEnded("the CLI is gone", exit_code=3, stderr_tail="oh\nno"),
        errors.ControlError("set_model", "no such model", "not_found"),
        errors.Unsupported("rewind", "too old"),
        errors.ControlTimeout("interrupt", 2.5),
        errors.CLINotFound("no `claude`"),
        errors.CLINotStarted("not executable"),
        errors.JournalTooNew("from the future"),
        errors.PolicyError("line 3"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_each_error_is_the_same_over_http(error: errors.PilothouseError) -> None:
    engine = await prepared()
    async with in_memory(engine) as remote:
        engine.raises = error
        with pytest.raises(errors.PilothouseError) as raised:
            await remote.status(S)
    assert type(raised.value) is type(error)
    assert str(raised.value) == str(error)
    assert vars(raised.value) == vars(error)


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_a_name_that_would_change_the_path_is_asked_nowhere(name: str) -> None:
    engine = await prepared()
    async with in_memory(engine) as remote:
        for ask in (remote.stop, remote.status, remote.interrupt):
            with pytest.raises(errors.UnknownSession):
                await ask(name)
        with pytest.raises(errors.UnknownQuestion):
            await remote.question(name)
        for ask in (remote.drain_runner, remote.revoke_runner):
            with pytest.raises(errors.UnknownRunner):
                await ask(name)
    assert engine.sessions[S].live


async def test_a_late_answer_is_refused_over_http() -> None:
    async with over_http(await prepared()) as remote:
        await remote.answer("q-3", Allow())
        assert (await remote.answer("q-3", Allow())).question.state == "answered"
        with pytest.raises(errors.QuestionSettled, match="see what was answered") as late:
            await remote.answer("q-3", Deny())
        assert late.value.question == await remote.question("q-3")


async def test_verbs_work_over_a_socket_as_well() -> None:
    direct, behind = await prepared(), await prepared()
    async with over_http(behind) as remote:
        for verb in VERBS.values():
            assert await outcome(remote, verb) == await outcome(direct, verb)


async def test_an_engine_that_is_ill_is_told_not_raised() -> None:
    engine = await prepared()
    engine.problem = "the disk is full"
    async with over_http(engine) as remote:
        assert await remote.health() == await engine.health()


async def test_an_engine_that_cannot_tell_its_health_raises() -> None:
    engine = await prepared()
    error = errors.JournalError("the disk is full")
    async with in_memory(engine) as remote:
        engine.health = AsyncMock(side_effect=error)
        with pytest.raises(errors.JournalError, match="the disk is full"):
            await remote.health()


async def test_a_wrong_token_is_an_error_of_the_server() -> None:
    async with served(make_app(await prepared())) as address:
        remote = RemoteEngine(address, "wrong")
        with pytest.raises(errors.ServerError, match="token"):
            await remote.health()
        with pytest.raises(errors.ServerError, match="token"):
            await first(remote.watch())
        await remote.aclose()


async def test_a_server_that_is_gone_says_what_to_do() -> None:
    remote = RemoteEngine(f"http://127.0.0.1:{free_port()}", TOKEN, patience=0)
    with pytest.raises(errors.ServerError, match="pilothouse serve"):
        await remote.health()
    with pytest.raises(errors.ServerError, match="pilothouse serve"):
        await first(remote.watch())
    await remote.aclose()
    with pytest.raises(errors.ServerError, match="closed"):
        await remote.health()


async def test_an_unknown_session_cannot_be_watched() -> None:
    async with over_http(await prepared()) as remote:
        with pytest.raises(errors.UnknownSession):
            await first(remote.watch(session_id="nobody"))


async def first(stream: AsyncGenerator[Batch]) -> Batch:
    async with aclosing(stream), asyncio.timeout(DEADLINE):
        return await anext(stream)


async def gather_to(stream: AsyncGenerator[Batch], last: int) -> list[Batch]:
    found: list[Batch] = []
    async with asyncio.timeout(DEADLINE):
        while not found or found[-1].cursor < last:
            found.append(await anext(stream))
    return found


def seqs(batches: list[Batch]) -> list[int]:
    return [event.seq for batch in batches for event in batch.events]


async def test_a_watcher_over_http_sees_what_happens_byte_for_byte() -> None:
    engine = await prepared()
    engine.gaps = [Gap(first=2, last=3, count=1, reason="partials")]
    async with over_http(engine) as remote, aclosing(remote.watch(0)) as stream:
        before = await gather_to(stream, engine.cursor)
        engine.append(S, body=b'{ "b": 1.50,"a":"\\u00e9"}')
        after = await gather_to(stream, engine.cursor)
        direct = await engine.read(0)
        assert [event for batch in before + after for event in batch.events] == direct.events
        assert before[0].gaps == engine.gaps
        assert after[-1].events[-1].body == Raw(b'{ "b": 1.50,"a":"\\u00e9"}')


async def test_a_watcher_without_a_cursor_begins_now() -> None:
    engine = await prepared()
    async with over_http(engine) as remote, aclosing(remote.watch()) as stream:
        waiting = asyncio.create_task(anext(stream))
        await engine.watched()
        seq = engine.append(S)
        assert seqs([await asyncio.wait_for(waiting, DEADLINE)]) == [seq]


async def test_a_watcher_ends_with_its_engine() -> None:
    engine = await prepared()
    async with over_http(engine) as remote, aclosing(remote.watch()) as stream:
        waiting = asyncio.create_task(anext(stream, None))
        await engine.watched()
        await remote.aclose()
        assert await asyncio.wait_for(waiting, DEADLINE) is None


async def test_a_watcher_sees_one_session_when_asked() -> None:
    engine = await prepared()
    other = (await engine.start(Start(prompt="x", cwd="/"))).session_id
    expected = [event.seq for event in engine.journal if event.session_id == other]
    async with over_http(engine) as remote:
        batch = await first(remote.watch(0, session_id=other))
    assert seqs([batch]) == expected


async def test_a_watcher_survives_a_restart_of_the_server_without_loss_or_double(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_stream, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(event_stream, "LONGEST_PAUSE", 0.01)
    engine = await prepared()
    port = free_port()
    remote = RemoteEngine(f"http://127.0.0.1:{port}", TOKEN)
    found: list[Batch] = []
    async with aclosing(remote.watch(0)) as stream:
        for _ in range(3):
            async with served(make_app(engine), port=port):
                for _ in range(20):
                    engine.append(S)
                found += await gather_to(stream, engine.cursor)
            # Nobody serves this one yet; the next server has to tell it.
            engine.append(S)
        async with served(make_app(engine), port=port):
            found += await gather_to(stream, engine.cursor)
    await remote.aclose()
    assert seqs(found) == list(range(1, engine.cursor + 1))


def test_the_contract_is_imported_without_the_network() -> None:
    code = (
        "import sys, pilothouse.api.engine, pilothouse.remote;"
        "print([name for name in ('httpx', 'websockets', 'starlette') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert said.stdout.strip() == "[]"
