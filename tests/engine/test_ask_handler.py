"""What a live CLI asks, and what the policy makes of it beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from pilothouse.api.answers import Allow
from pilothouse.api.records import AnyRecord, QuestionClosed, QuestionOpened
from pilothouse.client.permissions import PermissionRequest
from pilothouse.engine.ask_handler import AskHandler
from pilothouse.engine.policy import Decision, JudgedAsk, PolicyFile
from pilothouse.engine.recorder import Recorder
from pilothouse.engine.view import View
from pilothouse.journal.contract import Posted
from pilothouse.protocol import PermissionAllow, PermissionDeny
from tests.support.asks import tool_request
from tests.support.waiting import DEADLINE


class Slow:
    """A policy that thinks about the command `slow` until it is let go."""

    def __init__(self, verdict: Any = "ask") -> None:
        self.decision = Decision(verdict, "mine")
        self.thinking = threading.Event()
        self.let_go = threading.Event()

    def is_absent(self) -> bool:
        return False

    def decide(self, ask: JudgedAsk) -> Decision:
        if ask.input["command"] == "slow":
            self.thinking.set()
            assert self.let_go.wait(DEADLINE), "the event loop stood still"
        return self.decision


class Notes:
    """A scribe that keeps records in a list."""

    def __init__(self) -> None:
        self.records: list[AnyRecord] = []
        self.opened = asyncio.Queue[str]()

    def clock(self) -> int:
        return 1_000

    def write(self, view: View, *records: AnyRecord) -> Posted:
        self.records += records
        for record in records:
            view.apply_record(len(self.records), 1_000, record)
            if isinstance(record, QuestionOpened):
                self.opened.put_nowait(record.question.id)
        committed = asyncio.get_running_loop().create_future()
        committed.set_result(None)
        return Posted(1, 1, committed)


def run(command: str, number: int = 1) -> PermissionRequest:
    request = tool_request("Bash", {"command": command}, tool_use_id=f"toolu_{number}")
    return replace(request, request_id=f"request-{number}")


def made(policy: Slow | PolicyFile, notes: Notes) -> AskHandler:
    return AskHandler(
        cast("Recorder", notes),
        View("s", cwd="/nowhere"),
        cast("PolicyFile", policy),
        timeout_ms=0,
        bypass_allowed=False,
        spawn=lambda _: pytest.fail("nothing is to be spawned"),
    )


async def think(policy: Slow) -> None:
    assert await asyncio.to_thread(policy.thinking.wait, DEADLINE)


async def test_the_loop_goes_on_while_the_policy_thinks():
    policy, notes = Slow("allow"), Notes()
    asking = asyncio.create_task(made(policy, notes).permission(run("slow")))
    await think(policy)
    policy.let_go.set()
    async with asyncio.timeout(DEADLINE):
        assert isinstance((await asking).result, PermissionAllow)
    opened, closed = notes.records
    assert isinstance(opened, QuestionOpened)
    assert isinstance(closed, QuestionClosed)
    assert (opened.question.rule, closed.rule, closed.by) == ("mine", "mine", "policy")


async def test_without_a_policy_a_question_is_opened_at_once(tmp_path: Path):
    notes = Notes()
    asking = made(PolicyFile(tmp_path / "policy.toml"), notes)
    asked = asyncio.create_task(asking.permission(run("ls")))
    await asyncio.sleep(0)
    assert [type(each) for each in notes.records] == [QuestionOpened]
    asking.give(await notes.opened.get(), Allow())
    async with asyncio.timeout(DEADLINE):
        assert isinstance((await asked).result, PermissionAllow)


async def test_a_policy_that_comes_later_is_asked(tmp_path: Path):
    notes, path = Notes(), tmp_path / "policy.toml"
    asking = made(PolicyFile(path), notes)
    path.write_text('[[rule]]\ntool = "Bash"\naction = "deny"\n')
    async with asyncio.timeout(DEADLINE):
        assert isinstance((await asking.permission(run("ls"))).result, PermissionDeny)


async def test_what_is_asked_first_is_opened_first():
    policy, notes = Slow(), Notes()
    asking = made(policy, notes)
    asks = [asyncio.create_task(asking.permission(run("slow")))]
    await think(policy)
    asks.append(asyncio.create_task(asking.permission(run("quick", 2))))
    for _ in range(5):
        await asyncio.to_thread(int)
    assert notes.records == []
    policy.let_go.set()
    async with asyncio.timeout(DEADLINE):
        opened = [await notes.opened.get(), await notes.opened.get()]
        for question_id in opened:
            asking.give(question_id, Allow())
        await asyncio.gather(*asks)
    questions = [each.question for each in notes.records if isinstance(each, QuestionOpened)]
    assert [each.input["command"] for each in questions] == ["slow", "quick"]


async def test_an_ask_that_is_withdrawn_while_the_policy_thinks_opens_nothing():
    policy, notes = Slow(), Notes()
    asking = asyncio.create_task(made(policy, notes).permission(run("slow")))
    await think(policy)
    asking.cancel()
    policy.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert notes.records == []


async def test_nothing_is_opened_for_a_cli_that_ended_while_the_policy_thought():
    policy, notes = Slow(), Notes()
    asking = made(policy, notes)
    asked = asyncio.create_task(asking.permission(run("slow")))
    await think(policy)
    asking.close()
    policy.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert notes.records == []
