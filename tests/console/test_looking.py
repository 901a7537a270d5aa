"""The views for looking: their numbers are those of what happened."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect

from pilothouse_sim.cassettes import read
from pilothouse_sim.plugin import SimulatedCLIMaker
from pilothouse_sim.scenario import reply, tool
from tests.support.console.browser import PHONE, Viewer
from tests.support.console.house import House
from tests.support.console.past import day_name, write_past
from tests.support.console.scripted import house_on
from tests.support.server.machine import Machine
from tests.support.waiting import until


@pytest_asyncio.fixture(loop_scope="session")
async def old_house(tmp_path: Path, browser: Browser) -> AsyncIterator[House]:
    """A server that finds what was done on earlier days."""
    machine = Machine(tmp_path)
    machine.env["CLAUDE_CODE_PATH"] = "pilothouse-sim"
    await write_past(machine.settings)
    house = House(machine, browser)
    try:
        await house.open()
        yield house
    finally:
        await house.aclose()


def panel(page: Page, title: str) -> Locator:
    return page.get_by_role("region", name=title, exact=True)


async def table(page: Page, title: str, *, of_chart: bool = True) -> list[list[str]]:
    """The rows of a panel's table, without its head."""
    part = panel(page, title)
    if of_chart:
        await part.get_by_role("button", name=re.compile("as table")).click()
    await expect(part.locator("tbody tr")).not_to_have_count(0)
    return [
        [cell.strip() for cell in await row.locator("th, td").all_inner_texts()]
        for row in await part.locator("tbody tr").all()
    ]


async def test_no_view_is_longer_than_the_page_that_scrolls_it(old_house: House):
    viewer = await old_house.viewer(viewport=PHONE)
    for view in ("overview", "policy", "machines", "journal", "settings"):
        await viewer.see(view)
        await expect(viewer.page.get_by_role("heading", level=1)).to_be_visible()
        await viewer.page.wait_for_load_state("networkidle")
        size = "[document.documentElement.scrollHeight, innerHeight]"
        all_of_it, window = await viewer.page.evaluate(size)
        assert all_of_it <= window, view


async def test_the_overview_adds_up_days_projects_and_models(old_house: House):
    viewer = await old_house.viewer()
    read: list[str] = []
    viewer.page.on("request", lambda request: read.append(request.url))
    await viewer.see("overview")
    page = viewer.page
    now = page.get_by_role("region", name="Now")
    await expect(now).to_contain_text("$3.50")
    await expect(now).to_contain_text("2 turns")
    lately, long_ago = day_name(1), day_name(4)
    assert await table(page, "Cost by day") == [[lately, "$2.50"], [long_ago, "$1.00"]]
    assert await table(page, "Tokens by day") == [
        [lately, "3.5k tokens"],
        [long_ago, "1.0k tokens"],
    ]
    assert await table(page, "Sessions started by day") == [
        [lately, "2 sessions"],
        [long_ago, "1 session"],
    ]
    assert await table(page, "Waiting for people against working") == [
        [lately, "20 min", "40 min"],
        [long_ago, "0 s", "30 min"],
    ]
    assert await table(page, "Cost by project", of_chart=False) == [
        ["…/work/pier", "$2.50", "3.5k", "1"],
        ["…/work/harbour", "$1.00", "1.0k", "1"],
    ]
    assert await table(page, "Cost by model", of_chart=False) == [
        ["opus", "$3.00", "4.0k", "2"],
        ["haiku", "$0.50", "500", "1"],
    ]
    note = panel(page, "Waiting for people against working")
    await expect(note).to_contain_text("People were asked 2 times")
    await expect(note).to_contain_text("half of the answers came within 10 min")
    await expect(note).to_contain_text("Rules answered 3 in their place.")
    # Not one whole question is read for these sums, but those that are open.
    assert [url for url in read if "state=any" in url] == []
    assert viewer.complaints == []


async def test_a_shorter_time_leaves_out_what_was_before_it(old_house: House):
    viewer = await old_house.viewer()
    old_house.start("Think of it.")
    await viewer.see("overview")
    page = viewer.page
    await page.get_by_role("button", name="7 days").click()
    charts = panel(page, "Waiting for people against working")
    await expect(charts.get_by_role("img")).to_have_attribute(
        "aria-label", re.compile("7 days, at most 40 min a day")
    )
    await charts.get_by_role("img").hover(position={"x": 5, "y": 5})
    assert viewer.complaints == []


