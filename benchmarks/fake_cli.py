"""A stand-in for the Claude Code CLI that is never the slow side of a measurement.

It speaks just enough of the stream-json protocol to serve one client, and writes bytes that
were built before the clock starts. Whoever starts it, it runs in a session of its own: Linux shares
out processors by sessions, and two processes of one session wake each other ten times as often on a
busy machine. Usage: fake_cli.py MODE COUNT [the real CLI's arguments].
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress

VERSION = "2.1.325"
SESSION = "678f01dc-1155-4a61-be28-76ee99be754f"
MODEL = "claude-opus-5-5"
USAGE = {
    "input_tokens": 100,
    "output_tokens": 5,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}
WORDS = ("Hello ", "from ", "the ", "scripted ", "model.\n", 'It "quotes" ', "naïve ")
SPELLED = tuple(json.dumps(word, ensure_ascii=False) for word in WORDS)
PARALLEL = {"permissions": 1, "parallel_permissions": 10}
DELTAS_PER_MESSAGE = 1000
WRITE_SIZE = 256 * 1024


def main(arguments: list[str]) -> None:
    """Serve one client until its end of stdin."""
    if "--version" in arguments or "-v" in arguments:
        sys.stdout.write(f"{VERSION} (Claude Code)\n")
        return
    with suppress(PermissionError):  # it leads one already
        os.setsid()
    mode, count = arguments[0], int(arguments[1])
    script = stream_script(count) if mode == "stream" else []
    asks = permission_script(count, PARALLEL.get(mode, 0))
    incoming = lines()
    for line in incoming:
        message = json.loads(line)
        if message["type"] == "control_request":
            write(answer_to(message))
        elif message["type"] == "user":
            write(encode(init()))
            for requests in asks:
                ask(requests, incoming)
            for chunk in script:
                write(chunk)
            write(encode(result()))


def lines() -> Iterator[bytes]:
    """Yield each line of stdin."""
    tail = b""
    while data := os.read(0, 1 << 16):
        *complete, tail = (tail + data).split(b"\n")
        yield from complete


def write(data: bytes) -> None:
    """Write everything, however the pipe divides it."""
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def encode(message: dict[str, object]) -> bytes:
    """One compact line, spelled the way the CLI spells it."""
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def uuid(number: int) -> str:
    """A distinct uuid of the usual length."""
    return f"dd8f6ab4-6e33-4f7e-9499-{number:012x}"


def answer_to(request: dict[str, object]) -> bytes:
    """Succeed at any control request; initialize reports what a client may look for."""
    body = {
        "commands": [],
        "agents": [],
        "output_style": "default",
        "available_output_styles": ["default"],
        "models": [],
        "account": {},
        "pid": os.getpid(),
        "claude_code_version": VERSION,
        "current_permission_mode": "default",
        "session_state": "idle",
        "capabilities": [],
    }
    response = {"subtype": "success", "request_id": request["request_id"], "response": body}
    return encode({"type": "control_response", "response": response})


def permission_script(count: int, parallel: int) -> list[list[bytes]]:
    """Permission requests in groups that are open at the same time."""
    starts = range(0, count, parallel) if parallel else ()
    return [
        [permission_request(number) for number in range(first, min(first + parallel, count))]
        for first in starts
    ]


def ask(requests: list[bytes], incoming: Iterator[bytes]) -> None:
    """Send permission requests and wait for as many approvals."""
    write(b"".join(requests))
    unanswered = len(requests)
    while unanswered:
        line = next(incoming)
        if b"control_response" in line:
            unanswered -= 1
            if b'"allow"' not in line:
                sys.exit(f"fake CLI: not an approval: {line!r}")


def permission_request(number: int) -> bytes:
    """A can_use_tool request for a small shell command."""
    request = {
        "subtype": "can_use_tool",
        "tool_name": "Bash",
        "display_name": "Bash",
        "input": {"command": "touch made_by_bash; echo bash-ran", "description": "d"},
        "description": "d",
        "permission_suggestions": [
            {"type": "addDirectories", "directories": ["/home/dev"], "destination": "session"}
        ],
        "tool_use_id": f"toolu_{number:06}_70579085",
    }
    return encode({"type": "control_request", "request_id": uuid(number), "request": request})


def stream_script(count: int) -> list[bytes]:
    """The text deltas of one turn, as messages of a thousand, in large chunks of bytes.

    One message for all of them would be a line of over a megabyte at its end, which is more than
    some clients accept by default.
    """
    script: list[bytes] = []
    chunk = bytearray()
    for first in range(0, count, DELTAS_PER_MESSAGE):
        for line in message_lines(first, min(DELTAS_PER_MESSAGE, count - first)):
            chunk += line
            if len(chunk) >= WRITE_SIZE:
                script.append(bytes(chunk))
                chunk.clear()
    script.append(bytes(chunk))
    return script


def message_lines(first: int, count: int) -> Iterator[bytes]:
    """One assistant message in partial form, then whole."""
    api_id = f"msg_{first:06}_69998886"
    message: dict[str, object] = {
        "id": api_id,
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": USAGE,
    }
    block = {"type": "text", "text": ""}
    yield partial(api_id, {"type": "message_start", "message": message})
    yield partial(api_id, {"type": "content_block_start", "index": 0, "content_block": block})
    yield from (delta(api_id, number) for number in range(first, first + count))
    text = "".join(WORDS[number % len(WORDS)] for number in range(first, first + count))
    whole = {**message, "content": [{"type": "text", "text": text}], "context_management": None}
    yield encode(
        {
            "type": "assistant",
            "message": whole,
            "parent_tool_use_id": None,
            "session_id": SESSION,
            "uuid": uuid(0),
            "request_id": f"req_{first:06}",
        }
    )
    yield partial(api_id, {"type": "content_block_stop", "index": 0})
    ending = {"stop_reason": "end_turn", "stop_sequence": None}
    yield partial(api_id, {"type": "message_delta", "delta": ending, "usage": USAGE})
    yield partial(api_id, {"type": "message_stop"})


def partial(api_id: str, event: dict[str, object]) -> bytes:
    """A stream_event line around one event of the Messages API."""
    return encode(
        {
            "type": "stream_event",
            "event": event,
            "session_id": SESSION,
            "parent_tool_use_id": None,
            "uuid": uuid(0),
            "api_message_id": api_id,
        }
    )


def delta(api_id: str, number: int) -> bytes:
    """A text delta, formatted by hand since there are many."""
    return (
        '{"type":"stream_event","event":{"type":"content_block_delta","index":0,'
        f'"delta":{{"type":"text_delta","text":{SPELLED[number % len(WORDS)]}}}}},'
        f'"session_id":"{SESSION}","parent_tool_use_id":null,'
        f'"uuid":"{uuid(number)}","api_message_id":"{api_id}"}}\n'
    ).encode()


def init() -> dict[str, object]:
    """The system/init line that opens a turn."""
    return {
        "type": "system",
        "subtype": "init",
        "cwd": "/home/dev/project",
        "session_id": SESSION,
        "tools": ["Task", "Bash", "Edit", "Read", "Write"],
        "mcp_servers": [],
        "model": MODEL,
        "permissionMode": "default",
        "slash_commands": [],
        "apiKeySource": "ANTHROPIC_API_KEY",
        "claude_code_version": VERSION,
        "output_style": "default",
        "agents": [],
        "skills": [],
        "plugins": [],
        "capabilities": [],
        "uuid": uuid(0),
    }


def result() -> dict[str, object]:
    """The result line that ends a turn."""
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "duration_ms": 247,
        "duration_api_ms": 71,
        "num_turns": 1,
        "result": "Done.",
        "stop_reason": "end_turn",
        "session_id": SESSION,
        "total_cost_usd": 0.0005,
        "usage": USAGE,
        "modelUsage": {},
        "permission_denials": [],
        "uuid": uuid(0),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
