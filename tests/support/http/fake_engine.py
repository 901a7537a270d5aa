"""An engine in memory that does what the contract says, with no CLI: enough to test a face."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from pilothouse import errors
from pilothouse.api.answers import Answer
from pilothouse.api.events import Batch, Event, Gap
from pilothouse.api.items import (
    ConversationPage,
    ConversationPatches,
    Hit,
    ItemSource,
    Patch,
    TextItem,
)
from pilothouse.api.questions import Answered, Asked, FileChange, Question, Way
from pilothouse.api.requests import Ask, DialIn, Fork, Say, Start
from pilothouse.api.results import (
    Activity,
    ActivityDay,
    AllStopped,
    Cancelled,
    CostLine,
    CostReport,
    DialInOpened,
    DialInWaiting,
    DryRun,
    DryRunLine,
    Health,
    Interrupted,
    ModeSet,
    Paths,
    PolicyReport,
    Rewound,
    Runner,
    RunnerAdded,
    Said,
    Started,
    Stopped,
    Stretch,
    Timeline,
)
from pilothouse.api.statuses import Listed, Listing, Queued, SessionChanges, Status, Tokens
from pilothouse.api.values import JsonObject, State

Runners = list[Runner]
DialInsWaiting = list[DialInWaiting]
NOW = 1_700_000_000_000
SECRET = "only-the-runner-knows"
"""How every token of a runner begins."""


class FakeEngine:
    """Sessions are statuses, the journal is a list, and every verb leaves one event."""

    def __init__(self) -> None:
        self.sessions: dict[str, Status] = {}
        self.archived: set[str] = set()
        self.asked: dict[str, Question] = {}
        self.journal: list[Event] = []
        self.gaps: list[Gap] = []
        self.keys: dict[str, tuple[Start, Started]] = {}
        self.machines: dict[str, Runner] = {}
        self.problem: str | None = None
        self.raises: Exception | None = None
        """What the next verb raises, for errors that need a CLI to come about."""
        self.reads = 0
        self.waiting = 0
        """How many asks wait for an answer."""
        self.left = asyncio.Event()
        """One of them has come to its end."""
        self.lack: str | None = None
        self.closed = False
        self._ids = itertools.count(1)
        self._grown = asyncio.Event()
        self._watched = asyncio.Event()

    # What tests do to it

    def append(self, session_id: str, kind: str = "cli", body: bytes = b'{"type":"x"}') -> int:
        seq = self.cursor + 1
        self.journal.append(Event(seq, session_id, kind, NOW + seq, Raw(body)))
        self._grown.set()
        self._grown = asyncio.Event()
        return seq

    def fail(self, error: Exception) -> None:
        """Let whoever watches learn of an error."""
        self.raises = error
        self._grown.set()

    def pose(self, session_id: str, **more: Any) -> Question:
        """A question of the session's."""
        number = next(self._ids)
        question = Question(
            id=f"q-{number}",
            session_id=session_id,
            kind="tool",
            state="open",
            title="Run a command",
            text="ls -l",
            format="command",
            tool_name="Bash",
            input={"command": "ls -l"},
            ways=[Way(id="yes", label="Yes", answer={"kind": "allow"})],
            opened_at=NOW,
            **more,
        )
        self.asked[question.id] = question
        self.append(session_id, "question.opened", msgspec.json.encode(question))
        return question

    async def watched(self) -> None:
        """Wait until somebody watches."""
        await asyncio.wait_for(self._watched.wait(), 20)

    @property
    def cursor(self) -> int:
        return self.journal[-1].seq if self.journal else 0

    # The contract

    async def start(self, request: Start) -> Started:
        self._maybe_raise()
        if request.key in self.keys:
            before, started = self.keys[request.key]
            if before != request:
                raise errors.KeyReused(
                    "this key was used for another request", advice="take another"
                )
            return replace(started, repeated=True)
        if not request.cwd.startswith("/"):
            raise errors.DirectoryRefused(f"{request.cwd!r} is not there", advice="give another")
        started = self._new(request.cwd, label=request.label)
        if request.key is not None:
            self.keys[request.key] = request, started
        return started

    def _new(self, cwd: str, **more: Any) -> Started:
        session_id = f"session-{next(self._ids)}"
        self.append(session_id, "session.started", b'{"cwd":"/"}')
        self.sessions[session_id] = Status(
            session_id=session_id,
            state="active",
            cwd=cwd,
            live=True,
            started_at=NOW,
            updated_at=NOW,
            cursor=self.cursor,
            **more,
        )
        return Started(session_id=session_id, state="active", prompt_id=f"p-{next(self._ids)}")

    async def say(self, session_id: str, request: Say) -> Said:
        status = self._known(session_id)
        prompt_id = f"p-{next(self._ids)}"
        queued = Queued(prompt_id=prompt_id, text=str(request.content), said_at=NOW, sent=True)
        self._set(session_id, queued=[*status.queued, queued])
        self.append(session_id, "prompt.said", msgspec.json.encode(request))
        return Said(session_id=session_id, prompt_id=prompt_id, state="active", queued=True)

    async def cancel(self, session_id: str, prompt_id: str) -> Cancelled:
        status = self._known(session_id)
        if prompt_id not in [each.prompt_id for each in status.queued]:
            raise errors.UnknownPrompt("no queued message has this id", advice="read the status")
        left = [each for each in status.queued if each.prompt_id != prompt_id]
        self._set(session_id, queued=left)
        return Cancelled(prompt_id=prompt_id, cancelled=True)

    async def answer(self, question_id: str, answer: Answer, *, by: str = "person") -> Answered:
        question = await self.question(question_id)
        if question.state == "open":
            question = replace(question, state="answered", answer=answer, answered_by=by)
            self.asked[question_id] = question
            self.append(question.session_id, "question.closed", msgspec.json.encode(answer))
        elif question.answer != answer:
            raise errors.QuestionSettled(
                "it was answered before", advice="see what was answered", question=question
            )
        session = question.session_id
        return Answered(question=question, state="active", session_id=session)

    async def ask(self, request: Ask) -> Asked:
        """Waits until the question is answered, however long that takes."""
        self._maybe_raise()
        use = request.tool_use_id
        found = [each for each in self.asked.values() if each.tool_use_id == use]
        id = (
            found[0] if found else self.pose(request.session_id, tool_use_id=use, foreign=True)
        ).id
        self.waiting += 1
        try:
            while request.wait_s and self.asked[id].state == "open":
                await self._grown.wait()
        finally:
            self.waiting -= 1
            self.left.set()
        question = self.asked[id]
        response = None if question.state == "open" else {"behavior": "allow"}
        return Asked(question=question, response=response)

    async def withdraw(self, question_id: str, because: str) -> Question:
        question = await self.question(question_id)
        if not question.foreign:
            raise errors.Refused("it is asked by a CLI of the engine's", advice="answer it")
        if question.state == "open":
            question = replace(question, state="withdrawn", closed_because=because)
            self.asked[question_id] = question
        return question

    async def interrupt(self, session_id: str) -> Interrupted:
        self._known(session_id)
        self.append(session_id, "interrupt.asked", b"{}")
        self._set(session_id, state="interrupted")
        return Interrupted(session_id=session_id, state="interrupted", was_running=True)

    async def stop(self, session_id: str) -> Stopped:
        was_live = self._known(session_id).live
        self._set(session_id, live=False, state="done")
        return Stopped(session_id=session_id, state="done", was_live=was_live)

    async def stop_all(self) -> AllStopped:
        self._maybe_raise()
        live = [each.session_id for each in self.sessions.values() if each.live]
        for session_id in live:
            await self.stop(session_id)
        return AllStopped(sessions=live)

    async def archive(self, session_id: str, *, archived: bool = True) -> Listed:
        status = self._known(session_id)
        if archived:
            self.archived.add(session_id)
        else:
            self.archived.discard(session_id)
        return self._listed(status)

    async def fork(self, session_id: str, request: Fork) -> Started:
        return self._new(self._known(session_id).cwd, parent=session_id, label=request.label)

    async def rewind(self, session_id: str, prompt_id: str, *, preview: bool = False) -> Rewound:
        self._known(session_id)
        return Rewound(possible=True, files=[f"/{prompt_id}"], insertions=1, done=not preview)

    async def compact(self, session_id: str, instructions: str | None = None) -> Said:
        return await self.say(session_id, Say(content=f"/compact {instructions or ''}"))

    async def set_mode(self, session_id: str, mode: Any) -> ModeSet:
        self._known(session_id)
        if mode == "bypassPermissions":
            raise errors.BypassNotAllowed("set_mode")
        self._set(session_id, mode=mode)
        return ModeSet(session_id=session_id, mode=mode, how="in_place")

    async def set_model(self, session_id: str, model: str | None) -> Status:
        return self._set(session_id, model=model)

    async def set_thinking(self, session_id: str, tokens: int | None) -> Status:
        return self._set(session_id, reason=f"thinks {tokens}")

    async def mcp_status(self, session_id: str) -> list[JsonObject]:
        self._known(session_id)
        return [{"name": "files", "status": "connected"}]

    async def mcp_reconnect(self, session_id: str, server: str) -> list[JsonObject]:
        self._known(session_id)
        return [{"name": server, "status": "pending"}]

    async def mcp_toggle(self, session_id: str, server: str, *, enabled: bool) -> list[JsonObject]:
        self._known(session_id)
        return [{"name": server, "enabled": enabled}]

    async def mcp_message(self, session_id: str, server: str, *, message: JsonObject) -> JsonObject:
        self._known(session_id)
        return {"name": server, "message": message}

    async def mcp_set(self, session_id: str, servers: dict[str, JsonObject]) -> JsonObject:
        self._known(session_id)
        return {"added": sorted(servers), "removed": []}

    async def conversation(
        self,
        session_id: str,
        *,
        before: str | None = None,
        after: str | None = None,
        limit: int = 50,
        search: str = "",
    ) -> ConversationPage:
        self._known(session_id)
        if search:
            hits = [Hit(id="t", kind="text", text=f"…{search} before {before}", at=3)]
            return ConversationPage(items=[], hits=hits, cursor=7)
        shown = f"{limit} items before {before} or after {after}"
        return ConversationPage(items=[TextItem(id="t", seq=3, text=shown)], cursor=7, earlier=True)

    async def cassette(self, session_id: str) -> AsyncGenerator[bytes]:
        self._known(session_id)
        yield b'{"cassette":1}\n'
        yield b'{"t":0,"d":"out","json":{}}\n'

    async def timeline(self, session_id: str) -> Timeline:
        self._known(session_id)
        return Timeline(spans=[Stretch(doing="tool", start=NOW, end=NOW + 5, name="Bash")], at=NOW)

    async def item_source(self, session_id: str, item: str) -> ItemSource:
        self._known(session_id)
        entries = [each for each in self.journal if each.session_id == session_id]
        return ItemSource(item=TextItem(id=item, seq=3), entries=entries, transcript=[Raw(b"{}")])

    async def follow(
        self, session_id: str, after: int | None = None
    ) -> AsyncGenerator[ConversationPatches]:
        """Each event adds its number to the one text of the conversation."""
        self._known(session_id)
        async for batch in self.watch(after, session_id=session_id):
            words = "".join(f" {each.seq}" for each in batch.events)
            patches = [Patch(id="t", append=words)]
            yield ConversationPatches(cursor=batch.cursor, patches=patches, unfinished=["t"])

    async def wait(
        self,
        session_id: str,
        *,
        seconds: float = 60.0,
        after: int | None = None,
        at_rest: bool = False,
    ) -> Status:
        status = self._known(session_id)
        return replace(status, output=[f"{seconds} {after} {at_rest}"], cursor=self.cursor)

    async def greeting(self, session_id: str) -> JsonObject:
        self._known(session_id)
        return {"account": {}}

    async def context_usage(self, session_id: str) -> JsonObject:
        self._known(session_id)
        return {"totalTokens": 17}

    async def commands(self, session_id: str) -> list[JsonObject]:
        self._known(session_id)
        return [{"name": "compact"}]

    async def models(self, session_id: str) -> list[JsonObject]:
        self._known(session_id)
        return [{"value": "default"}]

    async def control(self, session_id: str, subtype: str, fields: JsonObject) -> JsonObject:
        self._known(session_id)
        if subtype != "get_settings":
            raise errors.ControlRefused(f"{subtype} is not allowed", advice="use the verbs")
        return {"subtype": subtype, **fields}

    async def status(
        self, session_id: str, *, output_lines: int = 0, after: int | None = None
    ) -> Status:
        status = self._known(session_id)
        said = ["line"] * min(output_lines, 3) if after is None else [f"after {after}"]
        return replace(status, output=said, cursor=self.cursor)

    async def list(
        self,
        *,
        cwd: str | None = None,
        limit: int = 50,
        offset: int = 0,
        live: bool = False,
        search: str = "",
        state: State | None = None,
        label: str | None = None,
        machine: str | None = None,
        archived: bool = False,
    ) -> Listing:
        found = [
            self._listed(each)
            for each in self.sessions.values()
            if (cwd is None or each.cwd == cwd)
            and (each.live or not live)
            and state in (None, each.state)
            and label in (None, each.label)
            and machine in (None, each.machine)
            and archived == (each.session_id in self.archived)
            and search in each.session_id
        ]
        return Listing(
            sessions=found[offset : offset + limit], total=len(found), cursor=self.cursor
        )

    def _listed(self, status: Status) -> Listed:
        return Listed(
            session_id=status.session_id,
            cwd=status.cwd,
            title=status.label or "",
            updated_at=status.updated_at,
            state=status.state,
            live=status.live,
            archived=status.session_id in self.archived,
        )

    async def directories(self, path: str) -> Paths:
        self._maybe_raise()
        return Paths(paths=[f"{path}/below"])

    async def files(self, session_id: str, *, query: str = "") -> Paths:
        self._known(session_id)
        return Paths(paths=[f"src/{query}.py"])

    async def follow_sessions(self, after: int | None = None) -> AsyncGenerator[SessionChanges]:
        """Each event changes the row of its session; a gap is a reset."""
        async for batch in self.watch(after):
            names = {each.session_id for each in batch.events}
            yield SessionChanges(
                cursor=batch.cursor,
                changed=[self._listed(self.sessions[name]) for name in sorted(names)],
                questions=[each for each in self.asked.values() if each.session_id in names],
                reset=bool(batch.gaps),
            )

    async def questions(
        self,
        *,
        session_id: str | None = None,
        state: Any = "decidable",
        limit: int = 500,
        before: str | None = None,
    ) -> Sequence[Question]:
        if before is not None:
            await self.question(before)
        asked = [*self.asked.values()]
        earlier = asked[: [*self.asked].index(before)] if before else asked
        return [
            each
            for each in earlier
            if session_id in (None, each.session_id) and state in ("any", "decidable", each.state)
        ][-limit:]

    async def question(self, question_id: str) -> Question:
        if question_id not in self.asked:
            raise errors.UnknownQuestion("no question has this id", advice="list them")
        return self.asked[question_id]

    async def file_change(self, question_id: str) -> FileChange:
        return FileChange(because=f"There is no file of {(await self.question(question_id)).id}.")

    async def read(
        self, after: int = 0, *, session_id: str | None = None, limit: int = 500
    ) -> Batch:
        self.reads += 1
        self._maybe_raise()
        if after > self.cursor:
            reset = Gap(first=self.cursor + 1, last=after, count=0, reason="reset")
            return Batch(events=[], cursor=self.cursor, gaps=[reset])
        later = (each for each in self.journal if each.seq > after)
        events = [each for each in later if session_id in (None, each.session_id)][:limit]
        cursor = events[-1].seq if len(events) == limit else self.cursor
        gaps = [gap for gap in self.gaps if after < gap.last <= cursor]
        return Batch(events=events, cursor=cursor, gaps=gaps)

    async def watch(
        self, after: int | None = None, *, session_id: str | None = None
    ) -> AsyncGenerator[Batch]:
        cursor = self.cursor if after is None else after
        self._watched.set()
        while not self.closed:
            grown = self._grown
            batch = await self.read(cursor, session_id=session_id)
            cursor = batch.cursor
            if batch.events or batch.gaps:
                yield batch
            else:
                await grown.wait()

    async def policy(self) -> PolicyReport:
        return PolicyReport(path="/policy.toml", rules=2, loaded_at=NOW, text="# none")

    async def save_policy(self, text: str, *, replaces: str | None = None) -> PolicyReport:
        self._maybe_raise()
        return PolicyReport(path="/policy.toml", rules=2, loaded_at=NOW, text=text)

    async def policy_dry_run(self, text: str) -> DryRun:
        if "[" in text and "]" not in text:
            raise errors.PolicyError("line 1: a bracket is open")
        line = DryRunLine(
            question_id="q-1",
            session_id="session-1",
            tool_name="Bash",
            title="Run a command",
            before="ask",
            after="deny",
        )
        return DryRun(examined=1, differ=[line])

    async def cost(
        self,
        by: Any = "session",
        *,
        session_id: str | None = None,
        since: int | None = None,
        limit: int = 1000,
        before: str | None = None,
    ) -> CostReport:
        line = CostLine(group=session_id or by, usd=0.5, turns=1, tokens=Tokens(input=since or 1))
        lines = [] if before else [line]
        return CostReport(by=by, lines=lines, total_usd=0.5, today_usd=0.25, older=limit)

    async def activity(self, *, since: int = 0) -> Activity:
        return Activity(days=[ActivityDay(day="2026-01-31", turns=since)])

    async def dial_in(self, request: DialIn) -> DialInOpened:
        self._maybe_raise()
        return DialInOpened(
            session_id="by-hand",
            url="ws://localhost/ws/by-hand",
            token=f"{SECRET}-{request.cwd}",
            command=f"cd {request.cwd} && claude",
            expires_at=NOW + request.expires_s,
        )

    async def dial_ins(self) -> DialInsWaiting:
        self._maybe_raise()
        return [DialInWaiting(session_id="by-hand", cwd="/", expires_at=NOW, label="by hand")]

    async def runners(self) -> Runners:
        self._maybe_raise()
        return [*self.machines.values()]

    async def add_runner(self, name: str) -> RunnerAdded:
        self._maybe_raise()
        if not name.isalnum() or name in self.machines:
            raise errors.UsageError(f"{name!r} is no name for a new runner")
        self.machines[name] = Runner(name=name, state="away", since=NOW)
        return RunnerAdded(name=name, token=f"{SECRET}-{name}")

    async def drain_runner(self, name: str, *, draining: bool = True) -> Runner:
        state = "draining" if draining else "connected"
        self.machines[name] = replace(self._machine(name), state=state)
        return self.machines[name]

    async def revoke_runner(self, name: str) -> Runner:
        runner = self._machine(name)
        del self.machines[name]
        return runner

    def _machine(self, name: str) -> Runner:
        self._maybe_raise()
        if name not in self.machines:
            raise errors.UnknownRunner(f"there is no runner {name}", advice="there are none yet")
        return self.machines[name]

    async def settings(self) -> JsonObject:
        return {"max_sessions": {"value": 10, "from": "default"}}

    async def health(self) -> Health:
        return Health(
            ok=self.problem is None,
            version="1",
            live=sum(each.live for each in self.sessions.values()),
            sessions=len(self.sessions),
            questions=sum(each.state == "open" for each in self.asked.values()),
            cursor=self.cursor,
            simulated=True,
            started_at=NOW,
            problem=self.problem,
            lack=self.lack,
            states=Counter(each.state for each in self.sessions.values()),
        )

    async def aclose(self) -> None:
        self.closed = True
        self._grown.set()

    def _known(self, session_id: str) -> Status:
        self._maybe_raise()
        if session_id not in self.sessions:
            raise errors.UnknownSession(f"no session has the id {session_id}", advice="list them")
        return self.sessions[session_id]

    def _set(self, session_id: str, **members: Any) -> Status:
        self.sessions[session_id] = replace(self._known(session_id), **members)
        return self.sessions[session_id]

    def _maybe_raise(self) -> None:
        error, self.raises = self.raises, None
        if error is not None:
            raise error
