"""The token of a runner is told to whoever adds it, once, and is found nowhere else."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from websockets.asyncio.client import connect

from pilothouse.faces.http import Tracing
from pilothouse.server.cli_choice import choose
from pilothouse.server.engines import RUNNERS_NAME, open_with_doors
from pilothouse.server.logs import Redaction, set_up
from pilothouse.settings import load
from tests.support.http.serving import BEARER, make_app, served

DEADLINE = 20
QUIETED = ("httpx", "httpcore", "uvicorn.error", "websockets", "asyncio")


@pytest.fixture
def logged() -> Generator[io.StringIO]:
    """What a server logs that tells all it can, with no secret known by value."""
    loggers = [logging.getLogger(name) for name in (None, *QUIETED)]
    levels, handlers = [each.level for each in loggers], loggers[0].handlers[:]
    stream = io.StringIO()
    set_up("debug", Redaction(), stream)
    try:
        yield stream
    finally:
        loggers[0].handlers[:] = handlers
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


async def add_by_socket(address: str, name: str) -> Any:
    url = f"{address.replace('http', 'ws', 1)}/api/ws?after=0"
    async with (
        asyncio.timeout(DEADLINE),
        connect(url, additional_headers=BEARER, proxy=None) as socket,
    ):
        await socket.send(json.dumps({"id": 1, "do": "add_runner", "name": name}))
        while (frame := json.loads(await socket.recv()))["type"] == "events":
            pass
    return frame["result"]


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def shows(text: str, token: str) -> bool:
    """Whether a part of it is there: a log may cut a frame short anywhere."""
    assert len(token) > 20
    return any(token[at : at + 8] in text for at in range(len(token) - 7))


async def test_a_token_is_in_no_log_no_trace_no_metric_no_event_and_no_file(
    tmp_path: Path, logged: io.StringIO
) -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    env = {"HOME": str(tmp_path), "PATH": ""}
    choice = choose(load(env=env, flags={"simulate": "always"}), env)
    async with open_with_doors(choice, "ws://127.0.0.1:1") as (engine, _):
        app = make_app(engine, tracer=Tracing(provider))
        async with (
            served(app) as address,
            httpx.AsyncClient(base_url=address, headers=BEARER, trust_env=False) as http,
        ):
            by_http = (await http.post("/api/runners", json={"name": "attic"})).json()
            by_socket = await add_by_socket(address, "shed")
            again = await http.post("/api/runners", json={"name": "attic"})
            told = [
                (await http.get(path)).text
                for path in ("/api/runners", "/api/events", "/api/settings", "/metrics")
            ]
            assert [each["name"] for each in json.loads(told[0])] == ["attic", "shed"]
            assert "/api/runners" in told[-1]
    traced = [span.to_json() for span in spans.get_finished_spans()]
    assert any("add_runner" in each for each in traced)
    told += [again.text, logged.getvalue(), *traced]
    files = contents(tmp_path)
    assert {"journal.db", RUNNERS_NAME} <= {path.name for path in files}
    for token in (by_http["token"], by_socket["token"]):
        assert [each for each in told if shows(each, token)] == []
        assert [path for path, content in files.items() if token.encode() in content] == []
