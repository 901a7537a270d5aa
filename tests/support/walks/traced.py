"""`python traced.py FOLDER`: `pilothouse serve` with a tracer in it and in each of its relays."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# A relay is started without the paths that others have.
sys.path.insert(0, str(ROOT))

from tests.support.walks.tracer import Tracer  # noqa: E402 - found only now

LINE, ASK, ANSWER, PROMPT = MARKS = (
    "walk-of-a-line",
    "walk-of-an-ask",
    "walk-of-an-answer",
    "walk-of-a-prompt",
)
PASSED = {"journal/database.py": {"Database.append"}}
"""What commits."""
GIVEN = {
    "relay/spool.py": {"Spool.take"},
    "doors/relay_link.py": {"OutgoingQueue.gather"},
    "journal/stored.py": {"Tail.read"},
}
"""What takes data from a queue of ours."""
LOOPS = {"relay/relay.py": {"Relay.run"}}
"""What starts the loop of a relay."""

RELAY = """
import sys
sys.path.insert(0, {here!r})
from traced import trace
sys.path[:2] = []
trace({file!r})
import runpy
runpy.run_path({script!r}, run_name="__main__")
"""


def trace(file: str) -> None:
    Tracer(Path(file), MARKS, passed=PASSED, given=GIVEN, loops=LOOPS).start()


def main(folder: Path) -> None:
    from pilothouse.cli import main as run
    from pilothouse.relay import launcher

    script = folder / "traced_relay.py"
    here = str(Path(__file__).parent)
    file = str(folder / "relay.walk")
    script.write_text(RELAY.format(here=here, file=file, script=str(launcher.SCRIPT)))
    launcher.SCRIPT = script  # type: ignore[misc]
    trace(str(folder / "server.walk"))
    sys.argv = ["pilothouse", "serve"]
    sys.exit(run())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
