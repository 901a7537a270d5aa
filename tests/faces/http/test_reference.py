"""The reference page has the operations of the table."""

from __future__ import annotations

from pathlib import Path

from pilothouse.api.operations import OPERATIONS
from pilothouse.faces.http.reference import render

PAGE = Path(__file__).parents[3] / "docs/reference-http.md"
HOW = "run: python -m pilothouse.faces.http.reference docs/reference-http.md"


def test_the_page_is_as_the_table_has_it() -> None:
    page = PAGE.read_text()
    assert render(page) == page, HOW


def test_every_operation_is_on_the_page() -> None:
    page = PAGE.read_text()
    for each in OPERATIONS:
        assert f"| `{each.method} {each.path}` | `{each.name}` | {each.summary} |" in page


def test_what_stands_around_the_tables_stays() -> None:
    page = "a\n<!-- operations: cost -->\nold\n<!-- end -->\nb\n"
    before, route, after = render(page).split("\n", 1)[0], "`GET /api/cost`", render(page)[-2:]
    assert (before, route in render(page), after) == ("a", True, "b\n")
    assert "old" not in render(page)
    assert render(render(page)) == render(page)
