"""The table of operations, and the protocol whose methods it names: neither has what the other
has not."""

from __future__ import annotations

import inspect
import typing
from typing import Any, get_args

import msgspec
import pytest

from pilothouse import errors
from pilothouse.api import engine as language
from pilothouse.api.engine import Engine
from pilothouse.api.operations import OPERATIONS, PARAMETERS, Operation, OperationCall
from pilothouse.api.problems import CODES, STATUSES
from pilothouse.api.requests import Members, Say
from pilothouse.remote import RemoteEngine

VERBS = {name: each for name, each in vars(Engine).items() if not name.startswith("_")}
NO_OPERATIONS = {"watch", "follow", "follow_sessions", "cassette", "aclose"}
"""Streams, and the end of the engine itself."""

each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)


def arguments_of(operation: Operation) -> dict[str, inspect.Parameter]:
    _, *declared = inspect.signature(VERBS[operation.verb]).parameters.values()
    return {each.name: each for each in declared}


def is_spread(operation: Operation) -> bool:
    return isinstance(operation.body, type) and issubclass(operation.body, Members)


def test_every_verb_is_an_operation_and_nothing_else_is() -> None:
    assert {each.verb for each in OPERATIONS} == set(VERBS) - NO_OPERATIONS
    assert {each.name for each in OPERATIONS if each.verb != each.name} == {"history"}
    assert len({each.name for each in OPERATIONS}) == len(OPERATIONS)
    assert len({(each.method, each.path) for each in OPERATIONS}) == len(OPERATIONS)


@each_operation
def test_its_arguments_are_those_of_the_method(operation: Operation) -> None:
    declared = arguments_of(operation)
    named = [*operation.parameters]
    assert [*declared][: len(named)] == named, "the names of the path come first, in its order"
    if operation.body is not None and not is_spread(operation):
        whole = [*declared][len(named)]
        assert hints(operation)[whole] == operation.body
        named.append(whole)
    members = [*fields(operation.query), *(fields(operation.body) if is_spread(operation) else [])]
    named += [each.name for each in members]
    assert set(named) <= set(declared)
    left_out = [declared[each] for each in declared if each not in named]
    assert all(each.default is not each.empty for each in left_out)
    assert bool(left_out) == (operation.name == "history")


@each_operation
def test_what_may_be_left_out_is_the_same_over_http(operation: Operation) -> None:
    declared = arguments_of(operation)
    for each in fields(operation.query):
        is_needed = declared[each.name].default is inspect.Parameter.empty
        expected = msgspec.NODEFAULT if is_needed else declared[each.name].default
        assert each.default == expected, each.name
    for each in fields(operation.body) if is_spread(operation) else []:
        default = declared[each.name].default
        if default is not inspect.Parameter.empty:
            assert each.default == default, each.name


@each_operation
def test_its_result_is_that_of_the_method(operation: Operation) -> None:
    declared = hints(operation)["return"]
    told = list(get_args(declared)) if typing.get_origin(declared) else declared
    assert operation.result == declared or list(get_args(operation.result)) == told


@each_operation
def test_its_path_and_its_problems_are_known(operation: Operation) -> None:
    assert set(operation.parameters) <= set(PARAMETERS)
    assert operation.errors <= set(CODES)
    assert operation.keyed == hasattr(operation.body, "key")
    if operation.method == "GET":
        assert operation.body is None


def test_every_refusal_is_told_with_some_operation() -> None:
    told = set[str]().union(*(each.errors for each in OPERATIONS))
    refusals = {code for code, kind in CODES.items() if issubclass(kind, errors.Refused)}
    assert refusals <= told
    assert set(STATUSES) == set(CODES)


class Noted:
    """An engine that notes how it is called."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *given, **named: self.calls.append((name, given, named))


@each_operation
def test_a_call_becomes_a_request_and_the_same_call_again(operation: Operation) -> None:
    values = {name: f"<{name}>" for name in arguments_of(operation)}
    request = operation.request(values)
    query = (
        None
        if operation.query is None
        else msgspec.structs.replace(blank(operation.query), **request.query)
    )
    noted: Any = Noted()
    operation.call(noted, OperationCall(request.path, query, request.body))
    [(verb, given, named)] = noted.calls
    bound = inspect.signature(VERBS[verb]).bind(noted, *given, **named)
    assert {**bound.arguments, "self": None} == {**called(operation, values), "self": None}


def blank(query: type[msgspec.Struct]) -> msgspec.Struct:
    needed = [each.name for each in fields(query) if each.required]
    return msgspec.convert(dict.fromkeys(needed, "x"), query)


def called(operation: Operation, values: dict[str, str]) -> dict[str, str]:
    """What the method of `history` is not given has no member to travel in."""
    sent = {*operation.parameters, *(each.name for each in fields(operation.query))}
    if is_spread(operation):
        sent |= {each.name for each in fields(operation.body)}
    elif operation.body is not None:
        sent |= {[*values][len(operation.parameters)]}
    return {name: value for name, value in values.items() if name in sent}


def fields(struct: Any) -> list[msgspec.structs.FieldInfo]:
    return [] if struct is None else list(msgspec.structs.fields(struct))


def hints(operation: Operation) -> dict[str, Any]:
    # `list` is a verb there, and a type everywhere else.
    return typing.get_type_hints(VERBS[operation.verb], dict(vars(language)), {"list": list})


def test_a_verb_is_declared_once_and_has_its_signature_over_http() -> None:
    for name, declared in VERBS.items():
        remote = getattr(RemoteEngine, name)
        assert inspect.signature(remote) == inspect.signature(declared), name
        assert remote.__doc__, name


def test_a_row_without_a_body_takes_none() -> None:
    interrupt = next(each for each in OPERATIONS if each.name == "interrupt")
    assert interrupt.request({"session_id": "s"}) == OperationCall({"session_id": "s"}, {}, None)
    say = next(each for each in OPERATIONS if each.name == "say")
    with pytest.raises(ValueError, match="too many"):
        say.request({"session_id": "s", "request": Say(content=""), "more": 1})
