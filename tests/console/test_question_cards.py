"""Question cards as they are shown, and what reaches the CLI: every way that a person has."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from pilothouse_sim.clis import Room, SimulatedCLI
from pilothouse_sim.scenario import Branch, Scenario, Usage, When, reply, tool
from tests.support.console.browser import PHONE, Viewer
from tests.support.console.house import House
from tests.support.console.scripted import house_on
from tests.support.engine.mcp_servers import CLERK, server
from tests.support.waiting import until

PLAN: Final = "# The passage\n\n1. Sound the bay\n2. Draw the chart\n"
COMMAND: Final = "npm run sound"
RIG: Final = "".join(f"block {number}\n" for number in range(1, 20)) + "gaff\nboom\n"
QUESTIONS: Final = [
    {
        "question": "Which port?",
        "header": "Port",
        "options": [
            {"label": "Bree", "description": "Deep water", "preview": "BREE  ~~~"},
            {"label": "Dunmore", "description": "A drying harbour", "preview": "DUN  ..."},
        ],
        "multiSelect": False,
    },
    {
        "question": "Which stores?",
        "header": "Stores",
        "options": [
            {"label": "Water", "description": "In casks"},
            {"label": "Bread", "description": "Ship's"},
            {"label": "Rope", "description": "Manila"},
        ],
        "multiSelect": True,
    },
]


def of(prompt: str, *replies: Any) -> Branch:
    return Branch(when=When(prompt_contains=prompt), replies=replies)


COME_BACK: Final = "() => document.dispatchEvent(new Event('visibilitychange'))"
PASTE_A_PICTURE: Final = """field => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 4;
  const bytes = atob(canvas.toDataURL("image/png").split(",")[1]);
  const file = new File([Uint8Array.from(bytes, each => each.charCodeAt(0))], "a.png",
    {type: "image/png"});
  const data = new DataTransfer();
  data.items.add(file);
  field.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true}));
}"""
USED: Final = Usage(input_tokens=100_000)


def asking(prompt: str, call: Any) -> Branch:
    return of(prompt, reply(call), reply("Aye."))


def planning(prompt: str, **more: Any) -> Branch:
    """It writes a plan, and makes no other when it is sent back."""
    write = reply(tool("Write", file_path="{{plan_file}}", content=PLAN), usage=USED)
    leave = reply(tool("ExitPlanMode", **more), usage=USED)
    return of(prompt, write, leave, *[reply("Aye.")] * 3)


LEAVE: Final = [{"tool": "Bash", "prompt": "run the sounding"}]
SCENARIO: Final = Scenario(
    replies=[reply("Aye.")] * 9,
    branches=[
        asking("Sound it", tool("Bash", command=COMMAND, description="Sound the bay")),
        asking("Rig it", tool("Write", file_path="rig.txt", content=RIG.replace("gaff", "lug"))),
        asking("Name it", tool("Write", file_path="name.txt", content="Tern\n")),
        planning("Plan it", allowedPrompts=LEAVE),
        asking("Ask me", tool("AskUserQuestion", questions=QUESTIONS)),
        of("Ready?", reply("Ready."), reply(tool("mcp__clerk__sign")), reply("Signed.")),
    ],
)


class Asking(NamedTuple):
    house: House
    cli: SimulatedCLI
    viewer: Viewer

    async def card(self, prompt: str, **options: Any) -> tuple[str, Locator]:
        """A session that asks this, and its card, once that takes keys."""
        session = self.house.start(prompt, options=options)
        await self.viewer.see(f"session/{session}")
        return session, await self.viewer.card()

    async def answered(self, session: str, card: Locator) -> dict[str, Any]:
        """What the record of the question has once the card is gone."""
        await expect(card).to_have_count(0)
        [question] = self.house.ask("GET", f"/api/questions?state=answered&session_id={session}")
        return question["answer"]

    async def ended(self, session: str, state: str = "done") -> None:
        path = f"/api/sessions/{session}"
        await until(lambda: self.house.ask("GET", path)["state"] == state)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def asking_house(
    tmp_path_factory: pytest.TempPathFactory, browser: Browser
) -> AsyncIterator[Asking]:
    """One server for all of them: each prompt has a part of the scenario for itself."""
    folder = tmp_path_factory.mktemp("asking")
    cli = SimulatedCLI(Room(folder / "room"), SCENARIO, strict=False)
    async with house_on(cli, folder / "house", browser) as house:
        try:
            yield Asking(house, cli, await house.viewer())
        finally:
            cli.finish()


async def test_always_says_the_exact_rule_and_where_it_is_kept(asking_house: Asking):
    house, page = asking_house.house, asking_house.viewer.page
    session, card = await asking_house.card("Sound it")
    await expect(card.get_by_role("heading")).to_have_text(f"Run {COMMAND}")
    await expect(card.get_by_role("heading").locator("code")).to_have_text(COMMAND)
    await page.keyboard.press("A")
    panel = card.get_by_role("group", name="Always allow")
    await expect(panel.locator("code").first).to_have_text("Bash(npm run *)")
    kept = panel.get_by_role("button", name=re.compile("In this project, for you"))
    await expect(kept).to_contain_text(".claude/settings.local.json")
    await expect(panel.get_by_role("button", name=re.compile("In this session"))).to_contain_text(
        "nothing is written to a file"
    )
    await kept.click()
    answer = await asking_house.answered(session, card)
    assert answer["always"] == "localSettings"
    await asking_house.ended(session)
    settings = house.project / ".claude/settings.local.json"
    assert json.loads(settings.read_text())["permissions"]["allow"] == ["Bash(npm run *)"]
    settings.unlink()
    line = page.locator("[data-kind=question]")
    await expect(line).to_contain_text("Allowed from now on by a person")


async def test_a_write_over_a_file_is_shown_as_what_it_changes(asking_house: Asking):
    rig = asking_house.house.project / "rig.txt"
    rig.write_text(RIG)
    session, card = await asking_house.card("Rig it")
    changed = card.get_by_role("group", name="Changed lines")
    await expect(changed.locator(".removed .text")).to_have_text("gaff")
    await expect(changed.locator(".added .text")).to_have_text("lug")
    await expect(changed.locator(".added .number.after")).to_have_attribute("data-number", "20")
    await expect(card).not_to_contain_text("block 3")
    await asking_house.viewer.page.keyboard.press("a")
    await asking_house.answered(session, card)
    await asking_house.ended(session)
    assert rig.read_text() == RIG.replace("gaff", "lug")


async def test_what_a_diff_has_no_room_for_is_shown_beside_it(asking_house: Asking):
    rig = asking_house.house.project / "rig.txt"
    rig.write_text(RIG + "x" * 3000 + "\n")
    session, card = await asking_house.card("Rig it")
    await expect(card).to_contain_text("1 line is not shown whole.")
    await expect(card).to_contain_text("block 3")
    # Whoever comes back to the page sees the change of the file as it is by then.
    rig.write_text(RIG.replace("boom", "spar"))
    await asking_house.viewer.page.evaluate(COME_BACK)
    changed = card.get_by_role("group", name="Changed lines")
    await expect(changed.locator(".removed .text")).to_have_text(["gaff", "spar"])
    await expect(card).not_to_contain_text("block 3")
    await asking_house.viewer.page.keyboard.press("D")
    await asking_house.answered(session, card)
    await asking_house.ended(session, "interrupted")


async def test_a_new_file_is_shown_whole(asking_house: Asking):
    session, card = await asking_house.card("Name it")
    await expect(card).to_contain_text("There is no such file yet.")
    await expect(card).to_contain_text("Tern")
    await asking_house.viewer.page.keyboard.press("D")
    await asking_house.answered(session, card)
    await asking_house.ended(session, "interrupted")


async def test_deny_and_stop_ends_the_turn(asking_house: Asking):
    session, card = await asking_house.card("Sound it")
    await expect(card).to_contain_text("This command requires approval")
    await asking_house.viewer.page.keyboard.press("D")
    answer = await asking_house.answered(session, card)
    assert (answer["kind"], answer["stop"]) == ("deny", True)
    await asking_house.ended(session, "interrupted")
    line = asking_house.viewer.page.locator("[data-kind=question]")
    await expect(line).to_contain_text("Denied and stopped by a person")


async def test_shift_and_tab_takes_the_first_way_of_a_plan(asking_house: Asking):
    page = asking_house.viewer.page
    session, card = await asking_house.card("Plan it", mode="plan")
    await expect(card.get_by_role("heading", name="The passage", exact=True)).to_be_visible()
    leave = card.locator(".asked-leave")
    await expect(leave).to_contain_text("If you approve it, this session may also")
    await expect(leave.get_by_role("listitem")).to_have_text("Bash run the sounding")
    ways = card.get_by_role("list", name="Ways to answer").get_by_role("listitem")
    # As Claude Code has them: with an empty context first, and how full it is.
    await expect(ways.first).to_contain_text(re.compile(r"Clear the context \(50% used\)"))
    await expect(ways.first).to_contain_text("Shift Tab")
    await expect(ways.nth(3)).to_contain_text("Keep planning")
    await page.keyboard.press("Shift+Tab")
    answer = await asking_house.answered(session, card)
    assert answer["kind"] == "clear_context"
    notice = page.get_by_text("The plan is implemented in a new session.")
    await expect(notice).to_be_visible()
    # The CLI was told no, so that it stops; the person has said yes.
    conversation = page.get_by_role("main")
    await expect(conversation).to_contain_text("not carried out here")
    await expect(conversation).not_to_contain_text("Denied.")
    await page.get_by_role("link", name="Open it").click()
    await expect(page.locator("[data-kind=prompt]").first).to_contain_text(
        "Implement the following plan"
    )


@pytest.mark.parametrize("focused", ["the card", "a control of it"])
async def test_the_palette_sends_the_answer_that_it_names(asking_house: Asking, focused: str):
    page = asking_house.viewer.page
    session, card = await asking_house.card("Plan it", mode="plan")
    # A key more counts while nothing but the card has the focus.
    await (card if focused == "the card" else card.get_by_role("button").first).focus()
    [question] = asking_house.house.ask("GET", f"/api/questions?session_id={session}")
    [way] = [each for each in question["ways"] if each["id"] == "ask_edits"]
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox").fill(way["label"])
    await expect(page.get_by_role("option", selected=True)).to_contain_text(way["label"])
    await page.keyboard.press("Enter")
    answer = await asking_house.answered(session, card)
    assert answer.items() >= way["answer"].items()
    await asking_house.ended(session)


async def test_planning_goes_on_with_words_and_a_picture(asking_house: Asking):
    page = asking_house.viewer.page
    session, card = await asking_house.card("Plan it", mode="plan")
    await page.keyboard.press("d")
    field = card.get_by_role("textbox", name=re.compile("^What should change"))
    await expect(field).to_be_focused()
    await field.fill("Mind the rocks")
    await field.evaluate(PASTE_A_PICTURE)
    await expect(card.get_by_role("img", name="a.png")).to_be_visible()
    await page.reload()
    await expect(card.get_by_role("img", name="a.png")).to_be_visible()
    await expect(field).to_have_value("Mind the rocks")
    assert "base64" not in await page.evaluate("() => JSON.stringify(localStorage)")
    await field.press("Enter")
    answer = await asking_house.answered(session, card)
    assert (answer["kind"], answer["feedback"]) == ("revise_plan", "Mind the rocks")
    assert answer["images"][0]["source"]["media_type"] == "image/png"
    await asking_house.ended(session)
    told = str(asking_house.cli.requests[-1].body["messages"])
    assert "Mind the rocks" in told
    assert "image/png" in told


async def test_a_plan_is_approved_and_the_conversation_compacted(asking_house: Asking):
    page = asking_house.viewer.page
    session, card = await asking_house.card("Plan it", mode="plan")
    await card.get_by_role("button", name=re.compile("compact", re.I)).click()
    answer = await asking_house.answered(session, card)
    assert (answer["kind"], answer["compact"]) == ("approve_plan", True)
    await expect(page.locator("[data-kind=compaction]")).to_contain_text("Summarised up to here")


async def test_questions_take_options_several_of_them_own_words_and_notes(asking_house: Asking):
    page = asking_house.viewer.page
    session, card = await asking_house.card("Ask me")
    await expect(page.locator("[data-kind=tool] .file-list")).to_contain_text("Which stores?")
    port, stores = card.locator(".posed").nth(0), card.locator(".posed").nth(1)
    await expect(port.locator(".badge")).to_have_text("Port")
    first = port.get_by_role("radio").first
    await expect(first).to_contain_text("Deep water")
    preview = port.locator(".posed-preview")
    await expect(preview).to_contain_text("BREE ~~~")
    await port.get_by_role("radio", name="Dunmore").hover()
    await expect(preview).to_contain_text("DUN ...")
    send = card.get_by_role("button", name=re.compile("^Answer"))
    await expect(send).to_contain_text("2 left")
    await expect(send).to_be_disabled()
    await page.keyboard.press("1")
    await expect(first).to_be_checked()
    await port.get_by_role("button", name="Add a note").click()
    await port.get_by_role("textbox", name="Note").fill("At high water")
    await expect(stores).to_contain_text("Choose one or several")
    for each in ("Water", "Rope"):
        await stores.get_by_role("checkbox", name=each).click()
    await stores.get_by_role("textbox", name="Something else").fill("Rum")
    await stores.get_by_role("textbox", name="Something else").press("Enter")
    answer = await asking_house.answered(session, card)
    chosen = {"Which port?": "Bree", "Which stores?": ["Water", "Rope", "Rum"]}
    assert answer["answers"] == chosen
    assert answer["notes"] == {"Which port?": "At high water"}
    await asking_house.ended(session)
    told = str(asking_house.cli.requests[-1].body["messages"][-1])
    assert all(each in told for each in ("Bree", "Rope", "Rum", "At high water"))
    given = page.locator("[data-kind=tool] .given-answers")
    await expect(given).to_contain_text("Which stores?")
    await expect(given).to_contain_text("Rum")


async def test_own_words_and_notes_stay_whatever_is_chosen(asking_house: Asking):
    page = asking_house.viewer.page
    session, card = await asking_house.card("Ask me")
    port, stores = card.locator(".posed").nth(0), card.locator(".posed").nth(1)
    own, first = port.get_by_role("textbox", name="Something else"), port.get_by_role("radio").first
    await own.fill("Cork")
    await first.click()
    await expect(first).to_be_checked()
    await expect(own).to_have_value("Cork")
    # What is passed with Tab is not chosen by that; where somebody goes, what stands there counts.
    await own.focus()
    await expect(first).to_be_checked()
    await own.click()
    await expect(first).not_to_be_checked()
    await port.get_by_role("button", name="Add a note").click()
    note = port.get_by_role("textbox", name="Note")
    await note.fill("At high water")
    await page.keyboard.press("Escape")
    await expect(note).to_have_value("At high water")
    await expect(note).not_to_be_focused()
    await stores.get_by_role("checkbox", name="Rope").click()
    await card.get_by_role("button", name=re.compile("^Answer")).click()
    answer = await asking_house.answered(session, card)
    assert answer["answers"] == {"Which port?": "Cork", "Which stores?": ["Rope"]}
    assert answer["notes"] == {"Which port?": "At high water"}
    await asking_house.ended(session)


async def test_on_a_phone_enter_begins_a_line_of_the_denial(asking_house: Asking):
    house = asking_house.house
    viewer = await house.viewer(viewport=PHONE, has_touch=True, is_mobile=True)
    session = house.start("Sound it")
    await viewer.see(f"session/{session}")
    card = await viewer.card()
    await card.get_by_role("button", name="Deny…").tap()
    field = card.get_by_role("textbox")
    # A smaller one would have the phone enlarge the page.
    await expect(field).to_have_css("font-size", "16px")
    await field.press_sequentially("No.\nAsk the pilot.")
    await expect(field).to_have_value("No.\nAsk the pilot.")
    await card.get_by_role("button", name="Deny", exact=True).tap()
    answer = await asking_house.answered(session, card)
    assert answer["reason"] == "No.\nAsk the pilot."
    await asking_house.ended(session)
    assert viewer.complaints == []


async def test_a_question_is_skipped(asking_house: Asking):
    session, card = await asking_house.card("Ask me")
    await asking_house.viewer.page.keyboard.press("d")
    assert (await asking_house.answered(session, card))["kind"] == "skip"
    await asking_house.ended(session)


async def test_a_form_of_an_mcp_server_is_filled_in(asking_house: Asking, tmp_path: Path):
    house, page = asking_house.house, asking_house.viewer.page
    clerk = {"clerk": server(tmp_path / "clerk.py", CLERK)}
    options = {"mcp_servers": clerk, "allowed_tools": ["mcp__clerk"]}
    session = house.start("Ready?", options=options)
    await asking_house.ended(session)

    def connected() -> bool:
        told = house.ask("GET", f"/api/sessions/{session}/mcp")
        return "connected" in json.dumps(told)

    await until(connected)
    house.ask("POST", f"/api/sessions/{session}/messages", {"content": "Sign it"})
    await asking_house.viewer.see(f"session/{session}")
    card = await asking_house.viewer.card()
    await expect(card.get_by_role("heading")).to_have_text("clerk asks: Your name?")
    field = card.get_by_role("textbox", name="Name")
    await expect(field).to_have_accessible_description("as in the book")
    send = card.get_by_role("button", name="Send")
    await send.click()
    assert await field.evaluate("each => each.validity.valueMissing")
    await field.fill("Ann")
    await send.click()
    answer = await asking_house.answered(session, card)
    assert (answer["kind"], answer["content"]) == ("fill", {"name": "Ann"})
    await expect(page.locator("[data-kind=text]").last).to_contain_text("Signed.")
    told = str(asking_house.cli.requests[-1].body["messages"][-1])
    assert re.search(r"accept: name=\W*Ann", told)


async def test_a_question_that_is_withdrawn_says_so_and_goes(asking_house: Asking):
    session, card = await asking_house.card("Sound it")
    told = asyncio.create_task(expect(card).to_contain_text("Withdrawn: "))
    await asyncio.sleep(0)
    asking_house.house.ask("POST", f"/api/sessions/{session}/interrupt")
    await told
    await expect(card).to_have_count(0)
    await expect(asking_house.viewer.page.locator("[data-kind=question]")).to_contain_text(
        "Withdrawn"
    )


async def test_a_question_says_when_it_expires_and_that_it_has(asking_house: Asking):
    page = asking_house.viewer.page
    # Who waits must be there before: on a busy machine the time is soon over.
    await asking_house.viewer.see("")
    await expect(page.locator(".question-card")).to_have_count(0)
    session = asking_house.house.start("Sound it", options={"permission_timeout_ms": 3000})
    card = page.locator(".question-card")
    told = asyncio.create_task(expect(card).to_contain_text("Expired: "))
    await expect(card.get_by_role("timer")).to_have_text(re.compile(r"^Expires in [1-3] s$"))
    await told
    await asking_house.viewer.see(f"session/{session}")
    await expect(page.locator("[data-kind=question]")).to_contain_text("Expired")


async def test_several_questions_are_gone_through_with_j_and_k(asking_house: Asking):
    house, viewer = asking_house.house, asking_house.viewer
    sessions: list[str] = []
    # One after the other: the oldest is the first.
    for each in ("Ask me", "Sound it"):
        sessions.append(house.start(each))
        await asking_house.ended(sessions[-1], "awaiting_input")
    await viewer.see("")
    card, lines = viewer.page.locator(".question-card"), viewer.page.locator(".question-rows > li")
    # What another test has asked stays for a moment, to say why it goes.
    await expect(lines).to_have_count(2)
    await expect(lines.first).to_contain_text("Which port?")
    await expect(lines.last).to_contain_text(COMMAND)
    await expect(viewer.page.locator(".settled")).to_have_count(0)
    await lines.first.click()
    await viewer.page.keyboard.press("j")
    await expect(card).to_contain_text(COMMAND)
    await viewer.page.keyboard.press("k")
    await expect(card).to_contain_text("Which port?")
    for each in sessions:
        house.ask("POST", f"/api/sessions/{each}/interrupt")
    await expect(lines).to_have_count(0)
    assert viewer.complaints == []
