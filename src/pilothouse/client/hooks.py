"""Hooks: functions the CLI calls at set points of a session, some of which decide what happens.

    hooks = Hooks()

    @hooks.on(PreToolUseHookInput, matcher="Bash|Write", timeout=30)
    async def check(event: PreToolUseHookInput) -> PreToolUseHookOutput | None:
        if "rm -rf" in event.tool_input.get("command", ""):
            return deny_tool("Not that one.")

A handler returns None to change nothing, the output of its event, a whole `HookOutput`, or a dict
as the wire wants it. One that fails where a tool waits for its verdict denies the tool; anywhere
else `HookFailed` tells the CLI that it failed.
"""

from __future__ import annotations

import asyncio
import difflib
import inspect
import logging
import math
import re
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, cast, get_args, overload

import msgspec
from msgspec import UNSET, Struct

from pilothouse.errors import HookFailed
from pilothouse.protocol.control import HookCallback
from pilothouse.protocol.hook_outputs import (
    AsyncHookOutput,
    HookDeny,
    HookMatcher,
    HookOutput,
    HookSpecificOutput,
    PermissionRequestHookOutput,
    PreToolUseHookOutput,
)
from pilothouse.protocol.hooks import HookEvent, HookInput
from pilothouse.protocol.wire import JsonObject, load, tag_of

from .cancellation import is_being_cancelled

__all__ = [
    "AddedContext",
    "HookContext",
    "HookFailed",
    "HookReturn",
    "Hooks",
    "Spawn",
    "add_context",
    "allow_tool",
    "ask_user",
    "block",
    "deny_tool",
]

Spawn = Callable[[Coroutine[Any, Any, None]], object]
"""Starts a task, and sees to its end."""

_INPUTS: dict[str, type[HookInput]] = {
    tag_of(kind): kind for kind in HookInput.__subclasses__() if tag_of(kind)
}
_OUTPUTS: dict[str, type[Struct]] = {
    tag_of(kind): kind for kind in get_args(HookSpecificOutput) if issubclass(kind, Struct)
}

# A CLI that gives a hook up goes on without its verdict, on 2.1.119 and older even with the tool.
# So ours runs out first, and the CLI's is for the case that this process hangs.
TIMEOUT_MARGIN = 5.0

_log = logging.getLogger("pilothouse.hooks")


@dataclass(frozen=True, slots=True)
class HookContext:
    """About the call of the hook itself; the second argument of a handler that takes two."""

    callback_id: str
    tool_use_id: str | None = None


# What handlers return


@dataclass(frozen=True, slots=True)
class AddedContext:
    """Text for the model, put into the output of whichever event it answers."""

    text: str


HookReturn = HookSpecificOutput | HookOutput | AsyncHookOutput | AddedContext | JsonObject | None


def deny_tool(reason: str) -> PreToolUseHookOutput:
    """PreToolUse: the tool does not run; the model reads why."""
    return PreToolUseHookOutput(permission_decision="deny", permission_decision_reason=reason)


def allow_tool(updated_input: JsonObject | None = None) -> PreToolUseHookOutput:
    """PreToolUse: the tool runs without a question, perhaps with another input."""
    given = UNSET if updated_input is None else updated_input
    return PreToolUseHookOutput(permission_decision="allow", updated_input=given)


def ask_user(reason: str) -> PreToolUseHookOutput:
    """PreToolUse: a person decides, even where a rule would allow the tool."""
    return PreToolUseHookOutput(permission_decision="ask", permission_decision_reason=reason)


def block(reason: str) -> HookOutput:
    """Hold up what the event is about; for Stop that means: go on, the model reads why."""
    return HookOutput(decision="block", reason=reason)


def add_context(text: str) -> AddedContext:
    """Tell the model something. Refused for events whose output has no place for it."""
    return AddedContext(text)


# Registering

E = TypeVar("E", bound=HookInput)
R = TypeVar("R", bound=HookReturn)
Handler = Callable[..., Awaitable[Any]]


class Registrar(Protocol[E]):
    """The decorator that `Hooks.on` returns."""

    @overload
    def __call__(
        self, handler: Callable[[E], Coroutine[Any, Any, R]], /
    ) -> Callable[[E], Coroutine[Any, Any, R]]: ...

    @overload
    def __call__(
        self, handler: Callable[[E, HookContext], Coroutine[Any, Any, R]], /
    ) -> Callable[[E, HookContext], Coroutine[Any, Any, R]]: ...


