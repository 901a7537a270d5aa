"""What a client must know of a CLI that another engine has spoken to, read from the journal."""

from __future__ import annotations

from typing import Final

from pilothouse.client.client import Past
from pilothouse.journal.contract import Journal
from pilothouse.protocol import (
    ControlCancelRequest,
    ControlRequest,
    ControlResponse,
    Initialize,
    InitializeResult,
    InitMessage,
    Message,
    NotAMessage,
    decode,
    read_reply,
)

from .view import View

__all__ = ["greeting_id", "recall"]

# Looked for before anything is decoded: nearly every line has neither.
TELLING: Final = (b"control_", b'"init"')


def greeting_id(run: str) -> str:
    """The id of the first request of a run: its answer is known by it after a restart."""
    return f"ph_{run}"


async def recall(journal: Journal, view: View, sent: frozenset[str]) -> Past:
    """What passed since the CLI was started. `sent` names the messages to it, its own requests
    that were answered, and ours."""
    memory = _Memory(greeting_id(view.run))
    lines = await journal.lines_with(view.run_seq, TELLING, session_id=view.session_id)
    for line in lines:
        memory.take(line)
    return Past(
        asked=[each for each in memory.asked.values() if each.request_id not in sent],
        greeting=memory.greeting,
        is_greeting_sent=greeting_id(view.run) in sent,
        init=memory.init,
        session_id=view.claude_session_id,
    )


class _Memory:
    def __init__(self, greeting_id: str) -> None:
        self.asked: dict[str, ControlRequest] = {}
        self.greeting: InitializeResult | None = None
        self.init: InitMessage | None = None
        self._greeting_id = greeting_id

    def take(self, line: bytes) -> None:
        try:
            self._take(decode(line))
        except NotAMessage:
            return

    def _take(self, message: Message) -> None:
        match message:
            case ControlRequest():
                self.asked[message.request_id] = message
            case ControlCancelRequest():
                self.asked.pop(message.request_id, None)
            case ControlResponse():
                if message.request_id == self._greeting_id:
                    self.greeting = read_reply(Initialize(), message)
            case InitMessage():
                self.init = message
            case _:
                pass
