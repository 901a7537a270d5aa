"""Every tool the simulated CLI has: what it takes, what it does, and how it is listed.

A call goes through `find`, `Tool.validate` and `Tool.check` before anybody is asked whether it
may run; each of them raises ToolFailure with what the model reads.
"""

from __future__ import annotations

import re
from collections.abc import Container
from importlib import import_module
from typing import Any, cast

from msgspec import Struct

from pilothouse_sim.simulator.tools import questions, schemas
from pilothouse_sim.simulator.tools.base import Run, ToolFailure, ToolOutcome, ToolSurroundings
from pilothouse_sim.simulator.tools.command_lines import is_reading
from pilothouse_sim.simulator.tools.schemas import Schema, parameter

__all__ = [
    "LISTED",
    "TOOLS",
    "BuiltinTool",
    "absent",
    "asked",
    "check",
    "find",
    "is_concurrency_safe",
    "shown",
    "validate",
]

_TEXT, _NUMBER, _TRUTH = parameter("string"), parameter("number"), parameter("boolean")
_NEEDED = parameter("string", required=True)
_LEVELS = ("low", "medium", "high", "xhigh", "max")
_BLANKS = re.compile(r"[^\S\n]+$", re.MULTILINE)


class BuiltinTool(Struct, frozen=True, kw_only=True):
    """One tool. What it does is imported when it is first called: start-up stays cheap."""

    name: str
    module: str
    runs: str
    schema: Schema
    checks: str = ""
    parallel: bool = False
    """Whether calls beside it need not wait; Bash depends on the command."""

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments in the tool's own types."""
        return schemas.validate(self.name, self.schema, arguments)

    def validate_answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments a permission handler sent back, in the tool's own types."""
        return schemas.validate_answer(self.name, self.schema, arguments)

    def check(self, arguments: dict[str, Any], place: ToolSurroundings) -> None:
        """Turn down a call that cannot run, before anybody is asked about it."""
        if self.checks:
            getattr(self._loaded(), self.checks)(arguments, place)

    async def run(self, arguments: dict[str, Any], place: ToolSurroundings) -> ToolOutcome:
        """Do what was asked."""
        does: Run = getattr(self._loaded(), self.runs)
        return await does(arguments, place)

    async def __call__(self, arguments: dict[str, Any], place: ToolSurroundings) -> ToolOutcome:
        """The same, so that a tool can stand for what it does."""
        return await self.run(arguments, place)

    def _loaded(self) -> Any:
        return import_module(f"pilothouse_sim.simulator.tools.{self.module}")


