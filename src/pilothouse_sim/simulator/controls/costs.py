"""What the session has cost, in words and in numbers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pilothouse_sim.simulator.controls.base import ControlAsk
    from pilothouse_sim.simulator.session import SimulatedSession

__all__ = ["get_session_cost", "get_usage"]

_STARTED = time.monotonic()


def get_usage(session: SimulatedSession, _: ControlAsk) -> dict[str, Any]:
    """What the session has used; an API key has no limits to report."""
    added, removed = _lines(session)
    return {
        "session": {
            # The CLI writes whole numbers without a fraction.
            "total_cost_usd": session.state.ledger.cost or 0,
            "total_api_duration_ms": session.state.ledger.api_ms,
            "total_duration_ms": int(_elapsed() * 1000),
            "total_lines_added": added,
            "total_lines_removed": removed,
            "model_usage": session.state.ledger.by_model(),
        },
        "subscription_type": None,
        "rate_limits_available": False,
        "rate_limits": None,
        "behaviors": None,
    }


def get_session_cost(session: SimulatedSession, _: ControlAsk) -> dict[str, Any]:
    """The cost in words."""
    added, removed = _lines(session)
    lines = [
        f"Total cost:            {_dollars(session.state.ledger.cost)}{_doubt(session)}",
        f"Total duration (API):  {_duration(session.state.ledger.api_ms / 1000)}",
        f"Total duration (wall): {_duration(_elapsed())}",
        f"Total code changes:    {_count(added)} added, {_count(removed)} removed",
        *_usage(session.state.ledger.by_model()),
        *_cache(session),
    ]
    return {"text": "\n".join(lines)}


def _doubt(session: SimulatedSession) -> str:
    known = all(each["costBasis"] == "list" for each in session.state.ledger.by_model().values())
    return "" if known else " (costs may be inaccurate due to usage of unknown models)"


def _usage(models: dict[str, Any]) -> list[str]:
    if not models:
        return ["Usage:                 0 input, 0 output, 0 cache read, 0 cache write"]
    return ["Usage by model:", *(_model_line(spent) for spent in models.values())]


def _model_line(spent: dict[str, Any]) -> str:
    kinds = {
        "input": spent["inputTokens"],
        "output": spent["outputTokens"],
        "cache read": spent["cacheReadInputTokens"],
        "cache write": spent["cacheCreationInputTokens"],
    }
    words = ", ".join(f"{_short(count)} {kind}" for kind, count in kinds.items())
    name = f"{spent['canonicalModel']}:"
    return f"{name:>21}  {words} ({_dollars(spent['costUSD'])})"


def _cache(session: SimulatedSession) -> list[str]:
    asked = sum(message["role"] == "assistant" for message in session.main.messages)
    if not asked:
        return []
    spent = session.state.ledger.by_model().values()
    read = sum(each["cacheReadInputTokens"] for each in spent)
    created = sum(each["cacheCreationInputTokens"] for each in spent)
    total = read + created + sum(each["inputTokens"] for each in spent)
    share = round(read * 100 / total) if total else 0
    times = "1 request" if asked == 1 else f"{asked} requests"
    state = "warm (5m TTL, last activity 0s ago)"
    if not read and not created:
        state = "no prompt caching reported by the API"
    return [
        f"Prompt cache (main):   {times} · {share}% of input tokens from cache"
        f" · no misses · {state}"
    ]


def _lines(session: SimulatedSession) -> tuple[int, int]:
    return session.state.ledger.lines_added, session.state.ledger.lines_removed


def _elapsed() -> float:
    return time.monotonic() - _STARTED


def _dollars(cost: float) -> str:
    return f"${cost:.2f}" if cost > 0.5 else f"${cost:.4f}"


def _count(lines: int) -> str:
    return f"{lines} line" if lines == 1 else f"{lines} lines"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes}m {rest}s"
    return f"{minutes}m {rest}s" if minutes else f"{rest}s"


def _short(count: int) -> str:
    for size, letter in ((1_000_000, "m"), (1000, "k")):
        if count >= size:
            return f"{count / size:.1f}{letter}"
    return str(count)
