"""Stands in for a server, as other commands see one: `stand_in_server.py RUNTIME_DIR LOG ROUTES`.

It holds the lock, proves itself with the token, answers each route ("GET /path") with the JSON it
was given for it, writes down what it was asked, and ends on SIGTERM. With another token in TOLD, it
is to those who ask as if something else were there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from pilothouse import __version__
from pilothouse.api.proof import PATH, make_proof
from pilothouse.server import runtime

TOKEN = "a-token-that-is-long-enough"


def main(folder: Path, log: Path, routes: dict[str, object]) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            where = urlsplit(self.path)
            if where.path == PATH:
                [nonce] = parse_qs(where.query)["nonce"]
                ends = self.connection.getsockname(), self.connection.getpeername()
                self.answer(200, {"proof": make_proof(TOKEN, nonce, *ends)})
                return
            with log.open("a") as file:
                file.write(f"{self.command} {self.path} {self.headers['Authorization']}\n")
            told = routes.get(f"{self.command} {self.path}")
            self.answer(404 if told is None else 200, told)

        def answer(self, status: int, told: object) -> None:
            body = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

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
            token=os.environ.get("TOLD", TOKEN),
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
