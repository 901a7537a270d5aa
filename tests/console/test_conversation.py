"""A session as one reads it: text while it is written, tools as cards, links to items."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Browser, expect

from pilothouse_sim.plugin import SimulatedCLIMaker
from pilothouse_sim.scenario import gate, reply, text, thinking
from tests.support.console.house import House
from tests.support.console.scripted import house_on
from tests.support.waiting import until


async def test_text_is_shown_while_it_is_written(house: House):
    viewer = await house.viewer()
    session = house.start("Tell a long story.")
    await viewer.see(f"session/{session}")
    text = viewer.page.locator("[data-kind=text]")
    await expect(text).to_contain_text("Once upon a time")
    await expect(viewer.page.locator("[data-kind=turn]")).to_have_count(0)
    await expect(viewer.page.locator("[data-kind=turn]")).to_contain_text("finished")
    await expect(text).to_contain_text("who read the water.")
    assert viewer.complaints == []


async def test_a_command_is_a_card_with_its_output(house: House):
    viewer = await house.viewer()
    session = house.start("List the files.")
    await viewer.see(f"session/{session}")
    card = viewer.page.locator("[data-kind=tool]")
    await expect(card).to_contain_text("Bash")
    await expect(card).to_contain_text("ls")
    assert viewer.complaints == []


async def test_a_link_to_an_item_opens_the_session_at_it(house: House):
    viewer = await house.viewer()
    session = house.start("Think.")
    await viewer.see(f"session/{session}")
    await expect(viewer.page.locator("[data-kind=turn]")).to_be_visible()
    item = await viewer.page.locator("[data-kind=prompt]").get_attribute("data-item")
    await viewer.see(f"session/{session}/{item}")
    await expect(viewer.page.locator(".item.marked")).to_contain_text("Think.")


async def test_a_search_finds_what_is_far_back_and_opens_the_card_that_it_stands_in(
    tmp_path: Path, browser: Browser, simulated_cli: SimulatedCLIMaker
):
    past = [
        step
        for number in range(100)
        for step in (thinking(f"Harbour {number} or wreck {number}."), text(f"Line {number}."))
    ]
    cli = simulated_cli(reply(*past))
    async with house_on(cli, tmp_path / "house", browser) as house:
        session = house.start("Look for the wreck.")
        await until(lambda: house.ask("GET", f"/api/sessions/{session}")["state"] == "done")
        viewer = await house.viewer()
        page = viewer.page
        await viewer.see(f"session/{session}")
        await expect(page.get_by_role("log").get_by_text("Line 99.")).to_be_visible()
        await page.keyboard.press("/")
        field = page.get_by_role("searchbox", name="Search in the conversation")
        await field.fill("WRECK 3.")
        hits = page.get_by_role("list", name="Hits, the newest first").get_by_role("listitem")
        await expect(hits).to_have_count(1)
        await expect(hits).to_contain_text("Harbour 3 or wreck 3.")
        await field.press("Enter")
        await expect(page.locator(".item.marked")).to_contain_text("Harbour 3 or wreck 3.")
        await expect(page.locator(".item.marked")).to_be_in_viewport()
        await expect(field).to_be_focused()
        await field.fill("wreck")
        await expect(page.get_by_role("search")).to_contain_text("100+ items")
        await field.press("Enter")
        await expect(page.locator(".item.marked")).to_contain_text("wreck 99.")
        await field.press("Enter")
        await expect(page.locator(".item.marked")).to_contain_text("wreck 98.")
        await field.press("Shift+Enter")
        await expect(page.locator(".item.marked")).to_contain_text("wreck 99.")
        await field.fill("no such words")
        await expect(page.get_by_role("search")).to_contain_text("No item has this")
        assert viewer.complaints == []


async def test_the_head_says_what_a_session_waits_on_and_leads_to_its_lines(
    tmp_path: Path, browser: Browser, simulated_cli: SimulatedCLIMaker
):
    cli = simulated_cli(reply("I am at it.", gate("held"), " It is done."))
    async with house_on(cli, tmp_path / "house", browser) as house:
        house.start("Another.")
        session = house.start("Do it.")
        await cli.reached("held")
        viewer = await house.viewer()
        page = viewer.page
        await viewer.see(f"session/{session}")
        head = page.locator(".session-head")
        await expect(head).to_contain_text("Waiting for the model")
        await expect(head.get_by_role("status")).to_have_text("Working")
        await head.get_by_role("link", name="Journal").click()
        await expect(page.get_by_label("Session id")).to_have_value(session)
        await expect(page.get_by_role("main")).to_contain_text("session.started")
        await expect(page).to_have_title("Journal · Pilothouse")
        assert viewer.complaints == []
