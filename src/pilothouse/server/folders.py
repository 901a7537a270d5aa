"""The names of folders that more than one part of the server looks into."""

from __future__ import annotations

from typing import Final

__all__ = ["RELAYS_NAME", "SIMULATED_NAME", "WORK_NAME"]

RELAYS_NAME: Final = "relays"
"""In a state folder; in it, one for every relay."""
SIMULATED_NAME: Final = "simulated"
"""In the state folder: the one that the simulator's sessions have instead."""
WORK_NAME: Final = "work"
"""In the simulator's: the folders that stand for those of its callers."""
