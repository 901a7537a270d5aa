"""Pictures of the console for the documentation: pages printed to PDF, and made to small SVG.

    scripts/pictures [NAME...]

SVG is text, so git can hold it, and sharp at any size. Letters are outlines that stand in it once.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, Literal, NamedTuple

from playwright.async_api import expect

from tests.support.console.browser import PHONE, Viewer, launched
from tests.support.console.compact_svg import compact
from tests.support.console.staged import Staged, staged
from tests.support.places import ROOT

Scheme = Literal["light", "dark"]

PICTURES: Final = ROOT / "docs/pictures"
MOST: Final = 150_000
"""No picture is larger."""


class Picture(NamedTuple):
    """What is seen, in which size, and whether in dark as well."""

    view: str
    width: int = 1280
    height: int = 780
    schemes: tuple[Scheme, ...] = ("light", "dark")


ALL: Final = {
    "inbox": Picture(""),
    "conversation": Picture("session/{conversation}"),
    "plan": Picture("session/{plan}", schemes=("light",)),
    "overview": Picture("overview", width=1360, height=640, schemes=("light",)),
    "policy": Picture("policy", width=1360, height=760, schemes=("light",)),
    "phone": Picture("", PHONE["width"], 780),
}
PREPARE: Final = """folder => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(
    "* { box-shadow: none !important } .question-body { background: none !important }" +
    "input[type=checkbox] { appearance: none; width: 13px; height: 13px;" +
    " border: 1px solid var(--line-strong); border-radius: 3px }"
  );
  document.adoptedStyleSheets.push(sheet);
  for (const each of document.querySelectorAll("canvas")) {
    const whole = document.createElement("canvas");
    [whole.width, whole.height] = [each.width, each.height];
    const drawn = whole.getContext("2d");
    drawn.fillStyle = getComputedStyle(each.closest(".card") ?? document.body).backgroundColor;
    drawn.fillRect(0, 0, whole.width, whole.height);
    drawn.drawImage(each, 0, 0);
    const image = new Image();
    image.src = whole.toDataURL();
    [image.width, image.height] = [each.clientWidth, each.clientHeight];
    each.replaceWith(image);
  }
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode;
    for (const home of [`${folder}/house/home`, folder])
      if (text.data.includes(home)) text.data = text.data.replaceAll(home, "~");
  }
}"""
"""Shadows would be images in the SVG, and charts are some, without holes. Boxes to tick are printed
for light paper. A home folder stands there as people write it."""


async def main(names: list[str]) -> None:
    if not shutil.which("pdftocairo"):
        sys.exit("pictures: there is no pdftocairo: apt install poppler-utils")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        async with launched() as browser, staged(Path(folder), browser) as house:
            wide = await house.house.viewer(device_scale_factor=2)
            phone = await house.house.viewer(has_touch=True, is_mobile=True, viewport=PHONE)
            for name in names or ALL:
                viewer = phone if name == "phone" else wide
                for scheme in ALL[name].schemes:
                    made = await _take(viewer, house, name, scheme, Path(folder))
                    size = f"{made.stat().st_size:,} bytes"
                    sys.stdout.write(f"{made.relative_to(ROOT)}: {size}\n")


async def _take(viewer: Viewer, house: Staged, name: str, scheme: Scheme, folder: Path) -> Path:
    page, picture = viewer.page, ALL[name]
    await page.set_viewport_size({"width": picture.width, "height": picture.height})
    await page.emulate_media(media="screen", color_scheme=scheme, reduced_motion="reduce")
    await viewer.see(picture.view.format(**house.sessions))
    await expect(page.get_by_text("Loading")).to_have_count(0)
    # Charts, and the size of what has just come.
    await page.wait_for_timeout(1000)
    await page.evaluate(PREPARE, str(folder))
    pdf = folder / f"{name}-{scheme}.pdf"
    width, height = f"{picture.width}px", f"{picture.height}px"
    await page.pdf(path=pdf, width=width, height=height, print_background=True, page_ranges="1")
    svg = pdf.with_suffix(".svg")
    await asyncio.to_thread(subprocess.run, ["pdftocairo", "-svg", pdf, svg], check=True)
    made = PICTURES / svg.name
    made.write_text(compact(svg.read_text()))
    if made.stat().st_size > MOST:
        sys.exit(f"pictures: {made.name} is larger than {MOST:,} bytes")
    return made


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
