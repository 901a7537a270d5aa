"""What a client's model reads of this face: instructions, and prompts for the usual flows.

Both say who answers questions: where only a person may, no model is asked to try.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from pilothouse.errors import PilothouseError

from .addresses import address_of
from .tool_handlers import Answers

__all__ = ["PROMPTS", "Argument", "Flow", "Get", "getter", "instructions", "list_prompts"]

Context = ServerRequestContext[Any, Any]
Get = Callable[[Context, types.GetPromptRequestParams], Awaitable[types.GetPromptResult]]


class Argument(NamedTuple):
    """One thing to fill in."""

    name: str
    description: str
    required: bool = True


class Flow(NamedTuple):
    """One prompt. Its text names in braces each argument, and what depends on who answers."""

    name: str
    title: str
    description: str
    arguments: tuple[Argument, ...]
    text: str

    def told(self, answers: Answers, **values: str) -> str:
        """The text, filled in."""
        if "sessionId" in values:
            values["transcript"] = address_of(values["sessionId"], "transcript")
        return self.text.format(**ANSWERING[answers], **values)


TASK: Final = Argument("task", "What is to be done.")
DIRECTORY: Final = Argument("directory", "The folder to work in, as an absolute path.")
SESSION: Final = Argument("sessionId", "The session.")

INSTRUCTIONS: Final = (
    "Operates Claude Code sessions on this machine. claude_start begins one and returns at once; "
    "follow it with claude_status (give waitSeconds, and the last result's cursor as after). "
    "When its status is awaiting_input, it asks: {} claude_say goes on with any session, also "
    "one that has ended."
)
WHO: Final[dict[Answers, str]] = {
    "anyone": "pass the question on to the user unless it is yours to decide, and answer with "
    "claude_respond.",
    "person": "only a person may answer, in a form that this client shows or in another face of "
    "Pilothouse. Tell the user, and wait with claude_status.",
}

ANSWERING: Final[dict[Answers, dict[str, str]]] = {
    "anyone": {
        "following": """\
Whenever it has pendingQuestions, show me each of them with its options, ask me, and give my answer
with claude_respond. Do not answer for me.""",
        "deciding": """\
Show me the plan in full, with what you think is missing or risky in it, and ask me. Give my
decision with claude_respond: approve, approve_accept_edits, "revise: <what is to change>" or
reject.""",
        "passing": """\
Ask me about one after the other, and give each answer with claude_respond and the id of the
question. Do not answer for me.""",
    },
    "person": {
        "following": """\
Whenever it has pendingQuestions, show me each of them with its options. Only I can answer them, in
a form of this client's or in another face of Pilothouse: wait for that with claude_status.""",
        "deciding": """\
Show me the plan in full, with what you think is missing or risky in it. Only I can decide on it, in
a form of this client's or in another face of Pilothouse: wait for that with claude_status.""",
        "passing": """\
Only I can answer, in a form of this client's or in another face of Pilothouse: call claude_status
with waitSeconds 45 for one after the other, so that I am shown its form.""",
    },
}
"""Who answers -> what the model is told to do about what a session asks."""

_FOLLOW: Final = """\
Follow it with claude_status(sessionId, waitSeconds=45, after=<the last cursor>) until its status
is done, error or interrupted.
{following}"""

PROMPTS: Final = (
    Flow(
        name="delegate",
        title="Delegate a task",
        description="Start a session on a task, follow it, and pass on what it asks.",
        arguments=(TASK, DIRECTORY),
        text=f"""\
Start a Claude Code session in this directory with claude_start:
{{directory}}

Its task, word for word:
{{task}}

{_FOLLOW}

At the end tell me what it did, which files it changed, and what it cost.""",
    ),
    Flow(
        name="plan_first",
        title="Plan first, then implement",
        description="Let a session plan a task, review the plan with you, then implement it.",
        arguments=(TASK, DIRECTORY),
        text=f"""\
Start a Claude Code session with claude_start, permissionMode "plan", in this directory:
{{directory}}

Its task, word for word:
{{task}}

Wait with claude_status(sessionId, waitSeconds=45) for a pendingQuestion of type plan_approval.
{{deciding}}
After a revision there will be another plan: show me that, too. Once a plan is approved, go on.

{_FOLLOW}

At the end tell me how what was done differs from the plan, if it does.""",
    ),
    Flow(
        name="answer_questions",
        title="Answer what waits",
        description="Look through all sessions for what waits on you.",
        arguments=(),
        text="""\
Call claude_list, then claude_status for each session whose activeStatus is awaiting_input. Show
me everything that waits, the oldest first: which session and directory, what it is about, what is
asked, and the options. If nothing waits, say so.
{passing}""",
    ),
    Flow(
        name="catch_up",
        title="Catch up on a session",
        description="What a session has done, where it stands, and what it waits for.",
        arguments=(SESSION,),
        text="""\
Tell me what this session has done: {sessionId}

Call claude_status with outputLines 100, and read the resource
{transcript}
if you can read resources. In a few sentences: what was asked of it, what it did and changed, where
it stands now, what it waits for, what it has cost. Change nothing, and answer none of its
questions.""",
    ),
)
"""Every prompt there is."""

_BY_NAME: Final = {each.name: each for each in PROMPTS}


def instructions(answers: Answers) -> str:
    """Return the instructions for a client's model."""
    return INSTRUCTIONS.format(WHO[answers])


async def list_prompts(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListPromptsResult:
    """All of them: `on_list_prompts` of a server."""
    return types.ListPromptsResult(prompts=[_listed(each) for each in PROMPTS])


def getter(who: Callable[[], Awaitable[Answers]]) -> Get:
    """One of them, filled in: `on_get_prompt` of a server."""

    async def get(ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        flow = _BY_NAME.get(params.name)
        if flow is None:
            raise MCPError(types.INVALID_PARAMS, _unknown(params.name))
        values = _values(flow, params.arguments or {})
        try:
            answers = await who()
        except PilothouseError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        content = types.TextContent(text=flow.told(answers, **values))
        message = types.PromptMessage(role="user", content=content)
        return types.GetPromptResult(description=flow.description, messages=[message])

    return get


def _listed(flow: Flow) -> types.Prompt:
    arguments = [
        types.PromptArgument(name=each.name, description=each.description, required=each.required)
        for each in flow.arguments
    ]
    return types.Prompt(
        name=flow.name, title=flow.title, description=flow.description, arguments=arguments
    )


def _values(flow: Flow, given: dict[str, str]) -> dict[str, str]:
    known = [each.name for each in flow.arguments]
    values = {name: given.get(name, "").strip() for name in known}
    odd = [name for name in given if name not in known]
    missing = [each.name for each in flow.arguments if each.required and not values[each.name]]
    if odd or missing:
        what = f"has no argument {odd[0][:100]}" if odd else f"needs {', '.join(missing)}"
        takes = ", ".join(known) or "nothing"
        raise MCPError(types.INVALID_PARAMS, f"the prompt {flow.name} {what}; it takes {takes}")
    return values


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, _BY_NAME, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_BY_NAME)}"
    return f"there is no prompt {name[:100]}; {hint}"
