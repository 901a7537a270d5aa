"""What goes on in a session at this moment, read from the CLI's own lines.

Tools that run and the last that ran, background work, a retry, the last rate limit, and how full
the context is. Plain data that can be written down and read again.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any, Final, cast

from msgspec import Struct, field
from msgspec.structs import replace

from pilothouse.api.statuses import (
    ContextUsed,
    ModelSpent,
    RateLimit,
    Retry,
    SignIn,
    Subagent,
    Tokens,
    ToolRun,
)
from pilothouse.client.turns import AGENT, OpenTask, bounded_usd
from pilothouse.protocol import (
    ApiRetryMessage,
    AssistantMessage,
    AuthStatusMessage,
    CompactBoundaryMessage,
    ConversationResetMessage,
    Message,
    ModelUsage,
    PermissionDeniedMessage,
    RateLimitEvent,
    ResultMessage,
    StatusMessage,
    TaskProgressMessage,
    TaskStartedMessage,
    TextBlock,
    TokenUsage,
    ToolProgressMessage,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from pilothouse.protocol.wire import as_object, members

__all__ = [
    "RECENT",
    "Activity",
    "bounded",
    "headline",
    "last_line",
    "runs_in",
    "tokens_of",
    "usual_window",
]

RECENT: Final = 10
"""How many tools that ended are remembered."""

LINE: Final = 120
"""As much of a text as stands in a line."""

LAST_LINE: Final = 200
"""As much of the last line of a text as a row of a list has."""

USUAL_WINDOW: Final = 200_000
LARGE_WINDOW: Final = 1_000_000

SIGN_IN_LINES: Final = 10
"""How many lines of a sign-in are remembered."""

MAX_COUNT: Final = 10**12
"""The upper bound of a count: whatever a CLI reports, a database can still add the sums."""

SYNTHETIC: Final = "<synthetic>"
"""The model of what the CLI says in the model's name, of an API error say: no tokens at all."""

_TELLING: Final = (
    "command",
    "file_path",
    "notebook_path",
    "path",
    "url",
    "pattern",
    "query",
    "description",
    "prompt",
)


