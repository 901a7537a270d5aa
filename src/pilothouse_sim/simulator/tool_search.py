"""ToolSearch: how the model finds tools that its requests do not describe at first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pilothouse_sim.simulator.tools.base import ToolOutcome

if TYPE_CHECKING:
    from pilothouse_sim.simulator.tally import Tally
    from pilothouse_sim.simulator.tool_calls import CalledTool
    from pilothouse_sim.simulator.toolbox import Toolbox

__all__ = ["ToolSearch"]

_DEFERRED: Final = frozenset(
    {
        "CronCreate",
        "CronDelete",
        "CronList",
        "EnterPlanMode",
        "EnterWorktree",
        "ExitPlanMode",
        "ExitWorktree",
        "Monitor",
        "NotebookEdit",
        "SendMessage",
        "TaskStop",
        "WebFetch",
        "WebSearch",
    }
)
"""Tools of the CLI's own that are described only when they were searched for."""
_MOST: Final = 5
"""How many tools a search finds unless it says otherwise."""


class ToolSearch:
    """Searches the session's tools."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox

    async def run(self, _: Tally, call: CalledTool, arguments: dict[str, Any]) -> ToolOutcome:
        """Find tools by their names or by words in these."""
        names, query = self._toolbox.names(), str(arguments["query"])
        deferred = [name for name in names if name in _DEFERRED or name.startswith("mcp__")]
        most = int(arguments.get("max_results") or _MOST)
        found = _selected(query, names) if _is_selection(query) else _ranked(query, deferred)[:most]
        references = [{"type": "tool_reference", "tool_name": name} for name in found]
        return ToolOutcome(
            content=references or "No matching deferred tools found",
            result={"matches": found, "query": query, "total_deferred_tools": len(deferred)},
        )


def _is_selection(query: str) -> bool:
    return query.startswith("select:")


def _selected(query: str, names: list[str]) -> list[str]:
    wanted = (name.strip() for name in query.removeprefix("select:").split(","))
    return [name for name in wanted if name in names]


def _ranked(query: str, names: list[str]) -> list[str]:
    """Names with one of the words in them, and with every word behind a `+`; the best first."""
    words = query.lower().split()
    needed = [word[1:] for word in words if word.startswith("+")]
    plain = [word.lstrip("+") for word in words]
    able = [name for name in names if all(word in name.lower() for word in needed)]
    score = {name: sum(word in name.lower() for word in plain) for name in able}
    return sorted((name for name in able if score[name]), key=lambda name: -score[name])
