"""Read, Write and Edit: they really read and change files."""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Any

import msgspec

from pilothouse_sim.simulator.tools.base import (
    ToolFailure,
    ToolOutcome,
    ToolSurroundings,
    refused,
)
from pilothouse_sim.simulator.tools.seen_files import (
    MODIFIED,
    UNREAD,
    decoded,
    is_stale,
    located,
    missing,
    see,
)

__all__ = ["check_edit", "check_read", "check_write", "read", "write"]

MAX_BYTES = 256 * 1024
MAX_TOKENS = 25_000
CURRENT = " (file state is current in your context — no need to Read it back)"
STALE = (
    " (note: the file had been modified on disk since you last read it — the edit applied "
    "cleanly, but the file contains other changes not in your context. Read it before edits "
    "that depend on surrounding content.)"
)
_TOO_LARGE = (
    "Use offset and limit parameters to read specific portions of the file, or search for "
    "specific content instead of reading the whole file. With allow_large: true as much of it is "
    "read as fits."
)
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_BINARY = (
    r"\.(7z|a|avi|bin|bmp|bz2|class|dat|db|dll|docx?|dylib|eot|exe|flac|gz|ico|iso|jar|m4a|mkv|mov"
    r"|mp3|mp4|o|obj|ogg|otf|pptx?|pyc|rar|so|sqlite|tar|tgz|tiff|ttf|war|wasm|wav|webm|wmv|woff2?"
    r"|xlsx?|xz|zip)$"
)
_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")


def check_read(arguments: dict[str, Any], place: ToolSurroundings) -> None:
    """Refuse device files and files that cannot be text."""
    name = str(arguments["file_path"])
    path = located(name, place)
    if str(path).startswith(("/dev/", "/proc/")):
        raise refused(
            f"Cannot read '{name}': this path names a device or process file that this tool "
            "does not read."
        )
    if re.match(_BINARY, path.suffix.lower()):
        raise refused(
            "This tool cannot read binary files. The file appears to be a binary "
            f"{path.suffix} file. Use a skill for this file type if one is available, or a "
            "shell command or script that can read the format."
        )


async def read(arguments: dict[str, Any], place: ToolSurroundings) -> ToolOutcome:
    """Give the lines of a file, or its picture, pages or cells."""
    path = located(str(arguments["file_path"]), place)
    data = _bytes_of(path, place)
    suffix = path.suffix.lower()
    if suffix in _IMAGES or suffix in (".pdf", ".ipynb"):
        # Pictures, pages and notebooks are rare.
        from pilothouse_sim.simulator.tools import documents

        return documents.read(arguments, place, path, data)
    return _read_text(arguments, place, path, data)


def _bytes_of(path: Path, place: ToolSurroundings) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ToolFailure(missing(path, place)) from None
    except IsADirectoryError:
        text = f"EISDIR: illegal operation on a directory, read '{path}'"
        raise ToolFailure(text) from None
    except OSError as error:
        raise ToolFailure(_system_words(error, path)) from None


def _system_words(error: OSError, path: Path, action: str = "open") -> str:
    code = errno.errorcode.get(error.errno or 0, "EIO")
    return f"{code}: {(error.strerror or '').lower()}, {action} '{path}'"


def _read_text(
    arguments: dict[str, Any], place: ToolSurroundings, path: Path, data: bytes
) -> ToolOutcome:
    offset, limit = arguments.get("offset", 1), arguments.get("limit")
    if len(data) > MAX_BYTES and limit is None:
        raise _too_large(_size(len(data)), "size", _size(MAX_BYTES))
    whole = decoded(data)
    lines = whole.split("\n")
    first = max(int(offset) - 1, 0)
    chosen = lines[first : None if limit is None else first + int(limit)]
    text = "\n".join(chosen)
    if (tokens := _tokens(text)) > MAX_TOKENS:
        raise _too_large(f"{tokens} tokens", "tokens", str(MAX_TOKENS))
    see(path, place, whole, whole=len(chosen) == len(lines))
    return ToolOutcome(
        content=_numbered(chosen, int(offset), len(lines), whole),
        result={
            "type": "text",
            "file": {
                "filePath": arguments["file_path"],
                "content": text,
                "numLines": len(chosen),
                "startLine": offset,
                "totalLines": len(lines),
            },
        },
    )


