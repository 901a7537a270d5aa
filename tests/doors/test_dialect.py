"""The `--sdk-url` dialect with a program in the CLI's place: launch, connections, posts, end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pilothouse.doors import dialect, dialect_lines
from pilothouse.doors.dialect import SdkUrlTransport, refuses
from pilothouse.transport import TransportClosed, TransportError
from tests.support.doors.dialler import (
    RUN,
    SECRET,
    SESSION,
    DiallingPeer,
    Hearer,
    answer,
    line,
    request,
    said,
    told,
    transport,
)
from tests.support.waiting import DEADLINE


@asynccontextmanager
async def started(
    folder: Path, *, hybrid: bool = False, **env: str
) -> AsyncIterator[tuple[SdkUrlTransport, Hearer]]:
    cli, hearer = transport(folder, hybrid=hybrid, **env), Hearer()
    await cli.start(hearer)
    try:
        yield cli, hearer
    finally:
        await cli.aclose(grace=0.1)


def environ(pid: int | None) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


async def test_the_launch_names_our_door_and_hands_the_token_over_by_descriptor(
    tmp_path: Path,
) -> None:
    async with started(tmp_path, CLAUDE_CODE_SESSION_ACCESS_TOKEN="another") as (cli, _):
        given = await told(tmp_path)
        assert given["argv"] == ["--sdk-url=ws://127.0.0.1:1/ws/se%20ss%2Fion"]
        assert given["token"] == SECRET
        assert SECRET not in json.dumps([given["argv"], given["env"]])
        assert "CLAUDE_CODE_SESSION_ACCESS_TOKEN" not in given["env"]
        assert SECRET.encode() not in environ(cli.pid)


async def test_the_cli_is_told_that_it_works_for_a_server(tmp_path: Path) -> None:
    async with started(tmp_path):
        env = (await told(tmp_path))["env"]
        # It would have later builds write the token to a file below /home/claude.
        assert "CLAUDE_CODE_REMOTE" not in env
        assert env["CLAUDE_CODE_REMOTE_SESSION_ID"] == SESSION
        assert env["CLAUDE_CODE_CONTAINER_ID"] == RUN
        assert env["CLAUDE_CODE_ENVIRONMENT_RUNNER_VERSION"].startswith("pilothouse/")
        assert "CLAUDE_CODE_POST_FOR_SESSION_INGRESS_V2" not in env


async def test_what_the_launch_says_itself_stays(tmp_path: Path) -> None:
    async with started(tmp_path, hybrid=True, CLAUDE_CODE_REMOTE="1"):
        env = (await told(tmp_path))["env"]
        assert env["CLAUDE_CODE_REMOTE"] == "1"
        assert env["CLAUDE_CODE_POST_FOR_SESSION_INGRESS_V2"] == "1"


async def test_what_is_written_early_waits_for_the_connection(tmp_path: Path) -> None:
    async with started(tmp_path) as (cli, _):
        cli.write(b'{"type":"us')
        cli.write(b'er","uuid":"u1"}\n')
        caller = DiallingPeer(cli, x_environment_runner_version="9")
        assert await caller.until(1) == [said("u1", "user")]
        cli.write(line(said("u2", "user")))
        assert len(await caller.until(2)) == 2
        assert cli.runner_version == "9"
        assert cli.connected
        await caller.leave()
        assert not cli.connected


async def test_its_lines_are_received_each_with_its_newline(tmp_path: Path) -> None:
    async with started(tmp_path) as (cli, hearer):
        caller = DiallingPeer(cli)
        await caller.say(said("a"), {"type": "keep_alive"}, said("b"))
        assert hearer.data.endswith(b"\n")
        assert hearer.lines == [said("a"), {"type": "keep_alive"}, said("b")]
        await caller.leave()


async def test_what_is_said_again_after_a_reconnect_is_received_once(tmp_path: Path) -> None:
    async with started(tmp_path) as (cli, hearer):
        lost: list[str] = []
        reconnects: list[int] = []
        cli.lost_lines = lambda because, lines=None: lost.append(because)
        cli.reconnected = lambda: reconnects.append(1)
        first = DiallingPeer(cli)
        await first.say(said("a"), said("b"))
        await first.leave()
        assert reconnects == []
        second = DiallingPeer(cli, x_last_request_id="c")
        await second.say(said("a"), said("b"), said("c"), said("d"))
        assert [each["uuid"] for each in hearer.lines] == ["a", "b", "c", "d"]
        assert (lost, reconnects) == ([], [1])
        await second.leave()


async def test_a_build_that_repeats_nothing_is_found_out_by_its_first_line(tmp_path: Path) -> None:
    async with started(tmp_path) as (cli, hearer):
        lost: list[str] = []
        cli.lost_lines = lambda because, lines=None: lost.append(because)
        first = DiallingPeer(cli)
        await first.say(said("a"))
        await first.leave()
        second = DiallingPeer(cli, x_last_request_id="c")
        await second.say(said("d"))
        assert [each["uuid"] for each in hearer.lines] == ["a", "d"]
        assert len(lost) == 1
        await second.leave()


async def test_a_loss_is_told_even_if_nothing_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialect, "REPEAT_DEADLINE", 0.01)
    async with started(tmp_path) as (cli, _):
        lost: asyncio.Queue[str] = asyncio.Queue()
        cli.lost_lines = lambda because, lines=None: lost.put_nowait(because)
        caller = DiallingPeer(cli, x_last_request_id="never-came")
        async with asyncio.timeout(DEADLINE):
            assert "gone" in await lost.get()
        await caller.leave()


async def test_the_newest_connection_wins_and_the_older_ones_words_do_not_count(
    tmp_path: Path,
) -> None:
    async with started(tmp_path) as (cli, hearer):
        older = DiallingPeer(cli)
        await older.say(said("a"))
        newer = DiallingPeer(cli)
        await newer.say(said("b"))
        await older.say(said("c"))
        await older.left()
        assert older.code == 4009
        assert [each["uuid"] for each in hearer.lines] == ["a", "b"]
        cli.write(line(said("u", "user")))
        assert await newer.until(1) == [said("u", "user")]
        await newer.leave()


async def test_what_was_handed_to_a_broken_connection_is_sent_again(tmp_path: Path) -> None:
    async with started(tmp_path) as (cli, _):
        first = DiallingPeer(cli)
        cli.write(line(request("q", "set_model")) + line(said("u", "user")) + line(answer("p")))
        await first.until(3)
        await first.say(answer("q"))
        await first.leave()
        cli.write(line(request("later", "initialize")))
        second = DiallingPeer(cli)
        expected = [said("u", "user"), answer("p"), request("later", "initialize")]
        assert await second.until(3) == expected
        await second.leave()


async def test_a_batch_is_taken_once_however_often_it_is_posted(tmp_path: Path) -> None:
    async with started(tmp_path, hybrid=True) as (cli, hearer):
        events = [said("a"), request("q"), answer("r")]
        body = json.dumps({"events": events}, indent=1).encode()
        assert await cli.posted(body) == 200
        assert await cli.posted(body) == 200
        assert hearer.lines == events


@pytest.mark.parametrize("body", [b"", b"[]", b'{"events":1}', b'{"events":[1]}', b"\xff"])
async def test_nonsense_that_is_posted_is_refused(tmp_path: Path, body: bytes) -> None:
    async with started(tmp_path, hybrid=True) as (cli, hearer):
        assert await cli.posted(body) == 400
        assert hearer.data == b""


async def test_an_answer_in_the_hybrid_mode_is_repeated_until_it_is_echoed(tmp_path: Path) -> None:
    async with started(tmp_path, hybrid=True) as (cli, _):
        caller = DiallingPeer(cli)
        cli.write(line(answer("q")))
        assert await caller.until(2) == [answer("q")] * 2
        assert await cli.posted(json.dumps({"events": [answer("q")]}).encode()) == 200
        heard = len(caller.lines)
        cli.write(line(answer("r")))
        later = await caller.until(heard + 2)
        assert later[heard:] == [answer("r")] * 2
        await caller.leave()


async def test_closing_sends_what_is_queued_and_then_interrupts(tmp_path: Path) -> None:
    async with started(tmp_path) as (cli, hearer):
        await told(tmp_path)
        caller = DiallingPeer(cli)
        cli.write(line(said("u", "user")))
        cli.close_stdin()
        with pytest.raises(TransportClosed):
            cli.write(b"{}\n")
        assert await caller.until(1) == [said("u", "user")]
        await caller.say(said("last"))
        await caller.leave()
        async with asyncio.timeout(DEADLINE):
            await hearer.gone.wait()
        assert hearer.order == ["data", "eof", "exited"]
        assert hearer.exits[0].code == 0
        with pytest.raises(TransportClosed):
            await cli.drain()


async def test_every_closer_gets_the_same_exit(tmp_path: Path) -> None:
    async with started(tmp_path) as (cli, hearer):
        await told(tmp_path)
        exits = await asyncio.gather(cli.aclose(grace=DEADLINE), cli.aclose(grace=DEADLINE))
        assert [exits[0], exits[0]] == exits
        assert hearer.exits == [exits[0]]


async def test_the_end_waits_for_the_last_frames(tmp_path: Path) -> None:
    async with started(tmp_path) as (cli, hearer):
        await told(tmp_path)
        caller = DiallingPeer(cli)
        await caller.say(said("a"))
        closing = asyncio.create_task(cli.aclose(grace=DEADLINE))
        while cli._exit is None:  # noqa: ASYNC110 - it is told only after the last frame
            await asyncio.sleep(0.01)
        assert not hearer.exits
        await caller.say(said("b"))
        await caller.leave()
        await closing
        assert [each["uuid"] for each in hearer.lines] == ["a", "b"]


async def test_whoever_comes_after_the_end_is_sent_away(tmp_path: Path) -> None:
    async with started(tmp_path) as (cli, _):
        await cli.aclose(grace=0)
        late = DiallingPeer(cli)
        await late.left()
        assert late.code == 4010
        assert await cli.posted(b'{"events":[]}') == 410


async def test_a_cli_that_ends_by_itself_is_told_with_its_signal(tmp_path: Path) -> None:
    async with started(tmp_path) as (cli, hearer):
        assert cli.pid is not None
        os.kill(cli.pid, signal.SIGKILL)
        async with asyncio.timeout(DEADLINE):
            await hearer.gone.wait()
        assert hearer.exits[0].signal == signal.SIGKILL


async def test_a_transport_starts_once_and_may_be_closed_unstarted(tmp_path: Path) -> None:
    async with started(tmp_path) as (cli, _):
        with pytest.raises(TransportError):
            await cli.start(Hearer())
    unstarted = transport(tmp_path)
    with pytest.raises(TransportClosed):
        unstarted.write(b"{}\n")
    assert (await unstarted.aclose()).code is None


def test_the_first_cli_that_refuses_is_explained() -> None:
    assert refuses((2, 1, 120)) is None
    sentence = refuses((2, 1, 121))
    assert sentence is not None
    assert "2.1.121" in sentence
    assert "relay" in sentence


# Lines that are too long


async def test_a_line_without_end_is_dropped_alone_and_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialect_lines, "LONGEST_LINE", 60)
    async with started(tmp_path) as (cli, hearer):
        lost: list[str] = []
        cli.lost_lines = lambda because, lines=None: lost.append(because)
        caller = DiallingPeer(cli)
        await caller.say(said("a"))
        await caller.say_parts("x" * 50, "x" * 50, "x" * 50 + "\n" + json.dumps(said("b"))[:9])
        await caller.say_parts(json.dumps(said("b"))[9:] + "\n")
        assert hearer.lines == [said("a"), said("b")]
        [sentence] = lost
        assert sentence.startswith("a line of the CLI was lost: it had 150 bytes")
        await caller.leave()


async def test_a_cli_that_sends_more_than_a_line_at_once_is_ended(tmp_path: Path) -> None:
    async with started(tmp_path) as (cli, hearer):
        lost: list[str] = []
        cli.lost_lines = lambda because, lines=None: lost.append(because)
        await told(tmp_path)
        caller = DiallingPeer(cli)
        await caller.leave(1009)
        async with asyncio.timeout(DEADLINE):
            await hearer.gone.wait()
        assert len(lost) == 1
