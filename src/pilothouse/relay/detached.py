"""Run as a script by `launcher`: becomes a relay that is nobody's child, and tells its pid.

    detached.py HELD COUNT FOLDER ... ARGUMENT ...

The folders are where our packages are found: the environment is the CLI's, not Python's. HELD are
the descriptors, with commas between them, that are to be open for as long as the CLI lives.
"""

from __future__ import annotations

import os
import sys


def main(held: str, count: str, *words: str) -> int:
    folders = list(words[: int(count)])
    # Before anything else is imported, so that there is one thread and nothing to be held twice.
    if pid := os.fork():
        os.write(1, b"%d" % pid)
        os._exit(0)
    locks = [int(fd) for fd in held.split(",") if fd]
    for fd in locks:
        # The CLI is not to have them.
        os.set_inheritable(fd, False)
    # The pipe on which the pid was told is not ours to keep.
    os.dup2(2, 1)
    # Before other installed packages, but not before Python's own.
    own = [each for each in sys.path if not each.endswith("-packages") and each not in folders]
    others = [each for each in sys.path if each not in own and each not in folders]
    sys.path[:] = own + folders + others
    from pilothouse.relay.main import main as run

    return run(words[int(count) :], held=locks)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
