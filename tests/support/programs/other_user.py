"""Another user of the machine, who does as told: `other_user.py UID`, started by root.

Each line of stdin is one order, as JSON, and each line of stdout is what came of it:

    ["read", PATH]       the bytes of a file, in hexadecimal, or why there are none
    ["list", PATH]       the names in a folder, or why there are none
    ["connect", PATH]    null, or why the Unix socket could not be connected to
    ["listen", PORT]     null, or why nobody could listen there, on 127.0.0.1 and on ::1
    ["heard"]            for each connection since then what came, in hexadecimal
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

heard: list[bytes] = []
# Whoever only watches comes again after it.
AWAY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"


def become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def connect(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as dialling:
        dialling.connect(path)


def listen(port: int) -> None:
    accept(socket.create_server(("127.0.0.1", port)))
    try:
        accept(socket.create_server(("::1", port), family=socket.AF_INET6))
    except OSError:
        # Not every machine has it.
        return


def accept(listener: socket.socket) -> None:
    def serve() -> None:
        while True:
            keep(listener.accept()[0])

    threading.Thread(target=serve, daemon=True).start()


def keep(visitor: socket.socket) -> None:
    number = len(heard)
    heard.append(b"")
    with visitor:
        visitor.settimeout(5)
        try:
            while data := visitor.recv(65536):
                heard[number] += data
                visitor.sendall(AWAY)
        except OSError:
            return


def do(order: list[Any]) -> Any:
    match order:
        case ["read", path]:
            return Path(path).read_bytes().hex()
        case ["list", path]:
            return os.listdir(path)  # noqa: PTH208 - names alone are asked for
        case ["connect", path]:
            return connect(path)
        case ["listen", port]:
            return listen(port)
        case ["heard"]:
            return [each.hex() for each in heard]
        case _:
            raise ValueError(order)


def main() -> None:
    become(int(sys.argv[1]))
    for line in sys.stdin:
        try:
            told: dict[str, Any] = {"told": do(json.loads(line))}
        except OSError as error:
            told = {"failed": error.strerror}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
