"""A real CLI at a terminal, as a person has it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from pilothouse_sim.clis import RealCLI
from tests.support.waiting import DEADLINE

ROWS, COLUMNS = 40, 120


class Terminal:
    """Types, and waits for what is shown."""

    def __init__(self, cli: RealCLI) -> None:
        self._end = time.monotonic() + DEADLINE
        self._fd, theirs = pty.openpty()
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            [cli.binary],
            cwd=cli.cwd,
            env=cli.environment | {"TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._fd)

    def see(self, words: str) -> None:
        """Waits until the words are shown."""
        shown = b""
        while words.encode() not in shown:
            part = self._read()
            assert part, f"the CLI ended without showing {words!r}: {shown[-500:]!r}"
            shown += part

    def type(self, words: str, *, shows: str) -> None:
        """Types, and waits for what that shows."""
        os.write(self._fd, words.encode())
        self.see(shows)

    def leave(self) -> None:
        """Ends the CLI as a person does."""
        self.type("\x03", shows="again to exit")
        os.write(self._fd, b"\x03")
        while self._read():
            pass
        self._process.wait(self._end - time.monotonic())

    def _read(self) -> bytes:
        ready, _, _ = select.select([self._fd], [], [], self._end - time.monotonic())
        assert ready, "the deadline has passed"
        try:
            return os.read(self._fd, 65536)
        except OSError:  # how Linux tells that nobody holds the other end
            return b""


@contextmanager
def terminal(cli: RealCLI) -> Iterator[Terminal]:
    """A CLI that has been used here before, so that it asks nothing first."""
    key = cli.environment["ANTHROPIC_API_KEY"]
    known = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [key[-20:]], "rejected": []},
        "projects": {str(cli.cwd.resolve()): {"hasTrustDialogAccepted": True}},
    }
    (cli.home / ".claude" / ".claude.json").write_text(json.dumps(known))
    with Terminal(cli) as it:
        it.see("\u276f")  # the prompt
        yield it
