"""What is known of a session, as a snapshot stores it and as a status shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from pilothouse.api.questions import Question
from pilothouse.api.records import PromptSaid
from pilothouse.api.requests import Caps, SessionOptions
from pilothouse.api.statuses import (
    ContextUsed,
    Listed,
    ModelSpent,
    Queued,
    RateLimit,
    Retry,
    Status,
    Subagent,
    Tokens,
    ToolRun,
    Waiting,
)
from pilothouse.api.values import Content, Reached, State
from pilothouse.client.turns import Followed

from .activity import Activity, headline, last_line
from .session_state import INITIAL, Signal

__all__ = ["Facts", "QueuedPrompt", "RestCause", "decode_facts", "encode_facts", "text_of"]

AT_REST: Final = 1
UNDER_WAY: Final = 2
"""The formats of snapshots. Earlier versions read only those of sessions at rest."""


class QueuedPrompt(Struct):
    """A message that was accepted and that no turn has taken yet."""

    said: PromptSaid
    at: int
    sent: bool = False
    """The CLI alive now has it."""
    held: bool = False
    """That CLI is about to close: what it gives back stays queued."""

    @property
    def id(self) -> str:
        return self.said.id

    @property
    def content(self) -> Content:
        return self.said.content

    @property
    def priority(self) -> str | None:
        return self.said.priority

    def told(self) -> Queued:
        text = headline(text_of(self.said.content))
        return Queued(
            prompt_id=self.id, text=text, said_at=self.at, sent=self.sent, priority=self.priority
        )


class RestCause(Struct, frozen=True):
    """How it came to rest last."""

    signal: Signal = "finished"
    reason: str | None = None


class Facts(Struct, omit_defaults=True):
    """What can be written down."""

    session_id: str
    format: int = 0
    state: State = INITIAL
    since: int = 0
    """When it came into this state; 0: an older version has not noted it."""
    reason: str | None = None
    """Why it is in `error` or was interrupted, and that a question has expired since the last
    message."""
    expired: str | None = None
    """The last question that nobody answered in time, and since then no message."""
    cwd: str = ""
    options: SessionOptions = SessionOptions()
    rules: list[str] = field(default_factory=list[str])
    """What a person has allowed for the whole session."""
    deny_rules: list[str] = field(default_factory=list[str])
    ask_rules: list[str] = field(default_factory=list[str])
    directories: list[str] = field(default_factory=list[str])
    """Where a person has let it work, beside its own directory."""
    label: str | None = None
    caps: Caps = Caps()
    origin: str = "start"
    parent: str | None = None
    fork_from: str | None = None
    fork_at: str | None = None
    successor: str | None = None
    archived: bool = False
    title: str | None = None
    claude_session_id: str = ""
    """The conversation's id at the CLI: ours, until the CLI reports another."""
    has_conversation: bool = False
    """A CLI has begun a turn, so there is a transcript to resume."""
    model: str | None = None
    mode: str | None = None
    live: bool = False
    """A CLI was started and has not ended."""
    pid: int | None = None
    cli_version: str | None = None
    simulated: bool = False
    scratch: str | None = None
    """The folder that its CLI works in, in place of `cwd`."""
    run: str = ""
    """Of the CLI that is alive, by which its relay is known."""
    run_seq: int = 0
    """The entry of its start."""
    via: Reached = "stdio"
    machine: str = ""
    """Where its last CLI ran, and its transcript is."""
    started_at: int = 0
    updated_at: int = 0
    guest_at: int = 0
    """When a CLI that is not the engine's last asked or had its answer, since the engine's own."""
    last_seq: int = 0
    turn_first_seq: int = 0
    """The first entry after the last turn that ended."""
    last_turn_range: tuple[int, int] = (1, 0)
    """The first and the last entry of that one: its partials can go. Empty: there was none."""
    cost_usd: float = 0.0
    tokens: Tokens = Tokens()
    models: dict[str, ModelSpent] = field(default_factory=dict[str, ModelSpent])
    turns: int = 0
    result: str | None = None
    structured_output: Any = None
    questions: dict[str, Question] = field(default_factory=dict[str, Question])
    """Those that take an answer, oldest first: open ones, and ones whose CLI died before."""
    activity: Activity = field(default_factory=Activity)
    ending: RestCause = RestCause()
    queued: dict[str, QueuedPrompt] = field(default_factory=dict[str, QueuedPrompt])
    """Messages that no turn has taken yet, in order; those the CLI does not have are unsent."""
    expects_cli: bool = False
    """What is queued waits for a CLI that is alive or being started."""
    followed: Followed | None = field(default=None, name="rest")
    """In a snapshot: the CLI that is alive."""

    @property
    def is_resting(self) -> bool:
        """Whether nothing runs, is asked or queued."""
        if self.queued or self.state == "awaiting_input":
            return False
        return self.followed is None or self.followed.is_resting

    @property
    def is_at_work(self) -> bool:
        """Whether anything of it is yet to come: a CLI's end, an answer, a queued message."""
        return self.live or bool(self.queued) or bool(self.questions)

    @property
    def open_questions(self) -> list[Question]:
        return [each for each in self.questions.values() if each.state == "open"]

    @property
    def own_questions(self) -> list[Question]:
        """The open questions of the engine's own CLI, which end with it."""
        return [each for each in self.open_questions if not each.foreign]

    @property
    def foreign(self) -> bool:
        """Its CLI is not the engine's."""
        return self.origin == "foreign" or any(each.foreign for each in self.open_questions)

    def see_guest(self, question: Question) -> None:
        """Note whose question was opened or closed just now."""
        if question.foreign:
            self.guest_at = self.updated_at

    @property
    def retry(self) -> Retry | None:
        return self.activity.retry

    @property
    def rate_limit(self) -> RateLimit | None:
        return self.activity.rate_limit

    @property
    def context(self) -> ContextUsed | None:
        return self.activity.context

    @property
    def running_tools(self) -> list[ToolRun]:
        return list(self.activity.running.values())

    @property
    def recent_tools(self) -> list[ToolRun]:
        return list(self.activity.recent)

    @property
    def subagents(self) -> list[Subagent]:
        return list(self.activity.subagents.values())

    def told(
        self, *, waiting_on: Waiting | None, queued: Sequence[QueuedPrompt], output: Sequence[str]
    ) -> Status:
        """The facts as a status, with what is only known while something runs."""
        return Status(
            session_id=self.session_id,
            state=self.state,
            cwd=self.cwd,
            live=self.live,
            started_at=self.started_at,
            updated_at=self.updated_at,
            cursor=self.last_seq,
            claude_session_id=self.claude_session_id if self.has_conversation else None,
            reason=self.reason,
            label=self.label,
            title=self.title,
            model=self.model,
            mode=self.mode,
            max_thinking_tokens=self.options.max_thinking_tokens,
            pid=self.pid,
            cli_version=self.cli_version,
            simulated=self.simulated,
            scratch=self.scratch,
            machine=self.machine or self.options.machine,
            via=self.via,
            waiting_on=waiting_on,
            retry=self.retry,
            rate_limit=self.rate_limit,
            context=self.context,
            compacting=self.activity.compacting,
            sign_in=self.activity.sign_in,
            cost_usd=self.cost_usd,
            tokens=self.tokens,
            models=dict(self.models),
            turns=self.turns,
            running_tools=self.running_tools,
            recent_tools=self.recent_tools,
            tools_ended=max(self.activity.ended, len(self.activity.recent)),
            subagents=[*self.subagents, *self.activity.inner.values()],
            questions=list(self.questions.values()),
            queued=[each.told() for each in queued],
            result=self.result,
            structured_output=self.structured_output,
            output=list(output),
            foreign=self.foreign,
            parent=self.parent,
            successor=self.successor,
            caps=self.caps,
            resumable=self.options.persist_session,
        )

    def row(self, *, waiting_on: Waiting | None) -> Listed:
        """The facts as a row of a list, with what is only known while something runs."""
        context = self.context
        percent = None if context is None else context.percent
        return Listed(
            session_id=self.session_id,
            cwd=self.cwd,
            title=self.title or self.label or "",
            updated_at=self.updated_at,
            state=self.state,
            live=self.live,
            machine=self.machine or self.options.machine,
            label=self.label,
            questions=len(self.questions),
            cost_usd=self.cost_usd,
            tokens=self.tokens,
            model=self.model,
            mode=self.mode,
            context_percent=None if percent is None else round(percent),
            since=self.since or self.updated_at,
            waiting_on=waiting_on,
            last_line=self.activity.at_hand or last_line(self.result or "") or None,
            reason=self.reason,
            foreign=self.foreign,
            simulated=self.simulated,
            resumable=self.options.persist_session,
            archived=self.archived,
        )


_decoder: msgspec.json.Decoder[Facts] = msgspec.json.Decoder(Facts)
_encoder = msgspec.json.Encoder()


def encode_facts(facts: Facts) -> bytes | None:
    """The facts as JSON; None where a text has what JSON cannot carry, a lone surrogate."""
    facts.format = AT_REST if facts.is_resting else UNDER_WAY
    kept = Facts(**{name: getattr(facts, name) for name in Facts.__struct_fields__})
    try:
        return _encoder.encode(kept)
    except (UnicodeEncodeError, RecursionError):
        return None


def decode_facts(body: bytes) -> Facts:
    """Raises ValueError where another version wrote them."""
    try:
        facts = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"no snapshot of this version: {error}") from error
    if facts.format not in (AT_REST, UNDER_WAY):
        raise ValueError(f"a snapshot of format {facts.format}")
    return facts


def text_of(content: Content) -> str:
    """The text of a message."""
    if isinstance(content, str):
        return content
    return "\n".join(str(each["text"]) for each in content if each.get("type") == "text")
