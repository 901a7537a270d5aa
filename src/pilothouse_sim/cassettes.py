"""Cassettes: one session's wire in a file, both directions, with times.

A file of JSON lines. The first is the header, every other one thing that happened:

    {"cassette":1,"command":["claude","-p"],"cwd":"/home/user/boat","home":"/home/user", ...}
    {"t":0.0012,"d":"in","json":{"type":"user", ...}}      the client wrote this line
    {"t":0.8301,"d":"out","json":{"type":"system", ...}}   the CLI wrote this line
    {"t":0.8302,"d":"err","text":"a warning"}              the CLI wrote this on stderr
    {"t":2.0,"d":"signal","signal":2}                      the client sent the CLI a signal
    {"t":2.1,"d":"in","eof":true}                          that stream ended
    {"t":2.2,"d":"exit","code":0}                          or "signal":9

Lines are kept to the byte. A line of JSON stands verbatim under `json`, any other text under
`text`, what is no UTF-8 under `base64`; `cut` marks a last line without a newline.
"""

from __future__ import annotations

import base64
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Raw, Struct

from pilothouse_sim.line_strings import decodes

__all__ = [
    "Cassette",
    "CassetteEntry",
    "CassetteError",
    "CassetteHeader",
    "CassetteWriter",
    "LineCutter",
    "encode_entry",
    "free_name",
    "read",
    "write_program",
]

FORMAT: Final = 1

Kind = Literal["in", "out", "err", "signal", "exit"]


class CassetteError(ValueError):
    """The file is no cassette, or one of a format this version does not know."""


class CassetteHeader(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was recorded, where and when; paths as redaction left them."""

    cassette: int = 0
    command: tuple[str, ...] = ()
    cwd: str = ""
    home: str = ""
    config_dir: str = ""
    started: str = ""
    cli_version: str = ""
    """As far as the program's path tells it; see `Cassette.cli_version`."""
    redacted: bool = False
    recorder: str = ""


@dataclass(frozen=True, slots=True)
class CassetteEntry:
    """One thing that happened on the wire, `at` seconds after the start."""

    at: float
    kind: Kind
    data: bytes | None = None
    """A line without its newline; None for an end of stream, a signal or an exit."""
    cut: bool = False
    code: int | None = None
    signal: int | None = None
    number: int = 0
    """Its line in the file."""

    @property
    def is_eof(self) -> bool:
        return self.data is None and self.kind in ("in", "out", "err")


@dataclass(frozen=True, slots=True)
class Cassette:
    """A recording that was read."""

    path: Path
    header: CassetteHeader
    entries: tuple[CassetteEntry, ...]

    @property
    def cli_version(self) -> str | None:
        """The CLI's version as it said itself, or as its path told."""
        for entry in self.entries:
            if entry.kind == "out" and entry.data:
                found = _VERSION_SAID.search(entry.data)
                if found:
                    return found[1].decode()
        return self.header.cli_version or None

    def lines(self, kind: Kind) -> Iterator[bytes]:
        """The lines of one direction."""
        return (entry.data for entry in self.entries if entry.kind == kind and entry.data)


_VERSION_SAID: Final = re.compile(rb'"claude_code_version"\s*:\s*"([^"]+)"')


class _Line(Struct, kw_only=True, omit_defaults=True):
    t: float
    d: Kind
    json: Raw = Raw()
    text: str | None = None
    base64: str | None = None
    cut: bool = False
    eof: bool = False
    code: int | None = None
    signal: int | None = None


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_header = msgspec.json.Decoder(CassetteHeader).decode
_encode = msgspec.json.Encoder().encode


# Writing


def encode_entry(entry: CassetteEntry) -> bytes:
    """The entry as a line of the file."""
    line = _Line(t=round(entry.at, 6), d=entry.kind, cut=entry.cut)
    line.code, line.signal, line.eof = entry.code, entry.signal, entry.is_eof
    data = entry.data
    if data is not None and _is_json(data):
        # Spliced, so that it stays as it was to the byte.
        return _encode(line)[:-1] + b',"json":' + data + b"}\n"
    if data is not None:
        try:
            line.text = data.decode()
        except UnicodeDecodeError:
            line.base64 = base64.b64encode(data).decode()
    return _encode(line) + b"\n"


def _is_json(data: bytes) -> bool:
    if data != data.strip() or b"\r" in data:
        return False
    return decodes(data)


class CassetteWriter:
    """Writes one cassette; every entry is in the file when `write` returns."""

    def __init__(self, path: Path, header: CassetteHeader, *, overwrite: bool = False) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_APPEND
        flags |= os.O_TRUNC if overwrite else os.O_EXCL
        # Even redacted it is somebody's session.
        self._file = os.open(path, flags, 0o600)
        self._put(_encode(msgspec.structs.replace(header, cassette=FORMAT)) + b"\n")

    def write(self, entry: CassetteEntry) -> None:
        self._put(encode_entry(entry))

    def close(self) -> None:
        os.close(self._file)

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]


def free_name(path: Path) -> Path:
    """This path, or the first of `name-2.ext`, `name-3.ext`, ... that is not there yet."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return free


def write_program(folder: Path | str, command: Sequence[str]) -> Path:
    """Write an executable `claude` that runs this command with its own arguments behind it."""
    program = Path(folder).absolute() / "claude"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    program.chmod(0o755)
    return program


class LineCutter:
    """Cuts a stream of bytes into lines."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def take_rest(self) -> bytes:
        """What has come of a line that is not complete, which it then forgets."""
        rest = b"".join(self._parts)
        self._parts.clear()
        return rest

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that these bytes completed, without their newlines."""
        first, *others = data.split(b"\n")
        self._parts.append(first)
        if not others:
            return []
        lines = [self.take_rest(), *others[:-1]]
        self._parts = [others[-1]]
        return lines


# Reading


def read(path: Path | str) -> Cassette:
    """Read a cassette. A last line that was being written when the recorder died is left out."""
    path = Path(path)
    first, *rest = path.read_bytes().split(b"\n")
    header = _read_header(path, first)
    entries: list[CassetteEntry] = []
    for number, line in enumerate(rest, 2):
        if not line:
            continue
        try:
            entries.append(_read_entry(line, number))
        except (msgspec.DecodeError, ValueError) as error:
            if number == len(rest) + 1:
                break
            raise CassetteError(f"{path}, line {number}: {error}") from error
    return Cassette(path, header, tuple(entries))


def _read_header(path: Path, line: bytes) -> CassetteHeader:
    try:
        header = _decode_header(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CassetteError(f"{path} is no cassette: {error}") from error
    if header.cassette != FORMAT:
        raise CassetteError(f"{path} is no cassette of format {FORMAT}")
    return header


def _read_entry(line: bytes, number: int) -> CassetteEntry:
    given = _decode_line(line)
    data: bytes | None = None
    if bytes(given.json):
        data = bytes(given.json)
    elif given.text is not None:
        data = given.text.encode()
    elif given.base64 is not None:
        data = base64.b64decode(given.base64, validate=True)
    return CassetteEntry(given.t, given.d, data, given.cut, given.code, given.signal, number)
