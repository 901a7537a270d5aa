from __future__ import annotations

import asyncio
import signal

import pytest

from pilothouse.transport import Exit, MemoryTransport, TransportClosed, TransportError, pair
from tests.support.processes import Recorder


class Ends:
    """A joined pair, both ends started."""

    def __init__(self) -> None:
        self.ours, self.theirs = pair()
        self.we, self.they = Recorder(), Recorder()

    async def start(self) -> Ends:
        await self.ours.start(self.we)
        await self.theirs.start(self.they)
        return self


@pytest.fixture
async def ends() -> Ends:
    return await Ends().start()


async def test_bytes_pass_both_ways_and_never_within_the_call(ends: Ends) -> None:
    ends.ours.write(b"ping")
    ends.theirs.write(b"pong")
    assert not ends.they.data
    await ends.they.size(4)
    await ends.we.size(4)
    assert (ends.they.data, ends.we.data) == (b"ping", b"pong")


async def test_an_exit_follows_the_last_bytes_and_their_end(ends: Ends) -> None:
    ends.theirs.write(b"last")
    ends.theirs.write_stderr("why\n")
    ends.theirs.exit(3)
    await ends.we.until("exited")
    assert ends.we.calls == ["data", "eof", "exited"]
    assert ends.we.exits == [Exit(3, None, "why\n")]
    assert ends.ours.stderr_tail == "why\n"
    assert await ends.ours.aclose() is ends.we.exits[0]


async def test_an_exit_by_a_signal_has_no_code(ends: Ends) -> None:
    ends.theirs.exit(signal=signal.SIGSEGV)
    await ends.we.until("exited")
    assert ends.we.exits == [Exit(None, signal.SIGSEGV, "")]


async def test_the_end_of_input_is_seen_and_answered_before_the_exit(ends: Ends) -> None:
    ends.ours.write(b"all")
    ends.ours.close_stdin()
    await ends.they.until("eof")
    assert ends.they.data == b"all"
    ends.theirs.write(b"done")
    ends.theirs.exit(0)
    await ends.we.until("exited")
    assert ends.we.data == b"done"


async def test_held_bytes_wait_for_their_release_and_so_does_drain(ends: Ends) -> None:
    ends.ours.hold()
    ends.ours.write(b"x" * 100_000)
    draining = asyncio.ensure_future(ends.ours.drain())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not ends.they.data
    assert not draining.done()
    ends.ours.release()
    await draining
    assert len(ends.they.data) == 100_000


async def test_closers_all_get_the_same_exit_and_the_other_end_sees_one(ends: Ends) -> None:
    closing = [asyncio.ensure_future(ends.ours.aclose()) for _ in range(3)]
    await ends.they.until("exited")
    ends.theirs.exit(4)
    exits = await asyncio.gather(*closing)
    assert exits == [Exit(4, None, "")] * 3
    assert ends.they.exits == [Exit(0, None, "")]
    assert len(ends.we.exits) == 1


async def test_an_end_that_stays_is_terminated_after_the_grace(ends: Ends) -> None:
    ends.theirs.hold()
    assert await ends.ours.aclose(grace=0) == Exit(None, signal.SIGTERM, "")


async def test_both_ends_may_close_at_once(ends: Ends) -> None:
    ours, theirs = await asyncio.gather(ends.ours.aclose(), ends.theirs.aclose())
    assert ours == theirs == Exit(0, None, "")


async def test_closing_beside_an_end_that_never_started_does_not_wait() -> None:
    ours, _ = pair()
    await ours.start(Recorder())
    assert await ours.aclose() == Exit(None, None, "")


async def test_what_was_written_before_the_other_end_started_is_delivered() -> None:
    ours, theirs = pair()
    they = Recorder()
    await ours.start(Recorder())
    ours.write(b"early")
    await theirs.start(they)
    await they.size(5)
    assert they.data == b"early"


async def test_misuse_is_refused(ends: Ends) -> None:
    with pytest.raises(TransportError, match="only once"):
        await ends.ours.start(ends.we)
    with pytest.raises(TransportClosed):
        pair()[0].write(b"early")
    ends.ours.close_stdin()
    with pytest.raises(TransportClosed):
        ends.ours.write(b"late")
    ends.ours.exit()
    await ends.they.until("exited")
    with pytest.raises(TransportClosed):
        ends.theirs.write(b"to nobody")
    with pytest.raises(TransportClosed):
        await ends.theirs.drain()


async def test_a_closed_end_does_not_start() -> None:
    ours: MemoryTransport = pair()[0]
    await ours.aclose()
    with pytest.raises(TransportClosed):
        await ours.start(Recorder())
    assert ours.pid is None
