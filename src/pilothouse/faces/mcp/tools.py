"""The tools a client is told of, as plain data: names, texts, schemas, hints."""

from __future__ import annotations

from typing import Any, Final

__all__ = [
    "ACTIONS",
    "LINES",
    "MODES",
    "MOST_IMAGES",
    "MOST_LINES",
    "MOST_SESSIONS",
    "PERMISSION_CHECK",
    "SESSIONS",
    "TOOLS",
    "WAIT_S",
    "listed",
]

Schema = dict[str, Any]

MODES: Final = ("default", "acceptEdits", "plan", "bypassPermissions", "auto", "dontAsk")
STATES: Final = ("active", "awaiting_input", "done", "error", "interrupted")
WAIT_S: Final = 50
"""Below the time after which the usual clients give a call up."""
LINES: Final = 50
MOST_LINES: Final = 1_000
SESSIONS: Final = 50
MOST_SESSIONS: Final = 500
MOST_IMAGES: Final = 20
ACTIONS: Final = ("set", "compact", "rewind", "cancel", "stop")

STRING: Final[Schema] = {"type": "string"}
COUNT: Final[Schema] = {"type": "integer"}
STATUS: Final[Schema] = {"type": "string", "enum": list(STATES)}


def _text(description: str) -> Schema:
    # That it may not be empty is said to who leaves it so: the list has to be short.
    return {"type": "string", "description": description}


def _texts(description: str) -> Schema:
    return {"type": "array", "items": STRING, "description": description}


def _mode(description: str) -> Schema:
    return {"type": "string", "enum": list(MODES), "description": description}


def _number(description: str, least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most, "description": description}


