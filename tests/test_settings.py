"""The settings: what wins, what is refused, and that each is documented."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pilothouse.errors import SettingError
from pilothouse.settings import TABLE, Settings, load, reference

ROOT = Path(__file__).resolve().parent.parent
HOME = {"HOME": "/home/ada"}
NAMES = [row.name for row in TABLE]


def config(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text)
    return path


# Where values come from


def test_everything_has_a_default() -> None:
    settings = load(env=HOME)
    assert settings.permission_timeout_ms == 0
    assert settings.max_sessions == 10
    assert settings.event_buffer_size == 500
    assert settings.log_level == "info"
    assert settings.host == "127.0.0.1"
    assert settings.allow_bypass is False
    assert set(settings.sources.values()) == {"default"}


def test_warn_is_a_level_of_the_log() -> None:
    # Document 002 names it so.
    assert load(env={**HOME, "LOG_LEVEL": "warn"}).log_level == "warning"


def test_the_environment_wins_over_the_file_and_flags_over_both(tmp_path: Path) -> None:
    file = config(tmp_path, "max_sessions = 2\nport = 3\nhost = 'localhost'\n")
    env = {**HOME, "MAX_SESSIONS": "4", "PILOTHOUSE_PORT": "5"}
    settings = load(env=env, file=file, flags={"port": "6"})
    assert (settings.host, settings.max_sessions, settings.port) == ("localhost", 4, 6)
    assert settings.sources["host"] == f"{file}:3"
    assert settings.sources["max_sessions"] == "MAX_SESSIONS"
    assert settings.sources["port"] == "--port"


def test_a_flag_that_was_not_given_and_an_empty_variable_change_nothing() -> None:
    settings = load(env={**HOME, "MAX_SESSIONS": ""}, flags={"port": None})
    assert settings == load(env=HOME)


@pytest.mark.parametrize("folder", [None, "elsewhere"])
def test_the_usual_file_is_read_where_it_exists(tmp_path: Path, folder: str | None) -> None:
    place = tmp_path / (folder or ".config") / "pilothouse"
    place.mkdir(parents=True)
    config(place, "retention_days = 30\n")
    xdg = {"XDG_CONFIG_HOME": str(tmp_path / folder)} if folder else {}
    assert load(env={"HOME": str(tmp_path), **xdg}).retention_days == 30


def test_the_environment_can_name_the_file(tmp_path: Path) -> None:
    file = config(tmp_path, "controls = ['get_usage']\n")
    assert load(env={**HOME, "PILOTHOUSE_CONFIG": str(file)}).controls == ("get_usage",)


def test_places_follow_home_and_the_base_directories_of_the_environment() -> None:
    settings = load(env=HOME)
    assert settings.state_dir == Path("/home/ada/.local/state/pilothouse")
    assert settings.runtime_dir == Path("/home/ada/.local/state/pilothouse/run")
    assert settings.claude_config_dir == Path("/home/ada/.claude")
    assert settings.policy_file == Path("/home/ada/.config/pilothouse/policy.toml")
    based = {"XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r", "XDG_CONFIG_HOME": "/c"}
    settings = load(env={**HOME, **based})
    assert settings.state_dir == Path("/s/pilothouse")
    assert settings.runtime_dir == Path("/r/pilothouse")
    assert settings.policy_file == Path("/c/pilothouse/policy.toml")


def test_relative_base_directories_are_ignored_as_their_specification_says() -> None:
    assert load(env={**HOME, "XDG_STATE_HOME": "state"}).state_dir == load(env=HOME).state_dir


def test_without_home_the_user_is_told_and_no_list_of_users_is_asked() -> None:
    with pytest.raises(SettingError, match="HOME is not set"):
        load(env={})


def test_a_moved_state_folder_takes_the_runtime_folder_along() -> None:
    assert load(env=HOME, flags={"state_dir": "/s"}).runtime_dir == Path("/s/run")


def test_relative_paths_start_at_the_file_that_has_them(tmp_path: Path) -> None:
    file = config(tmp_path, "policy_file = 'rules.toml'\nallowed_roots = ['~/src', 'work']\n")
    settings = load(env=HOME, file=file)
    assert settings.policy_file == tmp_path / "rules.toml"
    assert settings.allowed_roots == (Path("/home/ada/src"), tmp_path / "work")


def test_a_cli_may_be_a_name_on_the_path_or_a_path() -> None:
    assert load(env=HOME, flags={"cli_path": "claude"}).cli_path == "claude"
    assert load(env=HOME, flags={"cli_path": "~/bin/claude"}).cli_path == "/home/ada/bin/claude"


def test_lists_are_separated_in_variables() -> None:
    env = {
        **HOME,
        "PILOTHOUSE_ALLOWED_ROOTS": "/a:/b",
        "PILOTHOUSE_ORIGINS": "https://a.example, http://b:8",
    }
    settings = load(env=env)
    assert settings.allowed_roots == (Path("/a"), Path("/b"))
    assert settings.origins == ("https://a.example", "http://b:8")


def test_none_takes_an_optional_setting_back(tmp_path: Path) -> None:
    file = config(tmp_path, "day_cap_usd = 20\n")
    assert load(env=HOME, file=file).day_cap_usd == 20
    env = {**HOME, "PILOTHOUSE_DAY_CAP_USD": "none"}
    assert load(env=env, file=file).day_cap_usd is None


# What is refused

WRONG: list[tuple[str, str]] = [
    ("permission_timeout_ms", "-1"),
    ("max_sessions", "0"),
    ("max_sessions", "many"),
    ("log_level", "loud"),
    ("event_buffer_size", "1.5"),
    ("host", "bad\nhost"),
    ("port", "65536"),
    ("allow_bypass", "perhaps"),
    ("allowed_roots", "\0"),
    ("idle_close_s", "nan"),
    ("server_idle_s", "inf"),
    ("session_cap_usd", "-0.01"),
    ("body_limit", "10"),
    ("origins", "https://a.example/path"),
    ("otel_endpoint", "localhost"),
    ("simulate", "maybe"),
    ("mcp_answers", "nobody"),
    ("mcp_mode", "sometimes"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_is_refused_with_its_name_source_and_what_is_allowed(
    name: str, value: str
) -> None:
    row = next(row for row in TABLE if row.name == name)
    with pytest.raises(SettingError) as refused:
        load(env={**HOME, row.variable: value})
    message = str(refused.value)
    assert message.startswith(f"{name} is ")
    assert f"({row.variable})" in message
    assert f"allowed: {row.kind.allowed}" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "line",
    ["max_sessions = true", "allow_bypass = 1", "host = 3", "origins = 3", "state_dir = []"],
)
def test_a_file_holds_values_of_their_own_type(tmp_path: Path, line: str) -> None:
    file = config(tmp_path, f"# A comment.\n{line}\n")
    with pytest.raises(SettingError, match=f"{re.escape(str(file))}:2"):
        load(env=HOME, file=file)


def test_a_flag_is_named_as_a_flag() -> None:
    with pytest.raises(SettingError, match=r"--max-sessions"):
        load(env=HOME, flags={"max_sessions": "x"})


def test_an_unknown_setting_of_a_file_is_refused_and_the_likely_one_named(tmp_path: Path) -> None:
    file = config(tmp_path, "\nmax_session = 1\n")
    with pytest.raises(SettingError, match=r":2: there is no .* is 'max_sessions' meant\?"):
        load(env=HOME, file=file)
    file = config(tmp_path, "[server]\nport = 1\n")
    with pytest.raises(SettingError, match=r":1: there is no setting 'server'"):
        load(env=HOME, file=file)


@pytest.mark.parametrize("content", [b"port = \n", b"\xff"])
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(content)
    with pytest.raises(SettingError, match=re.escape(str(file))):
        load(env=HOME, file=file)


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no such file"):
        load(env={**HOME, "PILOTHOUSE_CONFIG": str(tmp_path / "none.toml")})
    with pytest.raises(SettingError, match="cannot be read"):
        load(env=HOME, file=tmp_path)


# Telling and passing on


def test_secrets_are_not_told() -> None:
    endpoint = "https://ada:hunter2@otel.example/v1?key=swordfish"
    settings = load(env={**HOME, "PILOTHOUSE_OTEL_ENDPOINT": endpoint})
    told = {name: value for name, value, _ in settings.describe()}
    assert told["otel_endpoint"] == "https://[redacted]@otel.example/v1?[redacted]"
    with pytest.raises(SettingError) as refused:
        load(env=HOME, flags={"origins": [endpoint]})
    assert "hunter2" not in str(refused.value)


def test_what_is_told_is_plain_data() -> None:
    described = load(env=HOME, flags={"allowed_roots": ["/a"]}).describe()
    assert [name for name, _, _ in described] == NAMES
    assert msgspec.json.decode(msgspec.json.encode(described))
    assert ("allowed_roots", ["/a"], "--allowed-roots") in described


def every_setting_given() -> dict[str, Any]:
    return {
        "cli_path": "/bin/claude",
        "permission_timeout_ms": 1,
        "max_sessions": 2,
        "log_level": "debug",
        "event_buffer_size": 3,
        "host": "::1",
        "port": 4,
        "allow_bypass": True,
        "allowed_roots": ["/a", "/b"],
        "idle_close_s": 5.5,
        "server_idle_s": 6,
        "relays": False,
        "last_will_s": 60,
        "spool_limit": 2097152,
        "runner_lost_s": 10,
        "state_dir": "/s",
        "runtime_dir": "/r",
        "claude_config_dir": "/c",
        "policy_file": "/p",
        "retention_days": 7,
        "session_cap_usd": 8.25,
        "day_cap_usd": "none",
        "body_limit": 9999,
        "hosts": ["pilot.example"],
        "origins": ["https://a.example"],
        "tls_cert": "/cert",
        "tls_key": "/key",
        "insecure": True,
        "otel_endpoint": "http://o:1",
        "simulate": "never",
        "mcp_answers": "person",
        "mcp_model": "haiku",
        "mcp_mode": "acceptEdits",
        "mcp_allowed_tools": ["Read", "Bash(git diff *)"],
        "mcp_disallowed_tools": ["WebFetch"],
        "partials": False,
        "log_format": "json",
        "controls": ["x", "y"],
        "allowed_env": ["A", "B_*"],
    }


def test_another_process_gets_the_same_settings_by_its_environment() -> None:
    given = every_setting_given()
    assert set(given) == set(NAMES)
    settings = load(env=HOME, flags=given)
    again = load(env={**HOME, **settings.environment()})
    for name in NAMES:
        assert getattr(again, name) == getattr(settings, name), name
    assert load(env=HOME).environment() == {}


# The table


def test_the_table_and_the_struct_have_the_same_settings() -> None:
    assert [name for name in Settings.__struct_fields__ if name != "sources"] == NAMES


def test_every_variable_is_one_setting_alone() -> None:
    variables = [row.variable for row in TABLE]
    assert len(variables) == len(set(variables))


@pytest.mark.parametrize("row", TABLE, ids=NAMES)
def test_every_setting_says_in_one_line_what_it_does(row: Any) -> None:
    assert row.doc.endswith(".")
    assert "\n" not in row.doc
    assert "|" not in row.doc + row.default_text + row.kind.allowed


def test_the_reference_holds_the_table_as_it_is() -> None:
    page = (ROOT / "docs/reference-settings.md").read_text()
    assert reference() in page, "renew it: python -m pilothouse settings --reference"


def test_a_current_folder_that_is_gone_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(SettingError, match="the current folder is gone; change to one"):
        load(env={"HOME": str(tmp_path)})
