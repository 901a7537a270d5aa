"""The engine over HTTP: an API with its OpenAPI document, events as they happen, metrics."""

from __future__ import annotations

from .app import Application, create_app, end_streams
from .traces import Tracing, make_tracer

__all__ = ["Application", "Tracing", "create_app", "end_streams", "make_tracer"]
