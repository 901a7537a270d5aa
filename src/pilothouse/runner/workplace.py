"""This machine as sessions find it: its CLI, its folders, its environment, its transcripts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pilothouse.client.launch import ENCLOSING_SESSION
from pilothouse.client.locate import ask_version, cli_command, find_cli
from pilothouse.errors import CLINotFound

from . import reach

__all__ = ["NotHere", "Workplace", "is_plain"]

PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


class NotHere(Exception):
    """A session cannot be started here; the text says why."""


def is_plain(name: str) -> bool:
    """Whether a server's name for something may become that of a file of ours."""
    return PLAIN.fullmatch(name) is not None


@dataclass(slots=True)
class Workplace:
    """Reads the disk and runs the CLI for its version: to be called in a thread."""

    roots: Sequence[Path] = ()
    """Sessions work within these; none given, anywhere."""
    given_cli: str | None = None
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    _versions: dict[tuple[str, int, int], str | None] = field(
        default_factory=dict[tuple[str, int, int], str | None]
    )

    def cli(self) -> Path:
        """The CLI of this machine; raises `NotHere`."""
        try:
            return find_cli(self.given_cli, self.env)
        except CLINotFound as error:
            raise NotHere(str(error)) from error

    def command(self) -> list[str]:
        """The words that start it; raises `NotHere`."""
        try:
            return cli_command(self.given_cli, self.env)
        except CLINotFound as error:
            raise NotHere(str(error)) from error

    def cli_told(self) -> tuple[str | None, str | None]:
        """The CLI's path and version, as far as there are any."""
        try:
            cli = self.cli()
        except NotHere:
            return None, None
        return str(cli), self._version(cli)

    def _version(self, cli: Path) -> str | None:
        try:
            status = cli.stat()
        except OSError:
            return None
        # It updates itself under us; only then does it have to be asked again.
        key = (str(cli.resolve()), status.st_mtime_ns, status.st_size)
        if key not in self._versions:
            version = ask_version(cli, self.environment({}))
            self._versions[key] = ".".join(map(str, version)) if version else None
        return self._versions[key]

    def environment(self, asked: Mapping[str, str]) -> dict[str, str]:
        """The environment of a session's CLI: this machine's, and what the server asks for."""
        own = {name: value for name, value in self.env.items() if name not in ENCLOSING_SESSION}
        return {**own, **asked}

    def directory(self, cwd: str | None) -> Path:
        """Where a session is to work, without links; raises `NotHere`."""
        asked = Path(cwd) if cwd else self._home()
        if not asked.is_absolute():
            raise NotHere(f"the directory {_shown(asked)} is not absolute")
        try:
            found = asked.resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            raise NotHere(f"there is no directory {_shown(asked)} on this machine") from None
        if not found.is_dir():
            raise NotHere(f"{_shown(asked)} is no directory")
        self._confine(found, asked)
        if _shown(found) != str(found):
            raise NotHere(f"the path {_shown(found)} is not UTF-8; rename it, or choose another")
        return found

    def check(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        files: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Refuse a command line that opens a folder outside of the roots; raises `NotHere`."""
        if not self.roots:
            return
        home = Path(env.get("HOME") or self._home())
        try:
            for each in reach.wished(argv, cwd, files):
                for path in reach.readings(each, cwd, home):
                    self._confine(_resolved(path), each)
        except reach.SettingsUnreadable as error:
            raise NotHere(f"{error}; the runner's roots ask for it") from None

    def _confine(self, found: Path, asked: str | Path) -> None:
        roots = [root.resolve() for root in self.roots]
        if roots and not any(found.is_relative_to(root) for root in roots):
            allowed = ", ".join(map(_shown, self.roots))
            raise NotHere(f"{_shown(asked)} is outside the runner's roots ({allowed})")

    def has_transcript(self, session_id: str) -> bool:
        """Whether the CLI keeps that conversation here."""
        if not is_plain(session_id):
            return False
        given = self.env.get("CLAUDE_CONFIG_DIR")
        projects = (Path(given) if given else self._home() / ".claude") / "projects"
        return any(path.is_file() for path in projects.glob(f"*/{session_id}.jsonl"))

    def _home(self) -> Path:
        return Path(self.env.get("HOME") or Path.home())


def _shown(path: str | Path) -> str:
    """The path as text that can be sent, also where it is none."""
    return str(path).encode("utf-8", "replace").decode()


def _resolved(path: Path) -> Path:
    """Where it leads, there or not; raises `NotHere`."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        raise NotHere(f"nobody can tell where {str(path)!r} leads") from None
