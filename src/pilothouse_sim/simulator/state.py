"""What a session is at this moment: the data that its parts share.

The state knows no part. A part is given the state and the other parts that it works with.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from pilothouse_sim.simulator import facts, user_extensions
from pilothouse_sim.simulator.clock import timestamp
from pilothouse_sim.simulator.json_schema import read_schema
from pilothouse_sim.simulator.launch_permissions import permissions_at_launch
from pilothouse_sim.simulator.ledger import CostLedger
from pilothouse_sim.simulator.outlet import new_id
from pilothouse_sim.simulator.permissions import persist
from pilothouse_sim.simulator.settings import CliSettings, chosen_model
from pilothouse_sim.simulator.tools.base import ToolSurroundings

if TYPE_CHECKING:
    from pilothouse_sim.simulator.flags import LaunchFlags
    from pilothouse_sim.simulator.outlet import Outlet

__all__ = ["ControlState", "SessionState"]


class ControlState(Struct, kw_only=True):
    """What control requests change and report, and hardly another part of the session needs."""

    settings: CliSettings
    is_initialized: bool = False
    title: str | None = None
    roots: list[str] = field(default_factory=list)
    """Directories that were registered."""
    mcp_modes: dict[str, str] = field(default_factory=dict)
    files_indexed: bool = False
    model_given: str | None = None
    """The model as it was asked for, before it was resolved."""

    @property
    def output_style(self) -> str:
        """The output style in force."""
        return self.settings.effective().get("outputStyle", "default")


class SessionState:
    """Where a session stands, what it may do, and what it has spent."""

    def __init__(self, launch: LaunchFlags, environment: Mapping[str, str], outlet: Outlet) -> None:
        self.launch = launch
        self.environment = environment
        self.outlet = outlet
        self.cwd: Path = Path.cwd()
        self.original_cwd: Path = self.cwd
        self.home = Path(environment.get("HOME", "/"))
        self.config_dir = Path(environment.get("CLAUDE_CONFIG_DIR", self.home / ".claude"))
        settings = CliSettings(self.cwd, self.config_dir, launch.settings, launch.setting_sources)
        self.desk = ControlState(
            settings=settings, model_given=chosen_model(launch.model, environment, settings)
        )
        self.model_name = facts.resolve_model(self.desk.model_given)
        self.options: dict[str, Any] = {}
        """What `initialize` asked for."""
        self.prompt_id = new_id()
        self.catalog = facts.builtin_catalog(environment)
        schema = launch.json_schema
        self.schema: dict[str, Any] | None = read_schema(schema) if schema else None
        """The shape that the answer must have, if it must have one."""
        self.place = ToolSurroundings(
            cwd=self.cwd,
            home=self.home,
            config_dir=self.config_dir,
            environment=dict(environment),
            session_id=self.session_id,
            root=self.cwd,
        )
        self.permissions = permissions_at_launch(launch, self.cwd, self.home, self.config_dir)
        self.ledger = CostLedger()
        self._warned = False

    @property
    def session_id(self) -> str:
        return self.outlet.session_id

    def begin_anew(self) -> None:
        """Go on under an id of its own, with nothing spent."""
        self.outlet.session_id = self.place.session_id = new_id()
        self.ledger = CostLedger()

    def is_set(self, variable: str) -> bool:
        """Whether an environment variable is on."""
        return self.environment.get(variable, "") not in ("", "0", "false")

    def request_model(self) -> str:
        """The model that is asked now."""
        return facts.request_model(self.desk.model_given, self.model_name, self.permissions.mode)

    def is_over_budget(self) -> bool:
        """Whether more was spent than the command line allows."""
        limit = self.launch.max_budget_usd
        return limit is not None and self.ledger.cost >= limit

    def agent_names(self) -> list[str]:
        """The kinds of sub-agents there are."""
        return [each["name"] for each in self.catalog.agents]

    def gather_customs(self) -> None:
        """Look again which commands, skills, agents and plugins there are."""
        launch = self.launch
        self.catalog = user_extensions.gather(
            cwd=self.cwd,
            config_dir=self.config_dir,
            environment=self.environment,
            sources=launch.setting_sources,
            plugin_dirs=launch.plugin_dir,
            agents=self.options.get("agents") or user_extensions.read_agents(launch.agents),
        )

    def follow_shell(self) -> None:
        """Move to where the last command left the shell."""
        self.cwd = self.place.cwd
        self.permissions.folder = str(self.cwd)

    # Permissions

    def set_mode(self, mode: str) -> None:
        """Change the permission mode and tell the client."""
        self.permissions.set_mode(mode)
        self.outlet.system("status", status=None, permissionMode=mode)

    def update_permissions(self, update: dict[str, Any]) -> None:
        """Do what a client's answer asks for."""
        before = self.permissions.mode
        if self.permissions.apply(update):
            persist(update, self.original_cwd, self.config_dir)
        if self.permissions.mode != before:
            self.outlet.system("status", status=None, permissionMode=self.permissions.mode)

    def warn_unchecked(self) -> None:
        """Count a call that was denied for want of a safety check; the first time, say why."""
        self.permissions.unchecked += 1
        if not self._warned:
            self._warned = True
            self.outlet.system(
                "informational",
                content="The safety check of auto mode runs on the server, and there is none here: "
                "every action that needs it is refused. Use another permission mode.",
                isMeta=False,
                level="warning",
                tag="auto_mode_no_server_check",
                timestamp=timestamp(),
            )
