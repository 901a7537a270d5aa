"""The permission tool of a CLI that somebody else started: what it asks becomes a question here.

Whatever goes wrong is a denial that says why: nothing runs because nobody could be asked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Final, Literal
from uuid import NAMESPACE_OID, UUID, uuid4, uuid5

import anyio
from msgspec import Meta, Struct, ValidationError, convert, field, json
from msgspec.structs import replace

from pilothouse.api.engine import Engine
from pilothouse.api.questions import Asked
from pilothouse.api.requests import Ask
from pilothouse.api.values import LONGEST_WORD, JsonObject, Word
from pilothouse.errors import NotNow, PilothouseError, ServerError

from .engine_handle import EngineHandle
from .session_wait import Progress

__all__ = ["beside", "check", "identify", "name_asker"]

SESSION_VARIABLE: Final = "CLAUDE_CODE_SESSION_ID"
TOOL_USE: Final = "claudecode/toolUseId"
WAIT_S: Final = 25.0
PROGRESS_S: Final = 5.0
PATIENCE_S: Final = 60.0
"""How long a server that was lost may take to come back: a restart, with its sessions."""
AGAIN_S: Final = 0.25
WITHDRAW_S: Final = 2.0
"""A CLI that ends kills its MCP servers half a second later; one that was killed cannot."""
GONE: Final = "the CLI that asked does not wait any more"

_taken: set[str] = set()
"""Ids that were those of a session of the engine's once: this CLI's are others, also later."""


def identify(env: Mapping[str, str] | None = None) -> str:
    """Return the session's id that the CLI gave to its MCP servers, or one for this process.

    CLIs before 2.1.325 give none.
    """
    told = (os.environ if env is None else env).get(SESSION_VARIABLE, "")
    try:
        return str(UUID(told))
    except ValueError:
        return str(uuid4())


def name_asker(cwd: str) -> str:
    """Return the label of the CLI that asks."""
    return f"claude -p in {cwd}"[:LONGEST_WORD]


async def check(
    handle: EngineHandle,
    arguments: object,
    meta: Mapping[str, Any] | None,
    *,
    identity: str,
    cwd: str | None,
    label: str | None = None,
    progress: Progress | None = None,
) -> str:
    """Ask for a decision and return the CLI's permission result as JSON.

    It returns when somebody has decided. Cancelling it withdraws the question.
    """
    try:
        request = _read(arguments, meta, identity, cwd, label)
    except ValidationError as error:
        return _written(_denial(f"the permission tool was not called as a CLI calls it ({error})"))
    return _written(await _ask(_Asking(handle, request), progress))


async def _ask(asking: _Asking, progress: Progress | None) -> JsonObject:
    response = _denial("the call was ended")
    async with anyio.create_task_group() as tasks:
        if progress is not None:
            tasks.start_soon(_report, progress, asking)
        response = await asking.response()
        tasks.cancel_scope.cancel()
    return response


# What the CLI asks


class _Arguments(Struct, frozen=True):
    """Members that later CLIs add are left aside."""

    tool_name: Annotated[str, Meta(min_length=1)]
    input: JsonObject
    tool_use_id: Word | None = None


def _read(
    arguments: object,
    meta: Mapping[str, Any] | None,
    identity: str,
    cwd: str | None,
    label: str | None,
) -> Ask:
    given = convert(arguments, _Arguments)
    if cwd is None:
        raise ValidationError("it has to run beside the CLI, over stdio: pilothouse mcp")
    return Ask(
        tool_name=given.tool_name,
        tool_use_id=given.tool_use_id or _tool_use(meta) or str(uuid4()),
        input=given.input,
        cwd=cwd,
        session_id=identity,
        label=(label or name_asker(cwd))[:LONGEST_WORD],
        wait_s=WAIT_S,
    )


def _tool_use(meta: Mapping[str, Any] | None) -> str | None:
    told = (meta or {}).get(TOOL_USE)
    return convert(told, Word) if told else None


# What it is told


class _Allowed(Struct, frozen=True, tag_field="behavior", tag="allow"):
    # CLIs up to 2.1.119 take no allow without it.
    input: JsonObject = field(name="updatedInput")


class _Denied(Struct, frozen=True, tag_field="behavior", tag="deny"):
    message: Annotated[str, Meta(min_length=1)]


def _checked(response: JsonObject) -> JsonObject:
    try:
        convert(response, _Allowed | _Denied)
    except ValidationError as error:
        return _denial(f"the server's answer is none that a CLI takes ({error})")
    return response


def _denial(reason: str) -> JsonObject:
    return {"behavior": "deny", "message": f"Nobody decided about this: {reason}. It was not run."}


def _written(response: JsonObject) -> str:
    return json.encode(response).decode()


# The question


class _Asking:
    """One question, asked until it is decided."""

    def __init__(self, handle: EngineHandle, request: Ask) -> None:
        self._handle = handle
        self._request = request
        self._asked: Asked | None = None
        self._engine: Engine | None = None
        self.state: Literal["asking", "waiting", "reconnecting"] = "asking"

    async def response(self) -> JsonObject:
        """Return the permission result; an error is a denial."""
        try:
            return await self._decided()
        except PilothouseError as error:
            return _denial(str(error).strip().rstrip(".") or type(error).__name__)
        except anyio.get_cancelled_exc_class():
            await self._withdraw()
            raise

    async def _decided(self) -> JsonObject:
        asked = await self._open()
        while asked.response is None:
            if asked.question.state != "open":
                return _denial(_closed(asked))
            asked = await self._ask_on()
        return _checked(asked.response)

    async def _open(self) -> Asked:
        # Without a wait, to know which question it is: who goes away has to withdraw it.
        told = self._request.session_id
        if told not in _taken:
            try:
                return await self._ask(0.0)
            except NotNow:
                # That session is the engine's own. An older CLI leaves its servers the variable
                # of the session in whose shell it was started.
                _taken.add(told)
        self._request = replace(self._request, session_id=beside(told))
        return await self._ask(0.0)

    async def _ask_on(self) -> Asked:
        """Wait for the answer; a server that is lost meanwhile comes back with the question."""
        try:
            return await self._ask(WAIT_S)
        except ServerError as error:
            self.state = "reconnecting"
            return await self._ask_again(error)

    async def _ask_again(self, lost: ServerError) -> Asked:
        with anyio.move_on_after(PATIENCE_S):
            while True:
                await anyio.sleep(AGAIN_S)
                try:
                    # Without a wait: only the server's return is bounded, not the answer.
                    return await self._ask(0.0)
                except ServerError as error:
                    lost = error
        told = f"the server was lost and did not come back within {PATIENCE_S:g} s"
        raise ServerError(f"{told}: {lost}") from lost

    async def _ask(self, wait_s: float) -> Asked:
        request = replace(self._request, wait_s=wait_s)

        async def verb(engine: Engine) -> Asked:
            self._engine = engine
            return await engine.ask(request)

        self._asked = await self._handle.ask(verb)
        self.state = "waiting"
        return self._asked

    async def _withdraw(self) -> None:
        """Best effort: a question that nobody asks on is withdrawn by its engine, only later."""
        if self._asked is None or self._engine is None:
            return
        with anyio.move_on_after(WITHDRAW_S, shield=True), suppress(PilothouseError):
            await self._engine.withdraw(self._asked.question.id, GONE)


def beside(session_id: str) -> str:
    """Return an id for the CLI beside that session, the same one while this process runs."""
    return str(uuid5(NAMESPACE_OID, f"{session_id} {os.getpid()}"))


def _closed(asked: Asked) -> str:
    because = asked.question.closed_because
    return f"the question was {asked.question.state}" + (f" ({because})" if because else "")


_DOING: Final = {
    "asking": "Asking Pilothouse",
    "waiting": "Waiting for an answer",
    "reconnecting": "Waiting for the Pilothouse server",
}


async def _report(progress: Progress, asking: _Asking) -> None:
    """Report progress often enough that no client gives the call up."""
    done = 0
    # Who has closed its stream is about to cancel the call as well.
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            await progress(done, None, _DOING[asking.state])
            await anyio.sleep(PROGRESS_S)
            done += 1
