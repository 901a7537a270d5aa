"""Which settings start a session without permissions: the simulator does as the real CLI does."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from pilothouse import Allow, Client, SessionEnded
from pilothouse_sim.plugin import RealCLIMaker, SimulatedCLIMaker
from pilothouse_sim.scenario import reply, tool

BYPASS = {"permissions": {"defaultMode": "bypassPermissions"}}
FORBIDDEN = {"permissions": {"disableBypassPermissionsMode": "disable"}}
TOUCH = reply(tool("Bash", command="touch made", description="Make it"))


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.real)])
def cli(
    request: pytest.FixtureRequest, simulated_cli: SimulatedCLIMaker, real_cli: RealCLIMaker
) -> Any:
    return (simulated_cli if request.param == "simulated" else real_cli)(
        TOUCH, "Made.", strict=False
    )


def write(cli: Any, where: str) -> None:
    folder = (cli.home if where == "user" else cli.cwd) / ".claude"
    folder.mkdir(exist_ok=True)
    name = "settings.local.json" if where == "local" else "settings.json"
    (folder / name).write_text(json.dumps(BYPASS))


async def asked(cli: Any, *, sandbox: bool = True, **options: Any) -> int:
    """How often the CLI asked for its one tool, which it ran."""
    questions: list[str] = []

    async def allow(request: Any) -> Allow:
        questions.append(request.tool_name)
        return Allow()

    env = {"IS_SANDBOX": "1"} if sandbox else {}
    async with Client(cli.options(env=env, on_permission=allow, **options)) as client:
        await client.ask("go")
    assert (cli.cwd / "made").exists()
    return len(questions)


@pytest.mark.parametrize(("where", "questions"), [("user", 0), ("project", 1), ("local", 1)])
async def test_only_the_users_own_settings_start_it_so(
    cli: Any, where: str, questions: int
) -> None:
    write(cli, where)
    assert await asked(cli) == questions


async def test_root_is_refused_outside_a_sandbox(cli: Any) -> None:
    write(cli, "user")
    if os.getuid() != 0:
        assert await asked(cli, sandbox=False) == 0
        return
    with pytest.raises(SessionEnded, match="root/sudo"):
        await asked(cli, sandbox=False)


@pytest.mark.parametrize("options", [{"permission_mode": "default"}, {"settings": FORBIDDEN}])
async def test_a_flag_outranks_them(cli: Any, options: dict[str, Any]) -> None:
    write(cli, "user")
    assert await asked(cli, **options) == 1
