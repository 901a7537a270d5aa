"""The six tools as verbs on the engine."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol

from msgspec import UNSET, Meta, Struct, field

from pilothouse.api import requests
from pilothouse.api.questions import Question
from pilothouse.api.requests import SessionOptions
from pilothouse.api.statuses import Status
from pilothouse.errors import (
    AnswerRefused,
    PilothouseError,
    Refused,
    UnknownQuestion,
    UnknownSession,
    UsageError,
)

from . import problems, results
from .calls import Call, InterruptCall, ListCall, RespondCall, SayCall, StartCall, StatusCall, read
from .engine_handle import EngineHandle
from .questions import answer_of, pending, valid_answers
from .session_wait import wait
from .texts import members_of
from .tools import LINES, MOST_LINES, MOST_SESSIONS, WAIT_S

__all__ = ["Act", "Answers", "CallContext", "Outcome", "ToolHandlers"]

JsonObject = dict[str, Any]
Told = dict[str, str | bool]
Answers = Literal["anyone", "person"]
"""Who may approve over MCP."""

APPROVING: Final = frozenset({"acceptEdits", "auto", "bypassPermissions"})
"""Modes in which things run that a person would be asked about otherwise."""
IN_A_FORM: Final = (
    "a person answers in the form that the client shows, or in another face of Pilothouse; "
    "claude_status with waitSeconds tells when that is done"
)
DONE: Final = {
    "claude_start": "Session {} was started, do not start it again. But then: ",
    "claude_say": "Session {} was told, do not say it again. But then: ",
    "claude_respond": "Session {} has the answer. But then: ",
}
"""What is told of a call that has failed after it was done."""
INTERRUPTING_S: Final = 5.0
"""How long the end of an interrupted turn is waited for."""


class CallContext(Protocol):
    """What one call offers."""

    @property
    def name(self) -> str:
        """The client's name, or nothing."""
        ...

    @property
    def shows_forms(self) -> bool:
        """Whether a person is shown what the session asks, beside whoever calls."""
        ...

    @property
    def default_cwd(self) -> str | None:
        """Where sessions work that were given no directory."""
        ...

    async def progress(self, done: float, total: float | None, message: str) -> None:
        """Tell the caller how it goes."""
        ...


class Act(Struct, frozen=True, kw_only=True):
    """What was done, and what is left to tell of it."""

    tool: str
    session_id: str
    cursor: int | None = None
    """What is told is what has happened since; None: the latest."""
    told: Told = field(default_factory=dict[str, "str | bool"])
    """Members of the result that the status does not have."""
    wait_s: Annotated[float, Meta(ge=0, le=WAIT_S)] = 0
    output_lines: Annotated[int, Meta(ge=0, le=MOST_LINES)] = LINES
    after: Annotated[int, Meta(ge=0)] | None = None
    """What has happened since then has not to be waited for."""


class Outcome(Struct, frozen=True, kw_only=True):
    """What a call comes to."""

    structured: JsonObject
    text: str
    is_error: bool = False
    session_id: str | None = None
    questions: list[Question] = field(default_factory=list[Question])
    """Those of the session that take an answer."""


