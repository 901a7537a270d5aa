"""Getting in: links, cookies, and what a cookie alone does not open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from pilothouse.faces.http import Application
from tests.support.http.fake_engine import FakeEngine
from tests.support.http.serving import BEARER, LIMIT, calling, make_app, make_console, served
from tests.support.http.visitor import CONSOLE, Visitor

DEADLINE = 20


@pytest.fixture
def app() -> Application:
    return make_app(FakeEngine())


@pytest.fixture
async def browser(app: Application) -> AsyncGenerator[Visitor]:
    async with Visitor.of(app) as visitor:
        yield visitor


def refused(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    assert answer.json()["advice"]
    return answer.status_code, answer.json()["code"]


# Links


async def test_a_link_names_the_address_that_was_used(app: Application) -> None:
    for address in ("http://localhost", "http://127.0.0.1:8137", "https://[::1]:8137"):
        async with calling(app, base_url=address) as http:
            made = (await http.post("/api/console/links")).json()
        url, _, code = made["url"].partition("/#enter=")
        assert (url, len(code)) == (address, 43)


async def test_a_link_for_a_browser_behind_a_proxy_names_the_proxys_address() -> None:
    app = make_app(FakeEngine(), origins=["https://ship.example"])
    async with calling(app, headers={**BEARER, "Origin": "https://ship.example"}) as http:
        made = (await http.post("/api/console/links")).json()
    assert made["url"].startswith("https://ship.example/#enter=")


async def test_a_link_that_leads_to_no_page_says_so(app: Application, tmp_path: Path) -> None:
    async with calling(app) as http:
        assert "scripts/start" in (await http.post("/api/console/links")).json()["warning"]
    (tmp_path / "index.html").touch()
    async with calling(make_app(FakeEngine(), console=make_console(folder=tmp_path))) as http:
        assert set((await http.post("/api/console/links")).json()) == {"url", "expires_at"}


async def test_a_stranger_gets_no_link(browser: Visitor) -> None:
    assert refused(await browser.post("/api/console/links")) == (401, "no-token")


async def test_a_signed_in_browser_can_let_another_one_in(app: Application) -> None:
    async with Visitor.of(app) as first, Visitor.of(app) as second:
        await first.enter()
        made = (await first.post("/api/console/links")).json()
        code = made["url"].partition("#enter=")[2]
        assert (await second.enter(code)).status_code == 200
        assert first.cookie != second.cookie
        for each in (first, second):
            assert (await each.get("/api/sessions")).status_code == 200


# Signing in


async def test_a_code_becomes_a_cookie_that_stands_for_the_token(browser: Visitor) -> None:
    assert refused(await browser.get("/api/sessions")) == (401, "no-token")
    entered = await browser.enter()
    assert entered.status_code == 200, entered.text
    told = (await browser.get("/console/me")).json()
    assert told == entered.json()
    assert (told["signed_in"], told["version"]) == (True, "1.2.3")
    assert told["expires_at"] - told["since"] == 30 * 24 * 3600 * 1000
    assert (await browser.get("/api/sessions")).status_code == 200
    assert (await browser.get("/metrics")).status_code == 200
    started = await browser.post("/api/sessions", {"prompt": "hi", "cwd": "/"})
    assert started.status_code == 201


@pytest.mark.parametrize(
    ("address", "name", "more"),
    [
        ("http://localhost", "pilothouse-80", ""),
        ("http://127.0.0.1:8137", "pilothouse-8137", ""),
        ("https://localhost:8137", "pilothouse-8137", "; Secure"),
        ("https://[::1]", "pilothouse-443", "; Secure"),
    ],
)
async def test_the_cookie_is_the_pages_alone(
    app: Application, address: str, name: str, more: str
) -> None:
    async with Visitor(calling(app, base_url=address, headers={})) as browser:
        entered = await browser.enter()
    cookie, _, rest = entered.headers["set-cookie"].partition(";")
    assert cookie.partition("=")[0] == name
    assert len(cookie.partition("=")[2]) == 43
    assert rest == f" Max-Age=2592000; Path=/; HttpOnly; SameSite=Strict{more}"
    assert entered.headers["cache-control"] == "no-store"


async def test_behind_a_proxy_that_ends_tls_the_cookie_is_secure() -> None:
    app = make_app(FakeEngine(), origins=["https://ship.example"])
    async with Visitor(calling(app, headers={})) as browser:
        browser.origin = {"Origin": "https://ship.example"}
        assert (await browser.enter()).headers["set-cookie"].endswith("; Secure")


async def test_a_code_works_once(app: Application) -> None:
    async with Visitor.of(app) as first, Visitor.of(app) as second:
        code = await first.code()
        assert (await first.enter(code)).status_code == 200
        again = await second.enter(code)
        assert refused(again) == (401, "signed-out")
        assert again.json()["advice"] == "run: pilothouse open"
        assert "set-cookie" not in again.headers
        assert "www-authenticate" in again.headers


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"code": "made-up"}', 401),
        (b'{"code": "\\u00e9"}', 401),
        (b'{"code": ""}', 422),
        (b"{}", 422),
        (b"", 422),
        (b'{"code": "x", "more": 1}', 422),
        (b'{"code": "%s"}' % (b"x" * 300), 422),
        (b'{"code": "%s"}' % (b"x" * 5000), 413),
        (b"{" + b" " * (LIMIT + 1), 413),
        (b"nonsense", 400),
    ],
)
async def test_nothing_else_signs_anybody_in(browser: Visitor, body: bytes, status: int) -> None:
    headers = {**CONSOLE, **browser.origin}
    answer = await browser.http.post("/console/enter", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert not browser.cookie


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Origin": "http://localhost"}, 403, "no-console-header"),
        ({"Origin": "http://localhost", "Pilothouse-Console": "0"}, 403, "no-console-header"),
        (CONSOLE, 403, "no-origin"),
        ({**CONSOLE, "Origin": "null"}, 403, "foreign-origin"),
        ({**CONSOLE, "Origin": "http://localhost:81"}, 403, "foreign-origin"),
        ({**CONSOLE, "Origin": "http://localhost", "Host": "evil.example"}, 421, "foreign-host"),
    ],
)
async def test_no_page_of_another_site_signs_a_browser_in(
    browser: Visitor, headers: dict[str, str], status: int, code: str
) -> None:
    good = await browser.code()
    answer = await browser.http.post("/console/enter", json={"code": good}, headers=headers)
    assert refused(answer) == (status, code)
    # What was refused has not used the code up.
    assert (await browser.enter(good)).status_code == 200


async def test_a_restart_keeps_people_signed_in(tmp_path: Path) -> None:
    file = tmp_path / "browsers.json"
    async with Visitor.of(make_app(FakeEngine(), console=make_console(file))) as browser:
        await browser.enter()
        cookies = browser.http.cookies
    async with Visitor.of(make_app(FakeEngine(), console=make_console(file))) as browser:
        browser.http.cookies = cookies
        assert (await browser.get("/api/sessions")).status_code == 200


# What a cookie alone does not open


@pytest.mark.parametrize(
    ("method", "headers", "status", "code"),
    [
        ("GET", {}, 403, "no-console-header"),
        ("HEAD", {}, 403, "no-console-header"),
        ("GET", {"Pilothouse-Console": ""}, 403, "no-console-header"),
        ("GET", {"Origin": "http://localhost"}, 403, "no-console-header"),
        ("GET", {**CONSOLE, "Origin": "http://evil.example"}, 403, "foreign-origin"),
        ("GET", {**CONSOLE, "Host": "evil.example"}, 421, "foreign-host"),
        ("POST", CONSOLE, 403, "no-origin"),
        ("POST", {"Origin": "http://localhost"}, 403, "no-console-header"),
        ("POST", {**CONSOLE, "Origin": "http://localhost:81"}, 403, "foreign-origin"),
        ("POST", {**CONSOLE, "Origin": "https://localhost"}, 403, "foreign-origin"),
        ("POST", {**CONSOLE, "Origin": "null"}, 403, "foreign-origin"),
        ("DELETE", CONSOLE, 403, "no-origin"),
        ("PUT", CONSOLE, 403, "no-origin"),
        ("OPTIONS", CONSOLE, 403, "no-origin"),
    ],
)
@pytest.mark.parametrize("path", ["/api/sessions", "/console/me", "/metrics", "/nope"])
async def test_a_cookie_alone_opens_nothing(
    browser: Visitor, path: str, method: str, headers: dict[str, str], status: int, code: str
) -> None:
    await browser.enter()
    answer = await browser.http.request(method, path, headers=headers)
    assert answer.status_code == status
    if method != "HEAD":
        assert refused(answer) == (status, code)


@pytest.mark.parametrize(
    ("value", "status"), [("", 401), ("x", 401), ("x" * 43, 401), ('"quoted"', 401)]
)
async def test_a_made_up_cookie_opens_nothing(browser: Visitor, value: str, status: int) -> None:
    given = {**CONSOLE, "Cookie": f"pilothouse-80={value}"}
    answer = await browser.http.get("/api/sessions", headers=given)
    assert refused(answer) == (status, "signed-out")
    assert answer.json()["advice"] == "run: pilothouse open"


async def test_a_cookie_of_another_port_is_not_ours(browser: Visitor) -> None:
    await browser.enter()
    value = browser.cookie.partition("=")[2]
    browser.http.cookies.clear()
    given = {**CONSOLE, "Cookie": f"pilothouse-81={value}; theme=dark"}
    assert refused(await browser.http.get("/api/sessions", headers=given)) == (401, "no-token")


async def test_a_cookie_that_another_server_planted_locks_nobody_out(browser: Visitor) -> None:
    await browser.enter()
    value = browser.cookie
    browser.http.cookies.clear()
    given = {**CONSOLE, "Cookie": f"a=b; pilothouse-80=planted; {value}"}
    assert (await browser.http.get("/api/sessions", headers=given)).status_code == 200


async def test_a_bearer_decides_where_there_is_one(browser: Visitor) -> None:
    await browser.enter()
    wrong = {**CONSOLE, "Authorization": "Bearer wrong"}
    assert refused(await browser.http.get("/api/sessions", headers=wrong)) == (401, "wrong-token")
    # With the token no header of the console's is needed.
    assert (await browser.http.get("/api/sessions", headers=BEARER)).status_code == 200


# WebSockets, and what is open when somebody leaves


async def socket(address: str, headers: dict[str, str]) -> Any:
    url = address.replace("http", "ws", 1) + "/api/ws"
    return await connect(url, additional_headers=headers, proxy=None)


@pytest.mark.parametrize(
    ("origin", "status"),
    [({}, 403), ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403)],
)
async def test_a_websocket_with_a_cookie_needs_an_origin_of_ours(
    app: Application, origin: dict[str, str], status: int
) -> None:
    async with served(app) as address, Visitor.at(address) as browser:
        await browser.enter()
        cookie = {"Cookie": browser.cookie}
        with pytest.raises(InvalidStatus) as no:
            await socket(address, {**cookie, **origin})
        assert no.value.response.status_code == status
        ours = await socket(address, {**cookie, **browser.origin})
        await ours.send('{"id": 1, "do": "health"}')
        async with asyncio.timeout(DEADLINE):
            assert '"done"' in [await ours.recv(), await ours.recv()][1]
        await ours.close()


async def test_a_websocket_is_for_those_who_are_signed_in(app: Application) -> None:
    async with served(app) as address, Visitor.at(address) as browser:
        await browser.enter()
        for path in ("/", "/console/enter"):
            with pytest.raises(InvalidStatus) as no:
                await connect(address.replace("http", "ws", 1) + path, proxy=None)
            assert no.value.response.status_code == 401


@pytest.mark.parametrize("everywhere", [False, True])
async def test_whoever_signs_out_has_nothing_open_any_more(
    app: Application, everywhere: bool
) -> None:
    async with (
        served(app) as address,
        Visitor.at(address) as first,
        Visitor.at(address) as second,
        asyncio.timeout(DEADLINE),
    ):
        sockets: list[Any] = []
        for each in (first, second):
            await each.enter()
            opened = await socket(address, {"Cookie": each.cookie, **each.origin})
            await opened.recv()
            sockets.append(opened)
        cookie = first.cookie
        stream = first.http.stream("GET", "/api/events/stream", headers=CONSOLE)
        async with stream as events:
            lines = events.aiter_lines()
            assert await anext(lines) == ": from 0"
            left = await first.post("/console/leave", {"everywhere": everywhere})
            assert left.json() == {"browsers": 2 if everywhere else 1}
            assert "Max-Age=0" in left.headers["set-cookie"]
            assert not first.cookie
            assert [each async for each in lines] == [""]
        with pytest.raises(ConnectionClosed):
            await sockets[0].recv()
        # Neither is there a way back with what a browser should have forgotten.
        given = {**CONSOLE, "Cookie": cookie}
        answer = await first.http.get("/console/me", headers=given)
        assert refused(answer) == (401, "signed-out")
        if everywhere:
            with pytest.raises(ConnectionClosed):
                await sockets[1].recv()
            assert refused(await second.get("/console/me")) == (401, "signed-out")
        else:
            await sockets[1].send('{"id": 1, "do": "health"}')
            assert '"done"' in await sockets[1].recv()
            assert (await second.get("/console/me")).status_code == 200
        for each in sockets:
            await each.close()


async def test_whoever_sends_without_a_pause_is_signed_out_as_well(app: Application) -> None:
    async with (
        served(app) as address,
        Visitor.at(address) as browser,
        asyncio.timeout(DEADLINE),
    ):
        await browser.enter()
        opened = await socket(address, {"Cookie": browser.cookie, **browser.origin})
        answered = asyncio.Event()

        async def flood() -> None:
            while True:
                await opened.send('{"id": 1, "do": "health"}')
                await asyncio.sleep(0)

        async def read() -> None:
            async for _ in opened:
                answered.set()

        both = asyncio.gather(flood(), read(), return_exceptions=True)
        await answered.wait()
        async with calling(app) as http:
            await http.post("/console/leave", json={"everywhere": True})
        await opened.wait_closed()
        assert opened.close_code == 1001
        assert isinstance((await both)[0], ConnectionClosed)


async def test_links_that_were_made_before_let_nobody_in_after_all_are_signed_out(
    app: Application,
) -> None:
    async with Visitor.of(app) as thief, Visitor.of(app) as owner:
        await thief.enter()
        made = (await thief.post("/api/console/links")).json()
        await owner.enter()
        await owner.post("/console/leave", {"everywhere": True})
        answer = await thief.enter(made["url"].partition("#enter=")[2])
    assert refused(answer) == (401, "signed-out")


async def test_a_cookie_is_for_the_pages_that_it_was_given_to() -> None:
    app = make_app(FakeEngine(), origins=["http://localhost:3000"])
    async with served(app) as address, Visitor.at(address) as browser:
        await browser.enter()
        # An origin that may ask with the token, of the same host: browsers send it the cookie.
        other = {"Origin": "http://localhost:3000"}
        given = {**CONSOLE, **other}
        answer = await browser.http.post("/api/sessions/stop", headers=given)
        assert refused(answer) == (403, "foreign-origin")
        with pytest.raises(InvalidStatus) as no:
            await socket(address, {"Cookie": browser.cookie, **other})
        assert no.value.response.status_code == 403
        # With the token it may.
        answer = await browser.http.get("/api/sessions", headers={**BEARER, **other})
        assert answer.status_code == 200


async def test_a_link_in_a_browser_that_is_signed_in_signs_it_in_once(app: Application) -> None:
    async with Visitor.of(app) as browser:
        for _ in range(3):
            assert (await browser.enter()).status_code == 200
        left = await browser.post("/console/leave", {"everywhere": True})
    assert left.json() == {"browsers": 1}


async def test_whoever_has_the_token_can_sign_everybody_out(
    app: Application, browser: Visitor
) -> None:
    await browser.enter()
    async with calling(app) as http:
        assert refused(await http.get("/console/me")) == (401, "signed-out")
        assert (await http.post("/console/leave")).json() == {"browsers": 0}
        assert (await browser.get("/console/me")).status_code == 200
        everywhere = {"everywhere": True}
        assert (await http.post("/console/leave", json=everywhere)).json() == {"browsers": 1}
    assert refused(await browser.get("/console/me")) == (401, "signed-out")


async def test_a_stranger_signs_nobody_out(app: Application, browser: Visitor) -> None:
    await browser.enter()
    async with Visitor.of(app) as stranger:
        answer = await stranger.post("/console/leave", {"everywhere": True})
    assert refused(answer) == (401, "no-token")
    assert (await browser.get("/console/me")).status_code == 200


# Strangers, and the log


async def test_a_browser_is_a_stranger_until_it_has_signed_in(app: Application) -> None:
    admitted: list[str] = []

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope["state"] = {"pilothouse.admit": lambda: admitted.append(scope["path"])}
        await app(scope, receive, send)

    application: Any = noting
    async with Visitor(calling(application, headers={})) as browser:
        for path in ("/", "/sw.js", "/console/me"):
            await browser.get(path)
        await browser.enter("wrong")
        assert admitted == []
        await browser.enter()
        assert admitted == ["/api/console/links", "/console/enter"]
        await browser.get("/console/me")
        assert admitted[2:] == ["/console/me"]


async def test_no_cookie_and_no_code_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    engine = FakeEngine()
    with caplog.at_level(logging.DEBUG):
        async with (
            served(make_app(engine)) as address,
            Visitor.at(address) as browser,
        ):
            code = await browser.code()
            await browser.enter(code)
            await browser.enter(code)
            engine.raises = RuntimeError("it broke")
            assert (await browser.post("/api/sessions/stop")).status_code == 500
            cookie = browser.cookie.partition("=")[2]
            assert (await browser.post("/console/leave")).status_code == 200
    # The client's own lines are not the server's.
    ours = [each for each in caplog.records if each.name.startswith(("pilothouse", "uvicorn"))]
    shown = "\n".join(map(logging.Formatter().format, ours))
    assert "nobody foresaw" in shown
    assert len(cookie) == 43
    assert code not in shown
    assert cookie not in shown
