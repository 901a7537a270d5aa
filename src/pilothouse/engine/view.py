"""What is known of a session, folded from its journal entries alone.

    Facts   what can be written down: a snapshot's body
      View  the facts, and how they are followed

Live, the engine feeds each entry as it posts it; after a restart the same fold runs over the
snapshot and the entries after it. So nothing here may come from anywhere but an entry: no clock,
no process, no file.

What gives the machine its signals:
- `said`: a message was accepted, or sent. `began`: the tracker sees a turn.
- `asked`, `resolved`: the first question opened, the last one closed.
- Nothing is left to do: how the last turn ended, or how the CLI did. That is remembered, and given
  whenever a session comes to rest: a message that is withdrawn leads back to where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Self

from msgspec import field
from msgspec.structs import replace

from pilothouse.api.answers import ClearContext, Deny, RejectPlan, RevisePlan
from pilothouse.api.records import (
    CLI,
    NOISE,
    PARTIAL,
    AnyRecord,
    CLIEnded,
    CLIStarted,
    InterruptAsked,
    LinesLost,
    OptionsChanged,
    PromptSaid,
    PromptSent,
    PromptWithdrawn,
    QuestionClosed,
    QuestionDecided,
    QuestionOpened,
    RulesKept,
    SessionArchived,
    SessionLinked,
    SessionStarted,
    SessionStopped,
    TurnEnded,
    Unreadable,
    decode_record,
)
from pilothouse.api.requests import SessionOptions
from pilothouse.api.statuses import Listed, ModelSpent, Status, Tokens, Waiting
from pilothouse.api.values import is_id
from pilothouse.client.prompts import is_command
from pilothouse.client.turns import Turn, TurnTracker, bounded_usd
from pilothouse.journal.contract import Snapshot
from pilothouse.protocol import (
    BackgroundTasksChangedMessage,
    CommandLifecycleMessage,
    InitMessage,
    Message,
    NotAMessage,
    ResultMessage,
    SessionTitleChangedMessage,
    StatusMessage,
    TaskNotificationMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
    UserMessage,
    decode,
)
from pilothouse.protocol.wire import encode_json

from . import activity
from .activity import bounded, headline, tokens_of, usual_window
from .questions import closed
from .session_state import Signal, step
from .snapshot import Facts, QueuedPrompt, RestCause, decode_facts, encode_facts, text_of

__all__ = ["QueuedPrompt", "View", "is_refusal", "record_of"]

log = logging.getLogger("pilothouse")

RESULT: Final = 20_000
"""The most characters of a turn's text that a view has; the journal has all of it."""

SPENT: Final = 7
"""How many turns that ended a view has the models of, beside the last: a few end at once."""

_NO: Final = (Deny, RejectPlan, RevisePlan, ClearContext)
"""Answers after which the tool does not run."""


_WORDS: Final = {
    "aborted_streaming": "it was interrupted while it wrote",
    "aborted_tools": "it was interrupted while a tool ran",
}
"""The CLI's own words for an end, where they are no words for a person."""

_TASKS: Final = frozenset(
    {
        BackgroundTasksChangedMessage,
        TaskNotificationMessage,
        TaskStartedMessage,
        TaskUpdatedMessage,
    }
)


