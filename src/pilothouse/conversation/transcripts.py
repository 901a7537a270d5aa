"""Claude's own transcript of a session, read into the same items.

A transcript is a tree: each line names the one before it, and a conversation that was rewound has
more than one branch. The newest line tells which counts. Tools that ran side by side are branches
too: the blocks of one reply count together, and results count with their calls.

Subagents of newer CLIs have files of their own; older ones write between the lines of the session.
Both say an `agentId`, and the result of the call that started the agent says it too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from pilothouse.protocol import Message, NotAMessage, decode
from pilothouse.protocol.wire import encode_json, parse

from .bounds import members, milliseconds, text_of
from .fold import Conversation

__all__ = ["fold_transcript"]

Json = dict[str, Any]

SPOKEN: Final = frozenset({"user", "assistant", "system", "attachment"})
"""The types of lines that belong to the tree."""
_ASSISTANT: Final = {
    "error": "error",
    "apiErrorStatus": "api_error_status",
    "isAbortedMidStream": "aborted",
    "thinkingDurationMs": "thinking_duration_ms",
}
_COMPACT: Final = {
    "trigger": "trigger",
    "preTokens": "pre_tokens",
    "postTokens": "post_tokens",
    "durationMs": "duration_ms",
}
_NOTIFICATION: Final = re.compile(
    r"\s*<task-notification>.*?<task-id>(?P<task>[^<]*)</task-id>"
    r"(?:.*?<tool-use-id>(?P<call>[^<]*)</tool-use-id>)?"
    r"(?:.*?<status>(?P<status>[^<]*)</status>)?",
    re.DOTALL,
)
"""What a task that has ended says to the model, as if a person had said it."""


class _Line:
    """One line of the tree."""

    __slots__ = ("agent", "number", "parent", "told", "uuid")

    def __init__(self, number: int, told: Json) -> None:
        self.number = number
        self.told = told
        self.uuid = text_of(told.get("uuid"))
        self.parent = text_of(told.get("parentUuid")) or text_of(told.get("logicalParentUuid"))
        self.agent = text_of(told.get("agentId"))


def fold_transcript(
    lines: Iterable[bytes],
    agents: Mapping[str, Iterable[bytes]] | None = None,
    *,
    until: int | None = None,
) -> Conversation:
    """The conversation in a transcript; `agents` are the files of its subagents by their ids.

    `until`: only what was written before that moment, in milliseconds since the epoch.
    """
    tree = list(_read(lines))
    inside = [line for line in tree if line.told.get("isSidechain") is True]
    spoken = _chosen([line for line in tree if line.told.get("isSidechain") is not True])
    work: dict[str, list[_Line]] = {}
    for line in inside:
        work.setdefault(line.agent, []).append(line)
    for agent, own in (agents or {}).items():
        work.setdefault(agent, []).extend(_read(own))
    conversation = Conversation()
    for line, call in _in_order(spoken, work):
        _apply(conversation, line, call, until)
    conversation.cursor = 0
    return conversation


def _read(lines: Iterable[bytes]) -> Iterator[_Line]:
    for number, line in enumerate(lines, 1):
        told = members(parse(line))
        if told.get("type") in SPOKEN and told.get("uuid"):
            yield _Line(number, told)


def _chosen(tree: list[_Line]) -> list[_Line]:
    """The lines of the branch that the newest line ends."""
    known = {line.uuid: line for line in tree}
    before = _before(tree)
    kept: set[str] = set()
    at = tree[-1] if tree else None
    while at is not None and at.uuid not in kept:
        kept.add(at.uuid)
        at = known.get(before[at.uuid])
    replies = {_reply(known[uuid]) for uuid in kept} - {""}
    kept |= {line.uuid for line in tree if _reply(line) in replies}
    chosen = [line for line in tree if line.uuid in kept or _is_result_of(line, kept)]
    return list(_once(chosen))


def _before(tree: list[_Line]) -> dict[str, str]:
    """The line before each line.

    A compaction may keep the last messages as they are. What follows then names the last of these,
    and the summary is aside: it belongs between them.
    """
    before: dict[str, str] = {}
    summaries: dict[str, str] = {}
    for line in tree:
        before[line.uuid] = summaries.get(line.parent, line.parent)
        compacted = members(line.told.get("compactMetadata"))
        preserved = members(compacted.get("preservedSegment"))
        if last := text_of(preserved.get("tailUuid")):
            summaries[last] = text_of(preserved.get("anchorUuid"))
    return before


def _once(lines: list[_Line]) -> Iterator[_Line]:
    """Leave out what a compaction has written once more: the same block of the same reply."""
    seen: set[tuple[str, bytes]] = set()
    for line in lines:
        reply = _reply(line)
        block = (reply, encode_json(_content(line.told)))
        if not reply or block not in seen:
            yield line
        seen.add(block)


def _reply(line: _Line) -> str:
    """The reply of the model's that a line has a block of."""
    is_reply = line.told["type"] == "assistant"
    return text_of(members(line.told.get("message")).get("id")) if is_reply else ""


