"""A program that drives a CLI with Pilothouse and then comes to the end the test has in mind.

Run as a script: `client_owner.py CLI HOME CWD MODEL_URL END`. It prints the CLI's pid, says one
prompt, and stays until it is killed or, at a line on its stdin, ends as `END` says.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from pilothouse import Allow, Client, Options, PermissionRequest
from pilothouse_sim.real_cli import environment


def tell(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def decide(request: PermissionRequest) -> Allow:
    if request.input.get("description") == "never answered":
        tell("asked")
        await asyncio.Event().wait()
    return Allow()


async def own(options: Options, end: str) -> None:
    client = Client(options)
    await client.connect()
    tell(client.pid)
    await client.say("go")
    told = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), told.set)
    await told.wait()
    match end:
        case "closing":
            await client.aclose()
        case "leaving":
            os._exit(0)
        case "failing":
            raise SystemExit("nobody closed the client")


def main(cli: str, home: str, cwd: str, url: str, end: str) -> None:
    # A shell that started the tests in the background had the one ignored, `nohup` the other.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    env = environment(Path(home), url)
    options = Options(cli_path=cli, cwd=cwd, inherit_env=False, env=env, on_permission=decide)
    asyncio.run(own(options, end))


if __name__ == "__main__":
    main(*sys.argv[1:])
