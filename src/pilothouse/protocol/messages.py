"""Every message a CLI writes, as a struct; `decode` turns a line into one.

    Message                 raw, uuid, session_id, extra
      AssistantMessage      one finished content block of the model's
      UserMessage           a tool result, an injected turn, a replayed prompt
      StreamEvent           one partial piece, as the Messages API sent it
      ResultMessage         the end of a turn
      SystemMessage         see `system`
      ControlRequest, ControlResponse, ControlCancelRequest
      ...                   the rare ones
      UnknownMessage        a type this version does not know; nothing of it is lost

`decode` is built so that no JSON object is refused: the strict pass reads almost every line in
one go, and what it cannot read (a field of another type, a lone surrogate) is read field by
field, with what does not fit left at its default.
"""

from __future__ import annotations

import operator
from typing import Any, cast, get_args

import msgspec
from msgspec import Raw, field

from .blocks import ApiMessage, ContentBlock, TextBlock
from .control import ControlCancelRequest, ControlRequest, ControlResponse
from .shared import (
    ContextReport,
    DeferredToolUse,
    LazyMessage,
    Message,
    MessageOrigin,
    ModelUsage,
    PermissionDenial,
    TokenUsage,
    UsageReport,
)
from .stream import (
    ContentBlockDelta,
    InputJsonDelta,
    StreamPart,
    TextDelta,
    ThinkingDelta,
    UnknownStreamEvent,
    read_event,
)
from .strict import TooManyParts, has_deep, is_too_deep, parse_shallow
from .system import SystemMessage, class_of
from .wire import (
    NULL,
    JsonObject,
    Record,
    always,
    as_object,
    convert,
    keep,
    load,
    members,
    once,
    parse,
    parse_strictly,
    tag_of,
)

__all__ = [
    "AbandonedBlocks",
    "ActiveGoalMessage",
    "AssistantMessage",
    "AuthStatusMessage",
    "AutocompactStateMessage",
    "CommandLifecycleMessage",
    "ConversationResetMessage",
    "Goal",
    "InvalidConfigFile",
    "KeepAliveMessage",
    "LocalCommandRun",
    "Message",
    "NotAMessage",
    "PromptSuggestionMessage",
    "RateLimitEvent",
    "RateLimitInfo",
    "ResultMessage",
    "StreamEvent",
    "StreamlinedTextMessage",
    "StreamlinedToolUseSummaryMessage",
    "SubagentRetry",
    "ToolProgressMessage",
    "ToolUseSummaryMessage",
    "TranscriptMirrorMessage",
    "UnknownMessage",
    "UpdateEnvironmentVariablesMessage",
    "UserMessage",
    "decode",
    "decode_lines",
]


class NotAMessage(ValueError):
    """A line that is no JSON object."""


class UnknownMessage(LazyMessage, tag=False):
    """A message of a type this version does not know."""

    kind: str = field(default="", name="type")
    subtype: str | None = None

    @property
    def type(self) -> str:
        return self.kind

    @property
    def data(self) -> JsonObject:
        """The whole message as plain values."""
        return members(self.raw)


class LocalCommandRun(Record):
    """The slash command that a line is the output of."""

    command: str = always("")
    args: str = always("")
    plugin: str | None = None


