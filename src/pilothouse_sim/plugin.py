"""The pytest plugin: `simulated_cli`, `cassette`, `real_cli` and `scripted_model`.

pytest loads it by itself where Pilothouse is installed. What the fixtures need is imported in
them: a test run that uses none of them pays for this module alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from pilothouse_sim.clis import RealCLI, RecordedCLI, Room, SimulatedCLI, Told
    from pilothouse_sim.scenario import AnyReply, Branch, Scenario
    from pilothouse_sim.served_model import ServedModel

__all__ = ["CassetteMaker", "ModelMaker", "RealCLIMaker", "SimulatedCLIMaker"]

NEWEST: Final = "2.1.325"
"""The version that `real_cli` fetches unless it is told another."""

_FAILED: Final = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pilothouse")
    group.addoption(
        "--pilothouse-record",
        action="store_true",
        help="record the cassettes anew, with the CLI that --pilothouse-cli names",
    )
    group.addoption(
        "--pilothouse-cli",
        metavar="PATH",
        help="the Claude Code CLI for `cassette` and `real_cli`; else CLAUDE_CODE_PATH",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report


# The fixtures


@pytest.fixture
def simulated_cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedCLIMaker]:
    """Make simulated CLIs: `simulated_cli(reply("Aye."))` has a `path` that any client can start.

    It takes a scenario, its file, or replies. At the end a request without a reply is an error.
    """
    with ExitStack() as stack:
        yield SimulatedCLIMaker(tmp_path_factory, stack)


@pytest.fixture
def scripted_model() -> Iterator[ModelMaker]:
    """Serve scripted models: `scripted_model(reply("Aye.")).url` goes to ANTHROPIC_BASE_URL."""
    with ExitStack() as stack:
        yield ModelMaker(stack)


@pytest.fixture
def real_cli(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    scripted_model: ModelMaker,
) -> Iterator[RealCLIMaker]:
    """Make real CLIs behind a scripted model; called like `simulated_cli`."""
    with ExitStack() as stack:
        yield RealCLIMaker(request.config, tmp_path_factory, stack, scripted_model)


@pytest.fixture
def cassette(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    scripted_model: ModelMaker,
) -> Iterator[CassetteMaker]:
    """Record a session once, replay it after: `cassette("talk")` has a `path` to start.

    The recordings are in `cassettes/` beside the test's file.
    """
    with ExitStack() as stack:
        yield CassetteMaker(request, tmp_path_factory, stack, scripted_model)


# What they make


class SimulatedCLIMaker:
    """The value of the fixture `simulated_cli`."""

    def __init__(self, temporary: pytest.TempPathFactory, stack: ExitStack) -> None:
        self._temporary = temporary
        self._stack = stack

    def __call__(
        self,
        *told: Told | AnyReply,
        branches: list[Branch] | None = None,
        cwd: Path | None = None,
        strict: bool = True,
    ) -> SimulatedCLI:
        """A simulated CLI; without a scenario it picks a scene by words of the prompt.

        `strict=False` lets the session ask for more than the scenario has.
        """
        from pilothouse_sim.clis import SimulatedCLI

        scenario = _scenario(told, branches) if told or branches else None
        cli = SimulatedCLI(_room(self._temporary, "simulated-cli", cwd), scenario, strict=strict)
        self._stack.callback(_reporting(cli.finish))
        return cli


class ModelMaker:
    """The value of the fixture `scripted_model`."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def __call__(self, *told: Told | AnyReply, branches: list[Branch] | None = None) -> ServedModel:
        """A model that says this, at its `url`, until the test ends."""
        from pilothouse_sim.served_model import ServedModel

        return self._stack.enter_context(ServedModel(_scenario(told, branches)))


