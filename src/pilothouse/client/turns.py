"""Which turn answers which prompt, how it ended, and whether the CLI is idle.

Results and prompts are not one to one. A prompt that arrives while a tool runs is folded into
the running turn: two prompts, one result. Background work that ends starts a turn nobody asked
for: no prompt, one result. A prompt whose uuid the CLI has seen before starts nothing at all.

What the tracker rests on:
- Every CLI echoes each prompt, with our uuid, in the turn that takes it (`is_replay`). So the
  prompts echoed since the last result are those the next result answers. Newer CLIs name them
  in the result too (`user_message_uuids`) and report each prompt's life (`command_lifecycle`).
- A CLI is idle when every prompt is answered, no turn runs, no subagent is at work and no end of
  background work has been told that a turn is about to answer. A background shell may run for
  ever, and does not count. `session_state_changed` alone does not tell that: 2.1.92 to 2.1.176
  say `running` as long as a shell runs, 2.1.235 says `idle` while a subagent works.
- A result may be lost on its way, which is told. A CLI that says `idle` then has ended its turn.
- `total_cost_usd` counts from the start of the process, or of the conversation after /clear.

A message that cannot be followed is passed over: the next ones tell how it stands.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from pilothouse.protocol import (
    ApiRetryMessage,
    AssistantMessage,
    BackgroundTasksChangedMessage,
    CommandLifecycleMessage,
    ConversationResetMessage,
    InitMessage,
    LineRejected,
    Message,
    ResultMessage,
    SessionStateChangedMessage,
    TaskNotificationMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from pilothouse.protocol.wire import as_object

__all__ = [
    "MAX_COST_USD",
    "Followed",
    "OpenTask",
    "OpenTool",
    "Outcome",
    "Stalled",
    "Turn",
    "TurnTracker",
    "WaitingOn",
    "bounded_usd",
]

log = logging.getLogger("pilothouse")

Outcome = Literal["finished", "interrupted", "failed", "cancelled"]

INTERRUPTION = "[Request interrupted by user"
"""What every CLI writes as a user line when a turn is interrupted; 2.1.37 has no other sign."""

MAX_COST_USD = 1e9
"""What one turn may cost: whatever a CLI says, sums stay finite and nobody is paid."""

LOST = "the line with its result was lost"

AGENT = "local_agent"
WAITED_FOR = frozenset({AGENT, "local_workflow", ""})
"""Background work that reports back to the model, and what may be such."""

TASK_REPORTED = frozenset({"completed", "failed"})
TASK_STOPPED = frozenset({"killed", "stopped"})
TASK_ENDED = TASK_REPORTED | TASK_STOPPED


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn that ended.

    `finished`      the model came to its end
    `interrupted`   stopped by an interrupt, or by a denial that stops
    `failed`        an API error, a limit reached, an internal error: see `reason`
    `cancelled`     the prompt never got a turn: taken back, or a repetition of an earlier uuid
    """

    outcome: Outcome
    reason: str
    prompts: tuple[str, ...]
    """The uuids of the prompts it answered, in the order in which they were sent; none if the CLI
    started the turn by itself."""
    result: ResultMessage | None
    cost_usd: float
    """What this turn cost, where the CLI only tells the sum so far."""

    @property
    def text(self) -> str:
        """The final text, or what went wrong."""
        if self.result is None:
            return ""
        return self.result.result or "\n".join(self.result.errors)

    @property
    def structured_output(self) -> Any:
        return self.result.structured_output if self.result else None


@dataclass(frozen=True, slots=True)
class OpenTask:
    """Work that goes on beside the turns: a background shell, a sub-agent, a workflow."""

    task_id: str
    kind: str
    description: str
    tool_use_id: str = ""
    """The tool call that may still stand for it; empty once it is surely beside the turns."""


@dataclass(frozen=True, slots=True)
class WaitingOn:
    """What a session that says nothing waits for."""

    what: Literal["api", "tool", "person", "hook", "background"]
    detail: str


@dataclass(frozen=True, slots=True)
class Stalled:
    """A running session has been silent for `seconds`."""

    seconds: float
    waiting_on: WaitingOn


@dataclass(slots=True)
class OpenTool:
    """A tool that was called and has not given a result."""

    name: str
    in_subagent: bool


