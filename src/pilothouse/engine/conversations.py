"""What a person reads of each session: folded from its entries, and from Claude's transcript.

A fold stays in memory while somebody reads it, and goes on from where it was. What was said before
a session became the engine's stands in its transcript, which is read first.

Who follows a conversation gets its newest patches, joined if it was slow. Whoever comes with a
cursor that these do not reach back to gets whole items instead.
"""

from __future__ import annotations

import asyncio
import copy
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import contextmanager
from functools import reduce
from itertools import islice
from typing import Final, NamedTuple

from msgspec import Raw

from pilothouse.api.events import Batch, Event
from pilothouse.api.items import (
    ConversationPage,
    ConversationPatches,
    Hit,
    Item,
    ItemSource,
    Patch,
    ToolItem,
)
from pilothouse.api.records import SessionStarted, decode_record
from pilothouse.api.redaction import tellable
from pilothouse.api.results import Timeline
from pilothouse.conversation import Conversation, join_patches
from pilothouse.conversation.search import find_words
from pilothouse.conversation.timeline import timeline_of
from pilothouse.conversation.transcripts import fold_transcript
from pilothouse.errors import UnknownSession, UsageError
from pilothouse.history import FoundSession
from pilothouse.history.transcript_lines import read_lines

from .adoption import Adoption
from .keyed_locks import KeyedLocks
from .services import Services

__all__ = ["Conversations"]

MOST: Final = 32
"""Folds that stay in memory, besides those that are followed."""
AT_ONCE: Final = 200
"""Entries that are folded before others have their turn."""
SEARCHED: Final = 50
"""Items that are searched before others have their turn."""
RECENT: Final = 1000
"""Patches that are kept for those who follow."""
IN_ONE: Final = 200
"""Whole items that go out together."""


class Conversations:
    """Answers what there is to read of a session."""

    def __init__(self, services: Services, adoption: Adoption) -> None:
        self._services = services
        self._adoption = adoption
        self._feeds: OrderedDict[str, _Feed] = OrderedDict()
        self._locks = KeyedLocks()

    async def page(
        self, session_id: str, *, before: str | None, after: str | None, limit: int
    ) -> ConversationPage:
        """Return the newest items, or those before or after one of them."""
        if before is not None and after is not None:
            raise UsageError("before and after exclude each other: give one of them")
        conversation = (await self._feed(session_id)).conversation
        try:
            return _page(conversation, before, after, limit)
        except KeyError:
            raise _no_such_item() from None

    async def timeline(self, session_id: str) -> Timeline:
        """Return what all of the session's time went into."""
        items = (await self._feed(session_id)).conversation.items
        # Of a long session that is much to add up.
        return await asyncio.to_thread(timeline_of, items, self._services.recorder.clock())

    async def search(
        self, session_id: str, words: str, *, before: str | None, after: str | None, limit: int
    ) -> ConversationPage:
        """Return where words stand, in the items before one or in all, the newest first."""
        if after is not None:
            raise UsageError("a search goes back: give before, and not after")
        conversation = (await self._feed(session_id)).conversation
        cursor = conversation.cursor
        try:
            items = conversation.before(before)
        except KeyError:
            raise _no_such_item() from None
        hits: list[Hit] = []
        for count, item in enumerate(items, 1):
            hit = find_words(item, words.casefold())
            if hit is not None:
                hits.append(hit)
                if len(hits) > limit:
                    break
            if not count % SEARCHED:
                await asyncio.sleep(0)
        return ConversationPage(
            items=[], hits=hits[:limit], cursor=cursor, earlier=len(hits) > limit
        )

    async def follow(
        self, session_id: str, after: int | None
    ) -> AsyncGenerator[ConversationPatches]:
        """Yield what changes after a cursor (None: from now on), without an end."""
        journal = self._services.journal
        cursor = journal.last if after is None else after
        if cursor > journal.last:
            raise UsageError(
                "this cursor is of another journal: read the conversation again, "
                "and follow it from the cursor of that page"
            )
        while True:
            feed = await self._feed(session_id)
            with feed.followed():
                while True:
                    # While the reader takes it, another one may take the conversation further.
                    reached = max(cursor, feed.conversation.cursor)
                    for changes in feed.since(cursor):
                        yield changes
                    cursor = reached
                    await journal.wait(cursor, session_id=feed.session_id)
                    if not feed.is_stored:
                        break  # somebody has taken up what stood on disk alone
                    await self._take_in_news(feed)

    async def source(self, session_id: str, item: str) -> ItemSource:
        """Return the lines that an item was made of."""
        feed = await self._feed(session_id)
        found = feed.conversation.get(item)
        if found is None:
            raise _no_such_item()
        numbers = [found.seq]
        if isinstance(found, ToolItem) and found.result_seq is not None:
            numbers.append(found.result_seq)
        entries = [each for seq in numbers if seq > 0 for each in await self._entry(feed, seq)]
        behind = [-seq for seq in numbers if seq < 0]
        lines = await self._transcript_lines(session_id, behind) if behind else []
        return ItemSource(item=copy.copy(found), entries=entries, transcript=lines)

    async def _entry(self, feed: _Feed, seq: int) -> list[Event]:
        journal = self._services.journal
        batch = tellable(await journal.read(seq - 1, session_id=feed.session_id, limit=1))
        return [event for event in batch.events if event.seq == seq]

    async def _transcript_lines(self, session_id: str, numbers: list[int]) -> list[Raw]:
        found = await self._services.history.find(session_id)
        if found is None:
            return []
        try:
            read = await asyncio.to_thread(read_lines, found.path)
        except OSError:
            return []
        # Of a file whose beginning was not read, nobody knows the numbers a moment later.
        lines = [] if read.left_out else read.lines
        return [Raw(lines[number - 1]) for number in numbers if number <= len(lines)]

    # Folds

    async def _feed(self, session_id: str) -> _Feed:
        """Return a session's conversation as it is now."""
        try:
            session = await self._adoption.known(session_id)
        except UnknownSession:
            found = await self._services.history.find(session_id)
            if found is None:
                raise
            return _Feed(session_id, await self._of_transcript(found), is_stored=False)
        session_id = session.session_id
        async with self._locks.hold(session_id):
            feed = self._feeds.pop(session_id, None)
            if feed is None:
                feed = _Feed(session_id, await self._before(session_id), is_stored=True)
            self._feeds[session_id] = feed
            self._let_go()
            await self._catch_up(feed)
        return feed

    async def _take_in_news(self, feed: _Feed) -> None:
        async with self._locks.hold(feed.session_id):
            await self._catch_up(feed)

    async def _catch_up(self, feed: _Feed) -> None:
        journal = self._services.journal
        last = journal.last
        while feed.conversation.cursor < last:
            cursor = feed.conversation.cursor
            feed.take(await journal.read(cursor, session_id=feed.session_id, limit=AT_ONCE))
            # A long conversation is folded in portions: others have their turn in between.
            await asyncio.sleep(0)

    def _let_go(self) -> None:
        unread = [name for name, feed in self._feeds.items() if not feed.followers]
        for name in unread[: max(len(unread) - MOST, 0)]:
            del self._feeds[name]

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


