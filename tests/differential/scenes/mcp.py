"""MCP servers in the host and beside it, what they ask the user, and answers of a given shape."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pilothouse_sim.scenario import ToolCall, reply, tool
from tests.differential.driver import Cli, Scene
from tests.differential.host import PARTIAL, allow, deny, initialized, script, turns
from tests.support.raw_cli import Message

NUMBER = {"type": "number"}
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5E"
    "rkJggg=="
)
PLAIN = {"type": "object", "properties": {}}
TOOLS = [
    {
        "name": "add",
        "description": "Adds.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": NUMBER, "b": NUMBER},
            "required": ["a"],
        },
    },
    {
        "name": "look_up",
        "title": "Look it up",
        "description": "Looks.",
        "inputSchema": PLAIN,
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": "wipe",
        "description": "Wipes.",
        "inputSchema": PLAIN,
        "annotations": {"title": "Wipe all", "destructiveHint": True},
    },
    {"name": "say-it.now", "inputSchema": {"type": "object"}},
]


def words(*said: str) -> list[Message]:
    """Text blocks."""
    return [{"type": "text", "text": each} for each in said]


RESULTS: dict[str, Message] = {
    "text": {"content": words("One.", "Two.")},
    "image": {
        "content": [*words("See:"), {"type": "image", "data": PIXEL, "mimeType": "image/png"}]
    },
    "error": {"content": words("It broke.", "Badly."), "isError": True},
    "silent error": {"content": [], "isError": True},
    "nothing": {"content": []},
    "structured": {"content": words('{"total": 5}'), "structuredContent": {"total": 5}},
    "only structured": {"content": [], "structuredContent": {"total": 5}},
    "resource": {
        "content": [
            {
                "type": "resource",
                "resource": {"uri": "note://1", "text": "A note.", "mimeType": "text/plain"},
            },
            {"type": "resource_link", "uri": "note://2", "name": "second"},
        ]
    },
    "meta": {"content": words("With meta."), "_meta": {"mark": 1}},
}


def served(message: Message) -> Message:
    """What the host's server says to a request: a result, or an error."""
    match message["method"]:
        case "initialize":
            return {
                "result": {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "calculator", "version": "1.2", "title": "Calculator"},
                    "instructions": "Use it for sums.",
                }
            }
        case "tools/list":
            return {"result": {"tools": TOOLS}}
        case "tools/call":
            wanted = message["params"]["arguments"].get("want")
            if wanted == "refusal":
                return {"error": {"code": -32602, "message": "No such thing."}}
            if wanted:
                return {"result": RESULTS[wanted]}
            total = sum(message["params"]["arguments"].values())
            return {"result": {"content": words(str(total))}}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


def serve(request: Message) -> Message:
    """The host's MCP server."""
    message = request["message"]
    if "id" not in message:
        return {}
    return {"mcp_response": {"jsonrpc": "2.0", "id": message["id"], **served(message)}}


def calc(name: str, **arguments: Any) -> ToolCall:
    """A call of a tool of the host's server."""
    return ToolCall(name=f"mcp__calc__{name}", input=arguments)


STDIO_SERVER = """
import json, sys
asking = {"form": {"message": "Your name?", "requestedSchema": {
              "type": "object", "properties": {"name": {"type": "string", "title": "Name"},
              "age": {"type": "integer"}}, "required": ["name"]}},
          "url": {"mode": "url", "message": "Go there.", "url": "http://127.0.0.1:9/x",
              "elicitationId": "e-1"}}
call = None
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def say(own, words):
    send(id=own, result={"content": [{"type": "text", "text": words}]})
for line in sys.stdin:
    message = json.loads(line)
    method, own = message.get("method"), message.get("id")
    params = message.get("params") or {}
    if method == "initialize":
        open("greeting.json", "w").write(json.dumps(params, indent=1, sort_keys=True))
        send(id=own, result={"protocolVersion": params["protocolVersion"],
             "capabilities": {"tools": {}}, "serverInfo": {"name": "clerk", "version": "1"}})
    elif method == "tools/list":
        schema = {"type": "object", "properties": {}}
        send(id=own, result={"tools": [{"name": name, "inputSchema": schema}
                                       for name in ("sign", "shout", "leave")]})
    elif method == "tools/call":
        call = own
        if params["name"] == "sign":
            send(id="ask", method="elicitation/create",
                 params=asking[params["arguments"].get("mode", "form")])
        elif params["name"] == "leave":
            sys.exit(3)
        else:
            say(own, params["arguments"].get("words", "").upper())
    elif own == "ask":
        say(call, json.dumps(message.get("result", message.get("error"))))
    elif own is not None:
        send(id=own, error={"code": -32601, "message": "Method not found"})
"""


