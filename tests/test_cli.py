"""The command line."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from socket import gethostname
from typing import Any, ClassVar, NoReturn

import pytest

from pilothouse import __version__
from pilothouse.api.answers import Allow
from pilothouse.api.questions import Question
from pilothouse.api.records import CLI, SessionStarted, encode_record
from pilothouse.api.requests import DialIn, SessionOptions
from pilothouse.api.results import DialInOpened, Runner, RunnerAdded
from pilothouse.cli import MCP_CLIENTS, PROGRAMS, main
from pilothouse.errors import NotNow
from pilothouse.faces.mcp.configs import CLIENTS
from pilothouse.journal.contract import Changes, Draft
from pilothouse.journal.sqlite import SqliteJournal
from pilothouse.server import upkeep
from pilothouse.server.runtime import Running
from pilothouse.settings import Settings
from pilothouse.simulator_program import RECORDER


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user of whom nothing is known."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def state(home: Path) -> Path:
    folder = home / ".local/state/pilothouse"
    folder.mkdir(parents=True, mode=0o700)
    return folder


def test_the_demonstration_runs_without_a_cli_or_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    shown = capsys.readouterr().out
    assert "may Bash run" in shown
    assert "'All is well.\\n'" in shown
    assert "finished, 'The note is in note.txt.'" in shown


def test_the_doctor_fails_where_something_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CODE_PATH", str(tmp_path / "claude"))
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "PROBLEM cli" in shown
    assert "->" in shown


def test_the_doctor_looks_at_the_policy_as_a_server_does(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = home / ".config/pilothouse/policy.toml"
    rules.parent.mkdir(parents=True)
    rules.write_text("[[rule]]\naction = 'maybe'\n")
    rules.chmod(0o644)
    assert main(["doctor"]) == 1
    assert f"PROBLEM policy: {rules}:2: " in capsys.readouterr().out
    rules.write_text("[[rule]]\ntool = 'Read'\naction = 'allow'\n")
    main(["doctor"])
    assert f"ok      policy: {rules}: 1 rule\n" in capsys.readouterr().out
    rules.unlink()
    main(["doctor"])
    assert "ok      policy: no rules: every question is asked" in capsys.readouterr().out


def test_the_doctor_looks_at_all_that_a_server_needs_and_says_each_remedy_once(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("pilothouse.client.locate.usual_places", lambda _: [])
    monkeypatch.delenv("CLAUDE_CODE_PATH", raising=False)
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    names = re.findall(r"(?m)^(?:ok|note|PROBLEM) +([a-z ]+):", shown)
    assert names == ["python", "platform", "cli", "credential", *SERVED]
    assert shown.count("npm install") == 1
    assert "server: no server is running" in shown
    assert "relays: 0 sessions behind them" in shown
    (home / "config.toml").write_text("cli_path = '/gone/claude'\n")
    assert main(["doctor", "--config", "config.toml"]) == 1
    assert "cli: cli_path names /gone/claude, which does not exist" in capsys.readouterr().out


SERVED = ("policy", "server", "relays", "disk")


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out.strip() == f"pilothouse {__version__}"


def test_without_a_command_it_says_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([])
    assert left.value.code == 2
    listed = (
        "{demo,dial-in,doctor,journal,mcp,open,policy,record,relay,runner,runners,serve,"
        "settings,status,stop}"
    )
    told = capsys.readouterr().err
    assert told.count(listed) == 1
    assert "a command is missing; `pilothouse --help` says what each of them does" in told


@pytest.mark.parametrize(
    ("words", "usage", "meant"),
    [
        (["stat"], "usage: pilothouse [-h]", "there is no command stat; is status meant?"),
        (["serve", "--simulat=always2"], "usage: pilothouse serve", ""),
        (["serve", "--sim-ulate", "always"], "usage: pilothouse serve", "is --simulate meant?"),
        (["journal", "exprt", "x"], "usage: pilothouse journal", "is export meant?"),
        (["policy", "check", "--simlated"], "usage: pilothouse policy check", "--simulated meant?"),
        (["runners", "add", "x", "--tokenfile"], "usage: pilothouse runners add", "--token-file"),
    ],
)
def test_a_mistyped_word_is_told_with_the_one_that_was_meant(
    words: list[str], usage: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    told = capsys.readouterr().err
    assert left.value.code == 2
    assert told.startswith(usage)
    assert meant in told


def test_a_journal_of_the_simulator_alone_is_pointed_at(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (state / "simulated").mkdir(mode=0o700)
    (state / "simulated/journal.db").touch(0o600)
    for words in (["export", "-"], ["backup", "copy.db"]):
        assert main(["journal", *words]) == 1
        assert "add --simulated" in capsys.readouterr().err


def test_record_says_what_it_needs() -> None:
    command = [sys.executable, "-m", "pilothouse", "record"]
    recorder = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert recorder.returncode == 2
    assert "pilothouse record -- claude" in recorder.stderr


def test_record_is_left_to_the_recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[tuple[str, list[str]]] = []

    def execv(program: str, command: list[str]) -> NoReturn:
        became.append((program, command))
        raise SystemExit(7)

    monkeypatch.setattr("os.execv", execv)
    words = ["--version", "--", "claude", "--help", "--", "x"]
    with pytest.raises(SystemExit):
        main(["record", *words])
    assert became == [(sys.executable, [*RECORDER, *words])]


@pytest.mark.parametrize("command", ["relay", "runner"])
def test_what_stands_behind_a_program_of_its_own_is_left_to_it(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[list[str]] = []

    def program(words: list[str]) -> int:
        given.append(words)
        return 7

    monkeypatch.setattr(f"{PROGRAMS[command]}.main", program)
    words = ["--version", "--", "claude", "--help", "--", "x"]
    assert main([command, *words]) == 7
    assert given == [words]


@pytest.mark.parametrize("client", MCP_CLIENTS)
def test_a_client_of_mcp_is_told_how_to_start_it(
    client: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--standalone", "--config", "mine.toml"]
    assert main(["mcp", "--print-config", client, *words]) == 0
    shown = capsys.readouterr()
    (servers,) = json.loads(shown.out).values()
    arguments = servers["pilothouse"]["args"]
    flags = arguments[arguments.index("mcp") + 1 :]
    assert flags == ["--standalone", "--config", str(home / "mine.toml")]
    assert "Put this into" in shown.err


def test_a_client_of_mcp_is_told_this_installation_and_not_another_on_the_path(
    tmp_path: Path,
) -> None:
    other = tmp_path / "bin/pilothouse"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho another\n")
    other.chmod(0o755)
    env = {"HOME": str(tmp_path), "PATH": f"{other.parent}:/usr/bin:/bin"}

    def run(*command: str) -> str:
        ran = subprocess.run(
            command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
        )
        return ran.stdout

    ours = [sys.executable, "-m", "pilothouse"]
    server = json.loads(run(*ours, "mcp", "--print-config", "claude-code"))["mcpServers"]
    command = [server["pilothouse"]["command"], *server["pilothouse"]["args"]]
    told = [each for each in command if each != "mcp"]
    assert run(*told, "--version") == run(*ours, "--version")


@pytest.mark.parametrize("more", [[], ["--print-config", "claude-code"]])
def test_a_permission_tool_whose_questions_nobody_could_see_is_refused(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", "--standalone", "--permission-check", *more]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "--standalone and --permission-check exclude each other" in shown.err


def test_every_client_of_mcp_there_is_a_configuration_for_can_be_named() -> None:
    assert set(MCP_CLIENTS) == set(CLIENTS)


def test_another_client_of_mcp_is_refused_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["mcp", "--print-config", "emacs"])
    assert left.value.code == 2
    assert "claude-desktop" in capsys.readouterr().err


def test_mcp_is_served_as_the_flags_and_the_settings_say(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[bool, bool, str]] = []

    def run(settings: Settings, *, env: Any, standalone: bool, permission_check: bool) -> None:
        given.append((standalone, permission_check, settings.mcp_answers))

    monkeypatch.setattr("pilothouse.server.mcp.run_stdio", run)
    (home / "mine.toml").write_text('mcp_answers = "person"\n')
    assert main(["mcp"]) == 0
    assert main(["mcp", "--standalone", "--config", "mine.toml"]) == 0
    assert main(["mcp", "--permission-check"]) == 0
    assert given == [
        (False, False, "anyone"),
        (True, False, "person"),
        (False, True, "anyone"),
    ]


def test_a_relay_loads_little(tmp_path: Path) -> None:
    code = """
