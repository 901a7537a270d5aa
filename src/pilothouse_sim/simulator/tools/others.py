"""The smaller tools. What the simulator cannot do, it says, as the CLI would without a network."""

from __future__ import annotations

import time
from typing import Any, cast

import msgspec

from pilothouse_sim.simulator.tools import bash
from pilothouse_sim.simulator.tools.base import ToolFailure, ToolOutcome, ToolSurroundings, refused
from pilothouse_sim.simulator.tools.schemas import Issue, invalid

__all__ = [
    "check_cron_create",
    "check_cron_delete",
    "check_exit_worktree",
    "check_monitor",
    "check_skill",
    "check_task_stop",
    "check_workflow",
    "cron_list",
    "enter_worktree",
    "list_agents",
    "monitor",
    "not_simulated",
    "report_findings",
    "schedule_wakeup",
    "send_message",
    "task_stop",
    "web_fetch",
    "web_search",
]


async def not_simulated(_: dict[str, Any], __: ToolSurroundings) -> ToolOutcome:
    """Fail: nothing would come of the call."""
    raise ToolFailure("This is not simulated.")


def check_task_stop(arguments: dict[str, Any], _: ToolSurroundings) -> None:
    """Wants to know which task."""
    if not _task_of(arguments):
        raise refused("Missing required parameter: task_id")


def _task_of(arguments: dict[str, Any]) -> str:
    return str(arguments.get("task_id") or arguments.get("shell_id") or "")


async def task_stop(arguments: dict[str, Any], place: ToolSurroundings) -> ToolOutcome:
    """End a task in the background."""
    result = await place.stop_task(_task_of(arguments))
    return ToolOutcome(content=msgspec.json.encode(result).decode(), result=result)


def check_monitor(arguments: dict[str, Any], _: ToolSurroundings) -> None:
    """Wants one source of events."""
    if ("command" in arguments) == ("ws" in arguments):
        raise _custom("Monitor", "exactly one of command or ws")


async def monitor(arguments: dict[str, Any], place: ToolSurroundings) -> ToolOutcome:
    """Start a command whose lines are events."""
    if "command" not in arguments:
        raise ToolFailure("This is not simulated.")
    command = await bash.start(arguments, place)
    command.is_monitor = True
    place.adopt(command)
    limit = int(arguments.get("timeout_ms", 300_000))
    words = (
        f"Monitor started (task {command.task_id}, expires in {_span(limit)} unless the source "
        "ends first; you get one notice at expiry — re-arm if you still need the watch). You "
        "will be notified on each event. Keep working — do not poll or sleep. Events may arrive "
        "while you are waiting for the user — an event is not their reply."
    )
    result = {"taskId": command.task_id, "timeoutMs": limit, "persistent": False}
    return ToolOutcome(content=words, result=result)


