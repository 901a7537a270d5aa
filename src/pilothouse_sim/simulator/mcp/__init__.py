"""MCP servers: those in the client, reached through it, and those that are started as processes.

There is no network here: servers behind `http` and `sse` are reported as failed, with the words a
real CLI has for an address where nobody listens.
"""

from pilothouse_sim.simulator.mcp.servers import McpServers

__all__ = ["McpServers"]