_FINDING = {"file": _NEEDED, "line": _NUMBER, "summary": _NEEDED, "failure_scenario": _NEEDED}
_ALL = (
    BuiltinTool(
        name="Agent",
        module="others",
        runs="not_simulated",
        parallel=True,
        schema={
            "description": _NEEDED,
            "prompt": _NEEDED,
            "subagent_type": _TEXT,
            "model": parameter("string", choices=("sonnet", "opus", "haiku", "fable")),
            "effort": parameter("string", choices=_LEVELS),
            "run_in_background": _TRUTH,
            "isolation": parameter("string", choices=("worktree", "remote")),
        },
    ),
    BuiltinTool(
        name="AskUserQuestion",
        module="questions",
        runs="run",
        checks="check_questions",
        parallel=True,
        schema=questions.PARAMETERS,
    ),
    BuiltinTool(
        name="Bash",
        module="bash",
        runs="run",
        checks="check",
        schema={
            "command": _NEEDED,
            "timeout": _NUMBER,
            "description": _TEXT,
            "run_in_background": _TRUTH,
            "dangerouslyDisableSandbox": _TRUTH,
        },
    ),
    BuiltinTool(
        name="CronCreate",
        module="others",
        runs="not_simulated",
        checks="check_cron_create",
        schema={"cron": _NEEDED, "prompt": _NEEDED, "recurring": _TRUTH, "durable": _TRUTH},
    ),
    BuiltinTool(
        name="CronDelete",
        module="others",
        runs="not_simulated",
        checks="check_cron_delete",
        schema={"id": _NEEDED},
    ),
    BuiltinTool(name="CronList", module="others", runs="cron_list", schema={}, parallel=True),
    BuiltinTool(
        name="Edit",
        module="files",
        runs="edit",
        checks="check_edit",
        schema={
            "file_path": _NEEDED,
            "old_string": _NEEDED,
            "new_string": _NEEDED,
            "replace_all": _TRUTH,
        },
    ),
    BuiltinTool(name="EnterPlanMode", module="plan_mode", runs="enter", schema={}, parallel=True),
    BuiltinTool(
        name="EnterWorktree",
        module="others",
        runs="enter_worktree",
        schema={"name": _TEXT, "path": _TEXT},
    ),
    BuiltinTool(
        name="ExitPlanMode",
        module="plan_mode",
        runs="leave",
        checks="check_exit",
        parallel=True,
        schema={"allowedPrompts": parameter("array"), "*": parameter("any")},
    ),
    BuiltinTool(
        name="ExitWorktree",
        module="others",
        runs="not_simulated",
        checks="check_exit_worktree",
        schema={
            "action": parameter("string", required=True, choices=("keep", "remove")),
            "discard_changes": _TRUTH,
        },
    ),
    BuiltinTool(
        name="ListAgents",
        module="others",
        runs="list_agents",
        parallel=True,
        schema={"channel": _TEXT, "q": _TEXT},
    ),
    BuiltinTool(
        name="Monitor",
        module="others",
        runs="monitor",
        checks="check_monitor",
        schema={
            "description": _NEEDED,
            "timeout_ms": _NUMBER,
            "command": _TEXT,
            "ws": parameter("object"),
        },
    ),
    BuiltinTool(
        name="NotebookEdit",
        module="documents",
        runs="notebook_edit",
        checks="check_notebook_edit",
        schema={
            "notebook_path": _NEEDED,
            "cell_id": _TEXT,
            "new_source": _NEEDED,
            "cell_type": parameter("string", choices=("code", "markdown")),
            "edit_mode": parameter("string", choices=("replace", "insert", "delete")),
        },
    ),
    BuiltinTool(
        name="Read",
        module="files",
        runs="read",
        checks="check_read",
        parallel=True,
        schema={
            "file_path": _NEEDED,
            "offset": _NUMBER,
            "limit": _NUMBER,
            "pages": _TEXT,
            "allow_large": _TRUTH,
        },
    ),
    BuiltinTool(
        name="ReportFindings",
        module="others",
        runs="report_findings",
        parallel=True,
        schema={
            "level": parameter("string", choices=_LEVELS),
            "findings": parameter("array", required=True, fields=_FINDING, most=32),
        },
    ),
    BuiltinTool(
        name="ScheduleWakeup",
        module="others",
        runs="schedule_wakeup",
        schema={
            "delaySeconds": _NUMBER,
            "reason": _TEXT,
            "prompt": _TEXT,
            "stop": _TRUTH,
            "noop": _TRUTH,
        },
    ),
    BuiltinTool(
        name="SendMessage",
        module="others",
        runs="send_message",
        schema={
            "to": _NEEDED,
            "summary": _TEXT,
            "message": _TEXT,
            "notify_when_idle": _TRUTH,
            "type": _TEXT,
            "recipient": _TEXT,
            "recipient_kind": _TEXT,
            "content": _TEXT,
        },
    ),
    BuiltinTool(
        name="Skill",
        module="others",
        runs="not_simulated",
        checks="check_skill",
        schema={"skill": _NEEDED, "args": _TEXT},
    ),
    BuiltinTool(
        name="TaskStop",
        module="others",
        runs="task_stop",
        checks="check_task_stop",
        parallel=True,
        schema={"task_id": _TEXT, "shell_id": _TEXT},
    ),
    BuiltinTool(
        name="ToolSearch",
        module="others",
        runs="not_simulated",
        parallel=True,
        schema={"query": _NEEDED, "max_results": _NUMBER},
    ),
    BuiltinTool(
        name="WebFetch",
        module="others",
        runs="web_fetch",
        parallel=True,
        schema={
            "url": parameter("string", required=True, url=True),
            "prompt": _NEEDED,
            "offset": _NUMBER,
        },
    ),
    BuiltinTool(
        name="WebSearch",
        module="others",
        runs="web_search",
        parallel=True,
        schema={
            "query": parameter("string", required=True, least=2),
            "allowed_domains": parameter("array"),
            "blocked_domains": parameter("array"),
        },
    ),
    BuiltinTool(
        name="Workflow",
        module="others",
        runs="not_simulated",
        checks="check_workflow",
        schema={
            "script": _TEXT,
            "name": _TEXT,
            "title": _TEXT,
            "description": _TEXT,
            "args": parameter("any"),
            "scriptPath": _TEXT,
            "resumeFromRunId": _TEXT,
        },
    ),
    BuiltinTool(
        name="Write",
        module="files",
        runs="write",
        checks="check_write",
        schema={"file_path": _NEEDED, "content": _NEEDED},
    ),
)
TOOLS: dict[str, BuiltinTool] = {tool.name: tool for tool in _ALL}
LISTED: tuple[str, ...] = tuple("Task" if tool.name == "Agent" else tool.name for tool in _ALL)
"""The names in system/init, in its order: the sub-agents' tool is listed by its old name."""
_ALIASES = {"Task": "Agent"}
_GONE = {
    "Glob": "Glob is not available in this session — find files with `find` via the Bash tool "
    "instead.",
    "Grep": "Grep is not available in this session — search file contents with `grep` via the "
    "Bash tool instead.",
}
_DISABLED = ("PushNotification", "RemoteTrigger", "TodoWrite")


