"""What the tools tell: the same for programs (structured) and for models (text)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, Literal

from msgspec import json

from pilothouse.api.items import Item, TextItem
from pilothouse.api.questions import Question
from pilothouse.api.statuses import Listed, Listing, Queued, SignIn, Status, Subagent, ToolRun

from .addresses import address_of
from .problems import FORM_CLOSED, SIGN_IN, wants_sign_in
from .questions import pending
from .texts import bounded, line_of, quoted, time_of, writable

__all__ = ["By", "brief", "full", "listing", "listing_text", "text", "untouched", "writable"]

JsonObject = dict[str, Any]
By = Literal["anyone", "form", "person"]
"""Who answers what a session asks: whoever is told, or rather somebody who is shown a form, or
nobody but a person."""

SHOWN: Final = 16_000
"""Characters of output or of a result: more would fill a model's context with one call."""
TOOLS_SHOWN: Final = 8_000
"""Characters of the tools that were used."""
TITLE_SHOWN: Final = 200
SUBAGENTS_SHOWN: Final = 20
QUEUED_SHOWN: Final = 20
OPTIONS_SHOWN: Final = 200
"""Characters of the options that are named where an answer is to be."""
AT_REST: Final = ("done", "error", "interrupted")


# A session


def brief(status: Status, told: Mapping[str, Any], *, answered_by: By = "anyone") -> JsonObject:
    """What a call tells that has not waited."""
    return {
        "sessionId": status.session_id,
        "status": status.state,
        **({"simulated": True} if status.simulated else {}),
        **told,
        **_result(status),
        "cursor": status.cursor,
        **_error(status),
        **_questions(status.questions),
        "next": _next(status, told, answered_by),
    }


def full(
    status: Status,
    told: Mapping[str, Any],
    *,
    answered_by: By = "anyone",
    since: bool = False,
) -> JsonObject:
    """All there is to know of a session at this moment; `since`: output and tools are new ones."""
    return {
        "sessionId": status.session_id,
        "status": status.state,
        **told,
        **_result(status),
        **_error(status),
        **_output(status),
        **_questions(status.questions),
        **_tools(status, since=since),
        "costUsd": status.cost_usd,
        "tokens": {
            "input": status.tokens.input,
            "output": status.tokens.output,
            "cacheRead": status.tokens.cache_read,
            "cacheWrite": status.tokens.cache_write,
        },
        **({"models": _models(status)} if status.models else {}),
        "turnCount": status.turns,
        **_particulars(status),
        **_trouble(status, told),
        "cursor": status.cursor,
        "next": _next(status, told, answered_by),
    }


def untouched(found: Status, items: Sequence[Item], lines: int) -> JsonObject:
    """A session that was made elsewhere, and that nothing of ours runs; what its file ends with."""
    said = [each for each in items if isinstance(each, TextItem) and each.agent is None]
    output = [line for each in said for line in each.text.splitlines()]
    return {
        "sessionId": found.session_id,
        "status": "done",
        "onDisk": True,
        "recentOutput": _newest(output[-lines:] if lines else []),
        "toolUseEvents": [],
        "workingDirectory": found.cwd,
        "title": (found.title or "")[:TITLE_SHOWN],
        "cursor": 0,
        "note": ELSEWHERE,
        "next": _go_on(found.session_id),
    }


ELSEWHERE: Final = (
    "It was made elsewhere, and nothing of it has passed through here: this is what its file ends "
    "with, and whether it is at work now is not known here (a person may have it open). claude_say "
    "takes it up where it stopped; with fork: true it is left as it is"
)


def _result(status: Status) -> JsonObject:
    if status.state != "done" or status.result is None:
        return {}
    return {"result": _shown(status.result, status.session_id)}


def _error(status: Status) -> JsonObject:
    if status.state not in ("error", "interrupted"):
        return {"reason": status.reason} if status.reason else {}
    said = status.reason or (status.result if status.state == "error" else None)
    if not said:
        return {}
    if status.state == "error" and (wants_sign_in(said) or wants_sign_in(status.result)):
        return {"error": f"{_shown(said, status.session_id)}\n{SIGN_IN}"}
    return {"error": _shown(said, status.session_id)}


