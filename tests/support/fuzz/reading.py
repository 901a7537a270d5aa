"""Reads all that a server tells, in every way there is, and holds each answer to strict JSON."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from functools import cache
from typing import Any

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from pilothouse.faces.http.document import make_document
from tests.support.fuzz.findings import Failure, Findings
from tests.support.fuzz.strict import strictly

DEADLINE = 100.0
PAGE = 200
ASKING = ("/mcp", "/context", "/commands", "/models", "/greeting")
"""What is asked of a CLI that lives, and starts one where none does."""
ENDLESS = ("/stream", "/ws", "/openapi.json")
OF_ONE_ITEM = "/conversation/source"
"""What is asked for with the id of an item."""
CHANGING = ("/healthz", "/metrics", "/api/settings", "/api/runners", "/api/activity")
"""What tells of the server itself, or of this moment: another one tells something else."""
OF_NOW = ("/timeline", "/cassette")
"""What ends now, and what has the pieces of messages while they are kept."""
MOST_QUESTIONS = 40
VARIANTS = {
    "/api/sessions/{session_id}": ("", "?output_lines=50", "?output_lines=50&after=0"),
    "/api/sessions/{session_id}/wait": ("?seconds=0",),
    "/api/questions": ("", "?state=any", "?state=open", "?state=withdrawn"),
    "/api/cost": ("?by=turn", "?by=session", "?by=project", "?by=day"),
    "/api/sessions": ("?limit=1000", "?live=true"),
}

Told = dict[str, Any]


class Reader:
    """One who reads over HTTP."""

    def __init__(
        self,
        address: str,
        token: str,
        findings: Findings,
        *,
        templates: Sequence[str] | None = None,
        calling: httpx.AsyncClient | None = None,
    ) -> None:
        """`templates` are the paths that are asked; `calling` asks them in another way."""
        self._address = address
        self._templates = told_by(document()) if templates is None else templates
        self._headers = {"Authorization": f"Bearer {token}"}
        self._findings = findings
        self._http = httpx.AsyncClient(
            base_url=address, headers=self._headers, timeout=DEADLINE, trust_env=False
        )
        self._calling = calling or self._http

    async def aclose(self) -> None:
        await self._http.aclose()
        await self._calling.aclose()

    async def everything(self) -> Told:
        """Every route that only tells, then all events, by page, stream and socket."""
        told = {path: await self.get(path, as_=template) async for template, path in self._paths()}
        events = await self._pages()
        await self._check_like("stream", events, self._stream(events))
        await self._check_like("socket", events, self._socket(events))
        kept = {
            path: value
            for path, value in told.items()
            if path not in CHANGING and not path.endswith(OF_NOW)
        }
        return kept | {"events": events}

    async def ask(self, session_ids: list[str]) -> None:
        """What is asked of CLIs that live."""
        for session_id in session_ids:
            for each in ASKING:
                template = f"/api/sessions/{{session_id}}{each}"
                await self.get(template.format(session_id=session_id), as_=template)

    async def get(self, path: str, *, as_: str) -> Any:
        """The value of an answer; what is no answer is noted."""
        try:
            answer = await self._calling.get(path)
        except httpx.HTTPError as error:
            self._note(f"GET {as_}: no answer", repr(error))
            return None
        if answer.status_code >= 500:
            self._note(f"GET {as_}: {answer.status_code}", answer.text[:300])
            return None
        if as_ == "/metrics":
            return self._metrics(answer.text)
        if answer.headers["content-type"] == "application/jsonl":
            lines = answer.content.splitlines()
            return [self._strictly(f"a line of GET {as_}", line) for line in lines]
        return self._strictly(f"GET {as_}", answer.content)

    async def _paths(self) -> AsyncIterator[tuple[str, str]]:
        """Every path that a GET can be sent to, with the ids that there are."""
        listing = await self.get("/api/sessions?limit=1000", as_="/api/sessions")
        asked = await self.get("/api/questions?state=any", as_="/api/questions")
        ids = {
            "session_id": [each["session_id"] for each in (listing or {}).get("sessions", ())],
            "question_id": [each["id"] for each in (asked or ())][:MOST_QUESTIONS],
        }
        for template in self._templates:
            for path in _filled(template, ids):
                for query in VARIANTS.get(template, ("",)):
                    yield template, path + query

    def _metrics(self, text: str) -> None:
        for line in text.splitlines():
            if not line.startswith("#"):
                value = float(line.rpartition(" ")[2])
                if not math.isfinite(value):
                    self._note("GET /metrics: no number", line)

    async def _pages(self) -> list[Any]:
        found: list[Any] = []
        after = -1
        while True:
            given = max(after, 0)
            path = f"/api/events?after={given}&limit={PAGE}"
            batch = await self.get(path, as_="/api/events")
            if batch is None or "events" not in batch or batch["cursor"] == after:
                return found
            found += batch["events"]
            after = batch["cursor"]

    # As they happen

    async def _check_like(self, how: str, events: list[Any], coming: AsyncGenerator[Any]) -> None:
        """The same events must come in this way."""
        if not events:
            return
        found: list[Any] = []
        last = events[-1]["seq"]
        try:
            async with asyncio.timeout(DEADLINE), aclosing(coming):
                async for each in coming:
                    found.append(each)
                    if each["seq"] >= last:
                        break
        except (TimeoutError, httpx.HTTPError, ConnectionClosed, OSError) as error:
            self._note(f"the {how} ends early", f"{error!r} after {len(found)} of {len(events)}")
            return
        if [each for each in found if each["seq"] <= last] != events:
            self._note(f"the {how} tells other events than the pages")

    async def _stream(self, events: list[Any]) -> AsyncGenerator[Any]:
        url = f"/api/events/stream?after={events[0]['seq'] - 1}"
        held = b""
        async with self._http.stream("GET", url) as stream:
            async for piece in stream.aiter_bytes():
                *whole, held = (held + piece).split(b"\n\n")
                for each in whole:
                    lines = [line.partition(b": ") for line in each.split(b"\n")]
                    members = {name: value for name, _, value in lines}
                    data = b"\n".join(value for name, _, value in lines if name == b"data")
                    if members.get(b"event") == b"events":
                        yield self._strictly("an event of the stream", data)
        raise httpx.ReadError("the stream has ended")

    async def _socket(self, events: list[Any]) -> AsyncGenerator[Any]:
        address = self._address.replace("http", "ws", 1)
        url = f"{address}/api/ws?after={events[0]['seq'] - 1}"
        async with connect(
            url, additional_headers=self._headers, proxy=None, max_size=None
        ) as socket:
            async for frame in socket:
                text = frame.encode() if isinstance(frame, str) else frame
                value = self._strictly("a frame of the socket", text)
                for each in (value or {}).get("events", ()):
                    yield each
        raise OSError("the socket was closed")

    # What is found

    def _strictly(self, what: str, body: bytes) -> Any:
        try:
            return strictly(body)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
            self._note(f"{what}: no strict JSON, {type(error).__name__}", ascii(error)[:300])
            return None

    def _note(self, where: str, why: str = "") -> None:
        self._findings.note(Failure(where, why))


@cache
def document() -> dict[str, Any]:
    """The document of this version: it takes long to make."""
    return make_document("1.2.3")


def told_by(document: dict[str, Any]) -> list[str]:
    """The paths that only tell, and come to an end."""
    return [
        template
        for template, methods in document["paths"].items()
        if "get" in methods and not template.endswith((*ENDLESS, *ASKING, OF_ONE_ITEM))
    ]


def _filled(template: str, ids: dict[str, list[str]]) -> Iterator[str]:
    """The path for each id that it takes."""
    for name, known in ids.items():
        if f"{{{name}}}" in template:
            yield from (template.replace(f"{{{name}}}", each) for each in known)
            return
    yield template
