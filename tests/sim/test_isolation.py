from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest

from pilothouse_sim.isolation import enter_network_namespace

# The namespace cannot be left again, so a child process enters it.
PROBE = """
import json, os, socket
from pilothouse_sim.isolation import enter_network_namespace
before, user = socket.if_nameindex(), os.getuid()
entered = enter_network_namespace()
served = socket.create_server(("127.0.0.1", 0))
socket.create_connection(served.getsockname()).close()
after = [name for _, name in socket.if_nameindex()]
print(json.dumps([entered, [name for _, name in before], after, os.getuid() == user]))
"""


def test_only_the_loopback_interface_is_left_or_nothing_changed() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, check=True)
    entered, before, after, same_user = json.loads(done.stdout)
    assert same_user
    assert after == (["lo"] if entered else before)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="namespaces are Linux's")
def test_a_process_with_threads_is_refused() -> None:
    release = threading.Event()
    other = threading.Thread(target=release.wait)
    other.start()
    try:
        with pytest.raises(RuntimeError, match="before any thread"):
            enter_network_namespace()
    finally:
        release.set()
        other.join()
