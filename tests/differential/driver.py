"""Plays a scene on the real CLI or on the simulator and writes down what came out.

Both players get the same arguments, the same environment, the same lines on stdin and the same
scenario; only who speaks the model's part differs, and that is what a `Stage` hides.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pilothouse_sim.real_cli import environment
from pilothouse_sim.scenario import Scenario, save
from pilothouse_sim.scripted_model import ScriptedModel
from tests.support.raw_cli import ARGUMENTS, Answers, Message, RawProcess

__all__ = [
    "ENVIRONMENT",
    "Cli",
    "Performance",
    "RealPlayer",
    "Scene",
    "SimulatedPlayer",
    "Stuck",
    "Transcript",
    "own_uuid",
    "perform",
]

ENVIRONMENT = {"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1", "ENABLE_TOOL_SEARCH": "false"}
PATIENCE = 60.0
"""Seconds a scene waits for what must come: a bound for what hangs, not a measure."""


@dataclass(frozen=True)
class Scene:
    """What the model says, what the host does meanwhile, and the rows of the protocol it covers.

    `play` drives one process that was started with `base` and `arguments`. A scene of several
    processes has `perform` instead, which starts them.
    """

    scenario: Scenario
    play: Callable[[Cli], Awaitable[None]] | None = None
    arguments: tuple[str, ...] = ()
    answers: Answers = field(default_factory=dict[str, Any])
    env: dict[str, str] = field(default_factory=dict[str, str])
    prepare: Callable[[Path], None] | None = None
    perform: Callable[[Performance], Awaitable[None]] | None = None
    base: tuple[str, ...] = ARGUMENTS
    covers: str = ""
    files: bool = False
    """Whether the files left in the working directory are compared."""
    stderr: bool = False
    """Whether stderr is compared."""


@dataclass
class Transcript:
    """What one performance left behind.

    `lines` are the messages of stdout; beside them stand lines that a process does not write
    itself: `exit` with its code, `stderr`, `file`, and `stuck` when a wait was in vain.
    """

    root: str
    lines: list[Message]
    stderr: str = ""
    """For the developer: it is compared only where the scene says so, and then in `lines`."""


class Stuck(Exception):
    """Something that a scene waits for did not come."""


def own_uuid(number: int) -> str:
    """A uuid of the host's, the same in every performance."""
    return f"{number:08}-0000-4000-8000-000000000000"


class ModelStand(Protocol):
    """Where the model's part is played."""

    url: str
    env: dict[str, str]

    async def reached(self, gate: str) -> None:
        """Waits until the model stands at the gate."""
        ...

    def release(self, gate: str) -> None:
        """Opens the gate."""
        ...


class Player(Protocol):
    """Somebody who can perform: a command, and the stage that belongs to it."""

    command: Sequence[str | Path]
    patience: float

    def stage(self, scenario: Scenario, root: Path) -> Any:
        """The stage for one performance, as an asynchronous context."""
        ...


class ModelStage:
    """A scripted model behind the real CLI."""

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model
        self.url = model.url
        self.env: dict[str, str] = {}

    async def reached(self, gate: str) -> None:
        await self._model.reached(gate)

    def release(self, gate: str) -> None:
        self._model.release(gate)


class FolderStage:
    """A folder in which the simulator and its audience leave each other signs."""

    def __init__(self, folder: Path, scenario: Path) -> None:
        self._folder = folder
        # Nobody listens there: the simulator has no model to call.
        self.url = "http://127.0.0.1:9"
        self.env = {"PILOTHOUSE_SCENARIO": str(scenario), "PILOTHOUSE_STAGE": str(folder)}

    async def reached(self, gate: str) -> None:
        await appears(self._folder / f"{gate}.reached")

    def release(self, gate: str) -> None:
        (self._folder / f"{gate}.open").touch()


