"""Runs `pilothouse` as a user does, but its server soon misses who falls silent."""

from __future__ import annotations

import sys
from asyncio import constants
from typing import Any

import uvicorn

from pilothouse.cli import main

PATIENCE = 0.6


class Config(uvicorn.Config):
    def __init__(self, *given: Any, **options: Any) -> None:
        quick = {"ws_ping_interval": PATIENCE, "ws_ping_timeout": PATIENCE}
        super().__init__(*given, **{**options, **quick})


if __name__ == "__main__":
    uvicorn.Config = Config  # pyright: ignore[reportPrivateImportUsage]
    # As long a TLS connection that is closed waits for the other side to say goodbye.
    constants.SSL_SHUTDOWN_TIMEOUT = 0.1
    sys.exit(main())
