from __future__ import annotations

import asyncio
import base64
import enum
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.client.tools import (
    Image,
    Tool,
    ToolAnnotations,
    ToolContext,
    ToolResult,
    ToolServer,
    tool,
    tool_hosts,
)
from tests.support.waiting import DEADLINE


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(msgspec.Struct):
    x: int
    y: int = 0


@dataclass
class Size:
    width: int
    height: int


class Filter(TypedDict):
    text: str
    limit: NotRequired[int]


class Node(msgspec.Struct):
    label: str
    children: list[Node] = []


class Opaque:
    pass


@tool
async def add(a: int, b: Annotated[int, "the second number"] = 0) -> int:
    """Add two
    numbers.

    Details that only people read.
    """
    return a + b


def call(name: str, arguments: Any = None, request_id: int = 7, **meta: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments or {}, "_meta": meta}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


def request(method: str, request_id: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notification(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


async def result_of(served: Tool[..., Any], arguments: Any = None, **meta: Any) -> dict[str, Any]:
    server = ToolServer([served], name="test")
    reply = await server.handle(call(served.name, arguments, **meta))
    assert reply is not None
    assert (reply["jsonrpc"], reply["id"]) == ("2.0", 7)
    json.dumps(reply)
    return reply["result"]


async def error_of(message: Any) -> dict[str, Any]:
    reply = await ToolServer([add], name="calc").handle(message)
    assert reply is not None
    return reply["error"]


# Definitions


def test_a_definition_comes_from_the_signature_and_the_docstring() -> None:
    assert add.definition() == {
        "name": "add",
        "description": "Add two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "a": {"type": "integer"},
                "b": {"type": "integer", "description": "the second number", "default": 0},
            },
            "required": ["a"],
            "additionalProperties": False,
        },
    }


def test_a_definition_can_be_given_by_hand() -> None:
    @tool(
        name="sum-up",
        title="Sum",
        description="Sums.",
        annotations=ToolAnnotations(read_only=True, open_world=False),
        meta={"anthropic/alwaysLoad": True},
    )
    async def add(a: int) -> int:
        """Not this."""
        return a

    definition = add.definition()
    del definition["inputSchema"]
    assert definition == {
        "name": "sum-up",
        "title": "Sum",
        "description": "Sums.",
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
        "_meta": {"anthropic/alwaysLoad": True},
    }


async def test_a_tool_is_still_the_function_it_was() -> None:
    assert await add(2, b=3) == 5


def test_every_kind_of_argument_has_a_schema() -> None:
    @tool
    async def paint(
        point: Point,
        size: Annotated[Size, "how big"],
        filter: Filter,
        colour: Colour = Colour.RED,
        mode: Literal["fill", "line"] = "fill",
        title: str | None = None,
        tags: list[str] = ["a"],  # noqa: B006
        weights: dict[str, float] = {},  # noqa: B006
        count: Annotated[int, msgspec.Meta(ge=1), "how often"] = 1,
    ) -> None: ...

    schema = paint.input_schema
    properties = schema["properties"]
    assert schema["required"] == ["point", "size", "filter"]
    assert set(schema["$defs"]) == {"Point", "Size", "Filter", "Colour"}
    assert properties["size"] == {"$ref": "#/$defs/Size", "description": "how big"}
    assert properties["mode"] == {"enum": ["fill", "line"], "default": "fill"}
    assert properties["title"]["anyOf"] == [{"type": "string"}, {"type": "null"}]
    assert properties["tags"]["items"] == {"type": "string"}
    assert properties["weights"]["additionalProperties"] == {"type": "number"}
    assert (properties["count"]["minimum"], properties["count"]["description"]) == (1, "how often")


def test_a_type_that_contains_itself_has_a_schema() -> None:
    @tool
    async def plant(tree: Node) -> Node:
        return tree

    assert plant.input_schema["properties"]["tree"] == {"$ref": "#/$defs/Node"}
    assert plant.output_schema is not None
    assert plant.output_schema["type"] == "object"
    assert plant.output_schema["$defs"]["Node"]["properties"]["children"]["items"] == {
        "$ref": "#/$defs/Node"
    }


async def plain_async(a: int) -> int:
    return a


def refuse_sync() -> Any:
    def work(a: int) -> int:
        return a

    return tool(work)  # type: ignore[arg-type]


def refuse_variadic() -> Any:
    @tool
    async def work(*a: int) -> None: ...

    return work


def refuse_keywords() -> Any:
    @tool
    async def work(**a: int) -> None: ...

    return work


