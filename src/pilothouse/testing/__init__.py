"""Help for tests and demonstrations: scenarios, CLIs that play them, and a pytest plugin.

`real_cli` and `isolation` are imported by name: the first is a program of its own as well, the
second must run before anything else does.
"""

from __future__ import annotations

from importlib import import_module

# What type checkers know as `typing.TYPE_CHECKING`; importing that costs more than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .clis import RealCLI as RealCLI
    from .clis import RecordedCLI as RecordedCLI
    from .clis import SimulatedCLI as SimulatedCLI
    from .clis import Unscripted as Unscripted
    from .plugin import CassetteMaker as CassetteMaker
    from .plugin import ModelMaker as ModelMaker
    from .plugin import RealCLIMaker as RealCLIMaker
    from .plugin import SimulatedCLIMaker as SimulatedCLIMaker
    from .scenario import AnyReply as AnyReply
    from .scenario import ApiError as ApiError
    from .scenario import Branch as Branch
    from .scenario import Broken as Broken
    from .scenario import Computed as Computed
    from .scenario import Gate as Gate
    from .scenario import ModelRequest as ModelRequest
    from .scenario import Pause as Pause
    from .scenario import Raw as Raw
    from .scenario import Reply as Reply
    from .scenario import Scenario as Scenario
    from .scenario import ScenarioError as ScenarioError
    from .scenario import Script as Script
    from .scenario import Step as Step
    from .scenario import Text as Text
    from .scenario import Thinking as Thinking
    from .scenario import ToolCall as ToolCall
    from .scenario import Usage as Usage
    from .scenario import When as When
    from .scenario import computed as computed
    from .scenario import gate as gate
    from .scenario import load as load
    from .scenario import reply as reply
    from .scenario import save as save
    from .scenario import text as text
    from .scenario import thinking as thinking
    from .scenario import tool as tool
    from .scripted_model import ScriptedModel as ScriptedModel
    from .served_model import ServedModel as ServedModel
    from .stage import GateNotReached as GateNotReached

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
