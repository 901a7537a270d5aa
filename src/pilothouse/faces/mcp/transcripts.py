"""A session's conversation as Markdown, from its events, read from the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, cast

import msgspec

from pilothouse.api.engine import Engine
from pilothouse.api.events import Batch, Event

from .engine_handle import EngineHandle
from .texts import list_of, members_of

__all__ = ["LIMIT", "Piece", "Transcript", "joined", "piece_of", "read_back"]

LIMIT: Final = 256 * 1024
"""About how many bytes of a conversation are told at once."""
LONGEST_WORDS: Final = 16_000
LONGEST_INPUT: Final = 1_000
LONGEST_RESULT: Final = 2_000
LONGEST_PIECE: Final = 48_000
PAGE: Final = 500
NARROWEST: Final = 2_000
WIDEST: Final = 32_000
"""How many entries of the journal are looked through in one step."""

NOTES: Final = {
    "session.started": ("A session in {}.", "cwd"),
    "session.linked": ("Session {} goes on with the plan.", "successor"),
    "session.stopped": ("Somebody ended the CLI.", ""),
    "cli.started": ("A CLI took the conversation up again.", ""),
    "cli.ended": ("The CLI ended: {}.", "reason"),
    "options.changed": ("Mode: {}.", "mode"),
    "prompt.withdrawn": ("A message was taken back.", ""),
    "interrupt.asked": ("Somebody interrupted.", ""),
    "lines.lost": ("Lines were lost: {}.", "because"),
    "turn.ended": ("The turn ended: {}.", "outcome"),
}
"""Records that become one line, and the member that is told in it."""

Json = dict[str, Any]


class Piece(NamedTuple):
    """What one event adds to the text."""

    seq: int
    speaker: str
    """Who says it; empty for a note on what happened."""
    text: str


class Transcript(NamedTuple):
    """The newest part of a conversation that fits."""

    text: str
    before: int | None = None
    """Where the part before it ends; None: there is none."""


async def read_back(
    handle: EngineHandle, session_id: str, cursor: int, *, limit: int = LIMIT
) -> Transcript:
    """The last of what stands in the journal up to a cursor."""
    pieces: list[Piece] = []
    room, end, width = limit, cursor, NARROWEST
    while end > 0:
        start = max(0, end - width)
        found, is_first = await _between(handle, session_id, start, end)
        for piece in reversed(found):
            room -= len(piece.text.encode()) + 32
            if room < 0 and pieces:
                return Transcript(joined(pieces[::-1]), pieces[-1].seq)
            pieces.append(piece)
        if is_first:
            break
        end, width = start, min(2 * width, WIDEST)
    return Transcript(joined(pieces[::-1]))


async def _between(
    handle: EngineHandle, session_id: str, start: int, end: int
) -> tuple[list[Piece], bool]:
    """What the session's entries after `start`, up to `end`, add; whether it begins among them."""

    async def page(engine: Engine) -> Batch:
        return await engine.read(start, session_id=session_id, limit=PAGE)

    pieces: list[Piece] = []
    is_first = False
    while start < end:
        batch = await handle.ask(page)
        events = [event for event in batch.events if event.seq <= end]
        # Page by page: the entries may be many times as long as what is told of them.
        pieces += await asyncio.to_thread(_pieces, events)
        is_first |= any(event.kind == "session.started" for event in events)
        if batch.cursor <= start:
            break
        start = batch.cursor
    return pieces, is_first


def _pieces(events: Sequence[Event]) -> list[Piece]:
    return [piece for piece in map(piece_of, events) if piece is not None]


def joined(pieces: Sequence[Piece]) -> str:
    """One text. Who speaks is said where it changes."""
    parts: list[str] = []
    speaker = ""
    for piece in pieces:
        if piece.speaker and piece.speaker != speaker:
            parts.append(f"## {piece.speaker}")
        speaker = piece.speaker or speaker
        parts.append(piece.text)
    return "\n\n".join(parts)


# One event


def piece_of(event: Event) -> Piece | None:
    """What a reader of the conversation wants to see of an event, if anything."""
    if event.kind in ("partial", "noise"):
        return None
    body = _decoded(event.body)
    if not isinstance(body, dict):
        return None
    speaker, parts = _told(event, cast("Json", body))
    text = "\n\n".join(part for part in parts if part)
    return Piece(event.seq, speaker, _clean(_short(text, LONGEST_PIECE))) if text else None


def _decoded(body: Any) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        pass
    try:
        # Half of a surrogate pair, written as an escape, is no error to this one.
        return json.loads(bytes(body))
    except ValueError:
        return None


