"""Text a person understands for what a tool is about to do.

The words come from a model, so they are shown such that they cannot deceive: characters that move
the cursor, turn the direction of writing or are not to be seen at all are written as escapes, and
no member of a tool's input is left out.
"""

from __future__ import annotations

import difflib
import json
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

__all__ = ["Description", "Format", "describe", "escape", "one_line", "shorten"]

Format = Literal["text", "command", "diff", "markdown", "url"]

TITLE: Final = 120
PATH: Final = 80
"""The most characters that a path has in a title."""
LONG: Final = 20_000
DIFFED_LINES: Final = 1_000
"""More are shown without looking for what stayed: that takes the square of their number."""

# Controls, marks that set the direction, and what no font shows. The two joiners are part of words
# and emoji, but only between characters beyond ASCII.
_DECEIVING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0"
    "\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"
    "|(?<![^\x00-\x7f])[\u200c\u200d]"
    "|[\u200c\u200d](?![^\x00-\x7f\u200c\u200d])"
)
_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True, slots=True)
class Description:
    """What is asked in one line, and all there is to see. A `url` text begins with the address."""

    title: str
    text: str
    format: Format = "text"


# Model-made text


def escape(text: str) -> str:
    """The text with nothing hidden in it; line ends and tabs stay."""
    return _DECEIVING.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    if code < 0x100:
        return _NAMED.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str, limit: int = TITLE) -> str:
    """The text as one line of at most so many characters."""
    # Escapes make it longer only: what is cut off here could not have been within the limit.
    cut = text[: limit + 1]
    line = escape(cut).replace("\n", "\\n").replace("\t", "\\t")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def shorten(text: str, limit: int = LONG) -> str:
    """The text, or its beginning and how much more there is."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n… {len(text) - limit} more characters, not shown here"


# A call


class _Call:
    """A tool's input as it is read; what nobody asked for is still to be shown."""

    def __init__(self, name: str, given: Mapping[str, Any], cwd: str) -> None:
        self.name = name
        self._rest = dict(given)
        self._cwd = cwd

    def text(self, member: str) -> str:
        return self._rest.pop(member) if isinstance(self._rest.get(member), str) else ""

    def first(self, *members: str) -> str:
        """The first of these members that is there."""
        return next((found for member in members if (found := self.text(member))), "")

    def path(self, member: str) -> str:
        return _relative(self.text(member), self._cwd)

    def place(self, member: str) -> str:
        """Where it looks: the working directory if it does not say."""
        return self.path(member) or "."

    def flag(self, member: str) -> bool:
        return self._rest.pop(member) if isinstance(self._rest.get(member), bool) else False

    def milliseconds(self, member: str) -> float | None:
        value = self._rest.get(member)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return self._rest.pop(member)

    def objects(self, member: str) -> list[dict[str, Any]]:
        value = self._rest.get(member)
        if not isinstance(value, list):
            return []
        items = cast("list[Any]", value)
        if not all(isinstance(each, dict) for each in items):
            return []
        del self._rest[member]
        return items

    def part(self, *members: str) -> dict[str, Any]:
        """These members, of whatever type, as an input of their own."""
        return {name: self._rest.pop(name) for name in members if name in self._rest}

    def rest(self) -> list[str]:
        """Each member that was not read, as lines."""
        return [_member(name, value) for name, value in self._rest.items()]

    def json(self) -> str:
        """All of it, as it is."""
        return escape(shorten(_json(self._rest))) if self._rest else ""


def _named(path: str) -> str:
    """A path for a title; of a long one its beginning and, rather, its end: the name is there."""
    first = PATH // 4
    return path if len(path) <= PATH else f"{path[:first]}…{path[first + 1 - PATH :]}"


def _relative(path: str, cwd: str) -> str:
    """The path from the working directory, or the whole of one that is not below it."""
    if not path or path.startswith("~") or not cwd:
        return path
    full = posixpath.normpath(posixpath.join(cwd, path))
    base = posixpath.normpath(cwd).rstrip("/") + "/"
    return full.removeprefix(base)


def _member(name: str, value: Any) -> str:
    """`name: value`. Further lines are indented, so that none can look like another member."""
    said = value if isinstance(value, str) else _json(value, indent=None)
    return escape(f"{one_line(name)}: {shorten(said)}").replace("\n", "\n    ")


def _json(value: Any, *, indent: int | None = 2) -> str:
    try:
        return json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return "(nested too deeply to be shown)"


def _text(*parts: str | Iterable[str]) -> str:
    """Parts with an empty line between them; those that are empty are left out."""
    joined = (part if isinstance(part, str) else "\n".join(part) for part in parts)
    return "\n\n".join(part for part in joined if part)


# Tools


def describe(tool_name: str, input: Mapping[str, Any], cwd: str) -> Description:
    """What this call would do, for a person who has to decide on it."""
    call = _Call(tool_name, input, cwd)
    if tool_name.startswith("mcp__"):
        return _mcp(call)
    return _TOOLS.get(tool_name, _any)(call)


def _any(call: _Call) -> Description:
    return _described(f"Use {call.name}", call.json())


def _described(title: str, text: str, format: Format = "text") -> Description:
    return Description(one_line(title), text, format)


def _mcp(call: _Call) -> Description:
    _, server, tool = (*call.name.split("__", 2), "")[:3]
    named = f"Use {tool} of the MCP server {server}" if tool else f"Use {call.name}"
    return _described(named, _text(call.rest()))


