"""A session's conversation as Markdown: its items, read from the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, assert_never

import msgspec

from pilothouse.api.answers import Answer
from pilothouse.api.engine import Engine
from pilothouse.api.items import (
    CompactionItem,
    ConversationPage,
    FilesItem,
    GapItem,
    HookItem,
    Item,
    LimitItem,
    NoticeItem,
    PromptItem,
    QuestionItem,
    RetryItem,
    SignInItem,
    TextItem,
    ThinkingItem,
    ToolItem,
    TurnItem,
)
from pilothouse.api.questions import Question
from pilothouse.api.tool_views import ImageView

from .engine_handle import EngineHandle

__all__ = ["LIMIT", "Transcript", "markdown", "read_back"]

LIMIT: Final = 256 * 1024
"""About how many bytes of a conversation are told at once."""
LONGEST_WORDS: Final = 16_000
LONGEST_INPUT: Final = 1_000
LONGEST_RESULT: Final = 2_000
LONGEST_PIECE: Final = 48_000
PAGE: Final = 50
"""Items that are asked for at once: each may have several long texts."""
SPEAKERS: Final = {"engine": "Pilothouse", "cli": "Claude Code"}
STATES: Final = {"streaming": "_(still writing)_", "aborted": "_(broken off)_"}

Happened = RetryItem | LimitItem | SignInItem | FilesItem | GapItem
"""What is one line."""
Beside = CompactionItem | NoticeItem | HookItem | Happened


class Transcript(NamedTuple):
    """The newest part of a conversation that fits."""

    text: str
    before: str | None = None
    """The item before which the rest ends; None: there is no rest."""


async def read_back(
    handle: EngineHandle, session_id: str, before: str | None = None, *, limit: int = LIMIT
) -> Transcript:
    """Return the last of what there is to read, or the last before an item."""
    found: list[Item] = []
    room = limit
    while True:
        page = await _page(handle, session_id, before)
        # Beside the loop: an item may be many times as long as what is told of it.
        fitting, room = await asyncio.to_thread(_fitting, page.items, room, is_any=not found)
        found[:0] = fitting
        is_full = len(fitting) < len(page.items)
        if is_full or not page.earlier:
            text = await asyncio.to_thread(markdown, found)
            return Transcript(text, found[0].id if is_full else None)
        before = page.items[0].id


async def _page(handle: EngineHandle, session_id: str, before: str | None) -> ConversationPage:
    async def ask(engine: Engine) -> ConversationPage:
        return await engine.conversation(session_id, before=before, limit=PAGE)

    return await handle.ask(ask)


def _fitting(items: Sequence[Item], room: int, *, is_any: bool) -> tuple[list[Item], int]:
    """Return the last of the items that fit, one at least if `is_any`, and the room left."""
    fitting: list[Item] = []
    for item in reversed(items):
        room -= sum(map(_size, (*_said(item), *_ended(item))))
        if room < 0 and (fitting or not is_any):
            break
        fitting.append(item)
    return fitting[::-1], room


# All of it


class _Piece(NamedTuple):
    speaker: str
    """Who says it; empty for a note on what happened."""
    text: str


def _size(piece: _Piece) -> int:
    """How many bytes it takes, at most: who speaks, the text, and what is between them."""
    return len(piece.speaker.encode()) + len(piece.text.encode()) + 8


def markdown(items: Sequence[Item]) -> str:
    """Return items as one text. Who speaks is said where it changes."""
    parts: list[str] = []
    speaker = ""
    for piece in _in_order(items):
        if piece.speaker and piece.speaker != speaker:
            parts.append(f"## {piece.speaker}")
        speaker = piece.speaker or speaker
        parts.append(piece.text)
    return "\n\n".join(parts)


def _in_order(items: Sequence[Item]) -> Iterator[_Piece]:
    """What each item adds. The result of a call comes behind what was asked and done for it."""
    last: dict[str, str] = {}
    for item in items:
        last[item.id] = item.id
        cause = item.question.tool_use_id if isinstance(item, QuestionItem) else item.agent
        if cause is not None and cause in last:
            last[cause] = item.id
    ending: dict[str, list[Item]] = {}
    for item in reversed(items):
        end = item.id
        while last[end] != end:
            # A call of a subagent may be the last thing that its own call waits for.
            end = last[end]
        ending.setdefault(end, []).append(item)
    for item in items:
        yield from _said(item)
        for each in ending.get(item.id, ()):
            yield from _ended(each)


# One item


def _said(item: Item) -> Iterator[_Piece]:
    """What an item tells where it begins."""
    yield from _pieces(_speaker(item), _begun(item))


def _ended(item: Item) -> Iterator[_Piece]:
    """What it tells at its end."""
    if isinstance(item, ToolItem):
        yield from _pieces(_speaker(item), _result(item))


def _pieces(speaker: str, parts: Iterator[str]) -> Iterator[_Piece]:
    text = "\n\n".join(part for part in parts if part)
    if text:
        yield _Piece(speaker, _clean(_short(text, LONGEST_PIECE)))


def _speaker(item: Item) -> str:
    match item:
        case PromptItem():
            when = [_minute(item.at)] if item.at else []
            # By its id files are taken back to before it, and a fork leaves it out.
            return ", ".join([SPEAKERS.get(item.by, "Person"), *when, f"message {item.id}"])
        case TextItem() | ToolItem():
            return "Claude" if item.agent is None else "Claude (subagent)"
        case _:
            return ""


def _begun(item: Item) -> Iterator[str]:
    match item:
        case PromptItem():
            yield from _prompt(item)
        case TextItem():
            yield from _text(item)
        case ToolItem():
            yield from _call(item)
        case QuestionItem():
            yield from _question(item.question)
        case TurnItem():
            yield from _turn(item)
        case ThinkingItem():
            # Not said to anybody, and mostly long.
            pass
        case _:
            yield from _beside(item)


def _beside(item: Beside) -> Iterator[str]:
    """What happened beside the words."""
    match item:
        case CompactionItem():
            yield from _compaction(item)
        case NoticeItem():
            yield from _notice(item)
        case HookItem():
            yield from _hook(item)
        case RetryItem() | LimitItem() | SignInItem() | FilesItem() | GapItem():
            yield from _note(_happened(item))
        case _:
            assert_never(item)


def _prompt(item: PromptItem) -> Iterator[str]:
    yield _short(item.text.strip(), LONGEST_WORDS, item.cut)
    if item.images:
        yield "(image)" if item.images == 1 else f"({item.images} images)"
    if item.state == "withdrawn":
        yield from _note(f"It was taken back. {item.because or ''}".strip())
    elif item.state != "taken":
        yield from _note("No turn has taken it yet.")


def _text(item: TextItem) -> Iterator[str]:
    if item.state == "retracted":
        yield from _note(f"A text of {len(item.text)} characters was taken back.")
    else:
        yield _short(item.text.strip(), LONGEST_WORDS)
        yield STATES.get(item.state, "")


def _call(item: ToolItem) -> Iterator[str]:
    if item.state == "writing":
        yield f"**{_line_of(item.tool)}** _({item.written} characters of its input so far)_"
    else:
        given = json.dumps(item.input, ensure_ascii=False)
        yield f"**{_line_of(item.tool)}** {_code(given)}"


def _result(item: ToolItem) -> Iterator[str]:
    image = "(image)" if isinstance(item.view, ImageView) else ""
    words = "\n".join(filter(None, ((item.result or "").strip(), image)))
    text = _short(words, LONGEST_RESULT, item.cut)
    match item.state:
        case "done":
            yield f"Result:\n{_fenced(text)}" if text else "Result: nothing."
        case "failed":
            yield f"Error:\n{_fenced(text)}" if text else "Error: nothing."
        case "denied":
            yield f"Denied:\n{_fenced(text or item.reason or 'no reason was given')}"
        case "interrupted" | "retracted":
            yield from _note(f"{item.tool}: {item.state}.")
        case "running" if item.elapsed_s:
            yield from _note(f"{item.tool} has been running for {item.elapsed_s:.0f} s.")
        case _:
            pass
    if item.task is not None and item.task.tool_uses:
        run = item.task
        used = f"{run.tool_uses} tools, {run.tokens} tokens"
        yield from _note(f"The subagent {run.type or run.id}: {run.state}, {used}.")


def _question(question: Question) -> Iterator[str]:
    yield f"**Asked:** {_line_of(question.title)}"
    text = _short(question.text.strip("\n"), LONGEST_RESULT)
    if text:
        yield _fenced(text)
    for posed in question.posed:
        labels = ", ".join(each.label for each in posed.options)
        yield f"- {_line_of(posed.question)} ({_line_of(labels)})"
    if question.answer is not None:
        yield _answered(question, question.answer)
    elif question.state != "open":
        because = _line_of(question.closed_because)
        yield f"**Not answered:** {question.state}. {because}".rstrip()


def _answered(question: Question, answer: Answer) -> str:
    members: dict[str, Any] = msgspec.to_builtins(answer)
    kind = members.pop("kind")
    given = {name: each for name, each in members.items() if each not in (None, False, "", [], {})}
    more = f" {_code(json.dumps(given, ensure_ascii=False))}" if given else ""
    rule = f" (rule {_line_of(question.rule)})" if question.answered_by == "policy" else ""
    return f"**Answered** by {_line_of(question.answered_by or 'person')}{rule}: {kind}{more}"


def _turn(item: TurnItem) -> Iterator[str]:
    yield from _note(f"The turn ended: {item.outcome}.")
    if item.error:
        yield _fenced(_short(item.error, LONGEST_RESULT))
    if item.structured_output is not None:
        yield f"Structured output: {_code(json.dumps(item.structured_output, ensure_ascii=False))}"


def _compaction(item: CompactionItem) -> Iterator[str]:
    match item.state:
        case "running":
            yield from _note("The conversation is being summarised.")
        case "failed":
            yield from _note(f"The conversation could not be summarised: {item.error or ''}")
        case "done":
            sizes = (item.tokens_before, item.tokens_after)
            tokens = " to ".join(str(each) for each in sizes if each is not None)
            made = f" ({tokens} tokens)" if tokens else ""
            yield from _note(f"The conversation before this was summarised{made}.")
            if item.summary:
                yield _fenced(_short(item.summary, LONGEST_RESULT, item.cut))


def _notice(item: NoticeItem) -> Iterator[str]:
    if item.level == "unknown" or item.tag == "noise":
        return
    if item.level == "output":
        yield _fenced(_short(item.text, LONGEST_RESULT, item.cut))
    else:
        yield from _note(_short(item.text, LONGEST_INPUT, item.cut))


def _hook(item: HookItem) -> Iterator[str]:
    code = "" if item.exit_code is None else f", exit code {item.exit_code}"
    yield from _note(f"The hook {item.name} ({item.event}): {item.outcome or item.state}{code}.")
    if item.output.strip():
        yield _fenced(_short(item.output.strip(), LONGEST_RESULT, item.cut))


def _happened(item: Happened) -> str:
    match item:
        case RetryItem():
            tried = f"attempt {item.attempt} of {item.max_retries}"
            return f"The API could not answer ({item.error or item.status}); {tried}."
        case LimitItem():
            resets = f"; it resets at {_minute(item.resets_at)}" if item.resets_at else ""
            limit = item.limit or "of the account"
            return "" if item.status == "allowed" else f"Rate limit {limit}: {item.status}{resets}."
        case SignInItem():
            return f"Signing in: {item.error or item.state}."
        case FilesItem():
            failed = [f"{name} ({why})" for name, why in item.failed.items()]
            return _listed("Stored", item.files) + _listed("Could not be stored", failed)
        case GapItem():
            count = f"{item.count} entries: " if item.count else ""
            return f"Something is missing here. {count}{item.reason}."


def _listed(what: str, names: Sequence[str]) -> str:
    return f"{what}: {', '.join(names)}. " if names else ""


# Text


def _note(text: str) -> Iterator[str]:
    if text.strip():
        yield f"_{_line_of(text)}_"


def _short(text: str, longest: int, cut: int = 0) -> str:
    """The beginning of a text, with the count of what is left out, `cut` of it before."""
    over = max(len(text) - longest, 0) + cut
    return f"{text[:longest]} ... ({over} more characters)" if over else text


def _line_of(value: Any) -> str:
    return " ".join(_short(str(value or ""), LONGEST_INPUT).split())


def _code(text: str) -> str:
    shown = _short(text, LONGEST_INPUT)
    fence = "`" if "`" not in shown else _ticks(shown, 2)
    return f"{fence}{shown}{fence}"


def _fenced(text: str) -> str:
    fence = _ticks(text, 3)
    return f"{fence}\n{text}\n{fence}"


def _ticks(text: str, least: int) -> str:
    """More of them in a row than the text has."""
    count = least
    while "`" * count in text:
        count += 1
    return "`" * count


def _clean(text: str) -> str:
    """The text as UTF-8 can have it."""
    return text.encode("utf-8", "replace").decode()


def _minute(at: int) -> str:
    try:
        return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return "an unknown time"
