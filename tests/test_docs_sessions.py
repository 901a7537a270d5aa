"""The documents about sessions, questions and HTTP: their lists are those of the code."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from pilothouse.api import answers
from pilothouse.api.answers import Answer, OwnRule, OwnUpdate
from pilothouse.api.engine import Engine
from pilothouse.api.problems import CODES, status_of
from pilothouse.api.questions import QuestionKind, QuestionState
from pilothouse.api.records import KINDS, AnyRecord
from pilothouse.api.values import State
from pilothouse.engine.cli_controls import ALLOWED_CONTROLS
from pilothouse.engine.questions import plan
from pilothouse.faces.http import metrics
from pilothouse.faces.http.document import make_document
from tests.support.docs import PAGES, is_documented, page
from tests.support.places import ROOT

HTTP = "reference-http.md"
QUESTIONS = "howto-questions.md"
SESSIONS = "howto-sessions.md"
FACE = ROOT / "src/pilothouse/faces/http"
DOCUMENT = make_document("0")
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
ON_PATHS: dict[str, Any] = {
    f"{method.upper()} {path}": told
    for path, methods in DOCUMENT["paths"].items()
    for method, told in methods.items()
}
TOLD_WITH_QUESTIONS = {"Question", "Posed", "Option", "Way"} | {
    each.__name__ for each in (*get_args(Answer), *get_args(OwnUpdate), OwnRule)
}
TOLD_WITH_A_STATUS = {
    "Status",
    "Waiting",
    "Retry",
    "RateLimit",
    "ContextUsed",
    "Tokens",
    "ToolRun",
    "Subagent",
    "ModelSpent",
    "SignIn",
    "Queued",
}
FRAMES = {"Events", "Patches", "Rows", "Done", "Failed"}


def table_rows(name: str, first: str = r"[^|]+") -> Iterator[str]:
    """The rows of a page's tables whose first cell is this."""
    yield from re.findall(rf"^\| {first} \|.*\|$", page(name), re.MULTILINE)


def row(name: str, first: str) -> str:
    [found] = table_rows(name, re.escape(f"`{first}`"))
    return found


def section(name: str, heading: str) -> str:
    return page(name).split(f"\n{heading}\n")[1].split("\n## ")[0]


def names_in(text: str) -> set[str]:
    return set(re.findall(r"`\??([\w.-]+)`", text))


# Routes and types


def test_the_routes_are_those_of_the_api():
    listed = re.findall(r"^\| `((?:GET|POST|PUT|DELETE) \S+)` \|", page(HTTP), re.MULTILINE)
    assert sorted(listed) == sorted(ON_PATHS)


@pytest.mark.parametrize("route", ON_PATHS)
def test_a_route_tells_its_operation_its_parameters_and_its_types(route: str):
    told, named = ON_PATHS[route], names_in(row(HTTP, route))
    if "/api/" in route and "stream" not in route and "/ws" not in route:
        assert told["operationId"] in named
    queried = {each["name"] for each in told["parameters"] if each["in"] == "query"}
    assert queried <= named
    assert types_of(told) <= named


