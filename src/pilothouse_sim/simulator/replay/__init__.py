"""Replaying a cassette, without I/O: names, matching, steps, and the player itself."""
