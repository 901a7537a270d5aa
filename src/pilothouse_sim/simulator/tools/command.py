"""A shell command that was started, and the file its output goes to."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from pathlib import Path

from pilothouse_sim.simulator.tools.ids import run_id

__all__ = ["ShellCommand"]


class ShellCommand:
    """One shell command and the file its output goes to."""

    def __init__(
        self, process: asyncio.subprocess.Process, name: str, output: Path, end: Path
    ) -> None:
        self.process = process
        self.task_id = name
        self.run_id = run_id()
        self.output_path = output
        self._end = end
        self.command = ""
        self.description: str | None = None
        self.tool_use_id = ""
        self.is_monitor = False
        """Whether its lines are events to be told of."""

    async def wait(self) -> int:
        """Wait for the end and return the exit code as the CLI gives it."""
        code = await self.process.wait()
        if code >= 0:
            return code
        # Measured: of all signals only SIGTERM has a code of its own.
        return 144 if code == -signal.SIGTERM else 1

    def kill(self) -> None:
        """End everything the command started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def size(self) -> int:
        """How many bytes it has written so far."""
        return self.output_path.stat().st_size if self.output_path.exists() else 0

    def output(self, limit: int | None = None) -> str:
        """What it has written so far, without blank lines around."""
        try:
            with self.output_path.open("rb") as file:
                data = file.read(-1 if limit is None else 4 * limit)
        except FileNotFoundError:
            return ""
        words = data.decode("utf-8", "replace")[:limit]
        return re.sub(r"^(\s*\n)+", "", words).rstrip()

    def folder(self) -> Path | None:
        """Where the shell stood when the command had ended well."""
        try:
            name = self._end.read_text().removesuffix("\n")
        except FileNotFoundError:
            return None
        return Path(name) if name else None

    def forget(self, *, output: bool) -> None:
        """Remove what the command left in the folder of tasks."""
        self._end.unlink(missing_ok=True)
        if output:
            self.output_path.unlink(missing_ok=True)