class ToolHandlers:
    """Does what the tools say."""

    def __init__(self, handle: EngineHandle, *, answers: Answers) -> None:
        self._handle = handle
        self.answers: Final = answers
        """What this process was told; the engine may be stricter."""

    async def who_answers(self) -> Answers:
        """Who may approve: a person alone, if this process's setting says so or the engine's."""
        if self.answers == "person":
            return "person"
        told = (await self._handle.ask(lambda engine: engine.settings())).get("mcp_answers")
        return "person" if members_of(told).get("value") == "person" else "anyone"

    async def _check(self, advice: str) -> None:
        """Refuse what approves something, where only a person may."""
        if await self.who_answers() == "person":
            raise Refused(problems.PERSON_ONLY, advice=advice)

    async def begin(
        self, name: str, arguments: Mapping[str, Any], caller: CallContext
    ) -> Act | Outcome:
        """Do it, once."""
        try:
            return await self._begin(read(name, arguments), caller)
        except PilothouseError as error:
            return _failed(error)

    async def finish(self, act: Act, caller: CallContext) -> Outcome:
        """Wait as long as the caller wants to, and tell what has become of it."""
        try:
            return await self._finish(act, caller)
        except PilothouseError as error:
            return _failed(error, done=DONE.get(act.tool, "").format(act.session_id))

    async def _begin(self, call: Call, caller: CallContext) -> Act | Outcome:
        match call:
            case StartCall():
                return await self._start(call, caller)
            case SayCall(fork=True):
                return await self._fork(call)
            case SayCall():
                return await self._say(call)
            case StatusCall():
                return await self._asked(call)
            case RespondCall():
                return await self._respond(call, caller)
            case InterruptCall():
                return await self._interrupt(call, caller)
            case ListCall():
                return await self._list(call, caller)
            case _:
                raise UsageError(f"there is no tool for {type(call).__name__}")

    async def _finish(self, act: Act, caller: CallContext) -> Outcome:
        try:
            return await self._waited(act, caller)
        except UnknownSession as error:
            return await self._on_disk(act.session_id, error)

    async def _waited(self, act: Act, caller: CallContext) -> Outcome:
        if act.wait_s > 0:
            await wait(self._handle, act.session_id, act.wait_s, caller.progress, after=act.after)
        if act.tool == "claude_status" or act.wait_s > 0:
            status = await self._status(act.session_id, act.output_lines, act.cursor)
            told = results.full(status, act.told, answered_by=await self._by(status, caller))
        else:
            status = await self._status(act.session_id)
            told = results.brief(status, act.told, answered_by=await self._by(status, caller))
        return _outcome(told, status)

    async def _by(self, status: Status, caller: CallContext) -> results.By:
        if status.questions and await self.who_answers() == "person":
            return "person"
        return "form" if caller.shows_forms else "anyone"

    async def _status(self, session_id: str, lines: int = 0, after: int | None = None) -> Status:
        return await self._handle.ask(
            lambda engine: engine.status(session_id, output_lines=lines, after=after)
        )

    async def _on_disk(self, session_id: str, error: UnknownSession) -> Outcome:
        """A session that no engine has touched: its transcript is there, nothing runs."""
        found = await self._handle.ask(lambda engine: engine.list(limit=MOST_SESSIONS))
        listed = next((each for each in found.sessions if each.session_id == session_id), None)
        if listed is None:
            raise error
        told = results.untouched(listed)
        return Outcome(structured=told, text=results.text(told), session_id=session_id)

    # Starting and talking

    async def _start(self, call: StartCall, caller: CallContext) -> Act:
        options = _options(call)
        await self._check_mode(options.mode)
        if call.allowed_tools:
            await self._check("leave allowedTools out")
        cursor = await self._ready()
        request = requests.Start(
            prompt=call.prompt,
            cwd=_directory(call.working_directory, caller, required=True),
            options=options,
            key=_key(),
        )
        started = await self._handle.ask(lambda engine: engine.start(request))
        return _act("claude_start", started.session_id, cursor, call.wait_seconds)

    async def _ready(self) -> int:
        """The journal's cursor, once it is clear that there is a CLI to run sessions on."""
        health = await self._handle.ask(lambda engine: engine.health())
        if health.lack is not None:
            raise Refused(problems.lacking(health.lack))
        return health.cursor

    async def _check_mode(self, mode: str | None) -> None:
        if mode in APPROVING:
            await self._check(f"leave the mode {mode} out; a person can choose it")

    async def _check_leaving(self, session_id: str, mode: str | None) -> None:
        """To leave plan mode while a plan waits is to approve it."""
        if mode in (None, "plan"):
            return
        try:
            status = await self._status(session_id)
        except UnknownSession:
            return
        if any(each.kind == "plan" for each in status.questions):
            await self._check(
                "a plan waits for a person's decision: leave permissionMode out, or give plan"
            )

    async def _say(self, call: SayCall) -> Act:
        mode = None if call.permission_mode is UNSET else call.permission_mode
        await self._check_mode(mode)
        await self._check_leaving(call.session_id, mode)
        cursor = await self._ready()
        request = requests.Say(content=call.message, mode=mode, key=_key())
        said = await self._handle.ask(lambda engine: engine.say(call.session_id, request))
        told: Told = {"resumed": True} if said.resumed else {}
        return _act("claude_say", said.session_id, cursor, call.wait_seconds, told)

    async def _fork(self, call: SayCall) -> Act:
        if call.permission_mode is not UNSET:
            raise UsageError(
                "a fork begins in the mode of its session; "
                "leave permissionMode out, and give it with the next claude_say"
            )
        cursor = await self._ready()
        request = requests.Fork(prompt=call.message, key=_key())
        made = await self._handle.ask(lambda engine: engine.fork(call.session_id, request))
        told: Told = {"parentSessionId": call.session_id}
        return _act("claude_say", made.session_id, cursor, call.wait_seconds, told)

    async def _interrupt(self, call: InterruptCall, caller: CallContext) -> Outcome:
        done = await self._handle.ask(lambda engine: engine.interrupt(call.session_id))
        if done.was_running:
            await wait(self._handle, call.session_id, INTERRUPTING_S, _nobody, at_rest=True)
        status = await self._status(call.session_id)
        told = results.brief(status, {}, answered_by=await self._by(status, caller))
        return _outcome(told, status)

    # Answering

    async def _respond(self, call: RespondCall, caller: CallContext) -> Act:
        await self._check(IN_A_FORM)
        # It may have been named by the id that the CLI knows its conversation by.
        status = await self._status(call.session_id)
        question = await self._question(status, call.id)
        given = None if call.updated_input is UNSET else call.updated_input
        answer = answer_of(question, call.answers, given)
        by = f"mcp:{caller.name}" if caller.name else "mcp"
        try:
            done = await self._handle.ask(lambda engine: engine.answer(question.id, answer, by=by))
        except AnswerRefused as refused:
            # The engine names the answers as it wants them, which no caller of ours may send.
            raise AnswerRefused(refused.message, advice=valid_answers(question)) from None
        told: Told = {"resumed": True} if done.resumed else {}
        if done.new_session_id is not None:
            told["newSessionId"] = done.new_session_id
        return _act("claude_respond", status.session_id, status.cursor, call.wait_seconds, told)

    async def _question(self, status: Status, question_id: str) -> Question:
        try:
            found = await self._handle.ask(lambda engine: engine.question(question_id))
        except UnknownQuestion:
            found = None
        if found is None or found.session_id != status.session_id:
            told = f"session {status.session_id} has no question {question_id[:100]}"
            raise UnknownQuestion(told, advice=_open(status))
        return found

    # Looking around

    async def _asked(self, call: StatusCall) -> Act:
        session_id = call.session_id
        after = None if call.after is UNSET else call.after
        try:
            status = await self._status(session_id)
        except UnknownSession:
            # It may be one on disk; if it is none, that is told soon.
            pass
        else:
            # As with answers, it may have been named by the id of its conversation.
            session_id = status.session_id
            after = None if after is None else min(after, status.cursor)
        return Act(
            tool="claude_status",
            session_id=session_id,
            cursor=after,
            wait_s=call.wait_seconds,
            output_lines=call.output_lines,
            after=after,
        )

    async def _list(self, call: ListCall, caller: CallContext) -> Outcome:
        cwd = _directory(call.working_directory, caller) or None
        found = await self._handle.ask(lambda engine: engine.list(cwd=cwd, limit=call.limit))
        told = results.listing(found)
        return Outcome(structured=told, text=results.listing_text(told))