import sys
from pilothouse.cli import PROGRAMS, main
try:
    main(["relay", "--help"])
except SystemExit:
    print(*sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "usage: pilothouse relay --connect URL" in done.stdout
    loaded = done.stdout.split()
    rooms = {name.split(".")[1] for name in loaded if name.startswith("pilothouse.")}
    assert rooms == {"cli", "errors", "folders", "relay", "transport"}
    assert {"msgspec", "httpx", "uvicorn", "websockets.asyncio"}.isdisjoint(loaded)


# Settings


def test_the_settings_are_listed_with_their_sources(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAX_SESSIONS", "3")
    (home / "config.toml").write_text("origins = ['https://a.example']\n")
    assert main(["settings", "--config", "config.toml"]) == 0
    lines = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert lines["max_sessions"] == ["3", "MAX_SESSIONS"]
    assert lines["origins"] == ["https://a.example", "config.toml:1"]
    assert lines["allow_bypass"] == ["false", "default"]
    assert lines["day_cap_usd"] == ["-", "default"]


def test_a_wrong_setting_is_one_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "config.toml").write_text("ports = 1\n")
    assert main(["settings", "--config", "config.toml"]) == 1
    told = "config.toml:1: there is no setting 'ports'; is 'port' meant?"
    assert capsys.readouterr().err == f"pilothouse: {told}\n"


# Without a server


def test_status_and_stop_say_that_there_is_none(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status"]) == 1
    assert main(["stop"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "no server is running; start one: pilothouse serve",
        "no server is running",
    ]
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
def test_an_idle_time_is_above_zero(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["serve", "--idle-exit", seconds])
    assert left.value.code == 2
    assert "--idle-exit" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["status"], ["settings"], ["stop"]])
def test_short_commands_load_neither_the_http_server_nor_an_engine(
    command: list[str], tmp_path: Path
) -> None:
    code = f"import sys; from pilothouse.cli import main; main({command}); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = done.stdout.split()
    assert "pilothouse.settings" in loaded
    unwanted = {"starlette", "uvicorn", "httpx", "sqlite3", "pilothouse.client", "pilothouse.faces"}
    assert unwanted.isdisjoint(loaded)


# Other machines


class Rulers:
    """An engine's verbs for runners, without an engine."""

    given: ClassVar[list[tuple[object, ...]]] = []
    known: ClassVar[list[Runner]] = []

    def __init__(self, *where: object, tls: object) -> None:
        assert where == ("http://127.0.0.1:8137", "a-token")

    async def dial_in(self, request: DialIn) -> DialInOpened:
        self.given.append(("dial_in", request))
        return DialInOpened(
            session_id="s",
            url="ws://x",
            token="hush",
            command="claude x",
            expires_at=0,
            warning="no",
        )

    async def runners(self) -> list[Runner]:
        return self.known

    async def add_runner(self, name: str) -> RunnerAdded:
        if name == "attic":
            raise NotNow("attic is there already", advice="revoke it first")
        return RunnerAdded(name=name, token="hush-hush")

    async def drain_runner(self, name: str, *, draining: bool = True) -> Runner:
        self.given.append(("drain", name, draining))
        return ATTIC

    async def revoke_runner(self, name: str) -> Runner:
        self.given.append(("revoke", name))
        return ATTIC

    async def aclose(self) -> None:
        self.given.append(("closed",))


ATTIC = Runner(
    name="attic",
    state="connected",
    since=1_700_000_000_000,
    host="attic.lan",
    version="0.1.0",
    cli_version="2.1.325",
    sessions=["one", "two"],
)


@pytest.fixture
def rulers(home: Path, monkeypatch: pytest.MonkeyPatch) -> type[Rulers]:
    """A server that runs, as far as the command can tell."""
    about = {"token": "a-token", "pid": 1, "version": __version__, "started_at": 1}
    running = Running(address="http://127.0.0.1:8137", **about)
    monkeypatch.setattr("pilothouse.server.machines.answering", lambda settings: running)
    monkeypatch.setattr("pilothouse.server.dial_in.answering", lambda settings: running)
    monkeypatch.setattr("pilothouse.remote.RemoteEngine", Rulers)
    monkeypatch.setattr(Rulers, "given", [])
    monkeypatch.setattr(Rulers, "known", [ATTIC])
    return Rulers


def test_a_dial_in_prints_the_command_alone_and_tells_the_rest_beside_it(
    rulers: type[Rulers], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--label", "mine", "--mode", "plan", "--model", "opus", "--expires", "60"]
    assert main(["dial-in", "here", *words]) == 0
    told = capsys.readouterr()
    assert told.out == "claude x\n"
    assert told.err.splitlines()[1:] == ["no"]
    wanted = DialIn(cwd=str(home / "here"), label="mine", mode="plan", model="opus", expires_s=60)
    assert rulers.given == [("dial_in", wanted), ("closed",)]


@pytest.mark.parametrize("words", [[], ["list"]])
def test_runners_are_listed(
    rulers: type[Rulers], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rulers.known.append(Runner(name="b", state="away", since=0))
    assert main(["runners", *words]) == 0
    headings, attic, other = (line.split() for line in capsys.readouterr().out.splitlines())
    assert headings == ["NAME", "STATE", "HOST", "VERSION", "CLI", "SESSIONS", "SINCE"]
    assert attic[:6] == ["attic", "connected", "attic.lan", "0.1.0", "2.1.325", "2"]
    assert other == ["b", "away", "-", "-", "-", "0", "-"]
    assert rulers.given == [("closed",)]


def test_without_runners_it_says_how_to_let_one_in(
    rulers: type[Rulers], capsys: pytest.CaptureFixture[str]
) -> None:
    rulers.known.clear()
    assert main(["runners"]) == 0
    assert "pilothouse runners add" in capsys.readouterr().out


def test_a_settings_file_is_named_before_or_after_the_verb(
    rulers: type[Rulers], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config.toml").write_text("hosts = ['pilot.example']\n")
    for number, words in enumerate([["--config", "config.toml", "add"], ["add", "--config"]]):
        more = ["config.toml"] if number else []
        assert main(["runners", *words, *more, f"shed{number}"]) == 0
        assert "--connect ws://pilot.example:8137 " in capsys.readouterr().out


def test_a_new_runners_token_is_in_a_private_file_and_nowhere_else(
    rulers: type[Rulers], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runners", "add", "shed"]) == 0
    told = capsys.readouterr()
    assert f"pilothouse runner --connect ws://{gethostname()}:8137 --token-file shed.token" in (
        told.out
    )
    assert "hush" not in told.out + told.err
    file = home / "shed.token"
    assert file.read_text() == "hush-hush\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert main(["runners", "add", "--token-file", "other", "shed"]) == 0
    assert (home / "other").read_text() == "hush-hush\n"


def test_a_file_that_is_there_is_kept_and_no_runner_is_added(
    rulers: type[Rulers], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "shed.token").write_text("mine")
    assert main(["runners", "add", "shed"]) == 1
    assert "--token-file" in capsys.readouterr().err
    assert (home / "shed.token").read_text() == "mine"


@pytest.mark.parametrize("name", ["attic", "../shed", "-shed", "Shed", ""])
def test_a_runner_that_cannot_be_added_leaves_no_file(
    rulers: type[Rulers], home: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runners", "add", "--", name]) == 1
    assert capsys.readouterr().err.startswith("pilothouse: ")
    assert list(home.iterdir()) == []


def test_runners_are_drained_and_revoked(
    rulers: type[Rulers], capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("drain", "undrain", "revoke"):
        assert main(["runners", verb, "attic"]) == 0
    assert [each for each in rulers.given if each != ("closed",)] == [
        ("drain", "attic", True),
        ("drain", "attic", False),
        ("revoke", "attic"),
    ]
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "attic takes no new sessions; 2 sessions still there"
    assert second == "attic takes sessions again"
    assert third.startswith("attic is let in no more")


def test_runners_need_a_server(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runners"]) == 1
    told = "pilothouse: no server is running; start one: pilothouse serve\n"
    assert capsys.readouterr().err == told


# The journal and the policy


def question(number: int, **members: Any) -> Question:
    given: dict[str, Any] = {
        "kind": "tool",
        "state": "open",
        "title": f"Run command {number}?",
        "tool_name": "Bash",
        "input": {"command": f"echo {number}"},
        "opened_at": number,
        "cwd": "/work",
    }
    return Question(id=f"q{number}", session_id="s1", **{**given, **members})


async def fill(path: Path) -> SqliteJournal:
    journal = await SqliteJournal.open(path)
    told = [
        question(1),
        question(2, state="answered", answered_by="policy", answer=Allow(), rule="old"),
    ]
    drafts = [
        Draft("s1", CLI, 1, b'{"n":1}'),
        Draft("s2", CLI, 2, b'{"n":2}'),
        Draft("s1", CLI, 3, b'{"n":3}'),
    ]
    await journal.post(drafts, Changes(questions=told)).committed
    return journal


@pytest.fixture
def journal(state: Path) -> Path:
    path = state / "journal.db"

    async def make() -> None:
        await (await fill(path)).aclose()

    asyncio.run(make())
    return path


def exported(text: str) -> list[int]:
    return [json.loads(line)["body"]["n"] for line in text.splitlines()]


def test_a_journal_is_exported_to_a_private_file_or_to_stdout(
    home: Path, journal: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["journal", "export", "events.jsonl"]) == 0
    assert exported((home / "events.jsonl").read_text()) == [1, 2, 3]
    assert (home / "events.jsonl").stat().st_mode & 0o777 == 0o600
    assert main(["journal", "export", "--session", "s1", "-"]) == 0
    assert exported(capfdbinary.readouterr().out.decode()) == [1, 3]


def test_an_export_replaces_no_file(
    home: Path, journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "events.jsonl").write_text("mine")
    assert main(["journal", "export", "events.jsonl"]) == 1
    assert "choose another name" in capsys.readouterr().err
    assert (home / "events.jsonl").read_text() == "mine"


def test_a_reader_that_has_seen_enough_is_no_error_of_ours(home: Path, journal: Path) -> None:
    command = f"{sys.executable} -m pilothouse journal export - | true"
    done = subprocess.run(
        ["sh", "-c", command], env={"HOME": str(home)}, capture_output=True, timeout=60, check=True
    )
    assert b"Traceback" not in done.stderr


def test_a_journal_is_backed_up_and_exported_while_it_is_in_use(home: Path, state: Path) -> None:
    async def use() -> None:
        journal = await fill(state / "journal.db")
        try:
            for words in (["backup", "copy.db"], ["export", "events.jsonl"]):
                assert await asyncio.to_thread(main, ["journal", *words]) == 0
        finally:
            await journal.aclose()

    asyncio.run(use())
    assert exported((home / "events.jsonl").read_text()) == [1, 2, 3]

    async def restored() -> int:
        copy = await SqliteJournal.open(home / "copy.db")
        try:
            return copy.last
        finally:
            await copy.aclose()

    assert asyncio.run(restored()) == 3


def test_without_a_journal_the_user_is_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "backup", "copy.db"]) == 1
    assert "there is no journal" in capsys.readouterr().err
    assert not (home / "copy.db").exists()


def test_what_is_no_journal_is_refused_and_left_alone(
    home: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (state / "journal.db").write_text("something else, and rather long at that" * 100)
    assert main(["journal", "export", "events.jsonl"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("pilothouse: ")
    assert told.count("\n") == 1
    assert (state / "journal.db").read_text().startswith("something else")


def test_an_export_of_a_session_that_is_not_there_says_so(
    home: Path, journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["journal", "export", "--session", "nope", "events.jsonl"]) == 1
    assert "the journal has no session nope; " in capsys.readouterr().err
    assert not (home / "events.jsonl").exists()


def test_an_export_has_no_secrets_of_a_sessions_options(home: Path, state: Path) -> None:
    options = SessionOptions(env={"TOKEN": "hush"}, model="opus")
    kind, body = encode_record(SessionStarted(cwd="/work", options=options))

    async def make() -> None:
        journal = await SqliteJournal.open(state / "journal.db")
        await journal.post([Draft("s1", kind, 1, body)]).committed
        await journal.aclose()

    asyncio.run(make())
    assert main(["journal", "export", "events.jsonl"]) == 0
    told = (home / "events.jsonl").read_text()
    assert "opus" in told
    assert "TOKEN" in told
    assert "hush" not in told


def test_a_backup_into_a_folder_that_is_not_there_makes_none(
    home: Path, journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["journal", "backup", "backups/copy.db"]) == 1
    told = f"there is no folder {home / 'backups'}; make it, or choose another"
    assert capsys.readouterr().err == f"pilothouse: {told}\n"
    assert not (home / "backups").exists()


@pytest.mark.parametrize("words", [["export", "events.jsonl"], ["backup", "copy.db"]])
def test_a_journal_of_a_newer_version_is_refused(
    home: Path, journal: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    with closing(sqlite3.connect(journal)) as db:
        db.execute("PRAGMA user_version = 999")
    assert main(["journal", *words]) == 1
    told = capsys.readouterr().err
    assert "has version 999" in told
    assert "upgrade pilothouse" in told
    assert not (home / words[-1]).exists()


def test_a_journal_that_cannot_be_read_is_one_line(
    home: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (state / "journal.db").mkdir()
    assert main(["journal", "export", "events.jsonl"]) == 1
    told = capsys.readouterr().err
    assert re.match(r"pilothouse: .*journal\.db cannot be used: Is a directory; see to", told)
    assert told.count("\n") == 1


def test_an_export_that_cannot_be_finished_says_so(
    home: Path, journal: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def export(*_: Any, **__: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(upkeep, "export_entries", export)
    assert main(["journal", "export", "events.jsonl"]) == 1
    told = "events.jsonl: No space left on device, so it is not whole; delete it"
    assert told in capsys.readouterr().err


POLICY = """
[[rule]]
name = "echoes"
tool = "Bash"
command = "echo 1"
action = "deny"
reason = "No noise."
"""


def test_a_policy_is_tried_on_past_questions(
    home: Path, journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "policy.toml").write_text(POLICY)
    assert main(["policy", "check", "policy.toml"]) == 0
    first, second, *differ = capsys.readouterr().out.splitlines()
    assert first == "policy.toml: 1 rule, nothing wrong"
    assert second == "2 past questions, of which 2 would differ"
    assert differ == [
        "  ask -> deny (echoes): Run command 1?",
        "  allow (old) -> ask: Run command 2?",
    ]


def test_a_wrong_policy_is_refused_with_its_place(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "policy.toml").write_text(POLICY.replace("deny", "perhaps"))
    assert main(["policy", "check", "policy.toml"]) == 1
    assert re.match(r"pilothouse: policy\.toml:6\b", capsys.readouterr().err)


def test_without_a_policy_or_a_journal_the_user_is_told(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy", "check"]) == 0
    assert "a person is asked every question" in capsys.readouterr().out
    (home / "policy.toml").write_text(POLICY)
    assert main(["policy", "check", "policy.toml"]) == 0
    assert "no question was asked yet" in capsys.readouterr().out
