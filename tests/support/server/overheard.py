"""A CLI whose output is written down on its way, to be held against the journal."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

from pilothouse_sim.clis import RealCLI, SimulatedCLI


@dataclass(frozen=True)
class Overheard:
    """A CLI whose output is written down on its way to whoever started it."""

    program: Path
    file: Path

    def lines(self) -> list[bytes]:
        data = self.file.read_bytes() if self.file.exists() else b""
        return data.split(b"\n")[:-1]

    def starts(self) -> list[int]:
        return [int(word) for word in self.file.with_suffix(".pids").read_text().split()]


def overheard(cli: RealCLI | SimulatedCLI, folder: Path) -> Overheard:
    it = Overheard(folder / "overheard", folder / "said.jsonl")
    said, pids, path = (
        shlex.quote(str(each)) for each in (it.file, it.file.with_suffix(".pids"), cli.path)
    )
    # The CLI becomes this very process, and keeps its number.
    tee = f"echo $$ >> {pids}\n  exec > >(exec tee -a {said})"
    script = f'#!/bin/bash\ncase " $* " in *stream-json*)\n  {tee};;\nesac\nexec {path} "$@"\n'
    it.program.write_text(script)
    it.program.chmod(0o755)
    return it


def is_partial(line: bytes) -> bool:
    return json.loads(line)["type"] == "stream_event"
