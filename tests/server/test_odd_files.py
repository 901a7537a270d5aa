"""Files of our own that hold what they should not: one line that says what to do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pilothouse import cli
from pilothouse.doors.roster import Roster
from pilothouse.doors.tokens import Keyring
from pilothouse.errors import PolicyError, ServerError, SettingError
from pilothouse.relay import registry
from pilothouse.relay.main import main as relay
from pilothouse.runner.main import main as runner
from pilothouse.server import runtime
from pilothouse.server.runtime import Lock
from pilothouse.server.upkeep import check_policy
from pilothouse.settings import load
from tests.support.server.machine import Machine

Damage = Callable[[Path], None]


@pytest.fixture(autouse=True)
def no_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number out of an odd file must not be sent a signal: here nothing sends one at all."""
    look = os.kill

    def kill(pid: int, number: int) -> None:
        assert pid > 0, "a signal to many processes"
        assert number == 0, "a signal to a process of an odd file"
        look(pid, 0)

    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(os, "killpg", kill)


def holding(content: bytes) -> Damage:
    def write(path: Path) -> None:
        path.write_bytes(content)
        path.chmod(0o600)

    return write


def closed(path: Path) -> None:
    path.touch(0o000)


def loop(path: Path) -> None:
    path.symlink_to(path)


DAMAGES: dict[str, Damage] = {
    "not UTF-8": holding(b"\xff\xfe\xe9 = 1\n"),
    "NUL": holding(b"a\x00b = 1\n"),
    "half of JSON": holding(b'{"a": [1, 2'),
    "half a surrogate": holding(b'{"address":"\xed\xa0\x80"}'),
    "a number of many digits": holding(b"port = " + b"9" * 5_000),
    "nested deeply": holding(b"a = " + b"[" * 100_000),
    "a folder": Path.mkdir,
    "a link to itself": loop,
}
if os.geteuid() != 0:
    DAMAGES["unreadable"] = closed
EMPTY: dict[str, Damage] = {"empty": holding(b"")}
damages = pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
damages_and_empty = pytest.mark.parametrize(
    "damage", [*DAMAGES.values(), *EMPTY.values()], ids=[*DAMAGES, *EMPTY]
)

COMMANDS = [
    ["serve"],
    ["settings"],
    ["status"],
    ["stop"],
    ["stop", "--all"],
    ["runners", "list"],
    ["policy", "check"],
    ["journal", "export", "-"],
    ["mcp"],
]


def is_told(line: str, path: Path) -> bool:
    """One line with the file and, behind a semicolon, the next step."""
    return str(path) in line and "; " in line and "\n" not in line.strip()


