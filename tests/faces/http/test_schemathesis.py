"""Requests made up from the OpenAPI document, with the engine and the simulator behind it.

None makes the server fail, and every answer is as the document says.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import schemathesis
from hypothesis import settings
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from pilothouse.api.operations import OPERATIONS
from pilothouse.api.problems import CODES
from pilothouse.api.requests import Say, Start
from pilothouse.engine.engine import SessionEngine
from pilothouse.faces.http.document import make_document
from pilothouse.settings import load
from pilothouse_sim.clis import SimulatedCLI
from pilothouse_sim.plugin import SimulatedCLIMaker
from tests.support.http.serving import BEARER, make_app, served

# The engine refuses, with 422, values that fit the document: a directory that is not there.
NOT_OURS = [positive_data_acceptance]
DEADLINE = 60
FORESEEN = {(each.method, each.path): each.errors for each in OPERATIONS}
EVERYWHERE = {"usage"}


class Place(NamedTuple):
    """A server, and what there is behind it."""

    address: str
    session_id: str
    question_id: str
    cwd: str


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place]:
    """A server in a thread: its event loop has to outlive each of the tests."""
    with ExitStack() as stack:
        cli = SimulatedCLIMaker(tmp_path_factory, stack)(strict=False)
        server = _Server(cli, tmp_path_factory.mktemp("operator"))
        thread = threading.Thread(target=asyncio.run, args=[server.serve()])
        thread.start()
        try:
            assert server.up.wait(DEADLINE)
            yield server.place
        finally:
            server.stop()
            thread.join(DEADLINE)


class _Server:
    """An engine with a session that asked something, over HTTP."""

    place: Place

    def __init__(self, cli: SimulatedCLI, folder: Path) -> None:
        self._cli = cli
        self._folder = folder
        self._down = asyncio.Event()
        self.up = threading.Event()

    async def serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        env = {
            "HOME": str(self._folder),
            "CLAUDE_CONFIG_DIR": str(self._cli.home / ".claude"),
        }
        options = self._cli.options()
        engine = await SessionEngine.open(
            # An ask from a folder that happens to be there would wait for its answer.
            load(env=env, flags={"allowed_roots": [str(self._cli.cwd)]}),
            cli_path=options.cli_path,
            env=options.env,
            inherit_env=False,
            simulated=True,
        )
        try:
            async with served(make_app(engine, stream_seconds=0.01)) as address:
                self.place = await self._begin(engine, address)
                self.up.set()
                await self._down.wait()
        finally:
            await engine.aclose()

    async def _begin(self, engine: SessionEngine, address: str) -> Place:
        cwd = str(self._cli.cwd)
        started = await engine.start(Start(prompt="run a permission", cwd=cwd))
        async with asyncio.timeout(DEADLINE):
            async for _ in engine.watch(0, session_id=started.session_id):
                status = await engine.status(started.session_id)
                if status.state in {"done", "awaiting_input"}:
                    break
        await engine.say(started.session_id, Say(content="more"))
        questions = [*await engine.questions(state="any")]
        return Place(address, started.session_id, questions[0].id if questions else "q", cwd)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._down.set)


# Nothing but a WebSocket can be had from these paths.
made_up = schemathesis.openapi.from_dict(make_document("1.2.3")).exclude(path_regex="/ws$")


@made_up.parametrize()
@settings(max_examples=settings().max_examples // 5)
def test_what_fits_the_document_is_answered_as_it_says(case: Any, place: Place) -> None:
    # What is wrong with a case may be the token, which is ours.
    unsure = [*NOT_OURS, negative_data_rejection] if has_wrong_headers(case) else NOT_OURS
    answer = case.call_and_validate(base_url=place.address, headers=BEARER, excluded_checks=unsure)
    assert_foreseen(case, answer)
    if aim(case, place):
        # What is wrong with a case may be what was replaced.
        unsure = [*NOT_OURS, negative_data_rejection]
        answer = case.call_and_validate(
            base_url=place.address, headers=BEARER, excluded_checks=unsure
        )
        assert_foreseen(case, answer)
        if answer.status_code == 201:
            stop(place, answer.json()["session_id"])


def has_wrong_headers(case: Any) -> bool:
    made = case.meta.components.get(ParameterLocation.HEADER)
    return made is not None and made.mode.is_negative


def assert_foreseen(case: Any, answer: Any) -> None:
    """A problem of the engine's is one that the table of operations names."""
    if answer.status_code < 400 or (case.method, case.path) not in FORESEEN:
        return
    told = answer.json()
    if told.get("code") in CODES:
        assert told["code"] in FORESEEN[case.method, case.path] | EVERYWHERE, told


def stop(place: Place, session_id: str) -> None:
    """As many CLIs as allowed would soon be alive, and everything else refused."""
    url = f"{place.address}/api/sessions/{session_id}/stop"
    assert httpx.post(url, headers=BEARER, trust_env=False).status_code == 200


def aim(case: Any, place: Place) -> bool:
    """Point a case at what is there; whether that changed it."""
    given = case.path_parameters or {}
    there = {"session_id": place.session_id, "question_id": place.question_id}
    found = {name: value for name, value in there.items() if name in given}
    case.path_parameters = {**given, **found}
    if isinstance(case.body, dict) and "cwd" in case.body:
        case.body = {**case.body, "cwd": place.cwd}
        if "tool_use_id" in case.body:
            # Nobody answers it, or one that is made up later.
            case.body |= {"wait_s": 0, "session_id": str(uuid.uuid4())}
        return True
    return bool(found)
