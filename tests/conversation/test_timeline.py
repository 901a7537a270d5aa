"""What a session's time went into, from the items of its conversation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.api.items import Item, NoticeItem, PromptItem, QuestionItem, ToolItem, TurnItem
from pilothouse.api.questions import Question
from pilothouse.api.results import Stretch
from pilothouse.conversation.timeline import timeline_of


def asked(at: int, closed: int | None, by: str | None = "person") -> QuestionItem:
    question = Question(
        id=f"q{at}",
        session_id="s",
        kind="tool",
        state="open" if closed is None else "answered",
        title="Run it?",
        opened_at=at,
        closed_at=closed,
        answered_by=by,
    )
    return QuestionItem(id=f"question/{at}", seq=at, at=at, question=question)


def tool(at: int, ended: int | None, name: str = "Bash") -> ToolItem:
    state = "running" if ended is None else "done"
    return ToolItem(id=f"tool/{at}", seq=at, at=at, tool=name, state=state, ended_at=ended)


def prompt(at: int) -> PromptItem:
    return PromptItem(id=f"prompt/{at}", seq=at, at=at, text="go")


def turn(at: int, duration_ms: int = 0) -> TurnItem:
    return TurnItem(id=f"turn/{at}", seq=at, at=at, duration_ms=duration_ms)


def test_a_person_counts_more_than_a_tool_and_a_tool_more_than_the_model() -> None:
    items: list[Item] = [
        prompt(1000),
        tool(1100, 1500),
        asked(1150, 1400),
        # A rule has answered: nobody has waited.
        asked(1550, 1590, by="policy"),
        tool(1600, 1650, "Read"),
        turn(2000, 1000),
        prompt(5000),
        turn(5500, 400),
    ]
    told = timeline_of(items, 9000)
    assert told.spans == [
        Stretch(doing="model", start=1000, end=1100),
        Stretch(doing="tool", start=1100, end=1150, name="Bash"),
        Stretch(doing="person", start=1150, end=1400, name="Run it?"),
        Stretch(doing="tool", start=1400, end=1500, name="Bash"),
        Stretch(doing="model", start=1500, end=1600),
        Stretch(doing="tool", start=1600, end=1650, name="Read"),
        Stretch(doing="model", start=1650, end=2000),
        Stretch(doing="idle", start=2000, end=5000),
        Stretch(doing="model", start=5000, end=5500),
    ]
    assert told.totals == {"idle": 3000, "model": 1050, "tool": 200, "person": 250}
    assert not told.is_going_on


def test_what_has_no_end_goes_on_until_now() -> None:
    told = timeline_of([prompt(1000), tool(2000, None), asked(2500, None)], 4000)
    assert [(each.doing, each.end - each.start) for each in told.spans] == [
        ("model", 1000),
        ("tool", 500),
        ("person", 1500),
    ]
    assert told.is_going_on
    assert timeline_of([], 4000).spans == []
    assert timeline_of([NoticeItem(id="n", seq=1)], 4000).spans == []


def test_a_turn_that_claims_to_be_older_than_its_session_is_not() -> None:
    told = timeline_of([turn(2000, 2**53 - 1), prompt(2500), turn(3000, 2**53 - 1)], 9000)
    assert (told.spans[0].start, told.spans[-1].end) == (2000, 3000)


def test_of_many_stretches_the_longest_stay_as_they_are() -> None:
    items: list[Item] = [prompt(1)]
    for number in range(1, 30_000):
        items.append(tool(number * 100, number * 100 + (9 if number % 1000 else 90), "Grep"))
    items.append(turn(3_000_000, 2_999_999))
    whole = timeline_of(items, 3_000_000, 10**6)
    told = timeline_of(items, 3_000_000)
    assert len(whole.spans) == 59_999
    assert len(told.spans) <= 2001
    assert sum(each.count for each in told.spans) == 59_999
    assert told.totals == whole.totals
    assert (told.spans[0].start, told.spans[-1].end) == (1, 3_000_000)
    for before, after in zip(told.spans, told.spans[1:], strict=False):
        assert before.end == after.start


moments = st.integers(1, 60)
claims = st.lists(st.tuples(st.sampled_from("tqTp"), moments, st.integers(0, 40)), max_size=12)


@given(claims)
def test_any_items_give_stretches_without_holes_that_come_to_their_totals(
    given: list[tuple[str, int, int]],
) -> None:
    items: list[Item] = []
    for number, (kind, at, length) in enumerate(given):
        item: Item = {
            "t": tool(at, at + length),
            "q": asked(at, at + length),
            "T": turn(at, length),
            "p": prompt(at),
        }[kind]
        item.id = str(number)
        items.append(item)
    for most in (2000, 4):
        told = timeline_of(items, 200, most)
        assert len(told.spans) <= most + 1
        covered = sum(each.end - each.start for each in told.spans)
        assert covered == sum(told.totals.values())
        for before, after in zip(told.spans, told.spans[1:], strict=False):
            assert before.end == after.start
            assert before.start < before.end
