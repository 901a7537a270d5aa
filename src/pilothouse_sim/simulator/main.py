"""`pilothouse-sim`: a `claude` that needs no model, no key and no network.

It plays the scenario file that PILOTHOUSE_SCENARIO names, or else a scene of its own that it picks
by words in the prompt; with `--cassette FILE` or PILOTHOUSE_CASSETTE it replays a recording.
`pilothouse-sim model --scenario FILE` serves a scenario to a real CLI instead. Only what a run
needs is imported: this process is started by the hundred.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse_sim.simulator.flags import BadFlag, LaunchFlags, parse

if TYPE_CHECKING:
    from pilothouse_sim.scenario import Script
    from pilothouse_sim.simulator.wire_ends import WireEnd

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Run the simulator with this command line, or with the process's own."""
    words = sys.argv[1:] if argv is None else argv
    # By itself the word is a prompt, as any other.
    if len(words) > 1 and words[0] == "model":
        return _serve_model(words[1:])
    # Nothing that is made while starting is garbage: looking for some costs a tenth of the start.
    gc.disable()
    if argv is None:
        # Until a session runs, an interrupt ends the process without a word.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        launch = parse(words)
        cassette = launch.cassette or os.environ.get("PILOTHOUSE_CASSETTE")
        if launch.version:
            return _show_version()
        if launch.help:
            return _show_help()
        if cassette:
            return _replay(Path(cassette), words, launch)
        return _simulate(launch)
    except BadFlag as error:
        return _fail(str(error))


def _serve_model(words: list[str]) -> int:
    from pilothouse_sim.model_command import main as serve

    return serve(words)


def _show_version() -> int:
    from pilothouse_sim.simulator.facts import VERSION

    sys.stdout.write(f"{VERSION} (Claude Code)\n")
    return 0


def _show_help() -> int:
    from textwrap import fill

    from pilothouse_sim.simulator.flags import accepted, played

    sys.stdout.write(__doc__ or "")
    for heading, names in (("Played", played()), ("Accepted, without effect", accepted())):
        words = fill(" ".join(f"--{name}" for name in names), 78, break_on_hyphens=False)
        sys.stdout.write(f"\n{heading}:\n{words}\n")
    return 0


def _replay(path: Path, words: list[str], launch: LaunchFlags) -> int:
    from pilothouse_sim.simulator.cassette import play

    return asyncio.run(play(path, words, speed=launch.speed))


def _simulate(launch: LaunchFlags) -> int:
    from pilothouse_sim.scenario import ScenarioError
    from pilothouse_sim.simulator.faults import BadFault
    from pilothouse_sim.simulator.launch_checks import check

    check(launch)
    try:
        script = _script()
        return asyncio.run(_run(launch, script))
    except (BadFault, ScenarioError) as error:
        return _fail(f"pilothouse-sim: {error}")


def _script() -> Script:
    named = os.environ.get("PILOTHOUSE_SCENARIO")
    if named:
        from pilothouse_sim.scenario import Script, load

        return Script(load(Path(named)))
    from pilothouse_sim.simulator.builtin import BuiltinScript

    return BuiltinScript()


async def _run(launch: LaunchFlags, script: Script) -> int:
    from pilothouse_sim.simulator.model import Model
    from pilothouse_sim.simulator.process import run

    gc.freeze()
    gc.enable()
    stage = os.environ.get("PILOTHOUSE_STAGE")
    model = Model(script, Path(stage) if stage else None)
    return await run(launch, _end(launch), model)


def _end(launch: LaunchFlags) -> WireEnd:
    from pilothouse_sim.simulator.wire_ends import StdioEnd

    end: WireEnd = StdioEnd()
    if launch.sdk_url:
        from pilothouse_sim.simulator.sdk_url import SdkUrlEnd

        end = SdkUrlEnd(launch.sdk_url, environment=os.environ)
    elif launch.input_format != "stream-json":
        from pilothouse_sim.simulator.print_mode import PrintEnd

        end = PrintEnd(launch, end)
    faults = os.environ.get("PILOTHOUSE_FAULTS")
    if faults:
        from pilothouse_sim.simulator.faults import Faults, FaultyEnd

        end = FaultyEnd(end, Faults.parse(faults))
    return end


def _fail(text: str) -> int:
    sys.stderr.write(text + "\n")
    return 1
