"""The values of the settings, from a file, the environment and flags; the later one wins."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from msgspec import Struct

from pilothouse.errors import SettingError

from .kinds import Around, in_config, runtime_folder
from .table import ROWS, TABLE, Setting

__all__ = ["CONFIG_VARIABLE", "Settings", "load"]

CONFIG_VARIABLE: Final = "PILOTHOUSE_CONFIG"

Simulate = Literal["auto", "always", "never"]
McpAnswers = Literal["anyone", "person"]
McpMode = Literal["default", "acceptEdits", "plan", "bypassPermissions", "auto", "dontAsk"]
LogFormat = Literal["auto", "json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]


class Settings(Struct, frozen=True, kw_only=True):
    """The value of every setting. `load` returns it."""

    cli_path: str | None
    permission_timeout_ms: int
    max_sessions: int
    log_level: LogLevel
    log_format: LogFormat
    event_buffer_size: int
    host: str
    port: int
    allow_bypass: bool
    allowed_roots: tuple[Path, ...]
    allowed_env: tuple[str, ...]
    idle_close_s: float
    server_idle_s: float
    relays: bool
    last_will_s: float
    spool_limit: int
    runner_lost_s: float
    state_dir: Path
    runtime_dir: Path
    claude_config_dir: Path
    policy_file: Path
    retention_days: int
    session_cap_usd: float | None
    day_cap_usd: float | None
    body_limit: int
    hosts: tuple[str, ...]
    origins: tuple[str, ...]
    tls_cert: Path | None
    tls_key: Path | None
    insecure: bool
    otel_endpoint: str | None
    simulate: Simulate
    partials: bool
    controls: tuple[str, ...]
    mcp_answers: McpAnswers
    mcp_model: str | None
    mcp_mode: McpMode | None
    mcp_allowed_tools: tuple[str, ...]
    mcp_disallowed_tools: tuple[str, ...]
    sources: dict[str, str]
    """Where each came from: a file and its line, a variable, a flag, or `default`."""

    def describe(self) -> list[tuple[str, Any, str]]:
        """Return every setting's name, its value as plain data without secrets, and its source."""
        return [
            (row.name, _shown(getattr(self, row.name)), self.sources[row.name]) for row in TABLE
        ]

    def environment(self) -> dict[str, str]:
        """Return the variables that give another process what differs here from the defaults.

        Only that: a CLI looks for its own files elsewhere once `CLAUDE_CONFIG_DIR` is set at all.
        """
        given = (row for row in TABLE if self.sources[row.name] != "default")
        values = ((row, getattr(self, row.name)) for row in given)
        return {row.variable: row.kind.write(value) for row, value in values}


class _Given(NamedTuple):
    """A value as it was found, and where."""

    raw: Any
    source: str
    folder: Path


def load(
    *, env: Mapping[str, str], file: Path | None = None, flags: Mapping[str, Any] | None = None
) -> Settings:
    """Return the settings of the file, the environment and the flags; the later one wins.

    A flag that is None was not given, and neither was an empty variable. Without a file, the one
    that `PILOTHOUSE_CONFIG` names is read, or else the usual one where it exists.
    """
    given = _from_file(env, file) | _from_environment(env) | _from_flags(flags or {})
    values = {name: _parsed(ROWS[name], each, env) for name, each in given.items()}
    sources = {
        row.name: given[row.name].source if row.name in given else "default" for row in TABLE
    }
    for row in TABLE:
        if row.name not in values:
            values[row.name] = row.default(env) if callable(row.default) else row.default
    values["runtime_dir"] = values["runtime_dir"] or runtime_folder(env, values["state_dir"])
    return Settings(**values, sources=sources)


def _parsed(row: Setting, given: _Given, env: Mapping[str, str]) -> Any:
    try:
        return row.kind.parse(given.raw, Around(env, given.folder))
    except (ValueError, OverflowError):
        told = f"{row.name} is {_quoted(given.raw)} ({given.source})"
        raise SettingError(f"{told}; allowed: {row.kind.allowed}") from None


def _from_environment(env: Mapping[str, str]) -> dict[str, _Given]:
    here = _here()
    return {
        row.name: _Given(env[row.variable], row.variable, here)
        for row in TABLE
        if env.get(row.variable)
    }


def _from_flags(flags: Mapping[str, Any]) -> dict[str, _Given]:
    here = _here()
    given = {name: value for name, value in flags.items() if value is not None}
    for name in given:
        if name not in ROWS:
            raise SettingError(f"{_flag(name)}: there is no setting {name!r}{_perhaps(name)}")
    return {name: _Given(value, _flag(name), here) for name, value in given.items()}


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError:
        raise SettingError("the current folder is gone; change to one that is there") from None


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _from_file(env: Mapping[str, str], file: Path | None) -> dict[str, _Given]:
    path, text = _file_text(env, file)
    given: dict[str, _Given] = {}
    for name, raw in _parsed_file(path, text).items():
        where = f"{path}:{_line_of(name, text)}"
        if name not in ROWS:
            raise SettingError(f"{where}: there is no setting {name!r}{_perhaps(name)}")
        given[name] = _Given(raw, where, (_here() / path).parent)
    return given


def _file_text(env: Mapping[str, str], file: Path | None) -> tuple[Path, str]:
    """Return the file and its text; no text if the usual file does not exist."""
    named = file or (Path(env[CONFIG_VARIABLE]) if env.get(CONFIG_VARIABLE) else None)
    path = named or in_config("config.toml")(env)
    try:
        return path, path.read_text("utf-8")
    except FileNotFoundError:
        if named is None:
            return path, ""
        raise SettingError(f"{path}: there is no such file; create it, or name another") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        told = f"{path}: the settings cannot be read: {reason}"
        raise SettingError(f"{told}; correct that, or name another file with --config") from None


def _parsed_file(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        told = f"{path}: this is not TOML: {reason}"
        raise SettingError(f"{told}; correct that, or name another file with --config") from None


def _line_of(name: str, text: str) -> int:
    """Return the line that sets a name; the parser keeps no lines."""
    setting = re.compile(rf"""\s*\[*\s*["']?{re.escape(name)}["']?\s*[=.\]]""")
    lines = enumerate(text.splitlines(), start=1)
    return next((number for number, line in lines if setting.match(line)), 1)


def _perhaps(name: str) -> str:
    import difflib  # only a mistake needs it

    close = difflib.get_close_matches(name, ROWS, n=1)
    return f"; is {close[0]!r} meant?" if close else "; `pilothouse settings` lists them"


def _shown(value: Any) -> Any:
    match value:
        case Path():
            return str(value)
        case tuple() | list():
            return [_shown(each) for each in cast("Sequence[Any]", value)]
        case str():
            # A URL may carry a password or a key.
            value = re.sub(r"(?<=://)[^/@\s]*@", "[redacted]@", value)
            return re.sub(r"(?<=\?)\S+", "[redacted]", value) if "://" in value else value
        case _:
            return value


def _quoted(raw: Any) -> str:
    text = repr(str(raw) if isinstance(raw, Path) else _shown(raw))
    return text if len(text) <= 80 else f"{text[:77]}..."
