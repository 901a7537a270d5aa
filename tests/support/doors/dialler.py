"""A program that stands for a CLI that dials, and the connections it would make."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from pilothouse.doors.dialect import SdkUrlTransport
from pilothouse.doors.dialling_process import launched
from pilothouse.doors.sockets import Scope, Socket
from pilothouse.transport import Exit
from tests.support.waiting import DEADLINE

SESSION, RUN, SECRET = "se ss/ion", "a-run", "a-run.secret"

# Tells what it was given, then waits for the end it is to come to.
PROGRAM = """
import json, os, signal, sys
told = dict(os.environ)
with open(int(told["CLAUDE_CODE_WEBSOCKET_AUTH_FILE_DESCRIPTOR"])) as secret:
    told = {"argv": sys.argv[2:], "env": told, "token": secret.read()}
signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
with open(sys.argv[1] + ".part", "w") as file:
    json.dump(told, file)
os.rename(sys.argv[1] + ".part", sys.argv[1])
while True:
    signal.pause()
"""


class Hearer:
    """A receiver that keeps everything."""

    def __init__(self) -> None:
        self.data = b""
        self.exits: list[Exit] = []
        self.order: list[str] = []
        self.gone = asyncio.Event()

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.data.splitlines()]

    def data_received(self, data: bytes) -> None:
        self.order.append("data")
        self.data += data

    def eof_received(self) -> None:
        self.order.append("eof")

    def exited(self, exit: Exit) -> None:
        self.order.append("exited")
        self.exits.append(exit)
        self.gone.set()


class DiallingPeer:
    """One connection of the CLI's, from its own side."""

    def __init__(self, cli: SdkUrlTransport, **headers: str) -> None:
        pairs = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
        self._incoming: asyncio.Queue[Scope] = asyncio.Queue()
        self._news = asyncio.Condition()
        self.heard = ""
        self.code: int | None = None
        socket = Socket({"headers": pairs}, self._incoming.get, self._take)
        self._visit = asyncio.create_task(cli.visited(socket))

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.heard.splitlines()]

    async def say(self, *messages: Any) -> None:
        """Sends each as a line, and returns when all were taken."""
        for message in messages:
            text = json.dumps(message) + "\n"
            self._incoming.put_nowait({"type": "websocket.receive", "text": text})
        while not self._incoming.empty() and not self._visit.done():  # noqa: ASYNC110
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def say_parts(self, *parts: str) -> None:
        """Sends each as a message of its own, and returns when all were taken."""
        for part in parts:
            self._incoming.put_nowait({"type": "websocket.receive", "text": part})
        await self.say()

    async def leave(self, code: int = 1006) -> None:
        self._incoming.put_nowait({"type": "websocket.disconnect", "code": code})
        await self.left()

    async def left(self) -> None:
        async with asyncio.timeout(DEADLINE):
            await self._visit

    async def until(self, count: int) -> list[Any]:
        """Waits until so many lines were heard."""
        async with asyncio.timeout(DEADLINE), self._news:
            await self._news.wait_for(lambda: self.heard.count("\n") >= count)
        return self.lines

    async def _take(self, message: Scope) -> None:
        if message["type"] == "websocket.close":
            self.code = message["code"]
            return
        self.heard += message["text"]
        async with self._news:
            self._news.notify_all()


def transport(folder: Path, *, hybrid: bool = False, **env: str) -> SdkUrlTransport:
    return launched(
        [sys.executable, "-c", PROGRAM, str(folder / "told")],
        cwd=str(folder),
        env=env,
        session_id=SESSION,
        run=RUN,
        token=SECRET,
        url="ws://127.0.0.1:1/",
        hybrid=hybrid,
    )


async def told(folder: Path) -> Any:
    """What the program was given."""
    async with asyncio.timeout(DEADLINE):
        while not (folder / "told").exists():  # noqa: ASYNC110 - nothing tells of a file
            await asyncio.sleep(0.01)
    return json.loads((folder / "told").read_text())


def line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


def said(uuid: str, kind: str = "assistant", **more: Any) -> dict[str, Any]:
    return {"type": kind, "uuid": uuid, **more}


def answer(request_id: str) -> dict[str, Any]:
    return {"type": "control_response", "response": {"request_id": request_id}}


def request(request_id: str, subtype: str = "can_use_tool") -> dict[str, Any]:
    inner = {"subtype": subtype}
    return {"type": "control_request", "request_id": request_id, "request": inner}
