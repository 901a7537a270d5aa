"""One simulated session: its parts, made and given to each other, and its beginning and end.

Parts know the parts they were given and never the session. What stands above them is given the
session: turns, commands that a prompt is, control requests, and what resumes a conversation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pilothouse_sim.simulator import facts
from pilothouse_sim.simulator.activity import SessionActivity
from pilothouse_sim.simulator.agent_loop import AgentLoop
from pilothouse_sim.simulator.agents import Agents
from pilothouse_sim.simulator.checkpoints import Checkpoints
from pilothouse_sim.simulator.compaction import Compaction
from pilothouse_sim.simulator.conversation import ModelConversation
from pilothouse_sim.simulator.hooks.session import SessionHooks
from pilothouse_sim.simulator.hooks.tools import ToolHooks
from pilothouse_sim.simulator.mcp import McpServers
from pilothouse_sim.simulator.model_requests import ModelRequests
from pilothouse_sim.simulator.plans import Plans
from pilothouse_sim.simulator.prompt_queue import CurrentWork, PromptQueue
from pilothouse_sim.simulator.results import Results
from pilothouse_sim.simulator.state import SessionState
from pilothouse_sim.simulator.structured import Structure
from pilothouse_sim.simulator.tasks import SessionTasks
from pilothouse_sim.simulator.tool_permissions import ToolPermissions
from pilothouse_sim.simulator.tool_search import ToolSearch
from pilothouse_sim.simulator.tool_use import ToolParts
from pilothouse_sim.simulator.toolbox import Toolbox
from pilothouse_sim.simulator.transcript import MAIN, TranscriptFile

if TYPE_CHECKING:
    from pilothouse_sim.simulator.flags import LaunchFlags
    from pilothouse_sim.simulator.model import Model
    from pilothouse_sim.simulator.outlet import Outlet

__all__ = ["SimulatedSession"]


class SimulatedSession:
    """One conversation with one client."""

    def __init__(
        self, launch: LaunchFlags, environment: Mapping[str, str], outlet: Outlet, model: Model
    ) -> None:
        state = self.state = SessionState(launch, environment, outlet)
        self.model = model
        self.activity = SessionActivity(state)
        self.transcript = TranscriptFile(state)
        self.checkpoints = Checkpoints(state, self.transcript)
        self.hooks = SessionHooks(state, self.transcript)
        self.mcp = McpServers(state, self.hooks, self.activity)
        self.queue = PromptQueue(state, self.transcript, self.hooks, self.activity)
        self.work = CurrentWork(outlet, self.mcp, self.queue)
        self.tasks = SessionTasks(outlet, self.queue.notify)
        self.main = ModelConversation(state, self.transcript, self.mcp, MAIN)
        self.plans = Plans(state, self.main)
        structure = Structure(state)
        self.toolbox = Toolbox(state, self.mcp, self.plans, structure)
        self.requests = ModelRequests(state, model, self.toolbox, self.plans)
        self.compaction = Compaction(state, self.transcript, self.hooks, self.requests, self.main)
        self.results = Results(state, self.tasks, self.transcript)
        tool_hooks = ToolHooks(state, self.hooks, self.mcp)
        parts = ToolParts(
            toolbox=self.toolbox,
            permissions=ToolPermissions(state, tool_hooks, self.toolbox, self.mcp, self.activity),
            structure=structure,
            hooks=self.hooks,
            tool_hooks=tool_hooks,
        )
        self.agent_loop = AgentLoop(
            self.main,
            state,
            self.transcript,
            self.requests,
            parts,
            self.tasks,
            self.compaction,
            self.queue,
        )
        agents = Agents(state, self.transcript, self.mcp, self.tasks, self.requests, parts)
        for name in ("Agent", "Task"):
            self.toolbox.register(name, agents.launch)
        self.toolbox.register("ToolSearch", ToolSearch(self.toolbox).run)
        state.place.adopt = self.tasks.adopt
        state.place.stop_task = self.tasks.stop_for_model
        state.place.touched = self.checkpoints.touched
        self.began = time.monotonic()
        self.has_begun = False
        self._left = False

    def announce(self, uuids: list[str]) -> None:
        """Write the init line that opens a turn."""
        state = self.state
        fields = facts.init_fields(
            cwd=state.cwd,
            config_dir=state.config_dir,
            session_id=state.session_id,
            tools=self.toolbox.names(),
            mcp_servers=self.mcp.listing(),
            model_name=state.model_name,
            permission_mode=state.permissions.mode,
            catalog=state.catalog,
            environment=state.environment,
            output_style=state.desk.output_style,
            original_cwd=state.original_cwd,
            additional_directories=state.permissions.working_directories[1:],
            betas=state.launch.betas,
            bare=state.launch.bare,
        )
        names = {"user_message_uuids": list(uuids)} if uuids else {}
        state.outlet.system("init", **fields, **names)

    def settle(self) -> None:
        """Say `idle` if nothing is going on."""
        if not self.tasks.has_agents and not self._left:
            self.activity.settle()

    def begin_anew(self) -> None:
        """Forget the conversation and begin another one, under an id of its own."""
        self.transcript.begin_anew()
        self.state.begin_anew()
        self.main.forget()
        self.checkpoints.begin_anew()

    # The beginning and the end

    async def begin(self, source: str) -> None:
        """Call the hooks of the session's start, and start its servers."""
        state, transcript = self.state, self.transcript
        state.gather_customs()
        transcript.title = state.launch.name or transcript.title
        if transcript.title:
            state.desk.title = transcript.title
            state.outlet.system("session_title_changed", title=transcript.title)
        for context in await self.hooks.session_started(source):
            self.main.add("system", context)
        self.mcp.start()
        self.has_begun = True

    @property
    def exit_code(self) -> int:
        """0, or 1 if the last turn went wrong; one that the user stopped did not."""
        return int(self.results.last_was_error and not self._left)

    def leave(self) -> None:
        """End the turn that runs, and then the session."""
        self._left = True
        self.work.interrupt()
        self.queue.end_input()

    async def aclose(self) -> None:
        """Leave nothing running behind."""
        await self.tasks.stop_all()
        await self.hooks.session_ended("other")
        await self.hooks.aclose()
        await self.mcp.aclose()
        self.transcript.close()
