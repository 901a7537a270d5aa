"""A CLI, in memory, that writes what it is given and answers what it is asked with anything."""

from __future__ import annotations

import json
from typing import Any

from pilothouse.protocol import ControlRequest
from pilothouse.transport import TransportClosed
from pilothouse_sim.scripted_cli import GREETING, ScriptedCLI

ANSWERS = [
    b"null",
    b"[]",
    rb'{"commands":[{"name":"\ud83d","description":7,"\ude00":null}],"models":[{"value":"\ud83d"}]}',
    rb'{"mcpServers":[{"name":"\ud83d\u0000","status":{},"config":{"env":{"A":"\ude00"}}}]}',
    rb'{"totalTokens":1.7e308,"maxTokens":-1,"categories":[{"name":"\ud83d","tokens":9223372036854775808}]}',
    b'{"commands":7,"models":"x","agents":{},"account":[],"pid":1.5,"claude_code_version":[]}',
    b'{"a":' * 60 + b"1" + b"}" * 60,
    rb'{"still_queued":["\ud83d",7],"cancelled":{}}',
]
EXCEPTION = r"^[A-Za-z]+(Error|Exception): "


class HostileCLI(ScriptedCLI):
    """Whatever it is asked gets the one answer it has."""

    def __init__(self, answer: bytes = b"{}", greeting: bytes = b"") -> None:
        super().__init__()
        self._told = answer
        self._greeting = greeting or json.dumps(GREETING).encode()
        self.wrote: list[bytes] = []
        """Every line, in order."""
        self.heard: list[bytes] = []
        """What it was sent, as it came."""

    def tell(self, *lines: bytes) -> None:
        """Write lines; one that was closed writes no more."""
        try:
            self.end.write(b"".join(line + b"\n" for line in lines))
        except TransportClosed:
            return
        self.wrote += lines

    def data_received(self, data: bytes) -> None:
        self.heard += data.splitlines()
        super().data_received(data)

    @property
    def answers(self) -> list[dict[str, Any]]:
        """The control responses it was sent."""
        heard = [json.loads(line) for line in self.heard]
        return [each["response"] for each in heard if each["type"] == "control_response"]

    def _answer(self, message: ControlRequest) -> None:
        subtype = message.client_request.subtype
        told = self._greeting if subtype == "initialize" else self._told
        self.tell(
            b'{"type":"control_response","response":{"subtype":"success","request_id":"%s","response":%s}}'
            % (message.request_id.encode(), told)
        )

    def _flush(self) -> None:
        data = self._connection.data_to_send()
        if data:
            self.tell(*data.splitlines())