def lay_server(cwd: Path) -> None:
    """Puts the server where the CLI starts it."""
    (cwd / "clerk.py").write_text(STDIO_SERVER)


def lay_project_server(cwd: Path) -> None:
    """Puts the server and the project's own list of servers there."""
    lay_server(cwd)
    (cwd / ".mcp.json").write_text(json.dumps(CLERK))


def config(**servers: Any) -> str:
    """The flag that names servers."""
    return f"--mcp-config={json.dumps({'mcpServers': servers})}"


CLERK_ENTRY = {"type": "stdio", "command": "python3", "args": ["clerk.py"]}
CLERK = {"mcpServers": {"clerk": CLERK_ENTRY}}


def connected(*prompts: str, hooks: Any = None) -> Callable[[Cli], Any]:
    """Waits until the server of the command line is there, then plays prompts."""

    async def play(cli: Cli) -> None:
        await cli.control("initialize", hooks=hooks)
        await cli.control("mcp_reconnect", serverName="clerk")
        await cli.control("mcp_status")
        await turns(*prompts)(cli)

    return play


def elicited(answer: Message) -> dict[str, Any]:
    """The host's answers where a server asks the user."""
    return {
        "can_use_tool": allow,
        "elicitation": lambda _: answer,
        "hook_callback": lambda _: {},
    }


def events(*names: str) -> dict[str, Any]:
    """The `hooks` of an `initialize` that hears these events."""
    return {name: [{"hookCallbackIds": [name]}] for name in names}


def met(*prompts: str, **fields: Any) -> Callable[[Cli], Any]:
    """Lets the CLI and the host's server greet each other, then plays prompts."""

    async def play(cli: Cli) -> None:
        await cli.control("initialize", **fields)
        await cli.until(is_listing)
        await turns(*prompts)(cli)

    return play


def is_listing(line: Message) -> bool:
    """Whether the CLI asks a server of the host's for its tools."""
    return line.get("request", {}).get("message", {}).get("method") == "tools/list"


async def server_controls(cli: Cli) -> None:
    """Asks about servers, turns them off and on, sets others."""
    await met("First.", sdkMcpServers=["calc"])(cli)
    await cli.control("mcp_status")
    await cli.control("mcp_reconnect", serverName="calc")
    await cli.control("mcp_reconnect", serverName="none")
    await cli.control("mcp_toggle", serverName="calc", enabled=False)
    await cli.control("mcp_status")
    await turns("Second.")(cli)
    await cli.control("mcp_toggle", serverName="calc", enabled=True)
    await cli.control("mcp_toggle", serverName="none", enabled=True)
    await cli.control("mcp_status")
    await turns("Third.")(cli)


async def set_servers(cli: Cli) -> None:
    """Sets servers, changes them, takes them away."""
    await cli.control("initialize")
    await cli.control("mcp_set_servers", servers={"clerk": CLERK_ENTRY})
    await cli.control("mcp_status")
    await turns("First.")(cli)
    await cli.control("mcp_set_servers", servers={"calc": {"type": "sdk", "name": "calc"}})
    await cli.until(is_listing)
    await turns("Second.")(cli)
    await cli.control("mcp_status")
    await cli.control(
        "mcp_set_servers", servers={"gone": {"type": "stdio", "command": "/no/such", "args": []}}
    )
    await cli.control("mcp_set_servers", servers={})
    await cli.control("mcp_status")


async def called_directly(cli: Cli) -> None:
    """Calls tools without the model."""
    await met("First.", sdkMcpServers=["calc"])(cli)
    await cli.control("mcp_call", tool="mcp__calc__add", arguments={"a": 1, "b": 2})
    await cli.control("mcp_call", tool="mcp__calc__add", arguments={"want": "error"})
    await cli.control("mcp_call", tool="mcp__calc__add", arguments={"want": "refusal"})
    await cli.control("mcp_call", tool="mcp__none__add", arguments={})
    await cli.control("mcp_call", tool="mcp__calc__none", arguments={"a": 1})


async def process_called(cli: Cli) -> None:
    """Calls tools of a server that is a process, without the model."""
    await connected()(cli)
    await cli.control("mcp_call", tool="mcp__clerk__shout", arguments={"words": "hey"})
    await cli.control("mcp_call", tool="mcp__clerk__none", arguments={})
    await cli.control("mcp_call", tool="mcp__clerk__leave")
    await cli.control("mcp_toggle", serverName="clerk", enabled=False)
    await cli.control("mcp_status")
    await cli.control("mcp_call", tool="mcp__clerk__shout", arguments={"words": "hey"})
    await cli.control("mcp_toggle", serverName="clerk", enabled=True)
    await cli.control("mcp_status")


