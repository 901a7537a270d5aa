"""The browsers that are signed in, on disk, with what proves them: a hash of each one's cookie.

A cookie is 256 random bits, so one round of a hash hides it as well as many would, and the hash
can be looked up: however many browsers there are, a request costs one round.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from pilothouse.errors import ServerError
from pilothouse.folders import replace_private

__all__ = ["FILE_NAME", "LASTS_S", "Browser", "Browsers"]

FILE_NAME: Final = "browsers.json"
COOKIE_BYTES: Final = 32
COOKIE_LENGTH: Final = 43
"""Characters of so many bytes in base64url."""
LASTS_S: Final = 30 * 24 * 3600
MOST: Final = 50
"""With one more, the one that was not used for longest is signed out."""

log = logging.getLogger(__name__)


class _Entry(msgspec.Struct, frozen=True):
    """A browser as the file has it."""

    since: int
    used_at: int
    origin: str


class Browser:
    """A browser that is signed in, for the pages of one origin."""

    def __init__(self, since: int, used_at: int, origin: str) -> None:
        self.since = since
        self.used_at = used_at
        self.origin = origin
        self._has_left = False
        self._left: asyncio.Future[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def expires_at(self) -> int:
        """When its cookie ends, in milliseconds."""
        return self.since + LASTS_S * 1000

    @property
    def left(self) -> asyncio.Future[None]:
        """Done when it is signed out, or its cookie ends: whatever it has open ends then."""
        if self._left is None:
            loop = asyncio.get_running_loop()
            self._left = loop.create_future()
            self._expiry = loop.call_later((self.expires_at - _now()) / 1000, self.leave)
            if self._has_left:
                self.leave()
        return self._left

    def leave(self) -> None:
        """Note that it is signed out."""
        self._has_left = True
        if self._expiry is not None:
            self._expiry.cancel()
        if self._left is not None and not self._left.done():
            self._left.set_result(None)


class Browsers:
    """Every change is on disk when the call returns; of when each was last used, at `save`."""

    def __init__(self, file: Path | None = None, *, most: int = MOST) -> None:
        """`file`: where they are stored; nowhere if left out."""
        self._file = file
        self._most = most
        self._browsers = {} if file is None else _read(file)
        self._write = asyncio.Lock()
        self._is_behind = False
        """The file has others than are signed in: a disk did not take them."""

    def __len__(self) -> int:
        return len(self._browsers)

    def find(self, cookie: str) -> Browser | None:
        """Return whose cookie this is, and note that it was used."""
        if len(cookie) != COOKIE_LENGTH:
            return None
        hashed = _hash(cookie)
        browser = self._browsers.get(hashed)
        if browser is None:
            return None
        now = _now()
        if browser.expires_at <= now:
            self._browsers.pop(hashed).leave()
            return None
        browser.used_at = now
        return browser

    async def add(self, origin: str, before: Iterable[str] = ()) -> tuple[str, Browser]:
        """Sign a browser in: its cookie, which nobody is told again, and what is known of it.

        `before`: the cookies that it had; they are good for nothing any more.
        """
        for each in before:
            if (known := self._browsers.pop(_hash(each), None)) is not None:
                known.leave()
        cookie, now = secrets.token_urlsafe(COOKIE_BYTES), _now()
        browser = self._browsers[_hash(cookie)] = Browser(now, now, origin)
        while len(self._browsers) > self._most:
            oldest = min(self._browsers, key=lambda each: self._browsers[each].used_at)
            self._browsers.pop(oldest).leave()
        try:
            await self.save()
        except ServerError as error:
            # A cookie that the next server would not know is none.
            self._browsers.pop(_hash(cookie), None)
            raise ServerError(f"{error}; then use another link: pilothouse open") from None
        return cookie, browser

    async def remove(self, leaving: Browser) -> int:
        """Sign one out, and return how many that were."""
        kept = {name: each for name, each in self._browsers.items() if each is not leaving}
        return await self._keep(kept)

    async def remove_all(self) -> int:
        """Sign everybody out, and return how many there were."""
        return await self._keep({})

    async def _keep(self, kept: dict[str, Browser]) -> int:
        gone = [each for name, each in self._browsers.items() if name not in kept]
        # First here, so that nobody comes in while the disk is waited for.
        self._browsers = kept
        for browser in gone:
            browser.leave()
        try:
            await self.save()
        except ServerError as error:
            again = "or a restart lets in again who is signed out now; to delete the file helps too"
            raise ServerError(f"{error}, {again}") from None
        return len(gone)

    async def aclose(self) -> None:
        """Write what the disk did not take before, and when each was last used."""
        if self._browsers or self._is_behind:
            await self.save()

    async def save(self) -> None:
        """Write them as they are now. A disk that takes none of it is a `ServerError`."""
        if self._file is None:
            return
        self._is_behind = True
        async with self._write:
            entries = {
                name: _Entry(each.since, each.used_at, each.origin)
                for name, each in self._browsers.items()
            }
            content = msgspec.json.format(msgspec.json.encode(entries, order="sorted"))
            try:
                await asyncio.to_thread(replace_private, self._file, content + b"\n")
            except OSError as error:
                told = f"who is signed in cannot be written to {self._file}: {error.strerror}"
                raise ServerError(f"{told}; see to its disk") from error
            self._is_behind = False


def _hash(cookie: str) -> str:
    return hashlib.sha256(cookie.encode(errors="replace")).hexdigest()


def _now() -> int:
    return int(time.time() * 1000)


def _read(file: Path) -> dict[str, Browser]:
    """Those the file has. One that cannot be read signs everybody out, and prevents no start."""
    try:
        entries = msgspec.json.decode(file.read_bytes(), type=dict[str, _Entry])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        log.warning("everybody is signed out: %s cannot be read: %s", file, reason)
        return {}
    return {name: Browser(each.since, each.used_at, each.origin) for name, each in entries.items()}
