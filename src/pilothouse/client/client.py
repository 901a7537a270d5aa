"""One live CLI, driven from Python.

    async with Client(Options(cwd="project", on_permission=decide)) as client:
        turn = await client.ask("Fix the failing test")
        print(turn.outcome, turn.text, turn.cost_usd)

The client only joins the parts: the channel carries, the handlers answer, the tracker follows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from msgspec import UNSET, UnsetType

from pilothouse.errors import (
    ControlError,
    ControlTimeout,
    InvalidOption,
    SessionEnded,
    Unsupported,
    UsageError,
)
from pilothouse.protocol import (
    CanUseTool,
    ControlRequest,
    Elicitation,
    HookCallback,
    Initialize,
    InitializeResult,
    InitMessage,
    Interrupt,
    LineRejected,
    Message,
    Reply,
    Request,
    RequestUserDialog,
    read_reply,
)
from pilothouse.transport import StdioTransport, Transport
from pilothouse.transport.base import NumberedLines

from .bypass import BYPASS, BypassGate
from .channel import Channel, Listener
from .controls import Controls
from .deadlines import deadline_for
from .inbox import Inbox
from .launch import Launch, prepare
from .options import Options
from .ports import Carry, Past, Sink
from .prompts import Content, Priority, Prompt, is_command, user_message
from .request_handlers import RequestHandlers
from .stall import StallWatch
from .tools import ToolHost, tool_hosts
from .turns import Stalled, Turn, TurnTracker, WaitingOn, repetition, taken_back
from .versions import Features, Version, parse_version

__all__ = ["Carry", "Client", "ClientEvent", "Past", "Sink"]

log = logging.getLogger("pilothouse")

R = TypeVar("R", bound=Reply)

ClientEvent = Message | LineRejected | Stalled
"""What reading a client gives: everything the CLI wrote, and what its silence means."""

REQUESTS_ALONE: Final[set[type[Any]]] = {ControlRequest}

INTERRUPT_ON_CLOSE = 2.0
"""Seconds a running turn gets to stop when the client closes."""


class Client(Controls):
    """Connects options, a transport and handlers to one CLI, from its start to its end.

    `carry` makes the transport from what the options come to, `command` finds the words that start
    the CLI in the place of the options, and `greeting_id` is the id of the first request, for
    whoever may have to `attach` another client later. `foreign` says that somebody else has
    started the CLI at the other end of `transport`: with which flags is not known.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        transport: Transport | None = None,
        carry: Carry | None = None,
        command: Callable[[], Sequence[str]] | None = None,
        greeting_id: str | None = None,
        sink: Sink | None = None,
        foreign: bool = False,
    ):
        self.options = options or Options()
        self.last_turn: Turn | None = None
        self.initialization: InitializeResult | None = None
        """What the CLI said about itself: its commands, agents, models and account."""
        self.features = Features()
        self._gate = BypassGate(allowed=self.options.allow_bypass)
        self._tools: dict[str, ToolHost] = {}
        self._transport = transport
        self._carry = carry or self._over_pipes
        # Where the bytes go another way, no program has to be found here.
        self._command = command or (None if transport is None else lambda: ["claude"])
        self._greeting_id = greeting_id
        self._sink = sink
        self._launch: Launch | None = None
        self._channel: Channel | None = None
        self._session_id: str | None = None
        self._inbox: Inbox[ClientEvent] = Inbox()
        self._foreign = foreign
        self._tracker = TurnTracker(echoes=not foreign)
        self._prompts: dict[str, Prompt] = {}
        self._sent: set[str] = set()
        self._idle = asyncio.Event()
        self._stall: StallWatch | None = None
        self._closing: asyncio.Task[None] | None = None

    # Life

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def connect(self) -> InitializeResult:
        """Start the CLI and greet it."""
        if self._channel is not None:
            raise UsageError("this client was connected before; make a new one")
        try:
            self._tools = tool_hosts(self.options.mcp_servers)
            command = None if self._command is None else self._command()
            self._launch = launch = prepare(self.options, list(self._tools), command=command)
        except (TypeError, ValueError) as error:
            raise InvalidOption(str(error)) from error
        self._session_id = self.options.session_id if self._foreign else launch.session_id
        try:
            transport = self._transport or self._carry(launch)
        except BaseException:
            launch.clean_up()
            raise
        self._channel = self._channel_over(transport, self._greeting_id)
        try:
            for name, host in self._tools.items():
                await host.start(partial(self.mcp_message, name))
            await self._channel.start()
            self._watch()
            return self._greeted(await self.request(launch.initialize))
        except BaseException:
            await self.aclose()
            raise

    async def attach(self, past: Past) -> None:
        """Go on with a CLI that runs and was greeted before. It notices nothing.

        What it had asked and nobody has answered is served again. In-process tools cannot be
        taken over, and are refused.
        """
        if self._channel is not None or self._transport is None:
            raise UsageError("only a new client with a transport can be attached")
        if tool_hosts(self.options.mcp_servers):
            raise InvalidOption("the in-process tools of another client cannot be taken over")
        self._session_id, self._tracker = past.session_id, past.tracker
        first_id = None if past.is_greeting_sent else self._greeting_id
        self._channel = channel = self._channel_over(self._transport, first_id)
        if past.greeting is not None:
            self._greeted(past.greeting)
        if past.init is not None:
            self._learn(past.init)
        await channel.start()
        self._watch()
        channel.reopen(past.asked)
        if past.greeting is None:
            channel.spawn(self._greet_late(channel, past))

    async def detach(self) -> None:
        """Leave the CLI alone, and tell it nothing. Its transport is the caller's to let go of."""
        if self._stall is not None:
            self._stall.stop()
        self._inbox.close()
        await self._connected().detach()

    def greet_again(self) -> None:
        """Ask a CLI that has dialled in anew what it still waits for: it may have lost that."""
        channel = self._channel
        if channel is not None and channel.takes_input:
            channel.spawn(self._ask_what_is_open(channel))

    async def _ask_what_is_open(self, channel: Channel) -> None:
        # Its answer is an error, with the open requests in it: the connection opens them again.
        with suppress(SessionEnded, ControlTimeout):
            await channel.request(Initialize(), deadline_for("initialize", self.options.deadlines))

    def lines_lost(self, because: str) -> None:
        """Note that lines of the CLI's are gone for good, so that nobody waits for them."""
        log.warning("session %s: %s", self._session_id, because)
        self._tracker.lines_lost()

    async def _greet_late(self, channel: Channel, past: Past) -> None:
        with suppress(SessionEnded, ControlError, ControlTimeout):
            if past.is_greeting_sent:
                answer = await channel.expect(Initialize(), self._greeting_id or "")
                self._greeted(read_reply(Initialize(), answer))
            else:
                # Only the request is needed of the start: the CLI runs.
                launch = prepare(self.options, command=["claude"])
                launch.clean_up()
                self._greeted(await self.request(launch.initialize))

    def _channel_over(self, transport: Transport, first_request_id: str | None) -> Channel:
        handlers = RequestHandlers(
            self.options,
            self._gate,
            self._tools,
            features=lambda: self.features,
            spawn=lambda work: self._live().spawn(work),
        )
        keep = self._put_unread if self._sink is None else self._sink.received
        listener = Listener(keep, self._follow, self._last_words, self._ended)
        return Channel(
            transport,
            listener,
            handlers.answer,
            max_line=self.options.max_line,
            first_request_id=first_request_id,
        )

    def _over_pipes(self, launch: Launch) -> Transport:
        return StdioTransport(
            launch.argv, cwd=launch.cwd, env=launch.env, on_stderr=self.options.on_stderr
        )

    def _watch(self) -> None:
        self._update_idle()
        if self.options.stall_after is not None:
            self._stall = StallWatch(self._report_stall, self.options.stall_after)

    def _greeted(self, greeting: InitializeResult) -> InitializeResult:
        self.initialization = greeting
        self.features = Features(
            version=parse_version(greeting.claude_code_version),
            capabilities=frozenset(greeting.capabilities),
            greeted_with_pid=greeting.pid is not None,
        )
        return greeting

    async def aclose(self) -> None:
        """Stop a running turn, end the CLI in order, and leave nothing behind."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._stall is not None:
            self._stall.stop()
        self._inbox.close()
        if self._channel is not None:
            if not self.turns.idle and self._channel.takes_input:
                await self._stop_turn(self._channel)
            await self._channel.aclose(self.options.close_grace)
        try:
            ended = await asyncio.gather(
                *(host.aclose() for host in self._tools.values()), return_exceptions=True
            )
        finally:
            if self._launch is not None:
                self._launch.clean_up()
        for error in filter(None, ended):
            log.error("an in-process server failed to end", exc_info=error)

    async def _stop_turn(self, channel: Channel) -> None:
        # The end of its input alone does not stop a running turn.
        try:
            await channel.request(Interrupt(), INTERRUPT_ON_CLOSE)
        except (SessionEnded, ControlTimeout):
            return

    def close_input(self) -> None:
        """Say that no more will be said. The CLI finishes its work and ends by itself."""
        self._connected().close_input()

    # What it is

    @property
    def session_id(self) -> str | None:
        """The conversation's id: known before the start, except with `continue_latest`, and of a
        CLI that somebody else has started once its first turn has begun.

        /clear gives the conversation a new one.
        """
        return self._session_id

    @property
    def pid(self) -> int | None:
        """The CLI's process, once it was started."""
        return None if self._channel is None else self._channel.pid

    @property
    def version(self) -> Version | None:
        """The CLI's version; old ones tell it in their first turn only."""
        return self.features.version

    @property
    def idle(self) -> bool:
        """Nothing runs and nothing is queued; a background shell does not count."""
        return self.turns.idle

    @property
    def turns(self) -> TurnTracker:
        """The running turn, its tools and the background work, as followed so far."""
        return self._tracker if self._sink is None else self._sink.tracker

    @property
    def waiting_on(self) -> WaitingOn | None:
        """What the session waits for at this moment; None when it is idle."""
        if self._channel is not None:
            for message in self._channel.asked:
                waiting = _asked_for(message)
                if waiting is not None:
                    return waiting
        return self.turns.waiting_on()

    # Talking

    async def say(
        self,
        content: Content,
        *,
        uuid: str | None = None,
        priority: Priority | None = None,
        should_query: bool | None = None,
    ) -> Prompt:
        """Send a prompt, now or into a running turn. Await the result for its turn.

        With `should_query=False` it is only noted: on newer CLIs its turn ends at once, without
        the model.
        """
        composed = True if self.options.verbatim_prompts else None
        message = user_message(
            content, uuid, priority=priority, shouldQuery=should_query, client_composed=composed
        )
        channel = self._live()
        sent_before = self._sent_before(message["uuid"])
        if sent_before is not None:
            return sent_before
        channel.send_message(message)
        prompt = Prompt(message["uuid"])
        self._sent.add(prompt.uuid)
        self._prompts[prompt.uuid] = prompt
        if self._sink is None:
            is_echoed = should_query is not False and not is_command(content)
            self._tracker.prompt_sent(prompt.uuid, is_echoed=is_echoed)
        self._idle.clear()
        if self._stall is not None:
            self._stall.restart()
        await channel.drain()
        return prompt

    def _sent_before(self, uuid: str) -> Prompt | None:
        # A CLI takes each uuid once; a repetition starts nothing, and old ones say nothing.
        if uuid not in self._sent or uuid in self._prompts:
            return self._prompts.get(uuid)
        prompt = Prompt(uuid)
        prompt.settle(repetition(uuid))
        return prompt

    async def ask(self, content: Content) -> Turn:
        """Send a prompt and wait for its turn, reading what comes meanwhile.

        Where somebody else reads, it only waits.
        """
        prompt = await self.say(content)
        if self._inbox.is_read:
            return await prompt
        async with aclosing(self.read()) as events:
            async for event in events:
                if prompt.ends_with(event):
                    break
        return await prompt

    async def wait_idle(self) -> None:
        """Wait until nothing runs and nothing is queued: no turn, no subagent.

        A background shell does not count, for it may run for ever; the turn about its end does.
        """
        self._live()
        await self._idle.wait()
        self._live()

    def __aiter__(self) -> AsyncIterator[ClientEvent]:
        return self.read()

    def read(self) -> AsyncGenerator[ClientEvent]:
        """Everything the CLI writes, in order, from the oldest unread message on.

        It ends when the CLI ends, with `SessionEnded` if that was no orderly end.
        """
        return self._inbox.read()

    def stop_reading(self) -> None:
        """Let `read` end after what has come by now."""
        self._inbox.close()

    # Control

    async def request(
        self, request: Request[R], *, deadline: float | UnsetType | None = UNSET
    ) -> R:
        """Send one control request and wait for its typed answer.

        `deadline` is in seconds, None for no limit; otherwise the subtype's own holds.
        """
        subtype = request.subtype
        self._gate.check_request(subtype, request)
        self.features.check(subtype)
        if deadline is UNSET:
            deadline = deadline_for(subtype, self.options.deadlines)
        response = await self._live().request(request, deadline)
        if response.subtype != "error":
            return read_reply(request, response)
        error = response.error or "refused"
        if response.error_code == "unsupported_request" or error.startswith(
            "Unsupported control request"
        ):
            raise Unsupported(subtype, error, response.error_code)
        raise ControlError(subtype, error, response.error_code)

    async def cancel_prompt(self, uuid: str) -> bool:
        """Take back a queued prompt; False if it has left the queue."""
        cancelled = await super().cancel_prompt(uuid)
        if cancelled:
            if self._sink is None:
                self._tracker.prompt_cancelled(uuid)
            self._settle(taken_back(uuid))
            self._update_idle()
        return cancelled

    async def update_environment(self, variables: dict[str, str]) -> None:
        """Change the environment of the tools to come."""
        if self.version is None and self.features.answers_unknown_controls:
            await self._ask_version()
        if not self.features.applies_environment_updates:
            raise Unsupported(
                "update_environment_variables", "this CLI takes it without effect; use Options.env"
            )
        self._live().send_message(
            {"type": "update_environment_variables", "variables": dict(variables)}
        )

    async def _ask_version(self) -> None:
        # Only the newest CLIs tell it in their greeting; those that cannot be asked are old.
        with suppress(Unsupported):
            told = await self.binary_version()
            self.features = replace(self.features, version=parse_version(told.version))

    def keep_alive(self) -> None:
        """Send a sign of life. Every CLI takes it in silence."""
        self._live().send_message({"type": "keep_alive"})

    def _connected(self) -> Channel:
        if self._channel is None:
            raise UsageError("the client is not connected: use `async with`, or connect() first")
        return self._channel

    def _live(self) -> Channel:
        channel = self._connected()
        if channel.ended_by is not None:
            raise channel.ended_by
        return channel

    # What the channel tells

    def _put_unread(
        self,
        events: list[Message | LineRejected],
        kinds: set[type[Any]],
        lines: NumberedLines | None,
    ) -> Sequence[Turn]:
        """Put what arrived where `read` finds it; the turns that ended with it."""
        if kinds == REQUESTS_ALONE:
            # Their handlers need no reader, and are about to hear of them.
            self._inbox.put_soon(events)
            return ()
        self._inbox.put(events)
        return () if kinds.isdisjoint(TurnTracker.follows) else self._tracker.receive(events)

    def _follow(
        self,
        events: list[Message | LineRejected],
        kinds: set[type[Any]],
        turns: Sequence[Turn],
    ) -> None:
        if self._stall is not None:
            self._stall.restart()
        if kinds.isdisjoint(TurnTracker.follows):
            return
        for turn in turns:
            self._settle(turn)
        if InitMessage in kinds:
            self._learn(next(e for e in reversed(events) if isinstance(e, InitMessage)))
        self._update_idle()

    def _last_words(self) -> str:
        turn = self.last_turn
        return turn.text if turn is not None and turn.outcome == "failed" else ""

    def _ended(self, error: SessionEnded) -> None:
        for prompt in self._prompts.values():
            prompt.fail(error)
        self._prompts.clear()
        self._inbox.close(None if self._ended_in_order(error) else error)
        self._idle.set()
        if self._stall is not None:
            self._stall.stop()
        if self._launch is not None:
            # Nobody need close the client of a CLI that has ended.
            self._launch.clean_up()
        if self._sink is not None:
            self._sink.ended(error)

    def _ended_in_order(self, error: SessionEnded) -> bool:
        # A CLI whose input ended exits 1 if its last turn failed; that turn has told it already.
        reported = self.last_turn is not None and self.last_turn.outcome != "finished"
        return error.exit_code == 0 or (error.exit_code == 1 and reported)

    def _learn(self, init: InitMessage) -> None:
        if init.permission_mode == BYPASS and not self.options.allow_bypass:
            log.warning("the CLI's own settings put session %s in %s", init.session_id, BYPASS)
        self._session_id = init.session_id or self._session_id
        self.features = Features(
            version=parse_version(init.claude_code_version) or self.features.version,
            capabilities=frozenset(init.capabilities) | self.features.capabilities,
            greeted_with_pid=self.features.greeted_with_pid,
        )

    def _settle(self, turn: Turn) -> None:
        if turn.result is not None:
            self.last_turn = turn
        for uuid in turn.prompts:
            prompt = self._prompts.pop(uuid, None)
            if prompt is not None:
                prompt.settle(turn)

    def _update_idle(self) -> None:
        if self.turns.idle:
            self._idle.set()
        else:
            self._idle.clear()

    def _report_stall(self, seconds: float) -> None:
        waiting = self.waiting_on
        if waiting is not None:
            self._inbox.put([Stalled(seconds, waiting)])


def _asked_for(message: ControlRequest) -> WaitingOn | None:
    request: Any = message.request
    match request:
        case CanUseTool():
            return WaitingOn("person", request.tool_name)
        case Elicitation():
            return WaitingOn("person", request.mcp_server_name)
        case RequestUserDialog():
            return WaitingOn("person", request.dialog_kind)
        case HookCallback():
            return WaitingOn("hook", request.callback_id)
        case _:
            return None
