"""CLIs for tests: simulated, real behind a scripted model, recorded and replayed.

Each has a home of its own, an explicit environment, and a `path` that any client can start. The
pytest fixtures make them; they need neither pytest nor an event loop.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pilothouse_sim.cassettes import write_program
from pilothouse_sim.executables import isolated_executable, simulator_executable
from pilothouse_sim.scenario import Broken, Gate, Reply, Scenario, load, reply, save
from pilothouse_sim.stage import DEADLINE, Stage, shortened

if TYPE_CHECKING:
    from pilothouse import Options
    from pilothouse_sim.scenario import AnyReply, ModelRequest
    from pilothouse_sim.served_model import ServedModel

__all__ = [
    "RealCLI",
    "RecordedCLI",
    "Room",
    "SimulatedCLI",
    "Told",
    "TwoSessions",
    "Unscripted",
    "scenario_from",
]

Told = Scenario | Reply | str | Path
"""What a scenario is made from: itself, its file, or its replies; a text is a reply."""


class Unscripted(AssertionError):
    """The model was asked more often than its scenario has replies."""

    def __init__(self, requests: list[ModelRequest]) -> None:
        asked = "".join(f"\n  {shortened(request.last)}" for request in requests)
        super().__init__(
            f"the scenario has no reply to {len(requests)} request(s) of the session:{asked}\n"
            "Give it more replies, or make the CLI with strict=False."
        )


class TwoSessions(AssertionError):
    """More than one session was recorded where one cassette was asked for."""


def scenario_from(*told: Told | AnyReply, **members: Any) -> Scenario:
    """One scenario, the scenario in a file, or one made of replies."""
    if len(told) == 1 and not members:
        [only] = told
        if isinstance(only, Scenario):
            return only
        if isinstance(only, Path):
            return load(only)
    return Scenario(replies=[_reply(each) for each in told], **members)


def _reply(told: Told | AnyReply) -> AnyReply:
    if isinstance(told, str):
        return reply(told)
    if isinstance(told, Scenario | Path):
        raise TypeError("give one scenario, or one file, or any number of replies; not a mixture")
    return told


class Room:
    """A home with a project folder in it, which is where a CLI works unless told otherwise."""

    def __init__(self, folder: Path, *, cwd: Path | None = None) -> None:
        self.folder = folder
        self.home = folder / "home"
        # Within the home: what is redacted of a recording is the home.
        self.cwd = cwd or self.home / "project"
        for each in (self.home, self.cwd, self.config_dir):
            each.mkdir(parents=True, exist_ok=True)

    @property
    def config_dir(self) -> Path:
        return self.home / ".claude"

    def environment(self, **extra: str) -> dict[str, str]:
        """The whole environment for a program in this room."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home),
            "CLAUDE_CONFIG_DIR": str(self.config_dir),
            "LANG": "C.UTF-8",
            "TMPDIR": tempfile.gettempdir(),
        } | extra


def _options(path: Path, cwd: Path, env: Mapping[str, str], overrides: dict[str, Any]) -> Options:
    """Options for `pilothouse.Client` that start this program in this environment."""
    from pilothouse import Options

    env = {**env, **overrides.pop("env", {})}
    given: dict[str, Any] = {"cli_path": path, "cwd": cwd, "inherit_env": False}
    return Options(**(given | overrides), env=env)


class _Watched(Protocol):
    """Where a model's requests and gates are seen."""

    @property
    def requests(self) -> list[ModelRequest]: ...
    @property
    def unscripted(self) -> list[ModelRequest]: ...
    async def reached(self, gate: str, *, deadline: float = DEADLINE) -> None: ...
    def wait_reached(self, gate: str, *, deadline: float = DEADLINE) -> None: ...
    def release(self, gate: str) -> None: ...