def _numbered(chosen: list[str], start: int, total: int, whole: str) -> str:
    if not whole:
        words = "Warning: the file exists but the contents are empty."
    elif not chosen:
        words = (
            f"Warning: the file exists but is shorter than the provided offset ({start}). "
            f"The file has {total} lines."
        )
    else:
        return "\n".join(f"{start + at}\t{line}" for at, line in enumerate(chosen))
    return f"<system-reminder>{words}</system-reminder>"


def _tokens(text: str) -> int:
    """How many tokens the text costs; the real CLI asks the model, a scripted one counts bytes."""
    around = 77
    return (len(msgspec.json.encode(text)) + around) // 4


def _too_large(amount: str, noun: str, limit: str) -> ToolFailure:
    return ToolFailure(
        f"File content ({amount}) exceeds maximum allowed {noun} ({limit}). {_TOO_LARGE}"
    )


def _size(count: int) -> str:
    amount, unit = float(count), "bytes"
    for larger in ("KB", "MB", "GB"):
        if amount >= 1024:
            amount, unit = amount / 1024, larger
    return f"{count} bytes" if unit == "bytes" else f"{amount:.1f}".removesuffix(".0") + unit


def check_write(arguments: dict[str, Any], place: ToolSurroundings) -> None:
    """Refuse folders, files changed behind the model's back and notebooks it has not read."""
    name = str(arguments["file_path"])
    path = located(name, place)
    if path.is_dir():
        raise refused(
            f"{name} is a directory, not a file. To create a file inside it, include the "
            "file name in file_path."
        )
    if any(parent.is_file() for parent in path.parents):
        failed = f"Error calling tool (Write): ENOTDIR: not a directory, stat '{path}'"
        raise ToolFailure(f"<tool_use_error>{failed}</tool_use_error>", result=failed)
    if not path.exists():
        return
    if path not in place.seen and path.suffix == ".ipynb":
        raise refused(UNREAD)
    if is_stale(path, place):
        raise refused(MODIFIED)


async def write(arguments: dict[str, Any], place: ToolSurroundings) -> ToolOutcome:
    """Make a file or replace what is in it."""
    name, content = str(arguments["file_path"]), str(arguments["content"])
    path = located(name, place)
    check_write(arguments, place)
    original = decoded(path.read_bytes()) if path.exists() else None
    _put(path, place, content.encode())
    see(path, place, content.replace("\r\n", "\n"))
    said = f"The file {name} has been updated successfully."
    # An empty file counts as none.
    if not original:
        said = f"File created successfully at: {name}"
    return ToolOutcome(content=said + CURRENT, result=_written(name, content, original))


