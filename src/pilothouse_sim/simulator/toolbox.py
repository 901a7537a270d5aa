"""The tools of a session: which there are, whether a call makes sense, and carrying it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from pilothouse_sim.simulator import facts
from pilothouse_sim.simulator.tools import registry
from pilothouse_sim.simulator.tools.base import ToolFailure, ToolOutcome

if TYPE_CHECKING:
    from pilothouse_sim.simulator.mcp import McpServers
    from pilothouse_sim.simulator.plans import Plans
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.structured import Structure
    from pilothouse_sim.simulator.tally import Tally
    from pilothouse_sim.simulator.tool_calls import CalledTool

__all__ = ["Toolbox"]


OwnTool = Callable[["Tally", "CalledTool", dict[str, Any]], Awaitable[ToolOutcome]]


class Toolbox:
    """Built-in tools, tools of MCP servers, and those that the session itself carries out."""

    def __init__(
        self, state: SessionState, mcp: McpServers, plans: Plans, structure: Structure
    ) -> None:
        self._state = state
        self._mcp = mcp
        self._plans = plans
        self._structure = structure
        self._own: dict[str, OwnTool] = {}

    def register(self, name: str, tool: OwnTool) -> None:
        """Have a part of the state carry out the tool of this name."""
        self._own[name] = tool

    def names(self) -> list[str]:
        """The tools the model may call, as `init` lists them."""
        state = self._state
        return facts.tool_names(
            model_name=state.model_name,
            environment=state.environment,
            given=state.launch.tools,
            denied=[rule.tool for rule in state.permissions.rules["deny"] if not rule.content],
            can_ask=state.permissions.can_ask,
            bare=state.launch.bare,
            structured=state.launch.json_schema is not None,
            structured_later=state.schema is not None and state.launch.json_schema is None,
            resources=self._mcp.have_resources,
            mcp=self._mcp.tool_names(),
        )

    def shown(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A call's input as the assistant line has it."""
        if name == "ExitPlanMode":
            return self._plans.shown(arguments)
        if self._is_builtin(name):
            return registry.shown(name, arguments, self._state.place)
        return arguments

    def asked(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A call's input as the client is asked about it."""
        if name == "ExitPlanMode":
            return self._plans.asked(arguments)
        if self._is_builtin(name):
            return registry.asked(name, arguments, self._state.place)
        return arguments

    def is_concurrent(self, call: CalledTool) -> bool:
        """Whether a call may run beside its neighbours."""
        if self._mcp.has_tool(call.name):
            return self._mcp.is_concurrent(call.name)
        return registry.is_concurrency_safe(call.name, call.input)

    def check(self, call: CalledTool) -> dict[str, Any]:
        """The call's arguments in the tool's own types; raises `ToolFailure` if they do not fit."""
        state = self._state
        if self._mcp.has_tool(call.name):
            return call.input
        if call.name == "StructuredOutput" and state.schema is not None:
            return call.input
        is_plan = call.name == "ExitPlanMode"
        shown = (self.asked if is_plan else self.shown)(call.name, call.input)
        fitted = registry.validate(call.name, shown, self._known())
        state.place.mode = state.permissions.mode
        state.place.plan_file = self._plans.path
        state.permissions.plan_file = str(self._plans.path)
        registry.check(call.name, fitted, state.place)
        return fitted

    def answered(self, name: str, own: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """What runs when the client answers with this input: the model's own if it is the same."""
        if not self._is_builtin(name) or given == self.asked(name, own):
            return own
        return registry.find(name).validate_answer(given)

    def _known(self) -> list[str]:
        """The tools there are; the permissions tell of those that were taken away."""
        state = self._state
        withdrawn = [rule.tool for rule in state.permissions.rules["deny"]]
        return [*self.names(), *withdrawn, "AskUserQuestion", "ExitPlanMode"]

    async def run(self, tally: Tally, call: CalledTool, arguments: dict[str, Any]) -> ToolOutcome:
        """Carry out a call that may run."""
        state = self._state
        state.place.tool_use_id = call.id
        if self._mcp.has_tool(call.name):
            return await self._mcp.use(call.name, arguments, call.id)
        if call.name == "StructuredOutput":
            return self._structure.take(tally, arguments)
        if call.name in self._own:
            return await self._own[call.name](tally, call, arguments)
        outcome = await registry.find(call.name).run(arguments, state.place)
        if isinstance(outcome.result, dict):
            state.ledger.count_lines(cast("dict[str, Any]", outcome.result))
        self._plans.after(call.name)
        state.follow_shell()
        return outcome

    def _is_builtin(self, name: str) -> bool:
        try:
            registry.find(name)
        except ToolFailure:
            return False
        return True
