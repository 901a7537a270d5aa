"""Records what real CLIs write to stdout, scene by scene, into `streams/<version>/<scene>.jsonl`.

    python tests/data/record.py --cache .cache/clis [--version 2.1.325] [scene ...]

Each scene runs a CLI of its own against a scripted model, in a network namespace with nothing but
the loopback interface. The lines stay as they were written, except for the home folder, the user
id in temporary paths and the process id.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from pilothouse_sim.isolation import enter_network_namespace  # noqa: E402
from pilothouse_sim.real_cli import CLI_WHEELS, fetch  # noqa: E402
from pilothouse_sim.scenario import (  # noqa: E402
    ApiError,
    Branch,
    Broken,
    ModelRequest,
    Reply,
    Scenario,
    ToolCall,
    When,
    computed,
    gate,
    reply,
    text,
    thinking,
    tool,
)
from tests.support.raw_cli import Message, RawCli, allow, deny  # noqa: E402

ENVIRONMENT = {"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1", "ENABLE_TOOL_SEARCH": "false"}
Answers = dict[str, Callable[[Message], Message | None]]

HOOK_EVENTS = (
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "Notification",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "PreModelSwitch",
    "PostModelSwitch",
    "PermissionRequest",
    "PermissionDenied",
    "Setup",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "Elicitation",
    "ElicitationResult",
    "ConfigChange",
    "WorktreeCreate",
    "WorktreeRemove",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "DirectoryAdded",
    "MessageDisplay",
)

QUESTIONS = [
    {
        "question": "Which colour?",
        "header": "Colour",
        "options": [
            {"label": "Red", "description": "like a buoy"},
            {"label": "Blue", "description": "like the sea"},
        ],
        "multiSelect": False,
    }
]

SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}

ELICITING_SERVER = """
import json, sys
call = None
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, own = message.get("method"), message.get("id")
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "clerk", "version": "1"}
        send(id=own, result={"protocolVersion": version, "capabilities": {"tools": {}},
                             "serverInfo": info})
    elif method == "tools/list":
        schema = {"type": "object", "properties": {}}
        send(id=own, result={"tools": [{"name": "sign", "inputSchema": schema}]})
    elif method == "tools/call":
        call = own
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        send(id="ask", method="elicitation/create",
             params={"message": "Your name?", "requestedSchema": schema})
    elif own == "ask":
        content = [{"type": "text", "text": json.dumps(message.get("result", {}))}]
        send(id=call, result={"content": content})
    elif own is not None:
        send(id=own, result={})
"""


@dataclass
class Scene:
    """One recording: what the model says, and what the host does meanwhile."""

    scenario: Scenario
    play: Callable[[RawCli], Awaitable[None]]
    arguments: tuple[str, ...] = ()
    answers: Answers = field(default_factory=dict[str, Callable[[Message], Message | None]])
    prepare: Callable[[Path], None] | None = None


def bash(command: str, **more: Any) -> ToolCall:
    """A call of the Bash tool."""
    return tool("Bash", command=command, description="Run it", **more)


def is_ask(message: Message) -> bool:
    """Whether the CLI asks for permission."""
    return message["type"] == "control_request" and (
        message["request"]["subtype"] == "can_use_tool"
    )


def is_text(message: Message) -> bool:
    """Whether a piece of the model's text came."""
    return message["type"] == "stream_event" and message["event"]["type"] == "content_block_delta"


async def settle(cli: RawCli) -> None:
    """Waits for the end of the turn, and for the CLI to say that it is idle if it does."""
    if await cli.result() is None:
        raise RuntimeError("no result came")
    await cli.until(lambda line: line.get("state") == "idle", wait=1)


def turns(*prompts: str) -> Callable[[RawCli], Awaitable[None]]:
    """Plays prompts one after the other."""

    async def play(cli: RawCli) -> None:
        for words in prompts:
            cli.prompt(words)
            await settle(cli)

    return play


async def initialized_turn(cli: RawCli) -> None:
    """Initializes, then plays one prompt."""
    await cli.control("initialize", hooks=None)
    await turns("Say hello.")(cli)


