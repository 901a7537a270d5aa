"""What the session has spent: tokens and money, by model, since its start and since a result."""

from __future__ import annotations

from typing import Any

from pilothouse_sim.simulator import facts
from pilothouse_sim.simulator.clock import now_ms

__all__ = ["CostLedger", "Spent"]

_TOKENS = (
    ("inputTokens", "input_tokens"),
    ("outputTokens", "output_tokens"),
    ("cacheReadInputTokens", "cache_read_input_tokens"),
    ("cacheCreationInputTokens", "cache_creation_input_tokens"),
)

_OF_THIS_PROCESS = ("canonicalModel", "provider", "costBasis")
"""What the CLI forgets of models that the resumed session used and this process did not."""


class Spent:
    """Tokens of some calls, added up."""

    def __init__(self) -> None:
        self.tokens = {wire: 0 for _, wire in _TOKENS}
        self.cost = 0.0

    def add(self, usage: dict[str, Any], cost: float = 0.0) -> None:
        """Count one call."""
        self.cost += cost
        for wire in self.tokens:
            self.tokens[wire] += usage.get(wire, 0)

    def take_back(self, usage: dict[str, Any]) -> None:
        """Forget the tokens of one call again."""
        for wire in self.tokens:
            self.tokens[wire] -= usage.get(wire, 0)

    def as_usage(self) -> dict[str, Any]:
        """The `usage` of a result."""
        return {
            "input_tokens": self.tokens["input_tokens"],
            "cache_creation_input_tokens": self.tokens["cache_creation_input_tokens"],
            "cache_read_input_tokens": self.tokens["cache_read_input_tokens"],
            "output_tokens": self.tokens["output_tokens"],
            "output_tokens_details": {"thinking_tokens": 0},
            "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
            "service_tier": "standard",
            "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
            "inference_geo": "",
            "iterations": [],
            "speed": "standard",
            "fallback_credit": None,
        }


class CostLedger:
    """Every call of the session, by model."""

    def __init__(self) -> None:
        self.cost: float = 0
        self.api_ms = 0
        self.calls = 0
        self.safety_stops = 0
        """Replies that the model has broken off because it refuses."""
        self.last_usage: dict[str, Any] | None = None
        self.lines_added = 0
        self.lines_removed = 0
        self._began_ms = now_ms()
        self._total: dict[str, Spent] = {}
        self._recent: dict[str, Spent] = {}
        self._past: set[str] = set()
        """Models that only an earlier process has used."""

    def add(self, model: str, usage: dict[str, Any]) -> None:
        """Count one call."""
        cost = facts.price(model, usage)
        self.cost += cost
        self.calls += 1
        self.last_usage = usage
        self._past.discard(model)
        for book in (self._total, self._recent):
            book.setdefault(model, Spent()).add(usage, cost)

    def count_lines(self, result: dict[str, Any]) -> None:
        """Count the lines that a tool's result says it changed."""
        if result.get("type") == "create":
            self.lines_added += str(result["content"]).count("\n") + 1
        hunks: list[dict[str, list[str]]] = result.get("structuredPatch") or []
        for line in (line for hunk in hunks for line in hunk["lines"]):
            self.lines_added += line.startswith("+")
            self.lines_removed += line.startswith("-")

    def by_model(self) -> dict[str, Any]:
        """The `modelUsage` of a result."""
        entries = {model: _entry(model, spent) for model, spent in self._total.items()}
        for model in self._past:
            for name in _OF_THIS_PROCESS:
                del entries[model][name]
        return entries

    def state(self) -> dict[str, Any]:
        """What a transcript says of it."""
        return {
            "totalCostUSD": self.cost,
            "totalAPIDuration": self.api_ms,
            "totalAPIDurationWithoutRetries": self.api_ms,
            "totalToolDuration": 0,
            "totalLinesAdded": self.lines_added,
            "totalLinesRemoved": self.lines_removed,
            "totalDuration": now_ms() - self._began_ms,
            "startTime": self._began_ms,
            "modelUsage": {model: _kept(model, spent) for model, spent in self._total.items()},
            "hasUnknownModelCost": False,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what a transcript says."""
        self.cost = state.get("totalCostUSD", 0)
        self.api_ms = state.get("totalAPIDuration", 0)
        for model, usage in state.get("modelUsage", {}).items():
            tokens = {wire: usage.get(name, 0) for name, wire in _TOKENS}
            self._total.setdefault(model, Spent()).add(tokens, usage.get("costUSD", 0.0))
            self._past.add(model)

    def since_last_result(self) -> dict[str, Any]:
        """What was spent since the last call of this method, by model."""
        recent, self._recent = self._recent, {}
        return {model: _entry(model, spent) for model, spent in recent.items()}


def _kept(model: str, spent: Spent) -> dict[str, Any]:
    dropped = (*_OF_THIS_PROCESS, "contextWindow", "maxOutputTokens")
    return {name: value for name, value in _entry(model, spent).items() if name not in dropped}


def _entry(model: str, spent: Spent) -> dict[str, Any]:
    known = facts.model(model)
    return {
        **{name: spent.tokens[wire] for name, wire in _TOKENS},
        "webSearchRequests": 0,
        "costUSD": spent.cost,
        "contextWindow": known.context_window,
        "maxOutputTokens": known.max_output_tokens,
        "thinkingTokens": 0,
        "cacheCreationEphemeral5mInputTokens": 0,
        "cacheCreationEphemeral1hInputTokens": 0,
        "canonicalModel": known.id,
        "provider": "firstParty",
        "costBasis": known.cost_basis,
    }
