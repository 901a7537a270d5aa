"""The kinds of sub-agents: with which prompt, tools and model each works, and how it is heard."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from pilothouse_sim.simulator import user_extensions

if TYPE_CHECKING:
    from pilothouse_sim.simulator.state import SessionState
    from pilothouse_sim.simulator.tasks import Progress

__all__ = ["AgentKind", "AgentPart", "find_kind"]

_FOR_SESSIONS: Final = frozenset(
    {"AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "ScheduleWakeup", "Workflow"}
)
"""Tools that no sub-agent has."""
_WRITING: Final = frozenset({"Agent", "Edit", "NotebookEdit", "Write"})
_LOOKERS: Final = frozenset({"Explore", "Plan"})
"""Agents of the CLI's own that change nothing."""


class AgentKind(Struct, frozen=True, kw_only=True):
    """One kind of sub-agents."""

    name: str
    prompt: str = ""
    tools: tuple[str, ...] | None = None
    """The tools it has; None stands for all."""
    denied: frozenset[str] = frozenset()
    model: str | None = None
    """The model it was given, if it does not use the session's."""
    is_background: bool = False
    """Whether it works beside the turn, whatever the call says."""

    def offered(self, names: Iterable[str]) -> list[str]:
        """Which of the session's tools it has."""
        return [name for name in names if self.may_use(name)]

    def may_use(self, name: str) -> bool:
        """Whether it has the tool of this name."""
        name = "Agent" if name == "Task" else name
        is_given = self.tools is None or name in self.tools
        return is_given and name not in self.denied and name not in _FOR_SESSIONS


class AgentPart(Struct, frozen=True, kw_only=True):
    """A sub-agent's part in a session: of which kind it is, and what the client hears of it."""

    kind: AgentKind
    progress: Progress
    is_background: bool
    is_heard: bool
    """Whether its words are passed on, and not only what it does with tools."""


def find_kind(state: SessionState, name: str) -> AgentKind | None:
    """The kind of this name, if the session has it."""
    if name not in state.agent_names():
        return None
    return _kind(name, _given(state, name))


def _given(state: SessionState, name: str) -> dict[str, Any]:
    """What the client or a file says of the kind; nothing of the CLI's own."""
    flags = user_extensions.read_agents(state.launch.agents)
    given = (state.options.get("agents") or flags).get(name)
    if given is not None:
        return given
    sources = state.launch.setting_sources
    for entry in user_extensions.own_agents(state.cwd, state.config_dir, sources):
        if entry["name"] == name:
            return {**entry, "prompt": user_extensions.read_front_matter(entry["path"])[1].strip()}
    [known] = [each for each in state.catalog.agents if each["name"] == name][:1]
    return {"model": known.get("model"), "disallowedTools": _WRITING if name in _LOOKERS else ()}


def _kind(name: str, given: dict[str, Any]) -> AgentKind:
    tools = _names(given.get("tools"))
    denied = frozenset(_names(given.get("disallowedTools")) or ())
    model = given.get("model")
    return AgentKind(
        name=name,
        prompt=given.get("prompt") or "",
        tools=None if tools is None or "*" in tools else tools,
        # What watches commands needs a shell.
        denied=denied | {"Monitor"} if "Bash" in denied else denied,
        model=None if model == "inherit" else model,
        is_background=given.get("background") in (True, "true"),
    )


def _names(given: Any) -> tuple[str, ...] | None:
    """A list of tools; in a file it is one line with commas."""
    if given is None:
        return None
    names = given.split(",") if isinstance(given, str) else given
    plain = [str(name).strip() for name in names]
    return tuple("Agent" if name == "Task" else name for name in plain if name)
