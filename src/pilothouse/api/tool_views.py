"""How the call of a tool is best shown: what a person wants to see of its input and its result.

    CommandView      a shell command, its output and exit code
    DiffView         what a file changes by
    FileView         a part of a file
    SearchView       what was looked for, and where it was found
    TodoView         the list of things to do
    ImageView        an image; the entry has its bytes
    WebView          a page that was fetched, or a search of the web
    McpView          a tool of an MCP server
    PlanView         a plan
    ChoiceView       the model's questions, with their answers
    StructuredView   a value in the form that the caller asked for

A tool without a view of its own is shown by its input and the text of its result.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

__all__ = [
    "ChoiceView",
    "CommandView",
    "DiffView",
    "FileView",
    "Hunk",
    "ImageView",
    "McpView",
    "PlanView",
    "SearchView",
    "StructuredView",
    "Todo",
    "TodoView",
    "ToolView",
    "WebView",
]


class _View(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="view"):
    cut: int = 0
    """Characters, lines or members that were left out."""


class CommandView(_View, frozen=True, tag="command"):
    """A shell command. `output` has both streams where the CLI does not tell them apart."""

    command: str
    description: str = ""
    output: str = ""
    errors: str = ""
    exit_code: int | None = None
    interrupted: bool = False
    background: bool = False


class Hunk(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Lines that change, with those around them; each begins with a blank, `-` or `+`."""

    old_start: int = 0
    new_start: int = 0
    lines: list[str] = field(default_factory=list)


class DiffView(_View, frozen=True, tag="diff"):
    """What a file changes by."""

    path: str
    hunks: list[Hunk] = field(default_factory=list)
    added: int = 0
    removed: int = 0
    is_new: bool = False
    is_numbered: bool = False
    """The lines are numbered as in the file. They are not before the tool has run."""


class FileView(_View, frozen=True, tag="file"):
    """A part of a file."""

    path: str
    text: str = ""
    first_line: int = 1
    total_lines: int | None = None


class SearchView(_View, frozen=True, tag="search"):
    """What was looked for in files."""

    pattern: str
    where: str = ""
    files: list[str] = field(default_factory=list)
    text: str = ""
    hits: int | None = None


class Todo(Struct, frozen=True, omit_defaults=True):
    text: str
    state: str = "pending"


class TodoView(_View, frozen=True, tag="todo"):
    """The list of things to do, as it is after the call."""

    todos: list[Todo] = field(default_factory=list)


class ImageView(_View, frozen=True, tag="image"):
    """An image. Its bytes are in the entry."""

    path: str = ""
    media_type: str = ""
    size: int = 0
    """Bytes."""


class WebView(_View, frozen=True, tag="web"):
    """A page of the web, or a search of it."""

    url: str = ""
    query: str = ""
    text: str = ""
    links: list[str] = field(default_factory=list)


class McpView(_View, frozen=True, tag="mcp"):
    """A tool of an MCP server."""

    server: str
    tool: str
    text: str = ""


class PlanView(_View, frozen=True, tag="plan"):
    """A plan; Markdown."""

    plan: str
    path: str = ""


class ChoiceView(_View, frozen=True, tag="choice"):
    """The model's questions, and what was answered."""

    answers: dict[str, str] = field(default_factory=dict)


class StructuredView(_View, frozen=True, tag="structured"):
    """A value in the form that the caller asked for."""

    value: Any = None


ToolView = (
    CommandView
    | DiffView
    | FileView
    | SearchView
    | TodoView
    | ImageView
    | WebView
    | McpView
    | PlanView
    | ChoiceView
    | StructuredView
)
