"""CLIs that somebody else has started, and that ask here: `ask`, `withdraw`, and the lease."""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pilothouse.api.answers import (
    Allow,
    ApprovePlan,
    Choose,
    ClearContext,
    Deny,
    RevisePlan,
)
from pilothouse.api.questions import Asked, Question
from pilothouse.api.requests import Ask, Fork, Say
from pilothouse.engine import ask_handler as asks
from pilothouse.engine import foreign, foreign_asks
from pilothouse.engine.engine import SessionEngine
from pilothouse.engine.policy import Decision
from pilothouse.errors import (
    AnswerRefused,
    BypassNotAllowed,
    DirectoryRefused,
    JournalError,
    NotNow,
    QuestionSettled,
    Refused,
    ServerError,
    TooManySessions,
    UnknownQuestion,
    UsageError,
)
from pilothouse.remote import RemoteEngine
from pilothouse_sim.plugin import SimulatedCLIMaker
from pilothouse_sim.scenario import reply, tool
from tests.support.engine.harness import EngineHarness, harnesses
from tests.support.http.serving import TOKEN, make_app, served
from tests.support.waiting import DEADLINE

PLAN = {"plan": "# Paint\n\nPaint the hull.", "planFilePath": "/plans/paint.md"}
CHOICE = {
    "questions": [
        {
            "question": "Which colour?",
            "header": "Colour",
            "options": [{"label": "Red", "description": ""}, {"label": "Blue", "description": ""}],
            "multiSelect": False,
        }
    ]
}
Housing = Callable[..., Awaitable[EngineHarness]]


@pytest.fixture
async def inn(simulated_cli: SimulatedCLIMaker, tmp_path: Path) -> AsyncIterator[Housing]:
    """What guests do needs no CLI of the engine's, or any."""
    async with harnesses(simulated_cli, tmp_path, "stdio") as make:
        yield make


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "LEASE_S", 0.01)


class Guest:
    """A CLI that is not the engine's."""

    def __init__(self, house: EngineHarness, session_id: str | None = None) -> None:
        self.house = house
        self.session_id = session_id or str(uuid.uuid4())
        self.asks: asyncio.Task[Asked] | None = None

    def request(self, name: str = "Bash", /, **more: Any) -> Ask:
        given: dict[str, Any] = {
            "input": {"command": "make"},
            "tool_use_id": "toolu_1",
            "cwd": str(self.house.cwd),
            "label": "claude -p",
            "wait_s": 60.0,
        }
        return Ask(tool_name=name, session_id=self.session_id, **{**given, **more})

    async def ask(self, name: str = "Bash", /, **more: Any) -> Asked:
        async with asyncio.timeout(DEADLINE):
            return await self.house.engine.ask(self.request(name, **more))

    async def opened(self, name: str = "Bash", /, **more: Any) -> Question:
        """Ask without waiting for the answer."""
        asked = await self.ask(name, **{"wait_s": 0.0, **more})
        assert (asked.response, asked.question.state) == (None, "open")
        return asked.question


async def settled(engine: SessionEngine, question: Question) -> Question:
    """Wait until a question is no longer open."""
    async with asyncio.timeout(DEADLINE):
        while (told := await engine.question(question.id)).state == "open":
            await engine.journal.wait(engine.journal.last, session_id=question.session_id)
    return told


def later(monkeypatch: pytest.MonkeyPatch, engine: SessionEngine, seconds: float) -> None:
    """Set the engine's clock on."""
    clock = engine.recorder.clock
    monkeypatch.setattr(engine.recorder, "clock", lambda: clock() + int(seconds * 1000))


def thoughtful(
    monkeypatch: pytest.MonkeyPatch, engine: SessionEngine
) -> tuple[threading.Event, threading.Event]:
    """Let the policy think until it is let go: when it does so, and what ends it."""
    thinking, let_go = threading.Event(), threading.Event()

    def decide(_: object) -> Decision:
        thinking.set()
        assert let_go.wait(DEADLINE)
        return Decision("ask")

    policy = engine.services.policy
    monkeypatch.setattr(policy, "is_absent", lambda: False)
    monkeypatch.setattr(policy, "decide", decide)
    return thinking, let_go


