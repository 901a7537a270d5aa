"""What a client says to the model."""

from __future__ import annotations

from typing import Any, cast

from msgspec import Struct, field

from pilothouse_sim.simulator.outlet import new_id

__all__ = ["ClientPrompt", "as_sent", "words_of"]


class ClientPrompt(Struct, frozen=True, kw_only=True):
    """What a client said, and the id it gave it."""

    content: str | list[dict[str, Any]]
    uuid: str | None = None
    is_question: bool = True
    """Whether the model shall answer; if not, it is only told, with the next prompt."""
    is_human: bool = False
    """Whether the client says that a person wrote it."""
    expansion: str | None = None
    """What a command of the user's own stands for; only the model reads it."""
    spare: str = field(default_factory=new_id)

    @property
    def own_id(self) -> str:
        """Its id in the transcript and in what is repeated: one is made up where none was given."""
        return self.uuid or self.spare

    @property
    def origin(self) -> dict[str, Any] | None:
        """Where it comes from, if the client has said so."""
        return {"kind": "human"} if self.is_human else None

    @property
    def told(self) -> str | list[dict[str, Any]]:
        """What the model is told."""
        if self.expansion is None:
            return self.content
        return [{"type": "text", "text": part} for part in (self.text, self.expansion)]

    @property
    def text(self) -> str:
        """The words of it."""
        return words_of(self.content)


def as_sent(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A conversation as the API is sent it.

    Replies without a word are left out, and what the user said in several messages is one.
    """
    sent: list[dict[str, Any]] = []
    last: dict[str, Any] | None = None
    for message in messages:
        if message["role"] == "assistant" and not _is_visible(message["content"]):
            continue
        if message["role"] == "user" and last is not None and last["role"] == "user":
            last["content"] = [*_blocks(last["content"]), *_blocks(message["content"])]
            continue
        sent.append(dict(message))
        if message["role"] != "system":
            last = sent[-1]
    return sent


def _is_visible(content: str | list[dict[str, Any]]) -> bool:
    return isinstance(content, str) or any(block["type"] != "thinking" for block in content)


def _blocks(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return cast("list[dict[str, Any]]", content) if isinstance(content, list) else []


def words_of(content: object) -> str:
    """The words of a message. Clients may send anything: what is no text has none."""
    if isinstance(content, str):
        return content
    entries = cast("list[Any]", content) if isinstance(content, list) else []
    blocks = [cast("dict[str, Any]", each) for each in entries if isinstance(each, dict)]
    return "\n".join(str(each.get("text", "")) for each in blocks if each.get("type") == "text")