class Activity(Struct, omit_defaults=True):
    """Follows one session's lines."""

    running: dict[str, ToolRun] = field(default_factory=dict[str, ToolRun])
    recent: list[ToolRun] = field(default_factory=list[ToolRun])
    ended: int = 0
    """How many tools have ended, those that are not remembered as well."""
    subagents: dict[str, Subagent] = field(default_factory=dict[str, Subagent])
    inner: dict[str, Subagent] = field(default_factory=dict[str, Subagent])
    """Subagents that the turn itself waits for."""
    denied: set[str] = field(default_factory=set[str])
    """Tool uses that were denied and have not ended yet."""
    retry: Retry | None = None
    rate_limit: RateLimit | None = None
    model: str | None = None
    """The one that spoke last in the conversation itself."""
    line: str = ""
    """The last line of what was said in the conversation itself."""
    used: int | None = None
    window: int | None = None
    compacting: bool = False
    sign_in: SignIn | None = None
    task_calls: dict[str, str] = field(default_factory=dict[str, str])
    """Task -> the tool use it belongs to."""
    totals: dict[str, ModelSpent] = field(default_factory=dict[str, ModelSpent])
    """What the CLI that is alive has told of each model so far."""

    @property
    def context(self) -> ContextUsed | None:
        if self.used is None:
            return None
        percent = round(100 * self.used / self.window, 1) if self.window else None
        return ContextUsed(tokens=self.used, window=self.window, percent=percent)

    @property
    def at_hand(self) -> str:
        """What runs now, or else the last line of what was said."""
        if not self.running:
            return self.line
        run = next(reversed(self.running.values()))
        return last_line(f"{run.name}: {run.detail}" if run.detail else run.name)

    def follow(self, message: Message, at: int) -> None:
        """Take in a line; most kinds change nothing here."""
        step = _STEPS.get(type(message))
        if step is not None:
            step(self, message, at)

    def follow_tasks(self, tasks: Iterable[OpenTask], at: int) -> None:
        """Keep to the background work that goes on now."""
        before = self.subagents
        self.subagents = {
            task.task_id: before.get(task.task_id)
            or Subagent(
                id=task.task_id,
                kind=task.kind,
                description=headline(task.description),
                since=at,
                tool_use_id=self.task_calls.get(task.task_id),
            )
            for task in tasks
        }
        kept = self.task_calls.items()
        self.task_calls = {task: call for task, call in kept if task in self.subagents}

    def deny(self, tool_use_id: str) -> None:
        """Somebody said no to this tool use, now or after it had been given back as an error."""
        for place, run in enumerate(self.recent):
            if run.id == tool_use_id:
                self.recent[place] = replace(run, state="denied")
                return
        if tool_use_id in self.running:
            self.denied.add(tool_use_id)

    def keep_running(self, tools: Container[str]) -> None:
        """A turn is over: of its tools only these go on, in agents that run beside it."""
        for run in list(self.running.values()):
            if run.id not in tools:
                self._ended(run, is_error=True)

    def end(self) -> None:
        """The CLI is gone, and with it whatever ran."""
        self.keep_running(())
        self.subagents, self.task_calls = {}, {}
        self.totals = {}
        self.retry = None
        self.compacting = False

    # One step per kind of message

    def assistant(self, message: AssistantMessage, at: int) -> None:
        self.retry = None
        self.running.update({run.id: run for run in runs_in(message, at)})
        if message.parent_tool_use_id is not None:
            return
        for block in message.content:
            if isinstance(block, TextBlock):
                self.line = last_line(block.text) or self.line
        if message.message.model != SYNTHETIC:
            self.model = message.message.model
            self._context_of(message.message.usage)

    def user(self, message: UserMessage, _: int) -> None:
        if message.is_replay:
            return
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                run = self.running.get(block.tool_use_id)
                if run is not None:
                    self._ended(run, is_error=bool(block.is_error))

    def result(self, message: ResultMessage, _: int) -> None:
        self.retry = None
        self.compacting = False
        if not message.is_error:
            self.sign_in = None
        for denial in message.permission_denials:
            self.deny(denial.tool_use_id)
        self.window = self._window_of(message) or self.window

    def permission_denied(self, message: PermissionDeniedMessage, _: int) -> None:
        self.deny(message.tool_use_id)

    def api_retry(self, message: ApiRetryMessage, _: int) -> None:
        self.retry = Retry(
            attempt=bounded(message.attempt),
            max_retries=bounded(message.max_retries),
            delay_ms=bounded(message.retry_delay_ms),
            error=message.error,
            error_status=None if message.error_status is None else bounded(message.error_status),
        )

    def rate_limited(self, message: RateLimitEvent, at: int) -> None:
        info = as_object(members(message.raw).get("rate_limit_info"))
        self.rate_limit = RateLimit(at=at, info=info)

    def compacted(self, message: CompactBoundaryMessage, _: int) -> None:
        tokens = message.compact_metadata.post_tokens
        self.used = None if tokens is None else bounded(tokens)
        self.compacting = False

    def reset(self, _message: ConversationResetMessage, _: int) -> None:
        self.used = None
        self.totals = {}
        self.line = ""

    def status(self, message: StatusMessage, _: int) -> None:
        self.compacting = message.status == "compacting"

    def signed_in(self, message: AuthStatusMessage, at: int) -> None:
        is_over = not message.is_authenticating and message.error is None
        self.sign_in = (
            None
            if is_over
            else SignIn(
                at=at,
                is_signing_in=message.is_authenticating,
                output=[headline(each) for each in message.output[-SIGN_IN_LINES:]],
                error=None if message.error is None else headline(message.error),
            )
        )

    def tool_progress(self, message: ToolProgressMessage, _: int) -> None:
        run = self.running.get(message.tool_use_id)
        if run is not None:
            elapsed = round(min(max(message.elapsed_time_seconds, 0.0), float(MAX_COUNT)), 1)
            self.running[run.id] = replace(run, elapsed_s=elapsed)

    def task_started(self, message: TaskStartedMessage, at: int) -> None:
        call = message.tool_use_id
        if not call:
            return
        self.task_calls[message.task_id] = call
        if message.is_backgrounded is False and message.task_type == AGENT:
            self.inner[message.task_id] = Subagent(
                id=message.task_id,
                kind=AGENT,
                description=headline(message.description),
                since=at,
                tool_use_id=call,
            )

    def task_progress(self, message: TaskProgressMessage, _: int) -> None:
        found = self.inner if message.task_id in self.inner else self.subagents
        known = found.get(message.task_id)
        if known is None:
            return
        found[known.id] = replace(
            known,
            tool_use_id=message.tool_use_id or known.tool_use_id,
            last_tool=message.last_tool_name or known.last_tool,
            tool_uses=bounded(message.usage.tool_uses),
            tokens=bounded(message.usage.total_tokens),
            duration_ms=bounded(message.usage.duration_ms),
        )

    def spend(self, message: ResultMessage) -> dict[str, ModelSpent]:
        """What each model has used in the turn that ended with this result."""
        told = message.model_usage_since_last_result
        totals = {name: spent_of(usage) for name, usage in message.model_usage.items()}
        before, self.totals = self.totals, totals
        if told:
            return {name: spent_of(usage) for name, usage in told.items()}
        return {
            name: found
            for name, total in totals.items()
            if (found := _less(total, before.get(name))) != ModelSpent()
        }

    def _window_of(self, message: ResultMessage) -> int:
        # The small models that help along have windows of their own.
        windows = {name: usage.context_window for name, usage in message.model_usage.items()}
        own = [each for name, each in windows.items() if self.model and name.startswith(self.model)]
        return bounded(max(own or windows.values(), default=0))

    def _context_of(self, usage: TokenUsage | None) -> None:
        if usage is None:
            return
        tokens = tokens_of(usage)
        self.used = tokens.input + tokens.cache_read + tokens.cache_write or self.used

    def _ended(self, run: ToolRun, *, is_error: bool) -> None:
        del self.running[run.id]
        self.inner = {task: each for task, each in self.inner.items() if each.tool_use_id != run.id}
        state = "denied" if run.id in self.denied else "failed" if is_error else "completed"
        self.denied.discard(run.id)
        self.recent.append(replace(run, state=state))
        del self.recent[:-RECENT]
        self.ended = min(self.ended + 1, MAX_COUNT)