def refuse_positional_only() -> Any:
    @tool
    async def work(a: int, /) -> None: ...

    return work


def refuse_unannotated() -> Any:
    @tool
    async def work(a) -> None: ...  # type: ignore[no-untyped-def]

    return work


def refuse_unknown_type() -> Any:
    @tool
    async def work(a: Opaque) -> None: ...

    return work


def refuse_unresolved() -> Any:
    class Local: ...

    @tool
    async def work(a: Local) -> None: ...

    return work


@pytest.mark.parametrize(
    ("attempt", "complaint"),
    [
        (refuse_sync, "make it async"),
        (refuse_variadic, r"\*a: 'int' has no schema"),
        (refuse_keywords, r"\*\*a: 'int' has no schema"),
        (refuse_positional_only, "a is positional only"),
        (refuse_unannotated, "annotate a with its type"),
        (refuse_unknown_type, "Opaque"),
        (refuse_unresolved, "looked up at module level"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused(
    attempt: Callable[[], Any], complaint: str
) -> None:
    with pytest.raises(TypeError, match=complaint):
        attempt()


@pytest.mark.parametrize("name", ["has space", "dot.dot", "x" * 65])
def test_a_bad_tool_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no name for a tool"):
        tool(name=name)(plain_async)


@pytest.mark.parametrize("name", ["", "has space", "two__underscores", "x" * 65])
def test_a_bad_server_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no name for a server"):
        ToolServer([], name=name)


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tools are named add"):
        ToolServer([add, add], name="calc")


def test_a_bare_function_in_a_server_is_refused() -> None:
    with pytest.raises(TypeError, match="decorate it with @tool"):
        ToolServer([plain_async], name="calc")  # type: ignore[list-item]


# Arguments


async def test_arguments_arrive_as_the_types_they_are_declared_with() -> None:
    seen: list[Any] = []

    @tool
    async def look(point: Point, size: Size, colour: Colour, tags: list[str] | None = None) -> None:
        seen.extend([point, size, colour, tags])

    await result_of(look, {"point": {"x": 1}, "size": {"width": 2, "height": 3}, "colour": "blue"})
    assert seen == [Point(1), Size(2, 3), Colour.BLUE, None]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"a": "x"}, "argument `a`: expected `int`, got `str`"),
        ({"a": 1, "b": None}, "argument `b`: expected `int`, got `null`"),
        ({}, "missing argument `a`"),
        ({"a": 1, "c": 2}, "there is no argument `c`"),
    ],
)
async def test_what_does_not_fit_is_a_result_that_names_the_argument(
    arguments: Any, complaint: str
) -> None:
    result = await result_of(add, arguments)
    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": f"add was not called: {complaint}"}]


async def test_a_misfit_deep_inside_an_argument_names_the_path() -> None:
    @tool
    async def draw(points: list[Point]) -> None: ...

    result = await result_of(draw, {"points": [{"x": 1}, {"x": "no"}]})
    assert "argument `points[1].x`" in result["content"][0]["text"]


async def test_a_tool_learns_its_context_without_showing_it_in_the_schema() -> None:
    @tool
    async def who(context: ToolContext, a: int = 0) -> list[Any]:
        return [context.server, context.tool, context.tool_use_id, context.meta["progressToken"]]

    assert list(who.input_schema["properties"]) == ["a"]
    result = await result_of(who, **{"claudecode/toolUseId": "toolu_1", "progressToken": 2})
    assert json.loads(result["content"][0]["text"]) == ["test", "who", "toolu_1", 2]


async def test_a_method_of_an_object_can_be_a_tool() -> None:
    class Counter:
        total = 0

        async def count(self, by: int) -> int:
            """Count."""
            self.total += by
            return self.total

    counter = Counter()
    await result_of(tool(counter.count), {"by": 4})
    assert counter.total == 4


# Results


async def returning(value: Any) -> dict[str, Any]:
    @tool
    async def give() -> Any:
        return value

    return await result_of(give)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        (None, "Done."),
        (5, "5"),
        (1.5, "1.5"),
        (True, "true"),
        (["a", 1], '["a",1]'),
        (Colour.RED, "red"),
        ([], "[]"),
    ],
)
async def test_a_plain_value_becomes_text(value: Any, text: str) -> None:
    assert await returning(value) == {"content": [{"type": "text", "text": text}]}


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ({"a": 1}, {"a": 1}),
        ({1: "a"}, {"1": "a"}),
        (Point(1, 2), {"x": 1, "y": 2}),
        (Size(3, 4), {"width": 3, "height": 4}),
    ],
)
async def test_an_object_is_given_as_text_and_as_structure(value: Any, plain: Any) -> None:
    result = await returning(value)
    assert result["structuredContent"] == plain
    assert json.loads(result["content"][0]["text"]) == plain


