"""How an MCP server is reached: the configurations a client hands to the CLI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, UnsetType

from .shared import McpServerToolPolicy
from .wire import JsonObject, Record, always

__all__ = [
    "McpClaudeAiProxyServer",
    "McpHttpServer",
    "McpSdkServer",
    "McpServerConfig",
    "McpSseServer",
    "McpStdioServer",
]


class McpStdioServer(Record, rename="camel"):
    """A server that is a child process of the CLI's."""

    command: str
    args: list[str] | UnsetType = UNSET
    env: dict[str, str] | UnsetType = UNSET
    type: Literal["stdio"] = always("stdio")
    timeout: float | UnsetType = UNSET
    always_load: bool | UnsetType = UNSET


class McpSseServer(Record, rename="camel"):
    """A server behind a URL, over server-sent events."""

    url: str
    headers: dict[str, str] | UnsetType = UNSET
    type: Literal["sse"] = always("sse")
    tools: list[McpServerToolPolicy] | UnsetType = UNSET
    timeout: float | UnsetType = UNSET
    always_load: bool | UnsetType = UNSET


class McpHttpServer(Record, rename="camel"):
    """A server behind a URL, over streamable HTTP."""

    url: str
    headers: dict[str, str] | UnsetType = UNSET
    type: Literal["http"] = always("http")
    tools: list[McpServerToolPolicy] | UnsetType = UNSET
    timeout: float | UnsetType = UNSET
    always_load: bool | UnsetType = UNSET


class McpSdkServer(Record):
    """A server inside the client's own process; its messages come as `McpMessage`."""

    name: str
    type: Literal["sdk"] = always("sdk")
    timeout: float | UnsetType = UNSET
    tools: list[McpServerToolPolicy] | UnsetType = UNSET


class McpClaudeAiProxyServer(Record):
    """A server reached through the account."""

    url: str
    id: str
    type: Literal["claudeai-proxy"] = always("claudeai-proxy")
    timeout: float | UnsetType = UNSET


# Plain members are as good as a struct, and what a CLI reads them as.
if TYPE_CHECKING:
    McpServerConfig = (
        McpStdioServer
        | McpSseServer
        | McpHttpServer
        | McpSdkServer
        | McpClaudeAiProxyServer
        | JsonObject
    )
else:
    McpServerConfig = JsonObject
