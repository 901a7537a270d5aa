"""EnterPlanMode and ExitPlanMode: what the model is told; the mode itself is the session's."""

from __future__ import annotations

from typing import Any

from pilothouse_sim.simulator.tools.base import ToolOutcome, ToolSurroundings, refused

__all__ = ["check_exit", "enter", "leave"]

_ENTERED = (
    "Entered plan mode. You should now focus on exploring the codebase and designing an "
    "implementation approach."
)
_RULES = (
    "Look around and change nothing but the plan file. Ask when something is unclear, and call "
    "ExitPlanMode when the plan is ready to be approved."
)
_OUTSIDE = (
    "You are not in plan mode. To enter plan mode, call the EnterPlanMode tool first. If your "
    "plan was already approved, continue with implementation."
)


async def enter(_: dict[str, Any], __: ToolSurroundings) -> ToolOutcome:
    """Begin to plan."""
    return ToolOutcome(content=f"{_ENTERED}\n\n{_RULES}", result={"message": _ENTERED})


def check_exit(_: dict[str, Any], place: ToolSurroundings) -> None:
    """There is no plan to leave outside plan mode."""
    if place.mode != "plan":
        raise refused(_OUTSIDE)


async def leave(arguments: dict[str, Any], place: ToolSurroundings) -> ToolOutcome:
    """Tell the model that the plan was approved, and as what."""
    file = place.plan_file
    written = file.read_text() if file is not None and file.exists() else None
    plan = arguments.get("plan") or written
    edited = plan is not None and plan != written
    result: dict[str, Any] = {"plan": plan, "isAgent": False, "filePath": str(file)}
    if plan is None:
        words = "User has approved exiting plan mode. You can now proceed."
        return ToolOutcome(content=words, result=result)
    if edited:
        result["planWasEdited"] = True
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(plan)
    return ToolOutcome(content=_approved(plan, str(file), edited=edited), result=result)


def _approved(plan: str, file: str, *, edited: bool) -> str:
    heading = "## Approved Plan (edited by user):" if edited else "## Approved Plan:"
    return (
        "User has approved your plan. You can now start coding. Start with updating your todo "
        f"list if applicable\n\nYour plan has been saved to: {file}\nYou can refer back to it "
        f"if needed during implementation.\n\n{heading}\n{plan}"
    )
