"""The tools of a session: which there are, whether a call makes sense, and carrying it out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from pilothouse_sim.simulator import facts
from pilothouse_sim.simulator.tools import registry
from pilothouse_sim.simulator.tools.base import ToolFailure, ToolOutcome

if TYPE_CHECKING:
    from pilothouse_sim.simulator.session import Session
    from pilothouse_sim.simulator.tool_use import Call, ToolUses

__all__ = ["Toolbox"]


class Toolbox:
    """Built-in tools, tools of MCP servers, and those that the session itself carries out."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def names(self) -> list[str]:
        """The tools the model may call, as `init` lists them."""
        session = self._session
        return facts.tool_names(
            model_name=session.model_name,
            environment=session.environment,
            given=session.launch.tools,
            denied=[rule.tool for rule in session.permissions.rules["deny"] if not rule.content],
            can_ask=session.permissions.can_ask,
            bare=session.launch.bare,
            structured=session.launch.json_schema is not None,
            structured_later=session.schema is not None and session.launch.json_schema is None,
            resources=session.mcp.have_resources,
            mcp=session.mcp.tool_names(),
        )

    def shown(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A call's input as the assistant line has it."""
        if name == "ExitPlanMode":
            return self._session.plans.shown(arguments)
        if self._is_builtin(name):
            return registry.shown(name, arguments, self._session.place)
        return arguments

    def asked(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A call's input as the client is asked about it."""
        if name == "ExitPlanMode":
            return self._session.plans.asked(arguments)
        if self._is_builtin(name):
            return registry.asked(name, arguments, self._session.place)
        return arguments

    def is_concurrent(self, call: Call) -> bool:
        """Whether a call may run beside its neighbours."""
        if self._session.mcp.has_tool(call.name):
            return self._session.mcp.is_concurrent(call.name)
        return registry.is_concurrency_safe(call.name, call.input)

    def check(self, call: Call) -> dict[str, Any]:
        """The call's arguments in the tool's own types; raises `ToolFailure` if they do not fit."""
        session = self._session
        if session.mcp.has_tool(call.name):
            return call.input
        if call.name == "StructuredOutput" and session.schema is not None:
            return call.input
        is_plan = call.name == "ExitPlanMode"
        shown = (self.asked if is_plan else self.shown)(call.name, call.input)
        fitted = registry.validate(call.name, shown, self._known())
        session.place.mode = session.permissions.mode
        session.place.plan_file = session.plans.path
        session.permissions.plan_file = str(session.plans.path)
        registry.check(call.name, fitted, session.place)
        return fitted

    def answered(self, name: str, own: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """What runs when the client answers with this input: the model's own if it is the same."""
        if not self._is_builtin(name) or given == self.asked(name, own):
            return own
        return registry.find(name).validate_answer(given)

    def _known(self) -> list[str]:
        """The tools there are; the permissions tell of those that were taken away."""
        session = self._session
        withdrawn = [rule.tool for rule in session.permissions.rules["deny"]]
        return [*self.names(), *withdrawn, "AskUserQuestion", "ExitPlanMode"]

    async def run(self, uses: ToolUses, call: Call, arguments: dict[str, Any]) -> ToolOutcome:
        """Carries out a call that may run."""
        session = self._session
        session.place.tool_use_id = call.id
        if session.mcp.has_tool(call.name):
            return await session.mcp.use(call.name, arguments, call.id)
        if call.name == "StructuredOutput":
            return session.structure.take(uses.tally, arguments)
        if call.name in ("Agent", "Task"):
            outcome = self._session.tasks.launch_agent(call, arguments)
            # The agent begins, and its hooks are called, before the launch is reported.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return outcome
        outcome = await registry.find(call.name).run(arguments, session.place)
        if isinstance(outcome.result, dict):
            session.ledger.count_lines(cast("dict[str, Any]", outcome.result))
        session.plans.after(call.name)
        session.follow_shell()
        return outcome

    def _is_builtin(self, name: str) -> bool:
        try:
            registry.find(name)
        except ToolFailure:
            return False
        return True