def _failed(error: PilothouseError, *, done: str = "") -> Outcome:
    return Outcome(structured={}, text=f"{done}{problems.told(error)}", is_error=True)


def _outcome(told: JsonObject, status: Status) -> Outcome:
    return Outcome(
        structured=told,
        text=results.text(told),
        session_id=status.session_id,
        questions=list(status.questions),
    )


def _act(tool: str, session_id: str, cursor: int, wait_s: float, told: Told | None = None) -> Act:
    return Act(tool=tool, session_id=session_id, cursor=cursor, wait_s=wait_s, told=told or {})


def _open(status: Status) -> str:
    if not status.questions:
        return "no question of it is open; claude_status tells what it does"
    asked = [pending(each) for each in status.questions]
    named = [f"{each['id']} ({each['type']})" for each in asked]
    return f"those that are open: {', '.join(named)}"


def _key() -> str:
    return str(uuid.uuid4())


def _options(call: StartCall) -> SessionOptions:
    """Only what the caller set reaches the CLI."""
    given: JsonObject = {
        "model": call.model,
        "mode": _mode(call),
        "allowed_tools": call.allowed_tools,
        "disallowed_tools": call.disallowed_tools,
        "max_turns": call.max_turns,
        "max_budget_usd": call.max_budget_usd,
        "append_system_prompt": call.system_prompt,
    }
    return SessionOptions(**{name: each for name, each in given.items() if each is not UNSET})


def _mode(call: StartCall) -> Any:
    if not call.dangerously_skip_permissions:
        return call.permission_mode
    if call.permission_mode in (UNSET, "bypassPermissions"):
        return "bypassPermissions"
    raise UsageError(
        f"dangerouslySkipPermissions and permissionMode {call.permission_mode} contradict each "
        "other; give one of them"
    )


def _directory(given: Any, caller: CallContext, *, required: bool = False) -> str:
    """An absolute path; what is relative is so to where the client works."""
    here = caller.default_cwd
    if given is UNSET:
        if required and here is None:
            raise UsageError("workingDirectory is missing; give an absolute path")
        return here or "" if required else ""
    return given if here is None else str(Path(here) / given)


async def _nobody(done: float, total: float | None, message: str) -> None:
    """Nobody is told."""
