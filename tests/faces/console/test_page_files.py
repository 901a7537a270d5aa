"""The page as it is served: to everybody who calls the server by its name."""

from __future__ import annotations

import gzip
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.http.fake_engine import FakeEngine
from tests.support.http.serving import calling, make_app, make_console

SCRIPT = "console.log('ahoy');" * 200
FILES = {
    "index.html": "<!doctype html><title>Pilothouse</title>" + " " * 500,
    "manifest.webmanifest": '{"name": "Pilothouse"}',
    "sw.js": "// a service worker",
    "assets/index-4f3a.js": SCRIPT,
    "assets/index-99bc.css": "body { margin: 0 }" * 50,
    "icons/icon-192.png": "\x89PNG" + "a" * 2000,
    "secret.txt": "not of the page",
    "assets/deeper/more.js": "not of the page",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types pilothouse-sw"
)


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
async def http(dist: Path) -> AsyncGenerator[httpx.AsyncClient]:
    async with calling(visited(dist), headers={"Accept-Encoding": "identity"}) as client:
        yield client


def visited(folder: Path) -> Any:
    return make_app(FakeEngine(), console=make_console(folder=folder))


@pytest.mark.parametrize(
    ("path", "name", "media"),
    [
        ("/", "index.html", "text/html; charset=utf-8"),
        ("/manifest.webmanifest", "manifest.webmanifest", "application/manifest+json"),
        ("/sw.js", "sw.js", "text/javascript; charset=utf-8"),
        ("/assets/index-4f3a.js", "assets/index-4f3a.js", "text/javascript; charset=utf-8"),
        ("/assets/index-99bc.css", "assets/index-99bc.css", "text/css; charset=utf-8"),
        ("/icons/icon-192.png", "icons/icon-192.png", "image/png"),
    ],
)
async def test_each_file_is_served_without_the_token(
    http: httpx.AsyncClient, dist: Path, path: str, name: str, media: str
) -> None:
    answer = await http.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, media)
    assert answer.content == (dist / name).read_bytes()
    head = await http.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert dict(head.headers) == dict(answer.headers)


@pytest.mark.parametrize("path", ["/", "/sw.js", "/assets/index-4f3a.js", "/icons/icon-192.png"])
async def test_what_the_page_may_do_is_little(http: httpx.AsyncClient, path: str) -> None:
    given = (await http.get(path)).headers
    assert given["content-security-policy"] == POLICY
    assert given["x-content-type-options"] == "nosniff"
    assert given["referrer-policy"] == "no-referrer"
    assert given["cross-origin-opener-policy"] == "same-origin"
    assert given["cross-origin-resource-policy"] == "same-origin"
    assert "camera=()" in given["permissions-policy"].split(", ")


async def test_only_what_is_named_by_its_content_is_kept_for_ever(http: httpx.AsyncClient) -> None:
    kept = {path: (await http.get(path)).headers["cache-control"] for path in ("/", "/sw.js")}
    assert kept == {"/": "no-cache", "/sw.js": "no-cache"}
    for path in ("/assets/index-4f3a.js", "/assets/index-99bc.css"):
        answer = await http.get(path)
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize("accepted", ["gzip", "br, gzip;q=0.5", "deflate,GZIP", "gzip; q=1.0"])
async def test_a_text_is_compressed_for_those_who_take_that(
    http: httpx.AsyncClient, accepted: str
) -> None:
    asked = {"Accept-Encoding": accepted}
    async with http.stream("GET", "/assets/index-4f3a.js", headers=asked) as answer:
        raw = b"".join([each async for each in answer.aiter_raw()])
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["vary"] == "accept-encoding"
    assert answer.headers["content-length"] == str(len(raw))
    assert gzip.decompress(raw).decode() == SCRIPT
    assert len(raw) < len(SCRIPT) / 10


@pytest.mark.parametrize("accepted", ["", "identity", "br", "gzip;q=0", "gzip; q=0.000", "x-gzip"])
async def test_nobody_else_gets_it_compressed(http: httpx.AsyncClient, accepted: str) -> None:
    answer = await http.get("/assets/index-4f3a.js", headers={"Accept-Encoding": accepted})
    assert "content-encoding" not in answer.headers
    assert answer.text == SCRIPT
    assert answer.headers["vary"] == "accept-encoding"


