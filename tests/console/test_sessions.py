"""The list of sessions: by what each needs, live, searched; and the start of a new one."""

from __future__ import annotations

import os
import re
from pathlib import Path

from playwright.async_api import Browser, Locator, Page, expect

from pilothouse_sim.plugin import SimulatedCLIMaker
from pilothouse_sim.scenario import gate, reply, tool
from tests.support.console.house import House
from tests.support.console.scripted import house_on
from tests.support.history.transcripts import encoded, said, session_id
from tests.support.waiting import until


def side(page: Page) -> Locator:
    return page.get_by_role("complementary", name="Sessions")


def group(page: Page, name: str) -> Locator:
    """The rows that stand under this heading."""
    return side(page).get_by_role("list", name=name, exact=True)


def row(page: Page, title: str) -> Locator:
    return side(page).get_by_role("link").filter(has_text=title)


def came_to(house: House, session: str, state: str) -> bool:
    return house.ask("GET", f"/api/sessions/{session}")["state"] == state


async def test_sessions_stand_under_what_they_need(house: House):
    waiting, failed, done = map(house.start, ("Write a file.", "Please fail.", "Think of it."))
    await until(lambda: came_to(house, waiting, "awaiting_input"))
    await until(lambda: came_to(house, failed, "error"))
    await until(lambda: came_to(house, done, "done"))
    viewer = await house.viewer()
    await expect(group(viewer.page, "Waiting for you")).to_contain_text("Write a file.")
    await expect(group(viewer.page, "Failed")).to_contain_text("Please fail.")
    await expect(group(viewer.page, "Done")).to_contain_text("Think of it.")
    headings = side(viewer.page).get_by_role("heading")
    await expect(headings).to_have_text(
        [re.compile("^Waiting for you"), re.compile("^Failed"), re.compile("^Done")]
    )
    assert viewer.complaints == []


async def test_what_was_typed_on_the_first_page_goes_on_in_the_form(house: House):
    viewer = await house.viewer()
    page = viewer.page
    await viewer.see("")
    await page.get_by_label("What to do").fill("Write a file.")
    directory = page.get_by_role("combobox", name="Directory")
    await directory.fill(str(house.project))
    await page.get_by_role("link", name="More options").click()
    await expect(page.get_by_label("What is to be done")).to_have_value("Write a file.")
    await expect(directory).to_have_value(str(house.project))
    await viewer.see("")
    # There are not two of it.
    await expect(page.get_by_label("What to do")).to_have_value("")


async def test_a_row_moves_from_waiting_to_working_to_done_by_itself(
    tmp_path: Path, browser: Browser, simulated_cli: SimulatedCLIMaker
):
    cli = simulated_cli(
        reply(tool("Write", file_path=str(tmp_path / "log.txt"), content="At sea.\n")),
        reply("I am at it.", gate("held"), " It is in the log."),
    )
    async with house_on(cli, tmp_path / "house", browser) as house:
        viewer = await house.viewer()
        loads: list[str] = []
        viewer.page.on("load", lambda page: loads.append(page.url))
        house.start("Write the log.")
        await expect(group(viewer.page, "Waiting for you")).to_contain_text("Write the log.")
        card = await viewer.card()
        await card.get_by_role("button", name="Allow", exact=True).click()
        await expect(group(viewer.page, "Working")).to_contain_text("Write the log.")
        await expect(group(viewer.page, "Waiting for you")).to_have_count(0)
        cli.release("held")
        await expect(group(viewer.page, "Done")).to_contain_text("It is in the log.")
        await expect(group(viewer.page, "Working")).to_have_count(0)
        assert loads == []
        assert viewer.complaints == []


