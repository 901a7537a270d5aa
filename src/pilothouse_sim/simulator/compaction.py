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

from pilothouse_sim.simulator import facts, slash
from pilothouse_sim.simulator.clock import timestamp
from pilothouse_sim.simulator.controls.ports import ask_aside
from pilothouse_sim.simulator.outlet import new_id
from pilothouse_sim.simulator.prompts import words_of

if TYPE_CHECKING:
    from pilothouse_sim.simulator.prompts import Prompt
    from pilothouse_sim.simulator.session import Session
    from pilothouse_sim.simulator.slash import Invocation
    from pilothouse_sim.simulator.tally import Tally

__all__ = ["Compacted", "after_refusal", "by_itself", "compact", "on_command"]

_REQUEST: Final = "Please create a detailed summary of our conversation, inside <summary> tags."
_RESERVE: Final = 33_000
"""How many tokens before the end of the window the CLI compacts by itself."""
_LAST_RESERVE: Final = 23_000
"""How many before it compacts even a conversation of a single reply."""
_ATTACHED: Final = 2_250
"""Tokens of what the CLI tells the model anew behind a summary: the skills and agents there are."""
_TOO_SHORT: Final = "Not enough messages to compact."


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


async def on_command(session: Session, command: Invocation, prompt: Prompt, tally: Tally) -> None:
    """Carries out /compact."""
    if not session.turns.main.messages:
        session.announce(tally.uuids)
        slash.fail(session, command, prompt, tally, "Error: No messages to compact")
        return
    try:
        done = await compact(session, "manual", command.args)
    except TooShort:
        session.announce(tally.uuids)
        slash.show(session, command, prompt, tally, _TOO_SHORT)
        return
    session.announce(tally.uuids)
    settle(session, done)
    slash.keep_call(session, command, prompt)
    _report(session, done)
    slash.echo(session, command, prompt)
    session.turns.results.write_local(tally, command.typed)


async def by_itself(session: Session, tally: Tally) -> None:
    """Compacts the conversation if the context window is nearly full."""
    main = session.turns.main
    room = facts.model(session.model_name).context_window - main.tokens
    if room > _RESERVE:
        return
    session.outlet.system("status", status="compacting", compact_output_chars=0)
    if len(_spoken(session)) < 2 and room > _LAST_RESERVE:
        _give_up(session, "too_few_groups")
        return
    done = await _sum_up(session, "auto", "")
    main.echo_prompts()
    settle(session, done)
    tally.user_lines += 1


async def after_refusal(session: Session, tally: Tally, *, needed: int) -> bool:
    """Compacts a conversation of so many prompts or more, because the API found it too long."""
    main = session.turns.main
    prompts = len(_prompts(session))
    if prompts < 2:
        return False
    session.outlet.system("status", status="compacting", compact_output_chars=0)
    if prompts < needed or not _spoken(session):
        _give_up(session, "too_few_groups")
        return False
    done = await _sum_up(session, "auto", "")
    main.echo_prompts()
    settle(session, done)
    tally.user_lines += 1
    return True


async def compact(session: Session, trigger: str, instructions: str = "") -> Compacted:
    """Lets the model sum the conversation up; raises `TooShort` when there is none."""
    session.outlet.system("status", status="compacting")
    if not _spoken(session):
        _give_up(session, _TOO_SHORT)
        raise TooShort
    return await _sum_up(session, trigger, instructions)


def _give_up(session: Session, reason: str) -> None:
    session.outlet.system("status", status=None, compact_result="failed", compact_error=reason)


def _spoken(session: Session) -> list[dict[str, Any]]:
    return [each for each in session.turns.main.messages if each["role"] == "assistant"]


def _prompts(session: Session) -> list[dict[str, Any]]:
    said = [each for each in session.turns.main.messages if each["role"] == "user"]
    return [each for each in said if words_of(each["content"])]


async def _sum_up(session: Session, trigger: str, instructions: str) -> Compacted:
    began = time.monotonic()
    notes = await _fire(session, "PreCompact", trigger, custom_instructions=instructions or None)
    summary = await _summarise(session, instructions)
    await _begin_again(session)
    notes += await _fire(session, "PostCompact", trigger, compact_summary=summary)
    session.outlet.system("status", status=None, compact_result="success")
    return Compacted(
        trigger=trigger,
        summary=summary,
        notes=notes,
        before=session.turns.main.tokens,
        after=_ATTACHED + _estimate(_wrapped(session, summary)),
        elapsed_ms=int((time.monotonic() - began) * 1000),
    )


