"""The one path that is open to everybody: it proves that this server knows the token."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from litestar import Request, Response

from pilothouse.api.proof import Proof, make_proof
from pilothouse.api.queries import ProofQuery

from .reading import read_query

__all__ = ["prover"]

JSON = "application/json"


def prover(token: str) -> Callable[[Request[Any, Any, Any]], Awaitable[Response[bytes]]]:
    """The handler that answers a challenge with the proof for the connection it came on.

    The ends are those of the socket: no header of a caller's may decide what they are.
    """

    async def prove(request: Request[Any, Any, Any]) -> Response[bytes]:
        scope: Any = request.scope
        query: ProofQuery = read_query(scope["query_string"], ProofQuery)
        proof = make_proof(token, query.nonce, scope["server"], scope["client"])
        return Response(msgspec.json.encode(Proof(proof)), media_type=JSON)

    return prove
