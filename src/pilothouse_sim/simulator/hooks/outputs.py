"""What hooks said, read as the CLI reads it. Nothing here waits for anything."""

from __future__ import annotations

from typing import Any, Literal, cast

from msgspec import Struct

__all__ = ["Fired", "Heard", "Ruling"]

Behavior = Literal["allow", "ask", "deny", "defer"]
_RANKS: dict[str, int] = {"deny": 3, "defer": 2, "ask": 1, "allow": 0}
_OLD_WORDS = {"approve": "allow", "block": "deny"}


class Ruling(Struct, frozen=True):
    """What a hook says about a call, and why."""

    behavior: Behavior
    reason: str | None = None
    is_command: bool = False


class Heard(Struct, frozen=True, kw_only=True):
    """What came back from one hook."""

    output: dict[str, Any] = {}
    words: str = ""
    """What a command printed that is no JSON."""
    objection: str | None = None
    """What a command that ended with 2 wrote to stderr."""
    command: str | None = None
    """The command line, if the hook is one."""
    timeout: float | None = None
    """The seconds in which the hook did not answer."""
    failure: dict[str, Any] | None = None
    """The `informational` line about a callback that went wrong."""

    @property
    def source(self) -> str:
        """The hook as the model is told of it."""
        return self.command or "callback"

    @property
    def specific(self) -> dict[str, Any]:
        """The part of the answer that is for this event only."""
        found = self.output.get("hookSpecificOutput")
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}

    @property
    def block(self) -> str | None:
        """Why the hook objects, if it does."""
        if self.objection is not None:
            return f"[{self.command}]: {self.objection or 'No stderr output'}"
        if self.output.get("decision") == "block":
            return self.output.get("reason") or "Blocked by hook"
        return None

    @property
    def ruling(self) -> Ruling | None:
        """What the hook says about a call that is about to run."""
        is_command = self.command is not None
        if self.objection is not None:
            return Ruling("deny", self.block, is_command)
        decision = self.specific.get("permissionDecision")
        if decision in _RANKS:
            reason = self.specific.get("permissionDecisionReason")
            return Ruling(decision, reason, is_command)
        old = _OLD_WORDS.get(self.output.get("decision", ""))
        if old is None:
            return None
        return Ruling(cast("Behavior", old), self.output.get("reason"), is_command)


class Fired(Struct, frozen=True):
    """What all hooks of one event said."""

    heard: list[Heard]

    @property
    def timeout(self) -> float | None:
        """The seconds in which one did not answer, if one did not."""
        return next((one.timeout for one in self.heard if one.timeout is not None), None)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The lines about callbacks that went wrong."""
        return [one.failure for one in self.heard if one.failure is not None]

    @property
    def blocks(self) -> list[tuple[str, str]]:
        """Who objects, and why."""
        return [(one.source, one.block) for one in self.heard if one.block is not None]

    @property
    def stop(self) -> str | None:
        """The reason why nothing more may be done, if a hook wants that."""
        for one in self.heard:
            if one.output.get("continue") is False:
                return one.output.get("stopReason") or ""
        return None

    @property
    def contexts(self) -> list[str]:
        """What the model is to know besides."""
        found = [one.specific.get("additionalContext") for one in self.heard]
        return [each for each in found if each]

    @property
    def messages(self) -> list[str]:
        """What the user is to be told."""
        found = [one.output.get("systemMessage") for one in self.heard]
        return [each for each in found if each]

    @property
    def ruling(self) -> Ruling | None:
        """The strictest word about a call."""
        rulings = [one.ruling for one in self.heard if one.ruling is not None]
        return max(rulings, key=lambda one: _RANKS[one.behavior], default=None)

    def ordered(self, name: str) -> dict[str, Any] | None:
        """What a command decides in the user's place; callbacks are only told."""
        found = [one.specific for one in self.heard if one.command and name in one.specific]
        if not found:
            return None
        return {key: found[-1][key] for key in (name, "content") if key in found[-1]}

    def last(self, name: str) -> Any:
        """A member of the part for this event, as the last hook that has one gives it."""
        found = [one.specific[name] for one in self.heard if name in one.specific]
        return found[-1] if found else None