async def _fire(session: Session, event: str, trigger: str, **fields: Any) -> list[str]:
    """Calls the hooks of an event; what the user is told of them."""
    fired = await session.hooks.fire(event, {"trigger": trigger, **fields}, query=trigger)
    return [f"{event} [{heard.source}] completed successfully" for heard in fired.heard]


async def _begin_again(session: Session) -> None:
    """SessionStart, with more than it is told at the start of a process."""
    told = {"prompt_id": session.prompt_id, "source": "compact", "model": session.model_name}
    await session.hooks.fire("SessionStart", told, query="compact")


async def _summarise(session: Session, instructions: str) -> str:
    body = session.turns.main.body()
    request = f"{_REQUEST}\n\n{instructions}".rstrip()
    body["messages"] = [*body["messages"], {"role": "user", "content": request}]
    return await ask_aside(session, body) or ""


# What follows


def settle(session: Session, done: Compacted) -> None:
    """Puts the summary in place of the conversation, and tells the client."""
    main, transcript = session.turns.main, session.transcript
    boundary, anchor = new_id(), new_id()
    kept = _kept(session, done.trigger)
    parent = transcript.main.leaf if kept else new_id()
    main.dropped += max(0, done.before - done.after)
    metadata = _metadata(done, main.dropped, anchor, kept)
    session.outlet.system(
        "compact_boundary", uuid=boundary, compact_metadata=metadata, logical_parent_uuid=parent
    )
    words = _wrapped(session, done.summary)
    _write_summary(session, anchor, words, done.trigger)
    main.messages = [{"role": "user", "content": words}, *_kept_messages(session, kept)]
    main.tokens = done.after
    _keep_boundary(session, boundary, parent, metadata)
    transcript.main_line(
        "user",
        promptId=session.prompt_id,
        uuid=anchor,
        message={"role": "user", "content": words},
        isVisibleInTranscriptOnly=True,
        isCompactSummary=True,
    )
    transcript.main.replied, transcript.main.since = [], []


def _kept(session: Session, trigger: str) -> list[str]:
    """The lines of the newest reply, unless there is nothing else, and those that wait for one."""
    chain = session.transcript.main
    replied = chain.replied if len(_spoken(session)) > 1 else []
    return [*replied, *(chain.since if trigger == "auto" else ())]


def _kept_messages(session: Session, kept: list[str]) -> list[dict[str, Any]]:
    if not kept:
        return []
    messages = session.turns.main.messages
    newest = max(at for at, each in enumerate(messages) if each["role"] == "assistant")
    return messages[newest if len(_spoken(session)) > 1 else newest + 1 :]


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


def _keep_boundary(
    session: Session, boundary: str, parent: str | None, metadata: dict[str, Any]
) -> None:
    session.transcript.main.leaf = None
    session.transcript.main_line(
        "system",
        uuid=boundary,
        logicalParentUuid=parent,
        subtype="compact_boundary",
        content="Conversation compacted",
        isMeta=False,
        level="info",
        compactMetadata=_camel(metadata),
    )


def _write_summary(session: Session, own: str, words: str, trigger: str) -> None:
    is_manual = trigger == "manual"
    session.outlet.send(
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


def _report(session: Session, done: Compacted) -> None:
    """Says that the command is done, as its output."""
    own = new_id()
    notes = "\n".join(done.notes)
    said = f"<local-command-stdout>Compacted {notes}</local-command-stdout>"
    session.outlet.send(
        "user",
        message={"role": "user", "content": said},
        parent_tool_use_id=None,
        uuid=own,
        timestamp=timestamp(),
        isReplay=True,
    )
    session.transcript.main_line(
        "user", promptId=session.prompt_id, uuid=own, message={"role": "user", "content": said}
    )


def _wrapped(session: Session, summary: str) -> str:
    found = re.search(r"<summary>(.*?)</summary>", summary, re.DOTALL)
    told = found[1].strip() if found else summary
    return (
        "This session is being continued from a previous conversation that ran out of context.\n\n"
        f"Summary:\n{told}\n\nThe whole conversation is in {session.transcript.path}."
    )


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