async def elsewhere(it: EngineHarness, **flags: Any) -> str:
    """A session that another program has made, as the engine here sees it."""
    session_id = await it.done()
    await it.engine.stop(session_id)
    it.engine = await it.another(state_dir=str(it.folder / "other"), **flags)
    return session_id


# AskHandler


async def test_an_ask_is_a_question_that_anybody_answers(inn: Housing) -> None:
    it = await inn()
    guest = Guest(it)
    question = await guest.opened()
    assert (question.kind, question.tool_name, question.foreign) == ("tool", "Bash", True)
    assert (question.text, question.cwd, question.label) == ("make", str(it.cwd), "claude -p")
    assert await it.engine.questions() == [question]
    status = await it.engine.status(guest.session_id)
    assert (status.state, status.foreign, status.live) == ("awaiting_input", True, False)
    [listed] = (await it.engine.list()).sessions
    assert (listed.session_id, listed.title, listed.foreign) == (
        guest.session_id,
        "claude -p",
        True,
    )
    waiting = asyncio.create_task(guest.ask())
    answered = await it.engine.answer(question.id, Allow(), by="tests")
    assert (answered.state, answered.resumed) == ("done", False)
    asked = await waiting
    assert asked.response == {"behavior": "allow", "updatedInput": {"command": "make"}}
    assert (asked.question.state, asked.question.answered_by) == ("answered", "tests")


async def test_an_answer_that_came_while_nobody_waited_is_told_to_who_comes_again(
    inn: Housing,
) -> None:
    it = await inn()
    guest = Guest(it)
    question = await guest.opened()
    await it.engine.answer(question.id, Deny(reason="Not now.", stop=True))
    denied = {"behavior": "deny", "message": "Not now.", "interrupt": True}
    assert (await guest.ask()).response == denied
    assert (await guest.ask(wait_s=0.0)).response == denied
    assert len(await it.records(guest.session_id, "question.opened")) == 1


async def test_two_that_ask_the_same_at_once_have_one_question(inn: Housing) -> None:
    it = await inn()
    guest = Guest(it)
    asks = [asyncio.create_task(guest.ask()) for _ in range(3)]
    question = await it.asked(await began(it, guest))
    await it.engine.answer(question.id, Allow(input={"command": "make all"}))
    told = [(each.question.id, each.response) for each in await asyncio.gather(*asks)]
    allowed = {"behavior": "allow", "updatedInput": {"command": "make all"}}
    assert told == [(question.id, allowed)] * 3


async def began(it: EngineHarness, guest: Guest) -> str:
    """Wait until the guest's session is there."""
    async with asyncio.timeout(DEADLINE):
        while guest.session_id not in it.engine.sessions:
            await it.engine.journal.wait(it.engine.journal.last)
    return guest.session_id


async def test_two_questions_of_one_guest_are_answered_each_by_its_own(inn: Housing) -> None:
    it = await inn()
    guest = Guest(it)
    first = await guest.opened()
    second = await guest.opened(tool_use_id="toolu_2", input={"command": "make test"})
    await it.engine.answer(second.id, Deny())
    assert (await it.engine.status(guest.session_id)).state == "awaiting_input"
    await it.engine.answer(first.id, Allow())
    assert (await guest.ask()).response == {
        "behavior": "allow",
        "updatedInput": {"command": "make"},
    }
    asked = await guest.ask(tool_use_id="toolu_2", input={"command": "make test"})
    assert asked.response is not None
    assert asked.response["behavior"] == "deny"


async def test_the_same_ids_with_another_input_are_refused(inn: Housing) -> None:
    it = await inn()
    guest = Guest(it)
    question = await guest.opened()
    with pytest.raises(UsageError, match="another tool or input"):
        await guest.ask(input={"command": "make install"})
    await it.engine.answer(question.id, Allow())
    with pytest.raises(UsageError, match="another tool or input"):
        await guest.ask(input={"command": "make install"})
    with pytest.raises(UsageError, match="another tool or input"):
        await guest.ask("Write")


