"""How long a relay waits for what, in seconds."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["LAST_WILL", "PACE", "Pace"]

LAST_WILL: Final = 24 * 3600.0


class Pace(NamedTuple):
    pause: float = 0.02
    """Between two readings of a busy CLI: what it costs to carry lines is the waking up."""
    handshake: float = 15.0
    """From the first byte of a connection until the door's welcome."""
    ping: float = 20.0
    """Of silence, before the door is asked whether it is still there."""
    silence: float = 45.0
    """After which it is not."""
    first_delay: float = 0.1
    local_delay: float = 2.0
    """The longest between two tries to reach a door on this machine."""
    longest_delay: float = 30.0
    replaced_delay: float = 1.0
    """The shortest after another connection took our place, lest the two chase each other."""
    steady: float = 10.0
    """A connection of that age ends the growing of delays."""
    interrupt: float = 3.0
    """The steps of ending a CLI: for its turn to stop, ..."""
    close: float = 5.0
    """... for it to leave when its input has ended, ..."""
    terminate: float = 5.0
    """... when it is told to, ..."""
    kill: float = 2.0
    """... and when it was killed."""
    end_of_output: float = 1.0
    """After a CLI's end, for its output to end too, if something else holds it open."""
    farewell: float = 5.0
    """For a door to acknowledge the CLI's end, when the relay leaves anyway."""


PACE: Final = Pace()