class RealCLIMaker:
    """The value of the fixture `real_cli`."""

    def __init__(
        self,
        config: pytest.Config,
        temporary: pytest.TempPathFactory,
        stack: ExitStack,
        models: ModelMaker,
    ) -> None:
        self._config = config
        self._temporary = temporary
        self._stack = stack
        self._models = models

    def __call__(
        self,
        *told: Told | AnyReply,
        branches: list[Branch] | None = None,
        cwd: Path | None = None,
        strict: bool = True,
        version: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> RealCLI:
        """The CLI that was named, or one of this version, with a model that says this.

        The test is skipped where there is none.
        """
        from pilothouse_sim.clis import RealCLI

        binary = self._fetched(version) if version else self._named() or self._fetched(NEWEST)
        scenario = _scenario(told, branches)
        room = _room(self._temporary, "real-cli", cwd)
        cli = RealCLI(room, binary, self._models(scenario), scenario, strict=strict, env=env)
        self._stack.callback(_reporting(cli.finish))
        return cli

    def _named(self) -> Path | None:
        return _named_cli(self._config)

    def _fetched(self, version: str) -> Path:
        cache = os.environ.get("PILOTHOUSE_CACHE")
        if not cache:
            pytest.skip(
                "no real CLI: name one with --pilothouse-cli=PATH or CLAUDE_CODE_PATH, or set "
                f"PILOTHOUSE_CACHE to a folder into which CLI {version} may be downloaded"
            )
        from pilothouse_sim.real_cli import FetchError, fetch

        try:
            return fetch(version, Path(cache))
        except FetchError as error:
            pytest.skip(f"no real CLI: {error}")


class CassetteMaker:
    """The value of the fixture `cassette`."""

    def __init__(
        self,
        request: pytest.FixtureRequest,
        temporary: pytest.TempPathFactory,
        stack: ExitStack,
        models: ModelMaker,
    ) -> None:
        self._request = request
        self._temporary = temporary
        self._stack = stack
        self._models = models

    def __call__(
        self,
        name: str,
        *told: Told | AnyReply,
        branches: list[Branch] | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> RecordedCLI:
        """One session under this name: replayed if its recording is there, else recorded.

        With a scenario the CLI is recorded behind a scripted model, in a home of its own; without
        one it is the user's CLI in the user's environment. `env` goes over either.
        """
        from pilothouse_sim.clis import RecordedCLI

        file = self._request.path.parent / "cassettes" / f"{name}.jsonl"
        cli = RecordedCLI(_room(self._temporary, f"cassette-{name}", cwd), file)
        if file.exists() and not self._request.config.getoption("--pilothouse-record"):
            cli.replay()
            return cli
        binary = self._recordable(file)
        if told or branches:
            model = self._models(_scenario(told, branches))
            cli.record_scripted(binary, model.url, env or {})
        else:
            cli.record(binary, env or {})
        self._stack.callback(_reporting(lambda: self._keep(cli)))
        return cli

    def _recordable(self, file: Path) -> Path:
        """The CLI to record; where nothing may be recorded, the test fails and says what to do."""
        config = self._request.config
        asked = config.getoption("--pilothouse-record")
        test = self._request.node.nodeid
        how = f"pytest --pilothouse-record --pilothouse-cli=PATH-OF-CLAUDE '{test}'"
        if not asked and os.environ.get("CI", "").lower() not in ("", "0", "false"):
            pytest.fail(
                f"there is no cassette {file}, and CI does not record: run `{how}` on a machine "
                "with a CLI, read the file, and commit it",
                pytrace=False,
            )
        binary = _named_cli(config)
        if binary is None:
            pytest.fail(
                f"{'asked to record' if asked else 'there is no'} cassette {file}, but no CLI is "
                f"named that could be recorded: run `{how}`, or set CLAUDE_CODE_PATH",
                pytrace=False,
            )
        return binary

    def _keep(self, cli: RecordedCLI) -> None:
        # Of a test that failed nobody wants the recording.
        if not self._request.node.stash.get(_FAILED, True):
            cli.keep()


def _named_cli(config: pytest.Config) -> Path | None:
    named = config.getoption("--pilothouse-cli") or os.environ.get("CLAUDE_CODE_PATH")
    if not named:
        return None
    binary = Path(named).expanduser().absolute()
    if not os.access(binary, os.X_OK):
        pytest.fail(f"there is no CLI that can be run at {binary}", pytrace=False)
    return binary


def _scenario(told: tuple[Told | AnyReply, ...], branches: list[Branch] | None) -> Scenario:
    from pilothouse_sim.clis import scenario_from

    return scenario_from(*told, **({"branches": branches} if branches else {}))


def _room(temporary: pytest.TempPathFactory, name: str, cwd: Path | None) -> Room:
    from pilothouse_sim.clis import Room

    return Room(temporary.mktemp(name), cwd=cwd)


def _reporting(finish: Callable[[], None]) -> Callable[[], None]:
    """Let what is wrong at the end show as a failure with its words alone."""

    def run() -> None:
        try:
            finish()
        except AssertionError as error:
            pytest.fail(str(error), pytrace=False)

    return run
