"""What a journal says, kept by what it is about, and held against what its clients were told."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from pilothouse.api.answers import Answer
from pilothouse.api.events import Event, Gap
from pilothouse.api.statuses import Status
from pilothouse.engine.view import View
from tests.support.server.load import Ack, Load, Track

KEY = re.compile(r"\[([a-z]+-\d+)\]$")


Places = dict[str, list[int]]


class JournalReading:
    """The journal, as it is read: kept by what it is about."""

    def __init__(self) -> None:
        self.last = 0
        self.views: dict[str, View] = {}
        self.places: dict[str, Places] = defaultdict(lambda: defaultdict(list))
        """By kind: the entries about each session, prompt or question."""
        self.texts: dict[str, list[str]] = defaultdict(list)
        """By key: what was said with it."""
        self.answers: dict[str, list[tuple[int, Any]]] = defaultdict(list)
        """By question: what was taken as its answer."""
        self.begun: set[str] = set()
        """Messages that a turn has taken."""
        self.cancelled: set[str] = set()
        """Messages that the CLI has let go of without a turn."""
        self.runs: set[str] = set()
        """The lives of CLIs that the journal knows of."""
        self.deaths: dict[str, str] = {}
        """By run: how a CLI ended that nobody had closed."""
        self.bereaved: set[str] = set()
        """The sessions whose CLIs those were."""
        self._running: dict[str, str] = {}

    def take(self, event: Event) -> None:
        assert event.seq > self.last
        self.last = event.seq
        body = bytes(event.body)
        view = self.views.setdefault(event.session_id, View(session_id=event.session_id))
        view.apply(event.seq, event.kind, event.at, body)
        if "." in event.kind:
            self._note(event, json.loads(body))
        elif b"command_lifecycle" in body or b"isReplay" in body:
            self._follow(json.loads(body))

    def _follow(self, line: dict[str, Any]) -> None:
        if line.get("state") == "started":
            self.begun.add(line["command_uuid"])
        elif line.get("isReplay"):
            self.begun.add(line["uuid"])

    def _note(self, event: Event, record: dict[str, Any]) -> None:
        if event.kind == "turn.ended" and record["outcome"] == "cancelled":
            self.cancelled.update(record["prompts"])
            return
        if event.kind == "prompt.said" and record["id"] in self.places["prompt.said"]:
            # Held, because its CLI is about to close: it is no second message.
            assert record["id"] not in self.begun
            return
        if event.kind == "cli.started":
            self.runs.add(record["run"])
            self._running[event.session_id] = record["run"]
        if event.kind == "cli.ended":
            run = self._running.pop(event.session_id, "")
            if not record["orderly"]:
                self.deaths[run] = record["reason"]
                self.bereaved.add(event.session_id)
        for each in ids_in(event, record):
            self.places[event.kind][each].append(event.seq)
        if event.kind == "prompt.said" and (key := KEY.search(str(record["content"]))):
            self.texts[key[1]].append(record["content"])
        if record.get("answer") is not None:
            self.answers[record["id"]].append((event.seq, record["answer"]))


def ids_in(event: Event, record: dict[str, Any]) -> list[str]:
    match event.kind:
        case "turn.ended":
            return record.get("prompts", [])
        case "question.opened":
            return [record["question"]["id"]]
        case _:
            return [record.get("id", event.session_id)]


# What was acknowledged is there once and in order


def place_of(books: JournalReading, ack: Ack) -> int | None:
    """The entry that an acknowledgement speaks of; None: it needs none."""
    match ack.do:
        case "start":
            (place,) = books.places["session.started"][ack.told["session_id"]]
            (said,) = books.places["prompt.said"][ack.told["prompt_id"]]
            assert said > place
        case "say":
            (place,) = books.places["prompt.said"][ack.told["prompt_id"]]
        case "answer":
            ((place, answer),) = books.answers[ack.members["question_id"]]
            given = {name: each for name, each in ack.members.items() if name != "question_id"}
            assert as_answer(answer) == as_answer(given)
            # Another person may have been the first to give this very answer.
            return None if ack.told["repeated"] else place
        case "cancel":
            return place_of_cancel(books, ack)
        case _:
            return None
    return place


def place_of_cancel(books: JournalReading, ack: Ack) -> int | None:
    """The CLI may have told of it first: then there is no entry of ours."""
    if not ack.told["cancelled"]:
        return None
    prompt_id = ack.told["prompt_id"]
    assert prompt_id not in books.views[ack.members["session_id"]].queued
    withdrawn = books.places["prompt.withdrawn"][prompt_id]
    return withdrawn[0] if withdrawn else None


def as_answer(given: dict[str, Any]) -> Any:
    return msgspec.convert(given, Answer)


ONCE = (
    "session.started",
    "prompt.said",
    "prompt.withdrawn",
    "turn.ended",
    "question.opened",
    "question.closed",
    "question.decided",
)


def check_acknowledged(load: Load, books: JournalReading) -> None:
    for name, acks in load.acks.items():
        places = [place for ack in acks if (place := place_of(books, ack)) is not None]
        assert places == sorted(set(places)), f"{name}: {places}"
    for key, texts in books.texts.items():
        assert texts == [load.wanted[key]]
        assert key not in load.refused
    check_queued(load, books)
    for kind in ONCE:
        twice = {each: places for each, places in books.places[kind].items() if len(places) > 1}
        assert not twice, f"{kind}: {twice}"
    for session_id, count in interrupts_of(load).items():
        assert len(books.places["interrupt.asked"][session_id]) >= count


def check_queued(load: Load, books: JournalReading) -> None:
    """A message that was accepted is queued until a turn takes it or somebody takes it back."""
    acks = [ack for acks in load.acks.values() for ack in acks]
    cancelled = {ack.told["prompt_id"] for ack in acks if ack.do == "cancel"}
    gone = books.begun | cancelled | books.places["prompt.withdrawn"].keys()
    # The server may have been killed before it could tell that it was done.
    gone |= books.cancelled & load.unwanted
    for ack in acks:
        if ack.do in ("start", "say") and ack.told["prompt_id"] not in gone:
            queued = books.views[ack.told["session_id"]].queued
            assert ack.told["prompt_id"] in queued, f"{ack} is forgotten"


def interrupts_of(load: Load) -> Counter[str]:
    acks = (ack for acks in load.acks.values() for ack in acks if ack.do == "interrupt")
    return Counter(ack.members["session_id"] for ack in acks if ack.told["was_running"])


# What was seen is there, under the same number


def check_seen(
    load: Load, there: dict[int, Event], gaps: Iterable[Gap], after: int, upto: int
) -> None:
    gone = [(gap.first, gap.last) for gap in gaps if gap.reason == "partials"]
    for seq, fact in load.seen.items():
        if after < seq <= upto and seq not in there:
            assert fact.kind == "partial", f"{seq} is gone: {fact}"
            assert any(first <= seq <= last for first, last in gone), f"nobody told of {seq}"


def check_track(track: Track, there: dict[int, Event], after: int, upto: int) -> None:
    """Every number up to here has come once, or a gap was told where it was."""
    got = {seq for seq in track.seqs if seq > after}
    told = {seq for gap in track.gaps if gap.last > after for seq in range(gap.first, gap.last + 1)}
    missing = {seq for seq in range(after + 1, upto + 1) if seq not in got and seq not in told}
    assert not missing, f"{track.name} misses {sorted(missing)[:20]}"
    kept = {seq for seq, event in there.items() if event.kind != "partial"}
    assert kept <= got, f"{track.name} misses {sorted(kept - got)[:20]}"


def known(status: Status) -> dict[str, Any]:
    """What a journal can tell of it."""
    told = msgspec.json.decode(msgspec.json.encode(status))
    # Pieces that are gone have a number and a moment too; the rest a server knows by itself.
    own = ("cursor", "updated_at", "simulated", "pid", "waiting_on")
    return {name: each for name, each in told.items() if name not in own}
