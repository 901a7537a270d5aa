"""A session's events, folded into what a person reads.

    Conversation    one entry after another; records of the engine, turns, questions, prompts
      Speech        what the model writes
      ToolCalls     what it calls
      Happenings    what happens beside that
      ItemStore     the items, and what changed of them

`apply` takes entries as `engine.view` does; `patches` gives what changed since it was last called.
What one entry costs does not depend on how many items there are.

Text appears while the model writes it. The pieces are not stored beyond their turn, so nothing may
depend on them: an item that was only ever in pieces is removed when the CLI goes on without it, and
every other one is as the whole line says.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, Self

from msgspec.structs import replace

from pilothouse.api.answers import Answer, ClearContext, Deny, RejectPlan, RevisePlan
from pilothouse.api.events import Event, Gap
from pilothouse.api.items import (
    GapItem,
    Item,
    ModelShare,
    Patch,
    PromptItem,
    QuestionItem,
    TurnItem,
)
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
    SessionLinked,
    SessionStopped,
    TurnEnded,
    Unreadable,
    decode_record,
)
from pilothouse.api.statuses import Tokens
from pilothouse.api.values import Content
from pilothouse.client.turns import INTERRUPTION, bounded_usd, classify
from pilothouse.protocol import (
    AssistantMessage,
    CommandLifecycleMessage,
    ImageBlock,
    Message,
    ModelRefusalFallbackMessage,
    ModelUsage,
    NotAMessage,
    ResultMessage,
    StreamEvent,
    TextBlock,
    TokenUsage,
    UserMessage,
    decode,
)
from pilothouse.protocol.messages import decode_lines
from pilothouse.protocol.wire import parse

from .bounds import count, shorten, text_of
from .happenings import Happenings
from .speech import Speech
from .store import ItemStore
from .tool_calls import ToolCalls

__all__ = ["Conversation"]

log = logging.getLogger("pilothouse")

_COMMAND: Final = re.compile(r"<command-name>(.*?)</command-name>", re.DOTALL)
_ARGUMENTS: Final = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
"""How the CLI writes down a command of its own that was typed."""
CONTINUED: Final = "This session is being continued from a previous conversation"
"""How the summary begins that every CLI puts into a conversation which it has compacted."""
PRINTED: Final = ("<local-command-stdout>", "</local-command-stdout>")
"""Around what a command of the CLI's own printed."""
LINES: Final = frozenset({CLI, PARTIAL})
"""The kinds of entries that are lines of the CLI's."""
_NO: Final = (Deny, RejectPlan, RevisePlan, ClearContext)
"""Answers after which the tool does not run."""


