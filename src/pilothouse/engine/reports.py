"""The verbs that only read: status, lists, events, policy, cost, health."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress
from typing import Final, TypeVar

from msgspec.structs import replace

from pilothouse import __version__
from pilothouse.api.events import Batch, Event
from pilothouse.api.redaction import tellable
from pilothouse.api.results import (
    Activity,
    ActivityDay,
    CostGroup,
    CostReport,
    DryRun,
    Health,
    PolicyReport,
)
from pilothouse.api.statuses import Listing, Status, ToolRun
from pilothouse.api.values import JsonObject
from pilothouse.api.waits import PASSING, Wanted
from pilothouse.errors import JournalError, UnknownSession, UsageError
from pilothouse.history import FoundSession
from pilothouse.journal.contract import SessionFilter

from .adoption import Adoption
from .cassette import cassette_of
from .output import EndedTools, lines_of
from .policy import dry_run
from .recorder import day_of
from .services import Services
from .session_list import SessionList
from .sessions import Sessions

__all__ = ["Reports"]

T = TypeVar("T")
Tools = list[ToolRun]

PAGE: Final = 1000
"""Entries that are read at once."""
MOST_PAGES: Final = 4
"""How many of them are looked through for the tools that have ended."""
MOST_TOOLS: Final = 200
"""The most tools of a status."""
MOST_DIFFERENCES: Final = 1000
"""The most lines of a dry run that are returned."""


class Reports:
    """Answers the reading verbs."""

    def __init__(self, services: Services, sessions: Sessions, adoption: Adoption) -> None:
        self._services = services
        self._sessions = sessions
        self._adoption = adoption
        self._list = SessionList(services, sessions)
        self._started_at = services.recorder.clock()

    async def status(
        self, session_id: str, *, output_lines: int = 0, after: int | None = None
    ) -> Status:
        """Everything about one session at this moment.

        With a cursor its output and the tools that ended are those after it.
        """
        try:
            session = await self._adoption.known(session_id)
        except UnknownSession:
            found = await self._services.history.find(session_id)
            if found is None:
                raise
            return self._of_transcript(found)
        told = await self._once_kept(session.status())
        if not output_lines and after is None:
            return told
        limit = self._services.settings.event_buffer_size
        # No entry that came meanwhile: whoever goes on from this cursor must not miss it.
        batch = await self._services.journal.read_back(
            told.cursor + 1, session_id=told.session_id, limit=limit
        )
        events = await self._with_pieces(batch.events, told)
        if after is None:
            tools = await self._all_ended(told, batch.events)
            return replace(told, output=lines_of(events, output_lines), recent_tools=tools)
        lines = lines_of(events, output_lines + 1, after)
        is_cut = len(lines) > output_lines or await self._begins_before(batch, told, after)
        return replace(
            told,
            output=lines[-output_lines:] if output_lines else [],
            output_cut=bool(output_lines) and is_cut,
            recent_tools=await self._ended(told, batch.events, after),
        )

    def _of_transcript(self, found: FoundSession) -> Status:
        """What there is to know about a session that no engine of ours has touched."""
        return Status(
            session_id=found.session_id,
            state="done",
            cwd=found.cwd or "",
            live=False,
            started_at=found.created_at,
            updated_at=found.updated_at,
            cursor=self._services.journal.last,
            claude_session_id=found.session_id,
            title=found.title or None,
            cli_version=found.version,
            simulated=self._services.simulated,
            source="transcript",
        )

    async def _with_pieces(self, events: Sequence[Event], told: Status) -> Sequence[Event]:
        """Add the pieces of what is being written to the newest entries."""
        if told.state != "active":
            return events
        limit = self._services.settings.event_buffer_size
        newest = await self._services.journal.read_back(
            told.cursor + 1, session_id=told.session_id, limit=limit, partials=True
        )
        every = {each.seq: each for each in (*events, *newest.events)}
        return [every[seq] for seq in sorted(every)]

    async def _begins_before(self, batch: Batch, told: Status, after: int) -> bool:
        """Whether there are older entries after the cursor than those of the batch."""
        if not batch.events or batch.events[0].seq <= after + 1:
            return False
        first = batch.events[0].seq
        older = await self._services.journal.read_back(first, session_id=told.session_id, limit=1)
        return bool(older.events) and older.events[0].seq > after

    async def _all_ended(self, told: Status, events: Sequence[Event]) -> Tools:
        """Return all tools that have ended so far; of many, the newest."""
        ended = await self._ended(told, events, 0)
        for _ in range(MOST_PAGES - 1):
            if len(ended) >= min(told.tools_ended, MOST_TOOLS):
                break
            older = await self._services.journal.read_back(
                events[0].seq, session_id=told.session_id, limit=PAGE
            )
            if not older.events:
                break
            events = [*older.events, *events]
            ended = await self._ended(told, events, 0)
        return ended[-MOST_TOOLS:]

    async def _ended(self, told: Status, events: Sequence[Event], after: int) -> Tools:
        """Return the tools that ended after the cursor, as far as the newest entries show."""
        ended = EndedTools()
        ended.follow(events, {run.id for run in told.running_tools})
        known = {run.id: run for run in told.recent_tools}
        wanted = [name for name in ended.unnamed(after) if name not in known]
        if wanted:
            words = [name.encode() for name in wanted]
            lines = await self._services.journal.lines_with(0, words, session_id=told.session_id)
            ended.name(lines, wanted)
        return ended.told(after, known)

    async def wait(
        self, session_id: str, *, seconds: float, after: int | None, at_rest: bool
    ) -> Status:
        """Return a session's status once there is what is waited for, or the time is over."""
        wanted = Wanted(after, at_rest=at_rest)
        told = await self.status(session_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._until(wanted, told)
        return await self.status(session_id)

    async def _until(self, wanted: Wanted, told: Status) -> None:
        cursor = told.cursor if wanted.after is None else wanted.after
        while not wanted.is_it(told):
            batch = await self._services.journal.read(cursor, session_id=told.session_id)
            cursor = batch.cursor
            if wanted.has_it(batch):
                return
            if any(event.kind not in PASSING for event in batch.events):
                told = await self.status(told.session_id)
            elif not batch.events:
                await self._services.journal.wait(cursor, session_id=told.session_id)

    async def list(self, which: SessionFilter, *, limit: int, offset: int, live: bool) -> Listing:
        """The sessions that are meant, ours and those on disk, the most recent first."""
        self._services.recorder.check()
        page = self._list.live if live else self._list.page
        return await page(which, limit=limit, offset=offset)

    async def read(
        self, after: int = 0, *, session_id: str | None = None, limit: int = 500
    ) -> Batch:
        """A page of events after a cursor."""
        limit = min(limit, self._services.settings.event_buffer_size)
        return tellable(
            await self._services.journal.read(after, session_id=session_id, limit=limit)
        )

    async def watch(
        self, after: int | None = None, *, session_id: str | None = None
    ) -> AsyncGenerator[Batch]:
        """Events from a cursor on (None: from now on), as they are committed, without an end."""
        cursor = self._services.journal.last if after is None else after
        while True:
            batch = await self._services.journal.read(cursor, session_id=session_id, limit=PAGE)
            cursor = batch.cursor
            if batch.events or batch.gaps:
                yield tellable(batch)
            else:
                await self._services.journal.wait(cursor, session_id=session_id)

    async def cassette(self, session_id: str) -> AsyncGenerator[bytes]:
        """Yield the lines of a cassette of the session, a page at a time."""
        try:
            session = await self._adoption.known(session_id)
        except UnknownSession:
            if await self._services.history.find(session_id) is None:
                raise
            raise UsageError(
                "this session's CLI never spoke to Pilothouse, so there is no wire to write down: "
                "export it as Markdown or JSON"
            ) from None
        async with aclosing(cassette_of(self._services.journal, session.session_id)) as pieces:
            async for piece in pieces:
                yield piece

    async def policy(self) -> PolicyReport:
        """The rules in force, and what is wrong with the file if anything is."""
        await asyncio.to_thread(self._services.policy.refresh)
        return self._services.policy.report()

    async def policy_dry_run(self, text: str) -> DryRun:
        """What would have been decided otherwise under these rules."""
        self._services.recorder.check()
        in_force = self._services.policy
        changed = await asyncio.to_thread(in_force.parse, text)
        asked = await self._services.journal.questions()
        ran = await asyncio.to_thread(dry_run, asked, in_force.policy, changed)
        told = ran.differ[-MOST_DIFFERENCES:]
        return replace(ran, differ=told, older=len(ran.differ) - len(told))

    async def save_policy(self, text: str, *, replaces: str | None) -> PolicyReport:
        """Write other rules to the policy's file."""
        await asyncio.to_thread(self._services.policy.save, text, replaces)
        return self._services.policy.report()

    async def cost(
        self,
        by: CostGroup = "session",
        *,
        session_id: str | None = None,
        since: int | None = None,
        limit: int = 1000,
        before: str | None = None,
    ) -> CostReport:
        """What was spent: the last lines, or the last before a group's. The sum is of all."""
        self._services.recorder.check()
        lines = await self._services.journal.sums.costs(by, session_id=session_id, since=since)
        groups = [line.group for line in lines]
        end = len(lines) if before is None else groups.index(before) if before in groups else 0
        start = max(0, end - limit)
        return CostReport(
            by=by,
            lines=lines[start:end],
            total_usd=sum(line.usd for line in lines),
            today_usd=self._services.spending.today_usd,
            day_cap_usd=self._services.settings.day_cap_usd,
            older=start,
        )

    async def activity(self, since: int) -> Activity:
        """What happened since a moment, with the sessions that were started in terminals."""
        self._services.recorder.check()
        told = await self._services.journal.sums.activity(since, self._services.recorder.clock())
        others = await self._list.transcripts()
        started = await asyncio.to_thread(_started, others, since)
        by_day = {each.day: each for each in told.days}
        for day, count in started.items():
            ours = by_day.get(day, ActivityDay(day=day))
            by_day[day] = replace(ours, sessions=ours.sessions + count)
        return replace(told, days=[by_day[day] for day in sorted(by_day)])

    async def settings(self) -> JsonObject:
        """Every setting with its value and where it came from."""
        return {
            name: {"value": value, "source": source}
            for name, value, source in self._services.settings.describe()
        }

    async def health(self) -> Health:
        """Whether it can do its work."""
        views = {name: each.view for name, each in self._sessions.all.items()}
        states = Counter(view.state for view in views.values())
        # What rests cannot be counted where the journal cannot be read.
        with suppress(JournalError):
            states.update((await self._services.journal.resting(besides=views)).states)
        failed = self._services.journal.failed
        await asyncio.to_thread(self._services.policy.refresh)
        return Health(
            ok=failed is None,
            version=__version__,
            live=sum(each.has_cli for each in self._sessions.all.values()),
            sessions=states.total(),
            questions=sum(len(view.open_questions) for view in views.values()),
            cursor=self._services.journal.last,
            simulated=self._services.simulated,
            started_at=self._started_at,
            problem=None if failed is None else str(failed),
            policy_error=self._services.policy.error,
            lack=self._services.lack,
            states=dict(states),
        )

    async def _once_kept(self, told: T) -> T:
        """Return it when it is committed: nobody may see a question that a crash undoes."""
        await self._services.recorder.kept()
        return told


def _started(found: Iterable[FoundSession], since: int) -> Counter[str]:
    return Counter(day_of(each.created_at) for each in found if each.created_at >= max(since, 1))