_Step = Callable[[Activity, Any, int], None]

_STEPS: Final[dict[type[Any], _Step]] = {
    ApiRetryMessage: Activity.api_retry,
    AssistantMessage: Activity.assistant,
    AuthStatusMessage: Activity.signed_in,
    CompactBoundaryMessage: Activity.compacted,
    ConversationResetMessage: Activity.reset,
    PermissionDeniedMessage: Activity.permission_denied,
    RateLimitEvent: Activity.rate_limited,
    ResultMessage: Activity.result,
    StatusMessage: Activity.status,
    TaskProgressMessage: Activity.task_progress,
    TaskStartedMessage: Activity.task_started,
    ToolProgressMessage: Activity.tool_progress,
    UserMessage: Activity.user,
}

FOLLOWED: Final = frozenset(_STEPS)
"""The kinds of message that change something here."""


def runs_in(message: AssistantMessage, at: int) -> list[ToolRun]:
    """The tools that begin with this message."""
    agent = message.parent_tool_use_id
    named = message.subagent_type or message.agent_id or agent
    return [
        ToolRun(
            id=block.id,
            name=block.name,
            state="running",
            detail=_detail(block.input),
            since=at,
            agent=named if agent is not None else None,
        )
        for block in message.content
        if isinstance(block, ToolUseBlock)
    ]


def usual_window(model: str) -> int | None:
    """The context of a model, until a result tells it: a plan is asked about before the first."""
    if not model:
        return None
    return LARGE_WINDOW if model.endswith("[1m]") else USUAL_WINDOW


def tokens_of(usage: TokenUsage) -> Tokens:
    """A count of the Messages API's in our words."""
    return Tokens(
        input=bounded(usage.input_tokens),
        output=bounded(usage.output_tokens),
        cache_read=bounded(usage.cache_read_input_tokens),
        cache_write=bounded(usage.cache_creation_input_tokens),
    )


def spent_of(usage: ModelUsage) -> ModelSpent:
    """What a CLI tells of a model in our words."""
    return ModelSpent(
        cost_usd=bounded_usd(usage.cost_usd),
        tokens=Tokens(
            input=bounded(usage.input_tokens),
            output=bounded(usage.output_tokens),
            cache_read=bounded(usage.cache_read_input_tokens),
            cache_write=bounded(usage.cache_creation_input_tokens),
        ),
    )


def _less(total: ModelSpent, before: ModelSpent | None) -> ModelSpent:
    """The difference of two totals; a total that is smaller was begun anew."""
    if before is None or total.tokens.output < before.tokens.output:
        return total
    one, other = total.tokens, before.tokens
    return ModelSpent(
        cost_usd=max(total.cost_usd - before.cost_usd, 0.0),
        tokens=Tokens(
            input=max(one.input - other.input, 0),
            output=one.output - other.output,
            cache_read=max(one.cache_read - other.cache_read, 0),
            cache_write=max(one.cache_write - other.cache_write, 0),
        ),
    )


def bounded(count: float | None) -> int:
    """A count of a CLI's that can be added to others."""
    return int(min(max(count or 0, 0), MAX_COUNT))


def headline(text: str) -> str:
    """The first line of a text, no longer than a line."""
    line = text.strip().partition("\n")[0].rstrip()
    return line if len(line) <= LINE else line[: LINE - 1] + "…"


def last_line(text: str) -> str:
    """The last line of a text that has something in it, as much as a row of a list has."""
    line = text.rstrip().rpartition("\n")[2].strip()
    return line if len(line) <= LAST_LINE else line[: LAST_LINE - 1] + "…"


def _detail(given: dict[str, Any]) -> str:
    for name in _TELLING:
        value = cast("object", given.get(name))
        if isinstance(value, str) and value.strip():
            return headline(value)
    return ""
