"""The views of tool calls: made of what a call was given, and of how it came out."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct, field

from pilothouse.api.tool_views import (
    ChoiceView,
    CommandView,
    DiffView,
    FileView,
    Hunk,
    ImageView,
    McpView,
    PlanView,
    SearchView,
    StructuredView,
    Todo,
    TodoView,
    ToolView,
    WebView,
)

from .bounds import MOST, count, members, shorten, text_of

__all__ = ["changed_file", "view_of_call", "view_of_result"]

Json = Mapping[str, Any]


def view_of_call(tool: str, given: Json) -> ToolView | None:
    """The view of a call before it has a result."""
    return _view(tool, given, Outcome())


def view_of_result(
    tool: str, given: Json, result: Any, text: str, *, is_error: bool
) -> ToolView | None:
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


def _view(tool: str, given: Json, outcome: Outcome) -> ToolView | None:
    if tool.startswith(_MCP):
        return _mcp(tool, outcome)
    make = _VIEWS.get(tool)
    return None if make is None else make(given, outcome)


# Commands

_EXIT_CODE: Final = re.compile(r"^(?:Error: )?Exit code (\d{1,6})$", re.MULTILINE)


SILENT: Final = "(Bash completed with no output)"
"""What the model is told of a command that wrote nothing."""


def _command(given: Json, outcome: Outcome) -> ToolView:
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
    if not outcome.is_error:
        return 0 if outcome.has_ended else None
    found = _EXIT_CODE.search(outcome.text[:200])
    return None if found is None else int(found[1])


# Files


def _read(given: Json, outcome: Outcome) -> ToolView | None:
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


def _written(given: Json, outcome: Outcome) -> ToolView:
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


def _edited(given: Json, outcome: Outcome) -> ToolView:
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


def changed_file(path: str, before: str, after: str) -> DiffView:
    """The view of a change of which the whole file is known on both sides."""
    old, new = _lines(before), _lines(after)
    first, kept = _same_ends(old, new)
    begin, spare = max(first - AROUND, 0), max(kept - AROUND, 0)
    old_part, new_part = old[begin : len(old) - spare], new[begin : len(new) - spare]
    differ = (len(old) - kept - first) * (len(new) - kept - first)
    if differ > MOST_COMPARED:
        ends = first - begin, kept - spare
        groups = [_as_one_change(len(old_part), len(new_part), *ends)]
    else:
        matched = difflib.SequenceMatcher(None, old_part, new_part)
        groups = list(matched.get_grouped_opcodes(AROUND))
    hunks = [_grouped(each, old_part, new_part, begin) for each in groups]
    return _counted(path, hunks, is_numbered=True)


def _lines(text: str) -> list[str]:
    """The lines with their ends; the last may have none."""
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _same_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many lines are the same at the beginning, and how many at the end of the rest."""
    shorter = min(len(old), len(new))
    first = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    rest = range(1, shorter - first + 1)
    last = next((at - 1 for at in rest if old[-at] != new[-at]), len(rest))
    return first, last


_Opcode = tuple[str, int, int, int, int]


def _as_one_change(old: int, new: int, first: int, kept: int) -> list[_Opcode]:
    """All between the same ends, as one: looking for what stayed takes the square of the lines."""
    return [
        ("equal", 0, first, 0, first),
        ("replace", first, old - kept, first, new - kept),
        ("equal", old - kept, old, new - kept, new),
    ]


def _grouped(
    opcodes: Sequence[_Opcode], old: Sequence[str], new: Sequence[str], begin: int
) -> Hunk:
    lines: list[str] = []
    for tag, old_at, old_end, new_at, new_end in opcodes:
        if tag == "equal":
            lines += _marked(" ", old[old_at:old_end])
        else:
            lines += _marked("-", old[old_at:old_end]) + _marked("+", new[new_at:new_end])
    _, old_at, _, new_at, _ = opcodes[0]
    return Hunk(old_start=begin + old_at + 1, new_start=begin + new_at + 1, lines=lines)


def _marked(mark: str, lines: Iterable[str]) -> list[str]:
    marked: list[str] = []
    for line in lines:
        marked.append(mark + line.removesuffix("\n"))
        if not line.endswith("\n"):
            marked.append(NO_LINE_END)
    return marked


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
        cut=max(len(marks) - LINES, 0)
        + sum(len(line) > LINE for each in hunks for line in each.lines),
    )


AROUND: Final = 3
"""Lines that are shown around a change."""
MOST_COMPARED: Final = 1_000_000
"""Pairs of lines that are looked at for what stayed."""
NO_LINE_END: Final = "\\ No newline at end of file"
LINES: Final = 2_000
"""Lines of one diff."""
LINE: Final = 2_000
"""Characters of one line of a diff."""


# Searches


def _search(given: Json, outcome: Outcome) -> ToolView:
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


def _todos(given: Json, outcome: Outcome) -> ToolView:
    told = _listed(outcome.told.get("newTodos")) or _listed(given.get("todos"))
    todos = [
        Todo(shorten(text_of(each.get("content")), LINE)[0], text_of(each.get("status")))
        for each in map(members, told[:MOST])
    ]
    return TodoView(todos=todos, cut=max(len(told) - MOST, 0))


def _plan(given: Json, outcome: Outcome) -> ToolView:
    told = outcome.told
    plan, cut = shorten(text_of(told.get("plan")) or text_of(given.get("plan")))
    path = text_of(told.get("filePath")) or text_of(given.get("planFilePath"))
    return PlanView(plan=plan, path=path, cut=cut)


def _choice(_: Json, outcome: Outcome) -> ToolView:
    answers = members(outcome.told.get("answers"))
    return ChoiceView(answers={name: str(each) for name, each in answers.items()})


def _structured(given: Json, _: Outcome) -> ToolView:
    return StructuredView(value=dict(given))


# The web, MCP


def _fetched(given: Json, outcome: Outcome) -> ToolView:
    shown, cut = shorten(text_of(outcome.told.get("result")) or outcome.words)
    return WebView(url=text_of(given.get("url")), text=shown, cut=cut)


def _searched(given: Json, outcome: Outcome) -> ToolView:
    found = (members(each) for each in _listed(outcome.told.get("results")))
    links = [
        text_of(members(link).get("url")) for each in found for link in _listed(each.get("content"))
    ]
    shown, cut = shorten(outcome.words)
    query = text_of(given.get("query"))
    return WebView(query=query, text=shown, links=[each for each in links if each][:MOST], cut=cut)


_MCP: Final = "mcp__"


def _mcp(tool: str, outcome: Outcome) -> ToolView:
    server, _, name = tool.removeprefix(_MCP).partition("__")
    shown, cut = shorten(outcome.words)
    return McpView(server=server, tool=name, text=shown, cut=cut)


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


_Make = Callable[[Json, Outcome], ToolView | None]


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
