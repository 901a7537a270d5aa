"""Runs a relay like `pilothouse relay`, only less patient: `run_relay.py PACE ARGUMENTS ...`."""

from __future__ import annotations

import json
import sys

from pilothouse.relay.main import main
from pilothouse.relay.pace import PACE

if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], PACE._replace(**json.loads(sys.argv[1]))))
