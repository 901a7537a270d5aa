"""Whether a client's line is the one a recording has, and where the two first differ.

Clients of another make say the same things in other words. What counts:

| line | what is compared |
|---|---|
| any | null is the same as absent; what redaction left stands for anything |
| user | all but `uuid`, `session_id` and `timestamp`; one text block is the same as its text |
| request: initialize | each hook's event and matcher, the names of in-process MCP servers |
| request: interrupt | that it is one |
| request: any other | all of it |
| answer: an error | that it is one |
| answer: can_use_tool | `behavior`, `message`, `interrupt`, `updatedPermissions`; `updatedInput` |
| | where it is not the input that was asked about |
| answer: hook_callback | all but what says nothing: `continue: true`, `suppressOutput: false` |
| answer: mcp_message | a tool call's `content` and `isError`, a list's names, a resource's |
| | `contents`, a prompt's `messages`; nothing of the handshake |
| answer: any other | all of it |
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final, cast

from pilothouse_sim.redaction import STAND_IN

__all__ = [
    "READS",
    "Difference",
    "describe",
    "differ",
    "essence",
    "flags_of",
    "hooks_of",
    "servers_in",
]

JsonObject = dict[str, Any]

READS: Final = frozenset(
    {"export_conversation", "file_suggestions", "get_binary_version", "get_chrome_browsers"}
    | {"get_chrome_dialog", "get_context_usage", "get_hooks_listing", "get_memory_dialog"}
    | {"get_plan", "get_sandbox_dialog", "get_session_cost", "get_settings", "get_skills_dialog"}
    | {"get_status", "get_task_output", "get_usage", "get_workspace_diff", "list_models"}
    | {"list_permission_rules", "mcp_status", "read_file"}
)
"""Requests that change nothing: answered whenever they come, and not waited for."""

UNCOMPARED: Final = frozenset({"uuid", "session_id", "timestamp"})
DECISION: Final = ("behavior", "message", "interrupt", "updatedPermissions", "updatedInput")
SAYS_NOTHING: Final[Mapping[str, Any]] = {"continue": True, "suppressOutput": False}
MCP_LISTS: Final = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
}
MCP_RESULTS: Final = {
    "tools/call": ("content", "isError"),
    "resources/read": ("contents",),
    "prompts/get": ("messages",),
}


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two lines part: the path of the first member that is not the same."""

    path: str
    recorded: Any
    live: Any

    def __str__(self) -> str:
        where = self.path or "the whole line"
        return f"{where}: {_brief(self.recorded)} in the recording, {_brief(self.live)} now"


def differ(recorded: Any, live: Any, path: str = "") -> Difference | None:
    """The first difference between two essences."""
    if isinstance(recorded, dict) and isinstance(live, dict):
        pairs = _members(cast("JsonObject", recorded), cast("JsonObject", live), path)
    elif isinstance(recorded, list) and isinstance(live, list):
        pairs = _items(cast("list[Any]", recorded), cast("list[Any]", live), path)
    else:
        return None if _same(recorded, live) else Difference(path, recorded, live)
    differences = (differ(old, new, where) for old, new, where in pairs)
    return next((each for each in differences if each is not None), None)


def _members(old: JsonObject, new: JsonObject, path: str) -> Iterator[tuple[Any, Any, str]]:
    for name in dict.fromkeys((*old, *new)):
        yield old.get(name), new.get(name), f"{path}.{name}" if path else name


def _items(old: list[Any], new: list[Any], path: str) -> Iterator[tuple[Any, Any, str]]:
    for index in range(max(len(old), len(new))):
        yield _item(old, index), _item(new, index), f"{path}[{index}]"


def _item(items: list[Any], index: int) -> Any:
    return items[index] if index < len(items) else None


def _same(recorded: Any, live: Any) -> bool:
    if isinstance(recorded, str) and isinstance(live, str) and STAND_IN.search(recorded):
        fixed = (re.escape(part) for part in STAND_IN.split(recorded))
        return re.fullmatch(".+?".join(fixed), live, re.DOTALL) is not None
    return recorded == live and isinstance(recorded, bool) == isinstance(live, bool)


# What counts


def essence(message: JsonObject, asked: JsonObject | None = None) -> JsonObject:
    """What of a client's line changes the CLI's part; `asked` is the request it answers."""
    match message.get("type"):
        case "user":
            kept = {name: value for name, value in message.items() if name not in UNCOMPARED}
            return kept | {"message": _plain_content(_object(message.get("message")))}
        case "control_request":
            return {"request": _request(_object(message.get("request")))}
        case "control_response":
            return {"response": _answer(_object(message.get("response")), asked or {})}
        case _:
            return message


def _object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _plain_content(message: JsonObject) -> JsonObject:
    match message.get("content"):
        case [{"type": "text", "text": str(text), **more}] if not more:
            return message | {"content": text}
        case _:
            return message


