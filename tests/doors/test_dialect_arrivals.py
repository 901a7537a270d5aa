"""What is written down when a CLI dials in."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.support.doors.dialler import RUN, SESSION, DiallingPeer, Hearer, line, said, transport


async def test_a_cli_that_dials_in_is_logged_with_what_it_calls_its_runner(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pilothouse.doors")
    cli = transport(tmp_path)
    await cli.start(Hearer())
    try:
        cli.write(line(said("u1", "user")))
        caller = DiallingPeer(cli, x_environment_runner_version="9")
        await caller.until(1)
        await caller.leave()
    finally:
        await cli.aclose(grace=0.1)
    (record,) = (each for each in caplog.records if each.message == "a CLI dialled in")
    told = vars(record)
    assert (told["runner_version"], told["session_id"], told["run"]) == ("9", SESSION, RUN)


async def test_a_post_that_is_nested_without_end_is_refused(tmp_path: Path) -> None:
    cli = transport(tmp_path, hybrid=True)
    await cli.start(Hearer())
    try:
        assert await cli.posted(b'{"events":[' + b"[" * 100_000) == 400
    finally:
        await cli.aclose(grace=0.1)
