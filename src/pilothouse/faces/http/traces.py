"""OpenTelemetry traces, when an endpoint is configured. Nothing of it is imported otherwise."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pilothouse.errors import SettingError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

__all__ = ["Tracing", "make_tracer"]

TRACES: Final = "/v1/traces"
NAME: Final = "pilothouse.faces.http"


class Tracing:
    """Makes the spans of this face, and hands them to a provider that the caller has set up."""

    def __init__(self, provider: TracerProvider) -> None:
        # Imported late: who traces nothing does not need the package.
        from opentelemetry import trace
        from opentelemetry.propagate import extract

        self._provider = provider
        self._tracer = provider.get_tracer(NAME)
        self._kind = trace.SpanKind.SERVER
        self._error = trace.Status(trace.StatusCode.ERROR)
        self._extract = extract

    @contextmanager
    def request(self, method: str, headers: Mapping[str, str]) -> Generator[Span]:
        """The span of an HTTP request, a child of the caller's own if it names one."""
        with self._tracer.start_as_current_span(
            method,
            context=self._extract(headers),
            kind=self._kind,
            attributes={"http.request.method": method},
            end_on_exit=False,
        ) as span:
            yield span

    def answered(self, span: Span, method: str, route: str, status: int) -> None:
        """Note what the request came to, and end its span."""
        span.update_name(f"{method} {route}")
        span.set_attribute("http.route", route)
        span.set_attribute("http.response.status_code", status)
        if status >= 500:
            span.set_status(self._error)
        span.end()

    @contextmanager
    def action(self, name: str) -> Generator[Any]:
        """The span of a request over the WebSocket."""
        attributes = {"pilothouse.action": name}
        with self._tracer.start_as_current_span(
            f"websocket {name}", kind=self._kind, attributes=attributes
        ) as span:
            yield span

    def close(self) -> None:
        """Send what is still to be sent. Waits for the collector: not for an event loop."""
        self._provider.shutdown()


def make_tracer(endpoint: str | None, *, version: str = "") -> Tracing | None:
    """Traces to a collector that takes OTLP over HTTP at this address; none without one."""
    if not endpoint:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise SettingError(
            "traces need OpenTelemetry: install pilothouse[otel], or unset the endpoint"
        ) from error
    named = {"service.name": "pilothouse", "service.version": version}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(_traces_of(endpoint))))
    return Tracing(provider)


def _traces_of(endpoint: str) -> str:
    """The collector's path for traces, unless the address has it."""
    base = endpoint.rstrip("/")
    return base if base.endswith(TRACES) else f"{base}{TRACES}"
