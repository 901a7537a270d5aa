"""A CLI that a person starts: a line that is pasted into a shell."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any


def program(cli: Any) -> Path:
    """The CLI itself: the executable of a real one keeps every other variable out, tokens too."""
    return getattr(cli, "binary", cli.path)


@asynccontextmanager
async def pasted(line: str, cli: Any) -> AsyncIterator[Process]:
    """The process of a line that somebody pastes into a shell where this CLI is at home."""
    process = await asyncio.create_subprocess_shell(
        # So that a signal reaches the CLI, and not the shell that waits for it.
        line.replace("&& ", "&& exec env ", 1) if line.startswith("cd ") else f"exec {line}",
        cwd=cli.cwd,
        env={"PATH": os.environ["PATH"], **cli.environment},
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
