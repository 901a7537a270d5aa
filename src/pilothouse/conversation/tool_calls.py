"""The calls of tools: input, questions, progress, tasks, results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, Self, cast

from msgspec.structs import replace

from pilothouse.api.items import TaskRun, ToolItem
from pilothouse.protocol import (
    McpToolResultBlock,
    Message,
    PermissionDeniedMessage,
    ServerToolResultBlock,
    TaskNotificationMessage,
    TaskProgressMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
    ToolProgressMessage,
    ToolResultBlock,
    UserMessage,
)

from .bounds import count, members, shorten, text_of
from .store import ItemStore
from .tool_views import view_of_call, view_of_result

__all__ = ["ToolCalls"]

AGENTS: Final = frozenset({"Agent", "Task"})
"""The tool that starts subagents; older CLIs call it Task."""
STOPPED: Final = "this call was stopped while running"
"""In the result of a tool that an interrupt stopped."""


class ToolCalls:
    """Follows calls from the first piece of their input to their result."""

    def __init__(self, store: ItemStore) -> None:
        self._store = store
        self._open: dict[str, ToolItem] = {}
        """Calls without a result."""
        self._denied: dict[str, str] = {}
        """Calls that were refused, with the reason, until their result comes."""
        self._tasks: dict[str, str] = {}
        """The calls that started tasks which have not ended, by the task's id."""

    # The call

    def begin_writing(self, call: str, tool: str, agent: str | None, seq: int, at: int) -> None:
        """The model begins to write a call."""
        if call and self._store.get(call) is None:
            item = ToolItem(id=call, seq=seq, at=at, agent=agent, tool=tool, state="writing")
            self._open[call] = self._store.add(item)

    def write(self, call: str, characters: int) -> None:
        """The model has written more of the input."""
        item = self._open.get(call)
        if item is not None and item.state == "writing":
            item.written += characters
            self._store.mark(item, "written")

    def abandon(self, call: str) -> None:
        """A call that was being written does not come."""
        item = self._open.get(call)
        if item is not None and item.state == "writing":
            del self._open[call]
            self._store.remove(call)

    def call(
        self, call: str, tool: str, given: dict[str, Any], agent: str | None, seq: int, at: int
    ) -> ToolItem:
        """The call is complete."""
        item, view = self._open.get(call), view_of_call(tool, given)
        if item is None:
            item = self._open[call] = self._store.add(
                ToolItem(id=call, seq=seq, at=at, agent=agent, tool=tool, input=given, view=view)
            )
            return item
        state = "running" if item.state == "writing" else item.state
        self._store.change(
            item, seq=seq, at=at, tool=tool, input=given, state=state, written=0, view=view
        )
        return item

    # What happens to it

    def take(self, message: Message) -> bool:
        """Take in what the CLI says of a call or a task; False: it speaks of something else."""
        step = self._steps.get(type(message))
        if step is None:
            return False
        step(self, message)
        return True

    def ask(self, call: str | None, question: str) -> None:
        """A person is asked about the call."""
        item = self._open.get(call or "")
        if item is not None:
            self._store.change(item, question=question, state="asking")

    def answer(self, call: str | None, *, refused: bool, reason: str) -> None:
        """The question about the call is settled."""
        item = self._open.get(call or "")
        if item is None:
            return
        if refused:
            self._denied[item.id] = reason
        if item.state == "asking":
            self._store.change(item, state="running")

    def _refused(self, message: PermissionDeniedMessage) -> None:
        """The CLI refused a call without asking."""
        self._denied[message.tool_use_id] = message.decision_reason or message.message

    def _progress(self, message: ToolProgressMessage) -> None:
        """A call has run for some time."""
        call = message.parent_tool_use_id if message.heartbeat else message.tool_use_id
        item = self._open.get(call or "")
        if item is not None:
            self._store.change(item, elapsed_s=float(count(message.elapsed_time_seconds)))

    # Its result

    def results(self, message: UserMessage, seq: int, at: int) -> bool:
        """Take in the results that a line has; whether it has any."""
        found = [each for each in message.content if isinstance(each, ToolResultBlock)]
        # The tool's own form of its result stands beside the block, and there is only one.
        told = message.tool_use_result if len(found) == 1 else None
        for block in found:
            self._end(block.tool_use_id, block, block.text, told, seq, at)
        return bool(found)

    def api_result(
        self, block: ServerToolResultBlock | McpToolResultBlock, seq: int, at: int
    ) -> None:
        """Take in the result of a call that the API itself ran."""
        text = block.text if isinstance(block, McpToolResultBlock) else ""
        self._end(block.tool_use_id, block, text, block.content, seq, at)

    def _end(self, call: str, block: Any, text: str, told: Any, seq: int, at: int) -> None:
        item = self._open.pop(call, None)
        if item is None:
            return
        is_error = getattr(block, "is_error", None) is True
        reason = self._denied.pop(call, None)
        shown, cut = shorten(text)
        self._store.change(
            item,
            state=_state(is_error=is_error, denied=reason is not None, text=text),
            reason=reason or None,
            result=shown,
            result_seq=seq,
            cut=cut,
            images=_images(getattr(block, "content", None)),
            ended_at=at or None,
            view=view_of_result(item.tool, item.input, told, text, is_error=is_error),
            written=0,
        )
        if item.tool in AGENTS:
            self._end_agent(item, members(told))

    def _end_agent(self, item: ToolItem, told: dict[str, Any]) -> None:
        """What the result of a subagent says of its work."""
        if told.get("status") == "async_launched" or not told:
            return
        started = item.task or _agent_of(item)
        run = replace(
            started,
            id=text_of(told.get("agentId")) or started.id,
            type=text_of(told.get("agentType")) or started.type,
            state=text_of(told.get("status")) or "completed",
            tool_uses=count(told.get("totalToolUseCount")) or started.tool_uses,
            tokens=count(told.get("totalTokens")) or started.tokens,
            duration_ms=count(told.get("totalDurationMs")) or started.duration_ms,
        )
        self._store.change(item, task=run)

    # Tasks

    def _task_started(self, message: TaskStartedMessage) -> None:
        item = self._store.of_kind(message.tool_use_id, ToolItem)
        if item is None:
            return
        self._tasks[message.task_id] = item.id
        run = TaskRun(
            id=message.task_id,
            type=message.subagent_type or message.task_type or "",
            description=message.description,
            background=bool(message.is_backgrounded),
        )
        self._store.change(item, task=run)

    def _task_progress(self, message: TaskProgressMessage) -> None:
        item = self._task(message.task_id)
        if item is not None and item.task is not None:
            run = replace(
                item.task,
                last_tool=message.last_tool_name or item.task.last_tool,
                tool_uses=count(message.usage.tool_uses),
                tokens=count(message.usage.total_tokens),
                duration_ms=count(message.usage.duration_ms),
            )
            self._store.change(item, task=run)

    def _task_updated(self, message: TaskUpdatedMessage) -> None:
        item, patch = self._task(message.task_id), message.patch
        if item is not None and item.task is not None:
            run = replace(
                item.task,
                state=patch.status or item.task.state,
                description=patch.description or item.task.description,
                background=bool(patch.is_backgrounded) or item.task.background,
            )
            self._store.change(item, task=run)

    def _task_ended(self, message: TaskNotificationMessage) -> None:
        item = self._task(message.task_id) or self._store.of_kind(message.tool_use_id, ToolItem)
        self._tasks.pop(message.task_id, None)
        if item is None:
            return
        run = replace(
            item.task or replace(_agent_of(item), id=message.task_id),
            state=message.status or "completed",
            summary=shorten(message.summary)[0] or None,
        )
        if message.usage is not None:
            run = replace(
                run,
                tool_uses=count(message.usage.tool_uses),
                tokens=count(message.usage.total_tokens),
                duration_ms=count(message.usage.duration_ms),
            )
        self._store.change(item, task=run)

    def _task(self, task_id: str) -> ToolItem | None:
        return self._store.of_kind(self._tasks.get(task_id), ToolItem)

    # Ends

    def end_turn(self, denials: list[str], at: int) -> None:
        """The turn is over: what has no result by now gets none, but for subagents that go on."""
        running = {*self._tasks.values()}
        for item in list(self._open.values()):
            if item.agent not in running:
                self._stop(item, at)
        for call in denials:
            item = self._store.of_kind(call, ToolItem)
            if item is not None and item.state in ("failed", "interrupted"):
                self._store.change(item, state="denied")
        self._denied.clear()

    def end_cli(self, at: int) -> None:
        """The CLI is gone, and with it whatever ran."""
        for item in list(self._open.values()):
            self._stop(item, at)
        for call in self._tasks.values():
            item = self._store.of_kind(call, ToolItem)
            if item is not None and item.task is not None:
                self._store.change(item, task=replace(item.task, state="killed"))
        self._tasks.clear()

    def _stop(self, item: ToolItem, at: int) -> None:
        del self._open[item.id]
        if item.state == "writing":
            self._store.remove(item.id)
        else:
            self._store.change(item, state="interrupted", ended_at=at or None)

    _steps: ClassVar[dict[type[Message], Callable[[Self, Any], None]]] = {
        PermissionDeniedMessage: _refused,
        TaskNotificationMessage: _task_ended,
        TaskProgressMessage: _task_progress,
        TaskStartedMessage: _task_started,
        TaskUpdatedMessage: _task_updated,
        ToolProgressMessage: _progress,
    }


def _images(content: Any) -> int:
    """How many images a result has that the model is shown."""
    blocks = cast("list[Any]", content) if isinstance(content, list) else []
    return sum(members(each).get("type") == "image" for each in blocks)


def _agent_of(item: ToolItem) -> TaskRun:
    """The subagent, as the call of its tool describes it."""
    given = item.input
    return TaskRun(
        id="",
        type=text_of(given.get("subagent_type")),
        description=text_of(given.get("description")),
    )


def _state(*, is_error: bool, denied: bool, text: str) -> str:
    if not is_error:
        return "done"
    if STOPPED in text:
        return "interrupted"
    return "denied" if denied else "failed"