class Conversation:
    """The items of one session, as they are after the last entry."""

    def __init__(self) -> None:
        self.cursor = 0
        """The last entry that was taken in."""
        self._store = ItemStore()
        self._tools = ToolCalls(self._store)
        self._speech = Speech(self._store, self._tools)
        self._happenings = Happenings(self._store)
        self._turn: TurnItem | None = None
        """The turn whose result came and whose record has not."""
        self._spent: dict[str, ModelUsage] = {}
        self._spent_usd = 0.0
        self._interrupted = False
        self._seq = self._at = 0

    @property
    def items(self) -> list[Item]:
        """All of them, in the order in which they began."""
        return list(self._store)

    def __len__(self) -> int:
        return len(self._store)

    def after(self, item_id: str | None) -> Iterator[Item]:
        """The items behind one, or all of them. Raises KeyError where there is none of that id."""
        return self._store.after(item_id)

    def before(self, item_id: str | None) -> Iterator[Item]:
        """The items before one, or all of them, from the last to the first. KeyError as above."""
        return self._store.before(item_id)

    def get(self, item_id: str) -> Item | None:
        """One item."""
        return self._store.get(item_id)

    def patches(self) -> list[Patch]:
        """What changed since this or `settle` was last called, one patch an item."""
        return self._store.patches(self.cursor)

    def settle(self) -> None:
        """Let nobody have patches of what was taken in so far."""
        self._store.settle(self.cursor)

    def changed_since(self, cursor: int) -> list[Patch]:
        """Whole items for a reader of whom only the cursor is known: those that are others since.

        One that was there at the cursor comes as its members, for who has it; any other as new.
        """
        return self._store.changed_since(cursor)

    def unfinished(self) -> list[str]:
        """The ids of what is still being written."""
        return self._store.unfinished()

    # Entries

    def apply_all(self, events: Sequence[Event]) -> None:
        """Take in entries as they were read."""
        for event, message in zip(events, _messages(events), strict=True):
            body = bytes(event.body) if message is None else b""
            self.apply(event.seq, event.kind, event.at, body, message)

    def apply(
        self, seq: int, kind: str, at: int, body: bytes, message: Message | None = None
    ) -> None:
        """Take in the next entry. One that cannot be understood is told by a notice."""
        self.cursor = self._seq = seq
        self._at = at
        try:
            if type(message) is StreamEvent:
                # Nearly all entries are such.
                self._speech.stream(message, seq, at)
            elif kind in LINES:
                self._line(body, message)
            elif kind == NOISE:
                self._noise(body)
            else:
                self._record(decode_record(body))
        except Exception:
            # The boundary: one entry that cannot be shown must not hide those behind it.
            log.exception("entry %d cannot be shown", seq)
            self._note("Something here cannot be shown.", level="unknown")

    def missing(self, gap: Gap) -> None:
        """Note that entries are gone, but for the pieces of messages that are whole by now."""
        if gap.reason != "partials":
            item = GapItem(id=f"gap/{gap.first}", seq=gap.first, reason=gap.reason)
            item.count = gap.count
            self._store.add(item)

    def add_gap(self, reason: str, *, is_first: bool = False) -> None:
        """Note that something cannot be read, at the end or before all that can."""
        gap = GapItem(id=f"gap/{reason}", seq=0, reason=reason)
        self._store.add(gap, is_first=is_first)

    def _line(self, body: bytes, message: Message | None) -> None:
        if message is None:
            try:
                message = decode(body)
            except NotAMessage:
                self._note("A line here is no message.", level="unknown")
                return
        if type(message) is StreamEvent:
            self._speech.stream(message, self._seq, self._at)
            return
        step = self._lines.get(type(message))
        if step is not None:
            step(self, message)
        elif not self._tools.take(message):
            self._happenings.take(message, self._seq, self._at)

    def _noise(self, body: bytes) -> None:
        self._note(text_of(parse(body)), level="output", tag="noise")

    def _record(self, record: AnyRecord | Unreadable) -> None:
        step = self._records.get(type(record))
        if step is not None:
            step(self, record)

    def _note(self, text: str, *, level: str = "info", tag: str = "") -> None:
        item_id = f"notice/{self._seq}"
        self._happenings.notice(item_id, text, self._seq, self._at, level=level, tag=tag)

    # What is said to the session

    def _prompt_said(self, record: PromptSaid) -> None:
        text, images = _words(record.content)
        shown, cut = shorten(text)
        known = self._store.of_kind(record.id, PromptItem)
        if known is not None:
            return
        self._store.add(
            PromptItem(
                id=record.id,
                seq=self._seq,
                at=self._at,
                text=shown,
                images=images,
                state="queued",
                by=record.by,
                priority=record.priority,
                cut=cut,
            )
        )

    def _prompt_sent(self, record: PromptSent) -> None:
        self._move_prompt(record.id, "sent", only=("queued",))

    def _prompt_withdrawn(self, record: PromptWithdrawn) -> None:
        item = self._store.of_kind(record.id, PromptItem)
        if item is not None and item.state != "taken":
            self._store.change(item, state="withdrawn", because=record.because)

    def _lifecycle(self, message: CommandLifecycleMessage) -> None:
        if message.state == "started":
            self._move_prompt(message.command_uuid, "taken", only=("queued", "sent"))

    def _move_prompt(self, prompt_id: str, state: str, *, only: tuple[str, ...]) -> None:
        item = self._store.of_kind(prompt_id, PromptItem)
        if item is not None and item.state in only:
            self._store.change(item, state=state)

    def _user(self, message: UserMessage) -> None:
        if self._tools.results(message, self._seq, self._at):
            return
        text, images = _blocks(message)
        if message.parent_tool_use_id is not None or not (text or images):
            # What a subagent is asked stands in the call that started it.
            return
        if text.startswith(INTERRUPTION):
            self._interrupted = True
            self._add_notice(message, "Interrupted.", tag="interrupted")
        elif text.startswith(PRINTED[0]):
            printed = text.removeprefix(PRINTED[0]).removesuffix(PRINTED[1])
            self._add_notice(message, printed, level="output")
        elif text.startswith(CONTINUED) and self._happenings.summarised(text):
            return
        else:
            self._prompted(message, text, images)

    def _prompted(self, message: UserMessage, text: str, images: int) -> None:
        """A message that a turn has: one of ours comes back under its id."""
        item = self._store.of_kind(message.uuid, PromptItem)
        if item is not None:
            self._store.change(item, state="taken")
            return
        shown, cut = shorten(_typed(text))
        by = "cli" if message.is_synthetic or message.origin is not None else "person"
        self._store.add(
            PromptItem(
                id=message.uuid or f"prompt/{self._seq}",
                seq=self._seq,
                at=self._at,
                text=shown,
                images=images,
                by=by,
                cut=cut,
            )
        )

    def _add_notice(
        self, message: Message, text: str, *, level: str = "info", tag: str = ""
    ) -> None:
        item_id = message.uuid or f"notice/{self._seq}"
        if text.strip():
            self._happenings.notice(item_id, text, self._seq, self._at, level=level, tag=tag)

    # What the model says and calls

    def _assistant(self, message: AssistantMessage) -> None:
        self._happenings.answered()
        self._speech.line(message, self._seq, self._at)

    def _fallback(self, message: ModelRefusalFallbackMessage) -> None:
        for line in message.retracted_message_uuids:
            self._speech.retract(line)
        self._happenings.take(message, self._seq, self._at)

    # Questions

    def _question_opened(self, record: QuestionOpened) -> None:
        question = record.question
        item = QuestionItem(id=question.id, seq=self._seq, at=self._at, question=question)
        self._store.add(item)
        self._tools.ask(question.tool_use_id, question.id)

    def _question_closed(self, record: QuestionClosed) -> None:
        item = self._store.of_kind(record.id, QuestionItem)
        if item is None or item.question.state != "open":
            return
        question = replace(
            item.question,
            state=record.state,
            answer=record.answer,
            answered_by=record.by,
            rule=record.rule or item.question.rule,
            closed_at=self._at,
            closed_because=record.because,
            decidable=record.decidable,
        )
        self._store.change(item, question=question)
        refused = record.state != "answered" or isinstance(record.answer, _NO)
        reason = _reason(record.answer) or record.because or ""
        self._tools.answer(question.tool_use_id, refused=refused, reason=reason)

    def _question_decided(self, record: QuestionDecided) -> None:
        item = self._store.of_kind(record.id, QuestionItem)
        if item is not None:
            question = replace(
                item.question, answer=record.answer, answered_by=record.by, decidable=False
            )
            self._store.change(item, question=question)

    # Turns

    def _result(self, message: ResultMessage) -> None:
        self._happenings.answered()
        self._speech.end_turn(is_all=False)
        denials = [each.tool_use_id for each in message.permission_denials]
        self._tools.end_turn(denials, self._at)
        outcome, reason = classify(message, interrupted=self._interrupted)
        spent = bounded_usd(message.total_cost_usd)
        failed = "\n".join(message.errors) or message.result
        self._turn = self._store.add(
            TurnItem(
                id=f"turn/{message.uuid or self._seq}",
                seq=self._seq,
                at=self._at,
                outcome=outcome,
                reason=reason,
                error=shorten(failed or "")[0] or None if outcome == "failed" else None,
                cost_usd=max(spent - self._spent_usd, 0.0),
                tokens=_tokens(message.usage),
                models=self._shares(message),
                duration_ms=count(message.duration_ms),
                api_ms=count(message.duration_api_ms),
                steps=count(message.num_turns),
                denials=denials,
                structured_output=message.structured_output,
            )
        )
        self._interrupted = False
        self._spent_usd = spent
        self._spent = dict(message.model_usage)

    def _shares(self, message: ResultMessage) -> dict[str, ModelShare]:
        """What each model did in this turn: the CLI tells the sums of all turns."""
        shares = {
            name: _share(usage, self._spent.get(name, ModelUsage()))
            for name, usage in message.model_usage.items()
        }
        return {name: share for name, share in shares.items() if share != ModelShare()}

    def _turn_ended(self, record: TurnEnded) -> None:
        if record.outcome == "cancelled":
            return
        item, self._turn = self._turn, None
        if item is None:
            # Its line was lost.
            item = self._store.add(TurnItem(id=f"turn/{self._seq}", seq=self._seq, at=self._at))
        self._store.change(
            item,
            outcome=record.outcome,
            reason=record.reason,
            cost_usd=record.cost_usd,
            tokens=record.tokens,
        )

    # The CLI and the session

    def _cli_started(self, record: CLIStarted) -> None:
        self._spent, self._spent_usd = {}, 0.0
        if record.resumed:
            self._note("A CLI took the conversation up again.", tag="resumed")

    def _cli_ended(self, record: CLIEnded) -> None:
        self._speech.end_turn(is_all=True)
        self._tools.end_cli(self._at)
        self._happenings.answered()
        if not record.orderly:
            self._note(f"The CLI ended: {record.reason}", level="error", tag="cli.ended")

    def _stopped(self, _: SessionStopped) -> None:
        self._note("The session was stopped.", tag="stopped")

    def _interrupt_asked(self, _: InterruptAsked) -> None:
        self._note("Somebody interrupted.", tag="interrupt")

    def _linked(self, record: SessionLinked) -> None:
        self._note(f"Session {record.successor} goes on with the plan.", tag="linked")

    def _options_changed(self, record: OptionsChanged) -> None:
        if record.mode is not None:
            self._note(f"Mode: {record.mode}.", tag="mode")

    def _lines_lost(self, record: LinesLost) -> None:
        gap = GapItem(id=f"gap/{self._seq}", seq=self._seq, at=self._at, reason=record.because)
        self._store.add(gap)

    _lines: ClassVar[dict[type[Message], Callable[[Self, Any], None]]] = {
        AssistantMessage: _assistant,
        CommandLifecycleMessage: _lifecycle,
        ModelRefusalFallbackMessage: _fallback,
        ResultMessage: _result,
        UserMessage: _user,
    }
    _records: ClassVar[dict[type[Any], Callable[[Self, Any], None]]] = {
        CLIEnded: _cli_ended,
        CLIStarted: _cli_started,
        InterruptAsked: _interrupt_asked,
        LinesLost: _lines_lost,
        OptionsChanged: _options_changed,
        PromptSaid: _prompt_said,
        PromptSent: _prompt_sent,
        PromptWithdrawn: _prompt_withdrawn,
        QuestionClosed: _question_closed,
        QuestionDecided: _question_decided,
        QuestionOpened: _question_opened,
        SessionLinked: _linked,
        SessionStopped: _stopped,
        TurnEnded: _turn_ended,
    }


