"""Questions that the models of these tests ask, as `AskUserQuestion` has them."""

from __future__ import annotations

from typing import Any

COLOUR: dict[str, Any] = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [
        {"label": "Red", "description": "like a buoy"},
        {"label": "Blue", "description": "like the sea"},
    ],
    "multiSelect": False,
}
TOPPINGS: dict[str, Any] = {
    "question": "Which toppings?",
    "header": "Toppings",
    "options": [
        {"label": "Ham", "description": "salty"},
        {"label": "Olives", "description": "green"},
        {"label": "Corn", "description": "sweet"},
    ],
    "multiSelect": True,
}
