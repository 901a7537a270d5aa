"""Answering: one key, from any browser, once; nothing that was typed is lost with the server."""

from __future__ import annotations

import asyncio
import os
import signal

from playwright.async_api import Route, expect

from tests.support.console.browser import PHONE
from tests.support.console.house import House
from tests.support.waiting import until

CARD = ".question-card"


def status(house: House, session: str) -> dict[str, object]:
    return house.ask("GET", f"/api/sessions/{session}")


async def ended(house: House, session: str) -> None:
    await until(lambda: status(house, session)["state"] == "done")


async def test_a_question_comes_up_by_itself_and_one_key_allows_it(house: House):
    viewer = await house.viewer()
    await expect(viewer.page.get_by_text("Start your first session")).to_be_visible()
    session = house.start("Write a file.")
    asked = await viewer.card("hello.txt")
    await expect(viewer.page).to_have_title("(1) Pilothouse")
    await viewer.page.keyboard.press("a")
    await expect(asked).to_have_count(0)
    await ended(house, session)
    [question] = house.ask("GET", f"/api/questions?state=answered&session_id={session}")
    assert question["answer"]["kind"] == "allow"
    await expect(viewer.page.locator(".side")).to_contain_text("It is written")
    assert viewer.complaints == []


async def test_two_browsers_agree_and_the_second_hears_who_answered(house: House):
    first, second = await house.viewer(), await house.viewer()
    session = house.start("Write a file.")
    await first.card("hello.txt")
    seen = await second.card("hello.txt")
    # It says so for three seconds: on a busy machine who waits must be there before.
    told = asyncio.create_task(expect(seen).to_contain_text("Allowed by a person"))
    await asyncio.sleep(0)
    await first.page.keyboard.press("a")
    await told
    await expect(seen).to_have_count(0)
    await ended(house, session)
    assert second.complaints == []


async def test_words_half_typed_outlive_the_server(house: House):
    viewer = await house.viewer()
    session = house.start("Write a file.")
    asked = await viewer.card("hello.txt")
    await viewer.page.keyboard.press("d")
    field = asked.get_by_role("textbox")
    await field.fill("Not on a Friday")
    await house.kill()
    await expect(viewer.page.get_by_text("Connection lost")).to_be_visible()
    await expect(field).to_have_value("Not on a Friday")
    await house.open()
    await expect(viewer.page.get_by_text("Connection lost")).to_have_count(0)
    await viewer.page.reload()
    asked = await viewer.card("hello.txt")
    field = asked.get_by_role("textbox")
    await expect(field).to_have_value("Not on a Friday")
    await field.press("Enter")
    await expect(asked).to_have_count(0)
    await ended(house, session)
    [question] = house.ask("GET", f"/api/questions?state=answered&session_id={session}")
    assert question["answer"]["reason"] == "Not on a Friday"


async def test_a_choice_is_made_with_its_number(house: House):
    viewer = await house.viewer()
    session = house.start("Ask me a question.")
    await viewer.card("Which way shall we go?")
    await viewer.page.keyboard.press("2")
    await viewer.page.keyboard.press("Enter")
    await ended(house, session)
    [question] = house.ask("GET", f"/api/questions?state=answered&session_id={session}")
    assert question["answer"]["answers"] == {"Which way shall we go?": "South"}


async def test_a_plan_is_edited_and_approved(house: House):
    viewer = await house.viewer()
    session = house.start("Make a plan.")
    asked = await viewer.card("Look at the charts")
    await viewer.page.keyboard.press("Control+g")
    await asked.get_by_role("textbox").first.fill("1. Stay in the harbour")
    await asked.get_by_role("button", name="Approve, and accept edits").click()
    await ended(house, session)
    [question] = house.ask("GET", f"/api/questions?state=answered&session_id={session}")
    assert question["answer"]["kind"] == "approve_plan"
    assert question["answer"]["plan"] == "1. Stay in the harbour"


async def test_an_input_is_edited_before_it_is_allowed(house: House):
    viewer = await house.viewer()
    session = house.start("Run a command.")
    asked = await viewer.card("mkdir")
    await viewer.page.keyboard.press("e")
    await asked.get_by_role("textbox").first.fill("echo ahoy")
    await asked.get_by_role("textbox").first.press("Control+Enter")
    await ended(house, session)
    [question] = house.ask("GET", f"/api/questions?state=answered&session_id={session}")
    assert question["answer"]["input"]["command"] == "echo ahoy"


async def test_several_are_answered_alike_after_a_list_of_what_that_means(house: House):
    viewer = await house.viewer()
    sessions = [house.start("Write a file."), house.start("Run a command.")]
    await expect(viewer.page.locator(".question-rows > li")).to_have_count(2)
    await viewer.page.get_by_label("Select all 2").check()
    await viewer.page.get_by_role("button", name="Answer all alike").click()
    window = viewer.page.get_by_role("dialog")
    await expect(window).to_contain_text("hello.txt")
    await expect(window).to_contain_text("mkdir")
    await window.get_by_text("Allow", exact=True).click()
    await window.get_by_role("button", name="Allow all 2").click()
    for each in sessions:
        await ended(house, each)
    answered = house.ask("GET", "/api/questions?state=answered")
    assert [each["answer"]["kind"] for each in answered] == ["allow", "allow"]


