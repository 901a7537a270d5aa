"""Lets a wheel have the page of the console: builds it if it is not there and Node is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = "src/pilothouse/faces/console/dist/index.html"


class ConsoleBuildHook(BuildHookInterface):
    """Runs before a wheel or an sdist is made. Without the page all but the console works."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        script = Path(self.root, "scripts/build-console")
        if script.exists() and all(map(shutil.which, ("bash", "node", "npm"))):
            # It does nothing where the page is there as its sources are.
            subprocess.run(["bash", script], check=False)
        if not Path(self.root, PAGE).exists():
            self.app.display_warning(
                "the console is left out: it is built with Node 20.19 or newer"
            )