async def exists(path: Path) -> None:
    """Waits for a file that a tool makes; nothing tells of it, so it looks again and again."""
    async with asyncio.timeout(20):
        while not path.exists():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.02)


async def parallel_permissions(cli: RawCli) -> None:
    """Answers two open questions in the reverse order."""
    cli.prompt("Read both files.")
    first, second = await cli.until(is_ask), await cli.until(is_ask)
    for asked in (second, first):
        assert asked is not None
        cli.respond(asked["request_id"], allow(asked["request"]))
    await settle(cli)


async def hooks(cli: RawCli) -> None:
    """Registers every event, then runs a tool."""
    table = {event: [{"hookCallbackIds": [f"on_{event}"]}] for event in HOOK_EVENTS}
    await cli.control("initialize", hooks=table)
    await turns("Make a file.")(cli)


async def hook_beats_ask(cli: RawCli) -> None:
    """Lets a PermissionRequest hook decide while the permission is still open."""
    await cli.control("initialize", hooks={"PermissionRequest": [{"hookCallbackIds": ["gate"]}]})
    cli.prompt("Make a file.")
    asked = await cli.until(
        lambda line: line.get("request", {}).get("subtype") == "hook_callback", start=0
    )
    assert asked is not None
    await cli.until(is_ask, wait=1, start=0)
    decision = {"behavior": "allow", "updatedInput": asked["request"]["input"]["tool_input"]}
    output = {"hookEventName": "PermissionRequest", "decision": decision}
    cli.respond(asked["request_id"], {"hookSpecificOutput": output})
    await settle(cli)


async def mcp_tool(cli: RawCli) -> None:
    """Offers a tool that lives in the host."""
    await cli.control("initialize", sdkMcpServers=["calc"])
    await turns("Add two and three.")(cli)


def serve_calc(request: Message) -> Message:
    """The host's MCP server."""
    message = request["message"]
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "calc", "version": "1"}
            result: Message = {"protocolVersion": version, "capabilities": {"tools": {}}}
            result["serverInfo"] = info
        case "tools/list":
            number = {"type": "number"}
            schema = {"type": "object", "properties": {"a": number, "b": number}}
            result = {"tools": [{"name": "add", "description": "Adds.", "inputSchema": schema}]}
        case "tools/call":
            total = sum(message["params"]["arguments"].values())
            result = {"content": [{"type": "text", "text": str(total)}]}
        case _:
            result = {}
    if "id" not in message:
        return {}
    return {"mcp_response": {"jsonrpc": "2.0", "id": message["id"], "result": result}}


async def interrupt_text(cli: RawCli) -> None:
    """Interrupts in the middle of a sentence, then goes on."""
    cli.prompt("Tell me a long story.")
    await cli.until(is_text)
    await cli.control("interrupt")
    await settle(cli)
    await turns("A short one, then.")(cli)


async def interrupt_tool(cli: RawCli) -> None:
    """Interrupts a tool that never ends, then goes on."""
    cli.prompt("Wait for ever.")
    await exists(cli.cwd / "started")
    await cli.control("interrupt")
    await settle(cli)
    await turns("Never mind.")(cli)


async def interrupt_ask(cli: RawCli) -> None:
    """Interrupts while a permission is open."""
    cli.prompt("Make a file.")
    await cli.until(is_ask)
    await cli.control("interrupt")
    await settle(cli)


async def stream_cut(cli: RawCli) -> None:
    """Lets the model's connection break once some of its text has come through."""
    cli.prompt("Hello.")
    await cli.until(is_text)
    cli.model.release("cut")
    await settle(cli)


async def subagent(cli: RawCli) -> None:
    """Waits for the sub-agent's end and for the turn that the CLI starts by itself."""
    cli.prompt("Have somebody look into it.")
    await cli.model.reached("agent")
    # Not every version ends the turn while the agent is at work.
    await cli.result(wait=2)
    cli.model.release("agent")
    await cli.result(wait=3)
    await cli.until(lambda line: line.get("state") == "idle", wait=1)


async def background_bash(cli: RawCli) -> None:
    """Lets a command outlive its turn."""
    cli.prompt("Build it in the background.")
    await cli.result()
    (cli.cwd / "go").touch()
    await cli.result(wait=3)
    await cli.until(lambda line: line.get("state") == "idle", wait=1)


