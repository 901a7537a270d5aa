"""Steering a session: messages, the queue, Escape, the mode, drafts, completion, a fork."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, Route, expect

from pilothouse_sim.clis import SimulatedCLI
from pilothouse_sim.plugin import SimulatedCLIMaker
from pilothouse_sim.scenario import gate, reply
from tests.support.console.browser import PHONE, PICTURE
from tests.support.console.house import House
from tests.support.console.scripted import house_on
from tests.support.waiting import until

PASTE = """(field, text) => {
    const data = new DataTransfer();
    data.setData("text/plain", text);
    data.items.add(new File(["x"], "cells.png", { type: "image/png" }));
    const event = new ClipboardEvent("paste", { clipboardData: data, cancelable: true });
    return field.dispatchEvent(event);
}"""


def status(house: House, session: str) -> dict[str, Any]:
    return house.ask("GET", f"/api/sessions/{session}")


async def ended(house: House, session: str, state: str = "done") -> None:
    await until(lambda: status(house, session)["state"] == state)


def field(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message to the session")


def said(page: Page) -> Locator:
    """The prompts of the conversation that is shown."""
    return page.locator("[data-kind=prompt]")


class Held(NamedTuple):
    """A server, and the CLI of its session, which stands in the middle of a sentence."""

    house: House
    cli: SimulatedCLI


@pytest_asyncio.fixture(loop_scope="session")
async def held(
    tmp_path: Path, browser: Browser, simulated_cli: SimulatedCLIMaker
) -> AsyncIterator[Held]:
    cli = simulated_cli(reply("I am at it.", gate("held"), " It is done."), strict=False)
    async with house_on(cli, tmp_path / "house", browser) as house:
        yield Held(house, cli)


async def test_a_message_resumes_a_session_at_rest(house: House):
    session = house.start("Think.")
    await ended(house, session)
    house.ask("POST", f"/api/sessions/{session}/stop")
    viewer = await house.viewer()
    await viewer.see(f"session/{session}")
    await expect(viewer.page.get_by_text("Sending resumes the session.")).to_be_visible()
    await field(viewer.page).fill("Write a file.")
    await field(viewer.page).press("Enter")
    await expect(field(viewer.page)).to_have_value("")
    card = await viewer.card()
    await card.get_by_role("button", name="Allow", exact=True).click()
    await expect(viewer.page.locator("[data-kind=text]").last).to_contain_text("It is written")
    await expect(said(viewer.page)).to_have_count(2)
    await expect(viewer.page.locator("[data-kind=turn]")).to_have_count(2)
    assert status(house, session)["live"] is True
    assert viewer.complaints == []


async def test_a_message_to_a_session_at_work_is_queued_seen_and_taken_back(held: Held):
    house, cli = held
    session = house.start("Do it.")
    await cli.reached("held")
    viewer = await house.viewer()
    await viewer.see(f"session/{session}")
    await field(viewer.page).fill("And mind the tide.")
    await field(viewer.page).press("Enter")
    queue = viewer.page.get_by_role("region", name="Queued messages")
    await expect(queue).to_contain_text("1 message waits to be taken")
    await expect(queue.get_by_role("listitem")).to_contain_text("And mind the tide.")
    await queue.get_by_role("button", name="Take back").click()
    await expect(queue).to_have_count(0)
    await expect(field(viewer.page)).to_have_value("And mind the tide.")
    cli.release("held")
    await ended(house, session)
    assert len(cli.requests) == 1
    assert viewer.complaints == []


async def test_escape_interrupts_the_turn(held: Held):
    house, cli = held
    session = house.start("Do it.")
    await cli.reached("held")
    viewer = await house.viewer()
    await viewer.see(f"session/{session}")
    interrupt = viewer.page.get_by_role("button", name=re.compile("^Interrupt"))
    await expect(interrupt).to_be_visible()
    await viewer.page.keyboard.press("Escape")
    await expect(viewer.page.locator("[data-kind=turn]")).to_contain_text("Turn interrupted")
    await ended(house, session, "interrupted")
    await expect(interrupt).to_have_count(0)
    assert viewer.complaints == []


async def test_the_mode_is_changed_in_the_head(house: House):
    session = house.start("Think.", options={"mode": "default"})
    await ended(house, session)
    viewer = await house.viewer()
    await viewer.see(f"session/{session}")
    await viewer.page.get_by_role("button", name="Permission mode: Ask first").click()
    await viewer.page.get_by_role("menuitemradio", name="Accept edits").click()
    chosen = viewer.page.get_by_role("button", name="Permission mode: Accept edits")
    await expect(chosen).to_be_visible()
    assert status(house, session)["mode"] == "acceptEdits"
    await chosen.click()
    item = viewer.page.get_by_role("menuitemradio", name="Accept edits")
    await expect(item).to_have_attribute("aria-checked", "true")
    assert viewer.complaints == []


async def test_a_draft_is_there_after_a_reload_and_in_its_own_session_alone(house: House):
    session, other = house.start("Think."), house.start("Think again.")
    viewer = await house.viewer()
    await viewer.see(f"session/{session}")
    await field(viewer.page).fill("Half a thou")
    await viewer.page.reload()
    await expect(field(viewer.page)).to_have_value("Half a thou")
    await viewer.see(f"session/{other}")
    await expect(viewer.page.get_by_role("heading", level=1)).to_have_text("Think again.")
    await expect(field(viewer.page)).to_have_value("")
    await viewer.see(f"session/{session}")
    await expect(field(viewer.page)).to_have_value("Half a thou")
    await field(viewer.page).press("Enter")
    await expect(said(viewer.page).last).to_contain_text("Half a thou")
    await viewer.page.reload()
    await expect(said(viewer.page)).to_have_count(2)
    await expect(field(viewer.page)).to_have_value("")


async def test_a_slash_shows_the_commands_and_tab_takes_one(house: House):
    session = house.start("Think.")
    await ended(house, session)
    viewer = await house.viewer()
    await viewer.see(f"session/{session}")
    await expect(viewer.page.locator("[data-kind=turn]")).to_be_visible()
    await field(viewer.page).press_sequentially("/")
    options = viewer.page.get_by_role("listbox", name="Suggestions").get_by_role("option")
    await expect(options.first).to_contain_text("/")
    known = house.ask("GET", f"/api/sessions/{session}/commands")
    name = known[0]["name"]
    await field(viewer.page).press_sequentially(name)
    await expect(options.first).to_contain_text(f"/{name}")
    await field(viewer.page).press("Tab")
    await expect(field(viewer.page)).to_have_value(f"/{name} ")
    await expect(options).to_have_count(0)
    assert viewer.complaints == []


async def test_an_at_sign_shows_the_files_where_the_server_has_them(house: House):
    (house.project / "harbour.txt").write_text("Two fathoms.\n")
    session = house.start("Think.", options={"simulate_in_cwd": True})
    await ended(house, session)
    viewer = await house.viewer()
    await viewer.see(f"session/{session}")
    await field(viewer.page).press_sequentially("Look at @harb")
    if "/api/sessions/{session_id}/files" in house.ask("GET", "/openapi.json")["paths"]:
        options = viewer.page.get_by_role("listbox", name="Suggestions").get_by_role("option")
        await expect(options.first).to_contain_text("harbour.txt")
        await field(viewer.page).press("Enter")
        await expect(field(viewer.page)).to_have_value("Look at @harbour.txt ")
    # With or without them, it is a field that one types in and sends from.
    await field(viewer.page).press_sequentially(" and think")
    await field(viewer.page).press("Enter")
    await expect(said(viewer.page).last).to_contain_text("and think")
    await expect(viewer.page.locator("[data-kind=turn]")).to_have_count(2)
    assert viewer.complaints == []


async def test_a_fork_from_a_prompt_is_a_new_session_with_what_was_before(
    tmp_path: Path, browser: Browser, simulated_cli: SimulatedCLIMaker
):
    cli = simulated_cli("Of the tide.", "Of the wind.", "Of the stars.")
    async with house_on(cli, tmp_path / "house", browser) as house:
        session = house.start("Think of the tide.")
        await ended(house, session)
        again = {"content": "Think of the wind."}
        house.ask("POST", f"/api/sessions/{session}/messages", again)
        viewer = await house.viewer()
        await viewer.see(f"session/{session}")
        page = viewer.page
        await expect(page.locator("[data-kind=turn]")).to_have_count(2)
        second = said(page).filter(has_text="Think of the wind.")
        await second.hover()
        await second.get_by_role("button", name="Fork from here").click()
        window = page.get_by_role("dialog", name="Fork the session")
        prompt = window.get_by_label("First message of the new session")
        await expect(prompt).to_have_value("Think of the wind.")
        await prompt.fill("Think of the stars.")
        await window.get_by_role("button", name="Start the fork").click()
        await expect(page).not_to_have_url(re.compile(session))
        fork = page.url.rpartition("/")[2]
        await expect(page.locator("[data-kind=text]").last).to_contain_text("Of the stars.")
        assert status(house, fork)["parent"] == session
        told = str(cli.requests[-1].body["messages"])
        assert "Of the tide." in told
        assert "Of the wind." not in told
        await viewer.see(f"session/{session}")
        await expect(said(page).last).to_contain_text("Think of the wind.")
        await expect(said(page)).to_have_count(2)
        assert viewer.complaints == []


def queued(page: Page) -> Locator:
    return page.get_by_role("region", name="Queued messages").get_by_role("listitem")


async def say(page: Page, *texts: str) -> None:
    """Say these to a session at work; each is in the queue before the next."""
    for text in texts:
        before = await queued(page).count()
        await field(page).fill(text)
        await field(page).press("Enter")
        await expect(queued(page)).to_have_count(before + 1)


async def test_a_message_moves_up_in_the_queue_and_none_is_lost_where_the_server_goes(held: Held):
    house, cli = held
    session = house.start("Do it.")
    await cli.reached("held")
    viewer = await house.viewer()
    page = viewer.page
    await viewer.see(f"session/{session}")
    await say(page, "First the tide.", "Then the wind.", "Then the stars.")
    await page.get_by_role("button", name="Move up: Then the stars.").click()
    await expect(queued(page).nth(1)).to_contain_text("Then the stars.")
    await expect(queued(page).nth(2)).to_contain_text("Then the wind.")
    # Nothing reaches the server any more once the first was taken back.
    await page.route("**/messages", lambda route: route.abort())
    await page.get_by_role("button", name="Move up: Then the stars.").click()
    await expect(field(page)).to_have_value(
        re.compile("^(?=.*tide)(?=.*stars)(?=.*wind)", re.DOTALL)
    )
    await page.unroute("**/messages")
    cli.release("held")
    await ended(house, session)


async def test_a_message_with_an_image_comes_back_whole_and_outlives_a_reload(held: Held):
    house, cli = held
    session = house.start("Do it.")
    await cli.reached("held")
    viewer = await house.viewer()
    page = viewer.page
    await viewer.see(f"session/{session}")
    await page.locator(".composer input[type=file]").set_input_files([PICTURE])
    pictures = page.get_by_role("list", name="Images").get_by_role("img")
    await expect(pictures).to_have_count(1)
    await field(page).fill("What is this?")
    await page.get_by_role("button", name="When to send").click()
    await page.get_by_role("menuitem", name="Send later").click()
    await expect(queued(page)).to_contain_text("after this turn")
    await expect(pictures).to_have_count(0)
    await queued(page).get_by_role("button", name="Take back").click()
    await expect(field(page)).to_have_value("What is this?")
    await expect(pictures).to_have_count(1)
    await page.reload()
    await expect(field(page)).to_have_value("What is this?")
    await expect(pictures).to_have_count(1)
    cli.release("held")
    await ended(house, session)
    assert viewer.complaints == []


async def test_a_message_on_its_way_goes_once_although_the_page_is_left(house: House):
    session = house.start("Think.")
    await ended(house, session)
    viewer = await house.viewer()
    page = viewer.page
    await viewer.see(f"session/{session}")
    arrived = asyncio.Event()

    async def take_and_keep_silent(route: Route) -> None:
        if arrived.is_set():
            await route.continue_()
        else:
            await route.fetch()
            arrived.set()

    # It stays in place: without it the browser would let the first request go on.
    await page.route("**/messages", take_and_keep_silent)
    await field(page).fill("Think again.")
    await field(page).press("Enter")
    await arrived.wait()
    async with page.expect_response("**/messages") as again:
        await page.reload()
    assert (await again.value).ok
    await expect(said(page)).to_have_count(2)
    await expect(field(page)).to_have_value("")
    await page.reload()
    await expect(said(page)).to_have_count(2)


async def test_a_message_that_found_no_server_comes_back_and_the_next_one_goes(house: House):
    session = house.start("Think.")
    await ended(house, session)
    viewer = await house.viewer()
    page = viewer.page
    await viewer.see(f"session/{session}")
    await page.route("**/messages", lambda route: route.abort())
    await field(page).fill("Think again.")
    await field(page).press("Enter")
    await expect(page.get_by_text("The server cannot be reached")).to_be_visible()
    await expect(field(page)).to_have_value("Think again.")
    await page.unroute("**/messages")
    await field(page).press("Enter")
    await expect(said(page)).to_have_count(2)
    await expect(field(page)).to_have_value("")


async def test_the_history_has_what_was_said_from_anywhere(house: House):
    session = house.start("Think of the tide.")
    await ended(house, session)
    viewer = await house.viewer()
    await viewer.see(f"session/{session}")
    await field(viewer.page).press("ArrowUp")
    await expect(field(viewer.page)).to_have_value("Think of the tide.")
    await field(viewer.page).press("ArrowDown")
    await expect(field(viewer.page)).to_have_value("")


async def test_cells_of_a_spreadsheet_are_pasted_as_text(house: House):
    session = house.start("Think.")
    viewer = await house.viewer()
    await viewer.see(f"session/{session}")
    # True: nothing but the browser takes the paste.
    assert await field(viewer.page).evaluate(PASTE, "a\tb")
    assert not await field(viewer.page).evaluate(PASTE, "")
    await expect(viewer.page.get_by_role("button", name="Remove cells.png")).to_be_visible()


async def test_looking_at_models_servers_and_files_starts_no_cli(house: House):
    session = house.start("Think.", options={"max_thinking_tokens": 4000})
    await ended(house, session)
    house.ask("POST", f"/api/sessions/{session}/stop")
    viewer = await house.viewer()
    page = viewer.page
    await viewer.see(f"session/{session}")
    await expect(page.get_by_text("Sending resumes the session.")).to_be_visible()
    await page.get_by_role("button", name="Thinking: Up to 4,000 tokens").click()
    chosen = page.get_by_role("menuitemradio", name="Up to 4,000 tokens")
    await expect(chosen).to_have_attribute("aria-checked", "true")
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name=re.compile("^Model: ")).click()
    await expect(page.get_by_role("menuitemradio", name="sonnet")).to_be_visible()
    await expect(page.get_by_role("menuitem", name=re.compile("^Start its CLI"))).to_be_visible()
    await page.keyboard.press("Escape")
    await page.keyboard.press("M")
    window = page.get_by_role("dialog", name="MCP servers")
    start = window.get_by_role("button", name="Start its CLI, and ask for its servers")
    await expect(start).to_be_visible()
    assert status(house, session)["live"] is False
    await start.click()
    await expect(window.get_by_role("button", name="Ask again")).to_be_visible()
    assert status(house, session)["live"] is True
    assert viewer.complaints == []


async def test_a_session_starts_in_a_directory_below_home_with_an_image(house: House):
    (house.machine.folder / "home" / "harbour").mkdir(parents=True, exist_ok=True)
    viewer = await house.viewer()
    page = viewer.page
    await viewer.see("new")
    await page.get_by_label("What is to be done").fill("Think.")
    await page.locator("form input[type=file]").set_input_files([PICTURE])
    await page.get_by_label("Directory", exact=True).fill("~/harbour")
    await page.get_by_role("button", name="Start session").click()
    await expect(page).to_have_url(re.compile("#/session/.+"))
    session = page.url.rpartition("/")[2]
    assert status(house, session)["cwd"].endswith("/harbour")
    await expect(said(page)).to_contain_text("Show the image")
    await viewer.see("new")
    await expect(page.get_by_label("What is to be done")).to_have_value("")
    await expect(page.get_by_role("list", name="Images")).to_have_count(0)


async def test_an_escape_that_is_held_down_closes_what_is_open_and_interrupts_nothing(held: Held):
    house, cli = held
    session = house.start("Do it.")
    await cli.reached("held")
    viewer = await house.viewer()
    page = viewer.page
    await viewer.see(f"session/{session}")
    await expect(page.get_by_role("button", name=re.compile("^Interrupt"))).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    await page.keyboard.down("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.keyboard.down("Escape")
    await page.keyboard.up("Escape")
    assert [url for url in asked if url.endswith("/interrupt")] == []
    await page.keyboard.press("Escape")
    await ended(house, session, "interrupted")
    assert len([url for url in asked if url.endswith("/interrupt")]) == 1


HOLD_FILES = """
    const read = FileReader.prototype.readAsDataURL;
    const held = new Promise((done) => { window.readFiles = done; });
    FileReader.prototype.readAsDataURL = function (file) {
        held.then(() => read.call(this, file));
    };