class _ModelledCLI:
    """A CLI whose model is played from a scenario: a program, where it works, its environment."""

    def __init__(
        self, room: Room, scenario: Scenario | None, watched: _Watched, *, strict: bool
    ) -> None:
        self._room = room
        self.path: Path = room.folder / "bin" / "claude"
        """The executable: `cli_path` here and in the official Python SDK,
        `pathToClaudeCodeExecutable` in the TypeScript one. It needs nothing from who starts it."""
        self.environment: dict[str, str] = {}
        """The whole environment, for clients that can be given one."""
        self.scenario = scenario
        self._watched = watched
        self._strict = strict

    @property
    def home(self) -> Path:
        """The home of the CLI; what it keeps is in `.claude` there."""
        return self._room.home

    @property
    def cwd(self) -> Path:
        """The folder to start it in."""
        return self._room.cwd

    def options(self, **overrides: Any) -> Options:
        """Options for `pilothouse.Client` that start this CLI; any may be given or replaced."""
        return _options(self.path, self.cwd, self.environment, overrides)

    @property
    def requests(self) -> list[ModelRequest]:
        """What the model was asked in the conversation so far, in order."""
        return [each for each in self._watched.requests if not each.is_aside]

    @property
    def unscripted(self) -> list[ModelRequest]:
        """The requests for which the scenario had no reply left."""
        return self._watched.unscripted

    async def reached(self, gate: str, *, deadline: float = DEADLINE) -> None:
        """Wait until the model stands at the gate; `GateNotReached` says how far it came."""
        await self._watched.reached(gate, deadline=deadline)

    def wait_reached(self, gate: str, *, deadline: float = DEADLINE) -> None:
        """The same for tests without an event loop; it blocks."""
        self._watched.wait_reached(gate, deadline=deadline)

    def release(self, gate: str) -> None:
        """Open the gate, now and for every reply that comes to it later."""
        self._watched.release(gate)

    def finish(self) -> None:
        """Open every gate, and raise `Unscripted` if the scenario was too short."""
        for gate in _gates(self.scenario):
            self.release(gate)
        if self._strict and self.unscripted:
            raise Unscripted(self.unscripted)


def _gates(scenario: Scenario | None) -> Iterator[str]:
    if scenario is None:
        return
    for each in (*scenario.replies, *(one for two in scenario.branches for one in two.replies)):
        if isinstance(each, Broken):
            yield each.gate
            each = each.reply
        if isinstance(each, Reply):
            yield from (step.name for step in each.steps if isinstance(step, Gate))


class SimulatedCLI(_ModelledCLI):
    """The simulator with one scenario; without one it picks a scene by words of the prompt."""

    def __init__(self, room: Room, scenario: Scenario | None, *, strict: bool = True) -> None:
        stage = Stage(room.folder / "stage")
        stage.folder.mkdir()
        super().__init__(room, scenario, stage, strict=strict)
        self._own = {"PILOTHOUSE_STAGE": str(stage.folder)}
        if scenario is not None:
            file = room.folder / "scenario.json"
            save(scenario, file)
            self._own["PILOTHOUSE_SCENARIO"] = str(file)
        self._write()

    def faults(
        self,
        *,
        delay: float | None = None,
        crash: int | None = None,
        crash_signal: int | None = None,
        hang: int | None = None,
        garbage: int | None = None,
        long: int | None = None,
        ignore_eof: bool = False,
    ) -> None:
        """What goes wrong in the sessions that start from now on; numbers are lines it writes.

        `delay`: seconds before each line. `crash`: it ends after that line, with `crash_signal`
        by that signal. `hang`: it falls silent after that line. `garbage`: before that line comes
        one that is no JSON. `long`: before that line comes one of 20 MB. `ignore_eof`: it does not
        end with its input. Called with nothing, nothing goes wrong any more.
        """
        by = "" if crash_signal is None else f":{crash_signal}"
        words = {"delay": delay, "crash": None if crash is None else f"{crash}{by}"}
        words |= {"hang": hang, "garbage": garbage, "long": long}
        chosen = [f"{name}={value}" for name, value in words.items() if value is not None]
        chosen += ["ignore-eof"] if ignore_eof else []
        self._own["PILOTHOUSE_FAULTS"] = ",".join(chosen)
        self._write()

    def _write(self) -> None:
        self.environment = self._room.environment(**self._own)
        # All but the search path: a test may have put programs of its own there.
        fixed = {name: value for name, value in self.environment.items() if name != "PATH"}
        self.path = simulator_executable(self.path.parent, fixed)