async def test_a_search_finds_by_title_and_shows_nothing_else(house: House):
    sessions = [house.start("Think of the tide."), house.start("Think of the harbour.")]
    for each in sessions:
        await until(lambda each=each: came_to(house, each, "done"))
    viewer = await house.viewer()
    rows = side(viewer.page).get_by_role("listitem")
    await expect(rows).to_have_count(2)
    search = viewer.page.get_by_role("searchbox", name="Search sessions")
    await search.fill("HARBOUR")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("Think of the harbour.")
    await search.fill("a word of no session")
    await expect(side(viewer.page)).to_contain_text("No session fits.")
    await search.press("Escape")
    await expect(rows).to_have_count(2)
    await search.fill("tide")
    await search.press("Enter")
    await expect(viewer.page).to_have_url(re.compile(f"#/session/{sessions[0]}$"))
    assert viewer.complaints == []


async def test_a_session_is_started_with_directory_mode_and_label(house: House):
    viewer = await house.viewer()
    await viewer.see("new")
    page = viewer.page
    await page.get_by_label("What is to be done").fill("Think of the tide.")
    await page.get_by_label("Directory", exact=True).fill(str(house.project))
    await page.get_by_role("radio", name="Accept edits").check()
    await page.get_by_label("Label").fill("tides")
    await page.get_by_role("button", name="Start session").click()
    await expect(page).to_have_url(re.compile("#/session/.+"))
    session = page.url.rpartition("/")[2]
    status = house.ask("GET", f"/api/sessions/{session}")
    assert (status["cwd"], status["mode"]) == (str(house.project), "acceptEdits")
    assert status["label"] == "tides"
    await expect(page.get_by_role("heading", level=1)).to_have_text("Think of the tide.")
    await expect(page.get_by_role("main")).to_contain_text("We sail at six.")
    await expect(row(page, "Think of the tide.")).to_have_attribute("aria-current", "page")
    assert viewer.complaints == []


async def test_a_refused_directory_is_said_at_its_field_and_what_was_typed_stays(house: House):
    viewer = await house.viewer()
    await viewer.see("new")
    page = viewer.page
    prompt = page.get_by_label("What is to be done")
    field = page.get_by_label("Directory", exact=True)
    await prompt.fill("Think.")
    await field.fill(str(house.project / "nowhere"))
    await page.get_by_role("button", name="Start session").click()
    await expect(field).to_have_attribute("aria-invalid", "true")
    await expect(field).to_have_accessible_description(re.compile("nowhere"))
    await expect(page.get_by_role("alert")).to_contain_text("nowhere")
    await expect(prompt).to_have_value("Think.")
    assert house.ask("GET", "/api/sessions")["sessions"] == []
    await field.fill(str(house.project))
    await page.get_by_role("button", name="Start session").click()
    await expect(page).to_have_url(re.compile("#/session/.+"))


async def test_two_tabs_of_one_browser_agree(house: House):
    viewer = await house.viewer()
    first, second = viewer.page, await viewer.context.new_page()
    await second.goto(f"{house.address}/")
    house.start("Write a file.")
    for page in (first, second):
        await expect(group(page, "Waiting for you")).to_contain_text("Write a file.")
        await expect(page).to_have_title("(1) Pilothouse")
    card = await viewer.card()
    await card.get_by_role("button", name="Allow", exact=True).click()
    for page in (first, second):
        await expect(group(page, "Done")).to_contain_text("It is written")
        await expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
        await expect(page).to_have_title("Pilothouse")
    assert viewer.complaints == []


async def test_a_row_has_the_name_of_its_directory_and_is_a_stop_of_the_tab_key(house: House):
    session = house.start("Think of the tide.")
    await until(lambda: came_to(house, session, "done"))
    viewer = await house.viewer()
    line = row(viewer.page, "Think of the tide.")
    await expect(line).to_contain_text(house.project.name)
    await expect(line.get_by_title(str(house.project))).to_be_visible()
    await expect(line).to_have_attribute("tabindex", "0")
    assert viewer.complaints == []


