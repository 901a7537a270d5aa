"""`pilothouse open`, and the link that `pilothouse serve` prints."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import stat
import sys
from pathlib import Path

import pytest

from pilothouse.api.console import ConsoleLink
from pilothouse.errors import ServerError
from pilothouse.server.background import Address
from pilothouse.server.console_link import FILE_NAME, _ask, _read, show
from tests.support.http.visitor import Visitor
from tests.support.server.machine import Machine
from tests.support.strangers import Stranger, listening
from tests.support.waiting import DEADLINE, until

BUILT = """
import sys
from pathlib import Path
from pilothouse.cli import main
from pilothouse.faces.console import page_files
page_files.DIST = Path(sys.argv[1])
sys.exit(main(["serve"]))
"""
LINK = ConsoleLink(url="http://127.0.0.1:8137/#enter=a&b", expires_at=0)


@pytest.fixture
def built(tmp_path: Path) -> list[str]:
    """The command of a server with a page."""
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist/index.html").write_text("<!doctype html><title>Console</title>")
    return [sys.executable, "-c", BUILT, str(tmp_path / "dist")]


async def entered(url: str) -> Visitor:
    """A browser that has followed the link; whoever calls closes it."""
    address, _, code = url.partition("/#enter=")
    browser = Visitor.at(address)
    answer = await browser.enter(code)
    assert answer.status_code == 200, answer.text
    return browser


async def test_the_printed_link_signs_a_browser_in_and_a_restart_does_not_sign_it_out(
    machine: Machine,
) -> None:
    serving = await machine.serve()
    ran = await machine.run("open", "--print")
    assert ran.code == 0, ran.err
    url = ran.out.strip()
    assert url.startswith(f"{serving.address}/#enter=")
    async with await entered(url) as browser:
        assert (await browser.get("/api/sessions")).status_code == 200
        cookie = browser.cookie.partition("=")[2]
        await serving.end()
        machine.env["PILOTHOUSE_PORT"] = serving.address.rpartition(":")[2]
        again = await machine.serve()
        assert again.address == serving.address
        assert (await browser.get("/console/me")).json()["signed_in"] is True
        assert (await browser.post("/console/leave", {"everywhere": True})).status_code == 200
    kept = machine.settings.state_dir / "browsers.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    code = url.partition("#enter=")[2]
    told = serving.errors + again.errors + "".join(serving.told + again.told) + kept.read_text()
    assert code not in told
    assert cookie not in told


async def test_a_server_is_started_where_none_runs(machine: Machine) -> None:
    ran = await machine.run("open", "--print")
    running = machine.found()
    assert running is not None
    assert ran.out.startswith(f"{running.address}/#enter=")
    code = ran.out.strip().partition("#enter=")[2]
    assert code not in (machine.settings.state_dir / "server.log").read_text()


async def test_without_a_page_both_say_so_in_one_line(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    serving = await machine.start(sys.executable, "-c", BUILT, str(tmp_path / "none"))
    ran = await machine.run("open", "--print")
    assert ran.err.splitlines()[0].startswith("no console was built: run ./scripts/start")
    (told,) = [line for line in await serving.rest() if "console" in line]
    assert told.startswith("no console was built: run ./scripts/start")


async def test_a_log_gets_no_link(machine: Machine, built: list[str]) -> None:
    serving = await machine.start(*built)
    (told,) = await serving.rest()
    assert told.startswith("try: curl")


async def test_a_person_at_a_terminal_gets_a_link(machine: Machine, built: list[str]) -> None:
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *built, env=machine.env, stdin=asyncio.subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    try:
        async with asyncio.timeout(DEADLINE):
            url = await asyncio.to_thread(read_link, ours)
        async with await entered(url) as browser:
            assert (await browser.get("/console/me")).status_code == 200
            assert "<title>Console" in (await browser.http.get("/")).text
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), DEADLINE)
        os.close(ours)


def read_link(terminal: int) -> str:
    with os.fdopen(os.dup(terminal), "r", newline="") as lines:
        for line in lines:
            if line.startswith("open the console: "):
                return line.partition(": ")[2].strip()
    raise AssertionError("the server ended")


async def test_what_only_listens_there_is_not_shown_the_token() -> None:
    async with listening(Stranger(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as stranger:
        found = Address(f"http://127.0.0.1:{stranger.port}", "a-token-of-some-length")
        with pytest.raises(ServerError, match="the token was not sent"):
            await asyncio.to_thread(_ask, found, None)
    assert b"a-token-of" not in stranger.all_seen


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (404, b'{"type":"","title":"","status":404,"detail":"","code":"","advice":""}', "stop"),
        (503, b'{"type":"","title":"","status":1,"detail":"no","code":"","advice":"wait"}', "wait"),
        (200, b"", "but 200"),
        (502, b"<html>", "but 502"),
    ],
)
def test_an_answer_that_is_no_link_is_one_line(status: int, body: bytes, why: str) -> None:
    with pytest.raises(ServerError, match=why):
        _read(status, body)


async def test_the_browser_is_given_a_private_file_and_no_link(machine: Machine) -> None:
    seen = machine.folder / "seen"
    program = machine.folder / "browser"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > {seen}.part && mv {seen}.part {seen}\n')
    program.chmod(0o755)
    machine.env["BROWSER"] = str(program)
    await machine.serve()
    ran = await machine.run("open")
    assert ran.code == 0, ran.err
    await until(seen.exists)
    file = machine.settings.runtime_dir / FILE_NAME
    assert seen.read_text() == file.as_uri()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    url = ran.out.strip()
    assert f'content="0; url={url}"' in file.read_text()
    async with await entered(url) as browser:
        assert (await browser.get("/console/me")).status_code == 200


def test_nothing_is_opened_where_there_is_no_display(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert show(LINK, tmp_path, {"TERM": "xterm", "DISPLAY": ""}) is False
    assert [*tmp_path.iterdir()] == []
