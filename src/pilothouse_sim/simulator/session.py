"""What one simulated session is made of. Every part holds the session and finds the others here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilothouse_sim.simulator import facts
from pilothouse_sim.simulator.background import Tasks
from pilothouse_sim.simulator.checkpoints import Checkpoints
from pilothouse_sim.simulator.clock import timestamp
from pilothouse_sim.simulator.controls.base import gather_customs, open_desk
from pilothouse_sim.simulator.hooks import Hooks
from pilothouse_sim.simulator.launching import permissions_at_launch
from pilothouse_sim.simulator.ledger import Ledger
from pilothouse_sim.simulator.mcp import McpServers
from pilothouse_sim.simulator.outlet import new_id
from pilothouse_sim.simulator.permissions import persist
from pilothouse_sim.simulator.plans import Plans
from pilothouse_sim.simulator.structured import Structure, read_schema
from pilothouse_sim.simulator.toolbox import Toolbox
from pilothouse_sim.simulator.tools.base import Workplace
from pilothouse_sim.simulator.transcript import Transcript
from pilothouse_sim.simulator.turns import Turns

if TYPE_CHECKING:
    from pilothouse_sim.simulator.flags import Launch
    from pilothouse_sim.simulator.model import Model
    from pilothouse_sim.simulator.outlet import Outlet

__all__ = ["Session"]


class Session:
    """One conversation with one client, and all the state it has."""

    def __init__(
        self, launch: Launch, environment: Mapping[str, str], outlet: Outlet, model: Model
    ) -> None:
        self.launch = launch
        self.environment = environment
        self.outlet = outlet
        self.model = model
        self.cwd: Path = Path.cwd()
        self.original_cwd: Path = self.cwd
        self.home = Path(environment.get("HOME", "/"))
        self.config_dir = Path(environment.get("CLAUDE_CONFIG_DIR", self.home / ".claude"))
        self.desk = open_desk(self)
        self.model_name = facts.resolve_model(self.desk.model_given)
        self.options: dict[str, Any] = {}
        """What `initialize` asked for."""
        self.prompt_id = new_id()
        self._left = False
        self.has_begun = False
        self._warned = False
        self.catalog = facts.builtin_catalog(environment)
        schema = launch.json_schema
        self.schema: dict[str, Any] | None = read_schema(schema) if schema else None
        """The shape that the answer must have, if it must have one."""
        self.place = Workplace(
            cwd=self.cwd,
            home=self.home,
            config_dir=self.config_dir,
            environment=dict(environment),
            session_id=self.session_id,
            root=self.cwd,
        )
        self.permissions = permissions_at_launch(launch, self.cwd, self.home, self.config_dir)
        self.hooks = Hooks(self)
        self.ledger = Ledger()
        self.mcp = McpServers(self)
        self.tasks = Tasks(self)
        self.place.adopt = self.tasks.adopt
        self.place.stop_task = self.tasks.stop_for_model
        self.toolbox = Toolbox(self)
        self.plans = Plans(self)
        self.structure = Structure(self)
        self.transcript = Transcript(self)
        self.checkpoints = Checkpoints(self)
        self.place.touched = self.checkpoints.touched
        self.turns = Turns(self)

    @property
    def session_id(self) -> str:
        return self.outlet.session_id

    def is_set(self, variable: str) -> bool:
        """Whether an environment variable is on."""
        return self.environment.get(variable, "") not in ("", "0", "false")

    @property
    def is_leaving(self) -> bool:
        """Whether the user has ended the session."""
        return self._left

    def tell_state(self, state: str) -> None:
        """Says what the session does, to whoever asked for it in the environment."""
        if self.is_set("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"):
            self.outlet.system("session_state_changed", state=state)
        elif self.is_set("CLAUDE_CODE_SDK_READS_SESSION_STATE"):
            # The official SDKs set it, and keep these lines from their callers.
            self.outlet.system("session_state_changed", state=state, sdk_host_only=True)

    def announce(self, uuids: list[str]) -> None:
        """Writes the init line that opens a turn."""
        fields = facts.init_fields(
            cwd=self.cwd,
            config_dir=self.config_dir,
            session_id=self.session_id,
            tools=self.toolbox.names(),
            mcp_servers=self.mcp.listing(),
            model_name=self.model_name,
            permission_mode=self.permissions.mode,
            catalog=self.catalog,
            environment=self.environment,
            output_style=self.desk.output_style,
            original_cwd=self.original_cwd,
            additional_directories=self.permissions.working_directories[1:],
            betas=self.launch.betas,
            bare=self.launch.bare,
        )
        names = {"user_message_uuids": list(uuids)} if uuids else {}
        self.outlet.system("init", **fields, **names)

    def request_model(self) -> str:
        """The model that is asked now."""
        return facts.request_model(self.desk.model_given, self.model_name, self.permissions.mode)

    def is_over_budget(self) -> bool:
        """Whether more was spent than the command line allows."""
        limit = self.launch.max_budget_usd
        return limit is not None and self.ledger.cost >= limit

    def scene_facts(self) -> dict[str, str]:
        """What a scenario may refer to by name."""
        return {
            "cwd": str(self.cwd),
            "home": str(self.home),
            "config_dir": str(self.config_dir),
            "plan_file": str(self.plans.path),
        }

    def begin_anew(self) -> None:
        """Forgets the conversation and begins another one, under an id of its own."""
        self.transcript.begin_anew()
        self.outlet.session_id = self.place.session_id = new_id()
        self.turns.main.forget()
        self.ledger = Ledger()
        self.checkpoints = Checkpoints(self)
        self.place.touched = self.checkpoints.touched

    # Permissions

    def set_mode(self, mode: str) -> None:
        """Changes the permission mode and tells the client."""
        self.permissions.set_mode(mode)
        self.outlet.system("status", status=None, permissionMode=mode)

    def update_permissions(self, update: dict[str, Any]) -> None:
        """Does what a client's answer asks for."""
        before = self.permissions.mode
        if self.permissions.apply(update):
            persist(update, self.original_cwd, self.config_dir)
        if self.permissions.mode != before:
            self.outlet.system("status", status=None, permissionMode=self.permissions.mode)

    def warn_unchecked(self) -> None:
        """Counts a call that was denied for want of a safety check; the first time, says why."""
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

    def follow_shell(self) -> None:
        """Stands where the last command left the shell."""
        self.cwd = self.place.cwd
        self.permissions.folder = str(self.cwd)

    def agent_names(self) -> list[str]:
        """The kinds of sub-agents there are."""
        return [each["name"] for each in self.catalog.agents]

    # The beginning and the end

    async def begin(self, source: str) -> None:
        """Calls the hooks of the session's start, and starts its servers."""
        gather_customs(self)
        self.transcript.title = self.launch.name or self.transcript.title
        if self.transcript.title:
            self.desk.title = self.transcript.title
            self.outlet.system("session_title_changed", title=self.transcript.title)
        for context in await self.hooks.session_started(source):
            self.turns.main.add("system", context)
        self.mcp.start()
        self.has_begun = True

    @property
    def exit_code(self) -> int:
        """0, or 1 if the last turn went wrong; one that the user stopped did not."""
        return int(self.turns.results.last_was_error and not self._left)

    def leave(self) -> None:
        """Ends the turn that runs, and then the session."""
        self._left = True
        self.turns.interrupt()
        self.turns.end_input()

    async def aclose(self) -> None:
        """Leaves nothing running behind."""
        await self.tasks.stop_all()
        await self.hooks.session_ended("other")
        await self.hooks.aclose()
        await self.mcp.aclose()
        self.transcript.close()
