"""Help for tests and demonstrations: scenarios, a scripted model, and real CLIs to run on it.

`real_cli` and `isolation` are imported by name: the first is a program of its own as well, the
second must run before anything else does.
"""

from __future__ import annotations

from pilothouse.testing.scenario import (
    AnyReply,
    ApiError,
    Branch,
    Broken,
    Computed,
    Gate,
    ModelRequest,
    Pause,
    Raw,
    Reply,
    Scenario,
    Script,
    Step,
    Text,
    Thinking,
    ToolCall,
    Usage,
    When,
    computed,
    gate,
    load,
    reply,
    text,
    thinking,
    tool,
)
from pilothouse.testing.scripted_model import ScriptedModel

__all__ = [
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
    "Script",
    "ScriptedModel",
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
    "text",
    "thinking",
    "tool",
]
