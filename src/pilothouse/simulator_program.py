"""How the simulator is started: as a program, for it is a product of its own (`pilothouse_sim`)."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pilothouse.folders import make_private

__all__ = ["RECORDER", "SIMULATOR", "write_simulator"]

SIMULATOR: Final = "pilothouse-sim"
"""The command by which users know it."""

# Neither needs an installed console script, nor finds another package of that name in the folder
# where it is started.
_SIMULATOR: Final = "from pilothouse_sim.simulator.main import main; raise SystemExit(main())"
RECORDER: Final = (sys.executable, "-P", "-m", "pilothouse_sim.recorder")
"""The command that records a CLI's session as a cassette."""


def write_simulator(folder: Path, environment: Mapping[str, str]) -> Path:
    """Write a `claude` into the folder that is the simulator, run by this very interpreter.

    `environment` goes over that of whoever starts it.
    """
    exports = [f"export {name}={shlex.quote(value)}\n" for name, value in environment.items()]
    # Not a `#!` line with the interpreter: it would not survive a long path or one with spaces.
    command = shlex.join([sys.executable, "-P", "-c", _SIMULATOR])
    program = make_private(folder.absolute()) / "claude"
    # Nobody else may read it at any moment: the environment may have a key in it.
    program.touch(0o700)
    program.chmod(0o700)
    program.write_text(f'#!/bin/sh\n{"".join(exports)}exec {command} "$@"\n')
    return program