def _span(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    return f"{seconds // 60}m" if seconds % 60 == 0 and seconds else f"{seconds}s"


async def report_findings(arguments: dict[str, Any], _: ToolSurroundings) -> ToolOutcome:
    """Take a list of findings."""
    findings = cast("list[Any]", arguments["findings"])
    count = len(findings)
    level = {"level": arguments["level"]} if "level" in arguments else {}
    words = f"{count or 'No'} finding{'' if count == 1 else 's'} reported."
    return ToolOutcome(content=words, result={"count": count, **level, "findings": findings})


async def list_agents(_: dict[str, Any], place: ToolSurroundings) -> ToolOutcome:
    """Knows of no other session."""
    own = place.session_id.replace("-", "")
    listing = (
        f"This session is {place.home_folder.name}-{own[:2]} [{own[:6]}] — the name other "
        "sessions use to message it.\n\nNo other session is running on this machine right now."
    )
    return ToolOutcome(content=listing, result={"listing": listing, "sections": [], "notes": []})


async def send_message(arguments: dict[str, Any], _: ToolSurroundings) -> ToolOutcome:
    """Reach nobody."""
    reason = f"o agent named '{arguments['to']}' is reachable."
    body = {
        "success": False,
        "message": f"N{reason}\nUse ListAgents to see everyone you can message.",
    }
    return ToolOutcome(
        content=[{"type": "text", "text": msgspec.json.encode(body).decode()}],
        result={**body, "display": f"Not sent — n{reason}"},
    )


def check_skill(arguments: dict[str, Any], _: ToolSurroundings) -> None:
    """Knows no skill."""
    raise refused(f"Unknown skill: {str(arguments['skill']).removeprefix('/')}")


def check_cron_create(arguments: dict[str, Any], _: ToolSurroundings) -> None:
    """Wants five fields."""
    if len(str(arguments["cron"]).split()) != 5:
        raise refused(
            f"Invalid cron expression '{arguments['cron']}'. Expected 5 fields: M H DoM Mon DoW."
        )


def check_cron_delete(arguments: dict[str, Any], _: ToolSurroundings) -> None:
    """Knows no job."""
    raise refused(f"No scheduled job with id '{arguments['id']}'")


async def cron_list(_: dict[str, Any], __: ToolSurroundings) -> ToolOutcome:
    """Has no jobs."""
    return ToolOutcome(content="No scheduled jobs.", result={"jobs": []})


async def schedule_wakeup(arguments: dict[str, Any], place: ToolSurroundings) -> ToolOutcome:
    """Never wakes anybody."""
    if not arguments.get("stop") and not ("delaySeconds" in arguments and "reason" in arguments):
        raise ToolFailure("`delaySeconds` and `reason` are required when `stop` is not true.")
    return await not_simulated(arguments, place)


async def web_fetch(arguments: dict[str, Any], _: ToolSurroundings) -> ToolOutcome:
    """Fetch nothing: the simulator has no network."""
    host = str(arguments["url"]).split("://", 1)[1].split("/", 1)[0].split(":", 1)[0]
    if "." not in host:
        raise ToolFailure(
            "WebFetch cannot fetch localhost or other hostnames without a dot. To reach a local "
            "server, use Bash with curl instead."
        )
    raise ToolFailure(
        f"Unable to verify if domain {host} is safe to fetch. This may be due to network "
        "restrictions or enterprise security policies blocking claude.ai."
    )


async def web_search(arguments: dict[str, Any], _: ToolSurroundings) -> ToolOutcome:
    """Find nothing: the simulator has no network."""
    began, query = time.monotonic(), str(arguments["query"])
    words = (
        f'Web search results for query: "{query}"\n\n\nREMINDER: You MUST include the sources '
        "above in your response to the user using markdown hyperlinks."
    )
    result: dict[str, Any] = {
        "query": query,
        "results": [],
        "durationSeconds": time.monotonic() - began,
        "searchCount": 0,
    }
    return ToolOutcome(content=words, result=result)


async def enter_worktree(_: dict[str, Any], __: ToolSurroundings) -> ToolOutcome:
    """Make no worktree."""
    raise ToolFailure(
        "Cannot create a worktree: not in a git repository and no WorktreeCreate hooks are "
        "configured. Configure WorktreeCreate/WorktreeRemove hooks in settings.json to use "
        "worktree isolation with other VCS systems."
    )


def check_exit_worktree(_: dict[str, Any], __: ToolSurroundings) -> None:
    """There is never one to leave."""
    raise refused(
        "No-op: there is no active EnterWorktree session to exit. This tool only operates on "
        "worktrees created by EnterWorktree in the current session — it will not touch worktrees "
        "created manually or in a previous session. No filesystem changes were made."
    )


def check_workflow(arguments: dict[str, Any], _: ToolSurroundings) -> None:
    """Knows no workflow."""
    if not any(key in arguments for key in ("script", "name", "scriptPath", "resumeFromRunId")):
        raise _custom("Workflow", "Must provide script, name, scriptPath, or runId")
    if "name" in arguments:
        raise refused(f'Workflow "{arguments["name"]}" not found. Available: deep-research')


def _custom(name: str, message: str) -> ToolFailure:
    issue: Issue = {"code": "custom", "path": [], "message": message}
    return invalid(name, [issue])
