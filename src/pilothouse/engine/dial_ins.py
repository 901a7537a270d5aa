"""CLIs that somebody starts by hand: each is expected at the door, and is a session once it came.

open ──> an address, a token, a command to paste          nothing is stored yet
the CLI dials ──> session.started, cli.started            a session like any other
nobody dials ──> the token expires
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import dataclass, replace
from typing import Final

from pilothouse.api.records import AnyRecord, SessionStarted
from pilothouse.api.requests import DialIn, SessionOptions
from pilothouse.api.results import DialInOpened, DialInWaiting
from pilothouse.client.launch import prepare
from pilothouse.doors.dial_in import shell_line
from pilothouse.errors import PilothouseError, UsageError

from .launch_options import asked_options, permitted_directory
from .services import Services
from .session_verbs import SessionVerbs
from .sessions import Sessions

__all__ = ["DialIns"]

MOST: Final = 100
"""How many CLIs may be expected at once."""
EXPIRED: Final = "nobody came with this token in time; ask for another"
CLOSED: Final = "the server has ended"

log = logging.getLogger("pilothouse")


@dataclass(frozen=True, slots=True)
class _Expected:
    request: DialIn
    record: SessionStarted
    expires_at: int
    timer: asyncio.TimerHandle


class DialIns:
    """Expects CLIs, and begins the sessions of those that come."""

    def __init__(self, services: Services, sessions: Sessions, verbs: SessionVerbs) -> None:
        self._services = services
        self._sessions = sessions
        self._verbs = verbs
        self._expected: dict[str, _Expected] = {}

    async def open(self, request: DialIn) -> DialInOpened:
        """Expect one CLI, and tell how to start it."""
        services = self._services
        services.recorder.check()
        if len(self._expected) >= MOST:
            raise UsageError(f"{MOST} CLIs are expected already; wait for some of them to expire")
        roots = services.settings.allowed_roots
        cwd = await asyncio.to_thread(permitted_directory, request.cwd, roots)
        record = SessionStarted(
            cwd=cwd,
            options=SessionOptions(mode=request.mode, model=request.model),
            label=request.label,
            caps=request.caps,
            simulated=services.simulated,
        )
        await self._verbs.check_start(record)
        session_id = str(uuid.uuid4())
        warning = await services.routes.dialling_trouble()
        argv, env = await asyncio.to_thread(self._launch, session_id, record)
        # From here on nothing waits: it is expected for as long as it is listed.
        url, token = services.routes.expect(session_id, lambda: self._came(session_id))
        expires_at = services.recorder.clock() + request.expires_s * 1000
        timer = asyncio.get_running_loop().call_later(
            request.expires_s, self._forget, session_id, EXPIRED
        )
        self._expected[session_id] = _Expected(request, record, expires_at, timer)
        return DialInOpened(
            session_id=session_id,
            url=url,
            token=token,
            command=shell_line(argv, url, token=token, cwd=cwd, env=env),
            expires_at=expires_at,
            warning=warning,
        )

    async def list(self) -> list[DialInWaiting]:
        """Those that have not come yet, oldest first."""
        return [
            DialInWaiting(
                session_id=session_id,
                cwd=each.record.cwd,
                expires_at=each.expires_at,
                label=each.request.label,
            )
            for session_id, each in self._expected.items()
        ]

    def close(self) -> None:
        """Expect nobody any more."""
        for session_id in list(self._expected):
            self._forget(session_id, CLOSED)

    def _launch(self, session_id: str, record: SessionStarted) -> tuple[list[str], dict[str, str]]:
        """The words that start the CLI, and its variables. Its settings stand in the words: a file
        of ours need not be there where it is started."""
        services = self._services
        options = asked_options(
            record.options,
            cwd=record.cwd,
            mode=record.options.mode,
            allow_bypass=services.gate.allowed,
            allowed_env=services.settings.allowed_env,
        )
        services.gate.check_options(options)
        asked = replace(
            options,
            session_id=session_id,
            inherit_env=False,
            permission_prompt_tool="stdio",
            include_partial_messages=services.settings.partials,
        )
        program = str(services.cli_path) if services.simulated and services.cli_path else "claude"
        launch = prepare(asked, command=[program])
        try:
            files = launch.read_files()
        finally:
            launch.clean_up()
        return [_inlined(each, files) for each in launch.argv], launch.env

    def _forget(self, session_id: str, because: str) -> None:
        expected = self._expected.pop(session_id)
        expected.timer.cancel()
        self._services.routes.expect_no_more(session_id, because)

    def _came(self, session_id: str) -> None:
        expected = self._expected.pop(session_id)
        expected.timer.cancel()
        self._services.tasks.spawn(self._begin(session_id, expected))

    async def _begin(self, session_id: str, expected: _Expected) -> None:
        """Store the session of a CLI that is at the door, and speak with it."""
        session = self._sessions.new(session_id)
        records: list[AnyRecord] = [expected.record]
        try:
            if expected.request.prompt:
                records.append(session.prompt(expected.request.prompt))
            self._services.spending.check(session.view)
            await session.cli.reserve()
            await self._sessions.write_new(session, records)
        except PilothouseError as refused:
            log.warning("a CLI that dialled in is sent away: %s", refused)
            self._services.routes.expect_no_more(session_id, str(refused))
        else:
            session.cli.start()


def _inlined(word: str, files: dict[str, str]) -> str:
    flag, _, value = word.partition("=")
    return f"{flag}={files[value]}" if value in files else word
