"""The server's side of runners: who is let in, what is believed, and what they are asked."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import pilothouse.doors.runners as module
from pilothouse import __version__
from pilothouse.doors import roster, runner_link
from pilothouse.doors.roster import Entry, Roster
from pilothouse.doors.runners import Runners
from pilothouse.errors import ServerError
from pilothouse.runner import messages
from pilothouse.runner.messages import (
    Drain,
    Draining,
    EndRun,
    FindTranscript,
    FoundTranscript,
    RunGone,
    StartedRun,
    StartRun,
    Welcome,
)
from pilothouse.transport import SpawnFailed
from tests.support.doors.runner_peer import Notices, RunnerPeer, arrive, hello, roster_file


@pytest.fixture
async def runners(tmp_path: Path) -> AsyncIterator[Runners]:
    made = Runners(roster_file(tmp_path))
    yield made
    await made.aclose()


@pytest.fixture
def told(runners: Runners) -> Notices:
    return Notices(runners)


def start(runners: Runners, name: str = "box", run: str = "r1") -> asyncio.Task[None]:
    return asyncio.create_task(
        runners.start(
            name,
            session_id="s1",
            run=run,
            token="its-token",
            argv=["claude", "--print"],
            env={"A": "b"},
            cwd="/somewhere",
            last_will=5.0,
        )
    )


async def started(runners: Runners, peer: RunnerPeer, run: str, name: str = "box") -> None:
    """Have a run started by a runner that does as it is told."""
    starting = start(runners, name, run)
    order = await peer.hear(StartRun)
    peer.say(StartedRun(order.id, ok=True))
    await starting


# -- names and tokens


@pytest.mark.parametrize(
    "name", ["", "-box", ".box", "Box", "a/b", "a b", "a" * 65, "böx", "box\n"]
)
async def test_a_name_that_is_none_is_refused(runners: Runners, name: str) -> None:
    with pytest.raises(ValueError, match="no name for a runner"):
        runners.add(name)


async def test_a_name_is_given_once(runners: Runners) -> None:
    runners.add("box")
    with pytest.raises(ValueError, match="already"):
        runners.add("box")


async def test_every_token_is_another(runners: Runners) -> None:
    assert runners.add("one") != runners.add("two")


async def test_the_file_is_closed_to_others_and_has_no_token(
    runners: Runners, tmp_path: Path
) -> None:
    token = runners.add("box")
    file = roster_file(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token not in file.read_text()
    assert list(json.loads(file.read_bytes())) == ["box"]
    assert not file.with_name(f"{file.name}.part").exists()


async def test_a_file_that_cannot_be_read_is_an_error_and_not_an_empty_one(tmp_path: Path) -> None:
    roster_file(tmp_path).write_text("{")
    with pytest.raises(ServerError, match="cannot be read"):
        Runners(roster_file(tmp_path))


async def test_names_and_tokens_outlive_the_server(runners: Runners, tmp_path: Path) -> None:
    token = runners.add("box")
    later = Runners(roster_file(tmp_path))
    async with await arrive(later, token):
        assert [each.state for each in later.listed()] == ["connected"]
    await later.aclose()


# -- coming in


@pytest.mark.parametrize("token", ["", "nonsense", "ünknown"])
async def test_without_a_token_of_a_runner_nobody_comes_in(runners: Runners, token: str) -> None:
    runners.add("box")
    async with RunnerPeer(runners, token) as peer:
        peer.say(hello())
        closed = await peer.ended()
    assert closed is not None
    assert closed[0] == 4001


async def test_a_runner_is_told_the_name_its_token_has(runners: Runners) -> None:
    runners.add("other")
    token = runners.add("box")
    async with RunnerPeer(runners, token) as peer:
        peer.say(hello())
        assert await peer.hear(Welcome) == Welcome("box", __version__)


async def test_a_runner_that_expects_another_name_is_sent_away(runners: Runners) -> None:
    token = runners.add("box")
    async with RunnerPeer(runners, token) as peer:
        peer.say(hello(name="bow"))
        closed = await peer.ended()
    assert closed == (4003, "this token is that of the runner box, not bow")


@pytest.mark.parametrize("text", ["", "[]", '{"type":"hello"}', '{"type":"draining","on":true}'])
async def test_whoever_does_not_say_hello_is_sent_away(runners: Runners, text: str) -> None:
    async with RunnerPeer(runners, runners.add("box")) as peer:
        peer.say_raw(text)
        closed = await peer.ended()
    assert closed is not None
    assert closed[0] == 4400


async def test_whoever_says_nothing_is_sent_away(
    runners: Runners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GREETING", 0.01)
    async with RunnerPeer(runners, runners.add("box")) as peer:
        closed = await peer.ended()
    assert closed is not None
    assert closed[0] == 4400


async def test_messages_and_members_of_a_newer_runner_are_passed_over(
    runners: Runners, told: Notices
) -> None:
    async with await arrive(runners, runners.add("box")) as peer:
        peer.say_raw('{"type":"brand_new","x":1}')
        peer.say_raw('{"type":"draining","on":true,"because":"of age"}')
        await told.becomes("box", "draining")


async def test_what_is_no_message_ends_the_connection(runners: Runners) -> None:
    async with await arrive(runners, runners.add("box")) as peer:
        peer.say_raw('{"type":"draining","on":"perhaps"}')
        closed = await peer.ended()
    assert closed is not None
    assert closed[0] == 4400


@pytest.mark.parametrize("greeted", [False, True])
async def test_a_message_that_is_much_too_long_ends_the_connection(
    runners: Runners, monkeypatch: pytest.MonkeyPatch, greeted: bool
) -> None:
    token = runners.add("box")
    async with await arrive(runners, token) if greeted else RunnerPeer(runners, token) as peer:
        fitting = '{"type":"draining","on":true}' if greeted else messages.encode(hello())
        monkeypatch.setattr(runner_link, "LONGEST", len(fitting))
        peer.say_raw(f"{fitting} ")
        closed = await peer.ended()
    assert closed is not None
    assert closed[0] == 4400
    assert runners.listed()[0].state == "away"


async def test_the_newest_connection_counts(runners: Runners, told: Notices) -> None:
    token = runners.add("box")
    async with await arrive(runners, token, "r1") as older:
        runners.believe("box", "r1")
        async with await arrive(runners, token, "r1", host="elsewhere"):
            closed = await older.ended()
            assert closed is not None
            assert closed[0] == 4009
            (state,) = runners.listed()
            assert (state.state, state.host) == ("connected", "elsewhere")
    assert told.gone == []


async def test_what_an_older_connection_says_counts_no_more(
    runners: Runners, told: Notices
) -> None:
    token = runners.add("box")
    async with await arrive(runners, token, "r1") as older:
        runners.believe("box", "r1")
        async with RunnerPeer(runners, token) as newer:
            newer.say(hello("r1"))
            older.say(RunGone("r1"))
            await newer.hear(Welcome)
            older.say(RunGone("r1"))
            await older.ended()
            assert runners.has("box", "r1") is (told.gone == [])


async def test_an_older_connection_that_takes_nothing_is_left_all_the_same(
    runners: Runners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_link, "FAREWELL", 0.01)
    token = runners.add("box")
    async with RunnerPeer(runners, token, taking=False) as older:
        older.say(hello())
        async with await arrive(runners, token):
            await older.ended()


# -- states


async def test_a_runner_that_never_came_is_away(runners: Runners) -> None:
    runners.add("box")
    (state,) = runners.listed()
    assert (state.name, state.state, state.runs) == ("box", "away", 0)


async def test_it_says_of_itself_what_it_is(runners: Runners) -> None:
    token = runners.add("box")
    async with await arrive(runners, token, "r1", "r2", cli_version="2.1.325"):
        (state,) = runners.listed()
    assert (state.host, state.program, state.cli_version) == ("there", "1.0", "2.1.325")
    assert state.runs == 2


async def test_what_it_says_of_itself_can_be_shown_on_a_terminal(runners: Runners) -> None:
    names = {"host": "a\x1b[2J\nb", "program": "1\u202e0", "cli_version": "2" * 10_000}
    async with await arrive(runners, runners.add("box"), **names):
        (state,) = runners.listed()
    assert (state.host, state.program) == ("a[2J b", "10")
    assert state.cli_version == "2" * module.LONGEST_NAME
    assert runners.listed()[0].host == "a[2J b"


async def test_only_what_is_new_of_a_visit_is_written(
    runners: Runners, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = runners.add("box")
    written: list[str] = []
    put = Roster._put

    def count(kept: Roster, name: str, entry: Entry) -> None:
        written.append(entry.host)
        put(kept, name, entry)

    monkeypatch.setattr(Roster, "_put", count)
    for host in ("here", "here", "there", "there"):
        async with await arrive(runners, token, host=host):
            pass
    assert written == ["here", "there"]


async def test_a_runner_is_away_since_the_server_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Runners(roster_file(tmp_path))
    async with await arrive(before, before.add("box")):
        pass
    await before.aclose()
    monkeypatch.setattr(module, "_now", lambda: 7)
    runners = Runners(roster_file(tmp_path))
    assert [(each.state, each.since) for each in runners.listed()] == [("away", 7)]
    await runners.aclose()


async def test_a_runner_that_stays_away_is_lost_and_can_come_back(tmp_path: Path) -> None:
    runners = Runners(roster_file(tmp_path), lost_after=0.01)
    told = Notices(runners)
    token = runners.add("box")
    async with await arrive(runners, token):
        pass
    await told.becomes("box", "lost")
    async with await arrive(runners, token):
        pass
    await told.until(lambda: len(told.changes) == 7)
    states = [state for _, state in told.changes]
    assert states == ["away", "connected", "away", "lost", "connected", "away", "lost"]
    await runners.aclose()


async def test_a_runner_that_was_there_before_a_restart_is_missed(tmp_path: Path) -> None:
    before = Runners(roster_file(tmp_path))
    async with await arrive(before, before.add("box")):
        pass
    before.add("never-came")
    await before.aclose()
    runners = Runners(roster_file(tmp_path), lost_after=0.01)
    told = Notices(runners)
    await told.becomes("box", "lost")
    assert [(each.name, each.state, each.host) for each in runners.listed()] == [
        ("box", "lost", "there"),
        ("never-came", "away", ""),
    ]
    await runners.aclose()


async def test_a_closed_server_leaves_its_runners_in_order(tmp_path: Path) -> None:
    runners = Runners(roster_file(tmp_path), lost_after=0.0)
    async with await arrive(runners, runners.add("box")) as peer:
        await runners.aclose()
        assert peer.closed == (1001, "the server ends")


async def test_a_disk_that_is_full_keeps_no_runner_away(
    runners: Runners, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    token = runners.add("box")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(roster, "_write", fail)
    async with await arrive(runners, token):
        assert runners.listed()[0].state == "connected"
    assert "cannot be kept" in caplog.text
    with pytest.raises(ServerError, match="disk full; see to its disk"):
        runners.add("another")
    assert [each.name for each in runners.listed()] == ["box"]


# -- starting


async def test_an_order_to_start_says_everything(runners: Runners) -> None:
    async with await arrive(runners, runners.add("box")) as peer:
        starting = start(runners)
        order = await peer.hear(StartRun)
        assert (order.session_id, order.run, order.token) == ("s1", "r1", "its-token")
        assert (order.argv, order.env) == (("claude", "--print"), {"A": "b"})
        assert (order.cwd, order.last_will) == ("/somewhere", 5.0)
        assert runners.has("box", "r1") is False
        peer.say(StartedRun(order.id, ok=True))
        await starting
        assert runners.has("box", "r1") is True
    assert runners.has("box", "r1") is None


async def test_a_runners_own_reason_is_told(runners: Runners, told: Notices) -> None:
    async with await arrive(runners, runners.add("box")) as peer:
        starting = start(runners)
        order = await peer.hear(StartRun)
        peer.say(StartedRun(order.id, ok=False, reason="there is no such directory"))
        with pytest.raises(SpawnFailed, match="a session on box: there is no such directory"):
            await starting
    assert told.gone == []


async def test_who_is_not_there_starts_nothing_and_it_says_what_to_do(
    runners: Runners, told: Notices
) -> None:
    with pytest.raises(SpawnFailed, match="no runner has that name"):
        await start(runners, "nobody")
    token = runners.add("box")
    with pytest.raises(SpawnFailed, match="is away; start it: pilothouse runner"):
        await start(runners)
    async with await arrive(runners, token):
        runners.drain("box", on=True)
        with pytest.raises(SpawnFailed, match="runners undrain box"):
            await start(runners)
        runners.revoke("box")
    with pytest.raises(SpawnFailed, match="revoked"):
        await start(runners)


async def test_a_lost_runner_is_named_with_its_host(tmp_path: Path) -> None:
    runners = Runners(roster_file(tmp_path), lost_after=0.0)
    told = Notices(runners)
    async with await arrive(runners, runners.add("box")):
        pass
    await told.becomes("box", "lost")
    with pytest.raises(SpawnFailed, match="is lost; start it on there"):
        await start(runners)
    with pytest.raises(SpawnFailed, match="is lost"):
        await runners.find("box", "s1")
    await runners.aclose()


async def test_a_connection_that_breaks_fails_what_was_asked_on_it(
    runners: Runners, told: Notices
) -> None:
    async with await arrive(runners, runners.add("box")) as peer:
        starting = start(runners)
        await peer.hear(StartRun)
    with pytest.raises(SpawnFailed, match="broke meanwhile"):
        await starting
    assert told.gone == []


async def test_a_runner_that_does_not_answer_is_not_waited_for_and_a_late_start_is_ended(
    runners: Runners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_link, "ANSWER", 0.01)
    async with await arrive(runners, runners.add("box")) as peer:
        with pytest.raises(SpawnFailed, match="has not answered"):
            await start(runners)
        order = await peer.hear(StartRun)
        peer.say(StartedRun(order.id, ok=True))
        assert await peer.hear(EndRun) == EndRun("r1")


async def test_a_start_that_nobody_waits_for_any_more_is_ended(runners: Runners) -> None:
    async with await arrive(runners, runners.add("box")) as peer:
        starting = start(runners)
        order = await peer.hear(StartRun)
        starting.cancel()
        await asyncio.wait([starting])
        peer.say(StartedRun(order.id, ok=True))
        assert await peer.hear(EndRun) == EndRun("r1")


async def test_answers_that_nobody_asked_for_change_nothing(runners: Runners) -> None:
    async with await arrive(runners, runners.add("box")) as peer:
        peer.say(StartedRun(77, ok=True))
        peer.say(FoundTranscript(78, found=True))
        await started(runners, peer, "r1")
        assert runners.listed()[0].runs == 1


# -- runs that are gone


async def test_a_run_that_is_gone_is_told_once(runners: Runners, told: Notices) -> None:
    async with await arrive(runners, runners.add("box")) as peer:
        await started(runners, peer, "r1")
        peer.say(RunGone("r1", "its relay was killed"))
        peer.say(RunGone("r1", "again"))
        peer.say(Draining(on=True))
        await told.becomes("box", "draining")
        assert runners.has("box", "r1") is False
    assert told.gone == [("box", "r1", "its relay was killed")]


async def test_a_run_that_was_forgotten_is_not_told(runners: Runners, told: Notices) -> None:
    async with await arrive(runners, runners.add("box")) as peer:
        await started(runners, peer, "r1")
        runners.forget("r1")
        peer.say(RunGone("r1"))
        peer.say(Draining(on=True))
        await told.becomes("box", "draining")
    assert told.gone == []


async def test_a_runner_speaks_for_its_own_runs_alone(
    runners: Runners, told: Notices, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = runners.add("one"), runners.add("two")
    async with await arrive(runners, one) as peer, await arrive(runners, two) as rogue:
        await started(runners, peer, "r1", "one")
        with caplog.at_level(logging.WARNING):
            rogue.say(RunGone("r1", "so there"))
            rogue.say(Draining(on=True))
            await told.becomes("two", "draining")
        assert "not its own" in caplog.text
        assert runners.has("one", "r1") is True
    assert told.gone == []


async def test_a_runner_cannot_claim_the_run_of_another(runners: Runners) -> None:
    one, two = runners.add("one"), runners.add("two")
    async with await arrive(runners, one) as peer:
        await started(runners, peer, "r1", "one")
        async with await arrive(runners, two, "r1"):
            assert runners.has("two", "r1") is False
            assert runners.has("one", "r1") is True


async def test_what_a_runner_calls_its_runs_is_no_name_of_a_file(
    runners: Runners, told: Notices, tmp_path: Path
) -> None:
    hostile = ["../../x", "/x", "..", "", "a\0", "\n"]
    token = runners.add("box")
    before = sorted(tmp_path.parent.rglob("*"))
    async with await arrive(runners, token, *hostile) as peer:
        for each in hostile:
            peer.say(RunGone(each, "so there"))
        peer.say(Draining(on=True))
        await told.becomes("box", "draining")
    assert told.gone == []
    assert sorted(tmp_path.parent.rglob("*")) == before


async def test_runs_that_a_returning_runner_does_not_have_are_gone(
    runners: Runners, told: Notices
) -> None:
    token = runners.add("box")
    async with await arrive(runners, token) as peer:
        await started(runners, peer, "r1")
        await started(runners, peer, "r2")
    async with await arrive(runners, token, "r2"):
        assert told.gone_runs == [("box", "r1")]
        assert runners.has("box", "r2") is True


async def test_after_a_restart_what_is_believed_is_compared_when_the_runner_comes(
    runners: Runners, told: Notices
) -> None:
    token = runners.add("box")
    runners.believe("box", "r1")
    runners.believe("box", "r2")
    async with await arrive(runners, token, "r2"):
        assert told.gone_runs == [("box", "r1")]


async def test_of_a_runner_that_is_here_it_is_known_which_runs_it_has(runners: Runners) -> None:
    async with await arrive(runners, runners.add("box"), "r2"):
        runners.believe("box", "r1")
        runners.believe("box", "r2")
        assert runners.has("box", "r1") is False
        assert runners.has("box", "r2") is True


async def test_a_run_that_is_just_being_started_is_not_taken_for_gone(
    runners: Runners, told: Notices
) -> None:
    async with await arrive(runners, runners.add("box")) as peer:
        runners.believe("box", "r1")
        await started(runners, peer, "r1")
    assert told.gone == []


# -- ending


async def test_a_run_is_ended_by_its_runner(runners: Runners) -> None:
    async with await arrive(runners, runners.add("box"), "r1") as peer:
        runners.end("box", "r1")
        assert await peer.hear(EndRun) == EndRun("r1")


async def test_a_run_is_ended_when_its_runner_comes_back_with_it(runners: Runners) -> None:
    token = runners.add("box")
    runners.end("box", "r1")
    runners.end("box", "r2")
    async with await arrive(runners, token, "r1") as peer:
        assert await peer.hear(EndRun) == EndRun("r1")
        peer.say(RunGone("r1"))
    async with await arrive(runners, token, "r2") as peer:
        # What it came back without had ended; a run of that name is another's now.
        runners.drain("box", on=True)
        await peer.hear(Drain)


# -- draining


async def test_a_drained_runner_is_told_and_told_again_when_it_comes_back(
    runners: Runners, told: Notices
) -> None:
    token = runners.add("box")
    async with await arrive(runners, token) as peer:
        runners.drain("box", on=True)
        assert await peer.hear(Drain) == Drain(on=True)
        assert runners.listed()[0].state == "draining"
    async with await arrive(runners, token) as peer:
        assert await peer.hear(Drain) == Drain(on=True)
        runners.drain("box", on=False)
        assert await peer.hear(Drain) == Drain(on=False)
        assert runners.listed()[0].state == "connected"


async def test_draining_outlives_the_server(runners: Runners, tmp_path: Path) -> None:
    token = runners.add("box")
    runners.drain("box", on=True)
    later = Runners(roster_file(tmp_path))
    async with await arrive(later, token) as peer:
        await peer.hear(Drain)
    await later.aclose()


async def test_a_runner_may_drain_itself(runners: Runners, told: Notices) -> None:
    async with await arrive(runners, runners.add("box"), draining=True) as peer:
        assert runners.listed()[0].state == "draining"
        peer.say(Draining(on=False))
        await told.becomes("box", "connected")


async def test_what_is_not_there_cannot_be_drained_or_revoked(runners: Runners) -> None:
    with pytest.raises(ValueError, match="no runner nobody"):
        runners.drain("nobody", on=True)
    with pytest.raises(ValueError, match="no runner nobody"):
        runners.revoke("nobody")


# -- revoking


async def test_a_revoked_runner_is_sent_away_and_does_not_come_in_again(
    runners: Runners, told: Notices
) -> None:
    token = runners.add("box")
    async with await arrive(runners, token) as peer:
        await started(runners, peer, "r1")
        assert runners.is_trusted("box")
        runners.revoke("box")
        assert not runners.is_trusted("box")
        assert await peer.ended() == (4001, "this runner was revoked")
    async with RunnerPeer(runners, token) as peer:
        peer.say(hello())
        closed = await peer.ended()
    assert closed is not None
    assert closed[0] == 4001
    assert told.gone_runs == [("box", "r1")]
    assert runners.listed() == []
    state = runners.state("box")
    assert state is not None
    assert state.state == "revoked"


async def test_a_runner_revoked_between_its_token_and_its_hello_does_not_come_in(
    runners: Runners,
) -> None:
    async with RunnerPeer(runners, runners.add("box")) as peer:
        await asyncio.sleep(0)
        runners.revoke("box")
        peer.say(hello())
        assert await peer.ended() == (4001, "this runner was revoked")


async def test_a_revoked_name_can_be_given_anew_and_the_old_token_stays_void(
    runners: Runners, tmp_path: Path
) -> None:
    old = runners.add("box")
    runners.revoke("box")
    new = runners.add("box")
    assert runners.is_trusted("box")
    later = Runners(roster_file(tmp_path))
    async with RunnerPeer(later, old) as peer:
        peer.say(hello())
        await peer.ended()
        assert peer.closed is not None
    async with await arrive(later, new):
        assert later.listed()[0].state == "connected"
    await later.aclose()


async def test_this_machine_is_trusted_and_one_never_heard_of_is_not(runners: Runners) -> None:
    assert runners.is_trusted("")
    assert not runners.is_trusted("nobody")


async def test_a_start_on_a_runner_that_is_revoked_meanwhile_fails(runners: Runners) -> None:
    async with await arrive(runners, runners.add("box")) as peer:
        starting = start(runners)
        await peer.hear(StartRun)
        runners.revoke("box")
        with pytest.raises(SpawnFailed, match="closed meanwhile"):
            await starting


# -- transcripts


@pytest.mark.parametrize("found", [True, False])
async def test_a_runner_is_asked_for_a_transcript(runners: Runners, found: bool) -> None:
    async with await arrive(runners, runners.add("box")) as peer:
        finding = asyncio.create_task(runners.find("box", "s1"))
        order = await peer.hear(FindTranscript)
        assert order.session_id == "s1"
        peer.say(FoundTranscript(order.id, found=found))
        assert await finding is found
