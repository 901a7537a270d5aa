"""The pictures of the documents: small, whole, and nothing but pictures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.console.compact_svg import compact
from tests.support.console.pictures import ALL, MOST, PICTURES

PRINTED = """<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
 width="75pt" height="75pt" viewBox="0 0 75 75" version="1.2">
<defs><g>
<symbol overflow="visible" id="glyph0-1"><path d="M 1 -8 L 5 -8 L 5 0 Z M 1 -8 "/></symbol>
<symbol overflow="visible" id="glyph1-1"><path d="M 0.5 -4 L 2.5 -4 L 2.5 0 Z M 0.5 -4 "/></symbol>
</g>
<clipPath id="clip1"><path d="M 0 0 L 40 0 L 40 20 L 0 20 Z M 0 0 "/></clipPath></defs>
<g id="surface1">
<g style="fill:rgb(100%,0%,0%);fill-opacity:1;">
<use xlink:href="#glyph0-1" x="10" y="12"/><use xlink:href="#glyph1-1" x="20" y="12"/></g>
<g clip-path="url(#clip1)">
<path style="fill:rgb(0%,0%,100%);fill-opacity:1;" d="M 2 2 L 9 2 L 9 9 L 2 9 Z M 2 2 "/>
<path style="fill:rgb(0%,100%,0%);fill-opacity:1;" d="M 30 10 L 60 10 L 60 15 L 30 15 Z "/>
<path style="fill:rgb(0%,0%,0%);fill-opacity:1;" d="M 50 50 L 60 50 L 60 60 L 50 60 Z "/>
</g></g></svg>
"""


def test_a_letter_stands_in_a_picture_once_whatever_its_sizes() -> None:
    made = compact(PRINTED)
    assert made.count("<path id=") == 1
    assert '<g fill="#ff0000" transform="matrix(.05 0 0 .05 0 12)"><use href="#a" x="200"' in made
    assert 'matrix(.025 0 0 .025 0 12)"><use href="#a" x="800"' in made


def test_what_is_outside_of_its_clip_is_left_out_and_only_what_is_cut_is_clipped() -> None:
    made = compact(PRINTED)
    assert '<path fill="#0000ff" d="M2 2' in made.replace("m2 2", "M2 2")
    assert made.count("<g clip-path=") == 1
    assert re.search(r'<g clip-path="[^"]+"><path fill="#00ff00"', made)
    assert "#000000" not in made


@pytest.mark.parametrize("picture", sorted(PICTURES.glob("*")), ids=lambda each: each.name)
def test_a_picture_is_small_and_only_a_picture(picture: Path) -> None:
    text = picture.read_text()
    assert len(text) <= MOST
    assert set(re.findall(r"<([a-zA-Z]+)", text)) <= {
        *("svg", "defs", "g", "path", "use", "clipPath", "image")
    }
    assert set(re.findall(r'href="([^"#]{5})', text)) <= {"data:"}


def test_there_is_a_picture_for_each_that_is_made() -> None:
    made = {f"{name}-{scheme}.svg" for name, each in ALL.items() for scheme in each.schemes}
    assert {each.name for each in PICTURES.iterdir()} == made
