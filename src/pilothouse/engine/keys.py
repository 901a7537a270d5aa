"""Idempotency keys: the same key with the same request is one request, however often it comes."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from pilothouse.api.codec import encode_strictly
from pilothouse.api.values import LONGEST_WORD
from pilothouse.errors import KeyReused, UsageError
from pilothouse.journal.contract import Journal, KeyRow
from pilothouse.protocol.wire import encode_json

from .keyed_locks import KeyedLocks

__all__ = ["Keys", "Remember"]

T = TypeVar("T", bound=msgspec.Struct)

Remember = Callable[[msgspec.Struct], Sequence[KeyRow]]
"""From an answer to the rows that store it, in the transaction of what it answers."""


class Keys:
    """Remembers answers by key. Two requests with one key at once wait for each other."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._in_hand = KeyedLocks()

    async def once(
        self,
        scope: str,
        key: str | None,
        request: msgspec.Struct,
        kind: type[T],
        act: Callable[[Remember], Awaitable[T]],
    ) -> T:
        """Act, or return the answer that was given before, marked `repeated`."""
        if key is None:
            return await act(lambda _: ())
        if not 1 <= len(key) <= LONGEST_WORD:
            raise UsageError(f"a key has 1 to {LONGEST_WORD} characters")
        name = f"{scope}:{key}"
        digest = hashlib.sha256(encode_json(request)).digest()
        async with self._in_hand.hold(name):
            row = await self._journal.key(name)
            if row is None:
                return await act(lambda told: [_row(name, digest, told)])
        if row.digest != digest:
            raise KeyReused(
                f"the key {key!r} was used for another request",
                advice="use a new key for a new request",
            )
        return msgspec.structs.replace(msgspec.json.decode(row.result, type=kind), repeated=True)


def _row(name: str, digest: bytes, told: msgspec.Struct) -> KeyRow:
    return KeyRow(key=name, digest=digest, result=encode_strictly(told))
