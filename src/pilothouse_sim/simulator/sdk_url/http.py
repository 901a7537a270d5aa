"""One HTTP POST over asyncio streams."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

__all__ = ["post"]


async def post(
    url: str, headers: Mapping[str, str], body: bytes, tls: Callable[[], ssl.SSLContext]
) -> int | None:
    """Post the body as JSON; the status, or None when no answer came."""
    try:
        return await _exchange(url, headers, body, tls)
    except (OSError, EOFError, ValueError, LookupError, asyncio.LimitOverrunError):
        # No server, none that stays, or none that speaks HTTP.
        return None


async def _exchange(
    url: str, headers: Mapping[str, str], body: bytes, tls: Callable[[], ssl.SSLContext]
) -> int:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    reader, writer = await asyncio.open_connection(
        parts.hostname, port, ssl=tls() if secure else None
    )
    try:
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        lines = [f"POST {target} HTTP/1.1", f"Host: {parts.netloc}"]
        lines += [f"{name}: {value}" for name, value in _with_own(headers, body).items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        status_line = await reader.readuntil(b"\r\n")
        await reader.readuntil(b"\r\n\r\n")
        return int(status_line.split(maxsplit=2)[1])
    finally:
        writer.close()


def _with_own(headers: Mapping[str, str], body: bytes) -> dict[str, str]:
    return {
        "Accept": "application/json, text/plain, */*",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        # A connection for each POST: nobody has to know how long the answer's body is.
        "Connection": "close",
        **headers,
    }
