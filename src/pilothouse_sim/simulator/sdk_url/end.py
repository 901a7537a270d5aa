"""The end itself: dials, dials again, replays what may be lost, and keeps the line alive."""

from __future__ import annotations

import asyncio
from collections import deque
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from pilothouse_sim.simulator.flags import BadFlag
from pilothouse_sim.simulator.sdk_url.clock import WallClock, within
from pilothouse_sim.simulator.sdk_url.dialect import Backoff, choose
from pilothouse_sim.simulator.sdk_url.poster import Poster, post_url

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from pilothouse_sim.simulator.sdk_url.clock import Clock
    from pilothouse_sim.simulator.sdk_url.dialect import Dialect
    from pilothouse_sim.simulator.sdk_url.link import SdkUrlLink
    from pilothouse_sim.simulator.wire_ends import WireListener

__all__ = ["SdkUrlEnd"]

_KEEP_ALIVE: Final = '{"type":"keep_alive"}\n'
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_HANG_UP_GRACE: Final = 2.0


class _Head(msgspec.Struct, frozen=True):
    """What the end reads of a message that passes through it."""

    type: str = ""
    uuid: str | None = None


class SdkUrlEnd:
    """A CLI's end of the wire that dials `url`, as `--sdk-url` of the older CLIs does.

    The environment is read anew at each dial and POST, so that a token that was replaced counts.
    """

    def __init__(
        self,
        url: str,
        *,
        environment: Mapping[str, str],
        dialect: Dialect | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._url = url
        self._environment = environment
        self._dialect = dialect or choose(environment)
        self._clock = clock or WallClock()
        self._token = _read_token(environment)
        self._kept: deque[str] = deque(maxlen=self._dialect.replayed)
        self._last_id: str | None = None
        self._listener: WireListener | None = None
        self._link: SdkUrlLink | None = None
        self._running: asyncio.Task[None] | None = None
        self._poster: Poster | None = None
        if environment.get("CLAUDE_CODE_POST_FOR_SESSION_INGRESS_V2", "").strip().lower() in _TRUE:
            self._poster = Poster(self._post, self._dialect, self._clock)

    async def start(self, listener: WireListener) -> None:
        """Begin to dial. The connection opens later, if ever; what is written may come before."""
        _require_websockets()
        self._listener = listener
        if self._poster is not None:
            self._poster.start()
        self._running = asyncio.create_task(self._run())
        # Measured: whoever gives up, for whatever reason, finishes its turn and exits with 0.
        self._running.add_done_callback(self._note_end)

    def write(self, data: bytes) -> None:
        """Send each line as a frame of its own, or hand it to the POSTs."""
        for line in data.removesuffix(b"\n").split(b"\n"):
            head = _read_head(line)
            if self._poster is not None:
                self._poster.write(head.type, line)
            else:
                self._send(line.decode(errors="replace") + "\n", head.uuid)

    async def aclose(self) -> None:
        """Let everything through that can be, then close with code 1000."""
        poster, self._poster = self._poster, None
        if poster is not None:
            await within(self._clock, self._dialect.closing_grace, poster.flush())
            await poster.aclose()
        link = self._link
        if self._running is not None:
            await _stop(self._running)
        if link is not None:
            link.close()
            await within(self._clock, _HANG_UP_GRACE, link.wait_closed())
            link.abort()

    def _send(self, line: str, uuid: str | None) -> None:
        # Only messages with a uuid are kept: a permission request has none and is never replayed.
        if uuid is not None:
            self._kept.append(line)
            self._last_id = uuid
        if self._link is not None:
            self._link.send(line)

    # -- the connection

    def link_opened(self, link: SdkUrlLink) -> None:
        """Send again what may have been lost, then what comes."""
        # Measured: the whole buffer goes, whatever the server says it has; servers drop what
        # they know by its uuid.
        for line in self._kept:
            link.send(line)
        self._link = link

    def data_received(self, data: bytes) -> None:
        """Hand the server's bytes on."""
        assert self._listener is not None
        self._listener.data_received(data)

    async def _run(self) -> None:
        backoff = Backoff(self._dialect, self._clock)
        delay: float | None = 0.0 if _is_websocket(self._url) else None
        while delay is not None:
            if delay:
                await self._clock.sleep(delay)
            delay = await self._visit(backoff)

    def _note_end(self, running: asyncio.Task[None]) -> None:
        if not running.cancelled() and self._listener is not None:
            self._listener.eof_received()

    async def _visit(self, backoff: Backoff) -> float | None:
        """Be connected once; how long to wait before the next time, or None to give up."""
        from pilothouse_sim.simulator.sdk_url.link import (  # websockets: only if it dials
            LinkRefused,
            dial,
        )

        try:
            link = await dial(self._url, self._headers(), self, self._tls)
        except LinkRefused:
            permanent = self._dialect.refusal_is_permanent
            return None if permanent else backoff.next_delay(opened=False)
        except OSError:
            return backoff.next_delay(opened=False)
        backoff.reset()
        code = await self._stay(link)
        return None if code in self._dialect.permanent_codes else backoff.next_delay(opened=True)

    async def _stay(self, link: SdkUrlLink) -> int:
        """Keep an open connection alive until it closes; its close code."""
        beats = [asyncio.create_task(beat(link)) for beat in (self._ping, self._keep_alive)]
        try:
            return await link.wait_closed()
        finally:
            self._link = None
            for beat in beats:
                beat.cancel()
            await asyncio.gather(*beats, return_exceptions=True)

    async def _ping(self, link: SdkUrlLink) -> None:
        if self._dialect.ping_every is None:
            return
        while True:
            await self._clock.sleep(self._dialect.ping_every)
            if not link.heard_pong:
                link.close()
                # A peer that does not answer may not read either: wait for nothing.
                link.abort()
                return
            link.ping()

    async def _keep_alive(self, link: SdkUrlLink) -> None:
        if self._dialect.keep_alive_every is None:
            return
        while True:
            await self._clock.sleep(self._dialect.keep_alive_every)
            link.send(_KEEP_ALIVE)

    # -- what it tells the server about itself

    def _headers(self) -> dict[str, str]:
        headers = self._authorization()
        if self._last_id is not None:
            headers["X-Last-Request-Id"] = self._last_id
        runner = self._environment.get("CLAUDE_CODE_ENVIRONMENT_RUNNER_VERSION")
        if runner:
            headers["x-environment-runner-version"] = runner
        return headers

    def _authorization(self) -> dict[str, str]:
        token = self._environment.get("CLAUDE_CODE_SESSION_ACCESS_TOKEN") or self._token
        return {"Authorization": f"Bearer {token}"} if token else {}

    async def _post(self, body: bytes) -> int | None:
        headers = self._authorization()
        if not headers:
            # Measured: without a token nothing is posted, and nothing is said about it.
            return 200
        from pilothouse_sim.simulator.sdk_url.http import post  # only the hybrid way needs it

        return await post(post_url(self._url), headers, body, self._tls)

    def _tls(self) -> ssl.SSLContext:
        import ssl  # costs some milliseconds; only wss:// needs it

        context = ssl.create_default_context()
        extra = self._environment.get("NODE_EXTRA_CA_CERTS")
        if extra:
            context.load_verify_locations(cafile=extra)
        return context


def _require_websockets() -> None:
    if find_spec("websockets") is None:
        raise BadFlag("pilothouse-sim: --sdk-url needs the package websockets")


async def _stop(running: asyncio.Task[None]) -> None:
    running.cancel()
    await asyncio.wait({running})
    if not running.cancelled():
        running.result()


def _read_head(line: bytes) -> _Head:
    try:
        return msgspec.json.decode(line, type=_Head)
    except msgspec.DecodeError:
        return _Head()


def _read_token(environment: Mapping[str, str]) -> str | None:
    """The token from the file descriptor the environment names; an unreadable one is none."""
    number = environment.get("CLAUDE_CODE_WEBSOCKET_AUTH_FILE_DESCRIPTOR", "")
    if not number.isdecimal():
        return None
    try:
        return Path(f"/dev/fd/{number}").read_text().strip() or None
    except OSError:
        return None


def _is_websocket(url: str) -> bool:
    try:
        parts = urlsplit(url)
        usable = parts.port != 0
    except ValueError:
        return False
    return usable and parts.scheme in ("ws", "wss") and bool(parts.hostname) and not parts.fragment
