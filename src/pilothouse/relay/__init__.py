"""Carries one CLI to an engine, and keeps what the engine does not have yet."""
