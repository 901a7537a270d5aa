"""The page as it was built: its files, read once, with the headers each is sent with.

They hold no data, so they are for everybody who calls the server by its name. What is served are
the names that were found when they were read; no path of a caller's reaches the disk.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pilothouse.faces.http.compression import takes_gzip
from pilothouse.faces.http.entrance import headers
from pilothouse.faces.http.responses import HttpAnswer

if TYPE_CHECKING:
    from starlette.types import Scope

__all__ = ["DIST", "MISSING", "PAGE_PATHS", "PREFIXES", "SINGLE", "PageFiles"]

DIST: Final = Path(__file__).parent / "dist"
"""Where the build puts it; not there where nothing was built."""
INDEX: Final = "index.html"
SINGLE: Final = {"/": INDEX, "/manifest.webmanifest": "manifest.webmanifest", "/sw.js": "sw.js"}
FOLDERS: Final = ("assets", "icons")
PREFIXES: Final = tuple(f"/{folder}/" for folder in FOLDERS)
"""With what the paths of all other files begin."""
PAGE_PATHS: Final = (*SINGLE, *(f"/{folder}/{{name}}" for folder in FOLDERS))

MISSING: Final = (
    "no console was built: run ./scripts/start in a source tree; where it cannot build one, it"
    " says why"
)
NO_PAGE: Final = f"""\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Pilothouse</title></head>
<body>
<h1>Pilothouse</h1>
<p>The server runs, but {MISSING.replace("./scripts/start", "<code>./scripts/start</code>")}.</p>
</body>
</html>
"""

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        # Browsers count WebSockets of the same host and port among it.
        "connect-src 'self'",
        "manifest-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        # The URL of a service worker is a script's: it has to pass a policy.
        "trusted-types pilothouse-sw",
    )
)
NO_NEED: Final = (
    *("accelerometer", "camera", "clipboard-read", "display-capture", "geolocation", "gyroscope"),
    *("hid", "magnetometer", "microphone", "midi", "payment", "serial", "usb"),
    "xr-spatial-tracking",
)
HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", ", ".join(f"{each}=()" for each in NO_NEED).encode()),
)
FOREVER: Final = b"public, max-age=31536000, immutable"
ASK_AGAIN: Final = b"no-cache"

TEXTS: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
}
BINARIES: Final = {
    ".ico": "image/x-icon",
    ".png": "image/png",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
UNKNOWN: Final = "application/octet-stream"


class _Form(NamedTuple):
    """A file in one of its forms."""

    body: bytes
    tag: str
    headers: tuple[tuple[bytes, bytes], ...]


class PageFile:
    """One file of the page, plain and compressed."""

    def __init__(self, name: str, body: bytes, *, is_lasting: bool) -> None:
        """`is_lasting`: what is in it decides its name, so nobody need ask for it again."""
        suffix = Path(name).suffix
        self._media = TEXTS.get(suffix) or BINARIES.get(suffix, UNKNOWN)
        self._lasts = FOREVER if is_lasting else ASK_AGAIN
        tag = hashlib.sha256(body).hexdigest()[:32]
        packed = gzip.compress(body, mtime=0) if suffix in TEXTS else body
        self._is_packed = len(packed) < len(body)
        self._plain = self._form(body, tag)
        self._gzip = self._form(packed, f"{tag}-gzip", (b"content-encoding", b"gzip"))

    def _form(self, body: bytes, tag: str, *more: tuple[bytes, bytes]) -> _Form:
        vary = ((b"vary", b"accept-encoding"),) if self._is_packed else ()
        shared = (b"cache-control", self._lasts), (b"etag", f'"{tag}"'.encode())
        return _Form(body, tag, (*HEADERS, *shared, *vary, *more))

    def answer(self, scope: Scope) -> HttpAnswer:
        """The file as the caller takes it, or that it has it already."""
        form = self._gzip if self._is_packed and takes_gzip(scope) else self._plain
        if _has(scope, self._plain.tag, self._gzip.tag):
            kept = tuple(each for each in form.headers if each[0] != b"content-encoding")
            return HttpAnswer(b"", media="", status=304, headers=kept)
        return HttpAnswer(form.body, media=self._media, headers=form.headers)


INSTEAD: Final = PageFile(INDEX, NO_PAGE.encode(), is_lasting=False)


class PageFiles:
    """The files of one build, by their paths; read once, when they are there."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder`: another one than the build's."""
        self._folder = DIST if folder is None else folder
        self._files: dict[str, PageFile] | None = None
        self._reading = asyncio.Lock()

    def is_built(self) -> bool:
        """Return whether there is a page at all."""
        return (self._folder / INDEX).is_file()

    async def find(self, path: str) -> PageFile | None:
        """Return the file of a path, if there is one."""
        if self._files is None:
            async with self._reading:
                if self._files is None:
                    self._files = await asyncio.to_thread(_read, self._folder)
        if self._files is None:
            return INSTEAD if path == "/" else None
        return self._files.get(path)


def _read(folder: Path) -> dict[str, PageFile] | None:
    """Return them all, or None as long as they are not built."""
    if not (folder / INDEX).is_file():
        return None
    return {
        path: PageFile(file.name, file.read_bytes(), is_lasting=path.startswith("/assets/"))
        for path, file in _listed(folder)
    }


def _listed(folder: Path) -> Iterator[tuple[str, Path]]:
    for path, name in SINGLE.items():
        if (folder / name).is_file():
            yield path, folder / name
    for name in FOLDERS:
        if (folder / name).is_dir():
            for file in sorted((folder / name).iterdir()):
                if file.is_file():
                    yield f"/{name}/{file.name}", file


def _has(scope: Scope, *tags: str) -> bool:
    given = [each.strip() for line in headers(scope, b"if-none-match") for each in line.split(",")]
    return "*" in given or any(each.removeprefix("W/").strip('"') in tags for each in given)
