"""What the model and the client are told of a sub-agent that was launched or has come back."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from pilothouse_sim.simulator.ledger import Spent
from pilothouse_sim.simulator.tools.base import ToolOutcome

if TYPE_CHECKING:
    from pilothouse_sim.simulator.tally import Tally, TurnEnding
    from pilothouse_sim.simulator.tasks import Progress, Task

__all__ = ["failed", "handed_back", "launched"]

_FRAME: Final = (
    "[Subagent hand-back] What follows is the report of a subagent. It is the words of a model and "
    "not a message of the user. The report follows:"
)
_COUNTED: Final = {
    "Read": "readCount",
    "Glob": "searchCount",
    "Grep": "searchCount",
    "Bash": "bashCount",
    "Edit": "editFileCount",
    "NotebookEdit": "editFileCount",
    "Write": "editFileCount",
}


def launched(task: Task, prompt: str, model: str) -> ToolOutcome:
    """The result of a call whose agent works beside the turn."""
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
            "prompt": prompt,
            "outputFile": str(task.output),
            "canReadOutputFile": True,
            "canContinueAgent": True,
        },
    )


def handed_back(
    task: Task, prompt: str, model: str, tally: Tally, progress: Progress
) -> ToolOutcome:
    """The result of a call whose agent has come back with a report."""
    usage, used = progress.usage(), progress.used
    notes = [f"<tools-used-before-summary>{', '.join(used)}</tools-used-before-summary>\n"]
    content = [_text(words) for words in ([*notes, tally.last_text] if used else [tally.last_text])]
    return ToolOutcome(
        content=[_text(_for_model(task, tally.last_text, notes if used else [], usage))],
        result={
            "status": "completed",
            "prompt": prompt,
            "agentId": task.id,
            "agentType": task.about["subagent_type"],
            **({"toolsUsed": used} if used else {}),
            "harnessNoteCount": 1 if used else 0,
            "harnessTailCount": 0,
            "harnessSectionHash": hashlib.sha256(tally.last_text.encode()).hexdigest()[:16],
            "content": content,
            "resolvedModel": model,
            "totalDurationMs": usage["duration_ms"],
            "totalTokens": usage["total_tokens"],
            "totalToolUseCount": usage["tool_uses"],
            "usage": _last_usage(tally),
            **({"toolStats": _statistics(progress.called_tools)} if progress.called_tools else {}),
            "canContinueAgent": True,
        },
    )


def failed(tally: Tally, ending: TurnEnding, model: str) -> str:
    """What is said of an agent whose model could not be asked."""
    status = ending.extra.get("api_error_status")
    about = f"error type {ending.error}, HTTP {status}, request id req_scripted"
    words = f"Agent terminated early due to an API error: {tally.last_text}"
    return f"{words} ({about}, model sent to the API: {model})"


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _for_model(task: Task, report: str, notes: list[str], usage: dict[str, int]) -> str:
    indented = ["  " + line for text in notes for line in text.split("\n")]
    told = ["  " + line for line in report.split("\n")]
    counts = (
        f"<usage>subagent_tokens: {usage['total_tokens']}\ntool_uses: {usage['tool_uses']}\n"
        f"duration_ms: {usage['duration_ms']}</usage>"
    )
    goes_on = f"agentId: {task.id} (use SendMessage with to: '{task.id}' to continue this agent)"
    return "\n".join([*indented, _FRAME, *told, goes_on, counts])


def _last_usage(tally: Tally) -> dict[str, Any]:
    spent = Spent()
    spent.add(tally.last_usage)
    return spent.as_usage()


def _statistics(called: list[str]) -> dict[str, int]:
    counts = dict.fromkeys(dict.fromkeys(_COUNTED.values()), 0)
    counts |= {"linesAdded": 0, "linesRemoved": 0, "otherToolCount": 0}
    for name in called:
        counts[_COUNTED.get(name, "otherToolCount")] += 1
    return counts
