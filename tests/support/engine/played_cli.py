"""A CLI that does what a test tells it, and notes what it wrote and heard."""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Any

from pilothouse.protocol import ControlRequest
from pilothouse_sim.scripted_cli import ScriptedCLI

if TYPE_CHECKING:
    from tests.support.engine.played import EngineStage

MARK = re.compile(r"mark-\d+-")
PLAN = "# Leap\n\n1. Look\n2. Leap\n"
POSED = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "Red"}, {"label": "Blue"}],
    "multiSelect": False,
}
FORM = {"type": "object", "properties": {"day": {"type": "string"}}}
ASKS: dict[str, dict[str, Any]] = {
    "tool": {"tool_name": "Bash", "input": {"command": "make test"}},
    "plan": {"tool_name": "ExitPlanMode", "input": {"plan": PLAN}},
    "questions": {"tool_name": "AskUserQuestion", "input": {"questions": [POSED]}},
    "elicitation": {"mcp_server_name": "harbour", "mode": "form", "requested_schema": FORM},
}
OUTCOMES: list[dict[str, Any]] = [
    {"subtype": "success", "result": "so be it"},
    {"subtype": "success", "is_error": True, "result": "API Error: 500"},
    {"subtype": "error_max_turns"},
    {"subtype": "error_during_execution", "terminal_reason": "aborted_streaming"},
]

_marks = itertools.count(1)


def mark() -> str:
    """A text that no other message or answer has."""
    return f"mark-{next(_marks)}-"


