"""Asks the real CLI what it does with hundreds of tool calls, and keeps its answers as data.

Every suite is one CLI process: its model makes one call after the other, every question is
answered with a denial, and what the CLI wrote about each call becomes one line of
`permissions.jsonl`. Run it where a real CLI is cached:

    python tests/sim/simulator/data/measure_permissions.py --cli PATH [SUITE ...]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[3]))

from pilothouse_sim.isolation import enter_network_namespace  # noqa: E402
from pilothouse_sim.scenario import Branch, Scenario, When, reply, tool  # noqa: E402
from tests.sim.simulator.data.permission_suites import SUITES, Suite  # noqa: E402
from tests.support import raw_cli as rawcli  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable

Message = dict[str, Any]

TARGET = HERE / "permissions.jsonl"
_ASKING = "--permission-prompt-tool=stdio"
_PLACES = ("cwd", "home", "root")
_DROPPED = {"tool_use_id", "session_id", "uuid", "subtype", "type", "input", "tool_name"}


def main() -> int:
    """Measures the named suites, or all, and replaces their lines in the data file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cli", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=TARGET)
    parser.add_argument("suites", nargs="*")
    options = parser.parse_args()
    if not enter_network_namespace():
        sys.exit("a network namespace is needed")
    wanted = [suite for suite in SUITES if not options.suites or suite.name in options.suites]
    for suite in wanted:
        _write(options.out, {suite.name: asyncio.run(measure(options.cli.resolve(), suite))})
    return 0


async def measure(binary: Path, suite: Suite) -> list[Message]:
    """What the CLI did with every call of a suite."""
    rest = tuple(argument for argument in rawcli.ARGUMENTS if argument != _ASKING)
    rawcli.ARGUMENTS = (*rest, _ASKING) if suite.can_ask else rest
    child = Branch(when=When(prompt_contains="A child's work"), replies=(reply("Done."),) * 9)
    scenario = Scenario(replies=[], branches=[child])
    cli = rawcli.RawCli(
        binary,
        scenario,
        answers={
            "can_use_tool": rawcli.deny,
            "mcp_message": lambda request: _serve(suite, request),
        },
        prepare=lambda cwd: _prepare(suite, cli, cwd),
        env={"ENABLE_TOOL_SEARCH": "false", **suite.env},
    )
    async with cli:
        calls = [(name, _fill(arguments, cli)) for name, arguments in suite.calls]
        size = suite.turn or len(calls)
        turns = [calls[at : at + size] for at in range(0, len(calls), size)]
        for turn in turns:
            scenario.replies.extend(reply(tool(name, **arguments)) for name, arguments in turn)
            scenario.replies.append(reply("So much for that."))
        if suite.initialize:
            await cli.control("initialize", **suite.initialize)
        for update in suite.before:
            await cli.control(**update)
        for _ in turns:
            cli.prompt("Go on.")
            if await cli.result(wait=30 + size * 2) is None:
                sys.exit(f"{suite.name}: no result; {cli.stderr[:2000]}")
        lines = list(_cases(suite, cli))
    sys.stdout.write(f"{suite.name} {len(lines)}\n")
    sys.stdout.flush()
    return lines


def _prepare(suite: Suite, cli: rawcli.RawCli, cwd: Path) -> None:
    cli.arguments = tuple(_fill(argument, cli) for argument in suite.flags)
    root = cwd.parent.parent
    for name, content in suite.files.items():
        path = Path(name.format(cwd=cwd, home=cwd.parent, root=root))
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text.replace("{root}", str(root)))


def _serve(suite: Suite, request: Message) -> Message:
    message = request["message"]
    answers: dict[str, Any] = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": request["server_name"], "version": "1"},
        },
        "tools/list": {"tools": suite.mcp_tools},
        "tools/call": {"content": [{"type": "text", "text": "served"}]},
    }
    body = {"jsonrpc": "2.0", "id": message.get("id"), "result": answers.get(message["method"], {})}
    return {"mcp_response": body}


def _cases(suite: Suite, cli: rawcli.RawCli) -> Iterable[Message]:
    seen: dict[str, Message] = {}
    for line in cli.seen:
        _note(line, seen)
    for case in seen.values():
        yield _clean({"suite": suite.name, **case}, cli)


def _note(line: Message, seen: dict[str, Message]) -> None:
    match line:
        case {"type": "assistant", "message": {"content": [{"type": "tool_use"} as block]}}:
            seen[block["id"]] = {"tool": block["name"], "input": block["input"]}
        case {"type": "control_request", "request": {"subtype": "can_use_tool"} as request}:
            case = seen[request["tool_use_id"]]
            case["ask"] = _without(request)
            if request["input"] != case["input"]:
                case["asked_input"] = request["input"]
        case {"type": "system", "subtype": "permission_denied"}:
            seen[line["tool_use_id"]]["permission_denied"] = _without(line)
        case {"type": "user", "message": {"content": [{"type": "tool_result"} as block]}}:
            _note_result(line, block, seen[block["tool_use_id"]])
        case _:
            pass


def _note_result(line: Message, block: Message, case: Message) -> None:
    meta = line.get("tool_result_meta", [{}])[0]
    case["meta"] = {name: value for name, value in meta.items() if name != "id"}
    ran = case["meta"].get("permission_decision", {}).get("decision") == "accept"
    told = case.get("permission_denied", {}).get("message")
    # What follows from the message is left out: the file is large enough.
    if "ask" not in case and block.get("is_error") and not ran and block["content"] != told:
        case["result"] = block["content"]
    if line.get("tool_use_result") != f"Error: {told}" and "result" in case:
        case["tool_use_result"] = line.get("tool_use_result")


def _without(line: Message) -> Message:
    return {name: value for name, value in line.items() if name not in _DROPPED}


def _fill(value: Any, cli: rawcli.RawCli) -> Any:
    text = json.dumps(value)
    for place in _PLACES:
        text = text.replace("{" + place + "}", str(getattr(cli, place)))
    return json.loads(text)


def _clean(case: Message, cli: rawcli.RawCli) -> Message:
    root = str(cli.root)
    return json.loads(json.dumps(case).replace(root, "/home"))


def _write(target: Path, measured: dict[str, list[Message]]) -> None:
    old = target.read_text().splitlines() if target.exists() else []
    kept = [line for line in old if json.loads(line)["suite"] not in measured]
    new = [
        json.dumps(case, sort_keys=True, ensure_ascii=False)
        for cases in measured.values()
        for case in cases
    ]
    target.write_text("".join(f"{line}\n" for line in kept + new))


if __name__ == "__main__":
    raise SystemExit(main())
