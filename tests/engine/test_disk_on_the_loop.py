"""No verb of the engine waits for a disk on the event loop: one that hangs would hold everybody.

Files are opened, listed and looked at under an audit hook and a few wrappers, which note whatever
of that our own code does on the loop's thread. What is allowed there is listed, with its reason.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import pilothouse
from pilothouse.api.answers import Allow
from pilothouse.api.operations import OPERATIONS
from pilothouse.api.requests import Ask, DialIn, Fork, Start
from pilothouse.errors import PilothouseError
from pilothouse_sim.plugin import SimulatedCLIMaker
from pilothouse_sim.scenario import reply, tool
from tests.support.engine.harness import EngineHarness, OpenEngine, harnesses

SOURCE = str(Path(pilothouse.__file__).parent) + "/"

AUDITED = frozenset(
    {
        *("open", "os.chmod", "os.link", "os.listdir", "os.mkdir", "os.remove", "os.rename"),
        *("os.rmdir", "os.scandir", "os.symlink", "os.truncate", "os.utime", "shutil.rmtree"),
        *("sqlite3.connect", "tempfile.mkdtemp", "tempfile.mkstemp", "fcntl.flock"),
    }
)
WRAPPED = ("access", "fsync", "lstat", "pwrite", "readlink", "stat", "statvfs")

LOCK = "a lock is given back in the step that ends the CLI: one file of ours, never waited for"
START = "the program and the files of a child process, in the moment it is started or has ended"
RELAY = "whether a relay of ours lives is asked in the step that decides on it"
ALLOWED = {
    "client/locate.py:_shebang": START,
    "client/locate.py:is_program": START,
    "doors/local.py:LocalRelays.is_starting": RELAY,
    "doors/local.py:LocalRelays.is_starting.<locals>.<genexpr>": RELAY,
    "engine/policy/policy.py:PolicyFile.is_absent": (
        "one look at a path; where there are no rules, a thread would cost more than the ask"
    ),
    "engine/writers.py:_is_at": LOCK,
    "engine/writers.py:_lock": LOCK,
    "engine/writers.py:_remove": LOCK,
    "engine/writers.py:_remove_unheld": LOCK,
    "folders.py:make_private": START,
    "folders.py:replace_private": "the names of runners, written where an operator changes them",
    "relay/registry.py:alive": RELAY,
    "relay/registry.py:started_at": RELAY,
    "transport/guard_client.py:_start_guard": START,
    "transport/private_files.py:PrivateFiles._make": START,
    "transport/private_files.py:PrivateFiles.remove": START,
    "transport/private_files.py:PrivateFiles.write": START,
    "transport/private_files.py:_clear": START,
    "transport/private_files.py:_clear_once": START,
}
"""Where in our code -> why it may."""


class Watched:
    """Notes what our code asks of a disk on one thread, while it is on."""

    def __init__(self) -> None:
        self.is_on = False
        self.thread = 0
        self.seen: dict[str, set[str]] = {}

    def note(self, event: str) -> None:
        if self.is_on and threading.get_ident() == self.thread:
            place = _place(sys._getframe(2))
            if place is not None:
                self.seen.setdefault(place, set()).add(event)

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        # One that is open already has a number.
        if event in AUDITED and not (event == "open" and isinstance(args[0], int)):
            self.note(event)

    def wrapped(self, name: str) -> Callable[..., Any]:
        act = getattr(os, name)

        def wrapper(path: Any, *args: Any, **named: Any) -> Any:
            if not isinstance(path, int) or name == "pwrite":
                self.note(f"os.{name}")
            return act(path, *args, **named)

        return wrapper


def _place(frame: FrameType | None) -> str | None:
    """The innermost function of ours; None where it is an import, which happens once."""
    found: str | None = None
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib"):
            return None
        if found is None and name.startswith(SOURCE):
            found = f"{name.removeprefix(SOURCE)}:{frame.f_code.co_qualname}"
        frame = frame.f_back
    return found


WATCHED = Watched()
# A hook cannot be taken away again, so there is one, which is off.
sys.addaudithook(WATCHED.audit)


@contextmanager
def watching(monkeypatch: pytest.MonkeyPatch) -> Generator[dict[str, set[str]]]:
    with monkeypatch.context() as patched:
        for name in WRAPPED:
            patched.setattr(os, name, WATCHED.wrapped(name))
        WATCHED.thread, WATCHED.seen, WATCHED.is_on = threading.get_ident(), {}, True
        try:
            yield WATCHED.seen
        finally:
            WATCHED.is_on = False


@pytest.fixture(params=["stdio", "relay"])
async def made(
    request: pytest.FixtureRequest, simulated_cli: SimulatedCLIMaker, tmp_path: Path
) -> AsyncIterator[OpenEngine]:
    async with harnesses(simulated_cli, tmp_path, request.param) as make:
        yield make


async def use_everything(it: EngineHarness) -> set[str]:
    """Every verb once, with whatever comes of it; their names."""
    engine, used = it.engine, set[str]()

    def verb(name: str) -> Callable[..., Any]:
        used.add(name)

        async def act(*args: Any, **named: Any) -> Any:
            # That a verb is refused is no matter here.
            with suppress(PilothouseError):
                return await getattr(engine, name)(*args, **named)

        return act

    name = await it.start()
    question = await it.asked(name)
    await verb("file_change")(question.id)
    await verb("answer")(question.id, Allow())
    await it.until(name, "done")
    second = await it.start("again", add_dirs=[str(it.cwd)])
    await it.answer(second, Allow())
    await it.until(second, "done")
    await verb("start")(Start(prompt="no", cwd="/nowhere/at/all"))
    prompt = await it.say(second, "more")
    verb("say")
    await verb("cancel")(second, prompt)
    await verb("interrupt")(second)
    await verb("set_mode")(second, "acceptEdits")
    await verb("set_model")(second, "sonnet")
    await verb("set_thinking")(second, 1000)
    await verb("rewind")(second, prompt, preview=True)
    await verb("compact")(second)
    for each in ("mcp_status", "context_usage", "commands", "models", "greeting", "conversation"):
        await verb(each)(second)
    await verb("timeline")(second)
    page = await engine.conversation(second)
    await engine.conversation(second, search="made")
    await verb("item_source")(second, page.items[0].id)
    await verb("wait")(second, seconds=0)
    async with aclosing(engine.follow(second, 0)) as changes:
        await anext(changes)
    await verb("mcp_reconnect")(second, "none")
    await verb("mcp_toggle")(second, "none", enabled=True)
    await verb("mcp_message")(second, "none", message={})
    await verb("mcp_set")(second, {})
    await verb("control")(second, "get_status", {})
    await verb("stop")(second)
    await it.say(second, "again")
    await it.until(second, "done", "error")
    await verb("fork")(name, Fork(prompt="fork"))
    guest = Ask(
        session_id="a-guest",
        tool_name="Bash",
        tool_use_id="t",
        input={"command": "ls"},
        cwd=str(it.cwd),
        wait_s=0,
    )
    asked = await verb("ask")(guest)
    await verb("questions")()
    await verb("question")(asked.question.id)
    await verb("withdraw")(asked.question.id, "enough")
    await verb("status")(name, output_lines=3)
    await verb("list")(cwd=str(it.cwd))
    await verb("list")()
    await verb("list")(search="again", archived=True)
    await verb("archive")(second, archived=False)
    await verb("directories")(str(it.cwd))
    await verb("files")(second, query="made")
    await verb("read")(0)
    async with aclosing(engine.watch(0)) as batches:
        await anext(batches)
    await verb("policy")()
    await verb("policy_dry_run")("")
    await verb("save_policy")("")
    await verb("cost")()
    await verb("activity")()
    await verb("settings")()
    await verb("health")()
    await verb("dial_in")(DialIn(cwd=str(it.cwd)))
    await verb("dial_ins")()
    await verb("runners")()
    await verb("add_runner")("attic")
    await verb("drain_runner")("attic")
    await verb("revoke_runner")("attic")
    await verb("stop_all")()
    return used


async def test_no_verb_asks_a_disk_on_the_event_loop(
    made: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = reply(tool("Write", file_path="made", content="made"))
    it = await made(asks, *["Done."] * 8, strict=False)
    with watching(monkeypatch) as seen:
        used = await use_everything(it)
    assert used >= {each.name for each in OPERATIONS} - {"history", "watch"}
    assert sorted(seen.keys() - ALLOWED.keys()) == []
