"""The seven tools as verbs on the engine."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol

from msgspec import UNSET, Meta, Struct, field
from msgspec.structs import replace

from pilothouse.api import requests
from pilothouse.api.questions import Question
from pilothouse.api.requests import Caps
from pilothouse.api.statuses import Status
from pilothouse.errors import (
    AnswerRefused,
    PilothouseError,
    Refused,
    UnknownQuestion,
    UnknownSession,
    UsageError,
)

from . import control, problems, results
from .calls import (
    Call,
    ControlCall,
    InterruptCall,
    ListCall,
    RespondCall,
    SayCall,
    StartCall,
    StatusCall,
    read,
)
from .client_settings import ClientSettings
from .engine_handle import EngineHandle
from .images import content_of, image_blocks
from .questions import answer_of, pending, valid_answers
from .session_wait import wait
from .texts import members_of
from .tools import LINES, MOST_LINES, WAIT_S

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
CLOSED: Final = (
    f"A person was asked in a form and {problems.FORM_CLOSED}: ask them, do not decide for them"
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
    """What the handlers need to know of one call."""

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

    @property
    def own_sessions(self) -> frozenset[str]:
        """The ids of the CLI that calls: what it asks is not its own to decide."""
        ...

    async def progress(self, done: float, total: float | None, message: str) -> None:
        """Report progress to the caller."""
        ...


class Act(Struct, frozen=True, kw_only=True):
    """What a call has done, and what its result needs."""

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
    status: Status | None = None
    """The session as it is since, if the engine has returned it already."""
    approver: Answers | None = None
    """Who may approve, if the engine has returned that already."""

    def carried(self) -> Act:
        """The act without what a later request must ask for anew."""
        return replace(self, status=None, approver=None)


class Outcome(Struct, frozen=True, kw_only=True):
    """The result of a call."""

    structured: JsonObject
    text: str
    is_error: bool = False
    session_id: str | None = None
    questions: list[Question] = field(default_factory=list[Question])
    """Those of the session that take an answer."""


class ToolHandlers:
    """The handlers of the seven tools."""

    def __init__(
        self,
        handle: EngineHandle,
        *,
        answers: Answers,
        client: ClientSettings | None = None,
    ) -> None:
        self._handle = handle
        self.client: Final = client or ClientSettings()
        self.answers: Final = answers
        """What this process was told; the engine may be stricter."""

    async def who_answers(self) -> Answers:
        """Return who may approve: only a person, if this process or the engine is set so."""
        if self.answers == "person":
            return "person"
        told = (await self._handle.ask(lambda engine: engine.settings())).get("mcp_answers")
        return "person" if members_of(told).get("value") == "person" else "anyone"

    async def _check(self, advice: str) -> Answers:
        """Refuse what approves something, where only a person may; return who may."""
        approver = await self.who_answers()
        if approver == "person":
            raise Refused(problems.PERSON_ONLY, advice=advice)
        return approver

    async def begin(
        self, name: str, arguments: Mapping[str, Any], caller: CallContext
    ) -> Act | Outcome:
        """Perform the call, once."""
        try:
            return await self._begin(read(name, arguments), caller)
        except PilothouseError as error:
            return _failed(error)

    async def look(self, act: Act) -> Act:
        """Look at the session before a call waits, unless that was done."""
        if not act.wait_s or act.status is not None:
            return act
        try:
            return replace(act, status=await self._seen(act))
        except PilothouseError:
            # It is on disk alone, say: `finish` finds out.
            return act

    async def finish(
        self, act: Act, caller: CallContext, *, closed: Collection[str] = ()
    ) -> Outcome:
        """Wait as long as the caller wants, and return the result.

        `closed` are questions whose form a person has closed: the outcome says that this is no
        answer.
        """
        try:
            return await self._finish(act, caller, closed)
        except PilothouseError as error:
            return _failed(error, done=DONE.get(act.tool, "").format(act.session_id))

    async def _begin(self, call: Call, caller: CallContext) -> Act | Outcome:
        match call:
            case StartCall():
                return await self._start(call, caller)
            case SayCall(fork=True):
                return await self._fork(call, caller)
            case SayCall():
                return await self._say(call, caller)
            case StatusCall():
                return await self._asked(call)
            case RespondCall():
                return await self._respond(call, caller)
            case InterruptCall():
                return await self._interrupt(call, caller)
            case ControlCall():
                return await self._control(call, caller)
            case ListCall():
                return await self._list(call, caller)
            case _:
                raise UsageError(f"there is no tool for {type(call).__name__}")

    async def _finish(self, act: Act, caller: CallContext, closed: Collection[str]) -> Outcome:
        if act.wait_s > 0:
            act = await self._wait(await self._looked(act), caller)
        status = act.status or await self._seen(act)
        by = await self._by(status, caller, act.approver)
        told = act.told
        if any(each.id in closed for each in status.questions):
            told = {**told, "note": CLOSED}
        if _is_full(act):
            whole = results.full(status, told, answered_by=by, since=act.cursor is not None)
            return _outcome(whole, status)
        return _outcome(results.brief(status, told, answered_by=by), status)

    async def _wait(self, act: Act, caller: CallContext) -> Act:
        """Wait, and return the act with the session as it is then."""
        ends = time.monotonic() + act.wait_s
        while True:
            assert act.status is not None
            left = max(ends - time.monotonic(), 0)
            last = await wait(self._handle, act.status, left, caller.progress, after=act.after)
            if last is act.status:
                return act
            act = replace(act, status=await self._seen(act))
            if not _goes_on(last, act.status) or time.monotonic() >= ends:
                return act

    async def _looked(self, act: Act) -> Act:
        return act if act.status is not None else replace(act, status=await self._seen(act))

    async def _seen(self, act: Act) -> Status:
        """Return the session with the output that the result needs."""
        if _is_full(act):
            return await self._status(act.session_id, act.output_lines, act.cursor)
        return await self._status(act.session_id)

    async def _by(
        self, status: Status, caller: CallContext, approver: Answers | None = None
    ) -> results.By:
        if status.questions and (approver or await self.who_answers()) == "person":
            return "person"
        return "form" if caller.shows_forms else "anyone"

    async def _status(self, session_id: str, lines: int = 0, after: int | None = None) -> Status:
        return await self._handle.ask(
            lambda engine: engine.status(session_id, output_lines=lines, after=after)
        )

    # Starting and talking

    async def _start(self, call: StartCall, caller: CallContext) -> Act:
        options = self.client.options(_given(call))
        approver: Answers | None = None
        if options.mode in APPROVING:
            is_usual = call.permission_mode is UNSET and not call.dangerously_skip_permissions
            advice = _configured("mcp_mode") if is_usual else _other_mode(options.mode)
            approver = await self._check(advice)
        elif options.allowed_tools:
            is_usual = call.allowed_tools is UNSET
            advice = _configured("mcp_allowed_tools") if is_usual else "leave allowedTools out"
            approver = await self._check(advice)
        request = requests.Start(
            prompt=await content_of(call.prompt, call.images, caller.default_cwd),
            cwd=_directory(call.working_directory, caller, required=True),
            options=options,
            caps=_caps(call),
            key=_key(),
        )
        cursor = await self._ready()
        started = await self._handle.ask(lambda engine: engine.start(request))
        told = _message(started.prompt_id)
        act = _act("claude_start", started.session_id, cursor, call.wait_seconds, told)
        return replace(act, approver=approver)

    async def _ready(self) -> int:
        """Check that there is a CLI to run sessions on; return the journal's cursor."""
        health = await self._handle.ask(lambda engine: engine.health())
        if health.lack is not None:
            raise Refused(problems.lacking(health.lack))
        return health.cursor

    async def _check_mode(self, session_id: str, mode: str | None) -> Answers | None:
        """Refuse a mode that approves something, where only a person may; return who may."""
        if mode in APPROVING:
            return await self._check(_other_mode(mode))
        if mode in (None, "plan"):
            return None
        try:
            status = await self._status(session_id)
        except UnknownSession:
            return None
        if any(each.kind == "plan" for each in status.questions):
            # To leave plan mode while a plan waits is to approve it.
            return await self._check(
                "a plan waits for a person's decision: leave permissionMode out, or give plan"
            )
        return None

    async def _say(self, call: SayCall, caller: CallContext) -> Act:
        if call.fork_before is not UNSET:
            raise UsageError("forkBefore goes with fork: true alone")
        mode = None if call.permission_mode is UNSET else call.permission_mode
        approver = await self._check_mode(call.session_id, mode)
        content = await content_of(call.message, call.images, caller.default_cwd)
        cursor = await self._ready()
        request = requests.Say(content=content, mode=mode, key=_key())
        said = await self._handle.ask(lambda engine: engine.say(call.session_id, request))
        told: Told = {"resumed": True} if said.resumed else {}
        told |= _message(said.prompt_id)
        act = _act("claude_say", said.session_id, cursor, call.wait_seconds, told)
        return replace(act, approver=approver)

    async def _fork(self, call: SayCall, caller: CallContext) -> Act:
        if call.permission_mode is not UNSET:
            raise UsageError(
                "a fork begins in the mode of its session; "
                "leave permissionMode out, and give it with the next claude_say"
            )
        before, at = call.fork_before, None
        if before is not UNSET:
            at = await control.last_before(self._handle, call.session_id, before)
        content = await content_of(call.message, call.images, caller.default_cwd)
        cursor = await self._ready()
        request = requests.Fork(prompt=content, at=at, key=_key())
        made = await self._handle.ask(lambda engine: engine.fork(call.session_id, request))
        told: Told = {"parentSessionId": call.session_id, **_message(made.prompt_id)}
        return _act("claude_say", made.session_id, cursor, call.wait_seconds, told)

    async def _interrupt(self, call: InterruptCall, caller: CallContext) -> Outcome:
        done = await self._handle.ask(lambda engine: engine.interrupt(call.session_id))
        status = await self._status(call.session_id)
        if done.was_running:
            last = await wait(self._handle, status, INTERRUPTING_S, _nobody, at_rest=True)
            status = last or await self._status(call.session_id)
        told = results.brief(status, {}, answered_by=await self._by(status, caller))
        return _outcome(told, status)

    async def _control(self, call: ControlCall, caller: CallContext) -> Outcome:
        if call.action == "set" and call.permission_mode is not UNSET:
            await self._check_mode(call.session_id, call.permission_mode)
        if call.action == "rewind" and not call.preview:
            # Files change, and nobody is asked.
            await self._check("give preview: true to see what it would change")
        told = await control.perform(self._handle, call)
        status = await self._status(call.session_id)
        whole = results.brief(status, told, answered_by=await self._by(status, caller))
        # That of the last turn would read as if it were the outcome of this.
        whole.pop("result", None)
        return _outcome(whole, status)

    # Answering

    async def _respond(self, call: RespondCall, caller: CallContext) -> Act:
        approver = await self._check(IN_A_FORM)
        # It may have been named by the id that the CLI knows its conversation by.
        status = await self._status(call.session_id)
        if not caller.own_sessions.isdisjoint({status.session_id, status.claude_session_id}):
            raise Refused(problems.OWN, advice=problems.OTHERS_ANSWER)
        question = await self._question(status, call.id)
        given = None if call.updated_input is UNSET else call.updated_input
        answer = answer_of(
            question,
            call.answers,
            given,
            call.updated_permissions,
            plan=None if call.plan is UNSET else call.plan,
            notes=call.notes,
            images=await image_blocks(call.images, caller.default_cwd),
        )
        by = f"mcp:{caller.name}" if caller.name else "mcp"
        try:
            done = await self._handle.ask(lambda engine: engine.answer(question.id, answer, by=by))
        except AnswerRefused as refused:
            # The engine names the answers as it wants them, which no caller of ours may send.
            raise AnswerRefused(refused.message, advice=valid_answers(question)) from None
        told: Told = {"resumed": True} if done.resumed else {}
        if done.new_session_id is not None:
            told["newSessionId"] = done.new_session_id
        act = _act("claude_respond", status.session_id, status.cursor, call.wait_seconds, told)
        return replace(act, approver=approver)

    async def _question(self, status: Status, question_id: str) -> Question:
        for question in status.questions:
            if question.id == question_id:
                return question
        # It takes no answer any more: the engine says why.
        try:
            found = await self._handle.ask(lambda engine: engine.question(question_id))
        except UnknownQuestion:
            found = None
        if found is None or found.session_id != status.session_id:
            told = f"session {status.session_id} has no question {question_id[:100]}"
            raise UnknownQuestion(told, advice=_open(status))
        return found

    # Looking around

    async def _asked(self, call: StatusCall) -> Act | Outcome:
        after = None if call.after is UNSET else call.after
        status = await self._status(call.session_id, call.output_lines, after)
        if status.source == "transcript":
            found = status.session_id
            page = await self._handle.ask(lambda engine: engine.conversation(found))
            told = results.untouched(status, page.items, call.output_lines)
            return Outcome(structured=told, text=results.text(told), session_id=found)
        after = None if after is None else min(after, status.cursor)
        return Act(
            tool="claude_status",
            # As with answers, it may have been named by the id of its conversation.
            session_id=status.session_id,
            cursor=after,
            wait_s=call.wait_seconds,
            output_lines=call.output_lines,
            after=after,
            status=status,
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


def _is_full(act: Act) -> bool:
    """Return whether the result has everything there is to know."""
    return act.tool == "claude_status" or act.wait_s > 0


def _goes_on(last: Status | None, now: Status | None) -> bool:
    """Whether the session asked something that somebody has answered by now."""
    asked = last is not None and last.state == "awaiting_input"
    return asked and now is not None and now.state == "active"


def _configured(setting: str) -> str:
    return f"a person has to take {setting} out of this client's configuration"


def _other_mode(mode: str | None) -> str:
    return f"leave the mode {mode} out; a person can choose it"


def _open(status: Status) -> str:
    if not status.questions:
        return "no question of it is open; claude_status tells what it does"
    asked = [pending(each) for each in status.questions]
    named = [f"{each['id']} ({each['type']})" for each in asked]
    return f"those that are open: {', '.join(named)}"


def _message(prompt_id: str | None) -> Told:
    return {} if prompt_id is None else {"messageId": prompt_id}


def _caps(call: StartCall) -> Caps:
    return Caps() if call.session_cap_usd is UNSET else Caps(session_usd=call.session_cap_usd)


def _key() -> str:
    return str(uuid.uuid4())


def _given(call: StartCall) -> JsonObject:
    """Return what the caller set: nothing else reaches the CLI, but for what is configured."""
    given: JsonObject = {
        "model": call.model,
        "mode": _mode(call),
        "allowed_tools": call.allowed_tools,
        "disallowed_tools": call.disallowed_tools,
        "max_turns": call.max_turns,
        "max_budget_usd": call.max_budget_usd,
        "append_system_prompt": call.system_prompt,
        "max_thinking_tokens": call.thinking_tokens,
        "json_schema": call.json_schema,
    }
    return {name: each for name, each in given.items() if each is not UNSET}


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
    """Report nothing."""
