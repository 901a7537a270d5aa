"""What is done to a session besides talking to it: settings, compaction, files, messages, its end.

Each returns the members that its result has beside those of every other.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET, Raw, Struct, json

from pilothouse.api.engine import Engine
from pilothouse.api.items import Item, PromptItem, TextItem, ToolItem
from pilothouse.api.results import Rewound
from pilothouse.errors import UsageError

from .calls import ControlCall
from .engine_handle import EngineHandle

__all__ = ["last_before", "perform"]

JsonObject = dict[str, Any]
FILES_SHOWN: Final = 50
DEFAULT: Final = "default"
"""The model that stands for the CLI's own choice."""


async def perform(handle: EngineHandle, call: ControlCall) -> JsonObject:
    """Do what the call says."""
    match call.action:
        case "set":
            return await _set(handle, call)
        case "compact":
            return await _compact(handle, call)
        case "rewind":
            return await _rewind(handle, call)
        case "cancel":
            return await _cancel(handle, call)
        case "stop":
            done = await handle.ask(lambda engine: engine.stop(call.session_id))
            was = "Its CLI was ended" if done.was_live else "It had no CLI"
            return {"note": f"{was}; a message starts one again"}


async def _set(handle: EngineHandle, call: ControlCall) -> JsonObject:
    session_id, done = call.session_id, list[str]()
    mode, model, tokens = call.permission_mode, call.model, call.thinking_tokens
    if mode is UNSET and model is UNSET and tokens is UNSET:
        raise UsageError("set takes model, thinkingTokens or permissionMode; give one at least")
    if mode is not UNSET:
        changed = await handle.ask(lambda engine: engine.set_mode(session_id, mode))
        done.append(f"permissionMode {changed.mode} ({HOW[changed.how]})")
    if model is not UNSET:
        named = None if model == DEFAULT else model
        await handle.ask(lambda engine: engine.set_model(session_id, named))
        done.append(f"model {model}")
    if tokens is not UNSET:
        await handle.ask(lambda engine: engine.set_thinking(session_id, tokens))
        done.append(f"thinkingTokens {tokens}")
    return {"note": f"Set: {', '.join(done)}"}


HOW: Final = {
    "in_place": "at once",
    "restarted": "its CLI was started again for it",
    "at_next_start": "from the next message on",
}


async def _compact(handle: EngineHandle, call: ControlCall) -> JsonObject:
    words = None if call.instructions is UNSET else call.instructions
    # Not asked twice, as other verbs are that a lost engine may or may not have taken.
    await handle.ask(lambda engine: engine.health())
    said = await (await handle.engine()).compact(call.session_id, words)
    when = "after what it does now" if said.queued else "now"
    told = {"messageId": said.prompt_id, "note": f"The conversation is summarised {when}"}
    return {**told, **({"resumed": True} if said.resumed else {})}


async def _rewind(handle: EngineHandle, call: ControlCall) -> JsonObject:
    message_id = _message(call)
    done = await handle.ask(
        lambda engine: engine.rewind(call.session_id, message_id, preview=call.preview)
    )
    told: JsonObject = {
        "possible": done.possible,
        "done": done.done,
        "files": done.files[:FILES_SHOWN],
        "filesLeftOut": max(len(done.files) - FILES_SHOWN, 0) or None,
        "insertions": done.insertions,
        "deletions": done.deletions,
        "reason": done.reason,
    }
    told = {name: value for name, value in told.items() if value is not None}
    return {"rewind": told, "note": _rewound(done)}


def _rewound(done: Rewound) -> str:
    if not done.possible or (done.reason and not done.done):
        return f"The files cannot be taken back: {done.reason or 'the CLI does not say why'}"
    shown = [*done.files[:FILES_SHOWN], *(["..."] if len(done.files) > FILES_SHOWN else [])]
    count = "1 file" if len(done.files) == 1 else f"{len(done.files)} files"
    files = f"{count} (+{done.insertions or 0} -{done.deletions or 0} lines)"
    named = f"{files}: {', '.join(shown)}" if shown else "no file"
    if done.done:
        return f"Taken back to before that message: {named}. The conversation is as it was"
    return f"Nothing was changed. Without preview it would take back {named}"


async def _cancel(handle: EngineHandle, call: ControlCall) -> JsonObject:
    message_id = _message(call)
    done = await handle.ask(lambda engine: engine.cancel(call.session_id, message_id))
    note = "The message was taken back" if done.cancelled else "A turn has the message already"
    return {"cancelled": done.cancelled, "note": note}


def _message(call: ControlCall) -> str:
    if call.message_id is UNSET:
        known = "claude_say returned it, and the transcript has all of them"
        raise UsageError(f"{call.action} needs messageId: {known}")
    return call.message_id


# Forks


class _Line(Struct, frozen=True):
    """What is needed of a CLI's line."""

    uuid: str = ""


_read = json.Decoder(_Line).decode


async def last_before(handle: EngineHandle, session_id: str, message_id: str) -> str:
    """Return the uuid of the last message before a prompt: a fork before the prompt keeps it."""
    page = await handle.ask(lambda engine: engine.conversation(session_id, before=message_id))
    for item in reversed(page.items):
        if item.agent is None and (entry := _entry(item)) is not None:
            found = await _uuid(handle, session_id, entry)
            if isinstance(item, PromptItem):
                found = item.id
            if found:
                return found
    raise UsageError(
        "nothing that is known here was said before that message; claude_start begins anew"
    )


def _entry(item: Item) -> int | None:
    """The entry with the last line of an item that the model was told or has said."""
    match item:
        case ToolItem():
            return item.result_seq
        case TextItem() if item.state == "done":
            return item.seq
        case PromptItem() if item.state == "taken":
            return item.seq
        case _:
            return None


async def _uuid(handle: EngineHandle, session_id: str, entry: int) -> str:
    async def read(engine: Engine) -> Raw | None:
        batch = await engine.read(max(entry - 1, 0), session_id=session_id, limit=1)
        return batch.events[0].body if batch.events and batch.events[0].seq == entry else None

    body = await handle.ask(read)
    return "" if body is None else _read(body).uuid
