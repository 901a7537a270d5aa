"""The main flow on the real CLI with a scripted model, and again with the server killed in it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from pilothouse_sim.clis import RealCLI
from pilothouse_sim.plugin import RealCLIMaker
from pilothouse_sim.scenario import gate, reply, tool
from tests.support.console.browser import Viewer
from tests.support.console.house import House
from tests.support.console.scripted import house_on
from tests.support.versions import NEWEST
from tests.support.waiting import until

pytestmark = pytest.mark.real

PROMPT = "Drop anchor."


class Aboard(NamedTuple):
    """A server on a real CLI, whose model stops in the middle of its first sentence."""

    house: House
    cli: RealCLI


@pytest_asyncio.fixture(loop_scope="session")
async def aboard(tmp_path: Path, browser: Browser, real_cli: RealCLIMaker) -> AsyncIterator[Aboard]:
    drop = tool("Bash", command="touch anchor", description="Drop the anchor")
    cli = real_cli(
        reply("Two fathoms,", gate("sounding"), " sand and shells.", drop),
        "At anchor.",
        version=NEWEST,
        # It may ask for a title besides.
        strict=False,
    )
    async with house_on(cli, tmp_path / "house", browser) as house:
        yield Aboard(house, cli)


async def start(viewer: Viewer, house: House) -> str:
    """Start the session in the page; its id."""
    page = viewer.page
    await viewer.see("new")
    await page.get_by_label("What is to be done").fill(PROMPT)
    await page.get_by_label("Directory", exact=True).fill(str(house.project))
    await page.get_by_role("radio", name="Ask first").check()
    await page.get_by_role("button", name="Start session").click()
    await expect(page).to_have_url(re.compile("#/session/.+"))
    return page.url.rpartition("/")[2]


async def asked(viewer: Viewer) -> Locator:
    """The card of the command, once it takes keys: a moment after it has come up."""
    allow = viewer.page.get_by_role("button", name="Allow", exact=True)
    await expect(allow).to_be_enabled()
    await viewer.card("touch anchor")
    return allow


def status(house: House, session: str) -> dict[str, Any]:
    return house.ask("GET", f"/api/sessions/{session}")


async def shown_at_anchor(viewer: Viewer, house: House, session: str) -> None:
    """The end of the turn in the page, and the file on the disk."""
    await expect(viewer.page.locator("[data-kind=text]").last).to_contain_text("At anchor.")
    turn = viewer.page.locator("[data-kind=turn]")
    await expect(turn).to_contain_text("Turn finished")
    await expect(turn).to_contain_text("$")
    await until(lambda: status(house, session)["state"] == "done")
    assert status(house, session)["cost_usd"] > 0
    assert (house.project / "anchor").exists()


async def test_from_the_start_to_the_file_on_the_disk(aboard: Aboard):
    house, cli = aboard
    viewer = await house.viewer()
    session = await start(viewer, house)
    await cli.reached("sounding")
    text = viewer.page.locator("[data-kind=text]")
    await expect(text).to_contain_text("Two fathoms,")
    await expect(text).not_to_contain_text("sand and shells.")
    cli.release("sounding")
    await expect(text).to_contain_text("Two fathoms, sand and shells.")
    allow = await asked(viewer)
    assert not (house.project / "anchor").exists()
    await viewer.page.keyboard.press("a")
    await expect(allow).to_have_count(0)
    await shown_at_anchor(viewer, house, session)
    command = viewer.page.locator("[data-kind=tool]")
    await expect(command).to_contain_text("touch anchor")
    await expect(command.get_by_role("img", name="done")).to_be_visible()
    assert viewer.complaints == []


async def test_the_page_outlives_a_killed_server_with_the_question_open(aboard: Aboard):
    house, cli = aboard
    cli.release("sounding")
    viewer = await house.viewer()
    session = await start(viewer, house)
    await asked(viewer)
    loads: list[str] = []
    viewer.page.on("load", lambda page: loads.append(page.url))
    lost = viewer.page.get_by_text("Connection lost")
    await house.kill()
    await expect(lost).to_be_visible()
    await house.open()
    await expect(lost).to_have_count(0)
    allow = await asked(viewer)
    await viewer.page.keyboard.press("a")
    await expect(allow).to_have_count(0)
    await shown_at_anchor(viewer, house, session)
    # Another page, which has seen nothing of it, shows the same and nothing twice.
    other = await house.viewer()
    await other.see(f"session/{session}")
    for each in (viewer, other):
        await expect(each.page.locator("[data-kind=prompt]")).to_have_count(1)
        await expect(each.page.locator("[data-kind=tool]")).to_have_count(1)
        await expect(each.page.locator("[data-kind=turn]")).to_have_count(1)
    # The CLI lived on behind its relay: the model was asked as often as without the kill.
    assert len(cli.requests) == 2
    assert loads == []
    assert viewer.complaints == []
