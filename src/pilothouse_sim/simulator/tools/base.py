"""What every simulated tool gets and gives back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, UnsetType, field

if TYPE_CHECKING:
    from pilothouse_sim.simulator.tools.command import ShellCommand

__all__ = ["Check", "Run", "SeenFile", "ToolFailure", "ToolOutcome", "ToolSurroundings", "refused"]


class ToolOutcome(Struct, frozen=True, kw_only=True):
    """What the model and the client see of a call that ran."""

    content: str | list[dict[str, Any]]
    """The `content` of the model's tool_result block."""
    result: Any
    """The `tool_use_result` of the client's user line."""
    is_error: bool | UnsetType = UNSET
    """The block's `is_error`: some tools write false, others leave it out."""


class ToolFailure(Exception):
    """The call failed; the text is what the model reads."""

    def __init__(self, text: str, *, result: Any = None) -> None:
        super().__init__(text)
        self.text = text
        self.result: Any = f"Error: {text}" if result is None else result


def refused(reason: str) -> ToolFailure:
    """A call turned down before anybody was asked whether it may run."""
    return ToolFailure(f"<tool_use_error>{reason}</tool_use_error>", result=f"Error: {reason}")


class SeenFile(Struct, frozen=True):
    """A file as the model last saw it: Edit and Write look whether it changed since."""

    text: str
    mtime: int
    whole: bool = True
    """False when the model saw only some lines, or changed lines it had never seen."""


def _kill(command: ShellCommand) -> None:
    command.kill()


async def _no_task(task_id: str) -> dict[str, Any]:
    raise refused(f"No task found with ID: {task_id}")


class ToolSurroundings(Struct, kw_only=True):
    """Where tools act: the folder, the files the model has seen, the environment of commands."""

    cwd: Path
    home: Path
    config_dir: Path
    environment: dict[str, str]
    session_id: str
    tool_use_id: str = ""
    seen: dict[Path, SeenFile] = field(default_factory=dict)
    touched: Callable[[Path], None] = lambda _: None
    """Told of a file just before a tool changes it, so that it can be put back."""
    root: Path | None = None
    """The folder the session began in; a shell that leaves it comes back to it."""
    directories: tuple[Path, ...] = ()
    """Further folders a shell may stay in."""
    adopt: Callable[[ShellCommand], None] = _kill
    """Takes over a command that goes on in the background."""
    stop_task: Callable[[str], Awaitable[dict[str, Any]]] = _no_task
    """Ends a background task and returns what TaskStop reports of it."""
    plan_file: Path | None = None
    mode: str = "default"
    """The permission mode the call runs in."""

    @property
    def home_folder(self) -> Path:
        """Where the shell goes back to."""
        return self.root or self.cwd


Run = Callable[[dict[str, Any], ToolSurroundings], Awaitable[ToolOutcome]]
Check = Callable[[dict[str, Any], ToolSurroundings], None]
"""Looks at a call before anybody is asked about it; raises ToolFailure to turn it down."""