@damages
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_says_what_is_wrong_with_the_settings(
    command: list[str], damage: Damage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.toml"
    damage(path)
    assert cli.main([*command, "--config", str(path)]) == 1
    told = capsys.readouterr().err
    assert told.startswith("pilothouse: ")
    assert is_told(told, path)


def test_empty_settings_are_settings(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.touch()
    assert load(env={"HOME": str(tmp_path)}, file=path).port == 8137
    with pytest.raises(SettingError, match="; create it, or name another"):
        load(env={"HOME": str(tmp_path)}, file=tmp_path / "none")


@damages_and_empty
def test_a_token_that_is_none_is_told(damage: Damage, tmp_path: Path) -> None:
    damage(tmp_path / runtime.TOKEN_NAME)
    with pytest.raises(ServerError) as caught:
        runtime.token(tmp_path)
    assert is_told(str(caught.value), tmp_path / runtime.TOKEN_NAME)


@damages_and_empty
def test_a_key_that_is_none_is_told(damage: Damage, tmp_path: Path) -> None:
    damage(tmp_path / "relay.key")
    with pytest.raises(ServerError) as caught:
        Keyring.open(tmp_path / "relay.key")
    assert is_told(str(caught.value), tmp_path / "relay.key")


@damages_and_empty
def test_names_of_runners_that_cannot_be_read_are_told(damage: Damage, tmp_path: Path) -> None:
    damage(tmp_path / "runners.json")
    with pytest.raises(ServerError) as caught:
        Roster(tmp_path / "runners.json")
    assert is_told(str(caught.value), tmp_path / "runners.json")


@damages
def test_a_policy_that_cannot_be_read_is_told(damage: Damage, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    damage(path)
    with pytest.raises(PolicyError) as caught:
        check_policy(load(env={"HOME": str(tmp_path)}), path, env={}, simulated=False)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


ODD_SERVERS = [
    {"address": ""},
    {"address": "http://"},
    {"address": "http://127.0.0.1:no"},
    {"address": "http://127.0.0.1:99999"},
    {"address": "ftp://127.0.0.1:80"},
    {"address": "http://a b:80"},
    {"token": "a\nb"},
    {"token": "é"},
    {"pid": 0},
    {"pid": -1},
    {"pid": 2**70},
    {"started_at": 2**70},
    {"more": "[" * 100_000},
]


@pytest.mark.parametrize("odd", ODD_SERVERS, ids=lambda odd: json.dumps(odd)[:40])
@pytest.mark.parametrize("command", ["status", "stop", "stop --all", "runners list"])
def test_a_runtime_file_with_odd_values_is_a_leftover(
    command: str,
    odd: dict[str, object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with held(tmp_path, monkeypatch) as path:
        good = {
            "address": "http://127.0.0.1:9",
            "token": "t" * 43,
            "pid": os.getpid(),
            "version": "1",
            "started_at": 0,
        }
        text = json.dumps(good | odd)
        if "more" in odd:
            text = text.replace(f'"{odd["more"]}"', str(odd["more"]))
        holding(text.encode())(path)
        cli.main(command.split())
        out, err = capsys.readouterr()
        assert "no server is running" in out + err


@pytest.mark.parametrize("command", ["status", "stop", "runners list"])
@damages_and_empty
def test_a_runtime_file_that_cannot_be_read_is_told_or_a_leftover(
    command: str,
    damage: Damage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with held(tmp_path, monkeypatch) as path:
        damage(path)
        cli.main(command.split())
        out, err = capsys.readouterr()
        assert "no server is running" in out + err or is_told(err, path)


class held:
    """The lock of a server; gives the place of its file."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        runtime_dir = folder / "run"
        runtime_dir.mkdir(mode=0o700)
        monkeypatch.setenv("HOME", str(folder))
        monkeypatch.setenv("PILOTHOUSE_RUNTIME_DIR", str(runtime_dir))
        monkeypatch.setenv("PILOTHOUSE_STATE_DIR", str(folder / "state"))
        self._path = runtime_dir / runtime.FILE_NAME
        self._lock = Lock(runtime_dir / runtime.LOCK_NAME)

    def __enter__(self) -> Path:
        assert self._lock.acquire()
        return self._path

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.mark.parametrize(
    "found", ["[" * 100_000, '{"relay_pid": "a\\u0000b"}', '{"relay_pid": -1}']
)
def test_a_relays_file_that_makes_no_sense_is_of_no_relay(found: str, tmp_path: Path) -> None:
    known = {"session_id": "s", "run": "r", "started": 1, "guard_pid": None, "cli_pid": None}
    text = found if found.startswith("[") else json.dumps(known | json.loads(found))
    (tmp_path / registry.NAME).write_text(text)
    assert registry.alive(tmp_path) is None


@damages_and_empty
@pytest.mark.parametrize("program", ["runner", "relay"])
def test_a_token_file_that_holds_none_is_told(
    program: str, damage: Damage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "attic.token"
    damage(path)
    words = ["--connect", "unix:/nowhere", "--token-file", str(path)]
    if program == "runner":
        code = runner([*words, "--state", str(tmp_path / "state")])
    else:
        code = relay([*words, "--session", "s", "--run", "r", "--", "true"])
    assert code == 2
    assert is_told(capsys.readouterr().err, path)


@pytest.mark.parametrize("damage", ["NUL", "a folder", "a link to itself"])
@pytest.mark.parametrize("program", ["runner", "relay"])
def test_authorities_that_are_none_are_told(
    program: str, damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, token = tmp_path / "ca.pem", tmp_path / "token"
    DAMAGES[damage](path)
    holding(b"t" * 43)(token)
    words = ["--connect", "wss://127.0.0.1:9", "--token-file", str(token), "--ca", str(path)]
    if program == "runner":
        code = runner([*words, "--state", str(tmp_path / "state")])
    else:
        code = relay([*words, "--session", "s", "--run", "r", "--", "true"])
    assert code == 2
    assert is_told(capsys.readouterr().err, path)


@pytest.mark.parametrize("program", ["runner", "relay"])
def test_a_folder_that_is_a_file_is_told(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, token = tmp_path / "state", tmp_path / "token"
    path.touch()
    holding(b"t" * 43)(token)
    words = ["--connect", "unix:/nowhere", "--token-file", str(token)]
    if program == "runner":
        code = runner([*words, "--state", str(path)])
    else:
        code = relay([*words, "--session", "s", "--run", "r", "--spool", str(path), "--", "true"])
    assert code == 2
    assert is_told(capsys.readouterr().err, path)


@pytest.mark.parametrize("name", ["token", "simulated/relay.key", "simulated/runners.json"])
async def test_a_server_does_not_start_with_a_folder_for_a_file(
    machine: Machine, name: str
) -> None:
    path = machine.settings.state_dir / name
    path.mkdir(parents=True)
    for each in (path.parent, machine.settings.state_dir):
        each.chmod(0o700)
    ran = await machine.run("serve", "--idle-exit", "0.1")
    assert ran.code == 1
    told = [line for line in ran.err.splitlines() if not line.startswith("{")]
    assert len(told) == 1
    assert is_told(told[0], path)