class RealPlayer:
    """The real CLI."""

    def __init__(self, binary: Path) -> None:
        self.command: Sequence[str | Path] = (binary,)
        self.patience = PATIENCE

    @asynccontextmanager
    async def stage(self, scenario: Scenario, root: Path) -> AsyncIterator[ModelStand]:
        async with ScriptedModel(scenario) as model:
            yield ModelStage(model)


class SimulatedPlayer:
    """The simulator, as an executable of its own."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.command: Sequence[str | Path] = (sys.executable, "-m", "pilothouse_sim.simulator")
        self.patience = patience

    @asynccontextmanager
    async def stage(self, scenario: Scenario, root: Path) -> AsyncIterator[ModelStand]:
        folder, script = root / "stage", root / "scenario.json"
        folder.mkdir()
        save(scenario, script)
        yield FolderStage(folder, script)


class Cli(RawProcess):
    """One process of a performance. Its waits raise `Stuck` instead of ending without a find."""

    def __init__(self, house: Performance, arguments: Sequence[str]) -> None:
        super().__init__(
            (*house.player.command, *arguments),
            cwd=house.cwd,
            env=house.env,
            answers=house.scene.answers,
        )
        self.house = house
        self.home = house.home
        self._requests = 0
        self._forgotten: list[int] = []

    def prompt(self, words: Any, own: str | None = None, **extra: Any) -> str:
        """Sends a prompt under the next of the host's uuids."""
        return super().prompt(words, own or self.house.next_uuid(), **extra)

    async def control(self, subtype: str, *, wait: float = 0, **fields: Any) -> Message:
        """Sends a control request and returns the response."""
        own = self.ask(subtype, **fields)
        return await self.until(
            lambda line: (
                line["type"] == "control_response" and line["response"].get("request_id") == own
            ),
            start=0,
            named=f"the answer to {subtype}",
        )

    def ask(self, subtype: str, **fields: Any) -> str:
        """Sends a control request without waiting; its id."""
        self._requests += 1
        own = f"req-{self._requests}-{subtype}"
        request = {"subtype": subtype, **fields}
        self.send({"type": "control_request", "request_id": own, "request": request})
        return own

    async def until(
        self,
        wanted: Callable[[Message], bool],
        *,
        wait: float = 0,
        start: int | None = None,
        named: str = "a line",
    ) -> Message:
        """The next line that is wanted."""
        found = await super().until(wanted, wait=wait or self.house.player.patience, start=start)
        if found is None:
            raise Stuck(f"waited for {named}")
        return found

    async def result(self, wait: float = 0) -> Message:
        """The next result."""
        return await self.until(lambda line: line["type"] == "result", named="a result", wait=wait)

    async def idle(self) -> Message:
        """The next time the CLI says that it is idle."""
        return await self.until(lambda line: line.get("state") == "idle", named="idle")

    async def settle(self) -> Message:
        """The next result, once the CLI is idle after it."""
        result = await self.result()
        await self.idle()
        return result

    def forget(self, line: Message) -> None:
        """Leaves a line out of the transcript: one that comes a different number of times."""
        self._forgotten.append(id(line))

    def remembered(self) -> list[Message]:
        """The lines for the transcript."""
        return [_spelled(line) for line in self.seen if id(line) not in self._forgotten]

    async def reached(self, gate: str) -> None:
        """Waits until the model stands at the gate."""
        await self.bounded(self.house.stage.reached(gate), f"the gate {gate}")

    def release(self, gate: str) -> None:
        """Opens a gate of the model's."""
        self.house.stage.release(gate)

    async def exists(self, name: str) -> None:
        """Waits for a file that a tool makes in the working directory."""
        await self.bounded(appears(self.cwd / name), f"the file {name}")

    async def exited(self) -> int:
        """Waits for the process to end by itself; stdin stays open."""
        try:
            async with asyncio.timeout(self.house.player.patience):
                return await self.process.wait()
        except TimeoutError:
            raise Stuck("waited for the end of the process") from None

    async def bounded(self, waiting: Coroutine[None, None, None], named: str) -> None:
        """Waits no longer than the player's patience and the process last."""
        wanted = asyncio.create_task(waiting)
        ended = asyncio.create_task(self.process.wait())
        patience = self.house.player.patience
        await asyncio.wait((wanted, ended), timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        # What the process did last may be noticed only now.
        await asyncio.wait((wanted,), timeout=0.1)
        ended.cancel()
        if not wanted.done():
            wanted.cancel()
            raise Stuck(f"waited for {named}")


class Performance:
    """One performance: a home, a working directory, and the processes that run there in turn."""

    def __init__(self, scene: Scene, player: Player, stage: ModelStand, root: Path) -> None:
        self.scene = scene
        self.player = player
        self.stage = stage
        self.root = root
        self.home = root / "dev"
        self.cwd = self.home / "project"
        self.cwd.mkdir(parents=True)
        self.env = environment(self.home, stage.url, **ENVIRONMENT) | stage.env | scene.env
        self.lines: list[Message] = []
        self.stderr = ""
        self._uuids = 0

    def next_uuid(self) -> str:
        """A uuid that no prompt of this performance had before."""
        self._uuids += 1
        return own_uuid(self._uuids)

    @asynccontextmanager
    async def run(self, *arguments: str, base: tuple[str, ...] | None = None) -> AsyncIterator[Cli]:
        """One process, from its start to its end; the scene's own arguments are not added."""
        cli = Cli(self, (*(self.scene.base if base is None else base), *arguments))
        await cli.start()
        try:
            yield cli
        except Stuck as stuck:
            cli.seen.append({"type": "stuck", "text": str(stuck)})
            raise
        finally:
            code = await cli.end(self.player.patience)
            self.lines += cli.remembered()
            self.stderr += cli.stderr
            if self.scene.stderr:
                lines = cli.stderr.splitlines()
                self.lines += [{"type": "stderr", "text": line} for line in lines if line]
            self.lines.append({"type": "exit", "code": code})

    def left_files(self) -> list[Message]:
        """The files in the working directory, hidden ones included."""
        files = sorted(path for path in self.cwd.rglob("*") if path.is_file())
        return [
            {"type": "file", "name": str(path.relative_to(self.cwd)), "text": path.read_text()}
            for path in files
        ]


async def perform(scene: Scene, player: Player) -> Transcript:
    """Plays a scene in a fresh home; what was written until a wait was in vain is kept."""
    root = Path(tempfile.mkdtemp(prefix="pilothouse-"))
    try:
        async with player.stage(scene.scenario, root) as stage:
            house = Performance(scene, player, stage, root)
            if scene.prepare:
                scene.prepare(house.cwd)
            with suppress(Stuck):
                await _play(scene, house)
            files = house.left_files() if scene.files else []
        return Transcript(str(root), house.lines + files, house.stderr)
    finally:
        _remove(root)


async def _play(scene: Scene, house: Performance) -> None:
    if scene.perform:
        await scene.perform(house)
        return
    async with house.run(*scene.arguments) as cli:
        if scene.play:
            await scene.play(cli)


def _spelled(value: Any) -> Any:
    """The same with halves of surrogate pairs spelled out: they cannot be written to a file."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list():
            return [_spelled(each) for each in value]
        case dict():
            return {_spelled(name): _spelled(each) for name, each in value.items()}
        case _:
            return value


def _remove(root: Path) -> None:
    """Takes the home away; a process that just ended may still be writing there."""
    shutil.rmtree(root, ignore_errors=True)
    # Files that tools leave under the system's temporary folder are named after the home.
    slug = re.sub(r"[^A-Za-z0-9]", "-", str(root))
    for left in Path(tempfile.gettempdir()).glob(f"claude-*/{slug}-*"):
        shutil.rmtree(left, ignore_errors=True)


async def appears(path: Path) -> None:
    """Waits for a file; nothing tells of it, so it looks again and again."""
    while not path.exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.01)