def serve_more(request: Message) -> Message:
    """A server that has resources and prompts too."""
    message = request["message"]
    extra: dict[str, Message] = {
        "resources/list": {"resources": [{"uri": "note://1", "name": "first"}]},
        "resources/read": {
            "contents": [{"uri": "note://1", "mimeType": "text/plain", "text": "A note."}]
        },
        "prompts/list": {"prompts": [{"name": "greet", "description": "Greets."}]},
    }
    if message["method"] in extra:
        result = extra[message["method"]]
        return {"mcp_response": {"jsonrpc": "2.0", "id": message["id"], "result": result}}
    answer = serve(request)
    if message["method"] == "initialize":
        offered = {"tools": {}, "resources": {}, "prompts": {}}
        answer["mcp_response"]["result"]["capabilities"] = offered
    return answer


async def list_changed(cli: Cli) -> None:
    """Lets the host's server say that its tools are others now."""
    await met("First.", sdkMcpServers=["calc"])(cli)
    message = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    await cli.control("mcp_message", server_name="calc", message=message)
    await cli.until(is_listing)
    await turns("Second.")(cli)


async def interrupted_call(cli: Cli) -> None:
    """Interrupts while the host's tool is at work."""
    await cli.control("initialize", sdkMcpServers=["calc"])
    await cli.until(is_listing)
    cli.prompt("Add.")
    await cli.until(
        lambda line: line.get("request", {}).get("message", {}).get("method") == "tools/call"
    )
    await cli.control("interrupt")
    await cli.settle()


def serve_slowly(request: Message) -> Message | None:
    """A server whose tools never answer."""
    return None if request["message"]["method"] == "tools/call" else serve(request)


SCHEMA = {
    "type": "object",
    "properties": {
        "answer": {"type": "string"},
        "size": {"type": "integer", "minimum": 1},
        "kind": {"enum": ["big", "small"]},
        "parts": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    },
    "required": ["answer"],
    "additionalProperties": False,
}


KEYWORDS = {
    "type": "object",
    "properties": {
        "short": {"type": "string", "minLength": 1, "maxLength": 5},
        "code": {"type": "string", "pattern": "^[a-c]+$"},
        "both": {"type": ["string", "null"]},
        "few": {
            "type": "array",
            "items": {"type": "integer"},
            "minItems": 1,
            "maxItems": 2,
            "uniqueItems": True,
        },
        "one": {"oneOf": [{"type": "string"}, {"type": "number"}]},
        "any": {"anyOf": [{"type": "string", "minLength": 2}, {"type": "number"}]},
        "never": {"not": {"type": "number"}},
        "fixed": {"const": "this"},
        "odd": {"type": "number", "multipleOf": 2},
        "low": {"exclusiveMinimum": 0},
        "high": {"type": "number", "exclusiveMaximum": 10},
        "place": {"$ref": "#/$defs/place"},
    },
    "patternProperties": {"^x-": {"type": "string"}},
    "additionalProperties": {"type": "string"},
    "minProperties": 1,
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"street": {"type": "string"}},
            "required": ["street", "town"],
        }
    },
}


def shaped(**given: Any) -> ToolCall:
    """The model's answer in the shape that was asked for."""
    return ToolCall(name="StructuredOutput", input=given)


def schema_flag(schema: Any) -> str:
    """The flag that asks for a shape."""
    return f"--json-schema={json.dumps(schema)}"


async def dies(cli: Cli) -> None:
    """Waits for a process that ends by itself."""
    await cli.exited()


def output_replaced(request: Message) -> Message:
    """Puts something else in place of what a tool of the server gave."""
    own = request["input"]
    given = {"text": "Other.", "structured": [{"type": "text", "text": "Blocks."}]}
    wanted = given.get(own["tool_input"].get("want", ""))
    if wanted is None:
        return {}
    name = own["hook_event_name"]
    return {"hookSpecificOutput": {"hookEventName": name, "updatedMCPToolOutput": wanted}}


