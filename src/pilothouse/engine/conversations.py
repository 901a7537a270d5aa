"""What a person reads of each session: folded from its entries, and from Claude's transcript.

A fold stays in memory while somebody reads it, and goes on from where it was. What was said before
a session became the engine's stands in its transcript, which is read first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from pilothouse.api.items import ConversationPage, Item
from pilothouse.api.records import SessionStarted, decode_record
from pilothouse.conversation import Conversation
from pilothouse.conversation.transcripts import fold_transcript
from pilothouse.errors import UnknownSession, UsageError
from pilothouse.history import FoundSession
from pilothouse.history.transcript_lines import read_lines

from .adoption import Adoption
from .keyed_locks import KeyedLocks
from .services import Services

__all__ = ["Conversations"]

MOST: Final = 32
"""Folds that stay in memory."""
AT_ONCE: Final = 200
"""Entries that are folded before others have their turn."""


class Conversations:
    """Answers what there is to read of a session."""

    def __init__(self, services: Services, adoption: Adoption) -> None:
        self._services = services
        self._adoption = adoption
        self._folds: OrderedDict[str, Conversation] = OrderedDict()
        self._locks = KeyedLocks()

    async def page(
        self, session_id: str, *, before: str | None, after: str | None, limit: int
    ) -> ConversationPage:
        """Return the newest items, or those before or after one of them."""
        if before is not None and after is not None:
            raise UsageError("before and after exclude each other: give one of them")
        conversation = await self._conversation(session_id)
        return _page(conversation, before, after, limit)

    async def _conversation(self, session_id: str) -> Conversation:
        try:
            session = await self._adoption.known(session_id)
        except UnknownSession:
            found = await self._services.history.find(session_id)
            if found is None:
                raise
            return await self._of_transcript(found)
        async with self._locks.hold(session.session_id):
            return await self._up_to_date(session.session_id)

    async def _up_to_date(self, session_id: str) -> Conversation:
        conversation = self._folds.pop(session_id, None)
        if conversation is None:
            conversation = await self._before(session_id)
        self._folds[session_id] = conversation
        if len(self._folds) > MOST:
            self._folds.popitem(last=False)
        journal = self._services.journal
        last = journal.last
        while conversation.cursor < last:
            batch = await journal.read(conversation.cursor, session_id=session_id, limit=AT_ONCE)
            for gap in batch.gaps:
                conversation.missing(gap)
            conversation.apply_all(batch.events)
            conversation.cursor = batch.cursor
            # A long conversation is folded in portions: others have their turn in between.
            await asyncio.sleep(0)
        return conversation

    async def _before(self, session_id: str) -> Conversation:
        """Return what was said before the session was the engine's."""
        first = await self._services.journal.read(0, session_id=session_id, limit=1)
        record = decode_record(bytes(first.events[0].body)) if first.events else None
        if not isinstance(record, SessionStarted) or record.origin != "adopted":
            return Conversation()
        found = await self._services.history.find(record.claude_session_id or session_id)
        if found is None:
            return Conversation()
        return await self._of_transcript(found, until=first.events[0].at)

    async def _of_transcript(
        self, found: FoundSession, *, until: int | None = None
    ) -> Conversation:
        try:
            return await asyncio.to_thread(_folded, found.path, until)
        except OSError as error:
            conversation = Conversation()
            conversation.add_gap(f"the transcript cannot be read: {error.strerror or error}")
            return conversation


def _folded(path: str, until: int | None) -> Conversation:
    read = read_lines(path)
    conversation = fold_transcript(read.lines, read.agents, until=until)
    if read.left_out:
        conversation.add_gap(f"{read.left_out} bytes before this were not read", is_first=True)
    return conversation


def _page(
    conversation: Conversation, before: str | None, after: str | None, limit: int
) -> ConversationPage:
    items = conversation.items
    first, last = max(len(items) - limit, 0), len(items)
    if before is not None:
        last = _position(items, before)
        first = max(last - limit, 0)
    elif after is not None:
        first = _position(items, after) + 1
        last = min(first + limit, len(items))
    return ConversationPage(
        items=items[first:last],
        cursor=conversation.cursor,
        earlier=first > 0,
        later=last < len(items),
    )


def _position(items: list[Item], item_id: str) -> int:
    for position, item in enumerate(items):
        if item.id == item_id:
            return position
    raise UsageError("no item of this conversation has that id; read it from its end again")