async def test_what_the_policy_decides_is_answered_at_once(inn: Housing, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(
        '[[rule]]\nname = "no make"\naction = "deny"\ntool = "Bash"\nreason = "Never make."\n'
    )
    it = await inn(policy_file=str(policy))
    asked = await Guest(it).ask()
    assert asked.response is not None
    assert (asked.response["behavior"], asked.response["message"]) == ("deny", "Never make.")
    assert (asked.question.answered_by, asked.question.rule) == ("policy", "no make")


async def test_a_guest_has_its_own_label_and_not_the_mode_of_the_session(
    inn: Housing, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(
        '[[rule]]\nname = "edits"\naction = "allow"\ntool = "Bash"\nmode = "acceptEdits"\n'
    )
    it = await inn("One.", policy_file=str(policy))
    session_id = await it.start(label="ours", mode="acceptEdits")
    await it.until(session_id, "done")
    await it.engine.stop(session_id)
    question = await Guest(it, session_id).opened(label="theirs")
    assert (question.label, question.mode, question.rule) == ("theirs", None, None)
    nameless = await Guest(it, session_id).opened(tool_use_id="toolu_2", label=None)
    assert nameless.label is None


async def test_what_a_guest_asks_is_looked_at_beside_the_loop(
    inn: Housing, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await inn()
    pose, threads = asks.pose, list[int]()

    def posed(*args: Any, **more: Any) -> Question:
        threads.append(threading.get_ident())
        return pose(*args, **more)

    monkeypatch.setattr(asks, "pose", posed)
    await Guest(it).opened()
    assert threads
    assert threading.get_ident() not in threads


async def test_what_nobody_answers_in_time_is_denied(inn: Housing) -> None:
    it = await inn(permission_timeout_ms=1)
    asked = await Guest(it).ask()
    assert asked.question.state == "expired"
    assert asked.response is not None
    assert asked.response["behavior"] == "deny"
    assert "Nobody answered within 0.001 s" in asked.response["message"]


async def test_a_yes_is_not_told_again_long_after(
    inn: Housing, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await inn()
    guest = Guest(it)
    yes = await guest.opened()
    no = await guest.opened(tool_use_id="toolu_2")
    await it.engine.answer(yes.id, Allow())
    await it.engine.answer(no.id, Deny(reason="No."))
    later(monkeypatch, it.engine, 9 * 60)
    assert ((await guest.ask()).response or {})["behavior"] == "allow"
    later(monkeypatch, it.engine, 2 * 60)
    asked = await guest.ask()
    assert asked.question.answer == Allow()
    assert asked.response is not None
    assert asked.response["behavior"] == "deny"
    assert "Ask under another id." in asked.response["message"]
    assert ((await guest.ask(tool_use_id="toolu_2")).response or {})["message"] == "No."


@pytest.mark.parametrize("spelling", ["hex", "urn", "capitals"])
async def test_one_session_in_another_spelling_is_the_same(inn: Housing, spelling: str) -> None:
    it = await inn()
    guest = Guest(it)
    question = await guest.opened()
    name = uuid.UUID(guest.session_id)
    spelled = {"hex": name.hex, "urn": name.urn, "capitals": str(name).upper()}
    again = Guest(it, spelled[spelling])
    assert await again.opened() == question
    other = await again.opened(tool_use_id="toolu_2")
    assert other.session_id == guest.session_id
    assert list(it.engine.sessions) == [guest.session_id]


async def test_more_guests_than_anybody_could_answer_are_refused(
    inn: Housing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_asks, "MOST_ASKS", 2)
    it = await inn()
    first, second, third = (Guest(it) for _ in range(3))
    question = await first.opened()
    await second.opened()
    with pytest.raises(TooManySessions, match="2 questions"):
        await third.ask()
    assert third.session_id not in it.engine.sessions
    # Who is there already is not sent away.
    assert await first.opened() == question
    await it.engine.answer(question.id, Allow())
    await third.opened()


async def test_a_disk_that_hangs_keeps_nobody_else(
    inn: Housing, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await inn()
    permitted, let_go, hangs = (
        foreign_asks.permitted_directory,
        threading.Event(),
        threading.Event(),
    )

    def slow(given: str, roots: tuple[Path, ...]) -> str:
        if given == "/hung":
            hangs.set()
            assert let_go.wait(DEADLINE)
            return permitted(str(it.cwd), roots)
        return permitted(given, roots)

    monkeypatch.setattr(foreign_asks, "permitted_directory", slow)
    there, hung = Guest(it), Guest(it)
    question = await there.opened()
    waiting = asyncio.create_task(it.engine.ask(hung.request(cwd="/hung", wait_s=0.0)))
    try:
        assert await asyncio.to_thread(hangs.wait, DEADLINE)
        async with asyncio.timeout(DEADLINE / 3):
            assert await there.opened() == question
            await there.opened(tool_use_id="toolu_2")
    finally:
        let_go.set()
        asked = await waiting
    assert asked.question.state == "open"


async def test_questions_of_the_model_are_answered_with_its_own_words(inn: Housing) -> None:
    it = await inn()
    guest = Guest(it)
    question = await guest.opened("AskUserQuestion", input=CHOICE)
    assert question.kind == "questions"
    answer = Choose(answers={"Which colour?": "Red"}, notes={"Which colour?": "dark"})
    await it.engine.answer(question.id, answer)
    asked = await guest.ask("AskUserQuestion", input=CHOICE)
    assert asked.response is not None
    # Its version is not known, and older ones drop notes that stand beside the answer.
    given = {**CHOICE, "answers": {"Which colour?": "Red (notes: dark)"}}
    assert asked.response == {"behavior": "allow", "updatedInput": given}


async def test_what_is_always_allowed_is_told_as_a_rule(inn: Housing) -> None:
    it = await inn()
    guest = Guest(it)
    question = await guest.opened()
    await it.engine.answer(question.id, Allow(always=True))
    response = (await guest.ask()).response
    assert response is not None
    [update] = response["updatedPermissions"]
    assert (update["type"], update["destination"]) == ("addRules", "session")
    assert update["rules"] == [{"toolName": "Bash", "ruleContent": "make"}]


# Plans


async def test_a_plan_is_approved_with_a_mode(inn: Housing) -> None:
    it = await inn(allow_bypass=True)
    guest = Guest(it)
    question = await guest.opened("ExitPlanMode", input=PLAN)
    ways = {way.id for way in question.ways}
    assert {"accept_edits", "ask_edits", "revise_plan", "clear_context"} <= ways
    # Whether it could be edited, or permissions bypassed, nobody knows of this CLI.
    assert not ways & {"edit_plan", "bypass", "clear_context_and_bypass"}
    with pytest.raises(AnswerRefused, match="cannot be edited"):
        await it.engine.answer(question.id, ApprovePlan(plan="Sink it."))
    with pytest.raises(BypassNotAllowed):
        await it.engine.answer(question.id, ApprovePlan(mode="bypassPermissions"))
    image = {"type": "image", "source": {}}
    with pytest.raises(AnswerRefused, match="images"):
        await it.engine.answer(question.id, RevisePlan(feedback="so", images=[image]))
    await it.engine.answer(question.id, ApprovePlan(mode="acceptEdits"))
    response = (await guest.ask("ExitPlanMode", input=PLAN)).response
    assert response is not None
    assert response["updatedInput"] == PLAN
    assert [each["mode"] for each in response["updatedPermissions"]] == ["acceptEdits"]


async def test_a_plan_goes_on_in_a_session_of_the_engines(inn: Housing) -> None:
    it = await inn("Painted.")
    guest = Guest(it)
    question = await guest.opened("ExitPlanMode", input=PLAN)
    answered = await it.engine.answer(question.id, ClearContext(mode="acceptEdits"))
    assert answered.new_session_id is not None
    status = await it.until(answered.new_session_id, "done")
    assert (status.result, status.parent, status.foreign) == ("Painted.", guest.session_id, False)
    assert "Paint the hull." in it.heard()
    response = (await guest.ask("ExitPlanMode", input=PLAN)).response
    assert response is not None
    assert (response["behavior"], response["interrupt"]) == ("deny", True)


# Leaving


async def test_a_question_that_is_withdrawn_takes_no_answer(inn: Housing) -> None:
    it = await inn()
    guest = Guest(it)
    question = await guest.opened()
    waiting = asyncio.create_task(guest.ask())
    told = await it.engine.withdraw(question.id, "it was cancelled")
    assert (told.state, told.closed_because, told.decidable) == (
        "withdrawn",
        "it was cancelled",
        False,
    )
    assert await it.engine.withdraw(question.id, "again") == told
    with pytest.raises(QuestionSettled):
        await it.engine.answer(question.id, Allow())
    denied = {
        "behavior": "deny",
        "message": "The question was withdrawn: it was cancelled.",
        "interrupt": False,
    }
    assert (await waiting).response == denied
    assert (await guest.ask()).response == denied
    assert (await it.engine.status(guest.session_id)).state == "done"


async def test_only_questions_of_guests_are_withdrawn(inn: Housing) -> None:
    it = await inn(reply(tool("Bash", command="touch made")), "So.")
    question = await it.asked(await it.start())
    with pytest.raises(Refused, match="of the engine's"):
        await it.engine.withdraw(question.id, "so")
    with pytest.raises(UnknownQuestion):
        await it.engine.withdraw("no-such-question", "so")
    assert (await it.engine.question(question.id)).state == "open"


@pytest.mark.usefixtures("short_lease")
async def test_a_question_is_withdrawn_once_nobody_waits_for_it(inn: Housing) -> None:
    it = await inn()
    guest = Guest(it)
    question = await guest.opened()
    told = await settled(it.engine, question)
    assert (told.state, told.closed_because) == ("withdrawn", "the CLI that asked has gone")
    assert not told.decidable


@pytest.mark.usefixtures("short_lease")
async def test_whoever_waits_keeps_a_question_open(inn: Housing) -> None:
    it = await inn()
    guest = Guest(it)
    first, second = (asyncio.create_task(guest.ask()) for _ in range(2))
    question = await it.asked(await began(it, guest))
    first.cancel()
    await asyncio.wait([first])
    # As long as a lease lasts, and more.
    await asyncio.wait([second], timeout=10 * foreign.LEASE_S)
    assert (await it.engine.question(question.id)).state == "open"
    second.cancel()
    assert (await settled(it.engine, question)).state == "withdrawn"


@pytest.mark.usefixtures("short_lease")
async def test_a_guest_that_leaves_while_the_policy_decides_leaves_no_open_question(
    inn: Housing, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await inn()
    thinking, let_go = thoughtful(monkeypatch, it.engine)
    guest = Guest(it)
    asks = asyncio.create_task(guest.ask())
    assert await asyncio.to_thread(thinking.wait, DEADLINE)
    asks.cancel()
    # Longer than a lease: nothing is open yet that could be withdrawn.
    await asyncio.wait([asks])
    await asyncio.to_thread(let_go.wait, 10 * foreign.LEASE_S)
    assert await it.engine.questions(state="any") == []
    after = it.engine.journal.last
    let_go.set()
    async with asyncio.timeout(DEADLINE):
        while not (asked := await it.engine.questions(state="withdrawn")):
            await it.engine.journal.wait(after, session_id=guest.session_id)
            after = it.engine.journal.last
    assert [each.closed_because for each in asked] == ["the CLI that asked has gone"]


# Sessions


async def test_a_session_with_a_guest_is_told_nothing_else(inn: Housing) -> None:
    it = await inn("Here.")
    guest = Guest(it)
    question = await guest.opened()
    name = guest.session_id

    async def refused() -> None:
        for verb in (
            it.say(name, "hello"),
            it.engine.fork(name, Fork(prompt="go")),
            it.engine.interrupt(name),
            it.engine.stop(name),
            it.engine.set_mode(name, "plan"),
            it.engine.context_usage(name),
        ):
            with pytest.raises(NotNow, match="is not the engine's"):
                await verb

    await refused()
    await it.engine.answer(question.id, Allow())
    # It has only just asked.
    await refused()
    assert (await it.engine.status(name)).state == "done"


async def test_a_session_whose_guest_has_gone_is_resumed_here(
    inn: Housing, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await inn("One.", "Two.")
    session_id = await elsewhere(it)
    (it.cwd / "below").mkdir()
    question = await Guest(it, session_id).opened(cwd=str(it.cwd / "below"))
    await it.engine.withdraw(question.id, "it has ended")
    monkeypatch.setattr(foreign, "LEASE_S", 0.0)
    await it.say(session_id, "more")
    status = await it.until(session_id, "done")
    assert (status.result, status.foreign, status.turns) == ("Two.", False, 1)
    # A conversation is resumed where it was begun.
    assert status.cwd == str(it.cwd)
    assert "One." in it.heard()


async def test_a_guest_that_asks_nothing_for_long_is_there_while_its_transcript_grows(
    inn: Housing, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await inn("One.", "Two.")
    session_id = await elsewhere(it)
    question = await Guest(it, session_id).opened()
    await it.engine.answer(question.id, Allow())
    await it.close()
    it.engine = engine = await it.another(state_dir=str(it.folder / "other"))
    later(monkeypatch, engine, 3600)
    [transcript] = (it.cli.home / ".claude/projects").glob(f"*/{session_id}.jsonl")
    before, now = transcript.stat().st_mtime, engine.recorder.clock() / 1000
    os.utime(transcript, (now, now))
    with pytest.raises(NotNow, match=r"transcript .* was written within the last 45 s"):
        await it.say(session_id, "more")
    os.utime(transcript, (before, before))
    await it.say(session_id, "more")
    assert (await it.until(session_id, "done")).result == "Two."


async def test_a_guest_in_a_session_of_ours_is_there_while_its_transcript_grows(
    inn: Housing, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await inn("One.", "Two.")
    session_id = await it.done()
    await it.engine.stop(session_id)
    question = await Guest(it, session_id).opened()
    await it.engine.answer(question.id, Allow())
    await it.close()
    engine = await it.open()
    later(monkeypatch, engine, 3600)
    [transcript] = (it.cli.home / ".claude/projects").glob(f"*/{session_id}.jsonl")
    before, now = transcript.stat().st_mtime, engine.recorder.clock() / 1000
    os.utime(transcript, (now, now))
    with pytest.raises(NotNow, match="transcript"):
        await it.say(session_id, "more")
    os.utime(transcript, (before, before))
    await it.say(session_id, "more")
    assert (await it.until(session_id, "done")).result == "Two."


async def test_a_session_of_a_guest_is_resumed_within_the_allowed_roots_alone(
    inn: Housing, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    it = await inn("One.")
    session_id = await elsewhere(it, allowed_roots=[str(allowed)])
    question = await Guest(it, session_id).opened(cwd=str(allowed))
    await it.engine.withdraw(question.id, "it has ended")
    monkeypatch.setattr(foreign, "LEASE_S", 0.0)
    with pytest.raises(DirectoryRefused, match="outside the allowed roots"):
        await it.say(session_id, "more")
    assert (await it.engine.status(session_id)).foreign


async def test_a_session_whose_transcript_names_no_directory_is_not_resumed(
    inn: Housing, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await inn("One.")
    session_id = await elsewhere(it)
    question = await Guest(it, session_id).opened()
    await it.engine.withdraw(question.id, "it has ended")
    monkeypatch.setattr(foreign, "LEASE_S", 0.0)
    history = it.engine.services.history
    found = await history.find(session_id)
    assert found is not None

    async def find(_: str) -> object:
        return replace(found, cwd=None)

    monkeypatch.setattr(history, "find", find)
    with pytest.raises(NotNow, match="is not on this machine"):
        await it.say(session_id, "more")


async def test_an_old_ask_that_comes_again_does_not_shut_a_session_of_ours(
    inn: Housing, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await inn("One.", reply(tool("Bash", command="touch made")), "Two.")
    session_id = await it.done()
    await it.engine.stop(session_id)
    guest = Guest(it, session_id)
    await it.engine.answer((await guest.opened()).id, Allow())
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(foreign, "LEASE_S", 0.0)
        await it.say(session_id, "more")
    await it.asked(session_id)
    assert ((await guest.ask()).response or {})["behavior"] == "allow"
    await it.engine.interrupt(session_id)
    assert (await it.engine.stop(session_id)).was_live
    await it.say(session_id, "and more")


@pytest.mark.parametrize("verb", ["say", "fork"])
async def test_what_was_done_under_a_key_is_told_again_although_a_guest_is_there(
    inn: Housing, verb: str
) -> None:
    it = await inn("One.", "Two.")
    session_id = await it.done()

    async def act() -> Any:
        if verb == "say":
            return await it.engine.say(session_id, Say(content="more", key="k"))
        return await it.engine.fork(session_id, Fork(prompt="more", key="k"))

    first = await act()
    await it.until(first.session_id, "done")
    await it.engine.stop(session_id)
    await Guest(it, session_id).opened()
    assert await act() == replace(first, repeated=True)
    with pytest.raises(NotNow, match="is not the engine's"):
        await it.say(session_id, "something else")


async def test_a_session_is_kept_while_a_guest_waits_in_it(
    inn: Housing, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await inn(retention_days=1)
    guest = Guest(it)
    await it.engine.answer((await guest.opened()).id, Allow())
    thinking, let_go = thoughtful(monkeypatch, it.engine)
    waiting = asyncio.create_task(guest.ask(tool_use_id="toolu_2"))
    assert await asyncio.to_thread(thinking.wait, DEADLINE)
    with monkeypatch.context() as meanwhile:
        later(meanwhile, it.engine, 2 * 24 * 3600)
        await it.engine.retain()
    let_go.set()
    question = await it.asked(guest.session_id)
    await it.engine.answer(question.id, Allow())
    assert ((await waiting).response or {})["behavior"] == "allow"


async def test_a_question_whose_session_is_no_longer_kept_is_unknown(
    inn: Housing, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(_: str) -> None:
        return None

    it = await inn()
    question = await Guest(it).opened()
    await it.engine.answer(question.id, Allow())
    # As in the moment in which the session is removed.
    monkeypatch.setattr(it.engine.journal, "snapshot", gone)
    it.engine._recovery._sessions.forget(question.session_id)
    with pytest.raises(UnknownQuestion, match="no longer kept"):
        await it.engine.answer(question.id, Allow())


async def test_a_guest_without_a_transcript_cannot_be_resumed(
    inn: Housing, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await inn()
    guest = Guest(it)
    await it.engine.withdraw((await guest.opened()).id, "it has ended")
    monkeypatch.setattr(foreign, "LEASE_S", 0.0)
    with pytest.raises(NotNow, match="is not on this machine"):
        await it.say(guest.session_id, "more")


async def test_nobody_asks_in_the_name_of_a_cli_of_the_engines(inn: Housing) -> None:
    it = await inn("One.")
    session_id = await it.done()
    with pytest.raises(NotNow, match="is the engine's own"):
        await Guest(it, session_id).ask()
    await it.engine.stop(session_id)
    question = await Guest(it, session_id).opened()
    status = await it.engine.status(session_id)
    assert (status.foreign, status.questions) == (True, [question])
    with pytest.raises(NotNow, match="is not the engine's"):
        await it.say(session_id, "more")


async def test_asks_from_outside_the_allowed_roots_are_refused(
    inn: Housing, tmp_path: Path
) -> None:
    it = await inn(allowed_roots=[str(tmp_path)])
    guest = Guest(it)
    with pytest.raises(DirectoryRefused, match="outside the allowed roots"):
        await guest.ask(cwd="/")
    assert guest.session_id not in it.engine.sessions


@pytest.mark.parametrize("name", ["../up", "", "a/b", "a\n", "x" * 129])
async def test_a_session_id_that_could_be_a_path_is_refused(inn: Housing, name: str) -> None:
    guest = Guest(await inn())
    guest.session_id = name
    with pytest.raises(UsageError, match="session_id"):
        await guest.ask()


async def test_a_guest_asks_over_http(inn: Housing, monkeypatch: pytest.MonkeyPatch) -> None:
    it = await inn()
    guest = Guest(it)
    async with (
        served(make_app(it.engine)) as address,
        aclosing(RemoteEngine(address, TOKEN)) as remote,
    ):
        asks = asyncio.create_task(remote.ask(guest.request()))
        question = await it.asked(await began(it, guest))
        await remote.answer(question.id, Allow())
        allowed = {"behavior": "allow", "updatedInput": {"command": "make"}}
        assert (await asks).response == allowed
        leaving = asyncio.create_task(remote.ask(guest.request(tool_use_id="toolu_2")))
        question = await it.asked(guest.session_id)
        monkeypatch.setattr(foreign, "LEASE_S", 0.01)
        leaving.cancel()
        assert (await settled(it.engine, question)).state == "withdrawn"


# Restarts


@pytest.mark.parametrize("ends", ["in order", "killed"])
async def test_a_question_survives_its_engine(inn: Housing, ends: str) -> None:
    it = await inn()
    guest = Guest(it)
    waiting = asyncio.create_task(guest.ask())
    question = await it.asked(await began(it, guest))
    if ends == "killed":
        it.engine = await it.crashed()
        waiting.cancel()
        await asyncio.wait([waiting])
    else:
        await it.close()
        with pytest.raises(ServerError, match="ask the next one again"):
            await waiting
        await it.open()
    assert (await it.engine.health()).questions == 1
    assert await guest.opened() == question
    again = asyncio.create_task(guest.ask())
    await it.engine.answer(question.id, Allow())
    asked = await again
    assert asked.question.id == question.id
    assert asked.response == {"behavior": "allow", "updatedInput": {"command": "make"}}
    assert len(await it.records(guest.session_id, "question.opened")) == 1


async def test_what_was_answered_before_a_restart_is_told_after_it(inn: Housing) -> None:
    it = await inn()
    guest = Guest(it)
    question = await guest.opened()
    await it.engine.answer(question.id, Deny(reason="No."))
    await it.close()
    await it.open()
    asked = await guest.ask()
    assert (asked.question.id, asked.question.state) == (question.id, "answered")
    assert asked.response == {"behavior": "deny", "message": "No.", "interrupt": False}


async def test_a_guest_that_asked_just_before_a_restart_is_still_there(
    inn: Housing, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await inn("One.")
    session_id = await elsewhere(it)
    question = await Guest(it, session_id).opened()
    await it.engine.answer(question.id, Allow())
    await it.close()
    it.engine = await it.another(state_dir=str(it.folder / "other"))
    for verb in (it.say(session_id, "more"), it.engine.stop(session_id)):
        with pytest.raises(NotNow, match="is not the engine's, which cannot talk to it"):
            await verb
    later(monkeypatch, it.engine, 60)
    assert not (await it.engine.stop(session_id)).was_live


async def test_what_is_answered_after_a_restart_before_anybody_asks_again_counts(
    inn: Housing,
) -> None:
    it = await inn()
    guest = Guest(it)
    question = await guest.opened()
    await it.close()
    await it.open()
    answered = await it.engine.answer(question.id, Allow())
    assert (answered.question.state, answered.resumed) == ("answered", False)
    response = (await guest.ask()).response
    assert response == {"behavior": "allow", "updatedInput": {"command": "make"}}


async def test_a_guest_that_does_not_come_again_after_a_restart_has_gone(
    inn: Housing, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await inn()
    question = await Guest(it).opened()
    await it.close()
    monkeypatch.setattr(foreign, "LEASE_S", 0.01)
    await it.open()
    told = await settled(it.engine, question)
    assert (told.state, told.closed_because) == ("withdrawn", "the CLI that asked has gone")


async def test_an_engine_that_ends_takes_no_more_asks(inn: Housing) -> None:
    it = await inn()
    await it.engine.aclose()
    with pytest.raises(ServerError, match="ask the next one again"):
        await Guest(it).ask()


async def test_an_engine_that_ends_while_an_ask_is_looked_up_says_so(
    inn: Housing, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await inn()

    async def closed(_: str) -> None:
        it.engine.services.is_closing = True
        raise JournalError("the journal is closed")

    monkeypatch.setattr(it.engine.journal, "question", closed)
    with pytest.raises(ServerError, match="ask the next one again"):
        await Guest(it).ask()