async def structured(cli: RawCli) -> None:
    """Asks for an answer of a given shape."""
    await cli.control("initialize", jsonSchema=SCHEMA)
    await turns("What is the answer?")(cli)


async def folded_prompt(cli: RawCli) -> None:
    """Sends a prompt while a tool runs, and another while text streams."""
    cli.prompt("Run it.", "11111111-1111-4111-8111-111111111111")
    await exists(cli.cwd / "started")
    cli.prompt("And hurry.", "22222222-2222-4222-8222-222222222222")
    await cli.control("set_max_thinking_tokens", max_thinking_tokens=None)
    (cli.cwd / "go").touch()
    await cli.model.reached("talk")
    cli.prompt("One more thing.", "33333333-3333-4333-8333-333333333333")
    await cli.control("set_max_thinking_tokens", max_thinking_tokens=None)
    cli.model.release("talk")
    await cli.result()
    await settle(cli)


async def queued_prompts(cli: RawCli) -> None:
    """Sends two prompts while text streams; some versions make one turn of them."""
    cli.prompt("Talk.", "11111111-1111-4111-8111-111111111111")
    await cli.model.reached("talk")
    cli.prompt("First.", "22222222-2222-4222-8222-222222222222")
    cli.prompt("Second.", "33333333-3333-4333-8333-333333333333")
    await cli.control("set_max_thinking_tokens", max_thinking_tokens=None)
    cli.model.release("talk")
    await cli.result()
    await settle(cli)
    await cli.result(wait=1)


async def controls(cli: RawCli) -> None:
    """Asks for all sorts of things, among them one that no CLI knows."""
    await cli.control("initialize")
    await cli.control("initialize")
    for mode in ("acceptEdits", "bypassPermissions", "bogus", "default"):
        await cli.control("set_permission_mode", mode=mode)
    await cli.control("set_model", model="claude-haiku-4-5")
    await cli.control("mcp_status")
    await cli.control("interrupt")
    await cli.control("no_such_request", wait=2)
    await turns("Hello.")(cli)


async def elicitation(cli: RawCli) -> None:
    """Runs a tool whose MCP server asks the user for a name."""
    await cli.control("initialize")
    async with asyncio.timeout(20):
        while '"connected"' not in json.dumps(await cli.control("mcp_status")):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    await turns("Sign it.")(cli)


def write_plan(request: ModelRequest) -> Reply:
    """Writes the plan into the file that the CLI names to the model."""
    found = re.search(r"/[^\s\"'`]*/plans/[^\s\"'`]+?\.md", json.dumps(request.body))
    path = found.group(0) if found else "plan.md"
    return reply(tool("Write", file_path=path, content="# Plan\n\n1. Look\n2. Leap\n"))


def read_both(request: ModelRequest) -> Reply:
    """Reads two files beside the working directory, whose path the CLI tells the model."""
    found = re.search(r"(/[^\s\"'`\\]*/dev)/project", json.dumps(request.body))
    home = found.group(1) if found else "/nowhere"
    reads = [tool("Read", file_path=f"{home}/{name}.txt") for name in ("port", "starboard")]
    return reply("Reading both.", *reads)


def two_files(cwd: Path) -> None:
    """Puts files where reading needs a permission."""
    for name in ("port", "starboard"):
        (cwd.parent / f"{name}.txt").write_text(f"{name}\n")


def eliciting_server(cwd: Path) -> None:
    """Puts the MCP server where the CLI finds it."""
    (cwd / "clerk.py").write_text(ELICITING_SERVER)


def agent_call(request: ModelRequest) -> Reply:
    """Starts a sub-agent with the tool that this version has for it."""
    name = "Agent" if "Agent" in request.tools else "Task"
    arguments = {
        "description": "Look into it",
        "prompt": "Look around the harbour.",
        "subagent_type": "general-purpose",
        "run_in_background": True,
    }
    return reply(ToolCall(name=name, input=arguments))


def foreground_agent_call(request: ModelRequest) -> Reply:
    """The same, without a word about the background: 2.1.325 puts it there all the same."""
    call = agent_call(request).steps[0]
    assert isinstance(call, ToolCall)
    arguments = {key: value for key, value in call.input.items() if key != "run_in_background"}
    return reply(ToolCall(name=call.name, input=arguments))


