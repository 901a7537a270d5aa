"""What the model has said and which of its tools have ended, from the journal."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from pilothouse.api.events import Event
from pilothouse.api.items import TextItem
from pilothouse.api.records import (
    CLI,
    NOISE,
    PARTIAL,
    AnyRecord,
    CLIEnded,
    QuestionClosed,
    QuestionOpened,
    TurnEnded,
    Unreadable,
    decode_record,
)
from pilothouse.api.statuses import ToolRun
from pilothouse.conversation import Conversation
from pilothouse.protocol import (
    AssistantMessage,
    Message,
    PermissionDeniedMessage,
    ResultMessage,
    ToolResultBlock,
    UserMessage,
    decode,
)
from pilothouse.protocol.strict import is_strict, strict

from .activity import runs_in
from .view import is_refusal

__all__ = ["EndedTools", "lines_of"]


def lines_of(events: Sequence[Event], limit: int, after: int = 0) -> list[str]:
    """The last lines of the model's text in events after a cursor, subagents left out.

    A text that is being written, or that has ended since the cursor, is told from its beginning:
    what of it was told before is not known here.
    """
    lines: list[str] = []
    if limit and events and events[-1].seq > after:
        conversation = Conversation()
        conversation.apply_all(events)
        for item in reversed(conversation.items):
            if len(lines) >= limit:
                break
            if isinstance(item, TextItem) and _is_output(item, after):
                lines[:0] = item.text.splitlines()
    return lines[-limit:] if limit else []


def _is_output(item: TextItem, after: int) -> bool:
    if item.agent is not None or item.state == "retracted":
        return False
    return item.seq > after or item.state == "streaming"


def _message(body: bytes) -> Message | None:
    try:
        return decode(body if is_strict(body) else strict(body))
    except ValueError:
        return None


class _End(Struct, frozen=True):
    seq: int
    is_error: bool


class EndedTools(Struct):
    """The tools that ended among some entries of one session."""

    runs: dict[str, ToolRun] = field(default_factory=dict[str, ToolRun])
    ends: dict[str, _End] = field(default_factory=dict[str, _End])
    denied: set[str] = field(default_factory=set[str])
    asked: dict[str, str] = field(default_factory=dict[str, str])
    """Question -> the tool use it is about."""

    def follow(self, events: Iterable[Event], running: Container[str]) -> None:
        """Take in entries in order; what is still `running` after them goes on."""
        for event in events:
            if event.kind == CLI:
                self._line(event)
            elif event.kind not in (PARTIAL, NOISE):
                self._record(event.seq, decode_record(bytes(event.body)), running)

    def unnamed(self, after: int) -> list[str]:
        """Those that ended after the cursor and whose beginning is not among the entries."""
        return [
            each for each, end in self.ends.items() if end.seq > after and each not in self.runs
        ]

    def name(self, lines: Iterable[bytes], wanted: Collection[str]) -> None:
        """Learn how tools are called from older lines."""
        for line in lines:
            message = _message(line)
            if isinstance(message, AssistantMessage):
                found = runs_in(message, 0)
                self.runs.update({run.id: run for run in found if run.id in wanted})

    def told(self, after: int, known: Mapping[str, ToolRun]) -> list[ToolRun]:
        """Return those that ended after the cursor, in that order; `known` ones as they are."""
        return [
            known.get(name) or replace(self.runs[name], state=self._state(name, end))
            for name, end in sorted(self.ends.items(), key=lambda item: item[1].seq)
            if end.seq > after and (name in known or name in self.runs)
        ]

    def _state(self, name: str, end: _End) -> str:
        return "denied" if name in self.denied else "failed" if end.is_error else "completed"

    def _line(self, event: Event) -> None:
        match _message(bytes(event.body)):
            case AssistantMessage() as message:
                self.runs.update({run.id: run for run in runs_in(message, event.at)})
            case UserMessage() as message if not message.is_replay:
                for block in message.content:
                    if isinstance(block, ToolResultBlock):
                        end = _End(event.seq, is_error=bool(block.is_error))
                        self.ends[block.tool_use_id] = end
            case PermissionDeniedMessage() as message:
                self.denied.add(message.tool_use_id)
            case ResultMessage() as message:
                self.denied.update(each.tool_use_id for each in message.permission_denials)
            case _:
                pass

    def _record(self, seq: int, record: AnyRecord | Unreadable, running: Container[str]) -> None:
        match record:
            case QuestionOpened(question=question) if question.tool_use_id:
                self.asked[question.id] = question.tool_use_id
            case QuestionClosed() if is_refusal(record) and record.id in self.asked:
                self.denied.add(self.asked[record.id])
            case TurnEnded() | CLIEnded():
                # A turn may end without the results of its tools. One that comes later counts.
                for name in [each for each in self.runs if each not in running]:
                    self.ends.setdefault(name, _End(seq, is_error=True))
            case _:
                pass