async def test_what_gets_no_smaller_is_not_compressed(http: httpx.AsyncClient) -> None:
    for path in ("/icons/icon-192.png", "/sw.js"):
        answer = await http.get(path, headers={"Accept-Encoding": "gzip"})
        assert "content-encoding" not in answer.headers


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', "*"])
async def test_what_a_browser_has_is_not_sent_again(http: httpx.AsyncClient, form: str) -> None:
    for accepted in ("identity", "gzip"):
        asked = {"Accept-Encoding": accepted}
        tag = (await http.get("/", headers=asked)).headers["etag"]
        again = await http.get("/", headers={**asked, "If-None-Match": form.format(tag)})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
        assert again.headers["cache-control"] == "no-cache"
        assert "content-type" not in again.headers
    other = await http.get("/", headers={"If-None-Match": '"other"'})
    assert other.status_code == 200


async def test_each_form_of_a_file_has_a_tag_of_its_own(http: httpx.AsyncClient) -> None:
    tags = {
        (await http.get("/", headers={"Accept-Encoding": each})).headers["etag"]
        for each in ("gzip", "identity")
    }
    assert len(tags) == 2


@pytest.mark.parametrize(
    "path",
    [
        "/secret.txt",
        "/index.html",
        "/assets/none.js",
        "/assets/",
        "/assets/deeper/more.js",
        "/assets/deeper%2Fmore.js",
        "/assets/../secret.txt",
        "/assets/..%2fsecret.txt",
        "/assets/%2e%2e/secret.txt",
        "/assets/..%5csecret.txt",
        "/assets//index-4f3a.js",
        "/icons/%00",
        "/icons/link.png",
        "/sw.js/",
        "/assets/index-4f3a.js%0A",
    ],
)
async def test_no_name_leads_to_another_file(dist: Path, path: str) -> None:
    async with calling(visited(dist), headers={}) as http:
        request = http.build_request("GET", "/")
        # As it is written: a client would tidy it up.
        request.url = httpx.URL(scheme="http", host="localhost", raw_path=path.encode())
        answer = await http.send(request)
    assert answer.status_code in (401, 404), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] in ("no-such-path", "no-token")


async def test_the_files_are_read_once(http: httpx.AsyncClient, dist: Path) -> None:
    before = (await http.get("/")).text
    (dist / "index.html").write_text("changed")
    (dist / "assets/new.js").write_text("new")
    assert (await http.get("/")).text == before
    assert (await http.get("/assets/new.js")).status_code == 404


@pytest.mark.parametrize("path", ["/", "/sw.js", "/assets/index-4f3a.js"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [({"host": "evil.example"}, 421), ({"origin": "http://evil.example"}, 403)],
)
async def test_a_rebound_name_and_a_page_of_another_site_get_nothing(
    http: httpx.AsyncClient, path: str, headers: dict[str, str], status: int
) -> None:
    assert (await http.get(path, headers=headers)).status_code == status


async def test_nothing_can_be_done_there(http: httpx.AsyncClient) -> None:
    answer = await http.post("/", content=b"x")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")


async def test_without_a_build_the_page_says_how_to_make_one(tmp_path: Path) -> None:
    async with calling(visited(tmp_path / "none"), headers={}) as http:
        answer = await http.get("/")
        assert answer.status_code == 200
        assert answer.headers["content-security-policy"] == POLICY
        assert "<code>./scripts/start</code>" in answer.text
        assert "it says why" in answer.text
        assert "<script" not in answer.text
        assert (await http.get("/sw.js")).status_code == 404


async def test_a_page_that_is_built_under_a_server_is_shown(dist: Path, tmp_path: Path) -> None:
    late = tmp_path / "late"
    async with calling(visited(late), headers={}) as http:
        assert "no console was built" in (await http.get("/")).text
        late.symlink_to(dist)
        assert (await http.get("/")).text == FILES["index.html"]


async def test_a_build_of_links_to_files_is_one(dist: Path, tmp_path: Path) -> None:
    """Some installers link files in place of copying them."""
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "index.html").symlink_to(dist / "index.html")
    async with calling(visited(linked), headers={}) as http:
        assert (await http.get("/")).text == FILES["index.html"]