class AssistantMessage(LazyMessage, tag="assistant"):
    """A finished content block of the model's; the lines of one API message share `message.id`."""

    message_raw: Raw = field(default=NULL, name="message")
    parent_tool_use_id: str | None = always(None)
    error: str | None = None
    request_id: str | None = None
    user_message_uuid: str | None = None
    user_message_uuids: list[str] = field(default_factory=list)
    resume_reason: str | None = None
    resumed_from_incomplete_thinking: bool | None = None
    supersedes: list[str] = field(default_factory=list)
    aborted: bool | None = None
    agent_id: str | None = None
    subagent_type: str | None = None
    task_description: str | None = None
    timestamp: str | None = None
    context_usage: ContextReport | None = None
    usage_report: UsageReport | None = None
    tool_use_meta: Any = None
    is_api_error_message: bool | None = None
    api_error: str | None = None
    api_error_status: int | None = None
    api_error_type: str | None = None
    refused_message_id: str | None = None
    local_command_source: str | None = None
    local_command_run: LocalCommandRun | None = None
    thinking_duration_ms: float | None = None
    thinking_display: str | None = None

    @once
    def message(self) -> ApiMessage:
        """The API message."""
        return load(ApiMessage, self.message_raw)

    @property
    def content(self) -> list[ContentBlock]:
        """The message's blocks."""
        return self.message.content

    @once
    def text(self) -> str:
        """The text of the text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))


class UserMessage(LazyMessage, tag="user"):
    """A prompt on its way in; a tool result or a replayed prompt on its way out."""

    message_raw: Raw = field(default=NULL, name="message")
    parent_tool_use_id: str | None = always(None)
    is_synthetic: bool | None = field(default=None, name="isSynthetic")
    tool_use_result_raw: Raw = field(default=NULL, name="tool_use_result")
    priority: str | None = None
    origin: MessageOrigin | None = None
    should_query: bool | None = field(default=None, name="shouldQuery")
    timestamp: str | None = None
    client_composed: bool | None = None
    pasted_content: list[Any] = field(default_factory=list)
    inline_pastes: list[str] = field(default_factory=list)
    agent_id: str | None = None
    subagent_type: str | None = None
    task_description: str | None = None
    is_replay: bool | None = field(default=None, name="isReplay")
    refused_message_id: str | None = None
    file_attachments: list[Any] = field(default_factory=list)
    tool_result_meta: Any = None

    @once
    def message(self) -> ApiMessage:
        """The API message."""
        return load(ApiMessage, self.message_raw)

    @property
    def content(self) -> list[ContentBlock]:
        """The message's blocks; a plain string is one text block."""
        return self.message.content

    @once
    def text(self) -> str:
        """The text of the text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @once
    def tool_use_result(self) -> Any:
        """What the tool gave back, in its own form; None where this is no tool result."""
        return parse(self.tool_use_result_raw)


class AbandonedBlocks(Record):
    """The blocks of a reply that was cut short: drop them, another reply follows."""

    api_message_id: str = always("")
    from_block_index: int = always(0)


class StreamEvent(Message, tag="stream_event", gc=False):
    """A piece of an answer being written, as the Messages API sent it.

    By far the most frequent message, so it has no instance dictionary and is not tracked by the
    garbage collector; nor is anything that it has by default. Its text is a field, under a name
    that is written over as soon as a line is read.
    """

    _text: bytes = field(default=b"", name="_pilothouse_line")  # pyright: ignore[reportIncompatibleVariableOverride]
    event: StreamPart = field(default_factory=UnknownStreamEvent)
    parent_tool_use_id: str | None = always(None)
    ttft_ms: float | None = None
    user_message_uuid: str | None = None
    user_message_uuids: tuple[str, ...] = ()
    resume_reason: str | None = None
    api_message_id: str | None = None
    abandoned_blocks: AbandonedBlocks | None = None
    thinking_display: str | None = None
    owed_rows: Any = None

    @property
    def text(self) -> str | None:
        """The new text, where this is a text delta."""
        event = self.event
        if type(event) is ContentBlockDelta and type(event.delta) is TextDelta:
            return event.delta.text
        return None

    @property
    def thinking(self) -> str | None:
        """The new thinking, where this is a thinking delta."""
        event = self.event
        if type(event) is ContentBlockDelta and type(event.delta) is ThinkingDelta:
            return event.delta.thinking
        return None

    @property
    def partial_json(self) -> str | None:
        """The next piece of a tool's input, where this is an input delta."""
        event = self.event
        if type(event) is ContentBlockDelta and type(event.delta) is InputJsonDelta:
            return event.delta.partial_json
        return None


class InvalidConfigFile(Record):
    """The configuration file that could not be read."""

    path: str = always("")
    is_global: bool = always(False)
    backup_searched: bool = always(False)
    backup_path: str | None = None


