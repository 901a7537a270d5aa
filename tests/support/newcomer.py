"""Somebody new: a copy of the tree, a home in which nothing is yet, and a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

from tests.support.places import ROOT
from tests.support.server.machine import Machine
from tests.support.waiting import DEADLINE, until

COPIED: Final = ("docs", "examples", "requirements", "scripts", "src")
WHEELS: Final = ROOT / ".cache/wheels"
_MARK: Final = "-- typed --"
_APART: Final = (
    "import os; from pilothouse_sim.isolation import enter_network_namespace;"
    "enter_network_namespace(); os.execv('/bin/bash', ['bash'])"
)
"""A network of its own: the port that the pages name is free there."""


def copy_tree(folder: Path) -> Path:
    """The tree as somebody gets it, but for its tests: no cache is in it, and no environment."""
    not_theirs = shutil.ignore_patterns("__pycache__", ".*")
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=not_theirs)
    for file in ROOT.iterdir():
        if file.is_file() and not file.name.startswith("."):
            shutil.copy2(file, folder)
    return folder


def install_at_once(tree: Path) -> None:
    """What `scripts/start` makes of a new tree, with the packages that the tests have."""
    venv = tree / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    [packages] = venv.glob("lib/python*/site-packages")
    shared = sysconfig.get_path("purelib")
    (packages / "pilothouse.pth").write_text(f"{tree / 'src'}\n{shared}\n")
    made = 'source scripts/_env.sh; stamp_text run >"$VENV/stamp-run"; write_commands'
    subprocess.run(["bash", "-euc", made], cwd=tree, check=True)


def install_offline(env: dict[str, str], tools: Path) -> None:
    """Let pip, pipx and uv take what `scripts/prove` has fetched, and have the latter two."""
    assert WHEELS.exists(), "scripts/prove fetches it"
    of_uv = tools.with_name("uv.toml")
    of_uv.write_text(f'no-index = true\nfind-links = ["{WHEELS}"]\n')
    env |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(WHEELS)}
    env |= {"UV_CONFIG_FILE": str(of_uv), "UV_PYTHON_DOWNLOADS": "never"}
    env["PATH"] = f"{tools / 'bin'}:{env['PATH']}"
    if not tools.exists():
        subprocess.run([sys.executable, "-m", "venv", tools], check=True)
        subprocess.run([tools / "bin/pip", "install", "-q", "pipx", "uv"], env=env, check=True)


class Newcomer:
    """Types lines into one terminal, with another beside it for what goes on."""

    def __init__(self, machine: Machine, tree: Path) -> None:
        self.machine = machine
        self.tree = tree
        machine.env.pop("PILOTHOUSE_PORT")
        machine.env["PWD"] = str(tree)
        self._beside = machine.folder / "beside.log"
        self._shell: asyncio.subprocess.Process | None = None

    @property
    def beside(self) -> str:
        """What the other terminal shows."""
        return self._beside.read_text() if self._beside.exists() else ""

    async def _open(self) -> asyncio.subprocess.Process:
        if self._shell is None:
            self._shell = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", _APART),
                env=self.machine.env,
                cwd=self.tree,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        return self._shell

    async def type(self, line: str, within: float = DEADLINE) -> str:
        """Type a line and wait for its end, which must be a good one; what it printed."""
        # What reads from the terminal must not read the lines to come.
        keys = f"{{ {line}\n}} </dev/null\nprintf '\\n{_MARK}%s\\n' $?\n"
        said = await self._send(keys, f"\n{_MARK}", within)
        text, _, code = said.partition(f"\n{_MARK}")
        assert code == "0", f"{line}\n{text}"
        return text

    async def watch(self, line: str, words: str) -> None:
        """Type a line that does not end, until it has shown these words; then stop it."""
        await self._send(f"{{ {line}\n}} &\n", words, DEADLINE)
        await self.type("kill $!")

    async def start_beside(self, line: str, words: str, within: float = DEADLINE) -> None:
        """Type a line that does not end into the other terminal, and wait for these words."""
        shell = await self._open()
        assert shell.stdin is not None
        # One that does end is told there.
        keys = f"{{ {line}\necho {_MARK}; }} >{self._beside} 2>&1 &\n"
        shell.stdin.write(keys.encode())
        await until(lambda: words in self.beside or _MARK in self.beside, within)
        assert words in self.beside, self.beside

    async def _send(self, keys: str, words: str, within: float) -> str:
        """Send these, and read to the end of the first line that has the words."""
        shell = await self._open()
        assert shell.stdin is not None
        assert shell.stdout is not None
        shell.stdin.write(keys.encode())
        said = ""
        async with asyncio.timeout(within):
            while words not in said or not said.endswith("\n"):
                got = (await shell.stdout.readline()).decode()
                assert got, f"the terminal closed: {said}"
                said += got
        return said.rstrip("\n")

    async def aclose(self) -> None:
        await self.machine.aclose()
        if self._shell is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._shell.pid, signal.SIGKILL)
            await self._shell.communicate()
