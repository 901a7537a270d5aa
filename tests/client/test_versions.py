"""What is known of a CLI by its version, by its capabilities, and before either is known."""

from __future__ import annotations

import pytest

from pilothouse import Unsupported
from pilothouse.client.versions import (
    ANSWERED_BY_ALL,
    NEWEST_TRIED,
    OLDEST_SUPPORTED,
    Features,
    parse_version,
)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.1.325", (2, 1, 325)),
        ("2.1.37 (Claude Code)", (2, 1, 37)),
        ("v3.0.0-beta.1\n", (3, 0, 0)),
        ("2.1", None),
        ("", None),
        (None, None),
    ],
)
def test_a_version_is_read_wherever_it_stands(
    text: str | None, version: tuple[int, int, int] | None
):
    assert parse_version(text) == version


def test_versions_compare_as_numbers():
    assert OLDEST_SUPPORTED < (2, 1, 119) < NEWEST_TRIED


@pytest.mark.parametrize(
    ("version", "edits_plans", "applies_environment", "passes_notes", "forgets_rules"),
    [
        (None, False, True, False, False),
        ((2, 1, 37), False, True, False, True),
        ((2, 1, 45), False, True, True, True),
        ((2, 1, 77), False, True, True, True),
        ((2, 1, 81), True, True, True, True),
        ((2, 1, 119), True, True, True, True),
        ((2, 1, 128), True, True, True, True),
        ((2, 1, 132), True, True, True, False),
        ((2, 1, 167), True, True, True, False),
        ((2, 1, 176), True, False, True, False),
        ((2, 1, 325), True, False, True, False),
        ((3, 0, 0), True, False, True, False),
    ],
)
def test_what_depends_on_the_version_is_careful_until_it_is_known(
    version: tuple[int, int, int] | None,
    edits_plans: bool,
    applies_environment: bool,
    passes_notes: bool,
    forgets_rules: bool,
):
    features = Features(version=version)
    assert features.edits_plans is edits_plans
    assert features.applies_environment_updates is applies_environment
    assert features.passes_notes is passes_notes
    assert features.forgets_rules is forgets_rules


@pytest.mark.parametrize(("patch", "reports_idle"), [(37, False), (81, False), (84, True)])
def test_a_cli_reports_that_it_is_idle_from_a_version_on(patch: int, reports_idle: bool):
    assert Features(version=(2, 1, patch)).reports_idle is reports_idle


@pytest.mark.parametrize("subtype", sorted(ANSWERED_BY_ALL))
def test_what_every_cli_answers_is_never_refused(subtype: str):
    Features(greeted_with_pid=False).check(subtype)


def test_a_cli_that_leaves_unknown_controls_unanswered_is_not_asked():
    with pytest.raises(Unsupported) as caught:
        Features(greeted_with_pid=False).check("get_settings")
    assert caught.value.subtype == "get_settings"
    Features().check("get_settings")
