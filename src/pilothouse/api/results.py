"""What an engine answers a request with, statuses and questions aside."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from pilothouse.protocol.permissions import PermissionMode

from .statuses import Tokens
from .values import ResultData, State

__all__ = [
    "Activity",
    "ActivityDay",
    "AllStopped",
    "Cancelled",
    "CostGroup",
    "CostLine",
    "CostReport",
    "DialInOpened",
    "DialInWaiting",
    "Doing",
    "DryRun",
    "DryRunLine",
    "Health",
    "Interrupted",
    "ModeSet",
    "PolicyReport",
    "Rewound",
    "RuleUse",
    "Runner",
    "RunnerAdded",
    "Said",
    "Started",
    "Stopped",
    "Stretch",
    "Timeline",
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


class Paths(ResultData, frozen=True):
    """What fits what was typed of a path, best first."""

    paths: list[str]


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


class ActivityDay(ResultData, frozen=True):
    """What happened on one day; the server's clock says when it begins."""

    day: str
    """The date, as 2026-01-31."""
    sessions: int = 0
    """Those that were started, in terminals too."""
    turns: int = 0
    """Those that ended."""
    waited_ms: int = 0
    """How long sessions waited for people."""
    worked_ms: int = 0
    """How long turns took, without the time in which they waited for people."""


class RuleUse(ResultData, frozen=True):
    """How often a rule of the policy decided."""

    rule: str
    answered: int
    """Questions that it answered."""
    asked: int
    """Questions that it wanted a person to see."""
    last: int
    """When it last did."""


class Activity(ResultData, frozen=True):
    """What sessions did and people had to do, added up."""

    days: list[ActivityDay]
    """Those on which something happened."""
    rules: list[RuleUse] = field(default_factory=list[RuleUse])
    """Those that decided last come first; at most 1,000."""
    asked: int = 0
    """Questions that people were asked."""
    answered_by_rules: int = 0
    without_rule: int = 0
    """Questions that no rule was for."""
    median_wait_ms: int | None = None
    """Half of the answers of people took no longer; None where nobody has answered."""


Doing = Literal["model", "tool", "person", "idle"]


class Stretch(ResultData, frozen=True, omit_defaults=True):
    """Some of a session's time."""

    doing: Doing
    start: int
    end: int
    name: str = ""
    """The tool, or what was asked."""
    count: int = 1
    """How many stretches it stands for, where there were too many; it is what they mostly were."""


class Timeline(ResultData, frozen=True):
    """What all of a session's time went into. Without holes, and at most 2,001 stretches."""

    spans: list[Stretch]
    at: int
    """The moment up to which it goes, by the server's clock."""
    totals: dict[str, int] = field(default_factory=dict[str, int])
    """Milliseconds of each, of every stretch as it was."""
    is_going_on: bool = False
    """The last stretch has no end yet."""


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