def types_of(told: Any) -> set[str]:
    """The types that an operation takes and gives, by their names, answers left out."""
    good = [told["responses"].get(status) for status in ("200", "201", "202")]
    text = json.dumps([told.get("requestBody"), good])
    named = set(re.findall(r"#/components/schemas/(\w+)", text))
    return named - TOLD_WITH_QUESTIONS - {"Event", "Gap"} | named & {"Question"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_path_of_the_api_that_is_named_exists(path: Path):
    known = [re.sub(r"{\w+}", r"[^/]+", each) for each in DOCUMENT["paths"]]
    for named in re.findall(r"(?<![\w.])(/api/[\w{}/$-]*[\w}])", path.read_text()):
        assert any(re.fullmatch(each, named) for each in known), named


# What may be asked for after the question mark is told with the routes.
@pytest.mark.parametrize("name", [each for each in SCHEMAS if not each.endswith("Query")])
def test_every_member_of_a_type_is_told(name: str):
    members = SCHEMAS[name].get("properties", {})
    if name in TOLD_WITH_QUESTIONS:
        assert [each for each in members if not is_documented(each, page(QUESTIONS))] == []
    elif name in TOLD_WITH_A_STATUS:
        assert set(members) <= names_in(section(HTTP, "### A status"))
    elif name in FRAMES:
        assert set(members) <= names_in(row(HTTP, "Events`, `Patches`, `Rows`, `Done`, `Failed"))
    else:
        assert set(members) == names_in(row(HTTP, name)) & set(members)


SENT = re.findall(r"^\| `(\w+)` \|", section(HTTP, "### What you send").split("\n### ")[0], re.M)


@pytest.mark.parametrize("name", SENT)
def test_the_required_members_are_bold(name: str):
    required = re.findall(r"\*\*`(\w+)`\*\*", row(HTTP, name))
    assert sorted(required) == sorted(SCHEMAS[name].get("required", []))


# Events


def test_the_kinds_of_events_are_those_of_the_journal():
    events = section(HTTP, "## Events").split("\n### ")[0]
    assert re.findall(r"^\| `([\w.]+)` \|", events, re.MULTILINE) == list(KINDS)


@pytest.mark.parametrize("record", get_args(AnyRecord), ids=lambda each: each.__name__)
def test_every_member_of_a_record_is_told(record: Any):
    told = names_in(row(HTTP, record.__struct_config__.tag))
    assert set(record.__struct_fields__) <= told


# Errors and metrics


def codes_of_the_face() -> Iterator[tuple[int, str]]:
    """What the face itself refuses: calls with a status and a code that are written out."""
    for path in (*FACE.glob("*.py"), *FACE.with_name("console").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Name(id="Unacceptable" | "explain"), args=[status, code, *_]
                ):
                    if isinstance(status, ast.Constant):
                        yield from ((int(str(status.value)), each) for each in words(code))
                case _:
                    pass


def words(node: ast.expr) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def test_the_errors_are_those_of_the_code():
    coded = {(status_of(kind), code) for code, kind in CODES.items()} | set(codes_of_the_face())
    listed = {
        (int(status), code)
        for status, cell in re.findall(r"^\| (\d{3}) \| ([^|]+) \|", page(HTTP), re.MULTILINE)
        for code in names_in(cell)
    }
    assert listed == coded


def test_every_metric_is_told():
    source = Path(metrics.__file__).read_text()
    names = set(re.findall(r'"(pilothouse_\w+)"', source))
    assert names
    assert names == {each for each in names_in(page(HTTP)) if each.startswith("pilothouse_")}


# Questions


def test_an_answer_is_the_same_in_json_and_in_python():
    found = re.findall(r"^\| `({\"kind\".+?})` \| `(\w+\(.*?\))` \|", page(QUESTIONS), re.MULTILINE)
    for text, expression in found:
        assert msgspec.json.decode(text, type=Answer) == eval(expression, dict(vars(answers)))
    kinds = {json.loads(text)["kind"] for text, _ in found}
    assert kinds == {each.__struct_config__.tag for each in get_args(Answer)}


def test_every_kind_and_state_of_a_question_and_every_state_of_a_session_is_told():
    kinds = [*get_args(QuestionKind), *get_args(QuestionState)]
    assert [each for each in kinds if not is_documented(each, page(QUESTIONS))] == []
    assert [each for each in get_args(State) if not list(table_rows(SESSIONS, f"`{each}`"))] == []


def test_the_ways_out_of_plan_mode_are_those_of_the_code():
    named = [
        names_in(each.split("|")[1]) for each in table_rows(QUESTIONS, "(?:`[a-z_]+`(?:, )?)+")
    ]
    ways = {each.id for each in plan.ways("A plan.", bypass_allowed=True)}
    assert ways <= set[str]().union(*named)


@pytest.mark.parametrize("name", [HTTP, QUESTIONS])
def test_the_examples_are_json(name: str):
    for block in re.findall(r"^```json\n(.*?)^```$", page(name), re.MULTILINE | re.DOTALL):
        try:
            json.loads(block)
        except ValueError:
            assert [json.loads(line) for line in block.splitlines()]


# The engine


def test_every_verb_of_the_engine_is_told():
    told = page(SESSIONS) + page(QUESTIONS) + page(HTTP)
    verbs = [each for each in vars(Engine) if not each.startswith("_")]
    assert [each for each in verbs if not is_documented(each, told)] == []


@pytest.mark.parametrize("name", [SESSIONS, QUESTIONS])
def test_sessions_need_nothing_but_the_public_names(name: str):
    imported = re.findall(r"^from (pilothouse\S*) import", page(name), re.MULTILINE)
    assert set(imported) == {"pilothouse"}


def test_the_allowed_controls_are_listed():
    [paragraph] = [
        each for each in page(SESSIONS).split("\n\n") if each.startswith("`control` takes")
    ]
    assert names_in(paragraph) - {"control", "controls", "ControlRefused"} == ALLOWED_CONTROLS
