"""Work that goes on beside the turns, as the client and the model are told of it.

Each is a task with an id. The client is told when the list of tasks changes, when one starts, goes
on and ends; the model is told of an end by a turn of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, to_builtins

from pilothouse_sim.simulator.clock import now_ms
from pilothouse_sim.simulator.tally import Tally
from pilothouse_sim.simulator.tools.base import refused

if TYPE_CHECKING:
    from pathlib import Path

    from pilothouse_sim.simulator.outlet import Outlet
    from pilothouse_sim.simulator.tools.command import ShellCommand

__all__ = ["AgentNumbers", "Notice", "Progress", "SessionTasks", "Task"]

Notice = dict[str, Any]
"""What a turn of its own tells the model: `text`, and its `origin`."""


class AgentNumbers(Struct, kw_only=True):
    """The `subagent_stats` of a result."""

    spawned: int = 0
    requested: dict[str, int] = field(
        default_factory=lambda: {"background": 0, "foreground": 0, "unset": 0}
    )
    started_in_background: int = 0
    max_depth: int = 0
    spawned_by_subagents: int = 0
    completed: int = 0
    failed: int = 0
    killed: dict[str, int] = field(default_factory=lambda: {"parent": 0, "user": 0, "system": 0})
    refused: dict[str, int] = field(
        default_factory=lambda: {"depth_limit": 0, "concurrency_limit": 0, "budget": 0}
    )
    by_type: dict[str, int] = field(default_factory=dict[str, int])


class Task:
    """One piece of work, as far as the wire tells of it."""

    def __init__(self, id: str, run: str, kind: str, description: str, tool_use_id: str) -> None:
        self.id = id
        self.run_id = run
        self.kind = kind
        self.description = description
        self.tool_use_id = tool_use_id
        self.command = description
        self.output: Path | None = None
        self.about: dict[str, Any] = {}
        """What only sub-agents say of themselves."""
        self.is_background = True
        """Whether it goes on beside the turns; a turn waits for one that does not."""
        self.work: asyncio.Task[None] | None = None
        self.status = "running"

    @property
    def ids(self) -> dict[str, str]:
        """The names every line about the task has."""
        return {"task_id": self.id, "run_id": self.run_id}

    def listing(self) -> dict[str, Any]:
        """The task in a list of tasks."""
        return {**self.ids, "task_type": self.kind, **self.about, "description": self.description}

    def hook_entry(self) -> dict[str, Any]:
        """The task as Stop hooks are told of it."""
        entry = {"id": self.id, "status": self.status, "description": self.description}
        if self.kind == "local_agent":
            return entry | {"type": "subagent", "agent_type": self.about["subagent_type"]}
        return entry | {"type": "shell", "command": self.command}


class SessionTasks:
    """The session's background work; `notify` gets the news that the model is to hear."""

    def __init__(self, outlet: Outlet, notify: Callable[[Notice], None]) -> None:
        self._outlet = outlet
        self._notify = notify
        self._tasks: dict[str, Task] = {}
        self._finished: dict[str, Task] = {}
        self.numbers = AgentNumbers()

    @property
    def has_agents(self) -> bool:
        """Whether a sub-agent is at work."""
        return any(task.kind == "local_agent" for task in self._tasks.values())

    @property
    def are_running(self) -> bool:
        """Whether anything is at work."""
        return bool(self._tasks)

    def statistics(self) -> dict[str, Any]:
        """The `subagent_stats` of a result."""
        return to_builtins(self.numbers)

    def find(self, task_id: str) -> Task | None:
        """The task of this id, at work or done."""
        return self._tasks.get(task_id) or self._finished.get(task_id)

    def running(self) -> list[Task]:
        """The tasks at work beside the turns."""
        return [task for task in self._tasks.values() if task.is_background]

    # Commands

    def adopt(self, command: ShellCommand) -> None:
        """Take over a command that goes on in the background."""
        description = command.description or command.command
        task = Task(command.task_id, command.run_id, "local_bash", description, command.tool_use_id)
        task.command = command.command
        task.output = command.output_path
        self.start(task)
        task.work = asyncio.create_task(self._watch(task, command))

    async def _watch(self, task: Task, command: ShellCommand) -> None:
        try:
            code = await command.wait()
        except asyncio.CancelledError:
            command.kill()
            await asyncio.shield(command.process.wait())
            return
        finally:
            command.forget(output=False)
        status = "failed" if code else "completed"
        words = f"failed with exit code {code}" if code else "completed (exit code 0)"
        self.end(task, status, f'Background command "{task.description}" {words}')

    # Any task

    async def stop(self, task_id: str, *, by: str = "user") -> Task | None:
        """End a task and say so; the model is not told, and None when there is no such task."""
        task = self._tasks.get(task_id)
        if task is None or task.work is None:
            return None
        if task.kind == "local_agent":
            self.numbers.killed[by] += 1
        self._tell_end(task, "stopped", task.description)
        task.work.cancel()
        await asyncio.gather(task.work, return_exceptions=True)
        return task

    async def stop_for_model(self, task_id: str) -> dict[str, Any]:
        """End a task and return what TaskStop reports of it."""
        task = await self.stop(task_id, by="parent")
        if task is None:
            raise refused(f"No task found with ID: {task_id}")
        return {
            "message": f"Successfully stopped task: {task.id} ({task.command})",
            "task_id": task.id,
            "task_type": task.kind,
            "command": task.command,
        }

    async def stop_all(self) -> None:
        """End everything; nothing of it stays behind."""
        works = [task.work for task in self._tasks.values() if task.work is not None]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)

    def start(self, task: Task, **extra: Any) -> None:
        """List a task, and tell the client that it began."""
        self._tasks[task.id] = task
        if task.is_background:
            self.tell_list()
        self._outlet.system(
            "task_started",
            **task.ids,
            tool_use_id=task.tool_use_id,
            description=task.description,
            **task.about,
            is_backgrounded=task.is_background,
            task_type=task.kind,
            **extra,
        )

    def end(
        self, task: Task, status: str, summary: str, *, error: str | None = None, **extra: Any
    ) -> None:
        """Tell the client that a task is over, and the model if its turn did not wait for it."""
        self._tell_end(task, status, summary, error=error, **extra)
        if task.is_background:
            self._notify(_notice(task, status, summary))

    def _tell_end(
        self, task: Task, status: str, summary: str, *, error: str | None = None, **extra: Any
    ) -> None:
        del self._tasks[task.id]
        self._finished[task.id] = task
        task.status = status
        outlet = self._outlet
        wire = "killed" if status == "stopped" else status
        patch = {"status": wire, "end_time": now_ms(), **({"error": error} if error else {})}
        outlet.system("task_updated", **task.ids, patch=patch)
        outlet.system(
            "task_notification",
            **task.ids,
            tool_use_id=task.tool_use_id,
            status=status,
            output_file=str(task.output),
            summary=summary,
            **extra,
        )
        if task.is_background:
            self.tell_list()

    def tell_list(self) -> None:
        """Tell the client which tasks are at work."""
        tasks = [task.listing() for task in self.running()]
        self._outlet.system("background_tasks_changed", tasks=tasks)


