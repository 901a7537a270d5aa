"""What happens beside the words: compaction, retries, limits, signing in, hooks, files, notices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

from pilothouse.api.items import (
    CompactionItem,
    FilesItem,
    HookItem,
    LimitItem,
    NoticeItem,
    RetryItem,
    SignInItem,
)
from pilothouse.protocol import (
    ApiRetryMessage,
    AuthStatusMessage,
    CompactBoundaryMessage,
    ConversationResetMessage,
    FilesPersistedMessage,
    HookProgressMessage,
    HookResponseMessage,
    HookStartedMessage,
    InformationalMessage,
    LocalCommandOutputMessage,
    Message,
    ModelRefusalFallbackMessage,
    ModelRefusalNoFallbackMessage,
    NotificationMessage,
    RateLimitEvent,
    SessionWritesLostMessage,
    StatusMessage,
    SystemMessage,
    UnknownMessage,
    UnknownSystemMessage,
)

from .bounds import count, shorten
from .store import ItemStore

__all__ = ["Happenings"]


class Happenings:
    """Follows what is neither said nor called."""

    def __init__(self, store: ItemStore) -> None:
        self._store = store
        self._compaction: CompactionItem | None = None
        """The one that runs, or the last one while its summary may come."""
        self._retry: RetryItem | None = None
        self._sign_in: SignInItem | None = None
        self._limits: dict[str | None, LimitItem] = {}

    def take(self, message: Message, seq: int, at: int) -> None:
        """Take in a message, if it is of a kind that is followed here."""
        step = self._steps.get(type(message))
        if step is not None:
            step(self, message, seq, at)

    def notice(
        self, item_id: str, text: str, seq: int, at: int, *, level: str = "info", tag: str = ""
    ) -> None:
        """Add a line worth reading."""
        shown, cut = shorten(text.strip())
        self._store.add(
            NoticeItem(
                id=item_id, seq=seq, at=at, level=_level(level), text=shown, tag=tag, cut=cut
            )
        )

    def answered(self) -> None:
        """The API has answered: it is not asked again any more."""
        if self._retry is not None:
            self._store.change(self._retry, state="over")
            self._retry = None

    def summarised(self, text: str) -> bool:
        """The summary that a compaction left; whether there was a compaction."""
        item = self._compaction
        if item is None or item.summary is not None:
            return False
        summary, cut = shorten(text)
        self._store.change(item, summary=summary, cut=cut)
        return True

    # Compaction

    def _status(self, message: StatusMessage, seq: int, at: int) -> None:
        if message.status == "compacting":
            item = CompactionItem(id=message.uuid or f"compaction/{seq}", seq=seq, at=at)
            item.state = "running"
            self._compaction = self._store.add(item)
        elif message.compact_result is not None and self._compaction is not None:
            state = "done" if message.compact_result == "success" else "failed"
            self._store.change(self._compaction, state=state, error=message.compact_error)

    def _boundary(self, message: CompactBoundaryMessage, seq: int, at: int) -> None:
        told = message.compact_metadata
        if self._compaction is not None and not self._compaction.trigger:
            # Transcripts have this line alone, so it gives the item its name.
            self._store.remove(self._compaction.id)
        item = CompactionItem(id=message.uuid or f"compaction/{seq}", seq=seq, at=at)
        self._compaction = self._store.add(item)
        self._store.change(
            item,
            state="done",
            trigger=told.trigger or "unknown",
            tokens_before=count(told.pre_tokens),
            tokens_after=None if told.post_tokens is None else count(told.post_tokens),
            duration_ms=None if told.duration_ms is None else count(told.duration_ms),
        )

    # The API

    def _retried(self, message: ApiRetryMessage, seq: int, at: int) -> None:
        item = self._retry
        if item is None:
            item = RetryItem(id=message.uuid or f"retry/{seq}", seq=seq, at=at)
            self._retry = self._store.add(item)
        self._store.change(
            item,
            attempt=count(message.attempt),
            max_retries=count(message.max_retries),
            delay_ms=count(message.retry_delay_ms),
            error=message.error,
            status=None if message.error_status is None else count(message.error_status),
        )

    def _limited(self, message: RateLimitEvent, seq: int, at: int) -> None:
        told = message.rate_limit_info
        resets_at = None if told.resets_at is None else count(told.resets_at * 1000)
        item = self._limits.get(told.rate_limit_type)
        if item is None or (item.status, item.resets_at) != (told.status, resets_at):
            item = self._store.add(
                LimitItem(
                    id=message.uuid or f"limit/{seq}",
                    seq=seq,
                    at=at,
                    status=told.status,
                    limit=told.rate_limit_type,
                    resets_at=resets_at,
                )
            )
            self._limits[told.rate_limit_type] = item
        self._store.change(item, utilization=told.utilization)

    def _signing_in(self, message: AuthStatusMessage, seq: int, at: int) -> None:
        item = self._sign_in
        if item is None:
            item = SignInItem(id=message.uuid or f"sign_in/{seq}", seq=seq, at=at)
            self._sign_in = self._store.add(item)
        state = "failed" if message.error else "running" if message.is_authenticating else "done"
        self._store.change(item, state=state, error=message.error, output=message.output[-50:])
        if state != "running":
            self._sign_in = None

    # Hooks, files

    def _hook_started(self, message: HookStartedMessage, seq: int, at: int) -> None:
        item_id = message.hook_id or message.uuid
        self._store.add(
            HookItem(id=item_id, seq=seq, at=at, name=message.hook_name, event=message.hook_event)
        )

    def _hook_wrote(self, message: HookProgressMessage, seq: int, at: int) -> None:
        output, cut = shorten(message.output or message.stdout)
        self._store.change(self._hook(message, seq, at), output=output, cut=cut)

    def _hook_ended(self, message: HookResponseMessage, seq: int, at: int) -> None:
        output, cut = shorten(message.output or message.stdout)
        code = message.exit_code
        self._store.change(
            self._hook(message, seq, at),
            state="done",
            outcome=message.outcome,
            exit_code=None if code is None else count(code),
            output=output,
            cut=cut,
        )

    def _hook(
        self, message: HookProgressMessage | HookResponseMessage, seq: int, at: int
    ) -> HookItem:
        item_id = message.hook_id or message.uuid
        return self._store.of_kind(item_id, HookItem) or self._store.add(
            HookItem(id=item_id, seq=seq, at=at, name=message.hook_name, event=message.hook_event)
        )

    def _files(self, message: FilesPersistedMessage, seq: int, at: int) -> None:
        self._store.add(
            FilesItem(
                id=message.uuid or f"files/{seq}",
                seq=seq,
                at=at,
                files=[each.filename for each in message.files],
                failed={each.filename: each.error for each in message.failed},
            )
        )

    # Notices

    def _informed(self, message: InformationalMessage, seq: int, at: int) -> None:
        if not message.is_meta:
            self._note(message, message.content, seq, at, message.level, message.tag or "")

    def _notified(self, message: NotificationMessage, seq: int, at: int) -> None:
        self._note(message, message.text, seq, at, "info", message.key)

    def _printed(self, message: LocalCommandOutputMessage, seq: int, at: int) -> None:
        self._note(message, message.content, seq, at, "output")

    def _refused(
        self,
        message: ModelRefusalFallbackMessage | ModelRefusalNoFallbackMessage,
        seq: int,
        at: int,
    ) -> None:
        self._note(message, message.content, seq, at, "warning", message.subtype)

    def _writes_lost(self, message: SessionWritesLostMessage, seq: int, at: int) -> None:
        text = f"The disk is full: parts of the session were not written ({message.error_code})."
        self._note(message, text, seq, at, "error", message.subtype)

    def _reset(self, message: ConversationResetMessage, seq: int, at: int) -> None:
        self._note(message, "The conversation was cleared.", seq, at, "info", "cleared")

    def _unknown(self, message: UnknownMessage | UnknownSystemMessage, seq: int, at: int) -> None:
        kind = message.kind if isinstance(message, UnknownMessage) else "system"
        text = "/".join(filter(None, (kind, message.subtype)))
        self._note(message, text, seq, at, "unknown", "unknown")

    def _note(
        self, message: Message, text: str, seq: int, at: int, level: str, tag: str = ""
    ) -> None:
        if text.strip():
            item_id = message.uuid or f"notice/{seq}"
            self.notice(item_id, text, seq, at, level=level, tag=tag)

    _steps: ClassVar[dict[type[Message], Callable[[Self, Any, int, int], None]]] = {
        ApiRetryMessage: _retried,
        AuthStatusMessage: _signing_in,
        CompactBoundaryMessage: _boundary,
        ConversationResetMessage: _reset,
        FilesPersistedMessage: _files,
        HookProgressMessage: _hook_wrote,
        HookResponseMessage: _hook_ended,
        HookStartedMessage: _hook_started,
        InformationalMessage: _informed,
        LocalCommandOutputMessage: _printed,
        ModelRefusalFallbackMessage: _refused,
        ModelRefusalNoFallbackMessage: _refused,
        NotificationMessage: _notified,
        RateLimitEvent: _limited,
        SessionWritesLostMessage: _writes_lost,
        StatusMessage: _status,
        SystemMessage: _unknown,
        UnknownMessage: _unknown,
        UnknownSystemMessage: _unknown,
    }


def _level(word: str) -> Any:
    return word if word in ("warning", "error", "output", "unknown") else "info"
