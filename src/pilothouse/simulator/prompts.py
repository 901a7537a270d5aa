"""What a client says to the model."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

__all__ = ["Prompt", "words_of"]


class Prompt(Struct, frozen=True, kw_only=True):
    """What a client said, and the id it gave it."""

    content: str | list[dict[str, Any]]
    uuid: str | None = None
    expansion: str | None = None
    """What a command of the user's own stands for; only the model reads it."""

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


def words_of(content: str | list[dict[str, Any]]) -> str:
    """The words of a message."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block.get("type") == "text")
