"""The `system` messages on background tasks: shells, subagents, workflows."""

from __future__ import annotations

from msgspec import field

from .shared import McpResourceLink, SystemMessage
from .wire import Record, always

__all__ = [
    "BackgroundTask",
    "BackgroundTasksChangedMessage",
    "TaskNotificationMessage",
    "TaskPatch",
    "TaskProgressMessage",
    "TaskStartedMessage",
    "TaskSummaryMessage",
    "TaskUpdatedMessage",
    "TaskUsage",
]


class TaskStartedMessage(SystemMessage, tag="system"):
    """A task (shell, subagent, workflow) began."""

    subtype: str = always("task_started")
    task_id: str = always("")
    run_id: str | None = None
    tool_use_id: str | None = None
    description: str = always("")
    subagent_type: str | None = None
    is_backgrounded: bool | None = None
    spawn_depth: int | None = None
    parent_task_id: str | None = None
    task_type: str | None = None
    workflow_name: str | None = None
    prompt: str | None = None
    skip_transcript: bool | None = None
    ambient: bool | None = None


class TaskUsage(Record):
    """What a task has used so far."""

    total_tokens: int = always(0)
    tool_uses: int = always(0)
    duration_ms: float = always(0.0)


class TaskProgressMessage(SystemMessage, tag="system"):
    """A task reports what it has used and does."""

    subtype: str = always("task_progress")
    task_id: str = always("")
    run_id: str | None = None
    tool_use_id: str | None = None
    description: str = always("")
    subagent_type: str | None = None
    usage: TaskUsage = always(TaskUsage())
    last_tool_name: str | None = None
    summary: str | None = None


class TaskPatch(Record):
    """The members of a task that changed."""

    status: str | None = None
    description: str | None = None
    end_time: float | None = None
    total_paused_ms: float | None = None
    error: str | None = None
    is_backgrounded: bool | None = None


class TaskUpdatedMessage(SystemMessage, tag="system"):
    """A task changed. A killed task may end only here."""

    subtype: str = always("task_updated")
    task_id: str = always("")
    run_id: str | None = None
    patch: TaskPatch = always(TaskPatch())


class TaskNotificationMessage(SystemMessage, tag="system"):
    """A task ended."""

    subtype: str = always("task_notification")
    task_id: str = always("")
    run_id: str | None = None
    tool_use_id: str | None = None
    status: str = always("")
    reason: str | None = None
    output_file: str = always("")
    summary: str = always("")
    usage: TaskUsage | None = None
    resource_links: list[McpResourceLink] = field(default_factory=list)
    skip_transcript: bool | None = None
    ambient: bool | None = None


class BackgroundTask(Record):
    """A task running in the background."""

    task_id: str = always("")
    run_id: str | None = None
    task_type: str = always("")
    subagent_type: str | None = None
    description: str = always("")
    parent_task_id: str | None = None
    ambient: bool | None = None


class BackgroundTasksChangedMessage(SystemMessage, tag="system"):
    """The whole list of background tasks; replaces the one before."""

    subtype: str = always("background_tasks_changed")
    tasks: list[BackgroundTask] = always([])


class TaskSummaryMessage(SystemMessage, tag="system"):
    """A summary of a task. Its members are not documented: see `extra`."""

    subtype: str = always("task_summary")
