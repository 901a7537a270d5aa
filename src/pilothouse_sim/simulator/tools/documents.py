"""What Read shows of pictures, pages and notebooks, and NotebookEdit."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, cast

from pilothouse_sim.simulator.tools.base import ToolFailure, ToolOutcome, ToolSurroundings, refused
from pilothouse_sim.simulator.tools.seen_files import (
    MODIFIED,
    UNREAD,
    decoded,
    is_stale,
    located,
    missing,
    see,
)

__all__ = ["check_notebook_edit", "notebook_edit", "read"]

Cell = dict[str, Any]
_NO_PAGES = (
    "pdftoppm is not installed. Install poppler-utils (e.g. `brew install poppler` or "
    "`apt-get install poppler-utils`) to enable PDF page rendering."
)


def read(
    arguments: dict[str, Any], place: ToolSurroundings, path: Path, data: bytes
) -> ToolOutcome:
    """Read a file that is more than lines."""
    if path.suffix.lower() == ".pdf":
        return _read_pages(arguments, data)
    if path.suffix.lower() == ".ipynb":
        return _read_notebook(arguments, place, path, data)
    return _read_picture(path, data)


def _read_picture(path: Path, data: bytes) -> ToolOutcome:
    kind = _picture_type(data)
    if kind is None:
        raise ToolFailure(_no_picture(path, data))
    encoded = base64.b64encode(data).decode()
    width, height = _dimensions(kind, data)
    file: dict[str, Any] = {"base64": encoded, "type": kind, "originalSize": len(data)}
    if width and height:
        file["dimensions"] = {
            "originalWidth": width,
            "originalHeight": height,
            "displayWidth": width,
            "displayHeight": height,
        }
    source = {"type": "base64", "data": encoded, "media_type": kind}
    return ToolOutcome(
        content=[{"type": "image", "source": source}], result={"type": "image", "file": file}
    )


def _picture_type(data: bytes) -> str | None:
    if data.startswith(b"\x89PNG"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith(b"GIF8"):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def _dimensions(kind: str, data: bytes) -> tuple[int, int]:
    if kind == "image/png":
        return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    if kind == "image/gif":
        return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    return 0, 0


def _no_picture(path: Path, data: bytes) -> str:
    first = " ".join(f"{byte:02x}" for byte in data[:8])
    return (
        "File has an image extension but its content is not a valid PNG/JPEG/GIF/WebP. "
        f"Detected: unrecognized bytes (hex: {first}). This usually means a download saved an "
        f'error/login page instead of the image. Use `file "{path}"` to confirm, or read it as '
        "text with Bash (e.g. `head -c 500`)."
    )


def _read_pages(arguments: dict[str, Any], data: bytes) -> ToolOutcome:
    if arguments.get("pages") and shutil.which("pdftoppm") is None:
        raise ToolFailure(_NO_PAGES)
    name, encoded = arguments["file_path"], base64.b64encode(data).decode()
    source = {"type": "base64", "media_type": "application/pdf", "data": encoded}
    words = f"PDF file read: {name} ({len(data)} bytes)"
    return ToolOutcome(
        content=[{"type": "text", "text": words}, {"type": "document", "source": source}],
        result={
            "type": "pdf",
            "file": {"filePath": name, "base64": encoded, "originalSize": len(data)},
        },
    )


def _read_notebook(
    arguments: dict[str, Any], place: ToolSurroundings, path: Path, data: bytes
) -> ToolOutcome:
    notebook = _notebook(decoded(data))
    language = _language(notebook)
    cells = [_shown(cell, at, language) for at, cell in enumerate(notebook["cells"])]
    see(path, place, decoded(data))
    words = "\n".join(_tagged(cell) for cell in cells)
    return ToolOutcome(
        content=[{"text": words, "type": "text"}],
        result={"type": "notebook", "file": {"filePath": arguments["file_path"], "cells": cells}},
    )


def _notebook(words: str) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", json.loads(words))
    except ValueError:
        found = re.match(r"\s*(\w*)", words)
        what = f'Unexpected identifier "{found[1]}"' if found and found[1] else "Unexpected EOF"
        raise ToolFailure(
            "Notebook file is not valid JSON (it may be truncated, corrupted, or still being "
            f"written): JSON Parse error: {what}"
        ) from None


def _language(notebook: dict[str, Any]) -> str:
    return notebook.get("metadata", {}).get("language_info", {}).get("name", "python")


def _source(cell: Cell) -> str:
    return _text(cell.get("source", ""))


def _text(lines: Any) -> str:
    return "".join(cast("list[str]", lines)) if isinstance(lines, list) else str(lines)


def _shown(cell: Cell, at: int, language: str) -> Cell:
    shown: Cell = {"cellType": cell["cell_type"], "source": _source(cell)}
    if cell["cell_type"] != "code":
        return {**shown, "cell_id": cell.get("id") or f"cell-{at}"}
    if cell.get("execution_count") is not None:
        shown["execution_count"] = cell["execution_count"]
    shown |= {"cell_id": cell.get("id") or f"cell-{at}", "language": language}
    if cell.get("outputs"):
        shown["outputs"] = [_output(output) for output in cell["outputs"]]
    return shown


def _output(output: Cell) -> Cell:
    kind = output["output_type"]
    if kind == "stream":
        return {"output_type": kind, "text": _text(output.get("text", ""))}
    if kind == "error":
        trace = "\n".join(output.get("traceback", []))
        return {"output_type": kind, "text": f"{output['ename']}: {output['evalue']}\n{trace}"}
    return {"output_type": kind, "text": _text(output.get("data", {}).get("text/plain", ""))}


def _tagged(cell: Cell) -> str:
    own = cell["cell_id"]
    kind = "" if cell["cellType"] == "code" else f"<cell_type>{cell['cellType']}</cell_type>"
    outputs = "".join(f"\n\n{output['text']}" for output in cell.get("outputs", []))
    tail = f"{outputs}" if outputs else ""
    return f'<cell id="{own}">{kind}{cell["source"]}</cell id="{own}">{tail}'


def check_notebook_edit(arguments: dict[str, Any], place: ToolSurroundings) -> None:
    """Refuse edits that cannot be made, in the CLI's words."""
    path, mode = located(str(arguments["notebook_path"]), place), arguments.get("edit_mode")
    if path.suffix != ".ipynb":
        raise refused(
            "File must be a Jupyter notebook (.ipynb file). For editing other file types, use "
            "the FileEdit tool."
        )
    if mode == "insert" and not arguments.get("cell_type"):
        raise refused("Cell type is required when using edit_mode=insert.")
    if path not in place.seen:
        raise refused(UNREAD)
    if not path.exists():
        raise refused(missing(path, place))
    if is_stale(path, place):
        raise refused(MODIFIED)
    _check_cell(arguments, path)