class _Step(NamedTuple):
    """What some entries changed."""

    before: int
    cursor: int
    patches: list[Patch]


class _Feed:
    """A session's conversation, and its newest patches for those who follow it."""

    def __init__(self, session_id: str, conversation: Conversation, *, is_stored: bool) -> None:
        self.session_id = session_id
        self.conversation = conversation
        self.is_stored = is_stored
        """Whether the session is the engine's; else it is Claude's transcript alone."""
        self.followers = 0
        self._steps: deque[_Step] = deque()
        self._kept = 0
        self._from = 0
        """From which cursor on the steps have every change."""
        conversation.settle()

    @contextmanager
    def followed(self) -> Generator[None]:
        """Keep patches as long as somebody wants them."""
        if not self.followers:
            self._from = self.conversation.cursor
        self.followers += 1
        try:
            yield
        finally:
            self.followers -= 1
            if not self.followers:
                self._steps.clear()
                self._kept = 0

    def take(self, batch: Batch) -> None:
        """Take in the entries behind the cursor."""
        conversation = self.conversation
        before = conversation.cursor
        for gap in batch.gaps:
            conversation.missing(gap)
        conversation.apply_all(batch.events)
        conversation.cursor = batch.cursor
        if not self.followers:
            conversation.settle()
        elif patches := conversation.patches():
            self._keep(_Step(before, batch.cursor, patches))

    def _keep(self, step: _Step) -> None:
        self._steps.append(step)
        self._kept += len(step.patches)
        while self._kept > RECENT:
            gone = self._steps.popleft()
            self._kept -= len(gone.patches)
            self._from = gone.cursor

    def since(self, cursor: int) -> Iterator[ConversationPatches]:
        """What changed after a cursor: as it was changed, or else as it is now."""
        if cursor >= self.conversation.cursor:
            return
        steps = [step for step in self._steps if step.cursor > cursor]
        if cursor < self._from or (steps and steps[0].before < cursor):
            yield from self._as_it_is(cursor)
        elif steps:
            empty: list[Patch] = []
            patches = reduce(join_patches, (step.patches for step in steps), empty)
            yield ConversationPatches(cursor=self.conversation.cursor, patches=patches)

    def _as_it_is(self, cursor: int) -> Iterator[ConversationPatches]:
        patches = self.conversation.changed_since(cursor)
        unfinished = self.conversation.unfinished()
        end = self.conversation.cursor
        # Whoever leaves before the last comes back with the cursor that it came with.
        for first in range(0, max(len(patches), 1), IN_ONE):
            yield ConversationPatches(
                cursor=end if first + IN_ONE >= len(patches) else cursor,
                patches=patches[first : first + IN_ONE],
                unfinished=unfinished if first == 0 else None,
            )


def _folded(path: str, until: int | None) -> Conversation:
    read = read_lines(path)
    conversation = fold_transcript(read.lines, read.agents, until=until)
    if read.left_out:
        conversation.add_gap(f"{read.left_out} bytes before this were not read", is_first=True)
    return conversation


def _page(
    conversation: Conversation, before: str | None, after: str | None, limit: int
) -> ConversationPage:
    # One more than was asked for shows whether there are more.
    if after is not None:
        found = list(islice(conversation.after(after), limit + 1))
        items, earlier, later = found[:limit], True, len(found) > limit
    else:
        found = list(islice(conversation.before(before), limit + 1))
        items, earlier, later = found[limit - 1 :: -1], len(found) > limit, before is not None
    # The fold changes its items later on, a page is as it was.
    shown: list[Item] = [copy.copy(item) for item in items]
    return ConversationPage(items=shown, cursor=conversation.cursor, earlier=earlier, later=later)


def _no_such_item() -> UsageError:
    return UsageError("no item of this conversation has that id; read it from its end again")
