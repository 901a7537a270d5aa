"""Runs a runner like `pilothouse runner`, only less patient: `run_runner.py PACE ARGUMENTS ...`."""

from __future__ import annotations

import json
import sys

from pilothouse.relay.pace import PACE
from pilothouse.runner.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], PACE._replace(**json.loads(sys.argv[1]))))