def _object(properties: Schema, *required: str) -> Schema:
    """What a caller gives: a name that is not known is an error, not a silence."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _told(properties: Schema, *required: str) -> Schema:
    """What is told: there may be more than the schema names."""
    return {"type": "object", "properties": properties, "required": list(required)}


def _tool(
    name: str,
    title: str,
    description: str,
    given: Schema,
    told: Schema | None,
    *,
    reads: bool = False,
    destroys: bool = False,
    repeats: bool = False,
    open_world: bool = True,
) -> Schema:
    hints: Schema = {"readOnlyHint": reads, "openWorldHint": open_world}
    if not reads:
        hints |= {"destructiveHint": destroys}
    if repeats:
        hints["idempotentHint"] = True
    tool: Schema = {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": given,
        "annotations": hints,
    }
    return tool if told is None else {**tool, "outputSchema": told}


SESSION: Final = _text("The session's id")
WAIT: Final[Schema] = {
    "type": "number",
    "minimum": 0,
    "maximum": WAIT_S,
    "description": "Wait so long for a question or the turn's end, then tell all of claude_status",
}

QUESTION: Final = _told(
    {
        "id": STRING,
        "type": {"enum": ["tool_approval", "plan_approval", "question", "elicitation"]},
        "questions": {
            "type": "array",
            "items": _told(
                {
                    "question": STRING,
                    "options": {"type": "array", "items": STRING},
                    "header": STRING,
                    "descriptions": {"type": "array", "items": STRING},
                    "multiSelect": {"type": "boolean"},
                },
                "question",
                "options",
            ),
        },
    },
    "id",
    "type",
    "questions",
)

MESSAGE: Final = _text("A message's id, from claude_say or the transcript")
IMAGES: Final[Schema] = {
    "type": "array",
    "items": STRING,
    "description": "Image files, or data: URLs",
}
THINKING: Final[Schema] = {"type": "integer", "minimum": 0, "description": "Tokens for a thought"}

# Which states there are stands once, in claude_status.
ACTED: Final[Schema] = {"sessionId": STRING, "status": STRING, "cursor": COUNT}

START: Final = _tool(
    "claude_start",
    "Start a Claude Code session",
    "Start a Claude Code session. It goes on by itself; follow it with claude_status. What is left "
    "out is as Claude Code is configured.",
    _object(
        {
            "prompt": _text("The task"),
            "workingDirectory": _text("Absolute path of the directory to work in"),
            "model": _text("Such as sonnet, opus, or a full model id"),
            "permissionMode": _mode("plan: read only, then a plan to approve"),
            "allowedTools": _texts("Tools that need no approval: Read, Bash(git diff *)"),
            "disallowedTools": _texts("Tools that are blocked"),
            "maxTurns": {"type": "integer", "minimum": 1, "description": "Default: no limit"},
            "maxBudgetUsd": {
                "type": "number",
                "exclusiveMinimum": 0,
                "description": "Default: no limit",
            },
            "sessionCapUsd": {
                "type": "number",
                "exclusiveMinimum": 0,
                "description": "No turn begins once the session has cost this",
            },
            "systemPrompt": _text("Text that is appended to the system prompt"),
            "thinkingTokens": THINKING,
            "images": IMAGES,
            "jsonSchema": {
                "type": "object",
                "description": "The form of the result, which is told as structuredOutput",
            },
            "dangerouslySkipPermissions": {
                "type": "boolean",
                "description": "Ask for no permission at all. The operator has to allow it",
            },
            "waitSeconds": WAIT,
        },
        "prompt",
    ),
    _told({**ACTED, "messageId": STRING}, "sessionId", "status"),
    destroys=True,
)

SAY: Final = _tool(
    "claude_say",
    "Send a message to a session",
    "Send a message to a Claude Code session, also to one that has ended or that a person began: "
    "it is resumed. While a turn runs, the message is queued.",
    _object(
        {
            "sessionId": SESSION,
            "message": _text("The message"),
            "images": IMAGES,
            "permissionMode": _mode("Switch to this mode first"),
            "fork": {
                "type": "boolean",
                "description": "Leave the session as it is; say it to a copy, which is a new one",
            },
            "forkBefore": _text("With fork: the copy ends before the message of this id"),
            "waitSeconds": WAIT,
        },
        "sessionId",
        "message",
    ),
    _told(
        {
            **ACTED,
            "resumed": {"type": "boolean"},
            "parentSessionId": STRING,
            "messageId": STRING,
        },
        "sessionId",
        "status",
    ),
    destroys=True,
)

STATUS_TOOL: Final = _tool(
    "claude_status",
    "Status and output of a session",
    "The status of a session: its output, its tools, and what it asks (answer with "
    "claude_respond). With waitSeconds it returns when something has happened.",
    _object(
        {
            "sessionId": SESSION,
            "outputLines": _number(f"Lines of output to return. Default {LINES}", 0, MOST_LINES),
            "after": {
                "type": "integer",
                "minimum": 0,
                "description": "The cursor of an earlier result: tell only what is new since",
            },
            "waitSeconds": WAIT,
        },
        "sessionId",
    ),
    _told(
        {
            "sessionId": STRING,
            "status": STATUS,
            "result": STRING,
            "error": STRING,
            "recentOutput": {"type": "array", "items": STRING},
            "pendingQuestion": QUESTION,
            "pendingQuestions": {"type": "array", "items": {"type": "object"}},
            "toolUseEvents": {
                "type": "array",
                "items": _told(
                    {
                        "toolName": STRING,
                        "status": {"enum": ["running", "completed", "denied"]},
                        "error": {"type": "boolean"},
                    },
                    "toolName",
                    "status",
                ),
            },
            "toolUseLeftOut": COUNT,
            "costUsd": {"type": "number"},
            "tokens": _told(
                {"input": COUNT, "output": COUNT, "cacheRead": COUNT, "cacheWrite": COUNT}
            ),
            "models": {"type": "object"},
            "structuredOutput": {},
            "compacting": {"type": "boolean"},
            "subagents": {"type": "array", "items": {"type": "object"}},
            "queued": {"type": "array", "items": {"type": "object"}},
            "turnCount": COUNT,
            "cursor": COUNT,
            "next": STRING,
        },
        "sessionId",
        "status",
        "recentOutput",
        "toolUseEvents",
        "cursor",
    ),
    reads=True,
)

RESPOND: Final = _tool(
    "claude_respond",
    "Answer what a session asks",
    "Answer a pending question: one answer per question, from its options. Refused where only a "
    "person may answer.",
    _object(
        {
            "sessionId": SESSION,
            "id": _text("pendingQuestion.id"),
            "answers": {
                "type": "array",
                "items": STRING,
                "minItems": 1,
                "description": "Tool: allow, deny, 'deny: reason', 'deny_and_stop: reason', always "
                "(this session), 'always: localSettings' (or projectSettings, userSettings: "
                "written there). Plan: approve, reject, approve_accept_edits, approve_and_compact, "
                "'revise: what to change', clear_context (a new session "
                "implements it and accepts every edit). Question: a label, several joined by ', ' "
                "where multiSelect, your own words, or skip",
            },
            "updatedInput": {
                "type": "object",
                "description": "With allow: run the tool with this input instead",
            },
            "plan": _text("With an approval: the plan as edited"),
            "images": {**IMAGES, "description": "With revise: as in claude_say"},
            "notes": {
                "type": "object",
                "description": "Notes to the answers, by the question's text",
            },
            "updatedPermissions": {
                "type": "array",
                "items": {"type": "object"},
                "description": "With allow: changes of the rules, such as {type: addRules, rules: "
                "[{toolName: Bash, ruleContent: git:*}], behavior: allow | deny | ask}; "
                "replaceRules, removeRules; addDirectories, removeDirectories {directories}; "
                "setMode {mode}; destination: session (default) or a settings file",
            },
            "waitSeconds": WAIT,
        },
        "sessionId",
        "id",
        "answers",
    ),
    _told({**ACTED, "resumed": {"type": "boolean"}, "newSessionId": STRING}, "sessionId", "status"),
    destroys=True,
    repeats=True,
)

INTERRUPT: Final = _tool(
    "claude_interrupt",
    "Interrupt a session",
    "Stop the running turn, like Escape. claude_say goes on with the session.",
    _object({"sessionId": SESSION}, "sessionId"),
    _told(ACTED, "sessionId", "status"),
    destroys=True,
    repeats=True,
    open_world=False,
)

CONTROL: Final = _tool(
    "claude_control",
    "Control a session",
    "set: model, thinkingTokens, permissionMode, now and later. compact: summarise the "
    "conversation to make room. rewind: take files back to before a message. cancel: take a queued "
    "message back. stop: end its CLI.",
    _object(
        {
            "sessionId": SESSION,
            "action": {"type": "string", "enum": list(ACTIONS), "description": "What to do"},
            "model": _text("set: as in claude_start, or default"),
            "thinkingTokens": THINKING,
            "permissionMode": _mode("set: this mode"),
            "instructions": _text("compact: what to keep"),
            "messageId": MESSAGE,
            "preview": {"type": "boolean", "description": "rewind: only tell what would change"},
        },
        "sessionId",
        "action",
    ),
    _told({**ACTED, "rewind": {"type": "object"}, "note": STRING}, "sessionId", "status"),
    destroys=True,
)

LIST: Final = _tool(
    "claude_list",
    "List sessions",
    "Claude Code sessions of all projects, the most recent first, also those a person began. "
    "claude_say resumes any of them.",
    _object(
        {
            "workingDirectory": _text("Only the sessions of this directory"),
            "limit": _number(f"Default {SESSIONS}", 1, MOST_SESSIONS),
        }
    ),
    _told(
        {
            "sessions": {
                "type": "array",
                "items": _told(
                    {
                        "sessionId": STRING,
                        "projectDirectory": STRING,
                        "displayText": STRING,
                        "timestamp": STRING,
                        "isActive": {"type": "boolean"},
                        "activeStatus": STRING,
                        "openQuestions": COUNT,
                    },
                    "sessionId",
                    "projectDirectory",
                    "displayText",
                    "timestamp",
                    "isActive",
                ),
            },
            "total": COUNT,
        },
        "sessions",
    ),
    reads=True,
    open_world=False,
)

TOOLS: Final = (START, SAY, STATUS_TOOL, RESPOND, INTERRUPT, CONTROL, LIST)

PERMISSION_CHECK: Final = _tool(
    "permission_check",
    "Ask a person for permission",
    "For Claude Code's --permission-prompt-tool, not for models.",
    {
        "type": "object",
        "properties": {"tool_name": STRING, "input": {"type": "object"}, "tool_use_id": STRING},
        "required": ["tool_name", "input"],
    },
    None,
    open_world=False,
)
"""Its result is text alone, in the form the CLI expects of such a tool."""


def listed(*, permission_check: bool = False, tools: bool = True) -> list[Schema]:
    """The tools a client is told of."""
    return [*(TOOLS if tools else ()), *([PERMISSION_CHECK] if permission_check else ())]
