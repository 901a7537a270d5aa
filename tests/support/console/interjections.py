"""A CLI that writes more lines: what the simulator has no occasion for, as the real CLI says it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pilothouse_sim.cassettes import write_program

Line = dict[str, Any]


def interjecting(cli: Path, folder: Path, lines: Mapping[str, Sequence[Line]]) -> Path:
    """A program that is this CLI, and writes these lines before the turn that ends with a text."""
    folder.mkdir()
    file = folder / "lines.json"
    file.write_text(json.dumps(lines))
    return write_program(folder, [sys.executable, str(Path(__file__)), str(cli), str(file)])


def called(
    id: str, name: str, result: str | list[Any], told: Any = None, **given: Any
) -> list[Line]:
    """A call of a tool, and how it came out: for the model, and in the tool's own form."""
    call = {"type": "tool_use", "id": id, "name": name, "input": given}
    result_block = {"type": "tool_result", "tool_use_id": id, "content": result}
    message = {"id": f"msg_{id}", "type": "message", "role": "assistant", "model": "claude-sim"}
    usage = {"input_tokens": 0, "output_tokens": 0}
    return [
        {"type": "assistant", "message": message | {"content": [call], "usage": usage}}
        | {"parent_tool_use_id": None, "uuid": f"0{id}"},
        {"type": "user", "message": {"role": "user", "content": [result_block]}}
        | {"parent_tool_use_id": None, "uuid": f"1{id}", "tool_use_result": told},
    ]


def _main(cli: str, file: str, *arguments: str) -> int:
    told: dict[str, list[Line]] = json.loads(Path(file).read_text())
    with subprocess.Popen([cli, *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            for each in _before(line, told):
                sys.stdout.buffer.write(json.dumps(each).encode() + b"\n")
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    return process.returncode


def _before(line: bytes, told: Mapping[str, list[Line]]) -> list[Line]:
    if b'"result"' not in line:
        return []
    ending = json.loads(line)
    lines = told.get(ending.get("result"), []) if ending["type"] == "result" else []
    return [each | {"session_id": ending["session_id"]} for each in lines]


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
