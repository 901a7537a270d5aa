"""How long an MCP client waits for the list of tools, from the start of the server's process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping

import harness

HELLO = """
from mcp.server import MCPServer
server = MCPServer("hello")
@server.tool()
def greet(name: str) -> str:
    "Say hello."
    return f"Hello, {name}!"
server.run()
"""
COMMANDS = {
    "limit": ("-c", HELLO),
    "ours": ("-m", "pilothouse", "mcp"),
}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


def main() -> None:
    """Start ours and the SDK's smallest server in turn."""
    chosen = harness.settings()
    rounds = chosen.rounds or (1 if chosen.quick else 15)
    with harness.home() as env:
        if not chosen.quick:
            for who in COMMANDS:
                run(who, env)  # what the disk has to be asked for is paid here
        measured = harness.interleave(tuple(COMMANDS), rounds, lambda who: run(who, env))
    harness.report(
        {
            "name": "mcp",
            "unit": "ms from the start to the list of tools",
            **harness.compared(measured, "ms"),
            "target": {"ours_to_limit": 1.3},
            "ours_to_limit": harness.ratio(measured, "ours", "limit", "ms"),
            "cpu": harness.compared(measured, "cpu_ms"),
            "rounds": rounds,
        }
    )


def run(who: str, env: Mapping[str, str]) -> harness.Figures:
    """One process: milliseconds until its tools are listed, and its processor time till then."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-P", *COMMANDS[who]],
        env=env,
        cwd=env["HOME"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin as tell, process.stdout as told:
        said = (INITIALIZE, INITIALIZED, LIST)
        tell.write(b"".join(json.dumps(each).encode() + b"\n" for each in said))
        tell.flush()
        if not any(b'"tools":[' in line for line in told):
            sys.exit(f"{who} never told its tools")
        spent, worked = time.perf_counter() - begun, harness.cpu_ms(process.pid)
    if process.wait(harness.DEADLINE):
        sys.exit(f"{who} failed with {process.returncode}")
    return {"ms": spent * 1000, "cpu_ms": worked}


if __name__ == "__main__":
    main()
