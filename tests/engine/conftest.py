"""The end-to-end suite: behind its engine is the simulator, then the real CLI.

`--via` sets how each of them is reached. Without it, both are over pipes; what is marked `relayed`
is done with the simulator behind a relay, too. Where `simulated` says that the simulator will do,
`scripts/prove` alone adds the real CLI.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.plugin import RealCLIMaker, SimulatedCLIMaker
from tests.support.engine.harness import OpenEngine, harnesses
from tests.support.switches import PROVING
from tests.support.versions import NATIVE, marked_versions


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.real)])
def cli_maker(
    request: pytest.FixtureRequest, simulated_cli: SimulatedCLIMaker, real_cli: RealCLIMaker
) -> SimulatedCLIMaker | RealCLIMaker:
    return simulated_cli if request.param == "simulated" else real_cli


REAL = pytest.mark.real
WAYS = {
    None: [
        pytest.param(("simulated", "stdio"), id="simulated"),
        pytest.param(("real", "stdio"), id="real", marks=REAL),
    ],
    "stdio": [("simulated", "stdio"), pytest.param(("real", "stdio"), marks=REAL)],
    "relay": [("simulated", "relay"), pytest.param(("real", "relay"), marks=REAL)],
    "sdk-url": [pytest.param(("dialling", "sdk-url"), marks=REAL)],
}


RELAYED = pytest.param(("simulated", "relay"), id="relayed")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "house" not in metafunc.fixturenames:
        return
    via = metafunc.config.getoption("via")
    is_relayed_too = via is None and metafunc.definition.get_closest_marker("relayed") is not None
    ways = [*WAYS[via], RELAYED] if is_relayed_too else WAYS[via]
    metafunc.parametrize("house", ways, indirect=True)


def is_left_out(item: pytest.Item, via: str | None) -> bool:
    """A real CLI where the simulator does, or one that dials in itself and is too old."""
    if via == "sdk-url":
        shown = marked_versions(item)
        return shown is not None and NATIVE not in shown
    if PROVING or via is not None or not item.get_closest_marker("real"):
        return False
    return item.get_closest_marker("simulated") is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    via = config.getoption("via")
    left_out = {item for item in items if here in item.path.parents and is_left_out(item, via)}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture
async def house(
    request: pytest.FixtureRequest,
    simulated_cli: SimulatedCLIMaker,
    real_cli: RealCLIMaker,
    tmp_path: Path,
) -> AsyncIterator[OpenEngine]:
    """`await house(*replies, **settings)`: an open engine with a CLI that says this."""
    cli, via = request.param
    makers: dict[str, Any] = {
        "simulated": simulated_cli,
        "real": real_cli,
        "dialling": partial(real_cli, version=NATIVE),
    }
    async with harnesses(makers[cli], tmp_path, via) as make:
        yield make


@pytest.fixture
async def piped(cli_maker: Any, tmp_path: Path) -> AsyncIterator[OpenEngine]:
    """The same, with CLIs that end with their engine."""
    async with harnesses(cli_maker, tmp_path, "stdio") as make:
        yield make


@pytest.fixture
async def relayed(cli_maker: Any, tmp_path: Path) -> AsyncIterator[OpenEngine]:
    """The same, with CLIs that go on behind relays."""
    async with harnesses(cli_maker, tmp_path, "relay") as make:
        yield make
