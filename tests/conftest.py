"""What holds for every test: no network, hypothesis profiles, which tests run, no skips in CI."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from pilothouse_sim.isolation import enter_network_namespace
from tests.support.switches import IN_CI, PROVING, WITH_E2E

settings.register_profile("short", max_examples=25, derandomize=True, database=None, deadline=None)
settings.register_profile(
    "long",
    max_examples=2000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("long" if PROVING else "short")


# What needs the real service is not even collected without it.
collect_ignore = [] if WITH_E2E else ["e2e"]

ISOLATED = "PILOTHOUSE_TESTS_ISOLATED"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--via",
        choices=("stdio", "relay", "sdk-url"),
        help="how the end-to-end suite (tests/engine) reaches its CLIs",
    )


def pytest_configure() -> None:
    """Leave the network: the tests, what they start and every worker see loopback alone.

    Only the tests that need the real service keep it.
    """
    if not WITH_E2E and ISOLATED not in os.environ:
        os.environ[ISOLATED] = str(enter_network_namespace())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = set() if PROVING else {item for item in items if item.get_closest_marker("slow")}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def forbid_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """In CI a skipped test is a failed one: what did not run has shown nothing."""
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skipping is a failure in CI: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    forbid_skip(report)
    return report
