"""What the shells themselves run of a text, beside what the policy's reader says of it.

`sh` is dash on some machines and bash on others, and a user's shell may be zsh: a text is read
safely only if no shell runs a command that was not judged.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pilothouse.engine.policy.shell import joined_texts, plain_text, runs_any

SHELLS = [name for name in ("bash", "dash", "zsh") if shutil.which(name)]
CANARIES = ["one", "two", "three"]
PREFIXES = {"!", "time", "-p"}
PIECES = [
    *(f"{name} " for name in CANARIES * 3),
    *CANARIES,
    "a ",
    "echo x ",
    " ",
    " ",
    "\n",
    ";",
    "; ",
]
PIECES += ["&", " & ", "&& ", "|| ", "| ", "|& ", "&!", "&|", ";|", ";;", ";&"]
PIECES += [
    "&>/dev/null ",
    " &> /dev/null ",
    "&>>/dev/null ",
    ">/dev/null ",
    "2>&1 ",
    "2&>/dev/null",
]
PIECES += [
    ">& x ",
    "> x ",
    "&> x ",
    "{fd}>/dev/null ",
    "<<< x ",
    "<(one)",
    ">(two)",
    "<<x\n",
    "x\n",
]
PIECES += [
    "$'two' ",
    "$'a",
    "{one,a} ",
    "{a,b}",
    "{ ",
    "} ",
    "(",
    ") ",
    "((",
    ")) ",
    "$(two) ",
    "`",
]
PIECES += ["[[ a ", "]] ", "[ a ", "] ", "function one ", "one() ", "coproc ", "time ", "time -p "]
PIECES += ["! ", "if ", "then ", "else ", "fi ", "for x in a; ", "do ", "done ", "case a in a) "]
PIECES += [
    "esac ",
    "select ",
    "repeat 1 ",
    "noglob ",
    "'",
    '"',
    "\\",
    "\\\n",
    "#",
    "A=1 ",
    "'a b' ",
]

KNOWN = [
    "echo x &>/dev/null one",
    "echo x &>>/dev/null one",
    "echo x &>x one",
    "echo x 2&>/dev/null one",
    "one 2&>/dev/null",
    "one \\ 2>/dev/null",
    "echo x >&1 one; >&2 two",
    "{fd}>/dev/null one a",
    "{one,a}",
    "coproc one a",
    "coproc x { one; }; wait",
    "function x { one; }; x",
    "{ one; two; }",
    "time -p one a",
    "! one || two",
    "if one; then two; fi",
    "[[ a || one ]]",
    "[[ 'a[$(one)]' -eq 0 ]]",
    "echo x |& one",
    "echo x &! one",
    "echo x; >/dev/null one a 2>&1 | two",
    "cat <(one)",
    "((one)) || two",
    "one &\n>/dev/null two",
    "one &\\\n>/dev/null two",
    "one $(two) &>/dev/null three",
]


def drawn() -> list[str]:
    """The same ones each time; what could be allowed is rare, so all of that is kept."""
    chance = random.Random(11)
    texts = ("".join(chance.choices(PIECES, k=chance.randint(2, 8))) for _ in range(30_000))
    named = [text for text in texts if any(name in text for name in CANARIES)]
    judged = [text for text in named if joined_texts(text) or plain_text(text)]
    return list(dict.fromkeys([*KNOWN, *judged[:400], *named[:400]]))


class Bench:
    """An empty folder, and a PATH with nothing but canaries that write down that they ran."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.shell, self.folder = shutil.which(shell), folder
        for place in ("bin", "work", "ran"):
            (folder / place).mkdir()
        for name in CANARIES:
            canary = folder / "bin" / name
            canary.write_text('#!/bin/sh\nprintf "%s\\n" "${0##*/} $*" >>"$RAN"\n')
            canary.chmod(0o700)

    def ran(self, number: int, command: str) -> list[str]:
        """Waits for what was left in the background, too: all of it holds one end of a pipe."""
        trace = self.folder / "ran" / str(number)
        assert self.shell is not None
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as held:
            process = subprocess.Popen(
                [self.shell, "-c", command],
                cwd=self.folder / "work",
                env={"PATH": str(self.folder / "bin"), "RAN": str(trace)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(writing,),
                start_new_session=True,
            )
            os.close(writing)
            try:
                done, _, _ = select.select([held], [], [], 10)
                assert done, f"{command!r} goes on and on"
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return trace.read_text().splitlines() if trace.exists() else []


Ran = dict[str, list[str]]


@pytest.fixture(scope="module", params=SHELLS)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """What each text ran, as a name and its arguments."""
    bench = Bench(tmp_path_factory.mktemp(request.param), request.param)
    return {text: bench.ran(number, text) for number, text in enumerate(drawn())}


def words(text: str) -> list[str]:
    """As they reach a program: without what only leads to it."""
    found = shlex.split(text.replace("\\\n", "") + " ")
    while found and (found[0] in PREFIXES or "=" in found[0]):
        del found[0]
    return found


def unjudged(ran: Ran, reader: Callable[[str], list[str] | None]) -> dict[str, list[str]]:
    odd: dict[str, list[str]] = {}
    for command, lines in ran.items():
        texts = reader(command)
        judged = None if texts is None else [" ".join(words(text)) for text in texts]
        if judged is not None and any(line.strip() not in judged for line in lines):
            odd[command] = lines
    return odd


def test_the_canaries_sing(ran: Ran):
    assert ran["! one || two"] == ["one ", "two "]
    assert sum(map(bool, ran.values())) > 200


def test_no_shell_runs_what_was_not_judged(ran: Ran):
    assert sum(1 for text, lines in ran.items() if lines and joined_texts(text)) > 100
    assert unjudged(ran, joined_texts) == {}


def test_no_shell_runs_more_than_a_plain_command(ran: Ran):
    assert sum(1 for text, lines in ran.items() if lines and plain_text(text)) > 30
    assert unjudged(ran, lambda text: [plain] if (plain := plain_text(text)) else None) == {}


def test_a_guard_sees_whatever_a_shell_runs(ran: Ran):
    unseen = {
        command: lines
        for command, lines in ran.items()
        for name in {line.split()[0] for line in lines}
        if not runs_any(command, lambda text, name=name: text.split(" ")[0] == name)
    }
    assert unseen == {}
