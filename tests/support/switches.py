"""What the environment asks of a run: read here, and documented in tests/README.md."""

from __future__ import annotations

import os
from typing import Final

IN_CI: Final = os.environ.get("CI") == "true"
PROVING: Final = os.environ.get("PILOTHOUSE_PROVE") == "1"
WITH_E2E: Final = os.environ.get("CLAUDE_CODE_E2E") == "true"
