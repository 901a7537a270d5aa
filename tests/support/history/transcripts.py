"""Makes configuration folders with transcripts in them."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

from pilothouse.history import History

Line = dict[str, Any]
WHEN = "2026-11-15T19:16:31.065Z"
WHEN_MS = 1794770191065


def session_id(number: int) -> str:
    return str(uuid.UUID(int=number))


def place(**members: Any) -> Line:
    """How the CLI ends its lines."""
    return {
        "userType": "external",
        "entrypoint": "sdk-cli",
        "cwd": "/srv/harbour",
        "sessionId": session_id(1),
        "version": "2.1.325",
        "gitBranch": "main",
    } | members


def said(content: Any, **members: Any) -> Line:
    """A line of the user's, its members in the CLI's order."""
    message = {"role": "user", "content": content}
    begun = {"parentUuid": None, "isSidechain": False, "type": "user", "message": message}
    return begun | {"uuid": session_id(9), "timestamp": WHEN} | place(**members)


def replied(text: str, **members: Any) -> Line:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    begun = {"parentUuid": None, "isSidechain": False, "type": "assistant", "message": message}
    return begun | {"timestamp": WHEN} | place(**members)


def noted(type_: str, **members: Any) -> Line:
    return {"type": type_, **members, "sessionId": session_id(1)}


def encoded(*lines: Line | bytes) -> bytes:
    """Lines as the CLI writes them."""
    whole = (
        each if isinstance(each, bytes) else json.dumps(each, separators=(",", ":")).encode()
        for each in lines
    )
    return b"".join(each + b"\n" for each in whole)


class Shelf:
    """A configuration folder."""

    def __init__(self, folder: Path) -> None:
        self.config_dir = folder / "config"
        self.projects = self.config_dir / "projects"
        self.projects.mkdir(parents=True)
        self.index = folder / "kept" / "history"
        self.typed = self.config_dir / "history.jsonl"

    def history(self) -> History:
        return History(self.config_dir, index=self.index)

    def path(self, number: int, project: str = "-srv-harbour") -> Path:
        folder = self.projects / project
        folder.mkdir(exist_ok=True)
        return folder / f"{session_id(number)}.jsonl"

    def put(
        self,
        number: int,
        *lines: Line | bytes,
        at: int | None = None,
        project: str = "-srv-harbour",
    ) -> Path:
        """Writes a transcript, last changed in second `at`."""
        path = self.path(number, project)
        path.write_bytes(encoded(*(lines or (said(f"Prompt {number}"),))))
        seconds = number if at is None else at
        os.utime(path, (seconds, seconds))
        return path

    def type(self, *lines: Line | bytes) -> None:
        with self.typed.open("ab") as file:
            file.write(encoded(*lines))


def typed(number: int, display: str, **members: Any) -> Line:
    """A line of `history.jsonl`."""
    return {
        "display": display,
        "pastedContents": {},
        "timestamp": 1_700_000_000_000 + number,
        "project": "/srv/harbour",
        "sessionId": session_id(number),
    } | members
