"""What a call that is asked about would change in a file, as the file is now.

A file may be endless, so it is read no further than a limit.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pilothouse.api.questions import FileChange, Question
from pilothouse.conversation.tool_views import changed_file

from .questions.descriptions import escape

__all__ = ["change_asked_for"]

LONGEST_FILE: Final = 1_000_000
"""In bytes; nobody reads the changes of a longer one on a card."""


def change_asked_for(question: Question, cwd: str) -> FileChange:
    """What becomes of the file that a tool is to write: a diff, or why there is none. It reads."""
    change = _CHANGES.get(question.tool_name or "")
    path = question.input.get("file_path")
    if change is None or not isinstance(path, str) or not path or path.startswith("~"):
        return FileChange()
    return _change(Path(cwd, path), change, question.input)


def _change(path: Path, change: _Change, given: Mapping[str, Any]) -> FileChange:
    try:
        before = _text(path)
    except FileNotFoundError:
        return FileChange(because="There is no such file yet.")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return FileChange(because=f"The file as it is now cannot be shown: {reason}.")
    after = change(before, given)
    if after is None:
        return FileChange()
    if after == before:
        return FileChange(because="The file is like that already.")
    # Hidden characters must not deceive whoever decides.
    return FileChange(diff=changed_file(escape(str(path)), escape(before), escape(after)))


def _text(path: Path) -> str:
    """The whole text of a file, or an error with words for a person."""
    # A pipe must not be waited for.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no regular file")
        content = file.read(LONGEST_FILE + 1)
    if len(content) > LONGEST_FILE:
        raise ValueError(f"it is longer than {LONGEST_FILE // 1_000_000} MB")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise ValueError("it is no text") from None
    return _with_line_feeds(text)


def _with_line_feeds(text: str) -> str:
    """The CLI keeps the line ends that a file has, and its tools speak of line feeds."""
    return text.replace("\r\n", "\n")


_Change = Callable[[str, Mapping[str, Any]], str | None]
"""The text after a call, from the text before it; None where that is not certain."""


def _written(before: str, given: Mapping[str, Any]) -> str | None:
    content = given.get("content")
    return _with_line_feeds(content) if isinstance(content, str) else None


def _edited(before: str, given: Mapping[str, Any]) -> str | None:
    old, new = given.get("old_string"), given.get("new_string")
    if not isinstance(old, str) or not isinstance(new, str) or not old:
        return None
    found = before.count(old)
    if not found or (found > 1 and given.get("replace_all") is not True):
        return None
    return before.replace(old, new)


_CHANGES: Final[Mapping[str, _Change]] = {"Edit": _edited, "Write": _written}
