"""Joins protocol and transport for one live CLI."""
