"""Addresses, tokens, timers, frames and the registry."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.relay import door_frames, registry, tokens
from pilothouse.relay.addresses import BadAddress, parse, reachable
from pilothouse.relay.door_frames import Frame, FrameError, FrameKind, RelayHello
from pilothouse.relay.main import main
from pilothouse.relay.timers import Timers

# Addresses


def test_the_path_names_the_session() -> None:
    target = parse("ws://there:8137", "a b/c")
    assert target.url == "ws://there:8137/relay/a%20b%2Fc"
    assert (target.host, target.port, target.secure, target.is_local) == (
        "there",
        8137,
        False,
        False,
    )


def test_a_prefix_stays_and_a_missing_port_is_the_schemes() -> None:
    target = parse("wss://there/up/", "s")
    assert (target.url, target.port, target.secure) == ("wss://there/up/relay/s", 443, True)
    assert parse("https://[::1]:9/", "s").url == "wss://[::1]:9/relay/s"
    assert parse("http://127.0.0.1", "s").is_local


def test_a_unix_socket_is_named_by_its_path() -> None:
    target = parse("unix:/run/door", "s")
    assert (target.unix, target.url) == ("/run/door", "ws://localhost/relay/s")
    assert target.is_local


@pytest.mark.parametrize(
    "given",
    [
        "there",
        "ftp://there",
        "ws://",
        "unix:",
        "ws://me:pw@there",
        "ws://there?token=x",
        "ws://a:b",
    ],
)
def test_what_names_no_door_or_could_carry_a_secret_is_refused(given: str) -> None:
    with pytest.raises(BadAddress):
        parse(given, "s")


def long_path(folder: Path) -> Path:
    place = folder / ("a" * 100) / ("b" * 100) / "door"
    place.parent.mkdir(parents=True)
    return place


def test_a_socket_with_a_long_path_is_reached_through_its_folder(tmp_path: Path) -> None:
    place = long_path(tmp_path)
    assert parse(f"unix:{place}", "s").unix == str(place)
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        with reachable(str(place)) as name:
            server.bind(name)
        server.listen()
        assert place.is_socket()
        before = os.listdir("/proc/self/fd")  # noqa: PTH208
        with reachable(str(place)) as name:
            client.connect(name)
        assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


def test_a_long_path_is_refused_where_nothing_leads_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadAddress, match="set state_dir to a shorter folder"):
        parse(f"unix:{tmp_path / ('a' * 108)}", "s")
    place = long_path(tmp_path)
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(BadAddress, match="set state_dir to a shorter folder"):
        parse(f"unix:{place}", "s")


# Tokens


def test_a_token_file_must_be_closed_to_others(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    file.chmod(0o640)
    with pytest.raises(tokens.TokenRefused, match="chmod 600"):
        tokens.from_file(str(file))
    file.chmod(0o600)
    assert tokens.from_file(str(file)) == "secret"


@pytest.mark.parametrize("text", ["", "two words", "line\nbreak", "ü"])
def test_what_no_header_can_carry_is_no_token(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(text)
    with pytest.raises(tokens.TokenRefused):
        tokens.from_file(str(file))


def test_a_tokens_descriptor_is_closed_once_it_is_read() -> None:
    readable, writable = os.pipe()
    os.write(writable, b"secret")
    os.close(writable)
    assert tokens.from_fd(readable) == "secret"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(readable)
    with pytest.raises(tokens.TokenRefused):
        tokens.from_fd(readable)


# The command


@pytest.mark.parametrize(
    "words",
    [
        ["--connect", "ws://x", "--session", "s", "--run", "r", "--token-fd", "3"],
        ["--connect", "ws://x", "--session", "s", "--run", "r", "--", "claude"],
        ["--session", "s", "--run", "r", "--token-fd", "3", "--", "claude"],
        ["--connect", "ws://x", "--session", "s", "--run", "r", "--token", "x", "--", "claude"],
    ],
)
def test_a_command_that_lacks_something_is_a_usage_error(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(words)
    assert raised.value.code == 2
    assert "usage: pilothouse relay --connect URL" in capsys.readouterr().err


def test_a_token_that_others_could_read_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    file.write_text("secret")
    file.chmod(0o644)
    words = ["--connect", "ws://x", "--session", "s", "--run", "r", "--token-file", str(file)]
    spool = tmp_path / "spool"
    assert main([*words, "--spool", str(spool), "--", "touch", str(tmp_path / "started")]) == 2
    assert "chmod 600" in capsys.readouterr().err
    assert not spool.exists()
    assert not (tmp_path / "started").exists()


# Timers


def test_a_timer_is_called_once_and_the_last_date_of_a_name_counts() -> None:
    timers, called = Timers(), list[str]()
    assert timers.patience() is None
    timers.set("one", 0, lambda: called.append("never"))
    timers.set("one", 0, lambda: called.append("one"))
    timers.set("later", 1000, lambda: called.append("later"))
    assert timers.patience() == 0
    timers.run_due()
    timers.run_due()
    assert called == ["one"]
    assert "later" in timers


def test_a_timer_may_cancel_another_that_is_due() -> None:
    timers, called = Timers(), list[str]()
    timers.set("one", 0, lambda: timers.cancel("two"))
    timers.set("two", 0, lambda: called.append("two"))
    timers.run_due()
    assert called == []


# Frames


@given(
    kind=st.sampled_from(FrameKind),
    number=st.integers(0, 2**64 - 1),
    acknowledged=st.integers(0, 2**64 - 1),
    payload=st.binary(),
)
def test_a_frame_survives_the_wire(
    kind: FrameKind, number: int, acknowledged: int, payload: bytes
) -> None:
    frame = Frame(kind, number, acknowledged, payload)
    assert door_frames.decode(door_frames.encode(frame)) == frame


@pytest.mark.parametrize("message", [b"", b"\x03short", bytes(17), b"\xff" * 30])
def test_what_is_no_frame_is_refused(message: bytes) -> None:
    with pytest.raises(FrameError):
        door_frames.decode(message)


def test_what_a_newer_peer_has_added_is_left_out() -> None:
    payload = json.dumps({**RelayHello("s", "r", 1, 0)._asdict(), "newer": 1}).encode()
    assert door_frames.unpack(RelayHello, payload) == RelayHello("s", "r", 1, 0)
    with pytest.raises(FrameError):
        door_frames.unpack(RelayHello, b'{"session_id": "s"}')


def test_a_frame_that_is_nested_without_end_says_nothing() -> None:
    with pytest.raises(FrameError):
        door_frames.unpack(RelayHello, b"[" * 100_000)


def test_the_last_number_of_a_frame_is_that_of_its_last_line() -> None:
    assert Frame(FrameKind.LINES, 7, 0, b"a\nb\nc\n").last == 9
    assert Frame(FrameKind.EXIT, 7, 0, b"{}").last == 7


# The registry


def found(pid: int, started: int) -> registry.RunningRelay:
    return registry.RunningRelay("s", "r", pid, started, None, 5)


def test_a_running_relay_is_found_by_its_pid_and_its_start(tmp_path: Path) -> None:
    started = registry.started_at(os.getpid())
    assert started is not None
    path = registry.record(tmp_path, found(os.getpid(), started))
    assert path.stat().st_mode & 0o777 == 0o600
    assert registry.alive(path) == registry.alive(tmp_path) == found(os.getpid(), started)


def test_another_process_with_the_same_number_is_not_the_relay(tmp_path: Path) -> None:
    started = registry.started_at(os.getpid())
    assert started is not None
    assert registry.alive(registry.record(tmp_path, found(os.getpid(), started - 1))) is None


def test_a_relay_that_has_ended_is_not_found_even_before_it_is_reaped(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    started = registry.started_at(process.pid)
    assert started is not None
    path = registry.record(tmp_path, found(process.pid, started))
    assert registry.alive(path) is not None
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert registry.alive(path) is None
    process.communicate()
    assert registry.alive(path) is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"relay_pid": "x"}'])
def test_a_file_that_says_nothing_finds_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / registry.NAME).write_text(text)
    assert registry.alive(tmp_path) is None
    registry.clear(tmp_path)
    assert not tmp_path.exists()
