"""Finds the labels that a caller's words mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["pick_one", "pick_several"]


def pick_one(labels: Sequence[str], text: str) -> str:
    """Return the label that a text means; other words as they are."""
    wanted = text.strip()
    for label in labels:
        if label.strip().casefold() == wanted.casefold():
            return label
    return wanted


def pick_several(labels: Sequence[str], text: str) -> list[str]:
    """Return the labels that a text means, in its order, each once; other words as they are.

    A label may contain commas: the longest label that fits is taken.
    """
    return list(dict.fromkeys(_pieces(labels, text.strip())))


def _pieces(labels: Sequence[str], text: str) -> Iterator[str]:
    longest = sorted(labels, key=lambda label: len(label.strip()), reverse=True)
    while text:
        label = next((each for each in longest if _begins(text, each.strip())), None)
        if label is None:
            piece, _, text = text.partition(",")
            if piece.strip():
                yield pick_one(labels, piece)
        else:
            yield label
            text = text[len(label.strip()) :].lstrip().removeprefix(",")
        text = text.strip()


def _begins(text: str, label: str) -> bool:
    """Whether the text begins with this label, and the label ends there."""
    if not label or text[: len(label)].casefold() != label.casefold():
        return False
    after = text[len(label) :].lstrip()
    return not after or after.startswith(",")
