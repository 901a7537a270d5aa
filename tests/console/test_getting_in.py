"""Getting in: the link works once, a reload stays in, signing out is out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from playwright.async_api import expect

from tests.support.console.house import House

MASKS: Final[list[Callable[[int, int], bool]]] = [
    lambda x, y: (x + y) % 2 == 0,
    lambda _, y: y % 2 == 0,
    lambda x, _: x % 3 == 0,
    lambda x, y: (x + y) % 3 == 0,
    lambda x, y: (x // 3 + y // 2) % 2 == 0,
    lambda x, y: x * y % 2 + x * y % 3 == 0,
    lambda x, y: (x * y % 2 + x * y % 3) % 2 == 0,
    lambda x, y: ((x + y) % 2 + x * y % 3) % 2 == 0,
]


async def test_a_link_signs_the_browser_in_once(house: House):
    link = await house.link()
    first, second = await house.stranger(), await house.stranger()
    await first.enter(link)
    await expect(first.page.get_by_role("navigation", name="Views")).to_be_visible()
    assert "enter=" not in first.page.url
    await second.page.goto(link)
    await expect(second.page.get_by_role("alert")).to_be_visible()
    await expect(second.page.get_by_text("pilothouse open")).to_be_visible()
    assert first.complaints == []


async def test_without_a_link_the_page_says_where_it_is(house: House):
    stranger = await house.stranger()
    await stranger.page.goto(house.address)
    await expect(stranger.page.get_by_text("pilothouse open")).to_be_visible()
    await stranger.page.get_by_label("Or paste a link here:").fill(await house.link())
    await stranger.page.get_by_role("button", name="Sign in").click()
    await expect(stranger.page.get_by_role("navigation", name="Views")).to_be_visible()


async def test_a_reload_and_a_restart_of_the_server_leave_the_browser_signed_in(house: House):
    viewer = await house.viewer()
    await viewer.page.reload()
    await viewer.page.get_by_role("banner").wait_for()
    await house.kill()
    await house.open()
    await viewer.page.reload()
    await expect(viewer.page.get_by_role("banner")).to_be_visible()
    assert viewer.complaints == []


async def test_a_link_for_another_device_is_made_in_the_page_and_signs_it_in(house: House):
    viewer = await house.viewer()
    page = viewer.page
    await page.get_by_role("button", name="Notifications, theme, sign out").click()
    await page.get_by_role("button", name="Another device").click()
    window = page.get_by_role("dialog", name="Sign in another device")
    link = await window.locator(".device-url").inner_text()
    assert link.startswith(f"{house.address}/#enter=")
    await expect(window).to_contain_text("only this machine reaches")
    drawn = await window.locator(".qr-dark").get_attribute("d")
    assert drawn is not None
    assert read_code(drawn) == link
    phone = await house.stranger()
    await phone.enter(link)
    await expect(phone.page.get_by_label("What to do")).to_be_visible()
    assert viewer.complaints == []


def read_code(drawn: str) -> str:
    """What a QR code of one block says, without its correction: from the squares that are dark."""
    dark = {(int(x) - 4, int(y) - 4) for x, y in re.findall(r"M(\d+) (\d+)h", drawn)}
    size = max(x for x, _ in dark) + 1
    mask = sum(((x, 8) in dark) << (4 - x) for x in range(5)) ^ 0b10101
    assert mask >> 3 == 1, "the lowest level of correction"
    flips = MASKS[mask & 7]
    columns = [*range(size - 1, 6, -2), *range(5, 0, -2)]
    places: list[tuple[int, int]] = []
    for turn, right in enumerate(columns):
        rows = range(size) if turn % 2 else range(size - 1, -1, -1)
        places += [(x, y) for y in rows for x in (right, right - 1) if is_data(x, y, size)]
    bits = "".join(str(int(((x, y) in dark) != flips(x, y))) for x, y in places)
    assert bits[:4] == "0100", "bytes"
    length = int(bits[4:12], 2)
    return bytes(int(bits[12 + 8 * at : 20 + 8 * at], 2) for at in range(length)).decode()


def is_data(x: int, y: int, size: int) -> bool:
    """Whether a place of a code up to version 6 is neither a mark nor the format."""
    far = size - 8
    corner = (x < 9 and (y < 9 or y >= far)) or (x >= far and y < 9)
    mark = size > 21 and abs(x - (size - 7)) <= 2 and abs(y - (size - 7)) <= 2
    return not corner and not mark and x != 6 and y != 6