def _shown(text: str, session_id: str) -> str:
    return bounded(text, SHOWN, address_of(session_id, "transcript"))


def _output(status: Status) -> JsonObject:
    newest = _newest(status.output)
    is_cut = status.output_cut or newest != status.output
    return {"recentOutput": newest, **({"outputCut": True} if is_cut else {})}


def _newest(lines: Sequence[str]) -> list[str]:
    """The last lines that fit, in their order."""
    kept: list[str] = []
    left = SHOWN
    for line in reversed(lines):
        if left <= 0:
            break
        kept.append(line if len(line) <= left else f"{line[:left]} [cut]")
        left -= len(line) + 1
    return kept[::-1]


def _questions(questions: Sequence[Question]) -> JsonObject:
    if not questions:
        return {}
    told = [pending(each) for each in questions]
    return {"pendingQuestion": told[0], "pendingQuestions": told}


def _tools(status: Status, *, since: bool) -> JsonObject:
    """All so far, or since the cursor that was given; of very many the newest."""
    every = [_tool(each) for each in (*status.recent_tools, *status.running_tools)]
    shown = _newest_tools(every)
    ended = len(status.recent_tools) if since else status.tools_ended
    left_out = ended + len(status.running_tools) - len(shown)
    return {"toolUseEvents": shown, **({"toolUseLeftOut": left_out} if left_out > 0 else {})}


def _newest_tools(tools: Sequence[JsonObject]) -> list[JsonObject]:
    kept: list[JsonObject] = []
    left = TOOLS_SHOWN
    for tool in reversed(tools):
        left -= len(json.encode(writable(tool)))
        if left < 0:
            break
        kept.append(tool)
    return kept[::-1]


def _tool(tool: ToolRun) -> JsonObject:
    failed = tool.state == "failed"
    return {
        "toolName": tool.name,
        "status": "completed" if failed else tool.state,
        **({"error": True} if failed else {}),
        **({"detail": tool.detail[:TITLE_SHOWN]} if tool.detail else {}),
        **({"elapsedSeconds": tool.elapsed_s} if tool.elapsed_s is not None else {}),
    }


