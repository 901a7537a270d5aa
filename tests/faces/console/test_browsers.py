"""Who is signed in, in memory and on disk."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
from pathlib import Path

import pytest

from pilothouse.errors import ServerError
from pilothouse.faces.console import browsers
from pilothouse.faces.console.browsers import Browsers
from pilothouse.folders import replace_private
from tests.support.waiting import DEADLINE

PAGE = "http://localhost"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state/browsers.json"


def kept_in(file: Path) -> tuple[int, str]:
    return file.stat().st_mode & 0o777, file.read_text()


async def test_the_file_is_for_its_user_alone_and_has_no_cookie(file: Path) -> None:
    cookie, _ = await Browsers(file).add(PAGE)
    mode, text = kept_in(file)
    assert mode == 0o600
    assert cookie not in text
    assert len(json.loads(text)) == 1


async def test_a_restart_keeps_them_signed_in(file: Path) -> None:
    cookie, browser = await Browsers(file).add(PAGE)
    found = Browsers(file).find(cookie)
    assert found is not None
    assert found.since == browser.since


async def test_a_restart_keeps_them_signed_out(file: Path) -> None:
    before = Browsers(file)
    cookies = [(await before.add(PAGE))[0] for _ in range(3)]
    gone = before.find(cookies[0])
    assert gone is not None
    assert await before.remove(gone) == 1
    assert await before.remove(gone) == 0
    after = Browsers(file)
    assert [after.find(each) is not None for each in cookies] == [False, True, True]
    assert await after.remove_all() == 2
    assert len(Browsers(file)) == 0


@pytest.mark.parametrize("guess", ["", "x", "x" * 43, "é" * 43, "\ud800" * 43])
async def test_any_other_value_is_nobodys(guess: str) -> None:
    signed_in = Browsers()
    await signed_in.add(PAGE)
    assert signed_in.find(guess) is None


async def test_the_one_that_was_not_used_for_longest_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(range(100))
    monkeypatch.setattr(browsers, "_now", lambda: next(clock))
    signed_in = Browsers(most=2)
    first, one = await signed_in.add(PAGE)
    second, two = await signed_in.add(PAGE)
    assert not two.left.done()
    assert signed_in.find(first) is one
    await signed_in.add(PAGE)
    assert [signed_in.find(each) for each in (first, second)] == [one, None]
    assert [one.left.done(), two.left.done()] == [False, True]


async def test_a_cookie_ends_after_thirty_days(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0
    monkeypatch.setattr(browsers, "_now", lambda: now)
    signed_in = Browsers()
    cookie, browser = await signed_in.add(PAGE)
    now = 30 * 24 * 3600 * 1000 - 1
    assert signed_in.find(cookie) is browser
    assert not browser.left.done()
    now += 1
    assert signed_in.find(cookie) is None
    assert browser.left.done()


async def test_when_each_was_used_is_kept_at_the_end(file: Path) -> None:
    signed_in = Browsers(file)
    _, browser = await signed_in.add(PAGE)
    browser.used_at += 5
    await signed_in.save()
    (kept,) = json.loads(kept_in(file)[1]).values()
    assert kept["used_at"] == browser.used_at


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": 1}', b"\xff", b"[" * 100_000])
async def test_a_file_that_is_none_signs_out_and_stops_no_server(
    file: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    replace_private(file, content)
    with caplog.at_level(logging.WARNING):
        signed_in = Browsers(file)
    assert len(signed_in) == 0
    assert "everybody is signed out" in caplog.text
    cookie, _ = await signed_in.add(PAGE)
    assert Browsers(file).find(cookie) is not None


async def test_where_nothing_can_be_written_nobody_is_signed_in(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    signed_in = Browsers(tmp_path / "file/browsers.json")
    with pytest.raises(ServerError, match="see to its disk"):
        await signed_in.add(PAGE)
    assert len(signed_in) == 0


async def test_what_is_open_ends_with_its_cookie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsers, "LASTS_S", 0.05)
    _, browser = await Browsers().add(PAGE)
    async with asyncio.timeout(DEADLINE):
        await browser.left


async def test_a_new_cookie_of_a_browser_takes_the_place_of_its_old_one(file: Path) -> None:
    signed_in = Browsers(file)
    old, before = await signed_in.add(PAGE)
    new, _ = await signed_in.add(PAGE, ["unknown", old])
    assert signed_in.find(old) is None
    assert before.left.done()
    assert signed_in.find(new) is not None
    assert len(signed_in) == 1


async def test_whoever_was_signed_out_stays_so_though_the_disk_was_full(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_in = Browsers(file)
    cookie, _ = await signed_in.add(PAGE)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(browsers, "replace_private", full)
        with pytest.raises(ServerError, match="to delete the file helps too"):
            await signed_in.remove_all()
    assert signed_in.find(cookie) is None
    await signed_in.aclose()
    assert Browsers(file).find(cookie) is None


async def test_where_nobody_was_ever_signed_in_there_is_no_file(file: Path) -> None:
    await Browsers(file).aclose()
    assert Browsers(file).find("x" * 43) is None
    with pytest.raises(FileNotFoundError):
        kept_in(file)
