"""What a recording and a live session call by different names: ids, and folders of the host."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pilothouse_sim.cassettes import CassetteHeader
from pilothouse_sim.line_strings import path_changer, rewrite_strings

from .comparison import flags_of

__all__ = ["HostPlace", "Names", "session_in"]

SESSION_FLAGS: Final = ("--session-id", "--resume", "-r")
UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
ID: Final = re.compile(
    rf"(?<![0-9A-Za-z]){UUID.pattern}(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z_])(?:toolu|srvtoolu|msg|req|ph)_[0-9A-Za-z_]{3,80}"
)
"""What looks like an id that one side makes up."""

ID_KEY: Final = re.compile(r"(?:^id|_id|_ids|Id|ID|uuid|uuids|Uuid)$")
"""Where such an id is one, and no mere text."""


@dataclass(frozen=True, slots=True)
class HostPlace:
    """Where a session runs."""

    cwd: str
    home: str
    config_dir: str

    @classmethod
    def of(cls, header: CassetteHeader) -> HostPlace:
        return cls(header.cwd, header.home, header.config_dir)


class Names:
    """Translates lines between a recording and a live session.

    An id that the client makes up is bound when the client's line is matched. One that the CLI
    makes up gets a fresh one in its place when it is first written.
    """

    def __init__(self, lines: Iterable[bytes], recorded: HostPlace, live: HostPlace) -> None:
        self._ids = _ids_in(lines)
        self._to_live: dict[str, str] = {}
        self._to_recorded: dict[str, str] = {}
        pairs = _folders(recorded, live)
        self._live_paths = path_changer(pairs)
        self._recorded_paths = path_changer([(new, old) for old, new in pairs])

    def bind(self, recorded: str, live: str) -> None:
        """Say that these two name the same."""
        self._to_live[recorded] = live
        self._to_recorded[live] = recorded

    def live_line(self, line: bytes, **under: str) -> bytes:
        """A recorded line as the live session has it; `under` replaces strings by their key."""
        return rewrite_strings(
            line, lambda key, text: under.get(key or "") or self._live(key, text)
        )

    def recorded_line(self, line: bytes) -> bytes:
        """A live line as the recording would have it."""
        return rewrite_strings(line, self._recorded)

    def _live(self, key: str | None, text: str) -> str:
        if key == "request_id" and text in self._to_live:
            return self._to_live[text]
        return self._live_paths(ID.sub(lambda found: self.live_id(found[0]), text))

    def _recorded(self, key: str | None, text: str) -> str:
        if key == "request_id" and text in self._to_recorded:
            return self._to_recorded[text]
        text = ID.sub(lambda found: self._to_recorded.get(found[0], found[0]), text)
        return self._recorded_paths(text)

    def live_id(self, recorded: str) -> str:
        """The id that stands for a recorded one."""
        if recorded in self._ids and recorded not in self._to_live:
            self.bind(recorded, _fresh(recorded))
        return self._to_live.get(recorded, recorded)


def _ids_in(lines: Iterable[bytes]) -> set[str]:
    found: set[str] = set()

    def collect(key: str | None, text: str) -> str:
        if key is not None and ID_KEY.search(key) and ID.fullmatch(text):
            found.add(text)
        return text

    for line in lines:
        rewrite_strings(line, collect)
    return found


def _fresh(recorded: str) -> str:
    if UUID.fullmatch(recorded):
        return str(uuid.uuid4())
    kind = recorded.partition("_")[0]
    return f"{kind}_{uuid.uuid4().hex}"


def _folders(recorded: HostPlace, live: HostPlace) -> Sequence[tuple[str, str]]:
    return [
        (recorded.cwd, live.cwd),
        (recorded.config_dir, live.config_dir),
        (recorded.home, live.home),
    ]


def session_in(command: Sequence[str]) -> str | None:
    """The id of the session that a command line names."""
    named: dict[str, str] = {}
    for name, value in flags_of(command):
        if name in SESSION_FLAGS and UUID.fullmatch(value):
            named[name] = value
    if "--fork-session" in command:
        return named.get("--session-id")
    return next((named[name] for name in SESSION_FLAGS if name in named), None)