"""
IS_ABOVE = """(one, other) =>
    one.getBoundingClientRect().bottom < other.getBoundingClientRect().top"""


async def test_a_message_waits_for_the_image_that_is_being_read(house: House):
    session = house.start("Think.")
    await ended(house, session)
    viewer = await house.viewer()
    page = viewer.page
    await viewer.context.add_init_script(HOLD_FILES)
    await viewer.see(f"session/{session}")
    await page.reload()
    await field(page).fill("What is this?")
    await page.locator(".composer input[type=file]").set_input_files([PICTURE])
    send = page.get_by_role("button", name="Send")
    await expect(page.get_by_text("Reading an image…")).to_be_visible()
    await expect(send).to_be_disabled()
    await field(page).press("Enter")
    await expect(field(page)).to_have_value("What is this?")
    await page.evaluate("() => readFiles()")
    await expect(page.get_by_role("list", name="Images").get_by_role("img")).to_have_count(1)
    await expect(page.get_by_text("Reading an image…")).to_have_count(0)
    await send.click()
    await expect(said(page).last).to_contain_text("Show the image")
    assert viewer.complaints == []


async def test_a_fork_and_a_summary_that_are_begun_outlive_a_reload(house: House):
    session = house.start("Think.")
    await ended(house, session)
    viewer = await house.viewer()
    page = viewer.page
    # With it come the keys of what it opens.
    actions = page.get_by_role("button", name="More actions")
    await viewer.see(f"session/{session}")
    await expect(actions).to_be_visible()
    await page.keyboard.press("f")
    fork = page.get_by_role("dialog", name="Fork the session")
    await fork.get_by_label("First message of the new session").fill("Think again.")
    await fork.get_by_label("Label (optional)").fill("again")
    await page.reload()
    await expect(actions).to_be_visible()
    await page.keyboard.press("C")
    keep = page.get_by_role("dialog").get_by_label("What to keep in it (optional)")
    await keep.fill("The tides")
    await page.reload()
    await expect(actions).to_be_visible()
    await page.keyboard.press("C")
    await expect(keep).to_have_value("The tides")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.keyboard.press("f")
    await expect(fork.get_by_label("Label (optional)")).to_have_value("again")
    await fork.get_by_role("button", name="Start the fork").click()
    await expect(page).not_to_have_url(re.compile(session))
    assert status(house, page.url.rpartition("/")[2])["label"] == "again"
    await viewer.see(f"session/{session}")
    await expect(actions).to_be_visible()
    await page.keyboard.press("f")
    await expect(fork.get_by_label("Label (optional)")).to_have_value("")
    assert viewer.complaints == []


async def test_a_reading_that_fails_is_not_told_and_what_is_told_covers_no_button(held: Held):
    house, cli = held
    session = house.start("Do it.")
    await cli.reached("held")
    viewer = await house.viewer(viewport=PHONE, has_touch=True, is_mobile=True)
    page = viewer.page
    await viewer.see(f"session/{session}")
    await expect(page.get_by_role("button", name=re.compile("^Interrupt"))).to_be_visible()
    failed: list[str] = []
    page.on("requestfailed", lambda request: failed.append(request.url))
    await page.route(f"**/api/sessions/{session}", lambda route: route.abort())
    await until(lambda: len(failed) >= 2)
    toasts = page.locator(".toasts")
    await expect(toasts).to_have_text("")
    await page.route("**/messages", lambda route: route.abort())
    await field(page).fill("Mind the tide.")
    await page.get_by_role("button", name="Send", exact=True).tap()
    await expect(toasts).to_have_text("The server cannot be reached")
    toast = page.locator(".toast")
    assert await toast.evaluate(IS_ABOVE, await field(page).element_handle())
    await expect(toasts).to_have_css("pointer-events", "none")
    cli.release("held")
    await ended(house, session)
