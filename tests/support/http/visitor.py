"""A browser, as far as the server can tell."""

from __future__ import annotations

from typing import Any

import httpx

from pilothouse.faces.http import Application
from tests.support.http.serving import BEARER, calling

CONSOLE = {"Pilothouse-Console": "1"}


class Visitor:
    """Has cookies of its own, and asks as the page does: with its header, and an Origin to act."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.origin = {"Origin": str(http.base_url).rstrip("/")}

    @classmethod
    def of(cls, app: Application) -> Visitor:
        """One that calls the application in this process."""
        return cls(calling(app, headers={}))

    @classmethod
    def at(cls, address: str) -> Visitor:
        return cls(httpx.AsyncClient(base_url=address, trust_env=False))

    async def __aenter__(self) -> Visitor:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def get(self, path: str) -> httpx.Response:
        return await self.http.get(path, headers=CONSOLE)

    async def post(self, path: str, body: Any = None) -> httpx.Response:
        return await self.http.post(path, json=body or {}, headers={**CONSOLE, **self.origin})

    async def code(self) -> str:
        """The code of a new link, made for whoever has the token."""
        made = await self.http.post("/api/console/links", headers=BEARER)
        assert made.status_code == 200, made.text
        return made.json()["url"].partition("#enter=")[2]

    async def enter(self, code: str | None = None) -> httpx.Response:
        code = await self.code() if code is None else code
        return await self.post("/console/enter", {"code": code})

    @property
    def cookie(self) -> str:
        """As a browser sends it."""
        return "; ".join(f"{each.name}={each.value}" for each in self.http.cookies.jar)
