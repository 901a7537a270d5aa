"""The models 2.1.325 knows: their aliases, sizes and prices, as its results and lists give them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

__all__ = [
    "ModelFacts",
    "data",
    "is_known_model",
    "listed_models",
    "model",
    "price",
    "request_model",
    "resolve_model",
    "spoken_name",
]

FOLDER: Final = Path(__file__).with_name("facts")
_UNKNOWN: Final = {"max_output_tokens": 32_000, "cost_basis": "unknown", "takes_effort": False}
_DATED: Final = re.compile(r"(?:.*\.)?(claude-.+?)(?:-\d{8}|-latest)?(?:-v\d.*|@.*)?")


class ModelFacts(Struct, frozen=True, kw_only=True):
    """A model as results and reports describe it."""

    id: str
    """The canonical name, without a date."""
    price: tuple[float, float, float, float]
    """Dollars per million tokens: input, output, cache creation, cache read."""
    long_price: tuple[float, float, float, float] | None = None
    """The price of a prompt of more than 100,000 tokens, where it differs."""
    context_window: int
    max_output_tokens: int
    cost_basis: str = "list"
    takes_effort: bool = False
    """Whether the effort can change from turn to turn."""
    keeps_todo_tools: bool = False
    """Whether the model is so old that it gets tools for a list of tasks."""


@cache
def data() -> dict[str, Any]:
    """Everything in `facts/cli.json`."""
    return msgspec.json.decode((FOLDER / "cli.json").read_bytes())


def resolve_model(name: str | None) -> str:
    """The model an alias stands for; any other name is taken as it is."""
    words = (name or "default").strip()
    plain = words[:-4] if words.lower().endswith("[1m]") else words
    alias = data()["aliases"].get(plain.lower())
    if alias is not None:
        return alias
    if _canonical(plain) in data()["retired"]:
        # The CLI moves users of retired models to their successor.
        return data()["aliases"]["opus"]
    return plain if is_known_model(plain) else words


def request_model(given: str | None, resolved: str, mode: str) -> str:
    """The model that is really asked: two aliases stand for another one in plan mode."""
    planners = {"haiku": "sonnet", "opusplan": "opus"}
    planner = planners.get((given or "").lower()) if mode == "plan" else None
    return resolve_model(planner) if planner else resolved


def is_known_model(name: str) -> bool:
    """Whether the CLI knows a price or a size for this model, dated or not."""
    return _canonical(name) in data()["models"]


def model(name: str) -> ModelFacts:
    """Size and price of a model; unknown ones are taken for the default one, as the CLI does."""
    canonical = _canonical(name)
    models: dict[str, dict[str, Any]] = data()["models"]
    known = models.get(canonical)
    if known is None:
        known = models[data()["aliases"]["default"]] | _UNKNOWN
    return msgspec.convert({"id": canonical, **known}, ModelFacts)


def price(name: str, tokens: Mapping[str, int]) -> float:
    """What one call costs in dollars, by the `usage` the API reports."""
    known = model(name)
    fresh = tokens.get("input_tokens", 0)
    created = tokens.get("cache_creation_input_tokens", 0)
    read = tokens.get("cache_read_input_tokens", 0)
    is_long = fresh + created + read > 100_000
    rates = known.long_price if is_long and known.long_price else known.price
    spent = (fresh, tokens.get("output_tokens", 0), created, read)
    return sum(count / 1e6 * rate for count, rate in zip(spent, rates, strict=True))


def listed_models(chosen: str | None = None) -> list[dict[str, Any]]:
    """The models a user may choose from; one chosen at launch that is not among them is added."""
    listed: list[dict[str, Any]] = data()["listed_models"]
    plain = (chosen or "default").removesuffix("[1m]").lower()
    if plain == "opusplan":
        return [*listed, _described(plain)]
    resolved = resolve_model(chosen)
    if resolved in {entry["resolvedModel"] for entry in listed}:
        return listed
    return [*listed, _described(resolved)]


def _described(name: str) -> dict[str, Any]:
    levels = ["low", "medium", "high", "xhigh", "max"]
    able = {
        "supportsEffort": True,
        "supportedEffortLevels": levels,
        "supportsAdaptiveThinking": True,
        "supportsAutoMode": True,
    }
    named = {"value": name, "resolvedModel": resolve_model(name)}
    if name == "opusplan":
        words = {
            "displayName": "Opus Plan Mode",
            "description": "Use Opus in plan mode, Sonnet otherwise",
        }
        return named | words | able | {"supportsThinkingOff": False}
    if not is_known_model(name):
        words = {"displayName": name, "description": "Custom model"}
        return named | words | able | {"supportsThinkingOff": True}
    family, number = _spoken(model(name).id)
    newest = _spoken(data()["aliases"][family.lower()])[1]
    words = {
        "displayName": f"{family} {number}",
        "description": f"Newer version available · select {family} for {family} {newest}",
    }
    return named | words | {"supportsThinkingOff": True}


def spoken_name(name: str) -> str:
    """What the CLI calls a model when it speaks of it."""
    return " ".join(_spoken(model(name).id)) if is_known_model(name) else name


def _spoken(canonical: str) -> tuple[str, str]:
    words = canonical.removeprefix("claude-").split("-")
    family = next(word for word in words if word.isalpha())
    return family.capitalize(), ".".join(word for word in words if word.isdigit())


def _canonical(name: str) -> str:
    matched = _DATED.fullmatch(name)
    plain = matched[1] if matched else name
    return "claude-sonnet-4-0" if plain == "claude-sonnet-4" else plain