def find(name: str) -> BuiltinTool:
    """The tool a call names; raises ToolFailure when there is none."""
    tool = TOOLS.get(_ALIASES.get(name, name))
    if tool is not None:
        return tool
    raise absent(name, _reason(name))


def absent(name: str, reason: str | None) -> ToolFailure:
    """The failure of a call of a tool that there is not."""
    words = f"No such tool available: {name}" + (f". {reason}" if reason else "")
    return ToolFailure(f"<tool_use_error>Error: {words}</tool_use_error>", result=f"Error: {words}")


def _reason(name: str) -> str | None:
    if name in _DISABLED:
        return f"{name} is disabled for this session, in subagents as well as here."
    similar = next((known for known in TOOLS if known.lower() == name.lower()), None)
    if similar is not None:
        return f"Tool names are case-sensitive: call {similar} instead."
    return _GONE.get(name)


def validate(
    name: str, arguments: dict[str, Any], names: Container[str] | None = None
) -> dict[str, Any]:
    """The arguments of a call in the tool's own types.

    Raises ToolFailure when there is no such tool (among `names`, as system/init lists them), or
    when the arguments do not fit it.
    """
    tool = find(name)
    listed = "Task" if tool.name == "Agent" else tool.name
    if names is not None and listed not in names:
        raise absent(name, f"{name} is disabled for this session, in subagents as well as here.")
    return tool.validate(arguments)


def check(name: str, arguments: dict[str, Any], place: ToolSurroundings) -> None:
    """Turn down a call that cannot run, before anybody is asked about it."""
    find(name).check(arguments, place)


def is_concurrency_safe(name: str, arguments: dict[str, Any]) -> bool:
    """Whether a call may run beside others; a command may when it only reads."""
    if name == "Bash":
        return is_reading(str(arguments.get("command", "")))
    tool = TOOLS.get(_ALIASES.get(name, name))
    return tool is not None and tool.parallel


def shown(name: str, arguments: dict[str, Any], place: ToolSurroundings) -> dict[str, Any]:
    """A call's input as the assistant line gives it: the CLI tidies up what the model wrote."""
    try:
        fitted = find(name).validate(arguments)
    except ToolFailure:
        return arguments
    match name:
        case "Bash":
            prefix = f"cd {place.cwd} && "
            return {**fitted, "command": str(fitted["command"]).removeprefix(prefix)}
        case "Edit":
            return _shown_edit(fitted, place)
        case "Write":
            return {**fitted, "content": _tidy(fitted, "content")}
        case "Read" if "limit" in arguments:
            # The one number the CLI passes on as it came.
            return {**fitted, "limit": arguments["limit"]}
        case "SendMessage":
            return {**fitted, **_addressed(fitted)}
        case _:
            return fitted


def _shown_edit(fitted: dict[str, Any], place: ToolSurroundings) -> dict[str, Any]:
    from pilothouse_sim.simulator.tools.seen_files import located

    exists = located(str(fitted["file_path"]), place).exists()
    new = _tidy(fitted, "new_string") if exists else fitted["new_string"]
    everywhere = bool(fitted.get("replace_all"))
    return {"replace_all": everywhere, **_without(fitted, "replace_all"), "new_string": new}


def _addressed(fitted: dict[str, Any]) -> dict[str, Any]:
    """The fields of an older form of the call, which the CLI still writes."""
    whom, words = fitted["to"], fitted.get("message", "")
    return {"type": "message", "recipient": whom, "recipient_kind": "name", "content": words}


def _tidy(fitted: dict[str, Any], key: str) -> str:
    """Without blanks at the ends of lines, which only Markdown gives a meaning."""
    words = str(fitted[key])
    is_markdown = str(fitted["file_path"]).lower().endswith((".md", ".mdx"))
    return words if is_markdown else _BLANKS.sub("", words)


def _without(arguments: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != key}


def asked(name: str, arguments: dict[str, Any], place: ToolSurroundings) -> dict[str, Any]:
    """A call's input as the client is asked about it: paths in full, defaults filled in."""
    from pilothouse_sim.simulator.tools.seen_files import located

    filled = dict(arguments)
    for key in ("file_path", "notebook_path"):
        if key in filled and name in ("Edit", "NotebookEdit", "Read", "Write"):
            filled[key] = str(located(str(filled[key]), place))
    if name == "Edit":
        filled = {**_without(filled, "replace_all"), "replace_all": bool(filled.get("replace_all"))}
    if name == "AskUserQuestion":
        questions = cast("list[dict[str, Any]]", filled["questions"])
        filled["questions"] = [
            {**_without(each, "multiSelect"), "multiSelect": bool(each.get("multiSelect"))}
            for each in questions
        ]
    return filled
