"""The page follows the server: text without holes or doubled pieces, whatever comes when."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, Page, Route, WebSocketRoute, expect

from pilothouse_sim.plugin import SimulatedCLIMaker
from pilothouse_sim.scenario import gate, reply, text, thinking
from tests.support.console.house import House
from tests.support.console.scripted import house_on
from tests.support.waiting import DEADLINE, until

STEPS = 5
PIECES = [f" wave-{number}" * 20 for number in range(2 * STEPS)]
BEFORE = [
    step
    for number in range(100)
    for step in (thinking("By the lead."), text(f"Sounding {number}."))
]


class Wire:
    """What goes between a page and the server, held back and let go as a test wants it."""

    def __init__(self) -> None:
        self.asked = 0
        """Pages of the conversation that the page wanted, that were read, and that it has."""
        self.read = 0
        self.came = 0
        self.frames = 0
        """Frames of the stream, held ones too."""
        self._pages_pass = asyncio.Event()
        self._pages_pass.set()
        self._are_frames_held = False
        self._held: list[dict[str, Any]] = []
        self._news = asyncio.Condition()
        self._socket: WebSocketRoute | None = None

    async def between(self, page: Page) -> None:
        await page.route_web_socket("**/conversation/ws*", self._opened)
        await page.route("**/conversation?*", self._read)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE), self._news:
            await self._news.wait_for(holds)

    def hold_pages(self) -> None:
        """Have the server answer, and the page wait for it."""
        self._pages_pass.clear()

    def hold_frames(self) -> None:
        self._are_frames_held = True

    def let_go(self) -> None:
        """Send what was held; frames as one, as the server does to a slow reader."""
        self._pages_pass.set()
        self._are_frames_held = False
        held, self._held = self._held, []
        if held and self._socket is not None:
            patches = [patch for each in held for patch in each["patches"]]
            self._socket.send(json.dumps({**held[-1], "patches": patches}))

    def _opened(self, page: WebSocketRoute) -> None:
        self._socket = page
        server = page.connect_to_server()
        server.on_message(lambda said: self._said(page, str(said)))

    def _said(self, page: WebSocketRoute, said: str) -> None:
        frame = json.loads(said)
        if self._are_frames_held and frame["type"] == "patches" and frame["unfinished"] is None:
            self._held.append(frame)
        else:
            page.send(said)
        asyncio.get_running_loop().create_task(self._count(frames=1))

    async def _read(self, route: Route) -> None:
        await self._count(asked=1)
        response = await route.fetch()
        await self._count(read=1)
        await self._pages_pass.wait()
        await route.fulfill(response=response)
        await self._count(came=1)

    async def _count(
        self, *, frames: int = 0, asked: int = 0, read: int = 0, came: int = 0
    ) -> None:
        async with self._news:
            self.read += read
            self.frames += frames
            self.asked += asked
            self.came += came
            self._news.notify_all()


def said_by(house: House, session: str) -> dict[str, str]:
    """What the server has of each text, by its id."""
    page = house.ask("GET", f"/api/sessions/{session}/conversation?limit=1000")
    return {item["id"]: item.get("text", "") for item in page["items"] if item["kind"] == "text"}


async def shown(page: Page) -> dict[str, str]:
    """What the page shows of each text that it has."""
    return await page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll(".item[data-kind=text]")].map(
        (item) => [item.dataset.item, item.querySelector(".text").textContent.trim()]))"""
    )


async def to_end(page: Page) -> None:
    """Scroll as far down as there is something, which asks for what is behind it."""
    await page.evaluate(
        """() => new Promise((done) => {
            const scroller = document.querySelector(".scroller");
            scroller.scrollTop = scroller.scrollHeight;
            requestAnimationFrame(() => requestAnimationFrame(done));
        })"""
    )


