"""What a client can show; and forms in the results of calls, where there is no handshake."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from msgspec.structs import replace

from pilothouse import errors
from pilothouse.api.answers import Allow, Choose, Deny
from pilothouse.faces.mcp.elicitation import Taken, can_elicit, can_open_pages, required, take
from pilothouse.faces.mcp.engine_handle import EngineHandle
from pilothouse.faces.mcp.form_push import ClientStream, FormPush
from tests.support.asks import COLOUR, SAILS, asked, page, posed
from tests.support.mcp.elicited import (
    ACCEPT,
    BY,
    CANCEL,
    DECLINE,
    AskingEngine,
    ElicitingFace,
    FormPerson,
)
from tests.support.waiting import DEADLINE


@pytest.fixture
def engine() -> AskingEngine:
    return AskingEngine()


@pytest.fixture
def face(engine: AskingEngine) -> ElicitingFace:
    return ElicitingFace(engine)


async def waited(client: Client) -> str:
    result = await client.call_tool("wait", {})
    assert isinstance(result.content[0], types.TextContent)
    return result.content[0].text


MODERN = "2026-07-28"


async def test_a_waiting_call_asks_every_open_question(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    engine.ask()
    engine.ask(question=posed(asked(COLOUR)))

    async def answer(params: Any) -> Any:
        is_tool = "answer" in params.requested_schema["properties"]
        content: Any = {"answer": "deny"} if is_tool else {"q1_other": "Green"}
        return types.ElicitResult(action="accept", content=content)

    async with face.client(FormPerson(answer, answer), MODERN) as client:
        assert await waited(client) == ""
    assert sorted(engine.given, key=lambda each: each[0]) == [
        ("q-1", Deny(), BY),
        ("q-2", Choose(answers={"Which colour?": "Green"}), BY),
    ]


@pytest.mark.parametrize("dismissal", [DECLINE, CANCEL])
async def test_what_was_dismissed_is_not_asked_again_in_the_same_call(
    engine: AskingEngine, face: ElicitingFace, dismissal: types.ElicitResult
) -> None:
    engine.ask()
    person = FormPerson(dismissal, ACCEPT)
    async with face.client(person, MODERN) as client:
        assert await waited(client) == "q-1"
        assert len(person.seen) == 1
        assert await waited(client) == ""
    assert len(engine.given) == 1


async def test_what_did_not_fit_is_asked_once_more_with_the_reason(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    engine.ask()
    wrong = types.ElicitResult(action="accept", content={"answer": "perhaps"})
    person = FormPerson(wrong, wrong, ACCEPT)
    async with face.client(person, MODERN) as client:
        assert await waited(client) == "q-1"
    assert len(person.seen) == 2
    assert person.seen[1].message.startswith("That was not taken: `answer` is one of allow")


async def test_what_did_not_fit_at_first_may_fit_then(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    engine.ask()
    person = FormPerson(types.ElicitResult(action="accept"), ACCEPT)
    async with face.client(person, MODERN) as client:
        assert await waited(client) == ""
    assert engine.given == [("q-1", Allow(), BY)]


async def test_a_late_answer_is_ignored(engine: AskingEngine, face: ElicitingFace) -> None:
    question = engine.ask()

    async def late(params: Any) -> Any:
        engine.close(question, state="answered")
        return ACCEPT

    async with face.client(FormPerson(late), MODERN) as client:
        assert await waited(client) == ""
    assert engine.given == []


async def test_only_questions_that_take_an_answer_are_required(engine: AskingEngine) -> None:
    question = engine.ask()
    dead = replace(question, id="dead", state="withdrawn")
    settled = replace(question, id="settled", state="withdrawn", decidable=False)
    formless = replace(question, id="formless", ways=[])
    assert list(required([dead, settled, formless, question], set())) == ["dead", "q-1"]
    assert required([question], ["q-1"]) == {}


async def test_a_page_is_required_as_one_of_clients_that_open_pages() -> None:
    assert required([page()], ())[page().id].params.mode == "form"
    asks = required([page()], (), pages=True)[page().id].params
    assert isinstance(asks, types.ElicitRequestURLParams)
    assert asks.url == "https://example.com/login"


async def taken(face: ElicitingFace, responses: Any, *asked: str) -> Taken:
    return await take(face.handle, responses, "tests", asked=asked, session_id="one")


async def test_only_what_was_asked_of_its_session_is_taken(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    engine.ask()
    engine.ask("another")
    other = types.ListRootsResult(roots=[])
    responses = {"q-1": ACCEPT, "q-2": ACCEPT, "q-99": ACCEPT, "q-98": other}
    assert await taken(face, responses) == (set(), set())
    assert await taken(face, responses, "q-2", "q-98", "q-99") == ({"q-98"}, set())
    assert engine.given == []
    assert await taken(face, None, "q-1") == ({"q-1"}, set())
    assert await taken(face, responses, "q-1") == (set(), set())
    assert engine.given == [("q-1", Allow(), BY)]


@pytest.mark.parametrize("form", [DECLINE, CANCEL])
async def test_a_form_that_was_closed_is_told_as_that(
    face: ElicitingFace, form: types.ElicitResult
) -> None:
    assert await taken(face, {"q-1": form}, "q-1") == ({"q-1"}, {"q-1"})


async def test_an_answer_that_fails_leaves_the_others_alone(
    engine: AskingEngine, face: ElicitingFace
) -> None:
    engine.ask()
    engine.ask()
    engine.fails = [errors.NotNow("the session is moving", advice="wait")]
    noted, closed = await taken(face, {"q-1": ACCEPT, "q-2": ACCEPT}, "q-1", "q-2")
    assert [each.split()[0] for each in noted] == ["q-1"]
    assert ("the session is moving" in noted.pop(), closed) == (True, set())
    assert [each[0] for each in engine.given] == ["q-2"]


async def test_an_engine_that_cannot_be_reached_is_noted(face: ElicitingFace) -> None:
    face.connects = [errors.ServerError("none can be reached")]
    noted, _ = await taken(face, {"q-1": ACCEPT}, "q-1")
    assert noted == {"q-1 none can be reached"}


# What a client can


def able(capability: types.ElicitationCapability | None, *, known: bool = True) -> Any:
    made = types.ClientCapabilities(elicitation=capability)
    return SimpleNamespace(client_capabilities=made if known else None)


@pytest.mark.parametrize(
    ("session", "forms", "pages"),
    [
        (able(None, known=False), False, False),
        (able(None), False, False),
        (able(types.ElicitationCapability()), True, False),
        (able(types.ElicitationCapability(form=types.FormElicitationCapability())), True, False),
        (able(types.ElicitationCapability(url=types.UrlElicitationCapability())), False, True),
    ],
)
def test_a_client_says_what_it_can_show(session: Any, forms: bool, pages: bool) -> None:
    assert can_elicit(session) is forms
    assert can_open_pages(session) is pages


@pytest.mark.parametrize("mode", ["legacy", MODERN])
async def test_the_official_client_shows_forms_if_somebody_fills_them_in(
    face: ElicitingFace, mode: str
) -> None:
    for person, can in ((FormPerson(), True), (None, False)):
        async with face.client(person, mode) as client:
            await waited(client)
        assert can_elicit(face.sessions[-1]) is can


async def test_a_client_of_an_older_version_gets_what_that_has() -> None:
    shown: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    class Session:
        protocol_version = "2025-06-18"
        client_capabilities = types.ClientCapabilities(elicitation=types.ElicitationCapability())

        async def elicit_form(self, message: str, schema: Any, call: Any) -> types.ElicitResult:
            shown.set_result(schema)
            raise MCPError(types.CONNECTION_CLOSED, "gone")

    engine = AskingEngine()
    engine.ask(question=posed(asked(COLOUR, SAILS)))
    # Stand-ins that have as much of an engine and a session as is used here.
    handle = EngineHandle(lambda: asyncio.sleep(0, engine))  # type: ignore[arg-type]
    pushing = FormPush(handle, ClientStream(Session()), "tests")  # type: ignore[arg-type]
    pushing.follow("one")
    async with asyncio.timeout(DEADLINE):
        fields = (await shown)["properties"]
    await pushing.aclose()
    assert fields["q1"]["enum"] == ["Red", "Blue"]
    assert "q2_1" in fields
