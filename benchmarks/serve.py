"""How long a user waits for `pilothouse serve`, from the start of its process until it serves."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping

import harness

BARE = """
import asyncio, signal, socket
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def sessions(request):
    return JSONResponse([])

class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print("serving at", *self.servers[0].sockets[0].getsockname(), flush=True)

app = Starlette(routes=[Route("/api/sessions", sessions)])
Server(uvicorn.Config(app, port=0, log_config=None, ws="websockets-sansio")).run()
"""
COMMANDS = {
    "limit": ("-c", BARE),
    "ours": ("-m", "pilothouse", "serve", "--port", "0", "--simulate", "always"),
}
READY = b"serving at"


def main() -> None:
    """Start ours and a bare server of the same libraries in turn."""
    chosen = harness.settings()
    rounds = chosen.rounds or (1 if chosen.quick else 15)
    with harness.home() as env:
        if not chosen.quick:
            for who in COMMANDS:
                run(who, env)  # what the disk has to be asked for is paid here
        measured = harness.interleave(tuple(COMMANDS), rounds, lambda who: run(who, env))
    harness.report(
        {
            "name": "serve",
            "unit": "ms from the start until it serves",
            **harness.compared(measured, "ms"),
            "target": {"ours_to_limit": 3.0},
            "ours_to_limit": harness.ratio(measured, "ours", "limit", "ms"),
            "cpu": harness.compared(measured, "cpu_ms"),
            "rounds": rounds,
        }
    )


def run(who: str, env: Mapping[str, str]) -> harness.Figures:
    """One process: milliseconds until it serves, and its processor time till then."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-P", *COMMANDS[who]],
        env=env,
        cwd=env["HOME"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    with process.stdout as told:
        if not any(READY in line for line in told):
            sys.exit(f"{who} never served")
        spent, worked = time.perf_counter() - begun, harness.cpu_ms(process.pid)
        process.terminate()
    process.wait(harness.DEADLINE)
    return {"ms": spent * 1000, "cpu_ms": worked}


if __name__ == "__main__":
    main()
