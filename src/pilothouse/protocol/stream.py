"""The Messages API's stream events, as they stand in `StreamEvent.event`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw, field

from .blocks import ApiMessage, ContentBlock, decode_block
from .shared import TokenUsage
from .wire import NULL, JsonObject, Record, Unread, always, as_object, convert, load

__all__ = [
    "CitationsDelta",
    "ContentBlockDelta",
    "ContentBlockStart",
    "ContentBlockStop",
    "Delta",
    "InputJsonDelta",
    "MessageDelta",
    "MessageEnd",
    "MessageStart",
    "MessageStop",
    "Ping",
    "SignatureDelta",
    "StreamPart",
    "TextDelta",
    "ThinkingDelta",
    "UnknownDelta",
    "UnknownStreamEvent",
    "read_event",
]


class _Tagged(Record, tag_field="type", gc=False):
    @property
    def type(self) -> str:
        """The `type` on the wire."""
        return str(self.__struct_config__.tag)


class TextDelta(_Tagged, tag="text_delta"):
    """More text."""

    text: str = always("")


class InputJsonDelta(_Tagged, tag="input_json_delta"):
    """More of the JSON of a tool's input."""

    partial_json: str = always("")


class ThinkingDelta(_Tagged, tag="thinking_delta"):
    """More thinking."""

    thinking: str = always("")
    estimated_tokens: int | None = None


class SignatureDelta(_Tagged, tag="signature_delta"):
    """The signature of a thinking block."""

    signature: str = always("")


class CitationsDelta(_Tagged, tag="citations_delta"):
    """One more citation."""

    citation: JsonObject = always({})


class UnknownDelta(Unread):
    """A delta of a type this version does not know."""


KnownDelta = TextDelta | InputJsonDelta | ThinkingDelta | SignatureDelta | CitationsDelta

# The decoder takes tagged structs only; an unknown delta is put in by `read_event`.
if TYPE_CHECKING:
    Delta = KnownDelta | UnknownDelta
else:
    Delta = KnownDelta


class ContentBlockDelta(_Tagged, tag="content_block_delta"):
    """More of the block `index`."""

    index: int = always(0)
    delta: Delta = field(default_factory=UnknownDelta)


class ContentBlockStart(_Tagged, tag="content_block_start"):
    """The block `index` begins."""

    index: int = always(0)
    content_block_raw: Raw = field(default=NULL, name="content_block")

    @property
    def content_block(self) -> ContentBlock:
        """The block as far as it is known."""
        return decode_block(self.content_block_raw)


class ContentBlockStop(_Tagged, tag="content_block_stop"):
    """The block `index` is complete."""

    index: int = always(0)


class MessageStart(_Tagged, tag="message_start"):
    """An API message begins."""

    message_raw: Raw = field(default=NULL, name="message")

    @property
    def message(self) -> ApiMessage:
        """The message as far as it is known."""
        return load(ApiMessage, self.message_raw)


class MessageEnd(Record):
    """How an API message ended."""

    stop_reason: str | None = always(None)
    stop_sequence: str | None = always(None)
    stop_details: Any = None
    container: Any = None


class MessageDelta(_Tagged, tag="message_delta"):
    """How the API message ends and what it used."""

    delta: MessageEnd = field(default_factory=MessageEnd)
    usage: TokenUsage | None = None
    context_management: Any = None


class MessageStop(_Tagged, tag="message_stop"):
    """The API message is complete."""


class Ping(_Tagged, tag="ping"):
    """Nothing; the stream is alive."""


class UnknownStreamEvent(Unread):
    """A stream event of a type this version does not know."""


KnownStreamPart = (
    MessageStart
    | ContentBlockStart
    | ContentBlockDelta
    | ContentBlockStop
    | MessageDelta
    | MessageStop
    | Ping
)

if TYPE_CHECKING:
    StreamPart = KnownStreamPart | UnknownStreamEvent
else:
    StreamPart = KnownStreamPart

_EVENTS: dict[str, type[KnownStreamPart]] = {
    "message_start": MessageStart,
    "content_block_start": ContentBlockStart,
    "content_block_delta": ContentBlockDelta,
    "content_block_stop": ContentBlockStop,
    "message_delta": MessageDelta,
    "message_stop": MessageStop,
    "ping": Ping,
}


def read_event(value: Any) -> StreamPart:
    """A parsed stream event, known or not."""
    given = UnknownStreamEvent(as_object(value))
    known = _EVENTS.get(given.type)
    if known is None:
        return given
    event = convert(known, given)
    if isinstance(event, ContentBlockDelta) and isinstance(event.delta, UnknownDelta):
        event.delta = UnknownDelta(as_object(given.get("delta")))
    return event
