"""The keyboard alone: from the start of a session to its answer, and no key where one types."""

from __future__ import annotations

import re

from playwright.async_api import Locator, Page, expect

from tests.support.console.house import House
from tests.support.waiting import until

FOCUSED = """() => {
    const at = document.activeElement;
    return at.closest(".question-card") ? (at.getAttribute("aria-label") || at.innerText) : null;
}"""


async def choose(page: Page, words: str) -> None:
    """Find something in the palette, and take the first that fits."""
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("dialog", name="Find")).to_be_visible()
    await page.keyboard.type(words)
    first = page.get_by_role("listbox", name="Found").get_by_role("option").first
    await expect(first).to_contain_text(words)
    await expect(first).to_have_attribute("aria-selected", "true")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def tab_to(page: Page, field: Locator) -> None:
    """Go on with Tab until the field has the focus; every control before it is passed once."""
    for _ in range(60):
        if await field.evaluate("each => each === document.activeElement"):
            return
        await page.keyboard.press("Tab")
    raise AssertionError("Tab does not come to it")


async def test_from_the_start_to_the_answer_without_a_mouse(house: House):
    viewer = await house.viewer()
    page = viewer.page
    await choose(page, "New session")
    await expect(page.get_by_label("What is to be done")).to_be_focused()
    await page.keyboard.type("Write a file.")
    await tab_to(page, page.get_by_label("Directory", exact=True))
    await page.keyboard.type(str(house.project))
    await page.keyboard.press("Tab")
    await tab_to(page, page.get_by_role("button", name="Start session"))
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("#/session/.+"))
    session = page.url.rpartition("/")[2]

    await choose(page, "Inbox and sessions")
    card = await viewer.card("hello.txt")
    await page.keyboard.press("a")
    await expect(card).to_have_count(0)
    await expect(page.get_by_role("complementary", name="Sessions")).to_contain_text(
        "It is written"
    )

    await page.keyboard.press("s")
    row = page.get_by_role("complementary", name="Sessions").get_by_role(
        "link", name="Write a file."
    )
    await expect(row).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile(f"#/session/{session}$"))
    await expect(page.get_by_role("main")).to_contain_text("It is written")

    await page.keyboard.press("m")
    await expect(page.get_by_role("textbox", name="Message to the session")).to_be_focused()
    await page.keyboard.type("Think.")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("main")).to_contain_text("We sail at six.")

    # From within the field: the palette opens there too.
    await choose(page, "Policy")
    await expect(page.get_by_role("heading", level=1, name="Policy")).to_be_visible()
    await choose(page, "Write a file.")
    await expect(page).to_have_url(re.compile(f"#/session/{session}$"))
    assert viewer.complaints == []


async def test_the_help_has_the_keys_that_act_and_takes_none_for_the_page_behind_it(house: House):
    house.start("Write a file.")
    viewer = await house.viewer()
    page = viewer.page
    card = await viewer.card("hello.txt")
    await page.keyboard.press("?")
    sheet = page.get_by_role("dialog", name="Keys")
    groups = sheet.get_by_role("heading", level=3)
    await expect(groups.filter(has_text=re.compile("^Question$"))).to_be_visible()
    await expect(groups.filter(has_text=re.compile("^Everywhere$"))).to_be_visible()
    await expect(sheet).to_contain_text("Deny, with words")
    # What is pressed over the page is not for the page.
    await page.keyboard.press("a")
    await page.keyboard.press("Escape")
    await expect(sheet).to_have_count(0)
    await expect(card).to_be_visible()


async def test_tab_reaches_every_control_of_a_card(house: House):
    house.start("Run a command.")
    viewer = await house.viewer()
    card = await viewer.card("mkdir")
    controls = card.get_by_role("button").or_(card.get_by_role("link"))
    wanted = {each for each in await controls.all_inner_texts() if each}
    assert len(wanted) >= 5
    await card.focus()
    reached: list[str] = []
    while len(reached) < 30:
        await viewer.page.keyboard.press("Tab")
        at = await viewer.page.evaluate(FOCUSED)
        if at is None:
            break
        reached.append(at)
    assert wanted <= set(reached)
    assert "What it wants" in reached
    assert len(reached) == len(set(reached))


async def test_no_key_acts_while_one_types(house: House):
    session = house.start("Write a file.")
    viewer = await house.viewer()
    page = viewer.page
    await viewer.see(f"session/{session}")
    card = await viewer.card("hello.txt")
    letters = "aAdDecjkxsmfirt?/"
    await page.keyboard.press("m")
    field = page.get_by_role("textbox", name="Message to the session")
    await expect(field).to_be_focused()
    await page.keyboard.type(letters)
    await expect(field).to_have_value(letters)
    await expect(card).to_contain_text("hello.txt")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page).to_have_url(re.compile(f"#/session/{session}$"))
    assert house.ask("GET", f"/api/sessions/{session}")["state"] == "awaiting_input"
    assert house.ask("GET", f"/api/questions?state=answered&session_id={session}") == []
    # And they act again where nobody types.
    await field.blur()
    await page.keyboard.press("a")
    await expect(card).to_have_count(0)
    await until(lambda: house.ask("GET", f"/api/sessions/{session}")["state"] == "done")


