from __future__ import annotations

from pilothouse.faces.console.api_types import api_types
from tests.support.places import ROOT

TYPES = ROOT / "src/pilothouse/faces/console/page/src/api/types.ts"


def test_the_page_has_the_types_of_the_openapi_document():
    """Anew: python -m pilothouse.faces.console.api_types >FILE."""
    assert TYPES.read_text() == api_types()