@pytest.mark.parametrize("late", ["page", "stream"])
async def test_text_that_is_written_while_one_pages_has_no_hole_and_nothing_twice(
    tmp_path: Path, browser: Browser, simulated_cli: SimulatedCLIMaker, late: str
):
    steps = [each for number, words in enumerate(PIECES) for each in (words, gate(str(number)))]
    cli = simulated_cli(reply(*BEFORE, thinking("Now."), gate("read"), "Waves:", *steps))
    async with house_on(cli, tmp_path / "house", browser) as house:
        session = house.start("Sound the way.")
        await cli.reached("read")
        await until(lambda: len(said_by(house, session)) == 100)
        first = next(iter(said_by(house, session)))
        viewer = await house.viewer()
        page, wire = viewer.page, Wire()
        await wire.between(page)
        # Far from the end: what is new is not in the window.
        await viewer.see(f"session/{session}/{quote(first, safe='')}")
        await expect(page.locator(".item.marked")).to_contain_text("Sounding 0.")
        gates = iter(["read", *map(str, range(2 * STEPS - 1))])

        async def write() -> None:
            """Have a piece written, until the page's stream was told."""
            frames = wire.frames
            cli.release(next(gates))
            await wire.until(lambda: wire.frames > frames)

        for _ in range(STEPS):
            if late == "page":
                wire.hold_pages()
            else:
                wire.hold_frames()
            await write()
            await to_end(page)
            await wire.until(lambda: wire.read == wire.asked)
            if late == "stream":
                await wire.until(lambda: wire.came == wire.asked)
            await write()
            wire.let_go()
            await wire.until(lambda: wire.came == wire.asked)
        cli.finish()
        await until(lambda: house.ask("GET", f"/api/sessions/{session}")["state"] == "done")
        last = page.locator(".item[data-kind=text]").last
        await expect(page.locator("[data-kind=turn]")).to_have_count(1)
        await expect(last).to_contain_text(PIECES[-1].strip())
        known = said_by(house, session)
        assert [*known.values()][-1] == "Waves:" + "".join(PIECES)
        now = await shown(page)
        assert now == {each: known[each] for each in now}
        assert len(now) >= 100
        assert viewer.complaints == []


async def test_what_is_read_stays_while_much_comes_at_the_end(
    tmp_path: Path, browser: Browser, simulated_cli: SimulatedCLIMaker
):
    flood = [
        step
        for number in range(340)
        for step in (thinking("By the lead."), text(f"Fathom {number}."))
    ]
    cli = simulated_cli(reply(*BEFORE, thinking("Now."), gate("read"), *flood))
    async with house_on(cli, tmp_path / "house", browser) as house:
        session = house.start("Sound the way.")
        await cli.reached("read")
        await until(lambda: len(said_by(house, session)) == 100)
        viewer = await house.viewer()
        page = viewer.page
        log = page.get_by_role("log", name="Conversation")
        await viewer.see(f"session/{session}")
        await expect(log.get_by_text("Sounding 99.")).to_be_visible()
        read = page.get_by_text("Sounding 75.")
        await read.scroll_into_view_if_needed()
        await expect(page.get_by_role("button", name="To the end")).to_be_visible()
        cli.finish()
        await until(lambda: house.ask("GET", f"/api/sessions/{session}")["state"] == "done")
        await expect(page.get_by_role("button", name=re.compile("[0-9]+ new"))).to_be_visible()
        await expect(read).to_be_in_viewport()
        await page.keyboard.press("G")
        await expect(log.get_by_text("Fathom 339.")).to_be_in_viewport()
        assert viewer.complaints == []


async def test_text_comes_to_a_page_that_is_not_drawn(
    tmp_path: Path, browser: Browser, simulated_cli: SimulatedCLIMaker
):
    cli = simulated_cli(reply("The tide ", gate("turning"), "turns."))
    async with house_on(cli, tmp_path / "house", browser) as house:
        session = house.start("Watch the tide.")
        await cli.reached("turning")
        viewer = await house.viewer()
        await viewer.see(f"session/{session}")
        text = viewer.page.locator("[data-kind=text]")
        await expect(text).to_contain_text("The tide")
        # As in a tab that was hidden while a frame was pending.
        await viewer.page.evaluate("() => { window.requestAnimationFrame = () => 1 }")
        cli.finish()
        await expect(text).to_contain_text("The tide turns.")


