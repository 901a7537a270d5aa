"""A real CLI, a scripted model, and a home of their own for each test.

The test process is in a network namespace with nothing but loopback: the scripted model and every
CLI meet there and nothing leaves the machine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from signal import SIGKILL
from typing import Any
from zlib import crc32

import pytest

from pilothouse_sim.scenario import AnyReply, Scenario
from pilothouse_sim.scripted_model import ScriptedModel
from tests.support.real.desk import CACHE, NEWEST, VERSIONS, Desk, OpenDesk
from tests.support.real.dialling import BUILDS, NATIVE, NODE, OLD
from tests.support.switches import PROVING

# A plain turn, several, permissions allowed, edited, denied and remembered, two open at once,
# questions, plans approved, edited, revised and rejected, interrupts, hooks, an in-process tool,
# resume, fork, no orphan, no bypass, and what must not be seen in a command line.
EVERY_VERSION = frozenset(
    {
        "test_a_plain_turn_finishes_with_the_models_text",
        "test_a_later_turn_has_the_earlier_ones_before_it",
        "test_an_allowed_tool_runs_and_its_request_tells_what_it_would_do",
        "test_a_tool_runs_with_the_input_it_was_allowed_with",
        "test_the_model_reads_why_a_tool_was_denied_and_goes_on",
        "test_what_is_remembered_is_not_asked_again_and_leaves_no_trace_on_disk",
        "test_two_requests_open_at_once_are_answered_in_any_order",
        "test_the_model_reads_the_label_that_was_chosen",
        "test_several_labels_and_several_questions_have_one_answer",
        "test_an_approved_plan_leads_back_to_the_mode_before",
        "test_the_model_works_by_the_plan_as_the_person_edited_it",
        "test_a_plan_to_be_revised_is_asked_about_again",
        "test_a_rejected_plan_leaves_the_session_in_plan_mode",
        "test_interrupt_in_the_middle_of_text",
        "test_interrupt_in_the_middle_of_a_tool_kills_it",
        "test_a_hook_lets_a_tool_run_without_a_question",
        "test_a_hook_denies_a_tool_and_the_model_reads_why",
        "test_the_model_reads_what_a_tool_returns",
        "test_a_resumed_session_goes_on_under_its_id",
        "test_a_fork_goes_on_under_an_id_of_its_own",
        "test_a_signal_to_the_owner_in_the_middle_of_a_tool_leaves_nothing",
        "test_no_control_request_sets_bypass_mode_unless_it_was_opened",
        "test_no_answer_sets_bypass_mode_unless_it_was_opened",
        "test_no_hook_sets_bypass_mode_unless_it_was_opened",
        "test_headers_and_variables_of_servers_arrive_and_are_in_no_command_line",
    }
)

# A turn and its answers, with each program that dials; and what 2.1.119 repeats and 2.1.37 loses.
EVERY_BUILD = frozenset({"test_a_turn_with_a_permission"})
BOTH_DIALECTS = frozenset(
    {
        "test_a_cut_in_the_middle_of_a_turn",
        "test_a_question_that_was_lost_on_the_way_is_asked_again",
        "test_a_false_token_opens_nothing",
    }
)


def pytest_configure() -> None:
    for version in VERSIONS:
        if not (CACHE / version / "claude").exists():
            raise pytest.UsageError(f"there is no CLI {version} in {CACHE}: run ./scripts/test")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    mine = [item for item in items if here in item.path.parents]
    for item in mine:
        item.add_marker(pytest.mark.real)
    left_out = set() if PROVING else {item for item in mine if is_spared(item)}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def is_spared(item: pytest.Item) -> bool:
    """Whether an older CLI is left to `scripts/prove`, to keep `scripts/test` short.

    What every CLI must show runs on the newest and one of the older ones, by the test's name; what
    is of older CLIs alone, on those; the rest on the newest.
    """
    assert isinstance(item, pytest.Function)
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if "build" in params:
        return params["build"] not in builds_of(item)
    if params.get("version", NEWEST) == NEWEST or NEWEST not in versions_of(item):
        return False
    if item.originalname not in EVERY_VERSION or params.get("number", SIGKILL) != SIGKILL:
        return True
    return params["version"] != chosen(item, VERSIONS[1:])


def builds_of(item: pytest.Function) -> Sequence[str]:
    if item.originalname in EVERY_BUILD:
        return BUILDS
    if item.originalname in BOTH_DIALECTS:
        return (NATIVE, chosen(item, (OLD, NODE)))
    return (chosen(item, BUILDS),)


def versions_of(item: pytest.Function) -> Sequence[str]:
    """The CLIs that a test is about: those it names, or all."""
    for mark in item.iter_markers("parametrize"):
        names, values = mark.args
        if names == "version":
            return values
        if "version" in names:
            at = names.index("version")
            return [getattr(value, "values", value)[at] for value in values]
    return VERSIONS


def chosen(item: pytest.Function, among: Sequence[str]) -> str:
    """Always the same one for a test, and about as often each of them."""
    return among[crc32(item.originalname.encode()) % len(among)]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Each supported CLI in turn; `@newest` and `@older` narrow it."""
    return request.param


@pytest.fixture
async def desk(version: str, tmp_path: Path) -> AsyncIterator[OpenDesk]:
    """`await desk(reply(...), ...)` gives a model that says this, in a fresh home."""
    async with AsyncExitStack() as stack:

        async def setup(*replies: AnyReply, **scenario: Any) -> Desk:
            home, cwd = tmp_path / "home", tmp_path / "project"
            home.mkdir()
            cwd.mkdir()
            script = Scenario(replies=list(replies), **scenario)
            model = await stack.enter_async_context(ScriptedModel(script))
            return Desk(version, model, home, cwd, stack)

        yield setup