def answer_questions(request: Message) -> Message:
    """Chooses blue."""
    return {
        "behavior": "allow",
        "updatedInput": {**request["input"], "answers": {"Which colour?": "Blue"}},
    }


UNTIL_GO = "touch started; while [ ! -e go ]; do sleep 0.05; done; echo over"
PARTIAL = "--include-partial-messages"
REPLAY = "--replay-user-messages"
CLERK = {"mcpServers": {"clerk": {"type": "stdio", "command": "python3", "args": ["clerk.py"]}}}

SCENES: dict[str, Scene] = {
    "plain_turn": Scene(
        Scenario(
            replies=[reply(thinking("A greeting is due.", chunk=8), text("Hello there.", chunk=5))]
        ),
        initialized_turn,
        (PARTIAL,),
    ),
    "permission_allow": Scene(
        Scenario(replies=[reply("Making it.", bash("touch made")), reply("Made.")]),
        turns("Make a file."),
        (PARTIAL,),
        {"can_use_tool": allow},
    ),
    "permission_deny": Scene(
        Scenario(replies=[reply("Making it.", bash("touch made")), reply("Not made.")]),
        turns("Make a file."),
        answers={"can_use_tool": deny},
    ),
    "parallel_permissions": Scene(
        Scenario(replies=[computed(read_both), reply("Both read.")]),
        parallel_permissions,
        prepare=two_files,
    ),
    "ask_user_question": Scene(
        Scenario(
            replies=[reply(tool("AskUserQuestion", questions=QUESTIONS)), reply("Blue it is.")]
        ),
        turns("Paint it."),
        answers={"can_use_tool": answer_questions},
    ),
    "exit_plan_mode": Scene(
        Scenario(replies=[computed(write_plan), reply(tool("ExitPlanMode")), reply("Leaping.")]),
        turns("Plan it."),
        ("--permission-mode=plan",),
        {"can_use_tool": allow},
    ),
    "hooks": Scene(
        Scenario(replies=[reply(bash("touch made")), reply("Made.")]),
        hooks,
        answers={"can_use_tool": allow, "hook_callback": lambda _: {}},
    ),
    "hook_beats_ask": Scene(
        Scenario(replies=[reply(bash("touch made")), reply("Made.")]), hook_beats_ask
    ),
    "mcp_tool": Scene(
        Scenario(replies=[reply(tool("mcp__calc__add", a=2, b=3)), reply("Five.")]),
        mcp_tool,
        answers={"can_use_tool": allow, "mcp_message": serve_calc},
    ),
    "elicitation": Scene(
        Scenario(replies=[reply(tool("mcp__clerk__sign")), reply("Signed.")]),
        elicitation,
        (f"--mcp-config={json.dumps(CLERK)}",),
        {
            "can_use_tool": allow,
            "elicitation": lambda _: {"action": "accept", "content": {"name": "Ann"}},
        },
        eliciting_server,
    ),
    "interrupt_text": Scene(
        Scenario(replies=[reply("Once upon ", gate("never"), "a time"), reply("The end.")]),
        interrupt_text,
        (PARTIAL,),
    ),
    "interrupt_tool": Scene(
        Scenario(replies=[reply(bash(UNTIL_GO)), reply("Very well.")]),
        interrupt_tool,
        answers={"can_use_tool": allow},
    ),
    "interrupt_ask": Scene(Scenario(replies=[reply(bash("touch made"))]), interrupt_ask),
    "background_agent": Scene(
        Scenario(
            replies=[computed(agent_call), reply("Somebody is on it."), reply("It is done.")],
            branches=[
                Branch(
                    when=When(prompt_contains="Look around the harbour."),
                    replies=(reply("Looking.", bash("ls")), reply(gate("agent"), "All quiet.")),
                )
            ],
        ),
        subagent,
        answers={"can_use_tool": allow},
    ),
    "agent": Scene(
        Scenario(
            replies=[computed(foreground_agent_call), reply("Noted."), reply("It is done.")],
            branches=[
                Branch(
                    when=When(prompt_contains="Look around the harbour."),
                    replies=(reply(bash("touch made")), reply(gate("agent"), "All quiet.")),
                )
            ],
        ),
        subagent,
        answers={"can_use_tool": allow},
    ),
    "background_bash": Scene(
        Scenario(
            replies=[
                reply(bash(UNTIL_GO, run_in_background=True)),
                reply("It runs."),
                reply("It is over."),
            ]
        ),
        background_bash,
        answers={"can_use_tool": allow},
    ),
    "api_error": Scene(
        Scenario(
            replies=[reply("Better.")],
            branches=[
                Branch(
                    when=When(last_contains="Fail, please."),
                    replies=(ApiError(status=400, message="messages: no"),) * 12,
                )
            ],
        ),
        turns("Fail, please."),
    ),
    "api_retry": Scene(
        Scenario(replies=[ApiError(status=529), ApiError(status=529), reply("At last.")]),
        turns("Hello."),
    ),
    "stream_cut": Scene(
        Scenario(
            replies=[Broken(reply=reply("Not", gate("cut"), " this."), after=3), reply("This.")]
        ),
        stream_cut,
        (PARTIAL,),
    ),
    "max_turns": Scene(
        Scenario(replies=[reply(bash("ls")), reply(bash("ls")), reply("Done.")]),
        turns("Look around.", "And again."),
        ("--max-turns=1",),
    ),
    "structured_output": Scene(
        Scenario(replies=[reply(tool("StructuredOutput", answer="42")), reply("There.")]),
        structured,
    ),
    "compact": Scene(
        Scenario(replies=[reply("A long story."), reply("Where were we?")]),
        turns("Tell me.", "/compact", "Go on."),
        (REPLAY,),
    ),
    "clear": Scene(
        Scenario(replies=[reply("A long story."), reply("Who are you?")]),
        turns("Tell me.", "/clear", "Hello again."),
        (REPLAY,),
    ),
    "folded_prompt": Scene(
        Scenario(
            replies=[reply(bash(UNTIL_GO)), reply("As ", gate("talk"), "asked."), reply("Yes?")]
        ),
        folded_prompt,
        (REPLAY, PARTIAL),
        {"can_use_tool": allow},
    ),
    "queued_prompts": Scene(
        Scenario(replies=[reply("As ", gate("talk"), "asked."), reply("Yes."), reply("Yes, yes.")]),
        queued_prompts,
        (REPLAY,),
    ),
    "controls": Scene(Scenario(replies=[reply("Hello.")]), controls),
}


