"""The old `--sdk-url` end: the CLI dials a WebSocket server instead of using its own pipes.

CLIs up to 2.1.120 dial any host; later ones only Anthropic's. `SdkUrlEnd` does what those CLIs
do at the socket, as measured on 2.1.119 and 2.1.37; `Dialect` holds what differs between them.
"""

from pilothouse_sim.simulator.sdk_url.clock import Clock, WallClock
from pilothouse_sim.simulator.sdk_url.dialect import DIALECTS, NEWEST, Dialect, choose
from pilothouse_sim.simulator.sdk_url.end import SdkUrlEnd

__all__ = ["DIALECTS", "NEWEST", "Clock", "Dialect", "SdkUrlEnd", "WallClock", "choose"]