@dataclass(slots=True)
class Followed:
    """All that a tracker knows of a CLI: plain data, which can be written down and read again."""

    state: str | None = None
    """What it said of itself last; None where it says nothing."""
    cost_usd: float = 0.0
    """Its total so far."""
    running: bool = False
    tasks: dict[str, OpenTask] = field(default_factory=dict[str, OpenTask])
    tools: dict[str, OpenTool] = field(default_factory=dict[str, OpenTool])
    unanswered: dict[str, bool] = field(default_factory=dict[str, bool])
    """The prompts it has, and whether it will echo them."""
    echoed: list[str] = field(default_factory=list[str])
    interrupted: bool = False
    unasked: bool = False
    announced: bool = False
    """Background work has ended, and the turn about it has not begun."""
    spoken: bool = False
    lost: list[str] | None = None
    """The prompts it had when lines of it were lost; None: nothing that matters was."""
    retry: str = ""

    @property
    def is_resting(self) -> bool:
        """Whether it is between two turns, and nothing is noted for the next."""
        return self == Followed(self.state, self.cost_usd)


class TurnTracker:
    """Follows one CLI's messages. Pure: no clock, no I/O."""

    def __init__(self, *, echoes: bool = True) -> None:
        """`echoes`: the CLI was started so that it echoes prompts; False if that is not known."""
        self.running = False
        self._echoes = echoes
        self.begun = False
        """The CLI works on the turn that runs. Before that it ignores an interrupt."""
        self.tasks: dict[str, OpenTask] = {}
        self.tools: dict[str, OpenTool] = {}
        self._unanswered: dict[str, bool] = {}
        self._echoed: list[str] = []
        self._state: str | None = None
        self._interrupted = False
        self._unasked = False
        self._announced = False
        self._spoken = False
        self._lost: list[str] | None = None
        self._retry = ""
        self._cost = 0.0
        self._ended: list[Turn] = []

    @classmethod
    def going_on(cls, followed: Followed) -> TurnTracker:
        """Go on where another tracker was."""
        tracker = cls()
        tracker.running = tracker.begun = followed.running
        tracker.tasks, tracker.tools = dict(followed.tasks), dict(followed.tools)
        tracker._unanswered, tracker._echoed = dict(followed.unanswered), list(followed.echoed)
        tracker._state, tracker._cost = followed.state, followed.cost_usd
        tracker._interrupted, tracker._unasked = followed.interrupted, followed.unasked
        tracker._spoken, tracker._lost = followed.spoken, followed.lost
        tracker._retry, tracker._announced = followed.retry, followed.announced
        return tracker

    def followed(self) -> Followed:
        """What `going_on` needs."""
        return Followed(
            state=self._state,
            cost_usd=self._cost,
            running=self.running,
            tasks=dict(self.tasks),
            tools=dict(self.tools),
            unanswered=dict(self._unanswered),
            echoed=list(self._echoed),
            interrupted=self._interrupted,
            unasked=self._unasked,
            announced=self._announced,
            spoken=self._spoken,
            lost=self._lost,
            retry=self._retry,
        )

    @property
    def reports_idle(self) -> bool:
        """Whether this CLI says itself when it is idle."""
        return self._state is not None

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing is queued; a background shell does not count."""
        if self._unanswered or self._announced or self.running:
            return False
        if any(task.kind in WAITED_FOR for task in self.tasks.values()):
            return False
        # Between a result and `idle` a queued turn may begin, unless a shell keeps `idle` back.
        return self._state in (None, "idle") or bool(self.tasks)

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Prompts sent that no turn has answered yet, oldest first."""
        return tuple(self._unanswered)

    def prompt_sent(self, uuid: str, *, is_echoed: bool = True) -> None:
        """Note a prompt; slash commands are not echoed by every CLI."""
        self._unanswered[uuid] = is_echoed

    def prompt_cancelled(self, uuid: str) -> list[Turn]:
        """The CLI gave a queued prompt back. Only newer ones also say so in `command_lifecycle`."""
        if uuid not in self._unanswered:
            return []
        del self._unanswered[uuid]
        return [taken_back(uuid)]

    def lines_lost(self) -> None:
        """Note that lines of the CLI's have not come, and never will."""
        if self.running or self._unanswered:
            self._lost = list(self._unanswered)

    def receive(self, messages: Sequence[Message | LineRejected]) -> list[Turn]:
        """Follow messages in their order; the turns that ended with them."""
        follow = self._follow.get
        for message in messages:
            step = follow(type(message))
            if step is not None:
                try:
                    step(self, message)
                except Exception:
                    log.exception("a line of the CLI's cannot be followed")
        if not self._ended:
            return []
        ended, self._ended = self._ended, []
        return ended

    def waiting_on(self) -> WaitingOn | None:
        """What the CLI waits for now, as far as its own messages tell."""
        if self.running or self._unanswered or self._announced:
            if self.tools:
                return WaitingOn("tool", ", ".join(tool.name for tool in self.tools.values()))
            return WaitingOn("api", self._retry or "the model's answer")
        if self.tasks:
            names = (task.description or task.kind for task in self.tasks.values())
            return WaitingOn("background", ", ".join(names))
        return None

    # One step per kind of message

    def _init(self, _: InitMessage) -> None:
        self.running = self.begun = True
        self._announced = False

    def _state_changed(self, message: SessionStateChangedMessage) -> None:
        self._state = message.state
        self._announced = False
        self.running = message.state != "idle"
        if self._lost is not None and not self.running:
            self._end_without_result(self._lost)

    def _end_without_result(self, had: list[str]) -> None:
        """Take the turn for ended whose result must have been among the lines that were lost.

        The echoes may have been among them, too: what it had by then, it has answered.
        """
        taken = {*self._echoed, *had}
        answered = tuple(uuid for uuid in self._unanswered if uuid in taken)
        for uuid in answered:
            del self._unanswered[uuid]
        if answered:
            self._ended.append(Turn("failed", LOST, answered, None, 0.0))
        self._begin_anew()

    def _rejected(self, message: LineRejected) -> None:
        if message.size:
            self.lines_lost()

    def _api_retry(self, message: ApiRetryMessage) -> None:
        cause = message.error_status or "no connection"
        times = f"retry {message.attempt} of {message.max_retries}"
        self._retry = f"{times} after {message.error} ({cause})"

    def _assistant(self, message: AssistantMessage) -> None:
        self._retry = ""
        self._spoken |= message.parent_tool_use_id is None
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                inner = message.parent_tool_use_id is not None
                self.tools[block.id] = OpenTool(block.name, inner)

    def _user(self, message: UserMessage) -> None:
        if message.is_replay:
            self._echoes = True
            if message.uuid in self._unanswered:
                self._echo(message.uuid)
            return
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                self.tools.pop(block.tool_use_id, None)
                if self.tasks:
                    self._end_inner_agents(block.tool_use_id, message)
            elif isinstance(block, TextBlock) and block.text.startswith(INTERRUPTION):
                self._interrupted |= message.parent_tool_use_id is None

    def _end_inner_agents(self, tool_use_id: str, message: UserMessage) -> None:
        """Take a subagent for ended whose call has its result: 2.1.45 to 2.1.68 say no more."""
        inner = [task for task in self.tasks.values() if task.tool_use_id == tool_use_id]
        if not inner:
            return
        told = as_object(message.tool_use_result)
        goes_on = told.get("isAsync") or str(told.get("status", "")).endswith("_launched")
        for task in inner:
            if goes_on:
                self.tasks[task.task_id] = replace(task, tool_use_id="")
            else:
                del self.tasks[task.task_id]

    def _echo(self, uuid: str) -> None:
        # No turn runs and none was announced: the CLI knows this uuid, from the transcript it
        # resumed say, and starts nothing.
        if not self.running and self._state in (None, "idle"):
            del self._unanswered[uuid]
            self._ended.append(repetition(uuid))
        else:
            self._echoed.append(uuid)

    def _lifecycle(self, message: CommandLifecycleMessage) -> None:
        # After a result the prompt is answered already; without one it never had a turn.
        uuid = message.command_uuid
        if message.state == "started" and uuid not in self._unanswered:
            # A command of the CLI's own: `set_cwd` runs one, with a result of its own.
            self._unasked = True
        if message.state in ("completed", "cancelled") and uuid in self._unanswered:
            if uuid in self._echoed:
                return
            del self._unanswered[uuid]
            is_repeated = message.state == "completed"
            self._ended.append(repetition(uuid) if is_repeated else taken_back(uuid))

    def _result(self, message: ResultMessage) -> None:
        # 2.1.235 echoes merged prompts with the last one first: the order is that of the sending.
        named = {*message.user_message_uuids, message.user_message_uuid, *self._echoed}
        answered = tuple(uuid for uuid in self._unanswered if uuid in named)
        if not answered and not message.origin and not self._unasked:
            answered = self._without_echo()
        for uuid in answered:
            del self._unanswered[uuid]
        outcome, reason = classify(message, interrupted=self._interrupted)
        cost = self._cost_of(message)
        self._ended.append(Turn(outcome, reason, answered, message, cost))
        self._cost = bounded_usd(message.total_cost_usd)
        self._begin_anew()
        self.running = False

    def _begin_anew(self) -> None:
        # Neither does one that was interrupted inside its turn tell that it has ended.
        self.tasks = {key: task for key, task in self.tasks.items() if not task.tool_use_id}
        self._echoed.clear()
        self._spoken = self._interrupted = self._unasked = self.begun = False
        self._announced = False
        self._lost = None
        self._retry = ""
        # An agent that was killed writes no results for the tools it had open.
        agents = self.tools.items() if self.tasks else ()
        self.tools = {key: tool for key, tool in agents if tool.in_subagent}

    def _without_echo(self) -> tuple[str, ...]:
        """The prompt a result must belong to although no echo told so."""
        for uuid, is_echoed in self._unanswered.items():
            # The echo comes with the first words of the model; a turn may end before it.
            if not (is_echoed and self._echoes and self._spoken):
                return (uuid,)
        return ()

    def _cost_of(self, message: ResultMessage) -> float:
        # Newer CLIs tell it; their total goes on from what a resumed session had cost before.
        told = message.model_usage_since_last_result
        if told:
            return bounded_usd(sum(bounded_usd(usage.cost_usd) for usage in told.values()))
        return bounded_usd(bounded_usd(message.total_cost_usd) - self._cost)

    def _reset(self, _: ConversationResetMessage) -> None:
        self._cost = 0.0

    def _tasks_changed(self, message: BackgroundTasksChangedMessage) -> None:
        before = self.tasks
        self.tasks = {
            task.task_id: OpenTask(task.task_id, task.task_type, task.description)
            for task in message.tasks
            if not task.ambient
        }
        # 2.1.235 takes an agent from the list before it tells how it has ended.
        gone = (task.kind for key, task in before.items() if key not in self.tasks)
        self._announced |= not self.running and AGENT in gone

    def _task_started(self, message: TaskStartedMessage) -> None:
        # A foreground tool is a task too on newer CLIs; its tool call already stands for it.
        if message.is_backgrounded is False or message.ambient:
            return
        kind, inner = message.task_type or "", ""
        if message.is_backgrounded is None and kind == AGENT and message.tool_use_id in self.tools:
            # It may run inside the turn: how its call ends will tell.
            inner = message.tool_use_id
        self.tasks[message.task_id] = OpenTask(message.task_id, kind, message.description, inner)

    def _task_notified(self, message: TaskNotificationMessage) -> None:
        # When no turn runs, this is what starts one, unless somebody stopped the task.
        self._unasked |= not self.running
        is_reported = message.status in TASK_REPORTED and not message.ambient
        self._announced = is_reported and not self.running
        self.tasks.pop(message.task_id, None)

    def _task_updated(self, message: TaskUpdatedMessage) -> None:
        if message.patch.status in TASK_STOPPED:
            self._announced = False
        task = self.tasks.get(message.task_id)
        if task is None:
            return
        if message.patch.status in TASK_ENDED:
            del self.tasks[message.task_id]
        elif message.patch.is_backgrounded:
            self.tasks[message.task_id] = replace(task, tool_use_id="")

    _follow: ClassVar[dict[type[Any], Callable[[TurnTracker, Any], None]]] = {
        ApiRetryMessage: _api_retry,
        AssistantMessage: _assistant,
        BackgroundTasksChangedMessage: _tasks_changed,
        CommandLifecycleMessage: _lifecycle,
        ConversationResetMessage: _reset,
        InitMessage: _init,
        LineRejected: _rejected,
        ResultMessage: _result,
        SessionStateChangedMessage: _state_changed,
        TaskNotificationMessage: _task_notified,
        TaskStartedMessage: _task_started,
        TaskUpdatedMessage: _task_updated,
        UserMessage: _user,
    }
    follows: ClassVar[frozenset[type[Any]]] = frozenset(_follow)
    """The kinds of message that tell it something."""