def _clean(text: str) -> str:
    """The text as UTF-8 can have it."""
    return text.encode("utf-8", "replace").decode()


def _told(event: Event, body: Json) -> tuple[str, list[str]]:
    if event.kind == "cli":
        return _line(body)
    if event.kind == "prompt.said":
        by = "Pilothouse" if body.get("by") == "engine" else "Person"
        return f"{by}, {_minute(event.at)}", [_words(body.get("content"))]
    return "", [*_note(event.kind, body)]


def _line(line: Json) -> tuple[str, list[str]]:
    """A line of the CLI's: what the model says and does, and what its tools give back."""
    blocks = _blocks(members_of(line.get("message")).get("content"))
    agent = " (subagent)" if line.get("parent_tool_use_id") else ""
    match line.get("type"):
        case "assistant":
            return f"Claude{agent}", [_block(each) for each in blocks]
        case "user":
            results = [each for each in blocks if each.get("type") == "tool_result"]
            return f"Claude{agent}" if results else "", [_result(each) for each in results]
        case _:
            return "", []


def _block(block: Json) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return _short(text.strip(), LONGEST_WORDS)
        case {"type": "tool_use" | "server_tool_use" | "mcp_tool_use", "name": str(name)}:
            return f"**{name}** {_code(json.dumps(block.get('input'), ensure_ascii=False))}"
        case _:
            return ""


def _result(block: Json) -> str:
    what = "Error" if block.get("is_error") else "Result"
    text = _short(_words(block.get("content")), LONGEST_RESULT)
    return f"{what}:\n{_fenced(text)}" if text else f"{what}: nothing."


def _note(kind: str, body: Json) -> Iterator[str]:
    """A record of the engine's."""
    match kind:
        case "question.opened":
            yield from _question(members_of(body.get("question")))
        case "question.closed" | "question.decided":
            yield _closed(body)
        case "cli.started" if not body.get("resumed"):
            pass
        case "cli.ended" if body.get("orderly"):
            pass
        case "options.changed" if not body.get("mode"):
            pass
        case _ if kind in NOTES:
            note, member = NOTES[kind]
            yield f"_{note.format(_line_of(body.get(member)) or 'nobody knows')}_"
        case _:
            pass


def _question(question: Json) -> Iterator[str]:
    yield f"**Asked:** {_line_of(question.get('title'))}"
    text = _short(str(question.get("text") or "").strip("\n"), LONGEST_RESULT)
    if text:
        yield _fenced(text)
    for posed in _blocks(question.get("posed")):
        labels = [str(each.get("label")) for each in _blocks(posed.get("options"))]
        yield f"- {_line_of(posed.get('question'))} ({', '.join(labels)})"


def _closed(body: Json) -> str:
    answer = dict(members_of(body.get("answer")))
    if not answer:
        return f"**Not answered:** {body.get('state')}. {_line_of(body.get('because'))}".rstrip()
    kind = answer.pop("kind", "")
    given = {name: value for name, value in answer.items() if value not in (None, False, "", {})}
    more = f" {_code(json.dumps(given, ensure_ascii=False))}" if given else ""
    return f"**Answered** by {body.get('by') or 'person'}: {kind}{more}"


# Text


def _words(content: Any) -> str:
    """A text, or the text of content blocks; what is no text is named."""
    if isinstance(content, str):
        return _short(content.strip(), LONGEST_WORDS)
    texts = (each.get("text") or f"({each.get('type')})" for each in _blocks(content))
    return _short("\n".join(map(str, texts)).strip(), LONGEST_WORDS)


def _blocks(value: Any) -> list[Json]:
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return [cast("Json", each) for each in list_of(value) if isinstance(each, dict)]


def _short(text: str, longest: int) -> str:
    over = len(text) - longest
    return text if over <= 0 else f"{text[:longest]} ... ({over} more characters)"


def _line_of(value: Any) -> str:
    return " ".join(_short(str(value or ""), LONGEST_INPUT).split())


def _code(text: str) -> str:
    return _ticked(_short(text, LONGEST_INPUT), "`")


def _fenced(text: str) -> str:
    fence = _ticks(text, 3)
    return f"{fence}\n{text}\n{fence}"


def _ticked(text: str, tick: str) -> str:
    fence = tick if tick not in text else _ticks(text, 2)
    return f"{fence}{text}{fence}"


def _ticks(text: str, least: int) -> str:
    """More of them in a row than the text has."""
    count = least
    while "`" * count in text:
        count += 1
    return "`" * count


def _minute(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
