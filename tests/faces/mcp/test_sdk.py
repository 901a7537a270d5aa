"""The SDK is imported for what a client uses of it."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
from pilothouse.server import mcp
mcp._import_stdio()
from mcp_types import _v2025_11_25, _v2026_07_28, _wire_base
models = [
    each
    for module in (_v2025_11_25, _v2026_07_28)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, _wire_base.WireModel)
]
built = [each for each in models if each.__pydantic_complete__]
print(len(models), len(built))
"""


def test_the_messages_of_each_version_are_built_when_somebody_uses_them() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True
    )
    models, built = map(int, done.stdout.split())
    assert models > 100
    assert built < models / 10