def _particulars(status: Status) -> JsonObject:
    """What differs from session to session, where there is something to say."""
    waiting = status.waiting_on
    found: JsonObject = {
        "workingDirectory": status.scratch or status.cwd,
        "title": status.title,
        "model": status.model,
        "permissionMode": status.mode,
        "waitingOn": f"{waiting.what} {waiting.detail}".strip() if waiting else None,
        "compacting": status.compacting or None,
        "structuredOutput": _structured(status),
        "subagents": [_subagent(each) for each in status.subagents[-SUBAGENTS_SHOWN:]] or None,
        "queuedMessages": len(status.queued) or None,
        "queued": [_queued(each) for each in status.queued[:QUEUED_SHOWN]] or None,
        "parentSessionId": status.parent,
        "newSessionId": status.successor,
        "simulated": status.simulated or None,
        "foreign": status.foreign or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _queued(queued: Queued) -> JsonObject:
    return {"messageId": queued.prompt_id, "text": queued.text[:TITLE_SHOWN]}


def _models(status: Status) -> JsonObject:
    return {
        name: {
            "costUsd": spent.cost_usd,
            "input": spent.tokens.input,
            "output": spent.tokens.output,
            "cacheRead": spent.tokens.cache_read,
            "cacheWrite": spent.tokens.cache_write,
        }
        for name, spent in status.models.items()
    }


def _structured(status: Status) -> Any:
    return status.structured_output if status.state == "done" else None


def _subagent(agent: Subagent) -> JsonObject:
    found: JsonObject = {
        "id": agent.id,
        "type": agent.kind,
        "description": agent.description[:TITLE_SHOWN],
        "toolUseId": agent.tool_use_id,
        "lastTool": agent.last_tool,
        "toolUses": agent.tool_uses or None,
        "tokens": agent.tokens or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _trouble(status: Status, told: Mapping[str, Any]) -> JsonObject:
    """Nobody has to wait until the CLI gives up trying."""
    retries = status.retry is not None and wants_sign_in(status.retry.error)
    signing = [] if status.sign_in is None else _signing_in(status.sign_in)
    if not retries and not signing:
        return {}
    advice = [SIGN_IN] if retries or (status.sign_in and status.sign_in.error) else []
    return {"note": "\n".join([*signing, *advice, *([told["note"]] if "note" in told else [])])}


def _signing_in(sign_in: SignIn) -> list[str]:
    if sign_in.error is not None:
        return [f"Claude Code could not sign in: {sign_in.error}"]
    return ["Claude Code is signing in.", *sign_in.output]


# What to do next


def _next(status: Status, told: Mapping[str, Any], answered_by: By) -> str:
    if status.questions:
        return _asking(answered_by) if _was_closed(told) else _answering(status, answered_by)
    successor = status.successor if status.state in AT_REST else None
    if new := told.get("newSessionId") or successor:
        return f"The plan goes on in a new session: {_status_call(new, None)}"
    if status.state == "active":
        return f"Follow it: {_status_call(status.session_id, status.cursor)}"
    if status.foreign:
        saying = _say_call(status.session_id)
        return f"Its CLI is not Pilothouse's, and only asks here. Once that has gone: {saying}"
    return _go_on(status.session_id)


def _asking(answered_by: By) -> str:
    where = "to answer in a form here or in another face of Pilothouse"
    what = where if answered_by == "person" else "what to answer"
    return (
        f"Ask the user {what}. A form for it was closed, which decides nothing: do not answer for "
        "them"
    )


def _was_closed(told: Mapping[str, Any]) -> bool:
    return FORM_CLOSED in str(told.get("note", ""))


def _answering(status: Status, answered_by: By) -> str:
    waiting = _status_call(status.session_id, status.cursor)
    answering = _respond_call(status.questions[0])
    match answered_by:
        case "anyone":
            return f"Ask the user, unless it is yours to decide; then: {answering}"
        case "form":
            told = f"A person may be asked in a form here. Wait for the answer: {waiting}"
            return f"{told}. Only if it is yours to decide: {answering}"
        case "person":
            return f"A person has to answer, here in a form or elsewhere. Wait for it: {waiting}"


def _go_on(session_id: str) -> str:
    return f"Go on: {_say_call(session_id)}"


def _say_call(session_id: str) -> str:
    return _call("claude_say", sessionId=session_id, message="...")


def _status_call(session_id: str, cursor: int | None) -> str:
    after = {} if cursor is None else {"after": cursor}
    return _call("claude_status", sessionId=session_id, **after, waitSeconds=50)


def _respond_call(question: Question) -> str:
    """How it is answered, and not with what: nobody is to answer because it stands there."""
    blanks = [_blank(each) for each in pending(question)["questions"]]
    return _call("claude_respond", sessionId=question.session_id, id=question.id, answers=blanks)


def _blank(asked: Mapping[str, Any]) -> str:
    options = line_of(" | ".join(asked["options"]))
    if not options:
        return "<words>"
    named = "the options" if len(options) > OPTIONS_SHOWN else options
    return f"<{'some' if asked['multiSelect'] else 'one'} of {named}>"


def _call(tool: str, **arguments: Any) -> str:
    return f"{tool}({json.encode(writable(arguments)).decode()})"


# For models


def text(told: Mapping[str, Any]) -> str:
    """The same as readable text."""
    parts = [_headline(told)]
    if output := told.get("recentOutput"):
        parts.append("\n".join(["Output:", *map(quoted, output)]))
    if told.get("outputCut"):
        parts.append("(there was more output: give a higher outputLines, or read the transcript)")
    if (result := told.get("result")) and not _ends_with(told.get("recentOutput", []), result):
        parts.append(f"Result:\n{quoted(result)}")
    if "structuredOutput" in told:
        parts.append(f"Structured output:\n{quoted(_json(told['structuredOutput']))}")
    if error := told.get("error"):
        parts.append(f"{'Error' if told['status'] == 'error' else 'Why'}:\n{quoted(error)}")
    if reason := told.get("reason"):
        parts.append(f"Why:\n{quoted(reason)}")
    if tools := told.get("toolUseEvents"):
        earlier = told.get("toolUseLeftOut")
        before = [f"({earlier} earlier ones are left out)"] if earlier else []
        parts.append("Tools: " + ", ".join([*before, *map(_tool_text, tools)]))
    if queued := told.get("queued"):
        more = told["queuedMessages"] - len(queued)
        lines = [line_of(f"{each['messageId']}: {each['text']}") for each in queued]
        lines += [f"({more} more)"] if more else []
        parts.append("\n".join(["No turn has these messages yet:", *map(quoted, lines)]))
    parts += [_question_text(each) for each in told.get("pendingQuestions", [])]
    if note := told.get("note"):
        parts.append(note)
    parts.append(f"Next: {told['next']}")
    return "\n\n".join(parts)


def _headline(told: Mapping[str, Any]) -> str:
    state = "its state is not known here" if told.get("onDisk") else told["status"]
    line = f"Session {told['sessionId']}: {state}"
    if told.get("resumed"):
        line += ", resumed"
    if parent := told.get("parentSessionId"):
        line += f", from {parent}"
    if message := told.get("messageId"):
        line += f" | message {message}"
    simulated = " | on the simulator" if told.get("simulated") else ""
    if "turnCount" not in told:
        return line + simulated
    spent = told["tokens"]["input"] + told["tokens"]["output"]
    line += f" | turns {told['turnCount']}, ${told['costUsd']:.4f}, {spent} tokens"
    waiting = f" | waits for {line_of(told['waitingOn'])}" if "waitingOn" in told else ""
    waiting += " | compacting" if told.get("compacting") else ""
    return f"{line}{waiting}{simulated} | cursor {told['cursor']}"


def _json(value: Any) -> str:
    return json.encode(writable(value)).decode()


def _ends_with(lines: Sequence[str], result: str) -> bool:
    return "\n".join(lines).strip().endswith(result.strip())


def _tool_text(tool: Mapping[str, Any]) -> str:
    state = "failed" if tool.get("error") else tool["status"]
    return f"{line_of(tool['toolName'])} {state}"


def _question_text(asked: Mapping[str, Any]) -> str:
    head = f"Question {asked['id']} ({asked['type']})"
    if reason := asked.get("reason"):
        head += f"; why: {line_of(reason)}"
    if expires := asked.get("expiresAt"):
        head += f"; denied if nobody answers by {expires}"
    return "\n".join([head, *(_one_text(each) for each in asked["questions"])])


def _one_text(one: Mapping[str, Any]) -> str:
    described = zip_longest(one["options"], one["descriptions"], fillvalue="")
    options = [
        line_of(f"- {option}: {told}" if told else f"- {option}") for option, told in described
    ]
    several = ["(several may be chosen, joined by ', ')"] if one["multiSelect"] else []
    return "\n".join([quoted(one["question"]), *several, *options])


# Lists


def listing(found: Listing) -> JsonObject:
    """Sessions as a list of them."""
    return {"sessions": [_listed(each) for each in found.sessions], "total": found.total}


def _listed(each: Listed) -> JsonObject:
    told: JsonObject = {
        "sessionId": each.session_id,
        "projectDirectory": each.cwd or "",
        "displayText": each.title[:TITLE_SHOWN],
        "timestamp": time_of(each.updated_at),
        "isActive": each.live,
    }
    if each.state is not None:
        told["activeStatus"] = each.state
    if each.questions:
        told["openQuestions"] = each.questions
    if each.foreign:
        told["foreign"] = True
    if each.simulated:
        told["simulated"] = True
    return told


def listing_text(told: Mapping[str, Any]) -> str:
    """The same as readable text."""
    sessions = told["sessions"]
    if not sessions:
        return "No sessions. Next: claude_start"
    lines = [_listed_text(each) for each in sessions]
    more = told["total"] - len(sessions)
    return "\n".join([*lines, *([f"({more} more: give a higher limit)"] if more > 0 else [])])


def _listed_text(each: Mapping[str, Any]) -> str:
    state = each.get("activeStatus", "(only on disk)")
    asked = f", {each['openQuestions']} open questions" if "openQuestions" in each else ""
    asked += ", on the simulator" if each.get("simulated") else ""
    place = f"{each['timestamp']} {each['projectDirectory']}"
    return line_of(f"{each['sessionId']} {state}{asked} {place}: {each['displayText']}")