def _command(call: _Call) -> Description:
    command = call.text("command")
    notes = [call.text("description")]
    timeout = call.milliseconds("timeout")
    notes.append("" if timeout is None else f"Timeout: {timeout / 1000:g} s")
    notes.append("In the background" if call.flag("run_in_background") else "")
    notes.append("Outside the sandbox" if call.flag("dangerouslyDisableSandbox") else "")
    said = [f"# {one_line(note, LONG)}" for note in (*notes, *call.rest()) if note]
    title = f"Run `{one_line(command, TITLE - 6)}`" if command else "Run a command"
    return _described(title, _text(escape(command), said), "command")


def _edit(call: _Call) -> Description:
    path = call.path("file_path")
    edits = call.objects("edits") or [call.part("old_string", "new_string", "replace_all")]
    count = len(edits)
    title = f"Edit {_named(path)}" if count == 1 else f"Edit {_named(path)} in {count} places"
    hunks = [line for edit in edits for line in _hunk(edit)]
    name = one_line(path, LONG)
    diff = shorten("\n".join([f"--- {name}", f"+++ {name}", *map(escape, hunks)]))
    return _described(title, _text(call.rest(), diff), "diff")


def _hunk(edit: Mapping[str, Any]) -> list[str]:
    """One replacement as lines of a diff, and what else the edit says above them."""
    call = _Call("", edit, "")
    old, new = (call.text(name).split("\n") for name in ("old_string", "new_string"))
    every = ["# every occurrence"] if call.flag("replace_all") else []
    above = [*every, *(f"# {one_line(line, LONG)}" for line in call.rest())]
    return [*above, *(_lines_of_diff(old, new) or ["# no change"])]


def _lines_of_diff(old: list[str], new: list[str]) -> list[str]:
    # Where in the file it is, nobody here knows: the line numbers count from the fragment's start.
    if max(len(old), len(new)) > DIFFED_LINES:
        head = f"@@ -1,{len(old)} +1,{len(new)} @@"
        return [head, *(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    removed = old if old != [""] else []
    added = new if new != [""] else []
    return list(difflib.unified_diff(removed, added, lineterm=""))[2:]


def _write(call: _Call) -> Description:
    path, content = call.path("file_path"), call.text("content")
    count = len(content.splitlines())
    title = f"Write {_named(path)} ({count} line{'' if count == 1 else 's'})"
    return _described(title, _text([one_line(path, LONG), *call.rest()], escape(shorten(content))))


def _notebook(call: _Call) -> Description:
    path, source = call.path("notebook_path"), call.text("new_source")
    cell, mode = call.text("cell_id"), call.text("edit_mode")
    verb = {"insert": "Insert after", "delete": "Delete"}.get(mode, "Replace")
    about = [_member(name, value) for name, value in (("cell", cell), ("mode", mode)) if value]
    text = _text([one_line(path, LONG), *about, *call.rest()], escape(shorten(source)))
    name = _named(path)
    return _described(f"{verb} cell {cell} of {name}" if cell else f"Edit {name}", text)


def _read(call: _Call) -> Description:
    path = call.path("file_path") or call.path("notebook_path") or call.place("path")
    return _described(f"Read {_named(path)}", _text([one_line(path, LONG), *call.rest()]))


def _search(call: _Call) -> Description:
    pattern, place = call.text("pattern"), call.place("path")
    verb = "Search for" if call.name == "Grep" else "List files like"
    lines = [_member("pattern", pattern), _member("path", place), *call.rest()]
    return _described(f"{verb} {pattern} in {place}", _text(lines))


def _fetch(call: _Call) -> Description:
    url = call.text("url")
    return _described(f"Fetch {url}", _text(one_line(url, LONG), call.rest()), "url")


def _web_search(call: _Call) -> Description:
    query = call.text("query")
    return _described(f"Search the web for {query}", _text(_member("query", query), call.rest()))


def _agent(call: _Call) -> Description:
    prompt = call.text("prompt")
    said = call.text("description")
    lines = [_member("description", said)] if said else []
    text = _text([*lines, *call.rest()], escape(shorten(prompt)))
    return _described(f"Start an agent: {said or prompt}", text)


def _skill(call: _Call) -> Description:
    skill = call.first("skill", "command")
    return _described(f"Use the skill {skill}", _text(_member("skill", skill), call.rest()))


def _enter_plan_mode(call: _Call) -> Description:
    return _described("Enter plan mode", _text(call.rest()))


def _stop(call: _Call) -> Description:
    which = call.first("shell_id", "task_id")
    return _described(f"Stop the background task {which}", _task(call, which))


def _output(call: _Call) -> Description:
    which = call.first("bash_id", "task_id")
    return _described(f"Read the output of the background task {which}", _task(call, which))


def _task(call: _Call, which: str) -> str:
    return _text([_member("task", which), *call.rest()])


_TOOLS: Final[dict[str, Callable[[_Call], Description]]] = {
    "Agent": _agent,
    "Bash": _command,
    "BashOutput": _output,
    "Edit": _edit,
    "EnterPlanMode": _enter_plan_mode,
    "Glob": _search,
    "Grep": _search,
    "KillBash": _stop,
    "KillShell": _stop,
    "LS": _read,
    "MultiEdit": _edit,
    "NotebookEdit": _notebook,
    "NotebookRead": _read,
    "PowerShell": _command,
    "Read": _read,
    "Skill": _skill,
    "SlashCommand": _skill,
    "Task": _agent,
    "TaskOutput": _output,
    "TaskStop": _stop,
    "WebFetch": _fetch,
    "WebSearch": _web_search,
    "Write": _write,
}