class PlayedCLI(ScriptedCLI):
    """A CLI that does what a test tells it, and notes what it wrote and heard."""

    def __init__(self, stage: EngineStage, session_id: str, *, modern: bool) -> None:
        super().__init__()
        self.stage = stage
        self.session_id = session_id
        self.modern = modern
        """It tells its state and the life of each prompt, as newer ones do."""
        self.wrote: list[bytes] = []
        self.asks: dict[str, str] = {}
        """Request id -> a mark that its question shows."""
        self.withdrawn: set[str] = set()
        self.answers: dict[str, dict[str, Any]] = {}
        """Request id -> the control response."""
        self.heard: list[str] = []
        """The uuids of the prompts it was sent."""
        self.queue: list[str] = []
        self.turn: list[str] | None = None
        self.greeted = False
        self._has_ended = False
        self.is_lost = False
        """Its engine was killed: what happens to it now, nobody knows."""
        self.is_kept = False
        """It has ended, and all it wrote is committed."""
        self.is_cut = False
        """Its engine was killed before that: the end of what it wrote may be missing."""
        self.on_request = self._requested

    # What it does

    def begin(self) -> None:
        """Take the next prompt: into the running turn, or into a new one."""
        if not self.queue:
            return
        uuid = self.queue.pop(0)
        if self.turn is None:
            self._state("running")
        self._life(uuid, "started")
        if self.turn is None:
            self._tell("system", subtype="init", model="big", permissionMode="default")
            self.turn = []
        self.turn.append(uuid)
        self._tell("user", uuid=uuid, isReplay=True, message={"content": mark()})

    def begin_by_itself(self) -> None:
        if self.turn is None:
            self._state("running")
            self._tell("system", subtype="init", model="big", permissionMode="default")
            self.turn = []

    def speak(self) -> None:
        self._tell("assistant", message={"content": [{"type": "text", "text": mark()}]})

    def write_pieces(self) -> None:
        for _ in range(3):
            delta = {"type": "text_delta", "text": mark()}
            event = {"type": "content_block_delta", "index": 0, "delta": delta}
            self._tell("stream_event", event=event)

    def write_noise(self) -> None:
        self._put(mark().encode() + b"\n")

    def end_turn(self, outcome: int = 0) -> None:
        if self.turn is None:
            return
        told = OUTCOMES[outcome % len(OUTCOMES)]
        answered, self.turn = self.turn, None
        origin = {} if answered else {"origin": {"kind": "task-notification"}}
        named = {"user_message_uuids": answered, "total_cost_usd": 0.5, "uuid": mark()}
        self._tell("result", **told, **named, **origin)
        for uuid in answered:
            self._life(uuid, "completed")
        self._state("idle")

    def want(self, kind: str) -> str:
        """Ask a person; the id of the request."""
        shown = mark()
        fields = dict(ASKS[kind])
        subtype = "elicitation" if kind == "elicitation" else "can_use_tool"
        fields |= {"message": shown} if kind == "elicitation" else {"tool_use_id": shown}
        request_id, _ = self.ask(subtype, **fields)
        self.asks[request_id] = shown
        return request_id

    def take_back(self, request_id: str) -> None:
        if request_id not in self.withdrawn and request_id not in self.answers:
            self.withdrawn.add(request_id)
            self.withdraw(request_id)

    def die(self, *, code: int | None = None, signal: int | None = None) -> None:
        self._has_ended = True
        self.end.exit(code, signal=signal)

    @property
    def is_alive(self) -> bool:
        """Whether it runs: one whose start was called off was made, and never did."""
        return self.transport._receiver is not None and not self._has_ended

    @property
    def waiting(self) -> list[str]:
        """The requests nobody has answered yet."""
        return [each for each in self.asks if each not in self.withdrawn | self.answers.keys()]

    def _tell(self, kind: str, **fields: Any) -> None:
        self.write({"type": kind, "session_id": self.session_id, "uuid": mark(), **fields})

    def _state(self, state: str) -> None:
        if self.modern:
            self._tell("system", subtype="session_state_changed", state=state)

    def _life(self, uuid: str, state: str) -> None:
        if self.modern:
            self._tell("system", subtype="command_lifecycle", command_uuid=uuid, state=state)

    def _flush(self) -> None:
        data = self._connection.data_to_send()
        if data:
            self._put(data)

    def _put(self, data: bytes) -> None:
        if self.is_alive and not self.is_lost:
            self.wrote += data.splitlines()
            self.end.write(data)

    # What it hears

    def data_received(self, data: bytes) -> None:
        if self.is_lost or not self.is_alive:
            return
        for line in data.splitlines():
            message = json.loads(line)
            if message["type"] == "control_response":
                self._answered(message["response"])
            elif message["type"] == "user":
                self._heard(message["uuid"])
        super().data_received(data)

    def _answered(self, response: dict[str, Any]) -> None:
        request_id = response["request_id"]
        self.stage.expect(request_id not in self.answers, f"answered twice: {response}")
        self.answers[request_id] = response
        self.stage.check_committed(self.asks[request_id], response)

    def _heard(self, uuid: str) -> None:
        self.stage.expect(uuid not in self.heard, f"sent twice: {uuid}")
        self.stage.expect(self.stage.is_kept(uuid), f"sent before it was committed: {uuid}")
        self.heard.append(uuid)
        self.queue.append(uuid)

    def _requested(self, message: ControlRequest) -> None:
        request: Any = message.client_request
        if request.subtype == "cancel_async_message":
            is_queued = request.message_uuid in self.queue
            if is_queued:
                self.queue.remove(request.message_uuid)
            self._answers[request.subtype] = {"cancelled": is_queued}
        elif request.subtype == "initialize":
            self.greeted = True
        elif request.subtype == "interrupt":
            for request_id in self.waiting:
                self.take_back(request_id)
            self.end_turn(3)
            cancelled = list(self.queue) if request.cancel_queued is True else []
            self.queue = [each for each in self.queue if each not in cancelled]
            for uuid in cancelled:
                self._life(uuid, "cancelled")
            told = {"still_queued": list(self.queue), "cancelled": cancelled}
            self._answers[request.subtype] = told

    def eof_received(self) -> None:
        self._has_ended = True
        super().eof_received()

    def exited(self, exit: Any) -> None:
        self._has_ended = True
        super().exited(exit)