def _messages(events: Sequence[Event]) -> Sequence[Message | None]:
    """What the entries say that are lines; None for any other, and where one line is odd."""
    lines = [bytes(event.body) for event in events if event.kind in LINES]
    # Together they are read faster than one by one.
    messages = decode_lines(lines)
    if messages is None or len(lines) == len(events):
        return messages or [None] * len(events)
    rest = iter(messages)
    return [next(rest) if event.kind in LINES else None for event in events]


def _words(content: Content) -> tuple[str, int]:
    """The text of a message, and how many images it has."""
    if isinstance(content, str):
        return content, 0
    texts = [text_of(block.get("text")) for block in content if block.get("type") == "text"]
    return "\n".join(texts), sum(block.get("type") == "image" for block in content)


def _blocks(message: UserMessage) -> tuple[str, int]:
    texts = [block.text for block in message.content if isinstance(block, TextBlock)]
    return "\n".join(texts), sum(isinstance(block, ImageBlock) for block in message.content)


def _typed(text: str) -> str:
    """A command as it was typed; any other text as it is."""
    name = _COMMAND.search(text) if text.lstrip().startswith("<command-") else None
    if name is None:
        return text
    given = _ARGUMENTS.search(text)
    return f"{name[1].strip()} {given[1].strip() if given else ''}".strip()


def _reason(answer: Answer | None) -> str:
    if isinstance(answer, Deny):
        return answer.reason or ""
    if isinstance(answer, RevisePlan):
        return answer.feedback
    return ""


def _tokens(usage: TokenUsage) -> Tokens:
    return Tokens(
        input=count(usage.input_tokens),
        output=count(usage.output_tokens),
        cache_read=count(usage.cache_read_input_tokens),
        cache_write=count(usage.cache_creation_input_tokens),
    )


def _share(now: ModelUsage, before: ModelUsage) -> ModelShare:
    def grown(after: int, earlier: int) -> int:
        return max(count(after) - count(earlier), 0)

    return ModelShare(
        cost_usd=max(bounded_usd(now.cost_usd) - bounded_usd(before.cost_usd), 0.0),
        tokens=Tokens(
            input=grown(now.input_tokens, before.input_tokens),
            output=grown(now.output_tokens, before.output_tokens),
            cache_read=grown(now.cache_read_input_tokens, before.cache_read_input_tokens),
            cache_write=grown(now.cache_creation_input_tokens, before.cache_creation_input_tokens),
        ),
    )
