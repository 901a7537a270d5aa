"""What differs between the CLIs that dial, and the back-off they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pilothouse_sim.simulator.flags import BadFlag

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pilothouse_sim.simulator.sdk_url.clock import Clock

__all__ = ["DIALECTS", "NEWEST", "Backoff", "Dialect", "choose", "doubled"]

NEWEST: Final = "2.1.119"
"""The newest CLI measured that still dials; 2.1.120 is the last that does."""

_CHOICE = "PILOTHOUSE_SDK_URL_DIALECT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one CLI behaves at the socket. Times are in seconds."""

    dial_delay: float = 1.0
    dial_delay_most: float = 30.0
    dial_jitter: float = 0.25
    """The delay varies by this share of itself, either way."""
    dial_budget: float | None = 600.0
    """For how long a lost connection is dialled again."""
    dial_attempts: int | None = None
    """How many failures in a row are borne."""
    failed_dial_weight: int = 1
    """How many failures a dial that never opened counts for."""
    permanent_codes: frozenset[int] = frozenset({1002, 4001, 4003})
    refusal_is_permanent: bool = True
    """Whether an HTTP answer other than 101 ends it, as close code 1002 does."""
    ping_every: float | None = 10.0
    keep_alive_every: float | None = 300.0
    replayed: int = 1000
    """How many of the last messages are kept and sent again after a reconnect."""
    post_delay: float = 0.5
    post_delay_most: float = 8.0
    post_jitter: float = 1.0
    """Seconds of chance on top of the delay between two POSTs of the same events."""
    post_attempts: int | None = None
    post_events: int = 500
    """How many events one POST holds at most."""
    post_window: float = 0.1
    """How long a stream event may wait for others to share its POST."""
    post_timeout: float | None = 15.0
    closing_grace: float = 30.0
    """How long the end of the process waits for events that are not through yet."""


DIALECTS: Final[Mapping[str, Dialect]] = {
    "2.1.119": Dialect(),
    "2.1.37": Dialect(
        dial_jitter=0.0,
        dial_budget=None,
        dial_attempts=3,
        # Its socket tells of one failed dial twice, as an error and as a close, and both count.
        failed_dial_weight=2,
        permanent_codes=frozenset(),
        refusal_is_permanent=False,
        ping_every=None,
        keep_alive_every=None,
        replayed=0,
        post_jitter=0.0,
        post_attempts=10,
        post_events=1,
        post_window=0.0,
        post_timeout=None,
    ),
}


def choose(environment: Mapping[str, str]) -> Dialect:
    """The dialect `PILOTHOUSE_SDK_URL_DIALECT` names, else the newest."""
    named = environment.get(_CHOICE) or NEWEST
    if named not in DIALECTS:
        known = ", ".join(DIALECTS)
        raise BadFlag(f"pilothouse-sim: {_CHOICE} is {named!r}; choose one of: {known}")
    return DIALECTS[named]


class Backoff:
    """When to dial again, if at all."""

    def __init__(self, dialect: Dialect, clock: Clock) -> None:
        self._dialect = dialect
        self._clock = clock
        self._failures = 0
        self._since: float | None = None

    def reset(self) -> None:
        """Note a connection that opened."""
        self._failures = 0
        self._since = None

    def next_delay(self, *, opened: bool) -> float | None:
        """Note a failure; how long to wait before the next dial, or None to give up."""
        self._failures += 1 if opened else self._dialect.failed_dial_weight
        now = self._clock.now()
        self._since = now if self._since is None else self._since
        if self._is_over(now - self._since):
            return None
        delay = doubled(self._failures, self._dialect.dial_delay, self._dialect.dial_delay_most)
        return delay + delay * self._dialect.dial_jitter * (2 * self._clock.chance() - 1)

    def _is_over(self, lasting: float) -> bool:
        attempts, budget = self._dialect.dial_attempts, self._dialect.dial_budget
        too_often = attempts is not None and self._failures > attempts
        return too_often or (budget is not None and lasting >= budget)


def doubled(number: int, first: float, most: float) -> float:
    """The delay of this number, counted from 1, when each is twice the one before, up to `most`."""
    return min(first * 2.0 ** min(number - 1, 64), most)