class ResultMessage(LazyMessage, tag="result"):
    """The end of a turn.

    `is_error` tells failure, not `subtype`: an API error has subtype `success`. `total_cost_usd`
    and `model_usage` are totals of the process, `usage` is the turn's.
    """

    subtype: str = always("")
    duration_ms: float = always(0.0)
    duration_api_ms: float = always(0.0)
    ttft_ms: float | None = None
    ttft_stream_ms: float | None = None
    time_to_request_ms: float | None = None
    user_message_uuid: str | None = None
    user_message_uuids: list[str] = field(default_factory=list)
    resume_reason: str | None = None
    local_command: str | None = None
    request_sent_wall_ms: float | None = None
    first_content_frame_ms: float | None = None
    first_stream_post_ms: float | None = None
    first_stream_post_ack_ms: float | None = None
    first_stream_post_queue_wait_ms: float | None = None
    first_stream_post_queued_behind: str | None = None
    first_stream_post_wall_ms: float | None = None
    first_text_post_ms: float | None = None
    first_text_post_queue_wait_ms: float | None = None
    first_text_post_queued_behind: str | None = None
    first_text_post_wall_ms: float | None = None
    time_to_request_from_spawn_ms: float | None = None
    warm_spare_claimed: bool | None = None
    time_origin_ms: float | None = None
    is_error: bool = always(False)
    api_error_status: int | None = None
    num_turns: int = always(0)
    result: str | None = None
    stop_reason: str | None = always(None)
    total_cost_usd: float = always(0.0)
    usage: TokenUsage = always(TokenUsage())
    model_usage: dict[str, ModelUsage] = always({}, name="modelUsage")
    permission_denials: list[PermissionDenial] = always([])
    queued_turn_count: int | None = None
    structured_output: Any = None
    deferred_tool_use: DeferredToolUse | None = None
    terminal_reason: str | None = None
    result_index: int | None = None
    credential_expires_at: str | None = None
    fast_mode_state: str | None = None
    fast_mode_disabled_reason: str | None = None
    origin: MessageOrigin | None = None
    errors: list[str] = field(default_factory=list)
    startup_failure_reason: str | None = None
    invalid_config_file: InvalidConfigFile | None = None
    api_error: str | None = None
    api_error_type: str | None = None
    model_usage_since_last_result: dict[str, ModelUsage] = field(default_factory=dict)
    subagent_stats: JsonObject | None = None
    safety_stops: int | None = None
    first_request_input_tokens: int | None = None
    first_request_cache_read_input_tokens: int | None = None


class SubagentRetry(Record):
    """A subagent's API retry."""

    agent_id: str = always("")
    attempt: int = always(0)
    max_retries: int = always(0)
    retry_delay_ms: float = always(0.0)
    error_status: int | None = always(None)
    error_category: str = always("")


class ToolProgressMessage(LazyMessage, tag="tool_progress"):
    """A tool is still running."""

    tool_use_id: str = always("")
    tool_name: str = always("")
    parent_tool_use_id: str | None = always(None)
    elapsed_time_seconds: float = always(0.0)
    task_id: str | None = None
    heartbeat: bool | None = None
    subagent_type: str | None = None
    subagent_retry: SubagentRetry | None = None


class ToolUseSummaryMessage(LazyMessage, tag="tool_use_summary"):
    """A summary of the tool uses before it."""

    summary: str = always("")
    preceding_tool_use_ids: list[str] = always([])


class AuthStatusMessage(LazyMessage, tag="auth_status", rename="camel"):
    """Progress of a login."""

    is_authenticating: bool = always(False)
    output: list[str] = always([])
    error: str | None = None


class RateLimitInfo(Record, rename="camel"):
    """Where the account stands with one of its limits."""

    status: str = always("")
    resets_at: float | None = None
    rate_limit_type: str | None = None
    utilization: float | None = None
    overage_status: str | None = None
    overage_resets_at: float | None = None
    overage_disabled_reason: str | None = None
    is_using_overage: bool | None = None
    overage_in_use: bool | None = None
    overage_enabled: bool | None = None
    surpassed_threshold: float | None = None
    limit_scope: str | None = None
    error_code: str | None = None
    can_user_purchase_credits: bool | None = None
    has_chargeable_saved_payment_method: bool | None = None


class RateLimitEvent(LazyMessage, tag="rate_limit_event"):
    """A limit of the account changed."""

    rate_limit_info: RateLimitInfo = always(RateLimitInfo())


class PromptSuggestionMessage(LazyMessage, tag="prompt_suggestion"):
    """What the user may want to say next."""

    suggestion: str = always("")


class ConversationResetMessage(LazyMessage, tag="conversation_reset"):
    """The conversation starts anew; later messages carry another session id."""

    new_conversation_id: str = always("")
    trigger: str | None = None
    user_message_uuid: str | None = None
    timestamp: str | None = None


class Goal(Record):
    """The goal the session works towards."""

    condition: str = always("")
    iterations: int = always(0)
    set_at: float = always(0.0)
    tokens_at_start: int = always(0)
    last_reason: str | None = None


class ActiveGoalMessage(LazyMessage, tag="active_goal"):
    """The goal of the session was set, advanced or cleared."""

    value: Goal | None = always(None)


class CommandLifecycleMessage(LazyMessage, tag="command_lifecycle"):
    """How far a prompt has come, named by the uuid the client gave it."""

    command_uuid: str = always("")
    state: str = always("")


class TranscriptMirrorMessage(LazyMessage, tag="transcript_mirror"):
    """Transcript lines just written, sent with `--session-mirror`."""

    file_path: str = always("", name="filePath")
    entries: list[Any] = always([])


