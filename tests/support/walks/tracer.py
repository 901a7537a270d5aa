"""Notes where marked data is handed on, with the calls that are under way at that moment.

A hand-over is a call of one of the points below while it has marked data: as an argument, as what
it returns, or in the variables of the function that calls it. The calls are those of our own files,
from the event loop on. A helper that returns before the data goes on is never among them.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import CodeType, CoroutineType, FrameType
from typing import Any, Final

SOURCE: Final = str(Path(__file__).resolve().parents[3] / "src" / "pilothouse") + "/"
DEPTH: Final = 6
WIDTH: Final = 100

READ: Final = frozenset({("posix", "read"), ("socket", "recv")})
WRITTEN: Final = {
    ("posix", "write"): 3,
    ("socket", "send"): 3,
    ("SimpleQueue", "put"): 1,
    ("Future", "set_result"): 1,
}
"""Functions in C, by their module or type, and how many callers may have what they are given: what
is written to a socket has gone through a buffer, and is masked there."""

PASSED: Final = {
    "asyncio/queues.py": {"Queue.put_nowait"},
    "asyncio/base_events.py": {"BaseEventLoop.create_task", "BaseEventLoop.call_soon_threadsafe"},
    "asyncio/selector_events.py": {"_SelectorSocketTransport.write"},
    "http/h11_impl.py": {"H11Protocol.data_received"},
    "websockets/websockets_sansio_impl.py": {"WebSocketsSansIOProtocol.data_received"},
}
"""Functions in Python that data is handed to, by the end of the path."""
GIVEN: Final = {
    "http/h11_impl.py": {"RequestResponseCycle.receive"},
    "websockets/websockets_sansio_impl.py": {"WebSocketsSansIOProtocol.receive"},
}
"""Functions in Python that return data which has waited."""
LOOPS: Final = {"asyncio/events.py": {"Handle._run"}}
"""The calls below these are left out: they began before the data came."""


class Tracer:
    """Writes one line for each hand-over to a file, from every thread that begins later."""

    def __init__(
        self,
        file: Path,
        marks: Iterable[str],
        *,
        passed: Mapping[str, set[str]],
        given: Mapping[str, set[str]],
        loops: Mapping[str, set[str]],
    ) -> None:
        self._file = file.open("a")
        self._marks = [(mark, mark.encode()) for mark in marks]
        self._passed = {**PASSED, **passed}
        self._given = {**GIVEN, **given}
        self._loops = {**LOOPS, **loops}
        self._points: dict[CodeType, str] = {}
        self._read = threading.local()

    def start(self) -> None:
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)

    def _on_event(self, frame: FrameType, event: str, arg: Any) -> None:
        reading: FrameType | None = getattr(self._read, "frame", None)
        if reading is not None:
            # The bytes that were read are in a variable by now, or are just being returned.
            self._read.frame = None
            values = [arg] if event == "return" and frame is reading else []
            self._note("read", reading, [*values, *_variables(reading, 1)])
        if event == "c_call":
            if callers := WRITTEN.get(_named(arg)):
                self._note(arg.__name__, frame, _variables(frame, callers))
        elif event == "c_return":
            if _named(arg) in READ:
                self._read.frame = frame
        elif event == "call":
            if self._kind(frame.f_code) == "passed":
                self._note(frame.f_code.co_qualname, frame, _variables(frame, 1))
        elif event == "return" and arg is not None and self._kind(frame.f_code) == "given":
            self._note(frame.f_code.co_qualname, frame, [arg])

    def _kind(self, code: CodeType) -> str:
        found = self._points.get(code)
        if found is None:
            found = "passed" if _is_in(code, self._passed) else ""
            found = "given" if _is_in(code, self._given) else found
            self._points[code] = found
        return found

    def _note(self, point: str, frame: FrameType, values: list[Any]) -> None:
        for mark, raw in self._marks:
            if any(_carries(value, mark, raw, DEPTH) for value in values):
                told = {
                    "at": time.monotonic_ns(),
                    "mark": mark,
                    "point": point,
                    "stack": self._stack(frame),
                }
                self._file.write(json.dumps(told) + "\n")
                self._file.flush()

    def _stack(self, frame: FrameType | None) -> list[tuple[str, str]]:
        """Our calls that are under way, the outermost first, from the event loop on."""
        found: list[tuple[str, str]] = []
        while frame is not None and not _is_in(frame.f_code, self._loops):
            code = frame.f_code
            if code.co_filename.startswith(SOURCE):
                found.append((code.co_filename.removeprefix(SOURCE), _plain(code)))
            frame = frame.f_back
        return found[::-1]


def _named(function: Any) -> tuple[str, str]:
    owner = getattr(function, "__self__", None)
    name = getattr(owner, "__name__", None) or type(owner).__name__
    return name, getattr(function, "__name__", "")


def _variables(frame: FrameType | None, callers: int) -> list[Any]:
    found: list[Any] = []
    while frame is not None and callers:
        found += [value for name, value in frame.f_locals.items() if name != "self"]
        frame, callers = frame.f_back, callers - 1
    return found


def _is_in(code: CodeType, points: Mapping[str, set[str]]) -> bool:
    return any(
        code.co_qualname in names and code.co_filename.endswith(path)
        for path, names in points.items()
    )


def _plain(code: CodeType) -> str:
    return code.co_qualname.replace(".<locals>", "")


def _carries(value: Any, mark: str, raw: bytes, depth: int) -> bool:
    """Whether the mark is in something: in text, in what holds text, in a call that waits."""
    match value:
        case str():
            return mark in value
        case bytes() | bytearray():
            return raw in value
        case memoryview():
            return raw in value.tobytes()
        case _ if type(value).__name__ == "Raw":
            return raw in bytes(value)
        case _ if depth == 0 or isinstance(value, type):
            return False
        case list() | tuple() | set() | frozenset() | deque():
            parts: Iterable[Any] = list(value)[:WIDTH]
        case dict():
            parts = list(value.values())[:WIDTH]
        case CoroutineType():
            parts = _variables(value.cr_frame, 1)
        case _:
            parts = [getattr(value, name, None) for name in _members(type(value))]
    return any(_carries(part, mark, raw, depth - 1) for part in parts)


def _members(kind: type) -> Iterable[str]:
    """The members of plain data: structs, and classes of ours with slots."""
    fields: Iterable[str] | None = getattr(kind, "__struct_fields__", None)
    if fields is None and kind.__module__.startswith("pilothouse"):
        fields = kind.__dict__.get("__slots__", ())
    return fields or ()
