"""Requests about the conversation: its title, asides, its text, where it takes place."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from pilothouse_sim.simulator.controls.base import (
    ControlAsk,
    Handler,
    RequestRefused,
    read_object,
    required,
)
from pilothouse_sim.simulator.outlet import new_id
from pilothouse_sim.simulator.tally import Tally

if TYPE_CHECKING:
    from pilothouse_sim.simulator.session import SimulatedSession

__all__ = ["ANSWERS"]

_WORTH_A_TITLE: Final = 10
"""Characters below which nobody is asked for a title."""
_PROMPT: Final = "\u276f"
_BUSY: Final = (
    "A turn is in progress — the working directory can only change while the session is idle."
    " Wait for the turn to finish (or interrupt it), then retry."
)
_NEEDS_DIRECTORY: Final = (
    "set_cwd: invalid request — trust_accepted requires trusted_directory (echo the directory from"
    " the needs_trust response)"
)


# Titles


def rename_session(session: SimulatedSession, asked: ControlAsk) -> None:
    """Give the session a title, and say so first."""
    title = required(asked, "title", "rename_session")
    if not title:
        raise RequestRefused("title must be non-empty")
    named = asked.get("session_id")
    if named is not None and named != session.state.session_id:
        raise RequestRefused("session_id is not the current session")
    session.state.desk.title = title
    session.transcript.rename(title)
    session.state.outlet.system("session_title_changed", title=title)


async def generate_session_title(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Let the model make a title."""
    description = required(asked, "description", "generate_session_title")
    if len(description) < _WORTH_A_TITLE:
        return {"title": None}
    words = await session.requests.ask_aside(_naming(session, f"Name this session: {description}"))
    title = read_object(words or "").get("title")
    return {"title": title if isinstance(title, str) else None}


async def side_question(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Ask the model beside the conversation."""
    session.state.outlet.system("control_request_progress", request_id=asked.id, status="started")
    question = asked.get("question")
    if not isinstance(question, str):
        broken = "undefined is not an object (evaluating 't.startsWith')"
        return {"response": f"(API error: {broken})", "synthetic": True}
    body = session.requests.body(session.main)
    body["messages"] = [*body["messages"], {"role": "user", "content": question}]
    return {"response": await session.requests.ask_aside(body), "synthetic": False}


def _naming(session: SimulatedSession, words: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    return {
        "model": session.state.model_name,
        "messages": [{"role": "user", "content": words}],
        "max_tokens": 128_000,
        "output_config": {"format": {"type": "json_schema", "schema": schema}},
    }


# The text


def export_conversation(session: SimulatedSession, _: ControlAsk) -> dict[str, Any]:
    """The conversation as text."""
    messages = session.main.messages
    parts = [part for message in messages for part in _parts(message)]
    text = "\n".join(f"\n{part}" for part in parts)
    prompts = [_words(each["content"]) for each in messages if each["role"] == "user"]
    stamp = f"{datetime.now(UTC):%Y-%m-%d-%H%M%S}"
    name = f"{stamp}-{_slug(prompts[0])}" if prompts else f"conversation-{stamp}"
    return {"text": text, "default_filename": f"{name}.txt"}


def _parts(message: dict[str, Any]) -> list[str]:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    shown = [_part(message["role"], block) for block in cast("list[dict[str, Any]]", blocks)]
    return [part for part in shown if part]


def _part(role: str, block: dict[str, Any]) -> str:
    match block["type"]:
        case "text":
            return _spoken(_PROMPT if role == "user" else "●", block["text"])
        case "tool_use":
            return f"● {block['name']}({', '.join(map(str, block['input'].values()))})"
        case "tool_result":
            return _spoken(" ⎿ ", _words(block["content"]))
        case _:
            return ""


def _spoken(mark: str, words: str) -> str:
    command = re.search(
        r"<command-name>(.*?)</command-name>\n<command-args>(.*?)</command-args>", words
    )
    output = re.search(r"<local-command-stdout>(.*)</local-command-stdout>", words, re.DOTALL)
    if command and output:
        return (
            f"{_PROMPT} {command[1]} {command[2]}".rstrip() + f"\n  ⎿  {output[1].replace('`', '')}"
        )
    return f"{mark} " + "\n  ".join(words.splitlines())


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = cast("list[dict[str, Any]]", content)
    return "\n".join(str(block.get("text", "")) for block in blocks)


def _slug(words: str) -> str:
    plain = re.sub(r"[^a-z0-9\s-]", "", words.lower())
    return "-".join(plain.split())[:50]


# The place


def set_cwd(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """Move to another directory that the user trusts."""
    named, trusted = asked.get("path"), asked.get("trusted_directory")
    if not isinstance(named, str) or not named:
        raise RequestRefused("set_cwd: invalid request — path must be a non-empty string")
    if asked.get("trust_accepted") is True and not isinstance(trusted, str):
        raise RequestRefused(_NEEDS_DIRECTORY)
    if session.queue.is_busy:
        return {"status": "rejected", "reason": "busy", "message": _BUSY}
    path = (session.state.cwd / named).resolve()
    if not path.is_dir():
        words = f"Couldn't find a directory at {path}."
        return {"status": "rejected", "reason": "not_found", "message": words}
    if path == session.state.cwd:
        return _moved(path, changed=False)
    if asked.get("trust_accepted") is not True or trusted != str(path):
        return {"status": "needs_trust", "directory": str(path), **_trust_root(path)}
    _move(session, path)
    return _moved(path, changed=True)


def _move(session: SimulatedSession, path: Path) -> None:
    """Move, and show it as a command of the CLI's own."""
    own = new_id()
    session.state.cwd = session.state.place.cwd = path
    session.state.permissions.cwd = str(path)
    session.state.outlet.system("ui_invalidate", event="ui.render")
    session.activity.tell("running")
    session.state.outlet.send("command_lifecycle", command_uuid=own, state="started")
    session.announce([])
    session.results.write_local(Tally(), None)
    session.state.outlet.send("command_lifecycle", command_uuid=own, state="completed")
    session.activity.tell("idle")


def _moved(path: Path, *, changed: bool) -> dict[str, Any]:
    return {"status": "ok", "cwd": str(path), "changed": changed, "transcript_relocated": True}


def _trust_root(path: Path) -> dict[str, Any]:
    repository = next((each for each in path.parents if (each / ".git").exists()), None)
    return {"trust_root": str(repository)} if repository else {}


ANSWERS: dict[str, Handler] = {
    "rename_session": rename_session,
    "generate_session_title": generate_session_title,
    "side_question": side_question,
    "export_conversation": export_conversation,
    "set_cwd": set_cwd,
}