SCENES = {
    "mcp_output_replaced": Scene(
        script(
            reply(calc("look_up", want="text")),
            reply(calc("look_up", want="structured")),
            reply(calc("look_up", want="nothing")),
            reply("Done."),
        ),
        met("Try all.", sdkMcpServers=["calc"], hooks=events("PostToolUse")),
        answers={
            "can_use_tool": allow,
            "mcp_message": serve,
            "hook_callback": output_replaced,
        },
    ),
    "tool_search": Scene(
        script(
            reply(tool("ToolSearch", query="select:mcp__calc__add", max_results=3)),
            reply(calc("add", a=2, b=3)),
            reply(tool("ToolSearch", query="select:mcp__calc__add,WebFetch,Nothing")),
            reply(tool("ToolSearch", query="wipe")),
            reply(tool("ToolSearch", query="zeppelin")),
            reply("Done."),
        ),
        met("Try all.", sdkMcpServers=["calc"]),
        answers={"can_use_tool": allow, "mcp_message": serve},
        env={"ENABLE_TOOL_SEARCH": "true"},
    ),
    "mcp_calc": Scene(
        script(reply("Adding.", calc("add", a=2, b=3)), reply("Five.")),
        met("Add two and three.", sdkMcpServers=["calc"]),
        answers={"can_use_tool": allow, "mcp_message": serve},
        covers="H8 H9 B1",
    ),
    "mcp_config_sdk": Scene(
        script(reply(calc("add", a=2, b=3)), reply("Five.")),
        met("Add two and three."),
        (config(calc={"type": "sdk", "name": "calc"}),),
        {"can_use_tool": allow, "mcp_message": serve},
        covers="C20",
    ),
    "mcp_results": Scene(
        script(
            *(reply(calc("look_up", want=want)) for want in (*RESULTS, "refusal")),
            reply("Done."),
        ),
        met("Try all.", sdkMcpServers=["calc"]),
        answers={"can_use_tool": allow, "mcp_message": serve},
        covers="H8",
    ),
    "mcp_permissions": Scene(
        script(
            reply(calc("look_up", want="text")),
            reply(calc("wipe", want="text")),
            reply(calc("say-it_now", want="text")),
            reply(calc("add", b=1)),
            reply(calc("none", a=1)),
            reply("Done."),
        ),
        met(
            "Try all.",
            sdkMcpServers=["calc"],
            hooks=events("PreToolUse", "PostToolUse", "PostToolUseFailure"),
        ),
        answers={"can_use_tool": deny, "mcp_message": serve, "hook_callback": lambda _: {}},
        covers="B1",
    ),
    "mcp_allowed": Scene(
        script(reply(calc("add", a=2, b=3)), reply(calc("wipe", want="text")), reply("Done.")),
        met("Try all.", sdkMcpServers=["calc"]),
        ("--allowedTools=mcp__calc",),
        {"mcp_message": serve},
    ),
    "mcp_big_result": Scene(
        script(reply(calc("add", want="big")), reply("Done.")),
        met("Try it.", sdkMcpServers=["calc"]),
        answers={
            "can_use_tool": allow,
            "mcp_message": lambda request: (
                serve(request)
                if request["message"]["method"] != "tools/call"
                else {
                    "mcp_response": {
                        "jsonrpc": "2.0",
                        "id": request["message"]["id"],
                        "result": {"content": words("word " * 60000)},
                    }
                }
            ),
        },
    ),
    "mcp_toggled": Scene(
        script(reply("One."), reply("Two."), reply("Three.")),
        server_controls,
        answers={"mcp_message": serve},
        covers="C10",
    ),
    "mcp_set_servers": Scene(
        script(reply("One."), reply("Two.")),
        set_servers,
        answers={"mcp_message": serve},
        prepare=lay_server,
        covers="C10",
    ),
    "mcp_call": Scene(
        script(reply("One.")), called_directly, answers={"mcp_message": serve}, covers="C10"
    ),
    "mcp_list_changed": Scene(
        script(reply("One."), reply("Two.")),
        list_changed,
        answers={"mcp_message": serve},
        covers="C11",
    ),
    "mcp_interrupted": Scene(
        script(reply(calc("add", a=2, b=3)), reply("Five.")),
        interrupted_call,
        answers={"can_use_tool": allow, "mcp_message": serve_slowly},
        covers="H13",
    ),
    "mcp_stdio": Scene(
        script(
            reply(tool("mcp__clerk__shout", words="hey")),
            reply(tool("mcp__clerk__leave")),
            reply(tool("mcp__clerk__shout", words="again")),
            reply("Done."),
        ),
        connected("Shout."),
        (config(clerk=CLERK_ENTRY),),
        {"can_use_tool": allow},
        prepare=lay_server,
        files=True,
    ),
    "mcp_process_called": Scene(
        script(reply("Fine.")),
        process_called,
        (config(clerk=CLERK_ENTRY),),
        prepare=lay_server,
        covers="C10",
    ),
    "mcp_more": Scene(
        script(
            reply(tool("ListMcpResourcesTool")),
            reply(tool("ListMcpResourcesTool", server="none")),
            reply(tool("ReadMcpResourceTool", server="calc", uri="note://1")),
            reply(tool("ReadMcpResourceTool", server="none", uri="note://1")),
            reply("Fine."),
        ),
        met("Hello.", sdkMcpServers=["calc"]),
        answers={"mcp_message": serve_more, "can_use_tool": allow},
    ),
    "mcp_failed": Scene(
        script(reply("Fine.")),
        connected("Hello."),
        (
            config(clerk={"command": "/no/such/command", "args": []}),
            config(web={"type": "http", "url": "http://127.0.0.1:9/mcp"}),
        ),
    ),
    "mcp_project": Scene(
        script(reply("Fine.")),
        initialized("Hello."),
        prepare=lay_project_server,
    ),
    "mcp_strict": Scene(
        script(reply("Fine.")),
        initialized("Hello."),
        ("--strict-mcp-config",),
        prepare=lay_project_server,
    ),
    "elicitation_accept": Scene(
        script(reply(tool("mcp__clerk__sign")), reply("Signed.")),
        connected("Sign it.", hooks=events("Elicitation", "ElicitationResult", "Notification")),
        (config(clerk=CLERK_ENTRY),),
        elicited({"action": "accept", "content": {"name": "Ann"}}),
        prepare=lay_server,
        covers="H10 C16",
    ),
    "elicitation_decline": Scene(
        script(reply(tool("mcp__clerk__sign")), reply("Not signed.")),
        connected("Sign it."),
        (config(clerk=CLERK_ENTRY),),
        elicited({"action": "decline"}),
        prepare=lay_server,
        covers="H10",
    ),
    "elicitation_cancel": Scene(
        script(reply(tool("mcp__clerk__sign", mode="url")), reply("Not signed.")),
        connected("Sign it."),
        (config(clerk=CLERK_ENTRY),),
        elicited({"action": "cancel"}),
        prepare=lay_server,
        covers="H10",
    ),
    "elicitation_hooked": Scene(
        script(reply(tool("mcp__clerk__sign")), reply("Signed.")),
        connected("Sign it.", hooks=events("Elicitation")),
        (config(clerk=CLERK_ENTRY),),
        {
            "can_use_tool": allow,
            "elicitation": lambda _: {"action": "accept", "content": {"name": "Ann"}},
            "hook_callback": lambda _: {
                "hookSpecificOutput": {
                    "hookEventName": "Elicitation",
                    "action": "accept",
                    "content": {"name": "Bob"},
                }
            },
        },
        prepare=lay_server,
        covers="H10",
    ),
    "structured_output": Scene(
        script(reply(shaped(answer="42", size=2))),
        initialized("What is the answer?", jsonSchema=SCHEMA),
        (PARTIAL,),
        covers="E5",
    ),
    "structured_retry": Scene(
        script(
            reply(shaped(size=0)),
            reply(shaped(answer=1, kind="odd", parts=[])),
            reply(shaped(answer="a", more=1, parts=[1])),
            reply(shaped(answer="42", size=1.5)),
            reply(shaped(answer="42", size=1)),
        ),
        turns("What is the answer?"),
        (schema_flag(SCHEMA),),
        covers="E5",
    ),
    "structured_keywords": Scene(
        script(
            reply(shaped(short="abcdef", code="x", both=3, few=[1, 1, 2], **{"$bad": 1})),
            reply(shaped(short="", one=True, never=1, fixed="other", odd=3, few=[])),
            reply(shaped(any=[], place={"street": 1}, odd=2.5, both=None)),
            reply(shaped(few=["1"], low=0, high=10, any="x")),
            reply(shaped(code="abc")),
        ),
        turns("What is the answer?"),
        (schema_flag(KEYWORDS),),
        covers="E5",
    ),
    "structured_given_up": Scene(
        script(*(reply(shaped(size=0)) for _ in range(8))),
        turns("What is the answer?"),
        (schema_flag(SCHEMA),),
        covers="E5",
    ),
    "structured_never": Scene(
        script(*(reply("Forty-two.") for _ in range(8))),
        turns("What is the answer?"),
        (schema_flag(SCHEMA),),
        covers="E5 E7",
    ),
    "structured_bad_schema": Scene(
        script(reply("Forty-two.")),
        dies,
        (schema_flag({"type": "nonsense"}),),
        stderr=True,
    ),
    "structured_in_passing": Scene(
        script(reply("So:", shaped(answer="42")), reply("Over.")),
        turns("What is the answer?", "And again?"),
        (schema_flag(SCHEMA),),
        covers="E5",
    ),
}
