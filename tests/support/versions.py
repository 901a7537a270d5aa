"""The CLIs that tests run on, and on which of them the ordinary run shows what.

A test of `tests/real` that takes `version` (or `desk`) applies to every supported CLI, unless
`@newest` or `@older` narrows it; one that takes `build` applies to every program that dials.
`scripts/prove` runs it on each of these. The ordinary run has not the time for that:

- the default is the newest CLI; a test that is not about the newest runs on all it is about;
- `@pytest.mark.versions(NEWEST, "2.1.37")`, on a test or on one of its parameters, names others.

When everything is proved, a test runs on the CLIs in between as well, of which `can` says what is
known of each; the tests of `NAMING_THREE` do so only with `@every`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Final

import pytest

from pilothouse.client.versions import parse_version
from pilothouse_sim.plugin import NEWEST
from tests.support.places import ROOT

VERSIONS: Final = (NEWEST, "2.1.119", "2.1.37")
EVERY: Final = (
    NEWEST,
    "2.1.235",
    "2.1.176",
    "2.1.139",
    "2.1.119",
    "2.1.92",
    "2.1.62-node",
    "2.1.59",
    "2.1.37",
)
"""Every CLI that is tried when everything is proved."""
NAMING_THREE: Final = frozenset(
    {
        "test_controls.py",
        "test_conversations.py",
        "test_endings.py",
        "test_launch.py",
        "test_permissions.py",
        "test_processes.py",
        "test_results.py",
        "test_robustness.py",
        "test_sessions.py",
        "test_stalls.py",
        "test_startup.py",
        "test_turns.py",
    }
)
"""Files of `tests/real` that still say by three versions, and not by `can`, what differs."""
NATIVE, OLD, NODE = "2.1.119", "2.1.37", "2.1.37-node"
BUILDS: Final = (NATIVE, OLD, NODE)
"""The programs that dial in themselves, newest first."""
CACHE: Final = Path(os.environ.get("PILOTHOUSE_CACHE") or ROOT / ".cache/clis")

newest = pytest.mark.parametrize("version", [NEWEST], indirect=True)
older = pytest.mark.parametrize("version", VERSIONS[1:], indirect=True)
every = pytest.mark.parametrize("version", EVERY, indirect=True)


class Since(Enum):
    """What CLIs do, and the first of those that were tried which does."""

    PASSES_NOTES = "2.1.45: notes to a question reach the model"
    ASKS_BESIDE_HOOKS = "2.1.59: a person is asked while a hook still decides"
    TURNS_ABOUT_TASKS = "2.1.59: the end of background work starts a turn"
    EDITS_PLANS = "2.1.81: an edited plan is used"
    REPORTS_IDLE = "2.1.84: it says that it is idle"
    MERGES_QUEUED = "2.1.92: prompts that wait for the same moment get one turn"
    GIVES_REASONS = "2.1.92: results have `terminal_reason`; interrupts and limits are errors"
    REPORTS_PROGRESS = "2.1.92: it tells how a subagent gets on, and what it has used"
    REPORTS_RETRIES = "2.1.92: it tells that it tries again"
    ASKS_FOR_HOOKS = "2.1.92: a hook has a person asked about what is allowed by itself"
    ELICITS = "2.1.92: MCP servers may ask the user"
    NAMES_PLAN_FILE = "2.1.92: a plan comes with its file"
    GUARDS_BYPASS = "2.1.92: bypassPermissions is refused unless it was started for it"
    KEEPS_CUT_TEXT = "2.1.119: what was said before an interrupt is written"
    GIVES_API_STATUS = "2.1.119: a result has the status of an API error"
    RENAMES_WHEN_CLEARED = "2.1.119: /clear changes the session's id"
    CALLS_BATCH_HOOK = "2.1.119: there is a PostToolBatch event"
    OUTLIVES_ODD_HOOKS = "2.1.139: hooks in another form do not end it"
    HONOURS_WRITING_RULES = "2.1.132: a rule for a command that writes files is honoured"
    CALLS_DISPLAY_HOOK = "2.1.176: there is a MessageDisplay event"
    LACKS_SEARCH_TOOLS = "2.1.176: there is no TodoWrite, Glob or Grep"
    TELLS_OF_NO_ANSWER = "2.1.176: the model is told that nobody has answered its question"
    KEEPS_ITS_ENVIRONMENT = "2.1.176: `update_environment_variables` is without effect"
    AGENTS_IN_BACKGROUND = "2.1.235: a subagent runs beside the turn unless told otherwise"
    CHECKS_WHILE_PLANNING = "2.1.235: in plan mode a command is decided on without a person"
    GREETS_SERVERS_ONCE = "2.1.235: an MCP server that is named twice is greeted once"
    REFUSES_ODD_HOOKS = "2.1.235: hooks in another form are refused with a reason"
    KNOWS_MODES = "2.1.235: a permission mode that is none is refused"
    RETRIES_BROKEN_STREAMS = "2.1.235: it tells that it asks again after a broken stream"
    SHUFFLES_MEMBERS = "2.1.235: `type` is not the first member"
    TELLS_RESETS = "2.1.235: there is a `conversation_reset`"
    TELLS_WHAT_NEEDS_A_PERSON = "2.1.235: a request says that only a person can answer it"
    TELLS_WHAT_IS_QUEUED = "2.1.235: an interrupt is answered with the prompts that still wait"


def can(version: str, what: Since) -> bool:
    """Whether the CLI of this version does that."""
    own, first = parse_version(version), parse_version(what.value)
    assert own is not None
    assert first is not None
    return own >= first


def is_ordinary(item: pytest.Item) -> bool:
    """Whether the ordinary run has a test with the CLI of its parameters."""
    params = item.callspec.params if isinstance(item, pytest.Function) and has_params(item) else {}
    used = params.get("build", params.get("version", NEWEST))
    return used in ordinary(item)


def ordinary(item: pytest.Item) -> Sequence[str]:
    """The CLIs on which the ordinary run has a test."""
    marked = marked_versions(item)
    if marked is not None:
        return marked
    about = versions_of(item)
    return (NEWEST,) if NEWEST in about else about


def marked_versions(item: pytest.Item) -> Sequence[str] | None:
    mark = item.get_closest_marker("versions")
    if mark is None:
        return None
    unknown = set(mark.args) - {*VERSIONS, *BUILDS}
    if unknown:
        raise pytest.UsageError(f"{item.nodeid} is marked with CLIs that are none: {unknown}")
    return mark.args


def versions_of(item: pytest.Item) -> Sequence[str]:
    """The CLIs that a test is about: those it names, or all."""
    for mark in item.iter_markers("parametrize"):
        names, values = mark.args
        if names in ("version", "build"):
            return values
        if not isinstance(names, str) and "version" in names:
            at = names.index("version")
            return [getattr(value, "values", value)[at] for value in values]
    return VERSIONS


def has_params(item: pytest.Function) -> bool:
    return hasattr(item, "callspec")
