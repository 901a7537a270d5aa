"""`/metrics` in Prometheus' text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, get_args

from pilothouse.api.engine import Engine
from pilothouse.api.results import Health
from pilothouse.api.values import State

__all__ = ["CONTENT_TYPE", "render"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Metric(NamedTuple):
    """One metric with its samples."""

    name: str
    kind: str
    help: str
    samples: Iterable[tuple[Mapping[str, str], float]]


async def render(
    engine: Engine, answers: Counter[tuple[str, str, int]], watchers: int, version: str
) -> str:
    """Everything there is to measure, at this moment."""
    health = await engine.health()
    cost = await engine.cost("day")
    metrics = [
        _one("pilothouse_up", "gauge", "Whether the engine is in order.", float(health.ok)),
        Metric("pilothouse_info", "gauge", "The version.", [({"version": version}, 1)]),
        _one("pilothouse_sessions_live", "gauge", "Sessions with a CLI alive.", health.live),
        Metric("pilothouse_sessions", "gauge", "Sessions by state.", _by_state(health)),
        _one("pilothouse_questions_open", "gauge", "Questions that wait.", health.questions),
        _one("pilothouse_events_total", "counter", "Events ever kept.", health.cursor),
        _one("pilothouse_journal_cursor", "gauge", "The newest event's number.", health.cursor),
        _one("pilothouse_cost_today_usd", "gauge", "Spent today.", cost.today_usd),
        _one("pilothouse_watchers", "gauge", "Open event streams and WebSockets.", watchers),
        Metric(
            "pilothouse_http_requests_total",
            "counter",
            "Requests answered.",
            [(_labels(*key), count) for key, count in sorted(answers.items())],
        ),
    ]
    return "".join(map(_written, metrics))


def _by_state(health: Health) -> list[tuple[Mapping[str, str], float]]:
    return [({"state": state}, health.states.get(state, 0)) for state in get_args(State)]


def _one(name: str, kind: str, help: str, value: float) -> Metric:
    return Metric(name, kind, help, [({}, value)])


def _labels(method: str, route: str, status: int) -> dict[str, str]:
    return {"method": method, "route": route, "status": str(status)}


def _written(metric: Metric) -> str:
    lines = [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
    for labels, value in metric.samples:
        pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        lines.append(f"{metric.name}{{{pairs}}} {value:g}" if pairs else f"{metric.name} {value:g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
