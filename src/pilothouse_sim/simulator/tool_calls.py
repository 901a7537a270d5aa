"""The tools that one reply calls: each call, whether it may run, and what all have come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from pilothouse_sim.simulator.tally import Tally, TurnEnding
    from pilothouse_sim.simulator.transcript import Thread

__all__ = ["CallBatch", "CallRefusal", "CalledTool", "Deferred", "Interrupting", "Permit"]


class CalledTool(Struct, frozen=True, kw_only=True):
    """A tool the model calls."""

    id: str
    name: str
    input: dict[str, Any]

    @classmethod
    def of(cls, block: dict[str, Any]) -> CalledTool:
        """Read a tool_use block."""
        return cls(id=block["id"], name=block["name"], input=block["input"])


class Permit:
    """The call may run with this input; `decision` says who allowed it."""

    def __init__(self, input: dict[str, Any], decision: dict[str, Any]) -> None:
        self.input = input
        self.decision = decision


class Interrupting(Exception):
    """The answer to a question ends the turn as an interrupt does."""


class Deferred(Exception):
    """A hook puts the call off: the turn ends, and somebody else carries it out."""


class CallRefusal(Exception):
    """The call may not run; the text is what the model reads."""

    def __init__(
        self,
        text: str,
        meta: dict[str, Any],
        *,
        result: Any = None,
        is_denial: bool = True,
        ending: TurnEnding | None = None,
    ) -> None:
        super().__init__(text)
        self.text = text
        self.result: Any = f"Error: {text}" if result is None else result
        self.meta = meta
        self.is_denial = is_denial
        self.ending = ending


class CallBatch:
    """What the calls of one reply have come to so far."""

    def __init__(self, thread: Thread, tally: Tally) -> None:
        self.thread = thread
        self.tally = tally
        self.blocks: list[dict[str, Any]] = []
        """The results that the model is told."""
        self.reminders: list[str] = []
        """What hooks have the model know besides."""
        self.is_stopped = False
        """Whether a hook wants the turn to end with these calls."""
        self._remarks: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {}

    @property
    def agent_fields(self) -> dict[str, Any]:
        """What a question to the client says of the sub-agent that it comes from."""
        labels = self.thread.labels
        return {key: labels[key] for key in ("agent_id",) if key in labels}

    def note_denial(self, call: CalledTool) -> None:
        """Keep a call that was not allowed for the turn's result."""
        denial = {"tool_name": call.name, "tool_use_id": call.id, "tool_input": call.input}
        self.tally.denials.append(denial)

    # What hooks tell the user of them

    def remark(
        self,
        call: CalledTool,
        before: list[dict[str, Any]] | None = None,
        after: list[dict[str, Any]] | None = None,
    ) -> None:
        """Keep what hooks tell the user, to be written around the call's result."""
        earlier, later = self._remarks.setdefault(call.id, ([], []))
        earlier += before or []
        later += after or []

    def take_remarks(self, call_id: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """What to write before and after the result of a call."""
        return self._remarks.pop(call_id, ([], []))