async def test_an_image_becomes_a_block() -> None:
    result = await returning(Image(b"\x89PNG", "image/png"))
    data = base64.b64encode(b"\x89PNG").decode()
    assert result == {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}


async def test_text_and_images_in_a_list_become_several_blocks() -> None:
    result = await returning(["before", Image(b"1"), {"n": 1}])
    assert [each["type"] for each in result["content"]] == ["text", "image", "text"]
    assert result["content"][2]["text"] == '{"n":1}'


async def test_a_tool_result_is_passed_in_full() -> None:
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    result = await returning(
        ToolResult(["a", link], structured={"n": 1}, is_error=True, meta={"k": "v"})
    )
    assert result == {
        "content": [{"type": "text", "text": "a"}, link],
        "structuredContent": {"n": 1},
        "isError": True,
        "_meta": {"k": "v"},
    }


@pytest.mark.parametrize(
    "value", [Opaque(), {"a": Opaque()}, ToolResult(structured={"a": object()})]
)
async def test_a_value_that_is_not_json_is_an_error_result(value: Any) -> None:
    result = await returning(value)
    assert result["isError"] is True
    assert result["content"][0]["text"].startswith("TypeError: ")


async def test_a_declared_object_is_announced_and_held_to() -> None:
    @tool
    async def locate(wrong: bool = False) -> Point:
        return [1, 2] if wrong else Point(1, 2)  # type: ignore[return-value]

    assert locate.output_schema is not None
    assert locate.definition()["outputSchema"]["required"] == ["x"]
    assert (await result_of(locate))["structuredContent"] == {"x": 1, "y": 2}
    broken = await result_of(locate, {"wrong": True})
    assert broken["isError"] is True
    assert "locate returned what it does not declare" in broken["content"][0]["text"]


@pytest.mark.parametrize(
    "returns", [int, str, None, list[int], ToolResult, Image, Point | None, Opaque, Any]
)
def test_a_result_that_is_no_object_announces_no_schema(returns: Any) -> None:
    async def give() -> Any: ...

    give.__annotations__["return"] = returns
    assert tool(give).output_schema is None


async def test_a_tool_that_raises_answers_with_the_exception() -> None:
    @tool
    async def fail() -> None:
        raise LookupError("no such book")

    assert await result_of(fail) == {
        "content": [{"type": "text", "text": "LookupError: no such book"}],
        "isError": True,
    }


# Cancelling


