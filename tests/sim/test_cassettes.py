"""The cassette's format, and what redaction takes out of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse_sim.cassettes import (
    Cassette,
    CassetteEntry,
    CassetteError,
    CassetteHeader,
    CassetteWriter,
    LineCutter,
    encode_entry,
    free_name,
    read,
)
from pilothouse_sim.line_strings import encoded_path, path_changer, rewrite_strings
from pilothouse_sim.redaction import Redactor
from pilothouse_sim.simulator.cassette import play
from pilothouse_sim.simulator.replay.actions import EndReplay, WriteLine
from pilothouse_sim.simulator.replay.names import HostPlace
from pilothouse_sim.simulator.replay.player import Player
from tests.support.waiting import DEADLINE


def written(path: Path, *entries: CassetteEntry) -> Path:
    writer = CassetteWriter(path, CassetteHeader(command=("claude", "-p"), cwd="/x"))
    for entry in entries:
        writer.write(entry)
    writer.close()
    return path


# The format


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"user","n":1.0e5,"s":"\\u00e9/"}',
        b'{ "spaced" : [1, 2] }',
        b' {"led":"by a blank"}',
        b'{"a":1}\r',
        b"[]",
        b"12345678901234567890123",
        b"no json",
        "ahoy \u2693 \u2028".encode(),
        b'"\\ud800"',
        b"\xff\xfe\x00",
        b"",
    ],
)
def test_a_line_is_kept_to_the_byte(line: bytes, tmp_path: Path) -> None:
    path = written(tmp_path / "c.jsonl", CassetteEntry(0.5, "out", line))
    assert [entry.data for entry in read(path).entries] == [line]


@given(lines=st.lists(st.binary().filter(lambda line: b"\n" not in line)))
def test_any_bytes_are_kept(lines: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("any") / "c.jsonl"
    written(path, *(CassetteEntry(0.0, "in", line) for line in lines))
    assert [entry.data for entry in read(path).entries] == lines


def test_every_kind_of_entry_is_read_as_it_was_written(tmp_path: Path) -> None:
    entries = (
        CassetteEntry(0.25, "in", b"{}"),
        CassetteEntry(0.5, "err", b"cut", cut=True),
        CassetteEntry(1.0, "signal", signal=2),
        CassetteEntry(1.5, "out"),
        CassetteEntry(2.0, "exit", code=0),
        CassetteEntry(2.0, "exit", signal=9),
    )
    cassette = read(written(tmp_path / "c.jsonl", *entries))
    assert cassette.header == CassetteHeader(cassette=1, command=("claude", "-p"), cwd="/x")
    told = [(e.at, e.kind, e.data, e.cut, e.code, e.signal) for e in cassette.entries]
    assert told == [(e.at, e.kind, e.data, e.cut, e.code, e.signal) for e in entries]
    assert [entry.is_eof for entry in cassette.entries] == [False, False, False, True, False, False]
    assert [entry.number for entry in cassette.entries] == [2, 3, 4, 5, 6, 7]


def test_a_json_line_stands_in_the_file_as_json() -> None:
    line = json.loads(encode_entry(CassetteEntry(0.1234567, "out", b'{"type": "result"}')))
    assert line == {"t": 0.123457, "d": "out", "json": {"type": "result"}}


def test_the_version_is_the_one_the_cli_told(tmp_path: Path) -> None:
    said = b'{"type":"system","claude_code_version":"2.1.325"}'
    assert read(written(tmp_path / "a", CassetteEntry(0.0, "out", said))).cli_version == "2.1.325"
    assert read(written(tmp_path / "b")).cli_version is None


def test_a_line_the_recorder_died_on_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "c.jsonl", CassetteEntry(0.0, "out", b"{}"))
    with path.open("ab") as file:
        file.write(b'{"t":1.0,"d":"ou')
    assert len(read(path).entries) == 1


def test_a_broken_line_within_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = written(tmp_path / "c.jsonl")
    with path.open("ab") as file:
        file.write(b'broken\n{"t":1.0,"d":"out","eof":true}\n')
    with pytest.raises(CassetteError, match="line 2"):
        read(path)


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"cassette":2}\n')
    with pytest.raises(CassetteError, match="format 1"):
        read(path)


def test_no_cassette_is_written_over_another(tmp_path: Path) -> None:
    path = written(tmp_path / "c.jsonl")
    with pytest.raises(FileExistsError):
        CassetteWriter(path, CassetteHeader())
    assert free_name(path) == tmp_path / "c-2.jsonl"
    written(tmp_path / "c-2.jsonl")
    assert free_name(path) == tmp_path / "c-3.jsonl"


def test_a_cassette_is_its_owners_alone(tmp_path: Path) -> None:
    assert written(tmp_path / "c.jsonl").stat().st_mode & 0o077 == 0


@given(data=st.binary(), cuts=st.lists(st.integers(0, 100)))
def test_lines_do_not_depend_on_where_the_stream_is_cut(data: bytes, cuts: list[int]) -> None:
    cutter, lines, rest = LineCutter(), list[bytes](), data
    for cut in cuts:
        lines += cutter.feed(rest[:cut])
        rest = rest[cut:]
    lines += cutter.feed(rest)
    assert [*lines, cutter.take_rest()] == data.split(b"\n")


# Strings in lines


def test_only_the_strings_that_change_are_touched() -> None:
    line = b'{ "a" : "x\\u00e9", "n":1.50,"k\\"x":["x","y\\n"] }'
    changed = rewrite_strings(line, lambda _, text: text.replace("x", "z"))
    assert changed == '{ "a" : "z\u00e9", "n":1.50,"k\\"z":["z","y\\n"] }'.encode()


def test_a_string_is_known_by_its_key() -> None:
    seen: list[tuple[str | None, str]] = []

    def note(key: str | None, text: str) -> str:
        seen.append((key, text))
        return text

    rewrite_strings(b'{"a":"1","b":["2","3"],"c":{"d":"4"}}', note)
    assert [each for each in seen if each[0]] == [("a", "1"), ("b", "2"), ("b", "3"), ("d", "4")]
    assert [text for key, text in seen if key is None] == ["a", "b", "c", "d"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(value=json_values)
def test_rewriting_nothing_changes_nothing(value: Any) -> None:
    line = json.dumps(value).encode()
    assert rewrite_strings(line, lambda _, text: text) == line


@given(value=json_values)
def test_a_rewritten_line_is_still_json(value: Any) -> None:
    changed = rewrite_strings(json.dumps(value).encode(), lambda _, text: text + '"\n\\')
    json.loads(changed)


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("/ship", "/home/user"),
        ("in /ship/x and (/ship).", "in /home/user/x and (/home/user)."),
        ("/shipyard /ship-2 /x/ship ./ship", "/shipyard /ship-2 /x/ship ./ship"),
        ("projects/-ship-boat/x", "projects/-home-user-boat/x"),
    ],
)
def test_folders_are_changed_as_whole_parts(text: str, becomes: str) -> None:
    assert path_changer([("/ship", "/home/user")])(text) == becomes


def test_the_root_folder_is_left_alone() -> None:
    assert path_changer([("/", "/x"), ("", "/y")])("/ /a") == "/ /a"


def test_the_cli_encodes_paths() -> None:
    assert encoded_path("/srv/my.boat_1") == "-srv-my-boat-1"


# Redaction

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcDEF-_123"


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-api03-AbCd_ef-12",
        "sk-proj-0123456789abcdefghij",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_0123456789abcdefghij0123456789abcdef",
        "xoxb-1234567890-abcdefghij",
        JWT,
        "ann@harbour.example.dk",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_secret_is_taken_out(secret: str) -> None:
    line = Redactor().line(json.dumps({"content": f"it is {secret}, yes"}).encode())
    assert json.loads(line)["content"].startswith("it is redacted-")
    assert json.loads(line)["content"].endswith(", yes")
    assert secret not in json.loads(line)["content"]


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("Authorization: Bearer abcdef123456789", "Authorization: Bearer redacted-token-1"),
        ("export DB_PASSWORD='hunter2hunter2'", "export DB_PASSWORD='redacted-secret-1'"),
        ('{"api_key": "abcd1234efgh"}', '{"api_key": "redacted-secret-1"}'),
        ("https://ann:t0psecret@host/x", "https://ann:redacted-secret-1@host/x"),
    ],
)
def test_only_the_secret_part_is_taken_out(text: str, becomes: str) -> None:
    assert Redactor().text(text) == becomes


@pytest.mark.parametrize(
    "text",
    [
        "bearer authentication and basic understanding",
        "password = get_password()",
        "git@github.com:x/y, noreply@anthropic.com, someone@example.com",
        "the sk-learn package",
        "max_tokens: 32000",
        "apiKeySource ANTHROPIC_API_KEY",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor().text(text) == text


def test_the_same_secret_has_the_same_stand_in() -> None:
    redactor = Redactor()
    first = redactor.line(b'{"a":"sk-ant-1111","b":"sk-ant-2222"}')
    assert first == b'{"a":"redacted-key-1","b":"redacted-key-2"}'
    assert redactor.line(b"plain sk-ant-2222") == b"plain redacted-key-2"


def test_account_fields_and_secret_members_go_by_their_name() -> None:
    account = {
        "email": "a",
        "organization": "Harbour",
        "subscriptionType": "max",
        "tokenSource": "x",
    }
    line = Redactor().line(json.dumps({"account": account, "accessToken": "opaque"}).encode())
    assert json.loads(line) == {
        "account": account
        | {"email": "redacted-email-1@example.com"}
        | {"organization": "redacted-organization-1"},
        "accessToken": "redacted-secret-1",
    }


def test_values_of_secret_variables_are_taken_out_wherever_they_show() -> None:
    environment = {
        "DEPLOY_TOKEN": "swordfish",
        "SHORT_KEY": "1",
        "MAX_OUTPUT_TOKENS": "thirty-two",
        "PIN_SECRET": "1234567",
        "EDITOR": "vim-editor",
    }
    said = "swordfish thirty-two 1 1234567 vim-editor"
    assert Redactor(environment).text(said) == "redacted-secret-1 thirty-two 1 1234567 vim-editor"


def test_the_home_folder_and_the_user_are_nobodys() -> None:
    redactor = Redactor(home="/home/annabel")
    assert redactor.text("-rw 1 annabel annabel /home/annabel/x") == "-rw 1 user user /home/user/x"
    assert redactor.text("/p/-home-annabel-boat") == "/p/-home-user-boat"
    assert redactor.line(b'{"annabel":"annabel"}') == b'{"annabel":"annabel"}'


def test_a_user_name_that_is_a_word_of_the_wire_stays() -> None:
    assert Redactor(home="/home/dev").text("dev owns /home/dev/x") == "dev owns /home/user/x"
    assert Redactor(home="/x/tool").text("a tool") == "a tool"


def test_more_can_be_taken_out_by_expression() -> None:
    redactor = Redactor(extra=[r"HULL-\d+", r"berth (?P<secret>\d+)"])
    assert redactor.text("HULL-7 at berth 12") == "redacted-match-1 at berth redacted-match-2"


def test_a_line_that_is_no_json_is_redacted_as_text() -> None:
    assert Redactor().line(b'{"cut": "sk-ant-12345') == b'{"cut": "redacted-key-1'
    assert Redactor().line(b"\xff sk-ant-12345") == b"\xff redacted-key-1"


def test_megabytes_of_one_word_are_no_burden() -> None:
    # Bounded patterns: unbounded ones would not end within hours.
    line = json.dumps({"data": "Qx9+" * 500_000}).encode()
    assert Redactor(home="/home/annabel").line(line) == line


@given(value=json_values)
def test_a_redacted_line_is_still_json(value: Any) -> None:
    line = json.dumps(value).encode()
    json.loads(Redactor({"MY_KEY": "aaaaaa"}, home="/home/annabel").line(line))


# What a replay makes of lines that no client should write

GREETING = b'{"type":"control_request","request_id":"r","request":{"subtype":"initialize"}}'
PROMPT = b'{"type":"user","message":{"role":"user","content":"go"}}'


def replayed(line: bytes) -> tuple[str, EndReplay | None]:
    """What stderr says, and the end, of a replay that gets this line."""
    said = [CassetteEntry(0.0, "in", each, number=2) for each in (GREETING, b"no json", PROMPT)]
    here = HostPlace("/x", "/h", "/h/.claude")
    player = Player(Cassette(Path("talk.jsonl"), CassetteHeader(), tuple(said)), (), here, 1)
    actions = player.receive_line(line)
    errors = [each.data for each in actions if isinstance(each, WriteLine) and each.stream == "err"]
    end = next((each for each in actions if isinstance(each, EndReplay)), None)
    return b"".join(errors).decode(), end


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"control_response","response":5}',
        b'{"type":"control_response"}',
        b'{"type":["x"]}',
        b'{"type":null}',
        b"{}",
        b'{"type":"user","message":5}',
        b'{"type":"control_request","request":{"subtype":""}}',
        b'{"type":"control_request","request":{"subtype":["x"]}}',
    ],
)
def test_a_line_of_no_known_shape_parts_from_the_recording(line: bytes) -> None:
    errors, end = replayed(line)
    assert "the client parts from the recording talk.jsonl" in errors
    assert end == EndReplay(1)


async def test_a_replay_whose_reader_fails_ends_with_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_player: Player, _line: bytes) -> list[Any]:
        raise LookupError("a fault of the player's")

    monkeypatch.setattr(Player, "receive_line", fail)

    async def receive() -> bytes:
        return b"{}\n"

    async def open_stdin() -> Any:
        return receive

    monkeypatch.setattr("pilothouse_sim.simulator.cassette._open_stdin", open_stdin)
    path = written(tmp_path / "c.jsonl", CassetteEntry(0.0, "in", PROMPT))
    with pytest.raises(LookupError, match="a fault of the player's"):
        async with asyncio.timeout(DEADLINE):
            await play(path, [])