async def record(binary: Path, scene: Scene) -> list[str]:
    """Plays one scene and returns the lines the CLI wrote."""
    cli = RawCli(
        binary,
        scene.scenario,
        *scene.arguments,
        env=ENVIRONMENT,
        answers=scene.answers,
        prepare=scene.prepare,
    )
    async with cli:
        await scene.play(cli)
    return [scrub(line, cli.home) for line in cli.raw]


def scrub(line: str, home: Path) -> str:
    """Takes out what belongs to the machine the recording was made on."""
    line = line.replace(str(home), "/home/dev")
    line = line.replace(re.sub(r"[^A-Za-z0-9]", "-", str(home)), "-home-dev")
    line = re.sub(r"/tmp/claude-\d+", "/tmp/claude-1000", line)
    line = re.sub(r"/cc-socks/\d+", "/cc-socks/4242", line)
    return re.sub(r'"pid":\d+', '"pid":4242', line)


def main() -> int:
    """Records the scenes that are asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--version", action="append", dest="versions")
    parser.add_argument("scenes", nargs="*", default=list(SCENES))
    options = parser.parse_args()
    binaries = {one: fetch(one, options.cache).resolve() for one in options.versions or CLI_WHEELS}
    if not enter_network_namespace():
        sys.exit("record: this system gives no network namespace; run it as root on Linux")
    for version, binary in binaries.items():
        folder = HERE / "streams" / version
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.scenes:
            lines = asyncio.run(record(binary, SCENES[name]))
            (folder / f"{name}.jsonl").write_text("".join(lines))
            print(f"{version} {name}: {len(lines)} lines")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
