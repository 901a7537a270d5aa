"""The policy in a browser: a rule made from a question is tried on the past, saved, and decides."""

from __future__ import annotations

import re

from playwright.async_api import expect

from tests.support.console.house import House
from tests.support.waiting import until


async def test_a_rule_made_from_a_question_is_tried_saved_and_decides(house: House):
    viewer = await house.viewer()
    first = house.start("Run a command.")
    asked = await viewer.card()
    await asked.get_by_role("link", name="Make a rule from this question").click()
    text = viewer.page.get_by_label("Text of the policy")
    await expect(text).to_have_value(re.compile("mkdir -p harbour"))
    await expect(viewer.page.get_by_text("changed, not saved")).to_be_visible()
    await viewer.page.get_by_role("button", name="Save", exact=True).click()
    await expect(viewer.page.get_by_text("The policy is saved and in force.")).to_be_visible()
    assert house.ask("GET", "/api/policy")["rules"] == 1
    house.ask("POST", f"/api/sessions/{first}/stop")
    second = house.start("Run a command.")
    await until(lambda: house.ask("GET", f"/api/sessions/{second}")["state"] == "done")
    [question] = house.ask("GET", f"/api/questions?state=any&session_id={second}")
    assert question["answered_by"] == "policy"
    await viewer.see(f"session/{second}")
    await expect(viewer.page.locator("[data-kind=question]")).to_contain_text("rule")
    assert viewer.complaints == []


async def test_a_text_that_is_worked_on_outlives_its_tab_until_it_is_discarded(house: House):
    viewer = await house.viewer()
    await viewer.see("policy")
    await viewer.page.get_by_label("Text of the policy").fill("# Mind the tide")
    await viewer.page.close()
    page = await viewer.context.new_page()
    await page.goto(f"{house.address}/#/policy")
    text = page.get_by_label("Text of the policy")
    await expect(text).to_have_value("# Mind the tide")
    await page.get_by_role("button", name="Discard changes").click()
    await page.get_by_role("dialog").get_by_role("button", name="Discard", exact=True).click()
    await page.reload()
    await expect(text).to_have_value("")