async def test_each_rule_says_how_often_it_decided(old_house: House):
    viewer = await old_house.viewer()
    read: list[str] = []
    viewer.page.on("request", lambda request: read.append(request.url))
    await viewer.see("policy")
    rules = panel(viewer.page, "Rules in force")
    items = rules.locator(".look-rule")
    await expect(items).to_have_count(3)
    await expect(items.nth(0)).to_contain_text(re.compile(r"reads\s*answered 2, last"))
    await expect(items.nth(1)).to_contain_text(re.compile(r"writes\s*asked 1, last"))
    await expect(items.nth(2)).to_contain_text(re.compile(r"pushes\s*never used"))
    await expect(rules).to_contain_text("1 of 5 questions matched no rule and was asked.")
    await rules.get_by_text("1 rule of earlier files decided, too").click()
    await expect(rules.locator(".look-former")).to_contain_text(
        re.compile("of an older file\\s*answered 1")
    )
    assert [url for url in read if "state=any" in url] == []
    assert viewer.complaints == []


async def test_a_machine_is_added_drained_and_revoked(house: House):
    viewer = await house.viewer()
    await viewer.see("machines")
    page = viewer.page
    await page.get_by_role("button", name="Add a machine").click()
    await page.get_by_label("Name").fill("attic")
    await page.get_by_role("button", name="Let it in").click()
    dialog = page.get_by_role("dialog")
    token = await dialog.locator("pre").first.inner_text()
    address = house.address.replace("http", "ws")
    await expect(dialog).to_contain_text(f"pilothouse runner --connect {address}")
    await dialog.get_by_role("button", name="Done").click()
    attic = panel(page, "attic")
    await expect(attic.locator(".badge")).to_have_text("away")
    file = house.machine.folder / "attic.token"
    file.write_text(token)
    file.chmod(0o600)
    command = [sys.executable, "-m", "pilothouse", "runner", "--connect", address]
    process = await asyncio.create_subprocess_exec(
        *command,
        *("--token-file", str(file)),
        env={**house.machine.env, "HOME": str(house.machine.folder / "attic-home")},
        stderr=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        await expect(attic.locator(".badge")).to_have_text("connected")
        await attic.get_by_role("button", name="Take no new sessions").click()
        await expect(attic.locator(".badge")).to_have_text("draining: takes no new sessions")
        assert [each["state"] for each in house.ask("GET", "/api/runners")] == ["draining"]
        await attic.get_by_role("button", name="Take sessions again").click()
        await expect(attic.locator(".badge")).to_have_text("connected")
        await attic.get_by_role("button", name="Revoke").click()
        sure = page.get_by_role("dialog")
        await expect(sure).to_contain_text("No session runs there.")
        await sure.get_by_role("button", name="Revoke").click()
        await expect(attic).to_have_count(0)
        assert house.ask("GET", "/api/runners") == []
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
    assert viewer.complaints == []


def events(house: House) -> list[dict[str, object]]:
    return house.ask("GET", "/api/events?limit=10000")["events"]


async def test_the_journal_has_every_event_and_each_as_it_was_written(house: House):
    first, second = house.start("Think of it."), house.start("Think of it.")
    await until(
        lambda: all(
            house.ask("GET", f"/api/sessions/{each}")["state"] == "done" for each in (first, second)
        )
    )
    house.ask("POST", f"/api/sessions/{second}/stop")
    house.ask("POST", f"/api/sessions/{second}/archive")
    await until(lambda: any(each["kind"] == "session.archived" for each in events(house)))
    viewer = await house.viewer()
    await viewer.see("journal")
    page = viewer.page
    rows = page.locator(".look-event")
    every = events(house)
    await expect(rows).to_have_count(len(every))
    assert await rows.first.locator("span").first.inner_text() == str(every[-1]["seq"])
    await page.get_by_label("Kind").select_option("session.archived")
    await expect(rows).to_have_count(1)
    await page.get_by_label("Kind").select_option("turn.ended")
    ended = [each for each in every if each["kind"] == "turn.ended"]
    await expect(rows).to_have_count(len(ended))
    await rows.last.locator("summary").click()
    shown = await rows.last.locator("code").first.inner_text()
    assert json.loads(shown) == ended[0]["body"]
    await expect(page.get_by_role("status").filter(has_text="paused")).to_be_visible()
    await rows.last.get_by_role("button", name="Only this session").click()
    mine = [each for each in ended if each["session_id"] == ended[0]["session_id"]]
    await expect(rows).to_have_count(len(mine))
    await page.get_by_label("Kind").select_option("")
    await page.get_by_label("Text in the event").fill("session.started")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("session.started")
    assert viewer.complaints == []


async def test_settings_say_where_each_comes_from(tmp_path: Path, browser: Browser):
    machine = Machine(tmp_path)
    machine.env |= {"CLAUDE_CODE_PATH": "pilothouse-sim", "PILOTHOUSE_DAY_CAP_USD": "12.5"}
    house = House(machine, browser)
    try:
        await house.open()
        viewer = await house.viewer()
        await viewer.see("settings")
        page = viewer.page
        told = house.ask("GET", "/api/settings")
        items = page.locator(".look-settings > li")
        await expect(items).to_have_count(len(told))
        cap = items.filter(has=page.get_by_text("day_cap_usd", exact=True))
        await expect(cap).to_contain_text("12.5")
        await expect(cap.locator(".badge")).to_have_text(told["day_cap_usd"]["source"])
        assert "PILOTHOUSE_DAY_CAP_USD" in told["day_cap_usd"]["source"]
        await page.get_by_label("Only those that are not the default").check()
        own = [name for name, each in told.items() if each["source"] != "default"]
        await expect(items).to_have_count(len(own))
        await page.get_by_label("Search settings").fill("cap")
        await expect(items.locator("code").first).to_have_text("day_cap_usd")
        await page.get_by_label("Search settings").fill("no such thing")
        await expect(page.get_by_text("No setting fits.")).to_be_visible()
        assert viewer.complaints == []
    finally:
        await house.aclose()


async def spans_of(viewer: Viewer) -> list[list[str]]:
    strip = viewer.page.get_by_role("region", name="Timeline")
    return [
        [cell.strip() for cell in await row.locator("td").all_inner_texts()][1:]
        for row in await strip.locator("tbody tr").all()
    ]


async def test_a_timeline_shows_all_of_a_session(house: House):
    session = house.start("Run a command.")
    await until(lambda: house.ask("GET", f"/api/sessions/{session}")["state"] == "awaiting_input")
    viewer = await house.viewer()
    await viewer.see(f"session/{session}")
    page = viewer.page
    await expect(page.locator("[data-kind=prompt]")).to_have_count(1)
    await page.keyboard.press("t")
    strip = page.get_by_role("region", name="Timeline")
    await strip.get_by_role("button", name="Show as table").click()
    newest = strip.locator("tbody tr").first
    await expect(newest).to_contain_text("Waiting for a person")
    [question] = house.ask("GET", f"/api/questions?session_id={session}")
    await expect(newest).to_contain_text(question["title"])
    house.ask("POST", f"/api/questions/{question['id']}/answer", {"kind": "allow"})
    await until(lambda: house.ask("GET", f"/api/sessions/{session}")["state"] == "done")
    told = house.ask("GET", f"/api/sessions/{session}/timeline")
    await expect(strip.locator("tbody tr")).to_have_count(len(told["spans"]))
    rows = await spans_of(viewer)
    names = {"model": "Model", "tool": "Tools", "person": "Waiting for a person", "idle": "Idle"}
    assert [row[0] for row in reversed(rows)] == [
        names[each["doing"]] + (f": {each['name']}" if each.get("name") else "")
        for each in told["spans"]
    ]
    waited = sum(each["end"] - each["start"] for each in told["spans"] if each["doing"] == "person")
    assert told["totals"]["person"] == waited > 0
    await expect(strip.locator(".timeline-key", has_text="Waiting for a person")).to_contain_text(
        f"{waited / 1000:.1f} s"
    )
    assert viewer.complaints == []


async def exported(viewer: Viewer, name: str, path: Path) -> str:
    await viewer.page.get_by_role("button", name="Export the conversation").click()
    async with viewer.page.expect_download() as coming:
        await viewer.page.get_by_role("menuitem", name=name).click()
    download = await coming.value
    await download.save_as(path)
    return await asyncio.to_thread(path.read_text)


async def test_an_export_has_the_whole_of_what_the_page_cuts_short(
    tmp_path: Path, browser: Browser, simulated_cli: SimulatedCLIMaker
):
    count = reply(tool("Bash", command="touch made; seq 1 5000", description="Count"))
    async with house_on(simulated_cli(count, "Counted."), tmp_path / "house", browser) as house:
        session = house.start("Count.")
        await until(lambda: house.ask("GET", "/api/questions") != [])
        [question] = house.ask("GET", "/api/questions")
        house.ask("POST", f"/api/questions/{question['id']}/answer", {"kind": "allow"})
        await until(lambda: house.ask("GET", f"/api/sessions/{session}")["state"] == "done")
        page = house.ask("GET", f"/api/sessions/{session}/conversation")
        [call] = [each for each in page["items"] if each["kind"] == "tool"]
        assert call["cut"] > 0
        viewer = await house.viewer()
        await viewer.see(f"session/{session}")
        whole = "\n".join(map(str, range(1, 5001)))
        markdown = await exported(viewer, "Export as Markdown", tmp_path / "talk.md")
        assert whole in markdown
        assert "are not in this export" not in markdown
        told = json.loads(await exported(viewer, "Export as JSON", tmp_path / "talk.json"))
        [call] = [each for each in told["items"] if each["kind"] == "tool"]
        assert whole in json.dumps(call["source"]).replace("\\n", "\n")
        await exported(viewer, "Export as a cassette", tmp_path / "talk.jsonl")
        cassette = await asyncio.to_thread(read, tmp_path / "talk.jsonl")
        assert [each.kind for each in cassette.entries if each.kind == "in"] == ["in", "in"]
        assert viewer.complaints == []
