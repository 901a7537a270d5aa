"""What a CLI has said and the door does not have yet: lines in memory, then in files, bounded.

Lines are numbered from 1 and only their newlines are looked at. Of a line that is too long nothing
is kept but its size: an empty one has its place and its number. A file has no name any more when
the first line is put into it, so whatever becomes of the relay leaves nothing on the disk.
"""

from __future__ import annotations

import os
from collections import deque
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from pilothouse.transport.base import LONGEST_LINE

__all__ = ["DEFAULT_LIMIT", "LineBatch", "Spool"]

DEFAULT_LIMIT: Final = 1024 * 1024 * 1024
MEMORY: Final = 4 * 1024 * 1024
"""Bytes kept in memory before the files are used."""
SEGMENT: Final = 16 * 1024 * 1024
"""Bytes after which a new file is begun; one whose lines are all acknowledged is gone."""
CHUNK: Final = 64 * 1024
"""Bytes up to which what is read later is put to what was read before."""


class LineBatch(NamedTuple):
    """Lines that are given out together; or the place of a single one that was too long."""

    first: int
    """The number of the first."""
    data: bytes
    dropped: int = 0
    """How many bytes the line had whose place this is."""


class Segment:
    """One file of the spool."""

    __slots__ = ("fd", "left", "size")

    def __init__(self, folder: Path, name: str) -> None:
        path = folder / name
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        path.unlink()
        self.size = 0
        self.left = 0

    def store(self, data: bytes) -> None:
        view, offset = memoryview(data), self.size
        while view:
            written = os.pwrite(self.fd, view, offset)
            view, offset = view[written:], offset + written
        self.size = offset
        self.left += len(data)

    def release(self, size: int) -> bool:
        """Forget that many bytes; True once none is left."""
        self.left -= size
        return not self.left

    def close(self) -> None:
        os.close(self.fd)


class Chunk:
    """Some lines, in memory or in a file; or the place of one that was dropped."""

    __slots__ = ("count", "data", "dropped", "first", "offset", "segment", "size")

    def __init__(
        self, first: int, lines: int, data: bytes, segment: Segment | None, dropped: int = 0
    ) -> None:
        self.first = first
        self.count = lines
        self.dropped = dropped
        self.size = len(data)
        self.data = b"" if segment else data
        self.segment = segment
        self.offset = segment.size - len(data) if segment else 0

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    def read(self) -> bytes:
        if self.segment is None:
            return self.data
        parts: list[bytes] = []
        left = self.size
        while left:
            parts.append(os.pread(self.segment.fd, left, self.offset + self.size - left))
            left -= len(parts[-1])
        return b"".join(parts)

    def extend(self, lines: int, data: bytes) -> None:
        """Take lines that follow; those of a file stand behind ours in it already."""
        if self.segment is None:
            self.data += data
        self.count += lines
        self.size += len(data)

    def drop(self, lines: int) -> int:
        """Forget the first lines; return how many bytes they had."""
        data = self.read()
        end = 0
        for _ in range(lines):
            end = data.index(b"\n", end) + 1
        self.first += lines
        self.count -= lines
        self.size -= end
        self.offset += end
        if self.segment is None:
            self.data = data[end:]
        return end


