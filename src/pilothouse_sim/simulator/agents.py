"""Sub-agents: conversations of their own, beside the turn that sent them off or within it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse_sim.simulator.agent_kinds import AgentKind, AgentPart, find_kind
from pilothouse_sim.simulator.agent_loop import AgentLoop
from pilothouse_sim.simulator.agent_reports import failed, handed_back, launched
from pilothouse_sim.simulator.conversation import ModelConversation
from pilothouse_sim.simulator.prompts import ClientPrompt
from pilothouse_sim.simulator.tally import Aborted, Tally, TurnEnding
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

    async def launch(
        self, tally: Tally, call: CalledTool, arguments: dict[str, Any]
    ) -> ToolOutcome:
        """Send a sub-agent off; one that works in the foreground is waited for."""
        kind = self._kind(arguments)
        task = Task(agent_id(), run_id(), "local_agent", arguments["description"], call.id)
        task.about = {"subagent_type": kind.name}
        task.output = tasks_folder(self._state.place) / f"{task.id}.output"
        task.is_background = kind.is_background or arguments.get("run_in_background") is not False
        self._count(arguments, task)
        self._tasks.start(task, spawn_depth=1, prompt=arguments["prompt"])
        agent = _SubAgent(self._conversation(task, kind), Tally(), arguments["prompt"])
        if not task.is_background:
            agent.tally.denials = tally.denials
            return await self._stay(task, agent)
        task.work = asyncio.create_task(self._work(task, agent))
        outcome = launched(task, agent.prompt, agent.conversation.model)
        # The agent begins, and its hooks are called, before the launch is reported.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return outcome

    def _kind(self, arguments: dict[str, Any]) -> AgentKind:
        name = arguments.get("subagent_type") or "general-purpose"
        kind = find_kind(self._state, name)
        if kind is None:
            known = ", ".join(self._state.agent_names())
            raise ToolFailure(f"Agent type '{name}' not found. Available agents: {known}")
        model = arguments.get("model")
        return msgspec.structs.replace(kind, model=model) if model else kind

    def _count(self, arguments: dict[str, Any], task: Task) -> None:
        numbers, wish = self._tasks.numbers, arguments.get("run_in_background")
        kind = task.about["subagent_type"]
        numbers.spawned += 1
        numbers.started_in_background += task.is_background
        numbers.max_depth = 1
        numbers.requested[_WISHES.get(wish, "unset")] += 1
        numbers.by_type[kind] = numbers.by_type.get(kind, 0) + 1

    def _conversation(self, task: Task, kind: AgentKind) -> ModelConversation:
        labels = {
            "parent_tool_use_id": task.tool_use_id,
            "agent_id": task.id,
            **task.about,
            "task_description": task.description,
        }
        asked = self._state.launch.forward_subagent_text
        asked = asked or self._state.options.get("forwardSubagentText") is True
        part = AgentPart(
            kind=kind,
            progress=Progress(self._state.outlet, task),
            is_background=task.is_background,
            is_heard=task.is_background or asked,
        )
        return ModelConversation(self._state, self._transcript, self._mcp, Thread(labels), part)

    # Within the turn

    async def _stay(self, task: Task, agent: _SubAgent) -> ToolOutcome:
        """Wait for the agent, and pass on its report."""
        work = asyncio.create_task(self._converse(agent))
        try:
            ending = await asyncio.shield(work)
        except asyncio.CancelledError:
            agent.conversation.fall_silent()
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            self._tasks.numbers.killed["user"] += 1
            self._tasks.end(task, "stopped", task.description)
            raise
        model = agent.conversation.model
        if ending.reason == "api_error":
            words = failed(agent.tally, ending, model)
            self._fail(task, words)
            raise ToolFailure(words)
        self._complete(task, agent)
        return handed_back(task, agent.prompt, model, agent.tally, agent.progress)

    # Beside the turn

    async def _work(self, task: Task, agent: _SubAgent) -> None:
        try:
            ending = await self._converse(agent)
        except (Aborted, asyncio.CancelledError):
            return
        if ending.reason == "api_error":
            self._fail(task, failed(agent.tally, ending, agent.conversation.model))
        else:
            self._complete(task, agent)

    # Both

    async def _converse(self, agent: _SubAgent) -> TurnEnding:
        conversation, thread = agent.conversation, agent.conversation.thread
        loop = AgentLoop(
            conversation, self._state, self._transcript, self._requests, self._parts, self._tasks
        )
        prompt = ClientPrompt(content=agent.prompt)
        conversation.take_errand(prompt)
        self._transcript.prompt(thread, prompt)
        for context in await self._parts.hooks.agent_started(thread):
            conversation.add("system", context)
        return await loop.converse(agent.tally)

    def _complete(self, task: Task, agent: _SubAgent) -> None:
        self._tasks.numbers.completed += 1
        self._tasks.end(task, "completed", agent.tally.last_text, usage=agent.progress.usage())

    def _fail(self, task: Task, words: str) -> None:
        self._tasks.numbers.failed += 1
        self._tasks.end(task, "failed", words, error=words)


class _SubAgent:
    """One sub-agent at work."""

    def __init__(self, conversation: ModelConversation, tally: Tally, prompt: str) -> None:
        assert conversation.agent is not None
        self.conversation = conversation
        self.progress = conversation.agent.progress
        self.progress.tally = tally
        self.tally = tally
        self.prompt = prompt
