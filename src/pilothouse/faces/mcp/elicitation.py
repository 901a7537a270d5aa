"""Elicitation: questions as forms that a person fills in at the client.

Versions of MCP with a handshake let a server ask whenever it wants to: see `form_push`. From
2026-07-28 on a server asks only in the result of a call: `required` makes what such a result asks,
`take` applies what came back, and `Round` is the call as the client carries it from one result to
the next. A form that was declined or closed leaves its question open for everybody else.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from mcp.server.session import ServerSession
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputResponse,
)
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from pilothouse.api.questions import Question
from pilothouse.errors import (
    AnswerRefused,
    PilothouseError,
    QuestionSettled,
    UnknownQuestion,
    UsageError,
)

from .engine_handle import EngineHandle
from .forms import Form, answer_in, form_of
from .tool_handlers import Act

__all__ = ["ROUNDS", "Round", "Taken", "can_elicit", "can_open_pages", "give", "required", "take"]

AGAIN: Final = " "
"""Stands between a question's id and why its answer was not taken. No id has it."""
LONGEST_WHY: Final = 2_000
ROUNDS: Final = 10
"""Clients give a call up that asks more often."""
LONGEST_STATE: Final = 100_000
KEY: Final = secrets.token_bytes(32)
LOST: Final = (
    "requestState is none of this server's; it may have been started anew since. What the call "
    "was to do may be done: claude_list lists the sessions, and claude_status tells of one, and "
    "asks what it asks again"
)


def can_elicit(session: ServerSession) -> bool:
    """Return whether the client shows forms."""
    capabilities = session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    # Before there was anything else to show, forms had no name of their own.
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def can_open_pages(session: ServerSession) -> bool:
    """Return whether the client itself opens pages for a person."""
    capabilities = session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    return elicitation is not None and elicitation.url is not None


async def give(
    handle: EngineHandle, question: Question, content: Mapping[str, Any], name: str
) -> str:
    """Answer with the content of a form; return why the answer was refused, or nothing."""
    try:
        answer = answer_in(question, content)
        by = f"person via mcp:{name}"
        await handle.ask(lambda engine: engine.answer(question.id, answer, by=by))
    except (QuestionSettled, UnknownQuestion):
        # Somebody else was first: the session goes on, and the person sees that it does.
        return ""
    except AnswerRefused as error:
        # What it advises is for callers of the API.
        return error.message
    except PilothouseError as error:
        return _why(error)
    return ""


def _why(error: PilothouseError) -> str:
    return str(error) or type(error).__name__


# 2026-07-28: in the result of a call


def required(
    questions: Sequence[Question], dismissed: Collection[str], *, pages: bool = False
) -> dict[str, ElicitRequest]:
    """Return what a result asks of the client: a form for each question that it may be asked.

    `dismissed` is what `take` has noted in this call so far; `pages`: the client opens them itself.
    """
    refused = dict(each.split(AGAIN, 1) for each in dismissed if AGAIN in each)
    found: dict[str, ElicitRequest] = {}
    for question in questions:
        if not question.decidable or question.id in dismissed:
            continue
        form = form_of(question, again=refused.get(question.id, ""))
        if form is not None:
            key = f"{question.id}{AGAIN}again" if question.id in refused else question.id
            found[key] = _request(form, pages=pages)
    return found


def _request(form: Form, *, pages: bool) -> ElicitRequest:
    if pages and form.url is not None:
        return ElicitRequest(params=ElicitRequestURLParams(message=form.message, url=form.url))
    return ElicitRequest(
        params=ElicitRequestFormParams(message=form.message, requested_schema=form.schema)
    )


class Taken(NamedTuple):
    """What a client did with the forms that it was asked to show."""

    noted: set[str]
    """What `required` must know: the id of each question which is not to be asked again; and, of
    an answer that was not taken, the id with the reason: it is asked once more."""
    closed: set[str]
    """Questions whose form a person has closed without an answer."""


async def take(
    handle: EngineHandle,
    responses: Mapping[str, InputResponse] | None,
    name: str,
    *,
    asked: Collection[str],
    session_id: str,
) -> Taken:
    """Apply the responses to what `asked` names, about that session; ignore all others.

    It raises no error of the engine: an answer that fails does not affect the others.
    """
    noted, closed = set[str](), set[str]()
    for key in asked:
        response = (responses or {}).get(key)
        question_id, _, again = key.partition(AGAIN)
        if not isinstance(response, ElicitResult) or response.action != "accept":
            noted.add(question_id)
            if isinstance(response, ElicitResult):
                closed.add(question_id)
            continue
        why = await _take(handle, question_id, session_id, response.content or {}, name)
        if why:
            noted.add(question_id if again else f"{question_id}{AGAIN}{why[:LONGEST_WHY]}")
    return Taken(noted, closed)


async def _take(
    handle: EngineHandle, question_id: str, session_id: str, content: Mapping[str, Any], name: str
) -> str:
    try:
        question = await handle.ask(lambda engine: engine.question(question_id))
    except UnknownQuestion:
        return ""
    except PilothouseError as error:
        return _why(error)
    return "" if question.session_id != session_id else await give(handle, question, content, name)


class Round(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One round of a call: what was done, what the client is asked, what nobody is asked again.

    The client brings it back with what a person answered. It is sealed under a key that ends with
    this process, so nobody else can make one.
    """

    act: Act
    asked: list[str] = field(default_factory=list[str])
    """What the client may answer now."""
    noted: list[str] = field(default_factory=list[str])
    closed: list[str] = field(default_factory=list[str])
    """Questions whose form a person has closed without an answer."""
    number: Annotated[int, Meta(ge=0, le=ROUNDS)] = 0

    def sealed(self) -> str:
        """Return the text that the client carries."""
        told = msgspec.json.encode(replace(self, act=self.act.carried()))
        return f"{_seal(told)} {told.decode()}"

    @property
    def may_ask(self) -> bool:
        """Return whether the client would answer once more."""
        return self.act.wait_s > 0 and self.number < ROUNDS

    def asking(self, asked: Iterable[str]) -> Round:
        """Return the next round."""
        return replace(self, asked=list(asked), number=self.number + 1)

    def answered(self, noted: Iterable[str], closed: Iterable[str]) -> Round:
        """Return the round after the responses; from now on only new events end the wait."""
        return replace(
            self,
            act=replace(self.act, after=None),
            asked=[],
            noted=sorted({*self.noted, *noted}),
            closed=sorted({*self.closed, *closed}),
        )

    @classmethod
    def opened(cls, state: str, tool: str) -> Round:
        """Return the round that the client has brought back."""
        seal, _, told = state[:LONGEST_STATE].partition(" ")
        try:
            if not hmac.compare_digest(seal.encode(), _seal(told.encode()).encode()):
                raise UsageError(LOST)
            found = msgspec.json.decode(told, type=cls)
        except (msgspec.DecodeError, UnicodeError):
            raise UsageError(LOST) from None
        if found.act.tool != tool:
            raise UsageError(f"requestState is of another tool: {found.act.tool}")
        return found


def _seal(told: bytes) -> str:
    return hmac.new(KEY, told, hashlib.sha256).hexdigest()