class Hanging:
    """A tool that waits until it is cancelled, and says so."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def hang(self) -> None:
        """Wait."""
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


async def test_cancelling_the_caller_cancels_the_tool() -> None:
    hanging = Hanging()
    server = ToolServer([tool(hanging.hang)], name="test")
    caller = asyncio.create_task(server.handle(call("hang")))
    async with asyncio.timeout(DEADLINE):
        await hanging.started.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
    assert hanging.cancelled.is_set()


async def test_a_cancelled_notification_ends_the_call_with_an_error() -> None:
    hanging = Hanging()
    server = ToolServer([tool(hanging.hang)], name="test")
    caller = asyncio.create_task(server.handle(call("hang", request_id=4)))
    async with asyncio.timeout(DEADLINE):
        await hanging.started.wait()
        await server.handle(notification("notifications/cancelled", requestId=4))
        reply = await caller
    assert hanging.cancelled.is_set()
    assert reply is not None
    assert (reply["id"], reply["error"]["code"]) == (4, -32800)


async def test_a_cancellation_that_could_mean_two_calls_ends_neither() -> None:
    first, second = Hanging(), Hanging()
    tools = [tool(name="one")(first.hang), tool(name="two")(second.hang)]
    server = ToolServer(tools, name="test")
    callers = [asyncio.create_task(server.handle(call(name))) for name in ("one", "two")]
    async with asyncio.timeout(DEADLINE):
        await first.started.wait()
        await second.started.wait()
        await server.handle(notification("notifications/cancelled", requestId=7))
        assert [each.done() for each in callers] == [False, False]
        for each in callers:
            each.cancel()
        await asyncio.wait(callers)


async def test_calls_run_side_by_side() -> None:
    arrived = asyncio.Barrier(2)

    @tool
    async def meet() -> str:
        await arrived.wait()
        return "met"

    server = ToolServer([meet], name="test")
    async with asyncio.timeout(DEADLINE):
        replies = await asyncio.gather(
            server.handle(call("meet", request_id=1)), server.handle(call("meet", request_id=2))
        )
    assert [reply["id"] for reply in replies if reply] == [1, 2]


# JSON-RPC


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
async def test_initialize_echoes_a_version_it_knows(version: str) -> None:
    server = ToolServer([add], name="calc", version="2.0", instructions="Use it.")
    assert await server.handle(request("initialize", 0, protocolVersion=version)) == {
        "jsonrpc": "2.0",
        "id": 0,
        "result": {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "calc", "version": "2.0"},
            "instructions": "Use it.",
        },
    }


@pytest.mark.parametrize("version", ["2099-01-01", None, 3, []])
async def test_initialize_answers_an_unknown_version_with_the_newest(version: Any) -> None:
    reply = await ToolServer([], name="calc").handle(request("initialize", protocolVersion=version))
    assert reply is not None
    assert reply["result"]["protocolVersion"] == "2025-11-25"


async def test_the_handshake_of_the_cli_is_answered() -> None:
    server = ToolServer([add], name="calc")
    await server.start()
    assert await server.handle({"jsonrpc": "2.0", "method": "notifications/initialized"}) is None
    assert await server.handle({"jsonrpc": "2.0", "id": 1, "method": "ping"}) == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {},
    }
    listed = await server.handle({"method": "tools/list", "jsonrpc": "2.0", "id": "b"})
    assert listed == {"jsonrpc": "2.0", "id": "b", "result": {"tools": [add.definition()]}}
    await server.aclose()


async def test_a_response_is_not_answered() -> None:
    assert await ToolServer([], name="calc").handle({"id": 1, "result": {}}) is None


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (request("resources/list"), -32601),
        (request("notifications/initialized"), -32601),
        ([], -32600),
        ("text", -32600),
        ({}, -32600),
        ({"id": 1, "method": 5}, -32600),
        ({"id": None, "method": "ping"}, -32600),
        ({"id": True, "method": "ping"}, -32600),
        ({"id": 1.5, "method": "ping"}, -32600),
        ({"id": 1, "method": "tools/call", "params": []}, -32602),
        (request("tools/call"), -32602),
        (request("tools/call", name=["add"]), -32602),
        (request("tools/call", name="gone"), -32602),
        (request("tools/call", name="add", arguments=[1]), -32602),
    ],
)
async def test_a_malformed_request_gets_a_json_rpc_error(message: Any, code: int) -> None:
    assert (await error_of(message))["code"] == code


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
methods = st.sampled_from(
    ["initialize", "tools/call", "tools/list", "ping", "notifications/cancelled", "?"]
)
messages = json_values | st.fixed_dictionaries(
    {"method": methods | json_values},
    optional={
        "id": json_values,
        "params": json_values
        | st.fixed_dictionaries(
            {"name": st.just("add") | json_values, "requestId": json_values},
            optional={"arguments": json_values, "_meta": json_values},
        ),
    },
)


@given(messages)
def test_no_message_makes_a_server_raise(message: Any) -> None:
    server = ToolServer([add], name="calc")
    reply = asyncio.run(server.handle(message))
    assert reply is None or reply["jsonrpc"] == "2.0"


# In a client's options


async def test_each_client_gets_its_own_copy_under_the_name_in_its_options() -> None:
    server = ToolServer([add], name="calc", version="3.0")
    options = {"sums": server, "outside": {"command": "server"}}
    hosts = tool_hosts(options)
    assert list(hosts) == ["sums"]
    assert hosts["sums"].name == "sums"
    assert hosts["sums"] is not tool_hosts(options)["sums"]
    reply = await hosts["sums"].handle(request("initialize"))
    assert reply is not None
    assert reply["result"]["serverInfo"] == {"name": "sums", "version": "3.0"}


def test_a_host_of_another_kind_is_taken_as_it_is() -> None:
    class Own:
        name = "own"

        async def start(self, on_notification: Any = None) -> None: ...

        async def handle(self, message: dict[str, Any]) -> None: ...

        async def aclose(self) -> None: ...

    own = Own()
    assert tool_hosts({"own": own}) == {"own": own}


def test_what_is_neither_a_server_nor_a_configuration_is_refused() -> None:
    with pytest.raises(TypeError, match="not a server of the mcp package"):
        tool_hosts({"calc": Opaque()})
