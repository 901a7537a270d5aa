"""The MCP SDK as this face imports it."""

from __future__ import annotations

from contextlib import suppress

__all__ = ["defer_wire_models"]


def defer_wire_models() -> None:
    """Let the SDK build its models of each version's messages when they are first used.

    There are some hundreds of them, a client uses about ten, and to build all is a quarter of the
    import. To be called before anything else of the SDK's is imported.
    """
    # The base class is the SDK's own affair: without it the import only takes longer.
    with suppress(ImportError, AttributeError):
        from mcp_types._wire_base import WireModel

        WireModel.model_config["defer_build"] = True