class Progress:
    """Tells the client how a sub-agent gets on."""

    def __init__(self, outlet: Outlet, task: Task) -> None:
        self._outlet = outlet
        self._task = task
        self.tally = Tally()
        """The books of the agent's conversation."""
        self.called_tools: list[str] = []
        self.used: list[str] = []
        """The tools it has called, those left out that it does not have; each once."""
        self._began = time.monotonic()

    def called(self, name: str, arguments: dict[str, Any]) -> None:
        """Tell of a tool the agent calls."""
        self.called_tools.append(name)
        self._outlet.system(
            "task_progress",
            **self._task.ids,
            tool_use_id=self._task.tool_use_id,
            description=_activity(name, arguments),
            **self._task.about,
            usage=self.usage(),
            last_tool_name=name,
        )

    def uses(self, name: str) -> None:
        """Note that the agent has the tool that it calls."""
        if name not in self.used:
            self.used.append(name)

    def usage(self) -> dict[str, int]:
        """What the agent has used so far: its context, its calls, its time."""
        last = self.tally.last_usage
        return {
            "total_tokens": sum(last.values()),
            "tool_uses": len(self.called_tools),
            "duration_ms": int((time.monotonic() - self._began) * 1000),
        }


def _activity(name: str, arguments: dict[str, Any]) -> str:
    match name:
        case "Bash":
            return f"Running {arguments.get('description') or arguments.get('command', '')}"
        case "Read":
            return f"Reading {PurePath(arguments.get('file_path', '')).name}"
        case _:
            return name


def _notice(task: Task, status: str, summary: str) -> Notice:
    text = (
        f"<task-notification>\n<task-id>{task.id}</task-id>\n"
        f"<tool-use-id>{task.tool_use_id}</tool-use-id>\n<output-file>{task.output}</output-file>\n"
        f"<status>{status}</status>\n<summary>{summary}</summary>\n</task-notification>"
    )
    origin = {"kind": "task-notification", "producer": "session-task", "runId": task.run_id}
    return {"text": text, "origin": origin}
