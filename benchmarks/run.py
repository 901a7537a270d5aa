"""Run every benchmark, one JSON line each; arguments are passed on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NAMES = (
    "streaming",
    "permissions",
    "import_time",
    "idle_clients",
    "simulator",
    "journal",
    "growth",
    "conversation",
    "history",
    "engine",
    "relay",
    "mcp",
    "serve",
    "console",
)


def main() -> int:
    """Run them one at a time, so that none disturbs another; non-zero if one could not run."""
    here = Path(__file__).resolve().parent
    commands = ([sys.executable, str(here / f"{name}.py"), *sys.argv[1:]] for name in NAMES)
    return max(subprocess.run(command, check=False).returncode for command in commands)


if __name__ == "__main__":
    sys.exit(main())
