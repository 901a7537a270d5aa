"""What an engine answers a request with, statuses and questions aside."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from pilothouse.protocol.permissions import PermissionMode

from .statuses import Tokens
from .values import ResultData, State

__all__ = [
    "AllStopped",
    "Cancelled",
    "CostGroup",
    "CostLine",
    "CostReport",
    "DialInOpened",
    "DialInWaiting",
    "DryRun",
    "DryRunLine",
    "Health",
    "Interrupted",
    "ModeSet",
    "PolicyReport",
    "Rewound",
    "Runner",
    "RunnerAdded",
    "Said",
    "Started",
    "Stopped",
]


class Started(ResultData, frozen=True):
    session_id: str
    state: State
    prompt_id: str | None = None
    repeated: bool = False
    """The key was known: this is the answer that was given then."""
    simulated: bool = False
    """No model works on it, and nothing is spent: its CLI is the simulator."""
    scratch: str | None = None
    """The folder that a simulated session works in, in place of `cwd`."""
    continued: bool = False
    """It was there before, and goes on."""


class Said(ResultData, frozen=True):
    session_id: str
    prompt_id: str
    state: State
    resumed: bool = False
    """No CLI was alive: one was started for this message, with the session's own options."""
    queued: bool = False
    """A turn was running: the CLI takes the message into it or after it."""
    repeated: bool = False


class Cancelled(ResultData, frozen=True):
    prompt_id: str
    cancelled: bool
    """False: it had left the queue."""


class Interrupted(ResultData, frozen=True):
    session_id: str
    state: State
    was_running: bool
    still_queued: list[str] = field(default_factory=list[str])


class ModeSet(ResultData, frozen=True):
    session_id: str
    mode: PermissionMode
    how: Literal["in_place", "restarted", "at_next_start"]


class Rewound(ResultData, frozen=True):
    possible: bool
    files: list[str] = field(default_factory=list[str])
    insertions: int | None = None
    deletions: int | None = None
    done: bool = False
    reason: str | None = None


class Stopped(ResultData, frozen=True):
    session_id: str
    state: State
    was_live: bool


class AllStopped(ResultData, frozen=True):
    sessions: list[str]
    """Those that had a CLI, and have none now."""


class DialInWaiting(ResultData, frozen=True):
    """A CLI that is expected, and has not come yet."""

    session_id: str
    """The session that it will be."""
    cwd: str
    expires_at: int
    """In milliseconds since the epoch."""
    label: str | None = None


class DialInOpened(ResultData, frozen=True):
    """Where one CLI is expected."""

    session_id: str
    """The session that it will be, once it has come."""
    url: str
    """What to give to `--sdk-url`."""
    token: str
    """Told this once. One CLI can come with it, in `CLAUDE_CODE_SESSION_ACCESS_TOKEN`."""
    command: str
    """A line for a shell that starts it."""
    expires_at: int
    warning: str | None = None
    """Why the CLI of this machine will not come: it is too new."""


class Runner(ResultData, frozen=True):
    """A machine that starts CLIs when it is asked to."""

    name: str
    state: Literal["connected", "draining", "away", "lost"]
    """`away`: not connected, and not for long; `draining`: takes no new session."""
    since: int
    """When it came into this state, in milliseconds since the epoch."""
    host: str = ""
    version: str = ""
    cli_version: str | None = None
    sessions: list[str] = field(default_factory=list[str])
    """Those whose CLI is on it."""


class RunnerAdded(ResultData, frozen=True):
    name: str
    token: str
    """Told this once. Whoever has it can be this runner."""


class PolicyReport(ResultData, frozen=True):
    path: str | None
    rules: int
    error: str | None = None
    """What is wrong with the file as it is now; the last good one stays in force."""
    loaded_at: int | None = None
    text: str = ""


class DryRunLine(ResultData, frozen=True):
    question_id: str
    session_id: str
    tool_name: str
    title: str
    before: str
    after: str
    before_rule: str | None = None
    after_rule: str | None = None


class DryRun(ResultData, frozen=True):
    examined: int
    differ: list[DryRunLine] = field(default_factory=list[DryRunLine])
    older: int = 0
    """How many more differ: those that were asked before the first of these."""


CostGroup = Literal["turn", "session", "project", "day", "model"]


class CostLine(ResultData, frozen=True):
    group: str
    usd: float
    turns: int
    tokens: Tokens


class CostReport(ResultData, frozen=True):
    by: CostGroup
    lines: list[CostLine]
    total_usd: float
    today_usd: float
    day_cap_usd: float | None = None
    older: int = 0
    """How many lines there are before the first of these."""


class Health(ResultData, frozen=True):
    ok: bool
    version: str
    live: int
    sessions: int
    questions: int
    cursor: int
    simulated: bool
    started_at: int
    problem: str | None = None
    policy_error: str | None = None
    """What is wrong with the policy file as it is now; the last good rules stay in force."""
    lack: str | None = None
    """Why sessions run on the simulator although nobody wanted that: no CLI, or not signed in."""
    states: dict[str, int] = field(default_factory=dict[str, int])
    """How many of the sessions are in each state."""
