"""The OpenAPI document: valid, complete, and true."""

from __future__ import annotations

from typing import Any

from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from pilothouse.api.problems import STATUSES
from pilothouse.faces.console.page_files import PAGE_PATHS
from pilothouse.faces.http.document import make_document
from tests.support.http.fake_engine import FakeEngine
from tests.support.http.serving import calling, make_app

DOCUMENT = make_document("1.2.3")
OPERATIONS = [
    (path, method, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]


def test_the_document_is_valid() -> None:
    assert [str(each) for each in OPENAPI_31_VALIDATOR.iter_errors(DOCUMENT)] == []


async def test_the_document_is_published() -> None:
    async with calling(make_app(FakeEngine())) as http:
        answer = await http.get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == DOCUMENT


def test_every_route_is_in_the_document_and_nothing_else() -> None:
    routes = {each.path_format for each in make_app(FakeEngine()).routes}
    assert routes - set(PAGE_PATHS) == set(DOCUMENT["paths"])
    assert set(PAGE_PATHS) < routes


def test_every_operation_is_described() -> None:
    names = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(names)) == len(names)
    tags = {each["name"] for each in DOCUMENT["tags"]}
    for path, method, operation in OPERATIONS:
        where = f"{method} {path}"
        assert operation["summary"], where
        assert set(operation["tags"]) <= tags, where
        assert all(each["description"] for each in operation["parameters"]), where
        assert {"401", "403", "413", "421", "422", "500"} <= set(operation["responses"]), where


def test_every_status_an_error_can_have_is_in_the_document() -> None:
    acting = next(each for _, method, each in OPERATIONS if method == "post")
    assert {str(status) for status in STATUSES.values()} <= set(acting["responses"])
    assert {str(status) for status in STATUSES.values()} <= set(DOCUMENT["components"]["responses"])


def test_every_reference_leads_somewhere() -> None:
    for reference in references(DOCUMENT):
        place: Any = DOCUMENT
        for name in reference.removeprefix("#/").split("/"):
            place = place[name]
        assert place


def references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [each for item in value for each in references(item)]
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [each for item in value.values() for each in references(item)]
    return []


def test_members_are_described_in_the_words_of_the_contract() -> None:
    start = DOCUMENT["components"]["schemas"]["Start"]["properties"]
    assert start["key"]["description"].startswith("An idempotency key")
    assert DOCUMENT["components"]["schemas"]["Allow"]["properties"]["always"]["description"]


def test_an_answer_is_told_apart_by_its_kind() -> None:
    body = DOCUMENT["paths"]["/api/questions/{question_id}/answer"]["post"]["requestBody"]
    schema = body["content"]["application/json"]["schema"]
    assert schema["discriminator"]["propertyName"] == "kind"
    assert set(schema["discriminator"]["mapping"]) >= {"allow", "deny", "approve_plan"}


def test_everything_but_the_proof_and_the_way_in_needs_the_token() -> None:
    assert DOCUMENT["security"] == [{"token": []}]
    assert DOCUMENT["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    open_to_all = {path: each["security"] for path, _, each in OPERATIONS if "security" in each}
    assert open_to_all == {"/proof": [], "/console/enter": []}
