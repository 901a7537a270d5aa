"""The engine's public language: what goes into any engine and comes out of it."""
