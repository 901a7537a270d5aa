"""The ordered, durable log of every session's events; the only queue there is."""
