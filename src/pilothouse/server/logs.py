"""What the server says of itself on stderr, with secrets taken out: one JSON object a line, or
text for a person at a terminal.

A warning that comes again and again is written once and then counted: what anybody can cause is to
fill no disk. Where stderr is the log file of a server in the background, that is set aside when it
has grown long, and another is begun in its place.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO, cast

__all__ = ["LOG_NAME", "Lines", "Output", "Redaction", "Words", "open_log", "set_up"]

STDOUT, STDERR = 1, 2
REDACTED: Final = "[redacted]"
SHORTEST_SECRET: Final = 8
SECRET_VARIABLE: Final = re.compile(
    r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH)(?:_|$)", re.IGNORECASE
)
SECRET_MEMBER: Final = re.compile(
    r"^(?:authorization|cookie|set-cookie|(?:.*[_-])?(?:token|secret|password|api[_-]?key))$",
    re.IGNORECASE,
)
PATTERNS: Final = re.compile(
    r"""
    \bsk-ant-[\w-]{8,}
    | (?<=://)[^/@\s"']+(?=@)
    | (?i:(?<=bearer\s)|(?<=basic\s))[\w.~+/=-]{8,}
    | (?i:(?<=authorization:\s)|(?<=cookie:\s))[^\r\n"']+
    | \bpilothouse-\d{1,5}=[\w-]+
    | (?i:(?<=enter=)|(?<=token=)|(?<=api_key=)|(?<=apikey=)|(?<=password=)|(?<=secret=))[^\s&"']+
    """,
    re.VERBOSE,
)
LOG_NAME: Final = "server.log"
LONGEST_LOG: Final = 10 * 1024 * 1024
"""Bytes of a log before it is set aside, in the place of the one before it."""
REPEATS_S: Final = 60.0
MOST_SEEN: Final = 1000
"""Different warnings that are remembered; beyond that the oldest is forgotten."""
NUMBER: Final = re.compile(r"0x[0-9a-f]+|\d+")
# What every record has; whatever else it carries was given with `extra`.
PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class Redaction:
    """Takes secrets out of texts: those it is told by value, and what looks like one."""

    def __init__(self, secrets: Iterable[str] = (), env: Mapping[str, str] | None = None) -> None:
        kept = {name: value.strip() for name, value in (env or {}).items()}
        named = {value for name, value in kept.items() if SECRET_VARIABLE.search(name)}
        # A short one would take words out of every line.
        values = {each for each in {*secrets, *named} if len(each) >= SHORTEST_SECRET}
        longest_first = sorted(values, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if values else None

    def text(self, text: str) -> str:
        if self._values is not None:
            text = self._values.sub(REDACTED, text)
        return PATTERNS.sub(REDACTED, text)

    def value(self, value: Any, name: str = "") -> Any:
        """Plain data with its secrets taken out, by what they are or by what they are called."""
        match value:
            case str():
                return REDACTED if SECRET_MEMBER.match(name) else self.text(value)
            case dict():
                members = cast("dict[Any, Any]", value)
                return {str(key): self.value(each, str(key)) for key, each in members.items()}
            case list() | tuple():
                return [self.value(each, name) for each in cast("list[Any]", value)]
            case None | bool() | int() | float():
                return value
            case _:
                return self.text(str(value))


class Lines(logging.Formatter):
    """A record as one line of JSON."""

    def __init__(self, redaction: Redaction) -> None:
        super().__init__()
        self._redaction = redaction

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redaction.text(record.getMessage()),
        }
        for name, value in vars(record).items():
            if name not in PLAIN:
                told[name] = self._redaction.value(value, name)
        if record.exc_info:
            told["error"] = self._redaction.text(self.formatException(record.exc_info))
        return json.dumps(told, ensure_ascii=False)


class Words(logging.Formatter):
    """A record as a line for a person at a terminal."""

    def __init__(self, redaction: Redaction) -> None:
        super().__init__()
        self._redaction = redaction

    def format(self, record: logging.LogRecord) -> str:
        given = {name: value for name, value in vars(record).items() if name not in PLAIN}
        told = [
            datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S"),
            *([record.levelname] if record.levelno >= logging.WARNING else []),
            self._redaction.text(record.getMessage()),
            *(f"{name}={self._redaction.value(value, name)}" for name, value in given.items()),
        ]
        if record.exc_info:
            told.append(f"\n{self._redaction.text(self.formatException(record.exc_info))}")
        return " ".join(told)


class Repeats:
    """Counts the warnings that are like one of the last minute: but for their numbers, the same."""

    def __init__(self, most: int = MOST_SEEN) -> None:
        self._most = most
        self._seen: dict[object, _Seen] = {}

    def passes(self, record: logging.LogRecord) -> bool:
        """Whether to write it: not if one like it was."""
        if record.levelno < logging.WARNING:
            return True
        key = _likeness(record)
        if (seen := self._seen.get(key)) is not None:
            seen.more += 1
            return False
        self._seen[key] = _Seen(record)
        return True

    def ended(self, *, all_of_them: bool = False) -> list[logging.LogRecord]:
        """A record for each that was repeated in the minute after it, once that is over."""
        ended: list[logging.LogRecord] = []
        while self._seen:
            key, oldest = next(iter(self._seen.items()))
            if not (oldest.is_over or all_of_them or len(self._seen) > self._most):
                break
            del self._seen[key]
            if oldest.more:
                ended.append(oldest.repeated())
        return ended


class _Seen:
    """A record that was written, and how many like it were not."""

    def __init__(self, record: logging.LogRecord) -> None:
        self.more = 0
        self._message = record.getMessage()
        # Not what it was raised with: a frame keeps all that it had.
        self._record = {**vars(record), "args": None, "exc_info": None, "exc_text": None}
        self._until = time.monotonic() + REPEATS_S

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until

    def repeated(self) -> logging.LogRecord:
        told = f"{self._message} … and {self.more} more like it"
        record = logging.makeLogRecord({**self._record, "msg": told})
        record.created = time.time()
        return record


def _likeness(record: logging.LogRecord) -> object:
    beside = repr([each for each in vars(record).items() if each[0] not in PLAIN])
    what = NUMBER.sub("#", record.getMessage())
    return record.name, record.levelno, what, beside, _origin(record)


def _origin(record: logging.LogRecord) -> object:
    """Which exception it is, and where it was raised."""
    kind, _, at = record.exc_info or (None, None, None)
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return kind, at and (at.tb_frame.f_code, at.tb_lineno)


def open_log(path: Path) -> int:
    """Open a log to append to, for its user alone; one that is too long is set aside first."""
    if path.exists() and path.stat().st_size > LONGEST_LOG:
        path.replace(path.with_suffix(".log.1"))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def renew_log(path: Path) -> None:
    """Begin another log where stdout or stderr is this one, and it is too long.

    Whatever else of this process writes there goes along: the descriptors become the new file's.
    """
    with suppress(OSError):
        if os.fstat(STDERR).st_size <= LONGEST_LOG:
            return
        long = path.stat()
        there = [each for each in (STDOUT, STDERR) if os.path.samestat(os.fstat(each), long)]
        if there:
            descriptor = open_log(path)
            for each in there:
                os.dup2(descriptor, each)
            os.close(descriptor)


class Output(logging.StreamHandler[TextIO]):
    """Writes lines to a stream; `file` is what the stream may lead to."""

    def __init__(self, stream: TextIO, file: Path | None = None) -> None:
        super().__init__(stream)
        self._file = file
        self._repeats = Repeats()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(record)
        except Exception:  # noqa: BLE001 - as every handler: who logs must not fail by it
            self.handleError(record)

    def _write(self, record: logging.LogRecord) -> None:
        for each in self._repeats.ended():
            super().emit(each)
        if self._repeats.passes(record):
            super().emit(record)
            if self._file is not None:
                renew_log(self._file)

    def close(self) -> None:
        for each in self._repeats.ended(all_of_them=True):
            super().emit(each)
        super().close()


def set_up(
    level: str,
    redaction: Redaction,
    stream: TextIO | None = None,
    *,
    file: Path | None = None,
    shape: str = "json",
) -> logging.Handler:
    """Let every logger of the process write lines to the stream; stderr if none is given.

    If stderr is `file`, its length is seen to. `shape` is as the setting `log_format`.
    """
    given = sys.stderr if stream is None else stream
    handler = Output(given, file)
    is_text = shape == "text" or (shape == "auto" and given.isatty())
    handler.setFormatter(Words(redaction) if is_text else Lines(redaction))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # One line for each request it makes or each frame it sends is nothing to tell a user.
    for noisy in ("httpx", "httpcore", "uvicorn.error", "websockets", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
    return handler