def _check_cell(arguments: dict[str, Any], path: Path) -> None:
    own = arguments.get("cell_id")
    if own is None:
        if arguments.get("edit_mode") != "insert":
            raise refused("Cell ID must be specified when not inserting a new cell.")
    elif _position(_notebook(decoded(path.read_bytes())), own) is None:
        raise refused(f'Cell with ID "{own}" not found in notebook.')


def _position(notebook: dict[str, Any], own: str) -> int | None:
    cells = cast("list[Cell]", notebook["cells"])
    for at, cell in enumerate(cells):
        if cell.get("id") == own:
            return at
    found = re.fullmatch(r"cell-(\d+)", own)
    return int(found[1]) if found and int(found[1]) < len(cells) else None


async def notebook_edit(arguments: dict[str, Any], place: ToolSurroundings) -> ToolOutcome:
    """Replace, insert or delete a cell."""
    check_notebook_edit(arguments, place)
    name, mode = str(arguments["notebook_path"]), arguments.get("edit_mode") or "replace"
    path = located(name, place)
    original = decoded(path.read_bytes())
    notebook = _notebook(original)
    own, old = _change(notebook, arguments, mode)
    updated = json.dumps(notebook, indent=1, ensure_ascii=False)
    place.touched(path)
    path.write_text(updated)
    see(path, place, updated)
    result = {
        "new_source": arguments["new_source"],
        "old_source": old,
        "cell_type": arguments.get("cell_type") or "code",
        "language": _language(notebook),
        "edit_mode": mode,
        "cell_id": own,
        "error": "",
        "notebook_path": name,
        "original_file": original,
        "updated_file": updated,
    }
    if mode == "insert":
        del result["old_source"]
    return ToolOutcome(content=_said(mode, own, arguments["new_source"]), result=result)


def _said(mode: str, own: str, source: str) -> str:
    if mode == "delete":
        return f"Deleted cell {own}"
    return f"{'Inserted' if mode == 'insert' else 'Updated'} cell {own} with {source}"


def _change(notebook: dict[str, Any], arguments: dict[str, Any], mode: str) -> tuple[str, str]:
    cells = cast("list[Cell]", notebook["cells"])
    own = str(arguments.get("cell_id") or "")
    at = _position(notebook, own) if own else None
    if mode == "insert":
        cell = _made(arguments)
        cells.insert(0 if at is None else at + 1, cell)
        return cell["id"], ""
    assert at is not None
    old = _source(cells[at])
    if mode == "delete":
        del cells[at]
    else:
        _replace(cells[at], arguments)
    return own, old


def _made(arguments: dict[str, Any]) -> Cell:
    cell: Cell = {
        "cell_type": arguments["cell_type"],
        "id": os.urandom(4).hex(),
        "source": arguments["new_source"],
        "metadata": {},
    }
    if arguments["cell_type"] == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell


def _replace(cell: Cell, arguments: dict[str, Any]) -> None:
    cell["source"] = arguments["new_source"]
    if cell["cell_type"] == "code":
        cell |= {"execution_count": None, "outputs": []}
    if arguments.get("cell_type"):
        cell["cell_type"] = arguments["cell_type"]
