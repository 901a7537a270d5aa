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

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from msgspec import Struct, field

from .bounds import MOST, count, members, shorten, text_of

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
    "View",
    "WebView",
    "view_of_call",
    "view_of_result",
]

Json = Mapping[str, Any]


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


View = (
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


def view_of_call(tool: str, given: Json) -> View | None:
    """The view of a call before it has a result."""
    return _view(tool, given, Outcome())


def view_of_result(
    tool: str, given: Json, result: Any, text: str, *, is_error: bool
) -> View | None:
    """The view of a call. `result` is the tool's own form of it, `text` what the model is told."""
    return _view(tool, given, Outcome(members(result), text, is_error=is_error, has_ended=True))


class Outcome(Struct, frozen=True):
    """What is known of how a call came out."""

    told: Json = field(default_factory=dict[str, Any])
    """The tool's own form of its result."""
    text: str = ""
    is_error: bool = False
    has_ended: bool = False

    @property
    def words(self) -> str:
        """What the model is told of a success. What it is told of an error is the item's result."""
        return "" if self.is_error else self.text


def _view(tool: str, given: Json, outcome: Outcome) -> View | None:
    if tool.startswith(_MCP):
        return _mcp(tool, outcome)
    make = _VIEWS.get(tool)
    return None if make is None else make(given, outcome)


# Commands

_EXIT_CODE: Final = re.compile(r"^(?:Error: )?Exit code (\d{1,6})$", re.MULTILINE)


SILENT: Final = "(Bash completed with no output)"
"""What the model is told of a command that wrote nothing."""


def _command(given: Json, outcome: Outcome) -> View:
    told, code = outcome.told, _exit_code(outcome)
    written = outcome.text if code is not None and outcome.text != SILENT else ""
    output, cut = shorten(text_of(told.get("stdout")) if told else written)
    errors, more = shorten(text_of(told.get("stderr")))
    return CommandView(
        command=text_of(given.get("command")),
        description=text_of(given.get("description")),
        output=output,
        errors=errors,
        exit_code=code,
        interrupted=told.get("interrupted") is True,
        background=given.get("run_in_background") is True or "backgroundTaskId" in told,
        cut=cut + more,
    )


def _exit_code(outcome: Outcome) -> int | None:
    """The code; None before the end, and for what was not allowed, timed out or was stopped."""
    if outcome.has_ended and not outcome.is_error:
        return 0
    found = _EXIT_CODE.search(outcome.text[:200])
    return None if found is None else int(found[1])


# Files


def _read(given: Json, outcome: Outcome) -> View | None:
    path = text_of(given.get("file_path"))
    told = outcome.told
    if told.get("type") == "image":
        file = members(told.get("file"))
        return ImageView(
            path=path,
            media_type=text_of(file.get("type")),
            size=count(file.get("originalSize")),
        )
    file = members(told.get("file"))
    content, cut = shorten(text_of(file.get("content")) or outcome.words)
    return FileView(
        path=path,
        text=content,
        first_line=count(file.get("startLine")) or 1,
        total_lines=count(file.get("totalLines")) or None,
        cut=cut,
    )


def _written(given: Json, outcome: Outcome) -> View:
    told = outcome.told
    path = text_of(given.get("file_path"))
    patch = told.get("structuredPatch")
    if patch:
        return _patched(path, patch)
    content, cut = shorten(text_of(given.get("content")))
    if told.get("type") == "create":
        lines = content.splitlines()
        hunk = Hunk(new_start=1, lines=[f"+{line}" for line in lines])
        return DiffView(
            path=path, hunks=[hunk], added=len(lines), is_new=True, is_numbered=True, cut=cut
        )
    return FileView(path=path, text=content, cut=cut)


def _edited(given: Json, outcome: Outcome) -> View:
    path = text_of(given.get("file_path")) or text_of(given.get("notebook_path"))
    patch = outcome.told.get("structuredPatch")
    if patch:
        return _patched(path, patch)
    edits = given.get("edits")
    changes = [members(each) for each in _listed(edits)] if edits else [given]
    pairs = [(_old(each), _new(each)) for each in changes[:MOST]]
    return _counted(path, [_hunk(old, new) for old, new in pairs], is_numbered=False)


def _old(given: Json) -> str:
    return text_of(given.get("old_string"))


def _new(given: Json) -> str:
    return text_of(given.get("new_string")) or text_of(given.get("new_source"))


def _hunk(old: str, new: str) -> Hunk:
    """What changes between two texts of which nobody knows where they stand."""
    before, after = shorten(old)[0].splitlines(), shorten(new)[0].splitlines()
    lines = [line for line in difflib.ndiff(before, after) if line[0] != "?"]
    return Hunk(lines=[line[0] + line[2:] for line in lines])


def _patched(path: str, patch: Any) -> DiffView:
    hunks = [_read_hunk(members(each)) for each in _listed(patch)]
    return _counted(path, hunks, is_numbered=True)


def _read_hunk(told: Json) -> Hunk:
    return Hunk(
        old_start=count(told.get("oldStart")),
        new_start=count(told.get("newStart")),
        lines=[each for each in _listed(told.get("lines")) if isinstance(each, str)],
    )


def _counted(path: str, hunks: list[Hunk], *, is_numbered: bool) -> DiffView:
    """A diff that is not longer than a person reads; the counts are those of all of it."""
    marks = [line[:1] for hunk in hunks for line in hunk.lines]
    kept: list[Hunk] = []
    room = LINES
    for hunk in hunks:
        if room <= 0:
            break
        lines = [shorten(line, LINE)[0] for line in hunk.lines[:room]]
        kept.append(Hunk(old_start=hunk.old_start, new_start=hunk.new_start, lines=lines))
        room -= len(lines)
    return DiffView(
        path=path,
        hunks=kept,
        added=marks.count("+"),
        removed=marks.count("-"),
        is_numbered=is_numbered,
        cut=max(len(marks) - LINES, 0),
    )


LINES: Final = 2_000
"""Lines of one diff."""
LINE: Final = 2_000
"""Characters of one line of a diff."""


# Searches


def _search(given: Json, outcome: Outcome) -> View:
    told = outcome.told
    files = [each for each in _listed(told.get("filenames")) if isinstance(each, str)]
    shown, cut = shorten(text_of(told.get("content")) or ("" if files else outcome.words))
    hits = told.get("numMatches", told.get("numFiles"))
    return SearchView(
        pattern=text_of(given.get("pattern")),
        where=text_of(given.get("path")) or text_of(given.get("glob")),
        files=files[:MOST],
        text=shown,
        hits=None if hits is None else count(hits),
        cut=cut + max(len(files) - MOST, 0),
    )


# Lists, plans, questions


def _todos(given: Json, outcome: Outcome) -> View:
    told = _listed(outcome.told.get("newTodos")) or _listed(given.get("todos"))
    todos = [
        Todo(shorten(text_of(each.get("content")), LINE)[0], text_of(each.get("status")))
        for each in map(members, told[:MOST])
    ]
    return TodoView(todos=todos, cut=max(len(told) - MOST, 0))


def _plan(given: Json, outcome: Outcome) -> View:
    told = outcome.told
    plan, cut = shorten(text_of(told.get("plan")) or text_of(given.get("plan")))
    path = text_of(told.get("filePath")) or text_of(given.get("planFilePath"))
    return PlanView(plan=plan, path=path, cut=cut)


def _choice(_: Json, outcome: Outcome) -> View:
    answers = members(outcome.told.get("answers"))
    return ChoiceView(answers={name: str(each) for name, each in answers.items()})


def _structured(given: Json, _: Outcome) -> View:
    return StructuredView(value=dict(given))


# The web, MCP


def _fetched(given: Json, outcome: Outcome) -> View:
    shown, cut = shorten(text_of(outcome.told.get("result")) or outcome.words)
    return WebView(url=text_of(given.get("url")), text=shown, cut=cut)


def _searched(given: Json, outcome: Outcome) -> View:
    found = (members(each) for each in _listed(outcome.told.get("results")))
    links = [
        text_of(members(link).get("url")) for each in found for link in _listed(each.get("content"))
    ]
    shown, cut = shorten(outcome.words)
    query = text_of(given.get("query"))
    return WebView(query=query, text=shown, links=[each for each in links if each][:MOST], cut=cut)


_MCP: Final = "mcp__"


def _mcp(tool: str, outcome: Outcome) -> View:
    server, _, name = tool.removeprefix(_MCP).partition("__")
    shown, cut = shorten(outcome.words)
    return McpView(server=server, tool=name, text=shown, cut=cut)


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


_Make = Callable[[Json, Outcome], View | None]


def _table(*rows: tuple[_Make, Iterable[str]]) -> dict[str, _Make]:
    return {name: make for make, names in rows for name in names}


_VIEWS: Final = _table(
    (_command, ("Bash", "PowerShell")),
    (_read, ("Read", "NotebookRead")),
    (_written, ("Write",)),
    (_edited, ("Edit", "MultiEdit", "NotebookEdit")),
    (_search, ("Grep", "Glob", "LS")),
    (_todos, ("TodoWrite",)),
    (_plan, ("ExitPlanMode",)),
    (_choice, ("AskUserQuestion",)),
    (_structured, ("StructuredOutput",)),
    (_fetched, ("WebFetch",)),
    (_searched, ("WebSearch",)),
)
