"""What a session's time went into: the model, a tool, a person who was waited for, or nothing.

Every item claims some time. Where claims overlap, a person counts more than a tool, and a tool more
than the model; of equals, the one that began last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from pilothouse.api.items import (
    CompactionItem,
    Item,
    PromptItem,
    QuestionItem,
    RetryItem,
    TextItem,
    ThinkingItem,
    ToolItem,
    TurnItem,
)
from pilothouse.api.results import Doing, Stretch, Timeline

__all__ = ["MOST_STRETCHES", "timeline_of"]

MOST_STRETCHES: Final = 2000
LONGEST_NAME: Final = 200

_RANKS: Final[dict[Doing, int]] = {"idle": 0, "model": 1, "tool": 2, "person": 3}
_OF_TURNS: Final = (
    CompactionItem,
    PromptItem,
    QuestionItem,
    RetryItem,
    TextItem,
    ThinkingItem,
    ToolItem,
)
"""What a turn consists of; other items come between turns as well."""
_UNFINISHED: Final = frozenset({"streaming", "writing", "running", "asking", "waiting"})


class _Claim(NamedTuple):
    start: int
    end: int
    doing: Doing
    name: str = ""


def timeline_of(items: Sequence[Item], now: int, most: int = MOST_STRETCHES) -> Timeline:
    """The stretches of these items in order, without holes; short ones joined if there are many."""
    timed = [item for item in items if item.at]
    if not timed:
        return Timeline(spans=[], at=now)
    is_going_on = any(map(_is_unfinished, timed))
    last = now if is_going_on else max(item.at for item in timed)
    claims = [*_turns(timed, last), *_others(timed, now)]
    claims = [each for each in claims if each.end > each.start]
    first = min(item.at for item in timed)
    nothing = _Claim(
        min([first, *(each.start for each in claims)]),
        max([last, *(each.end for each in claims)]),
        "idle",
    )
    spans = _swept([nothing, *claims])
    totals = dict.fromkeys(_RANKS, 0)
    for each in spans:
        totals[each.doing] += each.end - each.start
    return Timeline(
        spans=list(_joined(spans, most)),
        totals={str(doing): ms for doing, ms in totals.items()},
        at=now,
        is_going_on=is_going_on,
    )


def _is_unfinished(item: Item) -> bool:
    if isinstance(item, QuestionItem):
        return item.question.state == "open"
    return getattr(item, "state", "") in _UNFINISHED


def _others(items: Iterable[Item], now: int) -> Iterator[_Claim]:
    for item in items:
        if isinstance(item, QuestionItem):
            question = item.question
            # For what a rule has answered nobody has waited.
            if question.answered_by != "policy" and question.opened_at:
                end = now if question.closed_at is None else question.closed_at
                yield _Claim(question.opened_at, end, "person", question.title)
        elif isinstance(item, ToolItem) and item.state != "writing":
            going_on = now if item.state in ("running", "asking") else item.at
            yield _Claim(item.at, item.ended_at or going_on, "tool", item.tool)


def _turns(items: Iterable[Item], last: int) -> Iterator[_Claim]:
    """Each turn is the model's time as far as nothing else claims it. The last may have no end."""
    items = sorted(items, key=lambda item: item.at)
    # A CLI may say anything: no turn began before the first of all items.
    ended = min((item.at for item in items), default=0)
    began: int | None = None
    for item in items:
        if isinstance(item, TurnItem):
            start = item.at - item.duration_ms
            yield _Claim(max(ended, min(start, began or start)), item.at, "model")
            ended, began = item.at, None
        elif began is None and isinstance(item, _OF_TURNS) and not _is_withdrawn(item):
            began = item.at
    if began is not None:
        yield _Claim(max(began, ended), last, "model")


def _is_withdrawn(item: Item) -> bool:
    return isinstance(item, PromptItem) and item.state == "withdrawn"


def _swept(claims: list[_Claim]) -> list[_Claim]:
    """From one border to the next the claim that counts most; neighbours that are alike as one."""
    borders = sorted({border for each in claims for border in (each.start, each.end)})
    coming = sorted(claims, key=lambda each: each.start, reverse=True)
    open_ones: list[tuple[int, int, int, _Claim]] = []
    spans: list[_Claim] = []
    for start, end in pairwise(borders):
        while coming and coming[-1].start <= start:
            claim = coming.pop()
            heappush(open_ones, (-_RANKS[claim.doing], -claim.start, len(coming), claim))
        while open_ones[0][3].end <= start:
            heappop(open_ones)
        top = open_ones[0][3]
        before = spans[-1] if spans else None
        if before is not None and (before.doing, before.name) == (top.doing, top.name):
            spans[-1] = before._replace(end=end)
        else:
            spans.append(_Claim(start, end, top.doing, top.name))
    return spans


def _joined(spans: Sequence[_Claim], most: int) -> Iterator[Stretch]:
    """The longest as they are. What stands between them becomes one stretch of what it mostly was,
    which says how many it stands for."""
    if len(spans) <= most:
        yield from (_stretch(each) for each in spans)
        return
    lengths = sorted((each.end - each.start for each in spans), reverse=True)
    least = lengths[most // 2 - 1]
    for is_long, run in groupby(spans, key=lambda each: each.end - each.start > least):
        if is_long:
            yield from (_stretch(each) for each in run)
        else:
            yield _one_of(list(run))


def _one_of(run: Sequence[_Claim]) -> Stretch:
    if len(run) == 1:
        return _stretch(run[0])
    totals = dict.fromkeys(_RANKS, 0)
    for each in run:
        totals[each.doing] += each.end - each.start
    doing = max(totals, key=lambda each: totals[each])
    return Stretch(doing=doing, start=run[0].start, end=run[-1].end, count=len(run))


def _stretch(claim: _Claim) -> Stretch:
    name = claim.name
    if len(name) > LONGEST_NAME:
        name = name[: LONGEST_NAME - 1] + "…"
    return Stretch(doing=claim.doing, start=claim.start, end=claim.end, name=name)
