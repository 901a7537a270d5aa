"""The CLIs that tests run on, and on which of them the ordinary run shows what.

A test of `tests/real` that takes `version` (or `desk`) applies to every supported CLI, unless
`@newest`, `@since` or `@before` narrows it; one that takes `build` applies to every program that
dials. `scripts/prove` runs it on each of these. The ordinary run has not the time for that:

- the default is the newest CLI; a test that is not about the newest runs on those of `VERSIONS`
  that it is about;
- `@pytest.mark.versions(NEWEST, "2.1.37")`, on a test or on one of its parameters, names others.

When everything is proved, a test runs on the CLIs in between as well. What differs between them is
said by what each `can` do, not by their names.
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
NATIVE, OLD, NODE = "2.1.119", "2.1.37", "2.1.37-node"
BUILDS: Final = (NATIVE, OLD, NODE)
"""The programs that dial in themselves, newest first."""
CACHE: Final = Path(os.environ.get("PILOTHOUSE_CACHE") or ROOT / ".cache/clis")

newest = pytest.mark.parametrize("version", [NEWEST], indirect=True)


class Since(Enum):
    """What CLIs do, and the first of those that were tried which does."""

    ANSWERS_UNKNOWN = "2.1.41: a control request it does not know is answered"
    PASSES_NOTES = "2.1.45: notes to a question reach the model"
    ASKS_BESIDE_HOOKS = "2.1.59: a person is asked while a hook still decides"
    TURNS_ABOUT_TASKS = "2.1.59: the end of background work starts a turn"
    STANDS_UNKNOWN_LINES = "2.1.59: an empty line or an unknown type does not end it"
    TAKES_EFFORT = "2.1.59: --effort and --thinking are known"
    ENDS_BY_ITSELF = "2.1.62: a signal to end is not left to the kernel"
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
    TAKES_PROMPTS_BACK = "2.1.92: a prompt that waits can be withdrawn"
    PASSES_OVER_PROGRAMS = "2.1.92: --continue passes over sessions of programs"
    ENDS_SESSIONS = "2.1.92: there is `end_session`"
    TELLS_OF_HOOKS = "2.1.92: --include-hook-events is known"
    AWAITS_PROMPT_TOOL = "2.1.92: the tool that is asked may be of an in-process server"
    KEEPS_CUT_TEXT = "2.1.119: what was said before an interrupt is written"
    TELLS_OF_REQUESTS = "2.1.119: it tells that it asks the model"
    NOTES_PROMPTS = "2.1.119: a prompt that asks nothing is noted, and not answered"
    GIVES_API_STATUS = "2.1.119: a result has the status of an API error"
    RENAMES_WHEN_CLEARED = "2.1.119: /clear changes the session's id"
    CONTINUES_PROGRAMS_AGAIN = "2.1.119: --continue finds sessions of programs once more"
    CALLS_BATCH_HOOK = "2.1.119: there is a PostToolBatch event"
    ASKS_IN_SPITE_OF_RULES = "2.1.119: a hook has a person asked about what a rule allows"
    HIDES_SEARCH_TOOLS = "2.1.119: an entry point it does not know costs Glob and Grep"
    LIMITS_PRESSING = "2.1.119: a limit of turns holds for a model that ignores the schema"
    MIRRORS_SESSIONS = "2.1.119: --session-mirror is known"
    FORGETS_WHEN_CLEARED = "2.1.139: after /clear the model is not told what was said before"
    OUTLIVES_ODD_HOOKS = "2.1.139: hooks in another form do not end it"
    GIVES_ORIGINS = "2.1.139: the result of a turn nobody asked for has an `origin`"
    ENCODES_FILES = "2.1.139: a file is read as base64 where that is asked for"
    GIVES_LOGIN_STATE = "2.1.139: a login to an MCP server comes with its state"
    HONOURS_WRITING_RULES = "2.1.132: a rule for a command that writes files is honoured"
    CALLS_DISPLAY_HOOK = "2.1.176: there is a MessageDisplay event"
    LACKS_SEARCH_TOOLS = "2.1.176: there is no TodoWrite, Glob or Grep"
    TELLS_OF_NO_ANSWER = "2.1.176: the model is told that nobody has answered its question"
    KEEPS_ITS_ENVIRONMENT = "2.1.176: `update_environment_variables` is without effect"
    SPARES_LAST_MESSAGE = "2.1.176: a compaction keeps the last message as it is"
    STOPS_PRESSING = "2.1.176: a model that ignores the schema is pressed eight times at most"
    INITIALIZES_AGAIN = "2.1.176: a second `initialize` succeeds"
    NAMES_RUNNING_TOOLS = "2.1.176: it tells of a shell inside the turn, which can be moved"
    STOPS_WHAT_IS_GONE = "2.1.176: stopping a task that does not exist succeeds"
    AGENTS_IN_BACKGROUND = "2.1.235: a subagent runs beside the turn unless told otherwise"
    CHECKS_WHILE_PLANNING = "2.1.235: in plan mode a command is decided on without a person"
    GREETS_SERVERS_ONCE = "2.1.235: an MCP server that is named twice is greeted once"
    REFUSES_ODD_HOOKS = "2.1.235: hooks in another form are refused with a reason"
    ECHOES_COMMANDS = "2.1.235: a command is echoed with the uuid it was sent with"
    KNOWS_MODES = "2.1.235: a permission mode that is none is refused"
    RETRIES_BROKEN_STREAMS = "2.1.235: it tells that it asks again after a broken stream"
    RESUMES_FROM_ELSEWHERE = "2.1.235: a session is found from another directory"
    SHUFFLES_MEMBERS = "2.1.235: `type` is not the first member"
    TELLS_RESETS = "2.1.235: there is a `conversation_reset`"
    TELLS_OF_PROMPTS = "2.1.235: there is a `command_lifecycle`"
    IS_IDLE_BESIDE_SHELLS = "2.1.235: it says that it is idle while a shell runs beside it"
    TELLS_WHAT_NEEDS_A_PERSON = "2.1.235: a request says that only a person can answer it"
    TELLS_WHAT_IS_QUEUED = "2.1.235: an interrupt is answered with the prompts that still wait"
    PRESSES_ONCE = "2.1.235: a model that ignores the schema is pressed once"
    ENDS_WITH_OUTPUT = "2.1.235: the model is not asked again after structured output"
    ASKS_REFUSED_TWICE = "2.1.235: a request that was refused with 400 is repeated once"
    MAY_INTERRUPT_AT_TERM = "2.1.235: SIGTERM may give the turn an end first"
    MENDS_TEXT = "2.1.235: half of a surrogate pair is replaced"
    NAMES_SESSION_TO_TOOLS = "2.1.235: tools are told of the session and its process"
    OFFERS_WHAT_IS_ANSWERED = "2.1.235: questions are not offered where nobody answers them"
    STANDS_BLANKS = "2.1.235: a line of blanks does not end it"
    EDITS_UNREAD = "2.1.235: a file is edited that was not read"
    RESUMES_COSTS = "2.1.325: a resumed session counts on from what it had cost"
    TELLS_ITS_VERSION = "2.1.325: its version is in its greeting"
    COMPACTS_ONE_TURN = "2.1.325: a conversation of one turn is compacted once more"
    PASSES_UNKNOWN_COMMANDS = "2.1.325: an unknown command is words for the model"
    COUNTS_TOKENS = "2.1.325: a prompt that is too long is not sent"
    DOUBTS_REFUSALS = "2.1.325: a request that was refused with 400 is repeated five times"
    JUST_ENDS_AT_TERM = "2.1.325: SIGTERM gives the turn no end once more"
    LIMITS_PROMPTS = "2.1.325: --permission-prompts is known"
    GIVES_ERROR_CODES = "2.1.325: control errors have a code"
    LISTS_TOOLS_AGAIN = "2.1.325: tools of an in-process server that change are listed again"
    REFUSES_BY_SESSION = "2.1.325: it knows controls for sessions of other kinds"
    RESOLVES_MODELS = "2.1.325: `set_model` is answered with the name of the model"
    NOTICES_REPOSITORIES = "2.1.325: a repository that is made while it runs is noticed"
    SAYS_WHY_NO_DIFF = "2.1.325: a diff that is none comes with a reason"
    TELLS_WHERE = "2.1.325: files are suggested with the directory they are in"
    WANTS_ARGUMENTS = "2.1.325: a server that is set without arguments is not started"


def can(version: str, what: Since) -> bool:
    """Whether the CLI of this version does that."""
    own, first = parse_version(version), parse_version(what.value)
    assert own is not None
    assert first is not None
    return own >= first


def since(what: Since) -> pytest.MarkDecorator:
    """Run a test on the CLIs that do that."""
    able = [version for version in EVERY if can(version, what)]
    return pytest.mark.parametrize("version", able, indirect=True)


def before(what: Since) -> pytest.MarkDecorator:
    """Run a test on the CLIs that do not do that yet."""
    unable = [version for version in EVERY if not can(version, what)]
    return pytest.mark.parametrize("version", unable, indirect=True)


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
    about = [version for version in versions_of(item) if version in {*VERSIONS, *BUILDS}]
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
