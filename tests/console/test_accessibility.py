"""What axe finds in each view, light and dark: nothing that is serious or moderate."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import expect

from tests.support.console.browser import PHONE, WIDE, Viewer
from tests.support.console.house import House
from tests.support.places import ROOT

AXE = ROOT / ".cache/console/node_modules/axe-core/axe.min.js"
DIALOG, POPOVER = "dialog[open]", ":popover-open"
OPENED_BY_BUTTONS = (
    ("Notifications, theme, sign out", POPOVER),
    ("Filters", POPOVER),
    ("Actions for Think.", POPOVER),
    ("Permission mode: Ask first", POPOVER),
    ("Model: ", POPOVER),
    ("Thinking", POPOVER),
    ("More actions", POPOVER),
    ("Export the conversation", POPOVER),
    ("Raw", DIALOG),
)
OPENED_BY_KEYS = (
    *(("Control+k", DIALOG), ("?", DIALOG), ("f", DIALOG), ("i", DIALOG)),
    *(("R", DIALOG), ("C", DIALOG), ("M", DIALOG)),
    *(("/", ".search-bar"), ("t", ".session")),
)
VIEWS = ("", "new", "overview", "policy", "machines", "journal", "settings")


async def violations(viewer: Viewer, within: str = "", rule: str = "") -> list[str]:
    """What is wrong with the page, or with what a selector names; by all rules, or by this one."""
    if not await viewer.page.evaluate("'axe' in window"):
        await viewer.page.evaluate(AXE.read_text())
    found: dict[str, Any] = await viewer.page.evaluate(
        "([at, only]) => axe.run(at || document, only ? {runOnly: [only]} : {})", [within, rule]
    )
    return [
        f"{each['impact']} {each['id']}: {node['target']} {node['failureSummary']}"
        for each in found["violations"]
        if each["impact"] != "minor"
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_view_has_a_barrier(house: House, scheme: str, size: dict[str, int]):
    sessions = [house.start(each) for each in ("Write a file.", "Make a plan.", "Ask me.")]
    sessions += [house.start("Run the tests."), house.start("Think.")]
    # What the page's policy forbids it, the tool for looking at it needs.
    viewer = await house.viewer(bypass_csp=True, color_scheme=scheme, viewport=size)
    found: dict[str, list[str]] = {}
    for view in (*VIEWS, *(f"session/{each}" for each in sessions)):
        await viewer.see(view)
        await expect(
            viewer.page.get_by_role("main").or_(viewer.page.locator(".side"))
        ).not_to_have_count(0)
        await viewer.page.wait_for_timeout(400)
        if barriers := await violations(viewer):
            found[view] = barriers
    assert found == {}


async def barriers_of(viewer: Viewer, within: str) -> list[str]:
    """What is wrong with it, in light and in dark."""
    await viewer.page.locator(within).first.wait_for()
    await viewer.page.emulate_media(color_scheme="light", reduced_motion="reduce")
    found = await _lasting(viewer, within)
    await viewer.page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    # Only the colours are others.
    return found + await _lasting(viewer, within, "color-contrast")


async def _lasting(viewer: Viewer, within: str, rule: str = "") -> list[str]:
    """What is there at a third look too: colours may still change, and a menu may still load."""
    for _ in range(2):
        if not await violations(viewer, within, rule):
            return []
    return await violations(viewer, within, rule)


async def test_no_menu_or_dialog_has_a_barrier(house: House):
    session = house.start("Think.")
    viewer = await house.viewer(bypass_csp=True)
    page = viewer.page
    await viewer.see(f"session/{session}")
    await expect(page.locator("[data-kind=turn]")).to_be_visible()
    found: dict[str, list[str]] = {}
    for name, within in OPENED_BY_BUTTONS:
        # Some are there only where the pointer is.
        button = page.get_by_role("button", name=name, include_hidden=True).last
        await button.evaluate("each => each.click()")
        found[name] = await barriers_of(viewer, within)
        await page.keyboard.press("Escape")
        await expect(page.locator(within)).to_have_count(0)
    for press, within in OPENED_BY_KEYS:
        await page.locator("body").evaluate("() => document.activeElement?.blur()")
        await page.keyboard.press(press)
        found[press] = await barriers_of(viewer, within)
        await page.keyboard.press("Escape")
    assert {name: each for name, each in found.items() if each} == {}
    assert viewer.complaints == []


async def test_no_question_card_has_a_barrier_however_it_is_opened(house: House):
    sessions = [house.start(each) for each in ("Run a command.", "Make a plan.", "Ask me.")]
    viewer = await house.viewer(bypass_csp=True)
    page, card = viewer.page, viewer.page.locator(".question-card")
    found: dict[str, list[str]] = {}
    opened = (("A", "d", "e"), ("Control+g", "d"), ())
    for session, presses in zip(sessions, opened, strict=True):
        await viewer.see(f"session/{session}")
        await expect(card).to_be_visible()
        found[session] = await barriers_of(viewer, ".question-card")
        for press in presses:
            await page.keyboard.press(press)
            await expect(card.locator(".question-panel, .plan-editor")).to_be_visible()
            found[press] = await barriers_of(viewer, ".question-card")
            await page.keyboard.press("Escape")
            await expect(card.locator(".question-panel, .plan-editor")).to_have_count(0)
    await viewer.see("")
    await page.get_by_label("Select all 3").check()
    await page.get_by_role("button", name="Answer all alike").click()
    found["alike"] = await barriers_of(viewer, DIALOG)
    assert {name: each for name, each in found.items() if each} == {}
