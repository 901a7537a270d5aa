"""Large answers made small for the console, which may be at the end of a phone's link.

Only what a page reads: a program on this machine would wait for the packing and gain nothing. What
has a secret of ours in it, such as a runner's token, answers no GET.
"""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING, Final

from pilothouse.api.console import HEADER

from .entrance import header, headers
from .responses import JSON, HttpAnswer

if TYPE_CHECKING:
    from starlette.types import Scope

__all__ = ["packed", "takes_gzip"]

LEAST: Final = 16 << 10
"""Smaller ones go out in a few packets anyway."""
LEVEL: Final = 1
"""A sixth of the size in 1 ms for 100 kB; the usual level takes five times as long for little."""
_FOR_PAGES: Final = HEADER.lower().encode()


async def packed(scope: Scope, answer: HttpAnswer) -> HttpAnswer:
    """Return the answer as it goes out to whoever asks."""
    if (
        len(answer.body) < LEAST
        or answer.media != JSON
        or scope["method"] != "GET"
        or header(scope, _FOR_PAGES) is None
        or not takes_gzip(scope)
    ):
        return answer
    body = await asyncio.to_thread(gzip.compress, answer.body, LEVEL)
    more = ((b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"))
    return answer._replace(body=body, headers=(*answer.headers, *more))


def takes_gzip(scope: Scope) -> bool:
    """Return whether a caller takes gzip."""
    for given in headers(scope, b"accept-encoding"):
        for each in given.lower().split(","):
            name, _, weight = each.partition(";")
            if name.strip() == "gzip":
                return weight.replace(" ", "").rstrip("0.") != "q="
    return False
