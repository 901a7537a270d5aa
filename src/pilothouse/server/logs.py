"""What the server says of itself on stderr: one JSON object a line, with secrets taken out."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO, cast

__all__ = ["Lines", "Redaction", "set_up"]

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
    | (?i:(?<=token=)|(?<=api_key=)|(?<=apikey=)|(?<=password=)|(?<=secret=))[^\s&"']+
    """,
    re.VERBOSE,
)
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


def set_up(level: str, redaction: Redaction, stream: TextIO | None = None) -> logging.Handler:
    """Let every logger of the process write lines to the stream; stderr if none is given."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(Lines(redaction))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # One line for each request it makes or each frame it sends is nothing to tell a user.
    for noisy in ("httpx", "httpcore", "uvicorn.error", "websockets", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
    return handler