async def test_single_keys_can_be_switched_off_and_the_others_stay(house: House):
    house.start("Write a file.")
    viewer = await house.viewer()
    page = viewer.page
    card = await viewer.card("hello.txt")
    await page.keyboard.press("?")
    await page.get_by_role("dialog", name="Keys").get_by_label("Single keys act").uncheck()
    await page.keyboard.press("Escape")
    await page.reload()
    await viewer.card("hello.txt")
    await page.keyboard.type("?aDc")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(card).to_be_visible()
    assert house.ask("GET", "/api/questions?state=answered") == []
    # The palette has a modifier, and everything in it.
    await page.keyboard.press("Control+k")
    await page.get_by_role("dialog", name="Find").get_by_role("combobox").fill("Show the keys")
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Single keys act")).not_to_be_checked()
    await page.get_by_label("Single keys act").check()
    await page.keyboard.press("Escape")
    await card.focus()
    await page.keyboard.press("a")
    await expect(card).to_have_count(0)


async def test_arrows_choose_among_options_of_which_tab_reaches_one(house: House):
    house.start("Ask me a question.")
    viewer = await house.viewer()
    page = viewer.page
    card = await viewer.card("Which way shall we go?")
    options = card.get_by_role("radio")
    await expect(options).to_have_count(2)
    await tab_to(page, options.first)
    await page.keyboard.press("ArrowDown")
    await expect(options.nth(1)).to_be_focused()
    await expect(options.nth(1)).to_be_checked()
    await page.keyboard.press("ArrowDown")
    await expect(options.first).to_be_checked()
    await expect(options.nth(1)).to_have_attribute("tabindex", "-1")


async def test_what_was_open_over_the_page_gives_the_focus_back(house: House):
    house.start("Write a file.")
    viewer = await house.viewer()
    page = viewer.page
    card = await viewer.card("hello.txt")
    edit = card.get_by_role("button", name="Edit first")
    for leave in ("Escape", "its button"):
        await edit.focus()
        await page.keyboard.press("?")
        sheet = page.get_by_role("dialog", name="Keys")
        await expect(sheet).to_be_visible()
        if leave == "Escape":
            await page.keyboard.press("Escape")
        else:
            await sheet.get_by_role("button", name="Close").click()
        await expect(sheet).to_have_count(0)
        await expect(edit).to_be_focused()


async def test_a_panel_of_a_card_takes_the_focus_and_gives_it_back(house: House):
    house.start("Run a command.")
    viewer = await house.viewer()
    page = viewer.page
    card = await viewer.card("mkdir")
    panel = card.locator(".question-panel")
    first = {
        "Always…": panel.get_by_role("button").first,
        "Edit first": panel.get_by_role("textbox").first,
        "Deny…": panel.get_by_role("textbox"),
    }
    for name, field in first.items():
        button = card.get_by_role("button", name=name)
        for leave in ("Escape", "Cancel"):
            await button.focus()
            await page.keyboard.press("Enter")
            await expect(field).to_be_focused()
            if leave == "Escape":
                await page.keyboard.press("Escape")
            else:
                await panel.get_by_role("button", name="Cancel").click()
            await expect(button).to_be_focused()
    assert viewer.complaints == []


async def test_keys_act_at_a_box_to_tick(house: House):
    for prompt in ("Write a file.", "Run a command."):
        session = house.start(prompt)
        path = f"/api/sessions/{session}"
        await until(lambda path=path: house.ask("GET", path)["state"] == "awaiting_input")
    viewer = await house.viewer()
    await viewer.card("hello.txt")
    await viewer.page.get_by_role("checkbox", name="Select: ").first.focus()
    await viewer.page.keyboard.press("j")
    await viewer.card("mkdir")


PRESSED = """(field, members) => {
    const at = field ?? document.body;
    const more = { bubbles: true, cancelable: true, ...members };
    return at.dispatchEvent(new KeyboardEvent("keydown", more));
}"""
"""False: something has taken the key."""


async def test_a_sign_that_a_keyboard_has_behind_another_key_acts_and_can_be_typed(house: House):
    session = house.start("Think.")
    viewer = await house.viewer()
    page = viewer.page
    await viewer.see(f"session/{session}")
    await expect(page.locator("[data-kind=turn]")).to_be_visible()
    windows = {"key": "[", "ctrlKey": True, "altKey": True, "modifierAltGraph": True}
    mac = {"key": "[", "altKey": True}
    message = await page.get_by_role("textbox", name="Message to the session").element_handle()
    for pressed in (windows, mac):
        assert not await page.evaluate(f"members => ({PRESSED})(null, members)", pressed)
        assert message is not None
        assert await message.evaluate(PRESSED, pressed)
    # A letter with alt is the browser's.
    assert await page.evaluate(
        f"members => ({PRESSED})(null, members)", {"key": "m", "altKey": True}
    )