class View(Facts):
    """A session as it stands after the last entry."""

    unrecorded: list[Turn] = field(default_factory=list[Turn])
    """Turns that ended and whose `turn.ended` has not come yet."""
    spent: list[tuple[Turn, dict[str, ModelSpent]]] = field(
        default_factory=list["tuple[Turn, dict[str, ModelSpent]]"]
    )
    """What each model has used in the last turns that ended."""
    tracker: TurnTracker | None = None

    def __post_init__(self) -> None:
        # Also a snapshot may have one that an older version took from a CLI.
        if not is_id(self.claude_session_id):
            self.claude_session_id = self.session_id

    # What it is

    @property
    def busy(self) -> bool:
        """A turn runs, or a message waits for one."""
        tracker = self.tracker
        if tracker is not None and (tracker.running or tracker.unanswered):
            return True
        return self.expects_cli and bool(self.queued)

    @property
    def idle(self) -> bool:
        """Nothing goes on at all, not even background work: a CLI can be closed."""
        if self.busy or self.state == "awaiting_input":
            return False
        return self.tracker is None or (self.tracker.idle and not self.tracker.tasks)

    @property
    def waiting_on(self) -> Waiting | None:
        for question in self.questions.values():
            if question.state == "open":
                return Waiting(what="person", detail=question.title)
        told = self.tracker.waiting_on() if self.tracker is not None else None
        return Waiting(what=told.what, detail=told.detail) if told is not None else None

    def status(
        self, *, pid: int | None = None, simulated: bool = False, output: Sequence[str] = ()
    ) -> Status:
        """Everything a person wants to know at this moment."""
        told = self.told(
            waiting_on=self.waiting_on, queued=tuple(self.queued.values()), output=output
        )
        if pid is None and not simulated:
            return told
        return replace(told, pid=pid or told.pid, simulated=simulated or told.simulated)

    def listed(self) -> Listed:
        """One row of a list."""
        return self.row(waiting_on=self.waiting_on)

    # Snapshots

    def snapshot(self) -> Snapshot | None:
        """All of it; None in the moment between a turn's end and the record of it."""
        if self.unrecorded:
            return None
        self.followed = self.tracker.followed() if self.tracker is not None else None
        body = encode_facts(self)
        if body is None:
            return None
        return Snapshot(session_id=self.session_id, upto=self.last_seq, body=body)

    @classmethod
    def restore(cls, snapshot: Snapshot) -> Self:
        """Go on from a snapshot. ValueError: it is none of this version's; fold from the start."""
        facts = decode_facts(snapshot.body)
        view = cls(**{name: getattr(facts, name) for name in Facts.__struct_fields__})
        view.last_seq = snapshot.upto
        if facts.followed is not None:
            view.tracker = TurnTracker.going_on(facts.followed)
        return view

    # Folding

    def skip(self, seq: int, at: int) -> None:
        """Pass over entries up to this one that change nothing here: partials, noise."""
        self.last_seq = seq
        self.updated_at = at

    def apply(
        self, seq: int, kind: str, at: int, body: bytes, message: Message | None = None
    ) -> list[Turn]:
        """Take in the next entry; the turns that ended with it.

        One that cannot be understood changes nothing; the next ones show how it stands.
        """
        try:
            if kind not in (CLI, PARTIAL, NOISE):
                self._apply_body(seq, at, body)
                return []
            self.skip(seq, at)
            return self._apply_line(body, message) if kind == CLI else []
        except Exception:
            self.skip(seq, at)
            log.exception("entry %d of session %s cannot be understood", seq, self.session_id)
        return []

    def _apply_body(self, seq: int, at: int, body: bytes) -> None:
        record = decode_record(body)
        if isinstance(record, Unreadable):
            self.skip(seq, at)
            log.error("entry %d of session %s is set aside: %s", seq, self.session_id, record.why)
        else:
            self.apply_record(seq, at, record)

    def _apply_line(self, body: bytes, message: Message | None) -> list[Turn]:
        if message is None:
            try:
                message = decode(body)
            except NotAMessage:
                return []
        if type(message) not in self.follows:
            return []
        learn = self._learns.get(type(message))
        if learn is not None:
            learn(self, message)
        self.activity.follow(message, self.updated_at)
        return [] if self.tracker is None else self._track(self.tracker, message)

    def _track(self, tracker: TurnTracker, message: Message) -> list[Turn]:
        was_running = tracker.running
        turns = tracker.receive((message,))
        # A subagent inside of the turn may end with its call, or with the turn.
        if type(message) in _TASKS or len(tracker.tasks) < len(self.activity.subagents):
            self.activity.follow_tasks(tracker.tasks.values(), self.updated_at)
        if tracker.running and not was_running:
            self.archived = False
            self._signal("began")
        is_ended = False
        for turn in turns:
            self._turn_ended(turn)
            self.activity.keep_running(tracker.tools)
            is_ended |= turn.outcome != "cancelled"
        self._settle(is_ended=is_ended)
        return turns

    def apply_record(self, seq: int, at: int, record: AnyRecord) -> None:
        """Take in one of the engine's own records."""
        # No news of the session: a CLI is closed which had nothing to do, or its archive is chosen.
        is_news = not (
            (isinstance(record, CLIEnded) and record.orderly and self.idle)
            or isinstance(record, SessionArchived)
        )
        before, self.last_seq, self.updated_at = self.updated_at, seq, at
        self._records[type(record)](self, record)
        if not is_news:
            self.updated_at = before

    # The machine

    def _signal(self, signal: Signal) -> None:
        before, self.state = self.state, step(self.state, signal)
        if self.state != before:
            self.since = self.updated_at
        ending = self.ending.reason if self.state in ("error", "interrupted") else None
        self.reason = "; ".join(filter(None, [ending, self.expired])) or None

    def _settle(self, *, is_ended: bool = False) -> None:
        """Give the machine the signal of how it came to rest, once it has."""
        if (is_ended or self.state == "active") and not self.busy:
            self._signal(self.ending.signal)

    # One step per record

    def _session_started(self, record: SessionStarted) -> None:
        self.started_at = self.updated_at
        self.since = self.since or self.updated_at
        self.cwd, self.scratch = record.cwd, record.scratch
        self.simulated = record.simulated
        self._take_options(record.options)
        self.label, self.caps, self.title = record.label, record.caps, record.title
        self.origin, self.parent = record.origin, record.parent
        self.fork_from, self.fork_at = record.fork_from, record.fork_at
        if record.claude_session_id is not None:
            self.claude_session_id = record.claude_session_id
            self.has_conversation = True

    def _session_stopped(self, _: SessionStopped) -> None:
        # Noted before the CLI is closed or after; where it worked, this is why it does no more.
        if self.busy or (self.ending.signal == "left" and self.state == "interrupted"):
            self.ending = RestCause("stopped", "it was stopped")
        self.expects_cli = self.expects_cli and self.live
        self._signal("stopped")
        self._settle()

    def _session_linked(self, record: SessionLinked) -> None:
        self.successor = record.successor

    def _session_archived(self, record: SessionArchived) -> None:
        self.archived = record.archived

    def _options_changed(self, record: OptionsChanged) -> None:
        self._take_options(record.options)
        self.mode = record.mode or self.mode

    def _take_options(self, options: SessionOptions) -> None:
        if options.mode != self.options.mode:
            self.mode = options.mode
        if options.model != self.options.model:
            self.model = options.model
        self.options = options

    def _prompt_said(self, record: PromptSaid) -> None:
        if record.id in self.queued:
            self.queued[record.id].held = True
        else:
            self.queued[record.id] = QueuedPrompt(record, self.updated_at)
        self.title = self.title or headline(text_of(record.content)) or None
        self.expects_cli = True
        self.expired = None
        # Who speaks to it wants to see it.
        self.archived = False
        self._signal("said")

    def _prompt_sent(self, record: PromptSent) -> None:
        prompt = self.queued.get(record.id)
        if prompt is not None:
            self._sent(prompt)

    def _sent(self, prompt: QueuedPrompt) -> None:
        if prompt.sent or self.tracker is None:
            return
        prompt.sent = self.expects_cli = True
        self.tracker.prompt_sent(prompt.id, is_echoed=not is_command(prompt.said.content))
        self._signal("said")

    def _taken(self, prompt_id: str) -> None:
        """A turn has this message. Its line may come before the record that it was sent."""
        if self.tracker is not None and prompt_id in self.queued:
            self._sent(self.queued.pop(prompt_id))

    def _prompt_withdrawn(self, record: PromptWithdrawn) -> None:
        self.queued.pop(record.id, None)
        if self.tracker is not None:
            self.tracker.prompt_cancelled(record.id)
        self._settle()

    def _interrupt_asked(self, _: InterruptAsked) -> None:
        """Change nothing: the CLI reports what comes of it."""

    def _cli_started(self, record: CLIStarted) -> None:
        self._forget_cli()
        self.tracker = TurnTracker(echoes=record.via != "dial-in")
        self.live = True
        self.guest_at = 0
        self.run, self.run_seq = record.run, self.last_seq
        self.via, self.machine = record.via, record.machine
        self.pid, self.simulated = record.pid, record.simulated
        self.cli_version = record.version or self.cli_version
        self._settle()

    def _cli_ended(self, record: CLIEnded) -> None:
        was_stopped = self.ending.signal == "stopped" and self.state != "active"
        if self.busy and not (record.orderly and was_stopped):
            self.ending = _end_of(record)
        self._forget_cli()
        self.live = self.expects_cli = False
        self._close_range()
        self._settle()

    def _forget_cli(self) -> None:
        self.tracker = self.pid = None
        self.run = ""
        for prompt in self.queued.values():
            prompt.sent = prompt.held = False
        self.activity.end()

    def _question_opened(self, record: QuestionOpened) -> None:
        question = record.question
        self.archived = False
        self.questions[question.id] = question
        self.see_guest(question)
        if question.foreign:
            # Nobody sends it messages, so this is how what came before is over.
            self.expired = None
        if question.state == "open":
            self._signal("asked")

    def _question_closed(self, record: QuestionClosed) -> None:
        question = self.questions.get(record.id)
        if question is None or question.state != "open":
            return
        self.see_guest(question)
        if record.decidable:
            self.questions[record.id] = closed(question, record, self.updated_at)
        else:
            del self.questions[record.id]
        if question.tool_use_id and is_refusal(record):
            self.activity.deny(question.tool_use_id)
        if record.state == "expired":
            self.expired = f"{question.title}: {record.because}"
        self._resolve()

    def _question_decided(self, record: QuestionDecided) -> None:
        self.questions.pop(record.id, None)
        self._resolve()

    def _resolve(self) -> None:
        if self.state == "awaiting_input" and not self.open_questions:
            self._signal("resolved")
            self._settle()

    def _lines_lost(self, _: LinesLost) -> None:
        """Expect nothing of what was lost; the next lines show how it stands."""
        if self.tracker is not None:
            self.tracker.lines_lost()

    def _rules_kept(self, record: RulesKept) -> None:
        if record.is_whole:
            self.rules, self.directories = list(record.rules), list(record.directories)
            self.deny_rules, self.ask_rules = list(record.deny), list(record.ask)
        else:
            self.rules += [rule for rule in record.rules if rule not in self.rules]

    # Turns

    def _turn_ended(self, turn: Turn) -> None:
        if turn.outcome == "cancelled":
            self._given_back(turn.prompts)
            return
        for prompt_id in turn.prompts:
            self.queued.pop(prompt_id, None)
        self.unrecorded.append(turn)
        if turn.result is not None:
            self.spent = [*self.spent[-SPENT:], (turn, self.activity.spend(turn.result))]
        self._close_range()
        self.ending = RestCause(turn.outcome, _reason(turn))

    def models_of(self, turn: Turn) -> dict[str, ModelSpent]:
        """What each model has used in a turn that has just ended."""
        return next(
            (models for each, models in self.spent if each is turn), dict[str, ModelSpent]()
        )

    def _given_back(self, prompts: Sequence[str]) -> None:
        """The CLI lets go of messages that it had queued: those that are held stay for the next."""
        for prompt_id in prompts:
            prompt = self.queued.get(prompt_id)
            if prompt is not None and prompt.held:
                prompt.sent = prompt.held = False
            else:
                self.queued.pop(prompt_id, None)

    def _turn_recorded(self, record: TurnEnded) -> None:
        if record.outcome == "cancelled":
            return
        del self.unrecorded[:1]
        self.turns += 1
        self.cost_usd += bounded_usd(record.cost_usd)
        self.tokens = self.tokens.plus(record.tokens)
        for name, spent in record.models.items():
            self.models[name] = self.models.get(name, ModelSpent()).plus(spent)
        self.structured_output = record.structured_output
        if len(encode_json(record.structured_output)) > RESULT:
            self.structured_output = None
        if record.outcome != "interrupted":
            # The text of such a result is a diagnosis of the CLI's own, meant for nobody.
            self.result = record.text[:RESULT]

    def _close_range(self) -> None:
        self.last_turn_range = (self.turn_first_seq, self.last_seq)
        self.turn_first_seq = self.last_seq + 1

    # What the CLI reports of itself

    def _learn_init(self, message: InitMessage) -> None:
        self.has_conversation = True
        self._learn_conversation(message.session_id)
        self.model = message.model or self.model
        self.mode = message.permission_mode or self.mode
        self.activity.window = self.activity.window or usual_window(message.model)
        self.cli_version = message.claude_code_version or self.cli_version

    def _learn_result(self, message: ResultMessage) -> None:
        self._learn_conversation(message.session_id)

    def _learn_conversation(self, told: str) -> None:
        # Locks and transcripts are found by it: what could be a path is no id.
        if is_id(told):
            self.claude_session_id = told

    def _learn_status(self, message: StatusMessage) -> None:
        self.mode = message.permission_mode or self.mode

    def _learn_title(self, message: SessionTitleChangedMessage) -> None:
        self.title = message.title or self.title

    def _learn_echo(self, message: UserMessage) -> None:
        if message.is_replay:
            self._taken(message.uuid)

    def _learn_lifecycle(self, message: CommandLifecycleMessage) -> None:
        if message.state == "started":
            self._taken(message.command_uuid)

    _records: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {
        SessionStarted: _session_started,
        SessionStopped: _session_stopped,
        SessionArchived: _session_archived,
        SessionLinked: _session_linked,
        OptionsChanged: _options_changed,
        PromptSaid: _prompt_said,
        PromptSent: _prompt_sent,
        PromptWithdrawn: _prompt_withdrawn,
        InterruptAsked: _interrupt_asked,
        CLIStarted: _cli_started,
        CLIEnded: _cli_ended,
        QuestionOpened: _question_opened,
        QuestionClosed: _question_closed,
        QuestionDecided: _question_decided,
        TurnEnded: _turn_recorded,
        RulesKept: _rules_kept,
        LinesLost: _lines_lost,
    }

    _learns: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {
        CommandLifecycleMessage: _learn_lifecycle,
        InitMessage: _learn_init,
        ResultMessage: _learn_result,
        SessionTitleChangedMessage: _learn_title,
        StatusMessage: _learn_status,
        UserMessage: _learn_echo,
    }

    follows: ClassVar[frozenset[type[Any]]] = frozenset(
        {*TurnTracker.follows, *activity.FOLLOWED, *_learns}
    )
    """The kinds of message that change it."""


def is_refusal(record: QuestionClosed) -> bool:
    """Whether the tool that was asked about does not run."""
    return record.state == "expired" or isinstance(record.answer, _NO)


def record_of(turn: Turn, models: Mapping[str, ModelSpent] | None = None) -> TurnEnded:
    """Return the record of a turn that ended, and of what each model has used in it."""
    result = turn.result
    tokens = tokens_of(result.usage) if result is not None else Tokens()
    return TurnEnded(
        outcome=turn.outcome,
        reason=turn.reason,
        cost_usd=turn.cost_usd,
        tokens=tokens,
        prompts=list(turn.prompts),
        text=turn.text,
        models=dict(models or {}),
        structured_output=turn.structured_output,
        duration_ms=0 if result is None else bounded(result.duration_ms),
    )


def _reason(turn: Turn) -> str | None:
    if turn.outcome == "finished":
        return None
    text = headline(turn.text) if turn.outcome == "failed" else ""
    reason = _WORDS.get(turn.reason, turn.reason)
    return f"{reason}: {text}" if text else reason


def _end_of(record: CLIEnded) -> RestCause:
    if record.orderly:
        return RestCause("left", record.reason or "its CLI was closed in mid-work")
    return RestCause("died", record.reason or "its CLI died")
