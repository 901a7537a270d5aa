"""Traces: one span for each request, in memory and at a collector on loopback."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from websockets.asyncio.client import connect

from pilothouse.api.requests import Start
from pilothouse.errors import JournalError, SettingError
from pilothouse.faces.http import Tracing, make_tracer
from tests.support.http.fake_engine import FakeEngine
from tests.support.http.serving import BEARER, calling, make_app, served

PARENT = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def kept() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(kept: InMemorySpanExporter) -> Generator[Tracing]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracing = Tracing(provider)
    yield tracing
    tracing.close()


def told(span: ReadableSpan) -> tuple[Any, ...]:
    attributes = span.attributes or {}
    status = attributes.get("http.response.status_code")
    return span.name, attributes.get("http.route"), status, span.status.status_code


async def test_each_request_has_a_span_with_its_route_and_status(
    kept: InMemorySpanExporter, tracing: Tracing
) -> None:
    engine = FakeEngine()
    await engine.start(Start(prompt="hello", cwd="/"))
    route = "/api/sessions/{session_id}"
    async with calling(make_app(engine, tracer=tracing)) as http:
        await http.get("/api/sessions/session-1")
        await http.get("/api/sessions/nobody")
        await http.get("/made/up", headers={"authorization": ""})
        engine.raises = JournalError("full")
        await http.get("/api/sessions/session-1")
    fine, ill = StatusCode.UNSET, StatusCode.ERROR
    assert [told(span) for span in kept.get_finished_spans()] == [
        (f"GET {route}", route, 200, fine),
        (f"GET {route}", route, 404, fine),
        ("GET unmatched", "unmatched", 401, fine),
        (f"GET {route}", route, 503, ill),
    ]


async def test_a_span_is_a_child_of_the_callers(
    kept: InMemorySpanExporter, tracing: Tracing
) -> None:
    parent = {"traceparent": f"00-{PARENT}-b7ad6b7169203331-01"}
    async with calling(make_app(FakeEngine(), tracer=tracing)) as http:
        await http.get("/healthz", headers=parent)
    (span,) = kept.get_finished_spans()
    context = span.get_span_context()
    assert context is not None
    assert f"{context.trace_id:032x}" == PARENT


async def test_each_request_over_the_websocket_has_a_span(
    kept: InMemorySpanExporter, tracing: Tracing
) -> None:
    async with served(make_app(FakeEngine(), tracer=tracing)) as address:
        url = f"{address.replace('http', 'ws')}/api/ws"
        async with connect(url, additional_headers=BEARER, proxy=None) as socket:
            for name, session in (("policy", {}), ("interrupt", {"session_id": "nobody"})):
                await socket.send(json.dumps({"id": name, "do": name, **session}))
                async with asyncio.timeout(20):
                    while json.loads(await socket.recv()).get("id") != name:
                        pass
    spans = {span.name: span.status.status_code for span in kept.get_finished_spans()}
    assert spans == {"websocket policy": StatusCode.UNSET, "websocket interrupt": StatusCode.ERROR}


def test_without_an_endpoint_nothing_is_traced() -> None:
    assert make_tracer(None) is None
    assert make_tracer("") is None


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(SettingError, match=r"pilothouse\[otel\]"):
        make_tracer("http://127.0.0.1:1")


@pytest.mark.parametrize("path", ["", "/", "/v1/traces"])
async def test_a_collector_gets_the_spans(path: str) -> None:
    received: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Collector) as collector:
        thread = Thread(target=collector.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        endpoint = f"http://127.0.0.1:{collector.server_port}{path}"
        tracing = make_tracer(endpoint, version="1.2.3")
        app = make_app(FakeEngine(), tracer=tracing)
        # Served, because the last spans are sent when the application ends.
        async with served(app) as address, httpx.AsyncClient(headers=BEARER) as http:
            assert (await http.get(f"{address}/healthz")).status_code == 200
        collector.shutdown()
        thread.join(20)
    ((where, body),) = received
    assert where == "/v1/traces"
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    named = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert named["service.name"] == "pilothouse"
    assert [span.name for span in resource.scope_spans[0].spans] == ["GET /healthz"]
