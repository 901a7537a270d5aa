"""The player of cassettes, without I/O: a client's lines in, the CLI's lines out.

Rules
- What the CLI wrote is written in the order of the recording, each line when everything the
  client had to say before it has been said. Times play no part here.
- A client's line is matched by what it answers (the request's id) or asks (its subtype and its
  members); prompts keep their order. It may come before its turn.
- Requests that only read are answered when they come, from their recorded answers, and nobody
  waits for them; neither for an answer that came after its question was withdrawn.
- `initialize` is waited for until a prompt comes first: such a client does without. One that the
  recording does not have is answered with next to nothing.
- A client that ends its input early gets what needs no more input. The end of input is waited for
  before the exit; before other lines only where the recording's end left a question open.
- A client that wants its prompts echoed, and gives them ids, gets the echo even from a recording
  of one that did not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from pilothouse_sim.cassettes import Cassette

from .actions import Action, EndReplay, WriteLine, line_of, refusal, reply
from .comparison import Difference, describe, differ, essence, hooks_of, servers_in
from .names import HostPlace, Names, session_in
from .steps import (
    IGNORED,
    Step,
    parse,
    request_of,
    requests_in,
    response_of,
    session_of,
    steps_of,
    type_of,
)

__all__ = ["Player"]

JsonObject = dict[str, Any]

GREETING: Final[JsonObject] = {
    "commands": [],
    "agents": [],
    "output_style": "default",
    "available_output_styles": ["default"],
    "models": [],
    "account": {},
}
ECHO: Final = "--replay-user-messages"


class Player:
    """Plays one cassette to one client, which started `command` at `place` as process `pid`."""

    def __init__(
        self, cassette: Cassette, command: Sequence[str], place: HostPlace, pid: int
    ) -> None:
        entries = cassette.entries
        lines = [entry.data for entry in entries if entry.data and entry.kind in ("in", "out")]
        self._cassette = cassette
        self._command = command
        self._pid = pid
        self._names = Names(lines, HostPlace.of(cassette.header), place)
        self._steps = steps_of(entries)
        self._requests = requests_in(self._steps)
        self._next = 0
        self._eof = False
        self._ended = False
        self._signals: set[int] = set()
        self._callbacks: dict[tuple[str, str], str] = {}
        self._echoes: list[tuple[int, JsonObject]] = []
        self._adds_echoes = ECHO in command and ECHO not in cassette.header.command
        self._ends_with_input = any(entry.kind == "in" and entry.is_eof for entry in entries)
        self._session = session_of(self._steps)
        given = session_in(command)
        if given and self._session:
            self._names.bind(self._session, given)

    def start(self) -> list[Action]:
        """What is written before the client says anything."""
        return list(self._advance())

    def receive_line(self, line: bytes) -> list[Action]:
        """Take a line of the client's."""
        if self._ended or not line.strip():
            return []
        live = parse(line)
        if live is not None and str(live.get("type")) in IGNORED:
            return []
        return [*self._receive(line, live), *self._advance()]

    def receive_eof(self) -> list[Action]:
        """The client's input ended."""
        self._eof = True
        actions = list(self._advance())
        return actions if self._ended else [*actions, *self._miss()]

    def receive_signal(self, number: int) -> list[Action]:
        """The client sent a signal that the recording has."""
        self._signals.add(number)
        return list(self._advance())

    # The client's lines

    def _receive(self, line: bytes, live: JsonObject | None) -> Iterator[Action]:
        # In the recording's own names.
        said = parse(self._names.recorded_line(line)) if live is not None else None
        if live is None or said is None:
            yield from self._receive_text(line)
            return
        match said.get("type"):
            case "control_response":
                yield from self._receive_answer(said)
            case "control_request":
                yield from self._receive_request(live, said)
            case kind:
                candidates = self._open(
                    lambda step: step.message is not None and type_of(step) == kind
                )
                yield from self._take_first(candidates[:1], live, said)

    def _receive_text(self, line: bytes) -> Iterator[Action]:
        said = _text(self._names.recorded_line(line))
        for step in self._open(lambda step: step.message is None):
            if differ(_text(step.entry.data or b""), said) is None:
                step.done = True
                return
        yield from self._part(said, None, None)

    def _receive_answer(self, said: JsonObject) -> Iterator[Action]:
        request_id = response_of(said).get("request_id")
        candidates = self._open(
            lambda step: (
                type_of(step) == "control_response"
                and response_of(step.message).get("request_id") == request_id
            )
        )
        if candidates or not self._was_withdrawn(request_id):
            yield from self._take_first(candidates, said, said)

    def _receive_request(self, live: JsonObject, said: JsonObject) -> Iterator[Action]:
        subtype = request_of(said).get("subtype")
        if subtype == "mcp_message":
            # What an in-process server tells of itself is neither compared nor waited for.
            yield reply(live, {})
            return
        candidates = self._open(
            lambda step: type_of(step) == "control_request" and step.subtype == subtype
        )
        if not candidates and subtype == "initialize" and not self._has_greeting():
            yield reply(live, GREETING | {"pid": self._pid})
            return
        yield from self._take_first(candidates, live, said)

    def _take_first(
        self, candidates: list[Step], live: JsonObject, said: JsonObject
    ) -> Iterator[Action]:
        """Take the line for the first of these steps that it equals."""
        first: Difference | None = None
        for step in candidates:
            difference = self._compare(step, said)
            if difference is None:
                yield from self._take(step, live)
                return
            first = first or difference
        yield from self._part(said, candidates[0] if candidates else None, first, live)

    def _compare(self, step: Step, said: JsonObject) -> Difference | None:
        assert step.message is not None
        recorded, now = essence(step.message, step.asked), essence(said, step.asked)
        if step.subtype == "initialize":
            old, new = request_of(step.message), request_of(said)
            recorded["request"]["sdkMcpServers"] = servers_in(self._cassette.header.command, old)
            now["request"]["sdkMcpServers"] = servers_in(self._command, new)
        return differ(recorded, now)

    def _take(self, step: Step, live: JsonObject) -> Iterator[Action]:
        assert step.message is not None
        step.done = True
        for name in ("uuid", "request_id"):
            if isinstance(step.message.get(name), str) and isinstance(live.get(name), str):
                self._names.bind(step.message[name], live[name])
        if step.subtype == "initialize":
            self._bind_callbacks(request_of(step.message), request_of(live))
        if type_of(step) == "user":
            self._do_without_greeting()
            if self._adds_echoes and live.get("uuid") and not step.message.get("uuid"):
                self._echoes.append((step.entry.number, live))
        if type_of(step) == "control_request" and not step.awaited:
            yield from self._write_reply(step)

    def _write_reply(self, step: Step) -> Iterator[Action]:
        """The answer to what nobody waited for, whatever its place in the recording."""
        assert step.message is not None
        request_id = step.message.get("request_id")
        for answer in self._steps:
            is_open = answer.entry.kind == "out" and not answer.done
            if is_open and response_of(answer.message).get("request_id") == request_id:
                answer.done = True
                yield self._write(answer, 0.0)
                return

    def _open(self, wanted: Callable[[Step], bool]) -> list[Step]:
        return [
            step
            for step in self._steps
            if step.entry.kind == "in" and step.entry.data and not step.done and wanted(step)
        ]

    def _was_withdrawn(self, request_id: Any) -> bool:
        return any(
            type_of(step) == "control_cancel_request"
            and step.message is not None
            and step.message.get("request_id") == request_id
            for step in self._steps[: self._next]
        )

    def _has_greeting(self) -> bool:
        return any(step.subtype == "initialize" for step in self._steps)

    def _do_without_greeting(self) -> None:
        for step in self._open(lambda step: step.subtype == "initialize"):
            step.awaited = False

    # Names

    def _bind_callbacks(self, recorded: JsonObject, live: JsonObject) -> None:
        now = hooks_of(live)
        for event, callbacks in hooks_of(recorded).items():
            for (_, old), (_, new) in zip(callbacks, now.get(event, []), strict=False):
                self._callbacks.setdefault((event, old), new)

    # The CLI's lines

    def _advance(self) -> Iterator[Action]:
        """Write on until a line of the client's is missing."""
        while not self._ended and self._next < len(self._steps):
            step = self._steps[self._next]
            if not self._is_ready(step):
                return
            self._next += 1
            yield from self._play(step)
        if self._eof and not self._ended:
            # The recorder did not live to see the end.
            yield from self._end(EndReplay())

    def _is_ready(self, step: Step) -> bool:
        entry = step.entry
        if entry.kind == "signal":
            return self._eof or entry.signal in self._signals
        if entry.kind == "exit":
            return self._eof or not self._ends_with_input
        if entry.kind == "in" and entry.data is None:
            return self._eof or not step.awaited
        return step.done or not step.awaited

    def _play(self, step: Step) -> Iterator[Action]:
        entry = step.entry
        if entry.kind == "exit":
            yield from self._end(EndReplay(entry.code or 0, entry.signal))
        if type_of(step) in ("assistant", "result"):
            yield from self._write_echoes(step)
        if entry.kind in ("out", "err") and entry.data is not None and not self._is_off(step):
            step.done = True
            before = self._steps[self._next - 2].entry.at if self._next > 1 else 0.0
            yield self._write(step, max(0.0, entry.at - before))

    def _write_echoes(self, before: Step) -> Iterator[Action]:
        # The CLI echoes a prompt just before the first words of the turn that takes it.
        due = [each for each in self._echoes if each[0] < before.entry.number]
        session = self._names.live_id(self._session or "")
        for each in due:
            self._echoes.remove(each)
            echo = {"type": "user", "message": each[1].get("message"), "parent_tool_use_id": None}
            echo |= {"session_id": session, "uuid": each[1]["uuid"], "isReplay": True}
            yield WriteLine("out", line_of(echo))

    def _is_off(self, step: Step) -> bool:
        """Whether it was written before, or answers what this client has not asked."""
        if step.done:
            return True
        asking = self._requests.get(str(response_of(step.message).get("request_id")))
        return asking is not None and not asking.done and not asking.awaited

    def _write(self, step: Step, after: float) -> WriteLine:
        data = self._names.live_line(step.entry.data or b"", **self._callback(step))
        if b'"pid"' in data:
            data = _with_pid(data, self._pid)
        stream = "err" if step.entry.kind == "err" else "out"
        return WriteLine(stream, data if step.entry.cut else data + b"\n", after)

    def _callback(self, step: Step) -> dict[str, str]:
        match request_of(step.message):
            case {"callback_id": str(old), "input": {"hook_event_name": str(event)}}:
                new = self._callbacks.get((event, old))
                return {} if new is None else {"callback_id": new}
            case _:
                return {}

    # Ends

    def _end(self, end: EndReplay) -> Iterator[Action]:
        self._ended = True
        yield end

    def _part(
        self,
        came: Any,
        step: Step | None,
        difference: Difference | None,
        live: JsonObject | None = None,
    ) -> Iterator[Action]:
        expected = self._expected() if step is None else step
        text = f"the client parts from the recording {self._cassette.path}"
        text += f"\n  the recording has: {self._position(expected)}"
        text += f"\n  there came: {describe(came, None if step is None else step.asked)}"
        if difference is not None:
            text += f"\n  first difference: {difference}"
        if live is not None and live.get("type") == "control_request":
            yield refusal(live, text)
        yield from self._fail(text)

    def _miss(self) -> Iterator[Action]:
        text = f"the client's input ended before the recording's {self._cassette.path}"
        text += f"\n  the recording has: {self._position(self._expected())}"
        yield from self._fail(text)

    def _fail(self, text: str) -> Iterator[Action]:
        yield WriteLine("err", f"pilothouse-sim: {text}\n".encode())
        yield from self._end(EndReplay(1))

    def _expected(self) -> Step | None:
        return next((step for step in self._steps[self._next :] if self._is_missing(step)), None)

    def _is_missing(self, step: Step) -> bool:
        return step.entry.kind in ("in", "signal") and not self._is_ready(step)

    def _position(self, step: Step | None) -> str:
        if step is None:
            return "nothing more from the client"
        entry = step.entry
        if entry.kind == "signal":
            said = f"signal {entry.signal}"
        elif entry.data is None:
            said = "the end of the client's input"
        else:
            said = describe(step.message or entry.data, step.asked)
        return f"line {entry.number}, {said}"


def _text(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace")


def _with_pid(line: bytes, pid: int) -> bytes:
    # Of the answer to `initialize`: members of other lines may be called so, too.
    match parse(line):
        case {"type": "control_response", "response": {"response": {"pid": int(old)}}}:
            return re.sub(rf'("pid"\s*:\s*){old}\b'.encode(), rb"\g<1>%d" % pid, line, count=1)
        case _:
            return line
