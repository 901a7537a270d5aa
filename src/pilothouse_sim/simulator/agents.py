"""Sub-agents: conversations of their own, beside the turn that sent them off."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pilothouse_sim.simulator.agent_loop import AgentLoop
from pilothouse_sim.simulator.conversation import ModelConversation
from pilothouse_sim.simulator.prompts import ClientPrompt
from pilothouse_sim.simulator.tally import Aborted, Tally
from pilothouse_sim.simulator.tasks import Progress, Task
from pilothouse_sim.simulator.tools.base import ToolFailure, ToolOutcome
from pilothouse_sim.simulator.tools.bash import tasks_folder
from pilothouse_sim.simulator.tools.ids import agent_id, run_id
from pilothouse_sim.simulator.transcript import Thread

if TYPE_CHECKING:
    from pilothouse_sim.simulator.mcp import McpServers
    from pilothouse_sim.simulator.model_requests import ModelRequests
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.tasks import SessionTasks
    from pilothouse_sim.simulator.tool_calls import CalledTool
    from pilothouse_sim.simulator.tool_use import ToolParts
    from pilothouse_sim.simulator.transcript import TranscriptFile

__all__ = ["Agents"]

_WISHES: dict[Any, str] = {True: "background", False: "foreground"}


class Agents:
    """The session's sub-agents."""

    def __init__(
        self,
        state: SessionState,
        transcript: TranscriptFile,
        mcp: McpServers,
        tasks: SessionTasks,
        requests: ModelRequests,
        parts: ToolParts,
    ) -> None:
        self._state = state
        self._transcript = transcript
        self._mcp = mcp
        self._tasks = tasks
        self._requests = requests
        self._parts = parts

    async def launch(self, call: CalledTool, arguments: dict[str, Any]) -> ToolOutcome:
        """Send a sub-agent off and say so."""
        kind = arguments.get("subagent_type") or "general-purpose"
        if kind not in self._state.agent_names():
            known = ", ".join(self._state.agent_names())
            raise ToolFailure(f"Agent type '{kind}' not found. Available agents: {known}")
        task = Task(agent_id(), run_id(), "local_agent", arguments["description"], call.id)
        task.about = {"subagent_type": kind}
        task.output = tasks_folder(self._state.place) / f"{task.id}.output"
        self._count(arguments, kind)
        self._tasks.start(task, spawn_depth=1, prompt=arguments["prompt"])
        task.work = asyncio.create_task(self._work(task, arguments["prompt"]))
        outcome = _launched(task, arguments, self._state.model_name)
        # The agent begins, and its hooks are called, before the launch is reported.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return outcome

    def _count(self, arguments: dict[str, Any], kind: str) -> None:
        numbers, wish = self._tasks.numbers, arguments.get("run_in_background")
        numbers.spawned += 1
        numbers.started_in_background += 1
        numbers.max_depth = 1
        numbers.requested[_WISHES.get(wish, "unset")] += 1
        numbers.by_type[kind] = numbers.by_type.get(kind, 0) + 1

    async def _work(self, task: Task, prompt: str) -> None:
        labels = {
            "parent_tool_use_id": task.tool_use_id,
            "agent_id": task.id,
            **task.about,
            "task_description": task.description,
        }
        tally = Tally()
        progress = Progress(self._state.outlet, task, tally)
        state, transcript, thread = self._state, self._transcript, Thread(labels)
        conversation = ModelConversation(state, transcript, self._mcp, thread, progress)
        loop = AgentLoop(conversation, state, transcript, self._requests, self._parts, self._tasks)
        conversation.add("user", prompt)
        transcript.prompt(thread, ClientPrompt(content=prompt))
        try:
            for context in await self._parts.hooks.agent_started(thread):
                conversation.add("system", context)
            await loop.converse(tally)
        except (Aborted, asyncio.CancelledError):
            return
        self._tasks.numbers.completed += 1
        self._tasks.end(task, "completed", tally.last_text, usage=progress.usage())


def _launched(task: Task, arguments: dict[str, Any], model: str) -> ToolOutcome:
    words = (
        f"Async agent launched successfully. agentId: {task.id}. It works in the background; "
        f"you will be notified when it completes. output_file: {task.output}"
    )
    return ToolOutcome(
        content=[{"type": "text", "text": words}],
        result={
            "isAsync": True,
            "status": "async_launched",
            "agentId": task.id,
            "description": task.description,
            "resolvedModel": model,
            "prompt": arguments["prompt"],
            "outputFile": str(task.output),
            "canReadOutputFile": True,
            "canContinueAgent": True,
        },
    )