async def test_on_a_phone_approving_takes_one_touch(house: House):
    viewer = await house.viewer(viewport=PHONE, has_touch=True, is_mobile=True)
    session = house.start("Write a file.")
    asked = await viewer.card("hello.txt")
    allow = asked.get_by_role("button", name="Allow", exact=True)
    place = await allow.bounding_box()
    assert place is not None
    assert place["height"] >= 44
    assert place["x"] >= 0
    assert place["x"] + place["width"] <= PHONE["width"]
    await allow.tap()
    await ended(house, session)
    assert viewer.complaints == []


async def test_who_answered_is_told_by_the_name_that_is_set(house: House):
    first, second = await house.viewer(), await house.viewer()
    await first.see("settings")
    await first.page.get_by_label("Your name").fill("Grace")
    await first.page.keyboard.press("Tab")
    await first.see("")
    house.start("Write a file.")
    await first.card("hello.txt")
    seen = await second.card("hello.txt")
    told = asyncio.create_task(expect(seen).to_contain_text("Allowed by Grace"))
    await asyncio.sleep(0)
    await first.page.keyboard.press("a")
    await told
    [question] = house.ask("GET", "/api/questions?state=answered")
    assert question["answered_by"] == "Grace"


async def test_a_card_tells_what_an_answer_does_and_what_none_does(house: House):
    session = house.start("Write a file.", options={"permission_timeout_ms": 600_000})
    viewer = await house.viewer()
    asked = await viewer.card("hello.txt")
    await expect(asked).to_contain_text("Its CLI is running, and goes on as soon as you answer.")
    await expect(asked).to_contain_text("the tool is then denied")
    pid = status(house, session)["pid"]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)
    await expect(asked).to_contain_text("Its CLI has ended. Your answer is told to the session")


async def test_a_draft_outlives_its_tab_and_a_server_that_does_not_answer(house: House):
    viewer = await house.viewer()
    house.start("Write a file.")
    asked = await viewer.card("hello.txt")
    await viewer.page.keyboard.press("d")
    await asked.get_by_role("textbox").fill("Not on a Friday")
    await viewer.page.close()
    page = await viewer.context.new_page()
    await page.goto(house.address)
    field = page.locator(CARD).get_by_role("textbox")
    await expect(field).to_have_value("Not on a Friday")
    # The stream says that it is gone, and nobody can say why.
    [question] = house.ask("GET", "/api/questions")
    await page.route(f"**/api/questions/{question['id']}", lambda route: route.abort())
    house.ask("POST", f"/api/questions/{question['id']}/answer", {"kind": "allow"})
    await expect(page.locator(CARD)).to_contain_text("It takes no answer any more")
    await expect(page.get_by_text("Withdrawn")).to_have_count(0)
    await expect(page.locator(CARD)).to_have_count(0)


async def test_a_subagent_that_asks_is_told_by_its_type_and_its_task(house: House):
    viewer = await house.viewer()
    session = house.start("Write a file.")
    asked = await viewer.card("hello.txt")
    [question] = house.ask("GET", "/api/questions")
    told = status(house, session)
    run = {"id": question["tool_use_id"], "name": "Write", "state": "running", "agent": "Explore"}
    agent = {"id": "a1", "kind": "local_agent", "description": "Look for the chart"}
    page = viewer.page
    by_agent = [question | {"agent_id": "a1"}]
    await page.route("**/api/questions?*", lambda route: route.fulfill(json=by_agent))
    its_status = told | {"running_tools": [run], "subagents": [agent]}
    await page.route(f"**/api/sessions/{session}", lambda route: route.fulfill(json=its_status))
    await page.reload()
    await expect(asked).to_contain_text("Explore: Look for the chart")
    assert viewer.complaints == []


async def two_questions(house: House) -> None:
    """Two sessions ask, first for a file and then for a command."""
    for prompt in ("Write a file.", "Run a command."):
        session = house.start(prompt)
        await until(lambda session=session: status(house, session)["state"] == "awaiting_input")


async def test_the_second_click_of_a_double_click_answers_no_other_question(house: House):
    await two_questions(house)
    viewer = await house.viewer()
    asked = await viewer.card("hello.txt")
    allow = asked.get_by_role("button", name="Allow", exact=True)
    await viewer.stop_clock()
    await allow.click()
    await expect(asked).to_contain_text("mkdir")
    await allow.click()
    await viewer.start_clock()
    await viewer.card("mkdir")
    [left] = house.ask("GET", "/api/questions")
    assert left["tool_name"] == "Bash"
    await allow.click()
    await expect(asked).to_have_count(0)
    assert viewer.complaints == []


async def test_the_next_card_has_the_focus_also_where_the_stream_is_the_first_to_tell(house: House):
    await two_questions(house)
    viewer = await house.viewer()
    asked = await viewer.card("hello.txt")
    told = asyncio.Event()

    async def tell_late(route: Route) -> None:
        response = await route.fetch()
        await told.wait()
        await route.fulfill(response=response)

    await viewer.page.route("**/answer", tell_late)
    await asked.focus()
    await viewer.stop_clock()
    await viewer.page.keyboard.press("a")
    await expect(asked).to_contain_text("mkdir")
    await expect(asked).to_be_focused()
    told.set()
    assert viewer.complaints == []
