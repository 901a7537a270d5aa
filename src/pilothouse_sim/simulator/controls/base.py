"""What every answer to a control request is made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from pilothouse_sim.simulator import customs
from pilothouse_sim.simulator.settings import Settings, chosen_model

if TYPE_CHECKING:
    from pilothouse_sim.simulator.session import Session

__all__ = [
    "Answer",
    "Asked",
    "Desk",
    "Handler",
    "Refused",
    "gather_customs",
    "open_desk",
    "required",
]


class Asked(Struct, frozen=True):
    """A control request of the client's."""

    id: str
    fields: dict[str, Any]

    def get(self, name: str) -> Any:
        """A member of the request, or None."""
        return self.fields.get(name)


class Answer(Struct, frozen=True, kw_only=True):
    """An answer with more to it than a body."""

    body: dict[str, Any] | None = None
    beside: dict[str, Any] = {}
    """Members that stand beside the body."""
    then: Callable[[], None] | None = None
    """What happens once the answer is written."""


class Refused(Exception):
    """The request is answered with an error."""

    def __init__(self, text: str, code: str | None = None, **beside: Any) -> None:
        super().__init__(text)
        self.text = text
        self.beside: dict[str, Any] = ({"error_code": code} if code else {}) | beside


Reply = dict[str, Any] | Answer | None
Handler = Callable[["Session", Asked], "Reply | Awaitable[Reply]"]
"""Answers one kind of request. None is a success that says nothing more."""


class Desk(Struct, kw_only=True):
    """What control requests change and report, and no other part of the session needs."""

    settings: Settings
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


def open_desk(session: Session) -> Desk:
    """A desk with what the command line and the settings say."""
    launch = session.launch
    settings = Settings(session.cwd, session.config_dir, launch.settings, launch.setting_sources)
    given = chosen_model(launch.model, session.environment, settings)
    return Desk(settings=settings, model_given=given)


def gather_customs(session: Session) -> None:
    """Looks again which commands, skills, agents and plugins there are."""
    launch = session.launch
    session.catalog = customs.gather(
        cwd=session.cwd,
        config_dir=session.config_dir,
        environment=session.environment,
        sources=launch.setting_sources,
        plugin_dirs=launch.plugin_dir,
        agents=session.options.get("agents") or customs.read_agents(launch.agents),
    )


def required(asked: Asked, name: str, subtype: str) -> str:
    """A member that must be text."""
    value = asked.get(name)
    if not isinstance(value, str):
        raise Refused(f"{subtype}: {name} must be a string")
    return value
