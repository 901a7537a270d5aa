"""Stands in for a server, as other commands see one: `standin.py RUNTIME_DIR LOG ROUTES`.

It holds the lock, answers each route ("GET /path") with the JSON it was given for it, writes down
what it was asked, and ends on SIGTERM.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from pilothouse import __version__
from pilothouse.server import runtime

TOKEN = "a-token-that-is-long-enough"


def main(folder: Path, log: Path, routes: dict[str, object]) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with log.open("a") as file:
                file.write(f"{self.command} {self.path} {self.headers['Authorization']}\n")
            told = routes.get(f"{self.command} {self.path}")
            self.send_response(404 if told is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(told).encode())

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    lock = runtime.Lock(folder / runtime.LOCK_NAME)
    assert lock.acquire()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    runtime.publish(
        folder,
        runtime.Running(
            address=f"http://127.0.0.1:{server.server_port}",
            token=TOKEN,
            pid=os.getpid(),
            version=__version__,
            started_at=1,
        ),
    )
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    ending.wait()
    with log.open("a") as file:
        file.write("told to end\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
