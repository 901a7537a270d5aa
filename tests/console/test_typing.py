"""Typing: it never answers anything, and nothing that was typed is lost."""

from __future__ import annotations

from playwright.async_api import expect

from tests.support.console.browser import PICTURE
from tests.support.console.house import House

CARD = ".question-card"
NO_SECURE_CONTEXT = """
    Crypto.prototype.randomUUID = undefined;
    Object.defineProperty(Navigator.prototype, "clipboard", { value: undefined });
    Object.defineProperty(Navigator.prototype, "locks", { value: undefined });
    Object.defineProperty(Navigator.prototype, "serviceWorker", { value: undefined });
"""
"""What a page over plain HTTP from another machine lacks."""

TYPE_ON = """() => new Promise((begins) => {
    window.typed = 0;
    const begun = performance.now();
    window.typing = setInterval(() => {
        const key = "caECD"[typed++ % 5];
        const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
        Object.defineProperty(event, "timeStamp", { value: begun + typed * 100 });
        (document.activeElement ?? document.body).dispatchEvent(event);
        if (typed === 3) begins();
    }, 100);
})"""
TYPE_TEN_MORE = """() => new Promise((done) => {
    const enough = typed + 10;
    const look = setInterval(() => {
        if (typed < enough) return;
        clearInterval(typing);
        clearInterval(look);
        done();
    }, 50);
})"""
"""Somebody who types on, a key each 100 ms: a busy machine makes no pause in it."""


def answered(house: House) -> list[object]:
    return house.ask("GET", "/api/questions?state=answered")


async def test_a_question_that_comes_while_one_types_leaves_the_field_and_takes_no_key(
    house: House,
):
    viewer = await house.viewer()
    page = viewer.page
    field = page.get_by_label("What to do")
    await expect(field).to_be_focused()
    await page.keyboard.type("Add ")
    session = house.start("Write a file.")
    await expect(page.locator(CARD)).to_contain_text("hello.txt")
    # Past the moment in which a fresh card takes no key anyway.
    await page.keyboard.type("a Dad", delay=120)
    await expect(field).to_be_focused()
    await expect(field).to_have_value("Add a Dad")
    assert answered(house) == []
    await page.reload()
    await expect(field).to_have_value("Add a Dad")
    card = await viewer.card()
    await card.get_by_role("button", name="Allow", exact=True).click()
    await expect(page.locator(CARD)).to_have_count(0)
    [question] = house.ask("GET", f"/api/questions?state=answered&session_id={session}")
    assert question["answer"]["kind"] == "allow"
    await expect(field).to_have_value("Add a Dad")
    assert viewer.complaints == []


async def test_keys_of_a_field_that_was_taken_away_do_nothing(house: House):
    viewer = await house.viewer()
    page = viewer.page
    house.start("Write a file.")
    card = await viewer.card("hello.txt")
    await card.get_by_role("button", name="Deny…").click()
    await expect(card.get_by_role("textbox")).to_be_focused()
    await page.keyboard.type("Not on ")
    [first] = house.ask("GET", "/api/questions")
    house.start("Run a command.")
    await expect(page.locator(".question-rows > li")).to_have_count(2)
    await page.evaluate(TYPE_ON)
    house.ask("POST", f"/api/questions/{first['id']}/answer", {"kind": "allow"})
    await expect(card).to_contain_text("Allowed by")
    # Who types on is not looking: not at the card that goes, nor at the next one.
    await expect(page.locator(".question-rows > li")).to_have_count(1)
    await expect(card).to_contain_text("mkdir")
    await page.evaluate(TYPE_TEN_MORE)
    await expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.url.endswith("#/")
    [left] = house.ask("GET", "/api/questions")
    assert left["decidable"]
    # Who has looked up answers as ever.
    await card.click(position={"x": 5, "y": 5})
    await page.keyboard.press("a")
    await expect(card).to_have_count(0)
    assert len(answered(house)) == 2
    assert viewer.complaints == []


async def test_a_key_with_the_focus_in_the_list_of_sessions_answers_nothing(house: House):
    house.start("Write a file.")
    viewer = await house.viewer()
    page = viewer.page
    await expect(page.locator(CARD)).to_contain_text("hello.txt")
    await page.locator(".side").get_by_role("link", name="Write a file.").focus()
    await page.keyboard.type("aa", delay=400)
    assert answered(house) == []
    await page.locator(CARD).focus()
    await page.keyboard.press("a")
    await expect(page.locator(CARD)).to_have_count(0)


