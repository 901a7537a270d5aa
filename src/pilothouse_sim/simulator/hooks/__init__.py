"""Hooks: callbacks in the client and commands, called where the CLI calls them."""

from pilothouse_sim.simulator.hooks.calling import Hooks
from pilothouse_sim.simulator.hooks.verdicts import Hooked, Submitted

__all__ = ["Hooked", "Hooks", "Submitted"]