class Spool:
    """Takes bytes as they come, gives whole lines in batches, forgets what is acknowledged."""

    def __init__(
        self, folder: Path | None, limit: int = DEFAULT_LIMIT, longest: int = LONGEST_LINE
    ) -> None:
        self._folder = folder
        self._limit = limit
        self._longest = longest
        self._chunks: deque[Chunk] = deque()
        self._given = 0
        """How many of the chunks have been given out since the last `rewind`."""
        self._in_flight = 0
        self._rest: list[bytes] = []
        self._rest_size = 0
        self._dropped = 0
        """Bytes that are gone of the line that has not ended yet."""
        self._in_memory = 0
        self._held = 0
        self._segment: Segment | None = None
        self._names = count(1)
        self.trouble = ""
        """Why the disk takes nothing, if so."""
        self.next = 1
        """The number that the next line will get."""

    @property
    def first(self) -> int:
        """The first line there still is, or the number of the next."""
        return self._chunks[0].first if self._chunks else self.next

    @property
    def held(self) -> int:
        """Bytes of lines not acknowledged, and of one not yet complete."""
        return self._held + self._rest_size

    @property
    def in_flight(self) -> int:
        """Bytes given out and not acknowledged."""
        return self._in_flight

    @property
    def dropped(self) -> list[tuple[int, int]]:
        """The lines that were too long, by their numbers, with their sizes."""
        return [(chunk.first, chunk.dropped) for chunk in self._chunks if chunk.dropped]

    @property
    def waiting(self) -> bool:
        """Whether there is something to give out."""
        return self._given < len(self._chunks)

    @property
    def full(self) -> bool:
        """Whether nothing more should be read until something is acknowledged.

        A line longer than the limit still passes, once it is the only one.
        """
        if self._held + self._rest_size < min(MEMORY, self._limit) or not self._chunks:
            return False
        stuck = bool(self.trouble) or self._folder is None
        return self.held >= self._limit or (stuck and self._in_memory + self._rest_size >= MEMORY)

    # -- in

    def append(self, data: bytes) -> None:
        """Take some bytes, cut anywhere."""
        if self._dropped or self._rest_size + len(data) > self._longest:
            self._append_singly(data)
            return
        cut = data.rfind(b"\n") + 1
        if not cut:
            self._rest.append(data)
            self._rest_size += len(data)
            return
        lines = data if cut == len(data) else data[:cut]
        if self._rest:
            lines = b"".join((*self._rest, lines))
        rest = data[cut:]
        self._rest = [rest] if rest else []
        self._rest_size = len(rest)
        self._keep(lines, lines.count(b"\n"))

    def _append_singly(self, data: bytes) -> None:
        """Take bytes where one of their lines may be too long."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._hold(line)
            self._end_line()
        self._hold(rest)

    def _hold(self, part: bytes) -> None:
        if self._dropped or self._rest_size + len(part) > self._longest:
            self._dropped += self._rest_size + len(part)
            self._rest, self._rest_size = [], 0
        elif part:
            self._rest.append(part)
            self._rest_size += len(part)

    def _end_line(self) -> None:
        line = b"".join((*self._rest, b"\n"))
        dropped, self._dropped = self._dropped, 0
        self._rest, self._rest_size = [], 0
        self._keep(line, 1, dropped)

    def finish(self) -> None:
        """Nothing follows: what has no newline is a line all the same."""
        if self._rest or self._dropped:
            self.append(b"\n")

    def _keep(self, data: bytes, lines: int, dropped: int = 0) -> None:
        segment = self._store(data) if self._in_memory + len(data) > MEMORY else None
        if segment is None:
            self._in_memory += len(data)
        self._held += len(data)
        last = self._chunks[-1] if self.waiting else None
        alone = dropped or last is None or last.dropped
        if last and not alone and last.segment is segment and last.size + len(data) <= CHUNK:
            last.extend(lines, data)
        else:
            self._chunks.append(Chunk(self.next, lines, data, segment, dropped))
        self.next += lines

    def _store(self, data: bytes) -> Segment | None:
        """The file the bytes were appended to; None if they have to stay in memory."""
        if self._folder is None:
            return None
        try:
            if self._segment is None or self._segment.size >= SEGMENT:
                self._segment = Segment(self._folder, f"lines-{next(self._names)}")
            self._segment.store(data)
        except OSError as error:
            self.trouble = error.strerror or str(error)
            return None
        self.trouble = ""
        return self._segment

    # -- out

    def take(self, limit: int) -> LineBatch | None:
        """The next lines, about `limit` bytes of them."""
        if not self.waiting:
            return None
        chunk = self._chunks[self._given]
        first, size, parts, dropped = chunk.first, chunk.size, [chunk.read()], chunk.dropped
        self._given += 1
        while self.waiting and not dropped:
            chunk = self._chunks[self._given]
            if chunk.dropped or size + chunk.size > limit:
                break
            size += chunk.size
            parts.append(chunk.read())
            self._given += 1
        self._in_flight += size
        return LineBatch(first, parts[0] if len(parts) == 1 else b"".join(parts), dropped)

    def rewind(self) -> None:
        """Give everything out again that is not acknowledged."""
        self._given = 0
        self._in_flight = 0

    def acknowledge(self, number: int) -> bool:
        """Forget every line up to this one; True if there was one."""
        before = self.first
        while self._chunks and self._chunks[0].last <= number:
            chunk = self._chunks.popleft()
            self._forget(chunk, chunk.size, given=self._given > 0)
            self._given = max(0, self._given - 1)
        if self._chunks and self._chunks[0].first <= number:
            chunk = self._chunks[0]
            size = chunk.drop(number - chunk.first + 1)
            self._forget(chunk, size, given=self._given > 0)
        return self.first > before

    def _forget(self, chunk: Chunk, size: int, *, given: bool) -> None:
        self._held -= size
        if given:
            self._in_flight -= size
        if chunk.segment is None:
            self._in_memory -= size
        elif chunk.segment.release(size):
            if chunk.segment is self._segment:
                self._segment = None
            chunk.segment.close()

    def close(self) -> None:
        """Let go of the files."""
        self.acknowledge(self.next)
