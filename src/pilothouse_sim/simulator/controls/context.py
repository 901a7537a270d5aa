"""What fills the context window, as far as a simulated session can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from pilothouse_sim.simulator import facts, user_extensions
from pilothouse_sim.simulator.controls.base import ControlAsk, RequestRefused, has_talked

if TYPE_CHECKING:
    from pilothouse_sim.simulator.session import SimulatedSession

__all__ = ["get_context_usage"]

_SQUARES: Final = 200
_ROW: Final = 20
_BUFFER: Final = 33_000
"""Kept free for the summary of the conversation."""

Category = dict[str, Any]


def get_context_usage(session: SimulatedSession, asked: ControlAsk) -> dict[str, Any]:
    """The report; `summary` counts roughly what `full` counts exactly."""
    detail = asked.get("detail")
    if detail not in (None, "summary", "full"):
        raise RequestRefused("get_context_usage: detail must be 'summary' or 'full'")
    window = facts.model(session.state.model_name).context_window
    categories = _categories(session, window, rough=detail == "summary")
    used = sum(each["tokens"] for each in categories if each["kind"] == "used")
    return {
        "categories": categories,
        "totalTokens": used,
        "maxTokens": window,
        "rawMaxTokens": window,
        "autocompactSource": "model-default",
        "percentage": round(used * 100 / window),
        "gridRows": _grid(categories, window),
        "model": session.state.model_name,
        "memoryFiles": _memory_files(session),
        "mcpTools": [],
        "mcpInstructions": [],
        "agents": _agents(session),
        **_skills(session),
        "autoCompactThreshold": window - _BUFFER,
        "isAutoCompactEnabled": True,
        **_messages(session),
        "apiUsage": session.state.ledger.last_usage,
    }


def _categories(session: SimulatedSession, window: int, *, rough: bool) -> list[Category]:
    known = facts.reports()["context_summary" if rough else "context_full"]
    sized = {each["id"]: dict(each) for each in known}
    sized["messages"]["tokens"] = _estimate(session.main.messages)
    if "ToolSearch" not in session.toolbox.names():
        del sized["system_tools_deferred"]
    if (rough and not has_talked(session)) or _has_answers(session):
        # What the API has counted is less than what the CLI counts of its own texts.
        del sized["messages"]
    found = [*sized.values()]
    found[2:2] = _own_categories(session)
    used = sum(each["tokens"] for each in found if each["kind"] == "used")
    sized["free_space"]["tokens"] = window - used - _BUFFER
    return found


def _has_answers(session: SimulatedSession) -> bool:
    return any(message["role"] == "assistant" for message in session.main.messages)


def _own_categories(session: SimulatedSession) -> list[Category]:
    found = [
        ("custom_agents", "Custom agents", "permission", _agents(session)),
        ("memory_files", "Memory files", "claude", _memory_files(session)),
    ]
    return [
        {
            "id": own,
            "name": name,
            "tokens": sum(each["tokens"] for each in parts),
            "color": color,
            "kind": "used",
        }
        for own, name, color, parts in found
        if parts
    ]


def _grid(categories: list[Category], window: int) -> list[list[Category]]:
    size = window / _SQUARES
    shown = [each for each in categories if each["kind"] in ("used", "buffer")]
    counts = {each["id"]: max(1, round(each["tokens"] / size)) for each in shown}
    free = next(each for each in categories if each["kind"] == "free")
    counts["free_space"] = _SQUARES - sum(counts.values())
    buffer = [each for each in shown if each["kind"] == "buffer"]
    order = [*(each for each in shown if each["kind"] == "used"), free, *buffer]
    squares = [_square(each, at, window) for each in order for at in range(counts[each["id"]])]
    return [squares[at : at + _ROW] for at in range(0, _SQUARES, _ROW)]


def _square(category: Category, at: int, window: int) -> Category:
    full = category["kind"] == "free" or None
    return {
        "color": category["color"],
        "isFilled": True,
        "categoryName": category["name"],
        "tokens": category["tokens"],
        "percentage": round(category["tokens"] * 100 / window),
        "squareFullness": 1 if full else min(1, category["tokens"] / (window / _SQUARES) - at),
    }


def _skills(session: SimulatedSession) -> dict[str, Any]:
    names: list[str] = facts.reports()["reloaded_skills"]
    own = [_own_skill(each) for each in _own_commands(session)]
    skills = own + [{"name": name, "source": "built-in", "tokens": len(name)} for name in names]
    count, tokens = len(skills), sum(each["tokens"] for each in skills)
    return {
        "slashCommands": {"totalCommands": count, "includedCommands": count, "tokens": tokens},
        "skills": {
            "totalSkills": count,
            "includedSkills": count,
            "tokens": tokens,
            "skillFrontmatter": skills,
        },
    }


def _own_commands(session: SimulatedSession) -> list[user_extensions.Custom]:
    return user_extensions.own_commands(
        session.state.cwd, session.state.config_dir, session.state.launch.setting_sources
    )


def _own_skill(custom: user_extensions.Custom) -> dict[str, Any]:
    return {
        "name": custom.name,
        "source": f"{custom.label}Settings",
        "path": str(custom.path),
        "tokens": round(len(custom.line) / 3),
    }


def _agents(session: SimulatedSession) -> list[Category]:
    sources = session.state.launch.setting_sources
    return [
        {
            "agentType": each["name"],
            "source": f"{each['label']}Settings",
            "path": str(each["path"]),
            "tokens": _estimate(each["description"]),
        }
        for each in user_extensions.own_agents(session.state.cwd, session.state.config_dir, sources)
    ]


def _memory_files(session: SimulatedSession) -> list[Category]:
    places = (("User", session.state.config_dir), ("Project", session.state.cwd))
    found = [(kind, folder / "CLAUDE.md") for kind, folder in places]
    return [
        {"path": str(path), "type": kind, "tokens": _estimate(path.read_text(errors="replace"))}
        for kind, path in found
        if path.is_file()
    ]


def _messages(session: SimulatedSession) -> dict[str, Any]:
    said = {"user": 0, "assistant": 0}
    for message in session.main.messages:
        said[message["role"]] += _estimate(message["content"])
    breakdown: dict[str, Any] = {
        "toolCallTokens": 0,
        "toolResultTokens": 0,
        "attachmentTokens": 0,
        "assistantMessageTokens": said["assistant"],
        "userMessageTokens": said["user"],
        "redirectedContextTokens": 0,
        "unattributedTokens": 0,
        "toolCallsByType": [],
        "attachmentsByType": [],
    }
    return {"messageBreakdown": breakdown}


def _estimate(content: Any) -> int:
    return len(msgspec.json.encode(content)) // 4
