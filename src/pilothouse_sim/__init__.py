"""Help for tests and demonstrations: scenarios, CLIs that play them, and a pytest plugin.

`real_cli` and `isolation` are imported by name: the first is a program of its own as well, the
second must run before anything else does.
"""

from __future__ import annotations

from importlib import import_module

# What type checkers know as `typing.TYPE_CHECKING`; importing that costs more than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pilothouse_sim.clis import RealCLI as RealCLI
    from pilothouse_sim.clis import RecordedCLI as RecordedCLI
    from pilothouse_sim.clis import SimulatedCLI as SimulatedCLI
    from pilothouse_sim.clis import Unscripted as Unscripted
    from pilothouse_sim.plugin import CassetteMaker as CassetteMaker
    from pilothouse_sim.plugin import ModelMaker as ModelMaker
    from pilothouse_sim.plugin import RealCLIMaker as RealCLIMaker
    from pilothouse_sim.plugin import SimulatedCLIMaker as SimulatedCLIMaker
    from pilothouse_sim.scenario import AnyReply as AnyReply
    from pilothouse_sim.scenario import ApiError as ApiError
    from pilothouse_sim.scenario import Branch as Branch
    from pilothouse_sim.scenario import Broken as Broken
    from pilothouse_sim.scenario import Computed as Computed
    from pilothouse_sim.scenario import Gate as Gate
    from pilothouse_sim.scenario import ModelRequest as ModelRequest
    from pilothouse_sim.scenario import Pause as Pause
    from pilothouse_sim.scenario import Raw as Raw
    from pilothouse_sim.scenario import Reply as Reply
    from pilothouse_sim.scenario import Scenario as Scenario
    from pilothouse_sim.scenario import ScenarioError as ScenarioError
    from pilothouse_sim.scenario import Script as Script
    from pilothouse_sim.scenario import Step as Step
    from pilothouse_sim.scenario import Text as Text
    from pilothouse_sim.scenario import Thinking as Thinking
    from pilothouse_sim.scenario import ToolCall as ToolCall
    from pilothouse_sim.scenario import Usage as Usage
    from pilothouse_sim.scenario import When as When
    from pilothouse_sim.scenario import computed as computed
    from pilothouse_sim.scenario import gate as gate
    from pilothouse_sim.scenario import load as load
    from pilothouse_sim.scenario import reply as reply
    from pilothouse_sim.scenario import save as save
    from pilothouse_sim.scenario import text as text
    from pilothouse_sim.scenario import thinking as thinking
    from pilothouse_sim.scenario import tool as tool
    from pilothouse_sim.scripted_model import ScriptedModel as ScriptedModel
    from pilothouse_sim.served_model import ServedModel as ServedModel
    from pilothouse_sim.stage import GateNotReached as GateNotReached

__all__ = [
    "AnyReply",
    "ApiError",
    "Branch",
    "Broken",
    "CassetteMaker",
    "Computed",
    "Gate",
    "GateNotReached",
    "ModelMaker",
    "ModelRequest",
    "Pause",
    "Raw",
    "RealCLI",
    "RealCLIMaker",
    "RecordedCLI",
    "Reply",
    "Scenario",
    "ScenarioError",
    "Script",
    "ScriptedModel",
    "ServedModel",
    "SimulatedCLI",
    "SimulatedCLIMaker",
    "Step",
    "Text",
    "Thinking",
    "ToolCall",
    "Unscripted",
    "Usage",
    "When",
    "computed",
    "gate",
    "load",
    "reply",
    "save",
    "text",
    "thinking",
    "tool",
]

# Names load on first use: a test run that needs no scenario pays for no decoder, and the plugin's
# own names need pytest.
_HOMES: dict[str, tuple[str, ...]] = {
    "clis": (
        "RealCLI",
        "RecordedCLI",
        "SimulatedCLI",
        "Unscripted",
    ),
    "plugin": (
        "CassetteMaker",
        "ModelMaker",
        "RealCLIMaker",
        "SimulatedCLIMaker",
    ),
    "scenario": (
        "AnyReply",
        "ApiError",
        "Branch",
        "Broken",
        "Computed",
        "Gate",
        "ModelRequest",
        "Pause",
        "Raw",
        "Reply",
        "Scenario",
        "ScenarioError",
        "Script",
        "Step",
        "Text",
        "Thinking",
        "ToolCall",
        "Usage",
        "When",
        "computed",
        "gate",
        "load",
        "reply",
        "save",
        "text",
        "thinking",
        "tool",
    ),
    "scripted_model": ("ScriptedModel",),
    "served_model": ("ServedModel",),
    "stage": ("GateNotReached",),
}
_HOME_OF: dict[str, str] = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