async def test_over_plain_http_sessions_start_and_messages_go(house: House):
    viewer = await house.stranger()
    await viewer.context.add_init_script(NO_SECURE_CONTEXT)
    await viewer.enter(await house.link())
    page = viewer.page
    await page.get_by_label("What to do").fill("Think.")
    await page.get_by_label("Directory").fill(str(house.project))
    await page.get_by_role("button", name="Start in project").click()
    await expect(page.locator("[data-kind=turn]")).to_have_count(1)
    await page.get_by_role("textbox", name="Message to the session").fill("Think again.")
    await page.keyboard.press("Enter")
    await expect(page.locator("[data-kind=turn]")).to_have_count(2)
    await page.get_by_role("textbox", name="Message to the session").blur()
    await page.keyboard.press("f")
    await expect(page.get_by_role("dialog", name="Fork the session")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Notifications, theme, sign out").click()
    await page.get_by_role("button", name="Another device").click()
    window = page.get_by_role("dialog", name="Sign in another device")
    await window.get_by_role("button", name="Copy").click()
    await expect(window.get_by_role("button", name="Copied")).to_be_visible()
    # What a window has to say is said in it.
    await page.evaluate("document.execCommand = () => false")
    await expect(window.get_by_role("button", name="Copy", exact=True)).to_be_visible()
    await window.get_by_role("button", name="Copy", exact=True).click()
    await expect(window.get_by_role("status")).to_contain_text("does not let this page copy")
    assert viewer.complaints == []


CONVERTED = """field => field.dispatchEvent(
    new KeyboardEvent("keydown", { key: "Enter", keyCode: 229, bubbles: true, cancelable: true })
)"""
"""The Enter that ends a conversion, as Safari tells it; true: nobody has taken it."""


async def test_the_enter_that_ends_a_conversion_sends_nothing(house: House):
    session = house.start("Write a file.")
    viewer = await house.viewer()
    page = viewer.page
    await viewer.see(f"session/{session}")
    message = page.get_by_role("textbox", name="Message to the session")
    await message.fill("にほん")
    assert await message.evaluate(CONVERTED)
    await expect(message).to_have_value("にほん")
    card = await viewer.card("hello.txt")
    await card.get_by_role("button", name="Deny…").click()
    assert await card.get_by_role("textbox").evaluate(CONVERTED)
    assert answered(house) == []


async def test_two_tabs_have_the_same_drafts_and_what_one_has_sent_the_other_does_not(house: House):
    session = house.start("Write a file.")
    viewer = await house.viewer()
    await viewer.see(f"session/{session}")
    first, second = viewer.page, await viewer.context.new_page()
    await second.goto(first.url)
    fields = [
        each.get_by_role("textbox", name="Message to the session") for each in (first, second)
    ]
    await expect(fields[1]).to_be_enabled()
    await fields[0].fill("Half a thou")
    await expect(fields[1]).to_have_value("Half a thou")
    await fields[1].press_sequentially("ght")
    await expect(fields[0]).to_have_value("Half a thought")
    await first.locator(".composer input[type=file]").set_input_files([PICTURE])
    images = [each.get_by_role("list", name="Images") for each in (first, second)]
    for each in images:
        await expect(each).to_be_visible()
    await fields[1].press("Enter")
    for field, image in zip(fields, images, strict=True):
        await expect(field).to_have_value("")
        await expect(image).to_have_count(0)
    # The words for a question as well.
    cards = [each.locator(CARD) for each in (first, second)]
    await viewer.card("hello.txt")
    await cards[0].get_by_role("button", name="Deny…").click()
    await cards[0].get_by_role("textbox").fill("Not on a Friday")
    await expect(cards[1].get_by_role("textbox")).to_have_value("Not on a Friday")
    await cards[0].get_by_role("textbox").press("Enter")
    for each in cards:
        await expect(each).to_have_count(0)
    [question] = house.ask("GET", f"/api/questions?state=answered&session_id={session}")
    assert question["answer"]["reason"] == "Not on a Friday"
    kept = await first.evaluate("() => Object.keys(localStorage).join()")
    assert "draft" not in kept
    assert "card" not in kept
    assert viewer.complaints == []