async def test_a_row_leaves_the_filter_that_it_fits_no_more_and_the_archive_leaves_no_gap(
    house: House,
):
    quick = house.start("Think quickly.", label="quick")
    house.start("Write a file.")
    await until(lambda: came_to(house, quick, "done"))
    viewer = await house.viewer()
    page = viewer.page
    rows = side(page).get_by_role("listitem")
    await expect(rows).to_have_count(2)
    await page.get_by_role("button", name="Filters").click()
    panel = page.get_by_role("dialog", name="Filters")
    await panel.get_by_label("State").select_option(label="waiting for you")
    await panel.get_by_label("Machine").select_option("(this machine)")
    await panel.get_by_role("button", name="Done").click()
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("Write a file.")
    card = await viewer.card()
    await card.get_by_role("button", name="Allow", exact=True).click()
    await expect(side(page)).to_contain_text("No session fits.")
    await page.get_by_role("button", name="Clear search and filters").click()
    await expect(rows).to_have_count(2)
    # A label can be typed that no row of the page has.
    await page.get_by_role("button", name="Filters").click()
    await panel.get_by_label("Label").fill("slow")
    await panel.get_by_label("Label").press("Enter")
    await expect(side(page)).to_contain_text("No session fits.")
    await page.get_by_role("button", name="Remove the filter Label: slow").click()
    await row(page, "Think quickly.").focus()
    await page.keyboard.press("E")
    await expect(rows).to_have_count(1)
    await expect(page.get_by_role("button", name="Load older sessions")).to_have_count(0)
    assert viewer.complaints == []


async def test_of_many_sessions_those_near_the_screen_are_drawn_and_older_ones_come(
    tmp_path: Path, browser: Browser, simulated_cli: SimulatedCLIMaker
):
    cli = simulated_cli("Never said.")
    folder = cli.home / ".claude/projects/-srv-harbour"
    folder.mkdir(parents=True)
    for number in range(600):
        path = folder / f"{session_id(number)}.jsonl"
        path.write_bytes(encoded(said(f"Prompt {number}.", sessionId=session_id(number))))
        os.utime(path, (number, number))
    async with house_on(cli, tmp_path / "house", browser) as house:
        viewer = await house.viewer()
        page = viewer.page
        rows = side(page).get_by_role("listitem")
        await expect(rows.first).to_contain_text("Prompt 599.")
        assert await rows.count() < 100
        await row(page, "Prompt 598.").focus()
        await page.keyboard.press("End")
        await expect(side(page).get_by_role("heading")).to_contain_text("600")
        await page.keyboard.press("End")
        await expect(row(page, "Prompt 0.")).to_be_focused()
        assert await rows.count() < 100
        await page.keyboard.press("ArrowUp")
        await expect(row(page, "Prompt 1.")).to_be_focused()
        await page.keyboard.press("Home")
        await expect(row(page, "Prompt 599.")).to_be_focused()
        await expect(rows.first).to_have_attribute("aria-setsize", "600")
        assert viewer.complaints == []


async def test_what_is_filled_in_of_a_new_session_outlives_its_tab_until_it_is_started(
    house: House,
):
    viewer = await house.viewer()
    await viewer.see("new")
    page = viewer.page

    async def has(directory: str, label: str, turns: str) -> None:
        await expect(page.get_by_label("Directory", exact=True)).to_have_value(directory)
        await expect(page.get_by_label("Label")).to_have_value(label)
        await expect(page.get_by_label("Most steps in a turn")).to_have_value(turns)

    await page.get_by_label("What is to be done").fill("Think of the tide.")
    await page.get_by_label("Directory", exact=True).fill(str(house.project))
    await page.get_by_label("Label").fill("tides")
    await page.get_by_role("button", name="Show “bypass permissions”").click()
    await page.get_by_role("radio", name="Bypass permissions").check()
    await page.get_by_text("Advanced options").click()
    await page.get_by_label("Most steps in a turn").fill("7")
    await page.close()
    page = await viewer.context.new_page()
    await page.goto(f"{house.address}/#/new")
    await has(str(house.project), "tides", "7")
    # What it is started with can be seen, and what must be no habit is not kept.
    await expect(page.get_by_label("Most steps in a turn")).to_be_visible()
    await expect(page.get_by_role("radio", name="As set up")).to_be_checked()
    await page.get_by_role("button", name="Start session").click()
    await expect(page).to_have_url(re.compile("#/session/.+"))
    await page.goto(f"{house.address}/#/new")
    await has(str(house.project), "tides", "")
