"""Stands in for the CLI, as a program: says what the file `lines` of its working directory has.

Where there is none it is honest: it asks for leave to run a command, and ends its turn once it has
an answer. It knows nothing of the package.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

VERSION = "2.1.325"
GREETING = {"commands": [], "agents": [], "models": [], "account": {}, "pid": 1}
ASK = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "make"}}
END = {"type": "system", "subtype": "status", "status": "all-was-said"}


def tell(*lines: bytes) -> None:
    sys.stdout.buffer.write(b"".join(line + b"\n" for line in lines))
    sys.stdout.buffer.flush()


def told(**members: object) -> bytes:
    return json.dumps(members).encode()


def answer(request: dict[str, object], body: object) -> None:
    reply = {"subtype": "success", "request_id": request["request_id"], "response": body}
    tell(told(type="control_response", response=reply))


def heard_prompt(uuid: str) -> None:
    script = Path("lines")
    tell(
        told(type="system", subtype="init", model="big", claude_code_version=VERSION),
        told(type="user", uuid=uuid, isReplay=True, message={"role": "user", "content": "go"}),
    )
    if script.exists():
        tell(*script.read_bytes().split(b"\n"), told(**END))
    else:
        tell(told(type="control_request", request_id="honest", request=ASK | {"tool_use_id": "t"}))


def heard_answer() -> None:
    if not Path("lines").exists():
        tell(told(type="result", subtype="success", result="fine", total_cost_usd=0.5))


def main() -> None:
    if "--version" in sys.argv:
        tell(f"{VERSION} (Claude Code)".encode())
        return
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message["type"] == "control_request":
            is_greeting = message["request"]["subtype"] == "initialize"
            answer(message, GREETING | {"claude_code_version": VERSION} if is_greeting else {})
        elif message["type"] == "user":
            heard_prompt(message["uuid"])
        elif message["type"] == "control_response":
            heard_answer()


if __name__ == "__main__":
    main()
