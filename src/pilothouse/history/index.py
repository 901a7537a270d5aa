"""What is known of each transcript, stored between two runs. A cache: it may be deleted."""

from __future__ import annotations

import contextlib
import os
import tempfile
import zlib
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from pilothouse.folders import make_private

from .header import Header

__all__ = ["Folders", "Seen", "load", "save"]

_MAGIC: Final = b"pilothouse history 2\n"
"""Changes with everything that is read or stored differently: an older file is then made anew."""


class Seen(Struct, frozen=True, array_like=True, gc=False):
    """A transcript as it was read: it is read again when one of the first three differs."""

    size: int
    mtime_ns: int
    ctime_ns: int
    """Changes also when only the permissions do."""
    header: Header | None
    """None: there was no line of a transcript in it."""


Folders = dict[str, dict[str, Seen]]
"""Folder under `projects`, name of the file, what it was."""


class _Kept(Struct, frozen=True, array_like=True):
    root: str
    folders: Folders


_DECODER: Final = msgspec.msgpack.Decoder(_Kept)


def load(path: Path, root: str) -> Folders:
    """Return what was stored for this folder; nothing if the file is missing, damaged or older."""
    try:
        data = path.read_bytes()
        start = len(_MAGIC) + 4
        body = memoryview(data)[start:]
        if data[:start] != _MAGIC + _checksum(body):
            return {}
        kept = _DECODER.decode(body)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return kept.folders if kept.root == root else {}


def save(path: Path, root: str, folders: Folders) -> None:
    """Replace the file at once, or leave it as it was."""
    body = msgspec.msgpack.encode(_Kept(root, folders))
    # A cache that cannot be written is no error of the list that it was made for.
    with contextlib.suppress(OSError):
        make_private(path.parent)
        _replace(path, _MAGIC + _checksum(body) + body)


def _checksum(body: bytes | memoryview) -> bytes:
    return zlib.crc32(body).to_bytes(4, "big")


def _replace(path: Path, data: bytes) -> None:
    # mkstemp makes the file for its owner alone.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink()
        raise