@dataclass(frozen=True, slots=True)
class _Hook:
    """One registered handler."""

    handler: Handler
    kind: type[HookInput]
    matcher: str | None
    timeout: float | None
    on_failure: Literal["continue", "block"]
    background: bool
    takes_context: bool

    @property
    def event(self) -> str:
        return tag_of(self.kind)

    def to_wire(self, callback_id: str) -> JsonObject:
        return msgspec.to_builtins(
            HookMatcher(
                hook_callback_ids=[callback_id],
                matcher=UNSET if self.matcher is None else self.matcher,
                timeout=UNSET if self.timeout is None else self.timeout + TIMEOUT_MARGIN,
                on_failure="block" if self.on_failure == "block" else UNSET,
            )
        )

    async def call(self, callback: HookCallback) -> Any:
        given = load(self.kind, callback.input_raw)
        if not self.takes_context:
            return await self.handler(given)
        return await self.handler(given, HookContext(callback.callback_id, callback.tool_use_id))


class Hooks:
    """The handlers of a session's hooks. Several clients may share them."""

    def __init__(self) -> None:
        self._hooks: dict[str, _Hook] = {}
        self._sealed = False
        self._tasks: set[asyncio.Task[None]] = set()

    @overload
    def on(
        self,
        event: type[E],
        *,
        matcher: str | None = None,
        timeout: float | None = None,
        on_failure: Literal["continue", "block"] = "continue",
        background: bool = False,
    ) -> Registrar[E]: ...

    @overload
    def on(
        self,
        event: HookEvent,
        *,
        matcher: str | None = None,
        timeout: float | None = None,
        on_failure: Literal["continue", "block"] = "continue",
        background: bool = False,
    ) -> Registrar[Any]: ...

    def on(
        self,
        event: type[HookInput] | str,
        *,
        matcher: str | None = None,
        timeout: float | None = None,
        on_failure: Literal["continue", "block"] = "continue",
        background: bool = False,
    ) -> Any:
        """Register the decorated handler for an event, given as its input class or its name.

        `matcher` is a regular expression over the tool's name (or what else the event is about);
        None and "*" match all. A handler that takes more than `timeout` seconds has failed; without
        one the CLI decides when it has waited long enough. `on_failure="block"` asks a CLI that can
        do so to stop where the handler fails. A `background` handler decides nothing: the CLI is
        answered at once, and goes on.
        """
        kind = _input_class(event)
        _check_settings(matcher, timeout, on_failure)

        def register(handler: Handler) -> Handler:
            takes_context = _takes_context(handler)
            self._add(_Hook(handler, kind, matcher, timeout, on_failure, background, takes_context))
            return handler

        return register

    def merged(self, *others: Hooks) -> Hooks:
        """New hooks with the handlers of all, these first."""
        merged = Hooks()
        for each in (self, *others):
            for hook in each._hooks.values():
                merged._add(hook)
        return merged

    def copy(self) -> Hooks:
        """New hooks with the same handlers, open for more."""
        return self.merged()

    def __len__(self) -> int:
        return len(self._hooks)

    def _add(self, hook: _Hook) -> None:
        if self._sealed:
            raise RuntimeError("a client has started with these hooks; copy() them to add more")
        self._hooks[f"hook_{len(self._hooks)}"] = hook

    # Answering

    def registration(self) -> JsonObject:
        """What `initialize` tells the CLI. No more handlers can be added from then on."""
        self._sealed = True
        events: dict[str, list[JsonObject]] = {}
        for callback_id, hook in self._hooks.items():
            events.setdefault(hook.event, []).append(hook.to_wire(callback_id))
        return events

    async def answer(self, callback: HookCallback, *, spawn: Spawn | None = None) -> JsonObject:
        """Call the handler; what it decided, as the wire wants it.

        `spawn` starts the task of a background handler; without it the task is ended by `aclose`.
        """
        hook = self._hooks.get(callback.callback_id)
        if hook is None:
            raise HookFailed(f"no hook is registered as {callback.callback_id!r}")
        if hook.background:
            (spawn or self._spawn)(_run_in_background(hook, callback))
            return _plain(AsyncHookOutput())
        return await _run(hook, callback)

    async def aclose(self) -> None:
        """End the background handlers that are still running."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _input_class(event: type[HookInput] | str) -> type[HookInput]:
    if isinstance(event, str):
        if event not in _INPUTS:
            near = difflib.get_close_matches(event, _INPUTS, n=1, cutoff=0.0)
            raise ValueError(f"there is no hook event {event!r}; did you mean {near[0]!r}?")
        return _INPUTS[event]
    if event not in _INPUTS.values():
        raise TypeError(f"{event!r} is not the input of a hook event")
    return event


def _check_settings(matcher: str | None, timeout: float | None, on_failure: str) -> None:
    if matcher is not None and matcher != "*":
        try:
            re.compile(matcher)
        except re.error as error:
            raise ValueError(f"matcher {matcher!r} is no regular expression: {error}") from error
    if timeout is not None and not 0 < timeout < math.inf:
        raise ValueError(f"timeout must be a positive number of seconds, not {timeout!r}")
    if on_failure not in ("continue", "block"):
        raise ValueError(f"on_failure is 'continue' or 'block', not {on_failure!r}")


def _takes_context(handler: Handler) -> bool:
    name = getattr(handler, "__name__", repr(handler))
    if not inspect.iscoroutinefunction(handler):
        raise TypeError(f"hook {name}: make it async; a plain function would block the session")
    required = [
        parameter
        for parameter in inspect.signature(handler).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if len(required) not in (1, 2) or any(p.kind is p.KEYWORD_ONLY for p in required):
        raise TypeError(f"hook {name}: it takes (event) or (event, context)")
    return len(required) == 2


# Running


async def _run(hook: _Hook, callback: HookCallback) -> JsonObject:
    # The boundary to the user's code: no tool may run because the hook that guards it failed.
    try:
        async with asyncio.timeout(hook.timeout):
            returned = await hook.call(callback)
        return _plain(_as_output(returned, hook.event))
    except (asyncio.CancelledError, Exception) as error:
        if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
            raise
        _log.warning("the %s hook failed", hook.event, exc_info=error)
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
        reason = f"The {hook.event} hook failed: {what}"
        denial = _denial(hook.event, reason)
        if denial is None:
            raise HookFailed(reason) from error
        return _plain(denial)


async def _run_in_background(hook: _Hook, callback: HookCallback) -> None:
    # The boundary to the user's code: nobody waits for this handler, so nobody can be told.
    try:
        await hook.call(callback)
    except Exception as error:  # noqa: BLE001
        _log.warning("the background %s hook failed", hook.event, exc_info=error)


def _denial(event: str, reason: str) -> HookOutput | None:
    match event:
        case "PreToolUse":
            return HookOutput(hook_specific_output=deny_tool(reason))
        case "PermissionRequest":
            decision = HookDeny(message=reason)
            return HookOutput(hook_specific_output=PermissionRequestHookOutput(decision=decision))
        case _:
            return None


def refused_output(callback: HookCallback, reason: str) -> JsonObject:
    """The answer instead of one that may not be given: where a tool waits for it, no."""
    denial = _denial(callback.input.hook_event_name, reason)
    if denial is None:
        raise HookFailed(reason)
    return _plain(denial)


def _as_output(value: Any, event: str) -> HookOutput | AsyncHookOutput | JsonObject:
    match value:
        case None:
            return HookOutput()
        case HookOutput(hook_specific_output=specific):
            _check_specific(specific, event)
            return value
        case AsyncHookOutput():
            return value
        case AddedContext(text):
            return HookOutput(hook_specific_output=_with_context(event, text))
        case dict():
            return cast(JsonObject, value)
        case Struct() if type(value) in _OUTPUTS.values():
            _check_specific(value, event)
            return HookOutput(hook_specific_output=cast(HookSpecificOutput, value))
        case _:
            raise TypeError(f"a {event} hook cannot return {type(value).__name__}")


def _check_specific(specific: Any, event: str) -> None:
    if isinstance(specific, Struct) and type(specific) is not _OUTPUTS.get(event):
        raise TypeError(f"a {event} hook cannot return {type(specific).__name__}")


def _with_context(event: str, text: str) -> HookSpecificOutput:
    kind = _OUTPUTS.get(event)
    if kind is None or "additional_context" not in kind.__struct_fields__:
        raise TypeError(f"a {event} hook cannot add context")
    return cast(HookSpecificOutput, kind(additional_context=text))


def _plain(output: Any) -> JsonObject:
    return msgspec.to_builtins(output, str_keys=True)
