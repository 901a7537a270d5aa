"""Large answers are compressed for the page, and nothing else is."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx
import pytest

from pilothouse.api.console import HEADER
from tests.support.http.fake_engine import FakeEngine
from tests.support.http.serving import calling, make_app

PAGE = {HEADER: "1", "accept-encoding": "gzip, br"}


@pytest.fixture
async def http() -> AsyncGenerator[httpx.AsyncClient]:
    async with calling(make_app(FakeEngine())) as client:
        yield client


async def test_a_large_answer_is_packed_for_the_page(http: httpx.AsyncClient) -> None:
    plain = await http.get("/openapi.json", headers={"accept-encoding": "gzip"})
    packed = await http.get("/openapi.json", headers=PAGE)
    assert "content-encoding" not in plain.headers
    assert (packed.headers["content-encoding"], packed.headers["vary"]) == (
        "gzip",
        "accept-encoding",
    )
    assert packed.json() == plain.json()
    sizes = [int(each.headers["content-length"]) for each in (packed, plain)]
    assert sizes[0] * 4 < sizes[1]


@pytest.mark.parametrize("accepted", ["identity", "gzip;q=0", "br", ""])
async def test_who_takes_no_gzip_gets_none(http: httpx.AsyncClient, accepted: str) -> None:
    answer = await http.get("/openapi.json", headers={**PAGE, "accept-encoding": accepted})
    assert "content-encoding" not in answer.headers


async def test_a_small_answer_stays_as_it_is(http: httpx.AsyncClient) -> None:
    answer = await http.get("/healthz", headers=PAGE)
    assert "content-encoding" not in answer.headers
