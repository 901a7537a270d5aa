"""The permissions that a session starts with, from its command line and its settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse_sim.simulator.launch_checks import refuse_root
from pilothouse_sim.simulator.permissions import PermissionState, load_settings
from pilothouse_sim.simulator.permissions.state import BYPASS
from pilothouse_sim.simulator.settings import read_inline

if TYPE_CHECKING:
    from pilothouse_sim.simulator.flags import LaunchFlags

__all__ = ["permissions_at_launch"]


def permissions_at_launch(
    launch: LaunchFlags, cwd: Path, home: Path, config_dir: Path
) -> PermissionState:
    """The permissions as flags and settings have them."""
    bypass = launch.dangerously_skip_permissions
    state = PermissionState(
        cwd=str(cwd),
        home=str(home),
        config_dir=str(config_dir),
        # Whoever is dialled is asked, without any other flag.
        can_ask=(launch.permission_prompt_tool or (launch.sdk_url and "stdio")) == "stdio",
        bypass_allowed=bypass or launch.allow_dangerously_skip_permissions,
    )
    sources = launch.setting_sources
    load_settings(
        state,
        sources=("user", "project", "local") if sources is None else sources.split(","),
        flag_settings=read_inline(launch.settings, cwd),
    )
    state.add("allow", "cliArg", launch.allowed_tools)
    state.add("deny", "cliArg", launch.disallowed_tools)
    if launch.add_dir:
        state.directories["cliArg"] = [str((cwd / folder).resolve()) for folder in launch.add_dir]
    wanted = "bypassPermissions" if bypass else launch.permission_mode
    if wanted is not None:
        state.set_mode(wanted, starting=True)
    _settle_bypass(state)
    return state


def _settle_bypass(state: PermissionState) -> None:
    """A session that starts without permissions may come back to that mode; others may not."""
    if state.mode == BYPASS and not state.bypass_allowed:
        refuse_root()
        state.bypass_allowed = True
    elif state.before_plan == BYPASS and not state.bypass_allowed:
        state.before_plan = "default"
