"""A plan, and a model that writes it where the CLI wants it."""

from __future__ import annotations

import json
import re

from pilothouse_sim.scenario import ModelRequest, Reply, reply, tool

PLAN = "# Plan\n\n1. Look\n2. Leap\n"


def write_plan(request: ModelRequest) -> Reply:
    """The model writes its plan into the file that the CLI names to it."""
    found = re.search(r"/[^\s\"'`]*/plans/[^\s\"'`]+?\.md", json.dumps(request.body))
    assert found is not None
    return reply(tool("Write", file_path=found[0], content=PLAN))
