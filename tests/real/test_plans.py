"""Plan mode: approve, approve with changes, revise, reject, and the mode that follows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pilothouse import (
    Allow,
    ApprovePlan,
    Client,
    Deny,
    InitMessage,
    PlanRequest,
    RejectPlan,
    RevisePlan,
)
from pilothouse_sim.scenario import ModelRequest, Reply, computed, reply, tool
from tests.support.real.desk import OpenDesk
from tests.support.real.handlers import Handler, bash, results
from tests.support.real.plans import PLAN, write_plan
from tests.support.versions import NEWEST, Since, can
from tests.support.waiting import DEADLINE

EXIT = reply(tool("ExitPlanMode"))


def write_note(tmp_path: Path) -> Reply:
    return reply(tool("Write", file_path=str(tmp_path / "project/note.txt"), content="noted"))


@pytest.mark.versions(NEWEST, "2.1.37")
async def test_an_approved_plan_leads_back_to_the_mode_before(
    desk: OpenDesk, tmp_path: Path
) -> None:
    # B25, B26
    it = await desk(computed(write_plan), EXIT, write_note(tmp_path), reply("Leapt."))
    on_plan, on_permission = Handler(ApprovePlan()), Handler(Allow())
    client = await it.client(on_plan=on_plan, on_permission=on_permission, permission_mode="plan")
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("plan it")
    [request] = on_plan.requests
    assert isinstance(request, PlanRequest)
    assert request.plan == PLAN
    # Old CLIs do not say where the file is.
    plans = it.home / ".claude/plans"
    is_told = can(it.version, Since.NAMES_PLAN_FILE)
    known = str(next(plans.glob("*.md"))) if is_told else None
    assert request.plan_file == known
    assert "approved your plan" in results(it)[1]
    assert "2. Leap" in results(it)[1]
    assert [asked.tool_name for asked in on_permission.requests] == ["Write"]
    assert turn.outcome == "finished"


async def test_a_plan_is_approved_and_the_mode_switched_in_one_answer(
    desk: OpenDesk, tmp_path: Path
) -> None:
    # B26
    it = await desk(computed(write_plan), EXIT, write_note(tmp_path), reply("Leapt."))
    on_permission = Handler(Deny())
    client = await it.client(
        on_plan=Handler(ApprovePlan(mode="acceptEdits")),
        on_permission=on_permission,
        permission_mode="plan",
    )
    async with asyncio.timeout(DEADLINE):
        await client.ask("plan it")
    assert on_permission.requests == []
    assert (it.cwd / "note.txt").read_text() == "noted"


async def test_a_mode_set_while_the_plan_is_asked_about_survives_its_approval(
    desk: OpenDesk, tmp_path: Path
) -> None:
    # B27
    it = await desk(computed(write_plan), EXIT, write_note(tmp_path), reply("Leapt."))
    on_permission = Handler(Deny())
    clients: list[Client] = []

    async def switch_then_approve(request: Any) -> ApprovePlan:
        await clients[0].set_permission_mode("acceptEdits")
        return ApprovePlan()

    clients.append(
        await it.client(
            on_plan=switch_then_approve, on_permission=on_permission, permission_mode="plan"
        )
    )
    async with asyncio.timeout(DEADLINE):
        await clients[0].ask("plan it")
    assert on_permission.requests == []
    assert (it.cwd / "note.txt").exists()


@pytest.mark.versions(NEWEST, "2.1.37")
async def test_the_model_works_by_the_plan_as_the_person_edited_it(desk: OpenDesk) -> None:
    # B28: old CLIs would drop the edit, so there the model is asked to take the edited plan.
    it = await desk(computed(write_plan), EXIT, computed(_again), reply("Leapt."))
    edited = "# Plan\n\n1. Look twice\n"
    on_plan = Handler(ApprovePlan(plan=edited), ApprovePlan())
    client = await it.client(on_plan=on_plan, permission_mode="plan")
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("plan it")
    told = results(it)[1]
    assert edited.strip() in told
    if can(it.version, Since.EDITS_PLANS):
        assert "Approved Plan (edited by user)" in told
        assert len(on_plan.requests) == 1
    else:
        assert "edited the plan" in told
        assert "approved your plan" in results(it)[2]
    assert turn.outcome == "finished"


def _again(request: ModelRequest) -> Reply:
    return EXIT if "Use this plan instead" in request.last else reply("Leapt.")


@pytest.mark.versions(NEWEST, "2.1.37")
async def test_a_plan_to_be_revised_is_asked_about_again(desk: OpenDesk) -> None:
    # B29
    it = await desk(computed(write_plan), EXIT, EXIT, reply("Leapt."))
    on_plan = Handler(RevisePlan("Look twice, please."), ApprovePlan())
    client = await it.client(on_plan=on_plan, permission_mode="plan")
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("plan it")
    assert "Look twice, please." in results(it)[1]
    assert "approved your plan" in results(it)[2]
    assert len(on_plan.requests) == 2
    assert turn.outcome == "finished"


@pytest.mark.versions(NEWEST, "2.1.37")
async def test_a_rejected_plan_leaves_the_session_in_plan_mode(
    desk: OpenDesk, tmp_path: Path
) -> None:
    # B29
    it = await desk(computed(write_plan), EXIT, reply("As you like."), reply("Still here."))
    client = await it.client(on_plan=Handler(RejectPlan("We stay ashore.")), permission_mode="plan")
    async with asyncio.timeout(DEADLINE):
        turn = await client.ask("plan it")
        assert "We stay ashore." in results(it)[1]
        assert (turn.outcome, turn.text) == ("finished", "As you like.")
        modes = await modes_of_a_turn(client, "and now?")
    assert modes == ["plan"]


async def modes_of_a_turn(client: Client, content: str) -> list[str | None]:
    """The permission modes told at the start of the turns that come from here on."""
    await client.wait_idle()
    prompt = await client.say(content)
    modes: list[str | None] = []
    async for event in client:
        if isinstance(event, InitMessage):
            modes.append(event.permission_mode)
        if prompt.answered:
            break
    return modes[-1:]


async def test_a_plan_rejected_for_good_ends_the_turn(desk: OpenDesk) -> None:
    # B12, B29
    it = await desk(computed(write_plan), EXIT, reply("Still here."))
    client = await it.client(
        on_plan=Handler(RejectPlan("Enough.", stop=True)), permission_mode="plan"
    )
    async with asyncio.timeout(DEADLINE):
        assert (await client.ask("plan it")).outcome == "interrupted"
        assert (await client.ask("and now?")).text == "Still here."


async def test_a_plan_that_was_never_written_has_no_text(desk: OpenDesk) -> None:
    # B25
    it = await desk(EXIT, reply("As you like."))
    on_permission = Handler(Deny("Which plan?"))
    client = await it.client(on_permission=on_permission, permission_mode="plan")
    async with asyncio.timeout(DEADLINE):
        await client.ask("plan it")
    [request] = on_permission.requests
    assert isinstance(request, PlanRequest)
    assert request.plan is None
    assert "Which plan?" in results(it)[0]


async def test_entering_plan_mode_is_never_asked_about(desk: OpenDesk) -> None:
    # B30
    it = await desk(reply(tool("EnterPlanMode")), computed(write_plan), EXIT, reply("Leapt."))
    handler = Handler(ApprovePlan())
    client = await it.client(on_permission=handler)
    async with asyncio.timeout(DEADLINE):
        await client.ask("plan it")
    assert [request.tool_name for request in handler.requests] == ["ExitPlanMode"]


async def test_in_plan_mode_only_older_clis_ask_about_a_command(desk: OpenDesk) -> None:
    # B31
    it = await desk(reply(bash("touch made")), reply("Then not."))
    handler = Handler(Deny("Not while planning."))
    client = await it.client(on_permission=handler, permission_mode="plan")
    async with asyncio.timeout(DEADLINE):
        await client.ask("make it")
    assert bool(handler.requests) == (not can(it.version, Since.CHECKS_WHILE_PLANNING))
    assert not (it.cwd / "made").exists()