async def test_a_page_that_begins_while_the_server_is_away_comes_back_by_itself(house: House):
    session = house.start("Think.")
    await until(lambda: house.ask("GET", f"/api/sessions/{session}")["state"] == "done")
    viewer = await house.viewer()
    await viewer.page.route("**/api/**", lambda route: route.abort())
    await viewer.page.goto("about:blank")
    await viewer.see(f"session/{session}")
    conversation = viewer.page.get_by_role("main")
    await expect(conversation).to_contain_text("The server cannot be reached. Trying again…")
    await expect(viewer.page.locator(".side")).to_contain_text("Loading sessions…")
    await viewer.page.unroute("**/api/**")
    await expect(conversation).to_contain_text("We sail at six.")
    await expect(viewer.page.locator(".side")).to_contain_text("Think.")


async def test_a_browser_that_was_signed_out_elsewhere_says_so_and_a_pasted_link_lets_it_in(
    house: House,
):
    house.start("Write a file.")
    viewer = await house.viewer()
    allow = viewer.page.get_by_role("button", name="Allow", exact=True)
    await expect(allow).to_be_visible()
    house.ask("POST", "/console/leave", {"everywhere": True})
    await expect(viewer.page.get_by_text("This browser is not signed in.")).to_be_visible()
    await expect(allow).to_have_count(0)
    # The address is that of the open page but for what is behind the `#`: nothing is loaded.
    await viewer.page.goto("http://" + (await house.link()).partition("http://")[2])
    await expect(allow).to_be_visible()
    assert viewer.complaints == []


async def test_a_question_that_opens_while_the_list_is_read_is_not_missed(house: House):
    viewer = await house.viewer()
    asked, may_go = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        asked.set()
        await may_go.wait()
        await route.continue_()

    await viewer.page.route("**/api/sessions?*", hold)
    await viewer.page.reload()
    await asked.wait()
    session = house.start("Write a file.")
    await until(lambda: house.ask("GET", f"/api/sessions/{session}")["state"] == "awaiting_input")
    may_go.set()
    await expect(viewer.page.locator(".question-card")).to_contain_text("hello.txt")
    assert viewer.complaints == []


async def test_a_list_that_breaks_off_is_asked_for_again(house: House):
    house.start("Write a file.")
    viewer = await house.viewer()
    broken = '{"sessions": ['
    json_type = "application/json"
    await viewer.page.route(
        "**/api/sessions?*",
        lambda route: route.fulfill(body=broken, content_type=json_type),
        times=1,
    )
    await viewer.page.reload()
    await expect(viewer.page.locator(".question-card")).to_contain_text("hello.txt")
    await expect(viewer.page.locator(".toast")).to_have_count(0)


HANGS = """
    let isFirst = true;
    window.WebSocket = new Proxy(WebSocket, {
        construct(real, [url]) {
            if (!isFirst || !url.pathname.endsWith("/api/sessions/ws")) return new real(url);
            isFirst = false;
            return { readyState: real.CONNECTING, close() {} };
        },
    });
"""
"""The first stream never opens, and never fails."""


async def test_a_stream_that_does_not_open_is_given_up_for_another(house: House):
    viewer = await house.stranger()
    await viewer.context.add_init_script(HANGS)
    await viewer.page.clock.install()
    await viewer.enter(await house.link())
    await expect(viewer.page.get_by_label("What to do")).to_be_visible()
    house.start("Write a file.")
    await until(lambda: house.ask("GET", "/api/questions") != [])
    await viewer.page.clock.fast_forward(20_000)
    await expect(viewer.page.locator(".question-card")).to_contain_text("hello.txt")
    assert viewer.complaints == []
