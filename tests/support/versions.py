"""The CLIs that tests run on, and on which of them the ordinary run shows what.

A test of `tests/real` that takes `version` (or `desk`) applies to every supported CLI, unless
`@newest` or `@older` narrows it; one that takes `build` applies to every program that dials.
`scripts/prove` runs it on each of these. The ordinary run has not the time for that:

- the default is the newest CLI; a test that is not about the newest runs on all it is about;
- `@pytest.mark.versions(NEWEST, "2.1.37")`, on a test or on one of its parameters, names others.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from pilothouse_sim.plugin import NEWEST
from tests.support.places import ROOT

VERSIONS: Final = (NEWEST, "2.1.119", "2.1.37")
NATIVE, OLD, NODE = "2.1.119", "2.1.37", "2.1.37-node"
BUILDS: Final = (NATIVE, OLD, NODE)
"""The programs that dial in themselves, newest first."""
CACHE: Final = Path(os.environ.get("PILOTHOUSE_CACHE") or ROOT / ".cache/clis")

newest = pytest.mark.parametrize("version", [NEWEST], indirect=True)
older = pytest.mark.parametrize("version", VERSIONS[1:], indirect=True)


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