def bounded_usd(told: float) -> float:
    """An amount of money that can be added to others."""
    return min(max(0.0, told), MAX_COST_USD)


def repetition(uuid: str) -> Turn:
    """What becomes of a prompt whose uuid the CLI has taken before."""
    return Turn("cancelled", "duplicate", (uuid,), None, 0.0)


def taken_back(uuid: str) -> Turn:
    """What becomes of a prompt that is cancelled before a turn has taken it."""
    return Turn("cancelled", "cancelled", (uuid,), None, 0.0)


def classify(result: ResultMessage, *, interrupted: bool) -> tuple[Outcome, str]:
    """How a turn ended, and the CLI's word for why.

    No field alone tells: an API error is a `success` with `is_error`, and 2.1.37 has no
    `terminal_reason` and reports an interrupt or a reached limit as no error.
    """
    reason = result.terminal_reason or result.subtype
    if reason.startswith("aborted"):
        return "interrupted", reason
    if interrupted and not result.terminal_reason and result.subtype == "error_during_execution":
        return "interrupted", reason
    if result.subtype != "success":
        return "failed", reason
    if result.is_error:
        # 2.1.119 gives "completed" as the reason of an API error.
        return "failed", "api_error" if reason in ("completed", "success") else reason
    return "finished", "completed" if reason == "success" else reason
