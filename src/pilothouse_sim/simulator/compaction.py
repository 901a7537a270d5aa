"""Replaces a conversation by its summary: on /compact, or when the context window is full.

The order of lines is the CLI's: status, hooks, the model's summary, hooks, status; then, for a
command, init; then the boundary and the summary. The newest reply stays as it is when there is
something before it to sum up; the boundary names its lines.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct

from pilothouse_sim.simulator import facts
from pilothouse_sim.simulator.clock import timestamp
from pilothouse_sim.simulator.outlet import new_id
from pilothouse_sim.simulator.prompts import words_of

if TYPE_CHECKING:
    from pilothouse_sim.simulator.conversation import ModelConversation
    from pilothouse_sim.simulator.hooks.session import SessionHooks
    from pilothouse_sim.simulator.model_requests import ModelRequests
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.tally import Tally
    from pilothouse_sim.simulator.transcript import TranscriptFile

__all__ = ["TOO_SHORT", "Compacted", "Compaction", "TooShort"]

_REQUEST: Final = "Please create a detailed summary of our conversation, inside <summary> tags."
_RESERVE: Final = 33_000
"""How many tokens before the end of the window the CLI compacts by itself."""
_LAST_RESERVE: Final = 23_000
"""How many before it compacts even a conversation of a single reply."""
_ATTACHED: Final = 2_250
"""Tokens of what the CLI tells the model anew behind a summary: the skills and agents there are."""
TOO_SHORT: Final = "Not enough messages to compact."


class Compacted(Struct, frozen=True, kw_only=True):
    """A compaction that was made."""

    trigger: str
    summary: str
    notes: list[str]
    """What hooks had to say."""
    before: int
    """Tokens of the conversation."""
    after: int
    elapsed_ms: int


class TooShort(Exception):
    """There is nothing to sum up."""


class Compaction:
    """Compacts the session's own conversation."""

    def __init__(
        self,
        state: SessionState,
        transcript: TranscriptFile,
        hooks: SessionHooks,
        requests: ModelRequests,
        conversation: ModelConversation,
    ) -> None:
        self._state = state
        self._transcript = transcript
        self._hooks = hooks
        self._requests = requests
        self._conversation = conversation

    async def by_itself(self, tally: Tally) -> None:
        """Compact the conversation if the context window is nearly full."""
        main = self._conversation
        room = facts.model(self._state.model_name).context_window - main.tokens
        if room > _RESERVE:
            return
        self._state.outlet.system("status", status="compacting", compact_output_chars=0)
        if len(self._spoken()) < 2 and room > _LAST_RESERVE:
            self._give_up("too_few_groups")
            return
        done = await self._sum_up("auto", "")
        main.echo_prompts()
        self.settle(done)
        tally.user_lines += 1

    async def after_refusal(self, tally: Tally, *, needed: int) -> bool:
        """Compact a conversation of so many prompts or more, because the API found it too long."""
        prompts = len(self._prompts())
        if prompts < 2:
            return False
        self._state.outlet.system("status", status="compacting", compact_output_chars=0)
        if prompts < needed or not self._spoken():
            self._give_up("too_few_groups")
            return False
        done = await self._sum_up("auto", "")
        self._conversation.echo_prompts()
        self.settle(done)
        tally.user_lines += 1
        return True

    async def compact(self, trigger: str, instructions: str = "") -> Compacted:
        """Let the model sum the conversation up; raise `TooShort` when there is none."""
        self._state.outlet.system("status", status="compacting")
        if not self._spoken():
            self._give_up(TOO_SHORT)
            raise TooShort
        return await self._sum_up(trigger, instructions)

    def _give_up(self, reason: str) -> None:
        self._state.outlet.system(
            "status", status=None, compact_result="failed", compact_error=reason
        )

    def _spoken(self) -> list[dict[str, Any]]:
        return [each for each in self._conversation.messages if each["role"] == "assistant"]

    def _prompts(self) -> list[dict[str, Any]]:
        said = [each for each in self._conversation.messages if each["role"] == "user"]
        return [each for each in said if words_of(each["content"])]

    async def _sum_up(self, trigger: str, instructions: str) -> Compacted:
        began = time.monotonic()
        notes = await self._fire("PreCompact", trigger, custom_instructions=instructions or None)
        summary = await self._summarise(instructions)
        await self._begin_again()
        notes += await self._fire("PostCompact", trigger, compact_summary=summary)
        self._state.outlet.system("status", status=None, compact_result="success")
        return Compacted(
            trigger=trigger,
            summary=summary,
            notes=notes,
            before=self._conversation.tokens,
            after=_ATTACHED + _estimate(self._wrapped(summary)),
            elapsed_ms=int((time.monotonic() - began) * 1000),
        )

    async def _fire(self, event: str, trigger: str, **fields: Any) -> list[str]:
        """Call the hooks of an event; what the user is told of them."""
        fired = await self._hooks.fire(event, {"trigger": trigger, **fields}, query=trigger)
        return [f"{event} [{heard.source}] completed successfully" for heard in fired.heard]

    async def _begin_again(self) -> None:
        """SessionStart, with more than it is told at the start of a process."""
        told = {
            "prompt_id": self._state.prompt_id,
            "source": "compact",
            "model": self._state.model_name,
        }
        await self._hooks.fire("SessionStart", told, query="compact")

    async def _summarise(self, instructions: str) -> str:
        body = self._requests.body(self._conversation)
        request = f"{_REQUEST}\n\n{instructions}".rstrip()
        body["messages"] = [*body["messages"], {"role": "user", "content": request}]
        return await self._requests.ask_aside(body) or ""

    # What follows

    def settle(self, done: Compacted) -> None:
        """Put the summary in place of the conversation, and tell the client."""
        main, transcript = self._conversation, self._transcript
        boundary, anchor = new_id(), new_id()
        kept = self._kept(done.trigger)
        parent = transcript.main.leaf if kept else new_id()
        main.dropped += max(0, done.before - done.after)
        metadata = _metadata(done, main.dropped, anchor, kept)
        self._state.outlet.system(
            "compact_boundary", uuid=boundary, compact_metadata=metadata, logical_parent_uuid=parent
        )
        words = self._wrapped(done.summary)
        self._write_summary(anchor, words, done.trigger)
        main.messages = [{"role": "user", "content": words}, *self._kept_messages(kept)]
        main.tokens = done.after
        self._keep_boundary(boundary, parent, metadata)
        transcript.main_line(
            "user",
            promptId=self._state.prompt_id,
            uuid=anchor,
            message={"role": "user", "content": words},
            isVisibleInTranscriptOnly=True,
            isCompactSummary=True,
        )
        transcript.main.replied, transcript.main.since = [], []

    def _kept(self, trigger: str) -> list[str]:
        """The lines of the newest reply, unless it is all there is, and those that wait for one."""
        chain = self._transcript.main
        replied = chain.replied if len(self._spoken()) > 1 else []
        return [*replied, *(chain.since if trigger == "auto" else ())]

    def _kept_messages(self, kept: list[str]) -> list[dict[str, Any]]:
        if not kept:
            return []
        messages = self._conversation.messages
        newest = max(at for at, each in enumerate(messages) if each["role"] == "assistant")
        return messages[newest if len(self._spoken()) > 1 else newest + 1 :]

    def _keep_boundary(self, boundary: str, parent: str | None, metadata: dict[str, Any]) -> None:
        self._transcript.main.leaf = None
        self._transcript.main_line(
            "system",
            uuid=boundary,
            logicalParentUuid=parent,
            subtype="compact_boundary",
            content="Conversation compacted",
            isMeta=False,
            level="info",
            compactMetadata=_camel(metadata),
        )

    def _write_summary(self, own: str, words: str, trigger: str) -> None:
        is_manual = trigger == "manual"
        self._state.outlet.send(
            "user",
            message={
                "role": "user",
                "content": words if is_manual else [{"type": "text", "text": words}],
            },
            parent_tool_use_id=None,
            uuid=own,
            timestamp=timestamp(),
            **({"isReplay": False} if is_manual else {}),
            isSynthetic=True,
        )

    def _wrapped(self, summary: str) -> str:
        found = re.search(r"<summary>(.*?)</summary>", summary, re.DOTALL)
        told = found[1].strip() if found else summary
        return (
            "This session is being continued from a previous conversation that ran out of context."
            f"\n\nSummary:\n{told}\n\nThe whole conversation is in {self._transcript.path}."
        )


def _metadata(done: Compacted, dropped: int, anchor: str, kept: list[str]) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "trigger": done.trigger,
        "pre_tokens": done.before,
        "post_tokens": done.after,
        "cumulative_dropped_tokens": dropped,
        "duration_ms": done.elapsed_ms,
    }
    if kept:
        metadata["preserved_segment"] = {
            "head_uuid": kept[0],
            "anchor_uuid": anchor,
            "tail_uuid": kept[-1],
        }
        metadata["preserved_messages"] = {
            "anchor_uuid": anchor,
            "uuids": kept,
            "all_uuids": kept,
        }
    return metadata


def _estimate(words: str) -> int:
    return -(-len(words) // 4)


def _camel(value: Any) -> Any:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {_camel_name(key): _camel(member) for key, member in members.items()}
    return value


def _camel_name(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