def _is_result_of(line: _Line, kept: set[str]) -> bool:
    return line.parent in kept and any(
        members(block).get("type") == "tool_result" for block in _content(line.told)
    )


def _content(told: Json) -> list[Any]:
    content = members(told.get("message")).get("content")
    return cast("list[Any]", content) if isinstance(content, list) else []


def _in_order(
    spoken: list[_Line], work: dict[str, list[_Line]]
) -> Iterator[tuple[_Line, str | None]]:
    """The lines with the calls whose subagents wrote them: a subagent's behind its call's."""
    calls = {agent: call for line in spoken for agent, call in _started(line)}
    waiting = {calls[agent]: lines for agent, lines in work.items() if agent in calls}
    for line in spoken:
        yield line, None
        for block in map(members, _content(line.told)):
            if block.get("type") == "tool_use":
                call = text_of(block.get("id"))
                yield from ((each, call) for each in waiting.get(call, ()))


def _started(line: _Line) -> Iterator[tuple[str, str]]:
    """The subagents that a line has the results of, with their calls."""
    agent = text_of(members(line.told.get("toolUseResult")).get("agentId"))
    for block in map(members, _content(line.told)):
        if agent and block.get("type") == "tool_result":
            yield agent, text_of(block.get("tool_use_id"))


# One line


def _apply(conversation: Conversation, line: _Line, call: str | None, until: int | None) -> None:
    message = _message(line, call)
    at = milliseconds(text_of(line.told.get("timestamp")))
    if message is not None and (until is None or at < until):
        # A line of a subagent's has no number in the session's file.
        conversation.apply(-line.number if call is None else 0, "cli", at, b"", message)


def _message(line: _Line, call: str | None) -> Message | None:
    """The line as the CLI would have written it to a client; None: nobody would have seen it."""
    told = _wire(line, call)
    if told is None:
        return None
    try:
        return decode(encode_json(told))
    except NotAMessage:
        return None


def _wire(line: _Line, call: str | None) -> Json | None:
    told = line.told
    wire: Json = {"type": told["type"], "uuid": line.uuid, "parent_tool_use_id": call}
    match told["type"]:
        case "assistant":
            wire |= {ours: told[name] for name, ours in _ASSISTANT.items() if name in told}
            return wire | {"message": told.get("message")}
        case "user":
            return _user(told, wire)
        case "system":
            return _system(told, wire)
        case _:
            return _queued(told, wire)


def _user(told: Json, wire: Json) -> Json | None:
    if told.get("isMeta") is True:
        return None
    ended = _NOTIFICATION.match(text_of(members(told.get("message")).get("content")))
    if ended is not None:
        given = {"task_id": ended["task"], "tool_use_id": ended["call"], "status": ended["status"]}
        return {"type": "system", "subtype": "task_notification", "uuid": wire["uuid"], **given}
    if "toolUseResult" in told:
        wire["tool_use_result"] = told["toolUseResult"]
    return wire | {"message": told.get("message")}


def _system(told: Json, wire: Json) -> Json | None:
    match told.get("subtype"):
        case "compact_boundary":
            given = members(told.get("compactMetadata"))
            data = {ours: given[name] for name, ours in _COMPACT.items() if name in given}
            return wire | {"subtype": "compact_boundary", "compact_metadata": data}
        case "local_command":
            return wire | {"subtype": "local_command_output", "content": told.get("content")}
        case "informational":
            level = told.get("level")
            return wire | {
                "subtype": "informational",
                "content": told.get("content"),
                "level": level,
            }
        case _:
            return None


def _queued(told: Json, wire: Json) -> Json | None:
    """A message that joined a running turn."""
    attached = members(told.get("attachment"))
    if attached.get("type") != "queued_command" or attached.get("commandMode") != "prompt":
        return None
    message = {"role": "user", "content": attached.get("prompt")}
    own = text_of(attached.get("source_uuid")) or wire["uuid"]
    return wire | {"type": "user", "uuid": own, "message": message}