class RealCLI(_ModelledCLI):
    """A real CLI whose only model is a scripted one."""

    def __init__(
        self,
        room: Room,
        binary: Path,
        model: ServedModel,
        scenario: Scenario,
        *,
        strict: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(room, scenario, model, strict=strict)
        self.binary = binary
        self.model = model
        self.environment = scripted_environment(room, model.url, env)
        self.path = isolated_executable(self.path.parent, [binary], self.environment)

    def options(self, **overrides: Any) -> Options:
        """Options for `pilothouse.Client` that start this CLI; any may be given or replaced."""
        # The environment is explicit, so nothing must be kept out.
        return super().options(**({"cli_path": self.binary} | overrides))


def scripted_environment(
    room: Room, url: str, env: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The whole environment of a real CLI in this room that talks to the scripted model there."""
    from pilothouse_sim.real_cli import environment

    return environment(room.home, url) | room.environment() | dict(env or {})


class RecordedCLI:
    """A session that is recorded into `file`, or replayed from it."""

    def __init__(self, room: Room, file: Path) -> None:
        self._room = room
        self.path: Path = room.folder / "bin" / "claude"
        """The executable, which needs nothing from who starts it."""
        self.environment: dict[str, str] = {}
        """The whole environment, for clients that can be given one."""
        self.file = file
        self.recording = False
        """Whether a CLI is being recorded, instead of its recording replayed."""

    @property
    def home(self) -> Path:
        """The home of the CLI; what it keeps is in `.claude` there."""
        return self._room.home

    @property
    def cwd(self) -> Path:
        """The folder to start it in."""
        return self._room.cwd

    def options(self, **overrides: Any) -> Options:
        """Options for `pilothouse.Client` that start this CLI; any may be given or replaced."""
        return _options(self.path, self.cwd, self.environment, overrides)

    def replay(self) -> None:
        """Play what the file has."""
        self.environment = self._room.environment()
        player = [
            sys.executable,
            "-P",
            "-m",
            "pilothouse_sim.simulator.cassette",
            self.file.absolute(),
        ]
        self.path = isolated_executable(self.path.parent, player, self.environment)

    def record(self, binary: Path, env: Mapping[str, str]) -> None:
        """Record this CLI in the environment of this process: the user's own CLI."""
        self.recording = True
        self.environment = dict(os.environ) | dict(env)
        extra = [f"{name}={value}" for name, value in env.items()]
        self.path = write_program(self.path.parent, ["env", *extra, *self._recorder(binary)])

    def record_scripted(self, binary: Path, model_url: str, env: Mapping[str, str]) -> None:
        """Record this CLI with the scripted model at the URL, and nothing else around it."""
        self.recording = True
        self.environment = scripted_environment(self._room, model_url, env)
        command = self._recorder(binary)
        self.path = isolated_executable(self.path.parent, command, self.environment)

    def keep(self) -> None:
        """Put what was recorded in its place; `TwoSessions` if there was more than one."""
        if not self._taken.exists():
            return
        if len(list(self._taken.parent.iterdir())) > 1:
            raise TwoSessions(
                f"a cassette is one session, and {self.file.stem} was asked for more: "
                "give every client a cassette of its own"
            )
        self.file.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(self._taken, self.file)

    @property
    def _taken(self) -> Path:
        return self._room.folder / "taken" / "session.jsonl"

    def _recorder(self, binary: Path) -> list[str]:
        self._taken.parent.mkdir(exist_ok=True)
        recorder = [sys.executable, "-P", "-m", "pilothouse_sim.recorder"]
        return [*recorder, "--to", str(self._taken), "--", str(binary)]
