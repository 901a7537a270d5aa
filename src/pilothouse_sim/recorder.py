"""Records a session: a process between a client and its CLI.

    pilothouse record --to talk.jsonl -- claude -p --output-format stream-json ...

Bytes pass unchanged, signals and the exit code too. A line stands in the cassette before it is
passed on: what one side has seen is recorded, whatever dies next, and a question stands before
its answer. One thread per stream, so none of them can hold up another.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from pilothouse import __version__
from pilothouse_sim.cassettes import (
    CassetteEntry,
    CassetteHeader,
    CassetteWriter,
    Kind,
    LineCutter,
    free_name,
    write_program,
)
from pilothouse_sim.redaction import HOME, Redactor

__all__ = ["Recorder", "main", "write_launcher"]

FORWARDED: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
WATCHED: Final = frozenset({*FORWARDED, signal.SIGCHLD})
STDIN, STDOUT, STDERR = 0, 1, 2
CHUNK: Final = 64 * 1024
# After the CLI's end a program it started may still hold its pipes, and say nothing more.
EOF_GRACE: Final = 1.0
NO_SESSION: Final = frozenset({"-v", "--version", "-h", "--help"})
"""Clients ask a CLI for its version before they start it; that is no session."""

NOT_STARTED: Final = 127
_PR_SET_PDEATHSIG: Final = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and record it; the exit code is the command's."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    end = given.index("--") if "--" in given else len(given)
    chosen = _parser().parse_args(given[:end])
    command: list[str] = chosen.command + given[end + 1 :]
    if not command:
        _parser().error("say what to record: pilothouse record -- claude ...")
    if not NO_SESSION.isdisjoint(command[1:]):
        return _become(command)
    redactor = _redactor(chosen)
    try:
        writer = _writer(chosen, _header(command, redactor))
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}")
    try:
        recorder = Recorder(command, writer, redactor)
        code = recorder.run()
    except OSError as error:
        return _complain(f"{command[0]}: {error.strerror}")
    if recorder.failure is not None:
        _complain(f"the cassette is not complete: {recorder.failure}")
    return _end_like(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pilothouse record", description="Record a session at the wire as a cassette."
    )
    parser.add_argument("--to", type=Path, metavar="FILE", help="the cassette to write")
    parser.add_argument("--overwrite", action="store_true", help="replace a cassette of that name")
    parser.add_argument("--no-redact", action="store_true", help="keep secrets as they are")
    parser.add_argument(
        "--redact", action="append", default=[], metavar="REGEX", help="take this out, too"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    return parser


def _redactor(chosen: argparse.Namespace) -> Redactor | None:
    if chosen.no_redact:
        return None
    home, user = os.environ.get("HOME", ""), os.environ.get("USER", "")
    return Redactor(os.environ, home=home, user=user, extra=chosen.redact)


def _writer(chosen: argparse.Namespace, header: CassetteHeader) -> CassetteWriter:
    wanted = chosen.to or Path(f"cassette-{datetime.now(UTC):%Y%m%d-%H%M%S}.jsonl")
    if chosen.overwrite:
        return CassetteWriter(wanted, header, overwrite=True)
    while True:
        # Another recorder may take the free name first.
        with suppress(FileExistsError):
            return CassetteWriter(free_name(wanted), header)


def _header(command: Sequence[str], redactor: Redactor | None) -> CassetteHeader:
    home = os.environ.get("HOME", "")
    config_dir = os.environ.get("CLAUDE_CONFIG_DIR") or f"{home}/.claude"
    said = redactor.text if redactor is not None else str
    return CassetteHeader(
        command=tuple(_argument(each, redactor) for each in command),
        cwd=said(str(Path.cwd())),
        home=HOME if redactor is not None and len(home) > 1 else home,
        config_dir=said(config_dir),
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        cli_version=_version_in(command[0]),
        redacted=redactor is not None,
        recorder=f"pilothouse {__version__}",
    )


def _argument(argument: str, redactor: Redactor | None) -> str:
    # As a line: settings and server lists are JSON, whose keys tell what is secret.
    return argument if redactor is None else os.fsdecode(redactor.line(os.fsencode(argument)))


def _version_in(program: str) -> str:
    """The version that an installed CLI has in its path."""
    found = re.findall(r"(?<![\d.])\d+\.\d+\.\d+(?![\d.])", os.path.realpath(program))
    return found[-1] if found else ""


def write_launcher(
    folder: Path | str,
    command: Sequence[str | Path],
    cassette: Path | str,
    *options: str,
) -> Path:
    """Write a program that runs `command` and records it, for clients that take only a path.

    `options` are those of `pilothouse record`. Each session gets a cassette of its own: a second
    one, beside the first, has `-2` in its name.
    """
    recorder = [sys.executable, "-P", "-m", "pilothouse_sim.recorder"]
    recorder += ["--to", str(Path(cassette).absolute()), *options, "--", *map(str, command)]
    return write_program(folder, recorder)


class Recorder:
    """Runs one command between our stdin, stdout, stderr and a cassette."""

    def __init__(
        self, command: Sequence[str], writer: CassetteWriter, redactor: Redactor | None = None
    ) -> None:
        self._command = list(command)
        self._writer = writer
        self._redactor = redactor
        self._began = time.monotonic()
        # The order of the file is the order of events.
        self._lock = threading.RLock()
        self._closed = False
        self.failure: Exception | None = None
        """Why the cassette ends before the session did."""
        self._cutters: dict[Kind, LineCutter] = {}
        self._moved = self._began
        """When a line was last noted, or bytes passed on."""

    def run(self) -> int:
        """Run to the end; the exit code, or the negative number of a signal."""
        # Blocked, in every thread, until `sigwait` takes them: none is lost, none kills us.
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
        child = self._start()
        self._pump("in", STDIN, _taken(child.stdin))
        outputs = [
            self._pump("out", _taken(child.stdout), STDOUT),
            self._pump("err", _taken(child.stderr), STDERR),
        ]
        code = self._wait(child)
        self._carry_to_the_end(outputs)
        with self._lock:
            self._note_rest("in")
            self._write_exit(code)
        return code

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                # A signal for our group comes once, by us, instead of twice.
                process_group=0,
                preexec_fn=_prepare_child,
            )
        except OSError:
            self._write_exit(NOT_STARTED)
            raise

    def _wait(self, child: subprocess.Popen[bytes]) -> int:
        """Wait for the command's end and pass signals on until then."""
        while (code := child.poll()) is None:
            number = signal.sigwait(WATCHED)
            if number != signal.SIGCHLD:
                self._note(CassetteEntry(self._now(), "signal", signal=number))
                child.send_signal(number)
        return code

    def _write_exit(self, code: int) -> None:
        was_killed = code < 0
        self._note(
            CassetteEntry(
                self._now(),
                "exit",
                code=None if was_killed else code,
                signal=-code if was_killed else None,
            )
        )
        self._closed = True
        self._writer.close()

    # The streams

    def _carry_to_the_end(self, pumps: Sequence[threading.Thread]) -> None:
        """What the CLI wrote before its end passes, however long that takes."""
        self._moved = time.monotonic()
        for pump in pumps:
            while pump.is_alive() and (left := self._moved + EOF_GRACE - time.monotonic()) > 0:
                pump.join(left)

    def _pump(self, kind: Kind, source: int, target: int) -> threading.Thread:
        self._cutters[kind] = LineCutter()
        # A daemon: our stdin may stay open for ever.
        pump = threading.Thread(target=self._carry, args=(kind, source, target), daemon=True)
        pump.start()
        return pump

    def _carry(self, kind: Kind, source: int, target: int) -> None:
        with suppress(OSError):
            while data := os.read(source, CHUNK):
                self._note_data(kind, data)
                _write_all(target, data)
                self._moved = time.monotonic()
        with self._lock:
            self._note_rest(kind)
            self._note(CassetteEntry(self._now(), kind))
        # Each side learns that the other one hears or says no more. Stderr may be ours, too.
        for end in (source, target):
            with suppress(OSError):
                if end != STDERR:
                    os.close(end)

    def _note_data(self, kind: Kind, data: bytes) -> None:
        with self._lock:
            for line in self._cutters[kind].feed(data):
                self._note(CassetteEntry(self._now(), kind, line))

    def _note_rest(self, kind: Kind) -> None:
        rest = self._cutters[kind].take_rest()
        if rest:
            self._note(CassetteEntry(self._now(), kind, rest, cut=True))

    def _note(self, entry: CassetteEntry) -> None:
        with self._lock:
            if self._closed:
                return
            self._moved = time.monotonic()
            try:
                self._writer.write(self._redacted(entry))
            except Exception as error:  # noqa: BLE001 - boundary: the session goes on without it
                self.failure = error
                self._closed = True

    def _redacted(self, entry: CassetteEntry) -> CassetteEntry:
        if entry.data is None or self._redactor is None:
            return entry
        return replace(entry, data=self._redactor.line(entry.data))

    def _now(self) -> float:
        return time.monotonic() - self._began


def _taken(pipe: IO[bytes] | None) -> int:
    """The pipe as a descriptor which we alone close."""
    assert pipe is not None
    with pipe:
        return os.dup(pipe.fileno())


def _write_all(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


def _prepare_child() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
    if sys.platform == "linux":
        # Its input ends when we are killed, but a running turn would go on to its end.
        import ctypes  # only here, in the child

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _become(command: list[str]) -> int:
    try:
        os.execvp(command[0], command)
    except OSError as error:
        return _complain(f"{command[0]}: {error.strerror}")


def _end_like(code: int) -> int:
    """End by the signal that ended the command, or give its exit code."""
    if code < 0:
        with suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [-code])
        os.kill(os.getpid(), -code)
    return code


def _complain(text: str) -> int:
    with suppress(OSError):
        sys.stderr.write(f"pilothouse record: {text}\n")
        sys.stderr.flush()
    return NOT_STARTED


if __name__ == "__main__":
    sys.exit(main())