def _put(path: Path, place: ToolSurroundings, data: bytes) -> None:
    place.touched(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise ToolFailure(_system_words(error, path)) from None


def _written(name: str, content: str, original: str | None) -> dict[str, Any]:
    from pilothouse_sim.simulator.tools.patches import structured_patch

    return {
        "type": "update" if original else "create",
        "filePath": name,
        "content": content,
        "structuredPatch": structured_patch(original, content) if original else [],
        "originalFile": original or None,
        "userModified": False,
    }


def check_edit(arguments: dict[str, Any], place: ToolSurroundings) -> None:
    """Refuse a change that cannot be made, in the CLI's words."""
    old, new = str(arguments["old_string"]), str(arguments["new_string"])
    path = located(str(arguments["file_path"]), place)
    if old == new:
        raise refused("No changes to make: old_string and new_string are exactly the same.")
    if path.is_dir():
        failed = "Error calling tool (Edit): EISDIR: illegal operation on a directory, read"
        raise ToolFailure(f"<tool_use_error>{failed}</tool_use_error>", result=failed)
    if not path.exists():
        if old:
            raise refused(missing(path, place))
        return
    if path.suffix == ".ipynb":
        raise refused("File is a Jupyter Notebook. Use the NotebookEdit to edit this file.")
    _check_match(arguments, place, path, decoded(path.read_bytes()))


def _check_match(arguments: dict[str, Any], place: ToolSurroundings, path: Path, text: str) -> None:
    old = str(arguments["old_string"])
    if not old:
        if text.strip():
            raise refused("Cannot create new file - file already exists.")
        return
    count = text.count(_actual(old, text) or old)
    if count == 1 or (count and arguments.get("replace_all")):
        return
    if is_stale(path, place):
        raise refused(MODIFIED)
    if not count:
        raise refused(f"String to replace not found in file.\nString: {old}")
    raise refused(
        f"Found {count} matches of the string to replace, but replace_all is false. To replace "
        "all occurrences, set replace_all to true. To replace only one occurrence, please "
        f"provide more context to uniquely identify the instance.\nString: {old}"
    )


def _actual(old: str, text: str) -> str | None:
    """The words of the file that are meant: typographic quotes count as straight ones."""
    if old in text:
        return old
    at = text.translate(_QUOTES).find(old.translate(_QUOTES))
    return text[at : at + len(old)] if at >= 0 else None


async def edit(arguments: dict[str, Any], place: ToolSurroundings) -> ToolOutcome:
    """Replace a string in a file, once or everywhere."""
    check_edit(arguments, place)
    name, everywhere = str(arguments["file_path"]), bool(arguments.get("replace_all"))
    path = located(name, place)
    data = path.read_bytes() if path.exists() else b""
    text, stale = decoded(data), path.exists() and is_stale(path, place)
    old = _actual(str(arguments["old_string"]), text) or str(arguments["old_string"])
    updated = _replaced(text, old, arguments, everywhere=everywhere)
    known = _knows(path, place) and not stale
    _put(path, place, (updated.replace("\n", "\r\n") if b"\r\n" in data else updated).encode())
    see(path, place, updated, whole=known)
    said = "has been updated successfully."
    if everywhere:
        said = "has been updated. All occurrences were successfully replaced."
    note = STALE if stale else CURRENT if known else ""
    return ToolOutcome(
        content=f"The file {name} {said}{note}",
        result=_edited(arguments, old, text, updated, stale=stale, known=known),
    )


def _knows(path: Path, place: ToolSurroundings) -> bool:
    seen = place.seen.get(path)
    return seen.whole if seen is not None else not path.exists()


def _replaced(text: str, old: str, arguments: dict[str, Any], *, everywhere: bool) -> str:
    new = str(arguments["new_string"])
    if not old:
        return new
    if old != arguments["old_string"]:
        new = _curled(new, old)
    if not new and not old.endswith("\n") and old + "\n" in text:
        # Lines that go take their end with them.
        old += "\n"
    return text.replace(old, new, -1 if everywhere else 1)


def _curled(new: str, like: str) -> str:
    """Straight quotes turned into the typographic ones the file has."""
    double = any(mark in like for mark in "\u201c\u201d")
    single = any(mark in like for mark in "\u2018\u2019")
    curled = ""
    for at, mark in enumerate(new):
        opens = at == 0 or new[at - 1] in " \t\n([{\u2014\u2013"
        if mark == '"' and double:
            mark = "\u201c" if opens else "\u201d"
        elif mark == "'" and single:
            mark = "\u2018" if opens else "\u2019"
        curled += mark
    return curled


def _edited(
    arguments: dict[str, Any], old: str, text: str, updated: str, *, stale: bool, known: bool
) -> dict[str, Any]:
    from pilothouse_sim.simulator.tools.patches import structured_patch

    result: dict[str, Any] = {
        "filePath": arguments["file_path"],
        "oldString": old,
        "newString": arguments["new_string"],
        "originalFile": text,
        "structuredPatch": structured_patch(text, updated),
        "userModified": False,
        "replaceAll": bool(arguments.get("replace_all")),
    }
    if stale:
        result["staleRecovered"] = True
    if not known:
        result["contentNotInModelContext"] = True
    return result
