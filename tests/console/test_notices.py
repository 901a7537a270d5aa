"""Notifications: where nobody looks, through the worker, and to the session at a click."""

from __future__ import annotations

import re

from playwright.async_api import expect

from tests.support.console.browser import Viewer
from tests.support.console.house import House
from tests.support.waiting import until

AWAY = "Object.defineProperty(Document.prototype, 'hasFocus', { value: () => false });"
READY = """async () => {
    const { active } = await navigator.serviceWorker.ready;
    if (active.state === "activating")
        await new Promise((done) => active.addEventListener("statechange", done, { once: true }));
    return active.state === "activated";
}"""
SHOWN = """async () => {
    const worker = await navigator.serviceWorker.ready;
    return (await worker.getNotifications()).map((each) => each.title);
}"""
NOTE_CLOSED = """() => {
    const { close } = Notification.prototype;
    Notification.prototype.close = function () {
        window.closedNotice = this.tag;
        close.call(this);
    };
}"""
CLICK = """async () => {
    const [notification] = await self.registration.getNotifications();
    self.dispatchEvent(new NotificationEvent("notificationclick", { notification }));
}"""


async def notified(house: House) -> Viewer:
    """Somebody who does not look at the page, and wants to be told of questions."""
    viewer = await house.stranger(service_workers="allow")
    await viewer.context.grant_permissions(["notifications"], origin=house.address)
    await viewer.context.add_init_script(AWAY)
    await viewer.enter(await house.link())
    page = viewer.page
    assert await page.evaluate(READY)
    await page.get_by_role("button", name="Notifications, theme, sign out").click()
    await page.get_by_label("A question is asked: notify").check()
    await page.keyboard.press("Escape")
    return viewer


async def test_a_question_is_notified_by_the_worker_and_a_click_opens_its_session(house: House):
    viewer = await notified(house)
    page = viewer.page
    session = house.start("Write a file.")
    await expect(page.locator(".question-card")).to_contain_text("hello.txt")
    shown: list[str] = []
    while not shown:
        shown = await page.evaluate(SHOWN)
    assert "hello.txt" in shown[0]
    [worker] = viewer.context.service_workers
    await worker.evaluate(CLICK)
    await expect(page).to_have_url(re.compile(f"#/session/{session}$"))
    await until(lambda: house.ask("GET", f"/api/sessions/{session}")["questions"] != [])
    assert viewer.complaints == []


async def test_a_question_that_is_settled_takes_its_notification_with_it(house: House):
    viewer = await notified(house)
    page = viewer.page
    await page.evaluate(NOTE_CLOSED)
    house.start("Write a file.")
    while not await page.evaluate(SHOWN):
        pass
    [question] = house.ask("GET", "/api/questions")
    house.ask("POST", f"/api/questions/{question['id']}/answer", {"kind": "allow"})
    closed = await page.wait_for_function("() => window.closedNotice")
    assert await closed.json_value() == f"question {question['id']}"
    assert viewer.complaints == []


async def test_what_is_kept_of_notices_and_is_no_json_does_not_stop_the_page(house: House):
    viewer = await house.stranger()
    await viewer.context.add_init_script(
        "for (const name of ['notices', 'folded', 'start', 'single-keys', 'name'])"
        " localStorage.setItem(`pilothouse.${name}`, '{');"
    )
    await viewer.enter(await house.link())
    await expect(viewer.page.get_by_label("What to do")).to_be_visible()
    assert viewer.complaints == []