class AutocompactStateMessage(LazyMessage, tag="autocompact_state"):
    """The state of automatic compaction. Its members are not documented: see `extra`."""


class StreamlinedTextMessage(LazyMessage, tag="streamlined_text"):
    """Text, in the short form of older CLIs."""

    text: str = always("")


class StreamlinedToolUseSummaryMessage(LazyMessage, tag="streamlined_tool_use_summary"):
    """A summary of tool uses, in the short form of older CLIs."""

    tool_summary: str = always("")


class KeepAliveMessage(LazyMessage, tag="keep_alive"):
    """Nothing; the peer is alive."""

    startup_mark: str | None = None


class UpdateEnvironmentVariablesMessage(LazyMessage, tag="update_environment_variables"):
    """The client sets variables of the CLI's environment. Newer CLIs take it without effect."""

    variables: dict[str, str] = always({})


_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, IndexError)
_BRACE = {ord("}")}
_last_byte = operator.itemgetter(-1)

KnownMessage = (
    StreamEvent
    | AssistantMessage
    | UserMessage
    | SystemMessage
    | ResultMessage
    | ControlRequest
    | ControlResponse
    | ControlCancelRequest
    | ToolProgressMessage
    | ToolUseSummaryMessage
    | AuthStatusMessage
    | RateLimitEvent
    | PromptSuggestionMessage
    | ConversationResetMessage
    | ActiveGoalMessage
    | CommandLifecycleMessage
    | TranscriptMirrorMessage
    | AutocompactStateMessage
    | StreamlinedTextMessage
    | StreamlinedToolUseSummaryMessage
    | KeepAliveMessage
    | UpdateEnvironmentVariablesMessage
)

_CLASSES: dict[str, type[Message]] = {tag_of(kind): kind for kind in get_args(KnownMessage)}

_decoder = msgspec.json.Decoder(KnownMessage)
_decode = _decoder.decode
_decode_lines = _decoder.decode_lines


def decode(line: bytes) -> Message:
    """The message on this line. Raises `NotAMessage` where it is no JSON object."""
    try:
        if is_too_deep(line):
            return _decode_deep(line)
        message = _decode(line)
    except TooManyParts as error:
        raise NotAMessage(str(error)) from None
    except _UNREADABLE:
        return _decode_slowly(line)
    if type(message) is SystemMessage:
        return load(class_of(message.subtype), line)
    # What `keep` does, without the call: this is the hot path.
    message._text = line  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
    return message


def decode_lines(lines: list[bytes]) -> list[Message] | None:
    """The messages on these lines, in one pass; None where a line has to be looked at by itself.

    The same as `decode` for each, in little more than half the time.
    """
    try:
        # Lines that all end in a brace are none of them blank. Then as many messages as lines
        # are one to each, which the decoder alone does not tell: it needs no newline between two.
        if set(map(_last_byte, lines)) != _BRACE or has_deep(lines):
            return None
        messages = cast("list[Message]", _decode_lines(b"\n".join(lines)))
    except (*_UNREADABLE, TooManyParts):
        return None
    if len(messages) != len(lines):
        return None
    for message, line in zip(messages, lines, strict=False):
        message._text = line  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
    if SystemMessage in map(type, messages):
        return [_specific(message) for message in messages]
    return messages


def _specific(message: Message) -> Message:
    if type(message) is SystemMessage:
        return load(class_of(message.subtype), message.raw)
    return message


def _decode_slowly(line: bytes) -> Message:
    try:
        value = parse_strictly(line)
    except (ValueError, RecursionError):
        raise NotAMessage("not JSON") from None
    if not isinstance(value, dict):
        raise NotAMessage("not an object")
    return _convert(cast(JsonObject, value), line)


def _convert(given: JsonObject, line: bytes) -> Message:
    kind, subtype = given.get("type"), given.get("subtype")
    known = _CLASSES.get(kind) if isinstance(kind, str) else None
    if known is SystemMessage:
        known = class_of(subtype if isinstance(subtype, str) else "")
    message = convert(known or UnknownMessage, given)
    if isinstance(message, StreamEvent):
        message.event = read_event(given.get("event"))
    return keep(message, line)


def _decode_deep(line: bytes) -> Message:
    """A line that is nested too deeply, without what lies so deep."""
    try:
        value = as_object(parse_shallow(line))
    except (ValueError, RecursionError):
        raise NotAMessage("nested too deeply") from None
    if value.get("type") == "control_request":
        # Nobody may allow what nobody can be shown: it is answered as a request that is unknown.
        value["request"] = {"subtype": "nested_too_deeply"}
    return _convert(value, line)
