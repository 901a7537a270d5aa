"""Debian's Chromium, driven by Playwright: one browser for a worker, a context for each viewer."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from playwright.async_api import (
    Browser,
    BrowserContext,
    FilePayload,
    Locator,
    Page,
    async_playwright,
    expect,
)

from tests.support.waiting import DEADLINE

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
OF_THE_BROWSER: Final = ("Failed to load resource", "WebSocket", "when fetching the script")
"""What it says itself of a refused request, a lost socket, and a worker that it looks for while no
server is there."""
UNREAD_MS: Final = 450
PICTURE: Final = FilePayload(
    name="chart.png",
    mimeType="image/png",
    buffer=base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    ),
)
WIDE: Final = {"width": 1360, "height": 860}
PHONE: Final = {"width": 390, "height": 844}


def chromium() -> str:
    """Where the browser is."""
    named = os.environ.get("PILOTHOUSE_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    assert found, "no Chromium: apt install chromium, or name one in PILOTHOUSE_CHROMIUM"
    return found


@asynccontextmanager
async def launched() -> AsyncGenerator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


class Viewer:
    """Somebody at a browser, signed in or not; what the page complains of is kept."""

    def __init__(self, context: BrowserContext, page: Page, address: str) -> None:
        self.context = context
        self.page = page
        self.address = address
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self._said("error", str(error)))
        page.on("console", lambda said: self._said(said.type, said.text))

    def _said(self, kind: str, text: str) -> None:
        if kind == "error" and not any(each in text for each in OF_THE_BROWSER):
            self.complaints.append(f"{kind}: {text}")

    async def enter(self, link: str) -> None:
        """Open a one-time link, and wait until the page is there."""
        await self.page.goto(link)
        await self.page.get_by_role("banner").wait_for()

    async def see(self, path: str) -> None:
        """Go to a view: what stands behind `#/`."""
        await self.page.goto(f"{self.address}/#/{path}")

    async def card(self, words: str = "") -> Locator:
        """The open question, once it takes keys and clicks: a moment after it has come up."""
        card = self.page.locator(".question-card")
        await expect(card).to_be_visible()
        await expect(card).to_contain_text(words)
        await self.page.wait_for_timeout(UNREAD_MS)
        return card

    async def stop_clock(self) -> None:
        """For what the page takes or not by how long ago another thing was."""
        await self.page.evaluate(
            "() => { const at = performance.now(); performance.now = () => at }"
        )

    async def start_clock(self) -> None:
        await self.page.evaluate("() => delete performance.now")


async def viewer(browser: Browser, address: str, **context: Any) -> Viewer:
    """A context of its own: cookies and storage of nobody else.

    Playwright does not see each request of a page that has a service worker.
    """
    given: dict[str, Any] = {"viewport": WIDE, "service_workers": "block", **context}
    made = await browser.new_context(**given)
    made.set_default_timeout(DEADLINE * 1000)
    return Viewer(made, await made.new_page(), address)