def _request(request: JsonObject) -> JsonObject:
    match request.get("subtype"):
        case "initialize":
            hooks = {
                event: [matcher for matcher, _ in callbacks]
                for event, callbacks in hooks_of(request).items()
            }
            return {"subtype": "initialize", "hooks": hooks}
        case "interrupt":
            return {"subtype": "interrupt"}
        case _:
            return request


def hooks_of(request: JsonObject) -> dict[str, list[tuple[str, str]]]:
    """Of an `initialize` request: each event's callbacks as (matcher, callback id)."""
    hooks: dict[str, list[tuple[str, str]]] = {}
    for event, matchers in _object(request.get("hooks")).items():
        for each in map(_object, _list(matchers)):
            matcher = str(each.get("matcher") or "*")
            for callback in _list(each.get("hookCallbackIds")):
                hooks.setdefault(event, []).append((matcher, str(callback)))
    return hooks


def servers_in(command: Sequence[str], request: JsonObject) -> list[str]:
    """The in-process MCP servers that a client names, on the command line or at the greeting."""
    named = request.get("sdkMcpServers")
    servers = {str(each) for each in (*_list(named), *_object(named))}
    for name, value in flags_of(command):
        if name == "--mcp-config":
            servers |= _sdk_servers(value)
    return sorted(servers)


def flags_of(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each argument as if it were a flag, with its value: `--name=value` or `--name value`."""
    for flag, following in zip_longest(command, command[1:], fillvalue=""):
        name, equals, given = flag.partition("=")
        yield name, given if equals else following


def _sdk_servers(config: str) -> set[str]:
    try:
        given = _object(json.loads(config))
    except ValueError:
        return set()
    servers = _object(given.get("mcpServers"))
    return {name for name, each in servers.items() if _object(each).get("type") == "sdk"}


def _answer(response: JsonObject, asked: JsonObject) -> JsonObject:
    if response.get("subtype") == "error":
        return {"subtype": "error"}
    body = _object(response.get("response"))
    reduce = _ANSWERS.get(str(asked.get("subtype")))
    return {"subtype": "success", "response": body if reduce is None else reduce(body, asked)}


def _decision(body: JsonObject, asked: JsonObject) -> JsonObject:
    kept = {name: body[name] for name in DECISION if body.get(name)}
    if not differ(asked.get("input"), kept.get("updatedInput")):
        kept.pop("updatedInput", None)
    return kept


def _hook_output(body: JsonObject, _: JsonObject) -> JsonObject:
    return {name: value for name, value in body.items() if SAYS_NOTHING.get(name) != value}


def _mcp_answer(body: JsonObject, asked: JsonObject) -> JsonObject:
    method = str(_object(asked.get("message")).get("method"))
    answer = _object(body.get("mcp_response"))
    result = _object(answer.get("result"))
    if method in MCP_LISTS:
        listed = MCP_LISTS[method]
        return {
            listed: sorted(str(_object(each).get("name")) for each in _list(result.get(listed)))
        }
    kept = {name: result[name] for name in MCP_RESULTS.get(method, ()) if result.get(name)}
    return kept | ({"error": True} if kept and "error" in answer else {})


_ANSWERS: Final[Mapping[str, Callable[[JsonObject, JsonObject], JsonObject]]] = {
    "can_use_tool": _decision,
    "hook_callback": _hook_output,
    "mcp_message": _mcp_answer,
}


# In words


def describe(message: Any, asked: JsonObject | None = None) -> str:
    """A client's line in a few words."""
    if not isinstance(message, dict):
        return f"the line {_brief(message)}"
    line = cast("JsonObject", message)
    match line:
        case {"type": "user", "message": {"content": content}}:
            return f"user prompt {_brief(_plain_content({'content': content})['content'])}"
        case {"type": "control_request", "request": {"subtype": subtype}}:
            return f"control_request {subtype}"
        case {"type": "control_response", "response": {"subtype": "error", "error": error}}:
            return f"{_name(asked)} answer: error {_brief(error)}"
        case {"type": "control_response", "response": {"response": {"behavior": behavior}}}:
            return f"{_name(asked)} answer {behavior}"
        case {"type": "control_response"}:
            return f"{_name(asked)} answer"
        case _:
            return f"{line.get('type')} line"


def _name(asked: JsonObject | None) -> str:
    if not asked:
        return "an unasked"
    tool = asked.get("tool_name") or _object(asked.get("input")).get("hook_event_name")
    if asked.get("subtype") == "mcp_message":
        tool = _object(asked.get("message")).get("method")
    return f"{asked.get('subtype')}{f' ({tool})' if tool else ''}"


def _brief(value: Any) -> str:
    if value is None:
        return "nothing"
    text = repr(value) if isinstance(value, (str, bytes)) else json.dumps(value, default=str)
    return text if len(text) <= 160 else f"{text[:157]}..."
