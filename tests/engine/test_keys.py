"""Idempotency keys, labels and caps: what is taken."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pilothouse.api.requests import Caps, Fork, Say, Start
from pilothouse.api.results import Started
from pilothouse.engine.keys import Keys, Remember
from pilothouse.errors import KeyReused, UsageError
from pilothouse.journal.contract import Changes
from pilothouse.journal.sqlite import SqliteJournal


def request(prompt: str = "Hello.", **members: Any) -> Start:
    return Start(prompt=prompt, cwd="/work", **members)


async def test_a_key_means_one_request_and_no_other() -> None:
    journal = await SqliteJournal.open(None)
    made: list[Started] = []

    async def act(remember: Remember) -> Started:
        made.append(Started(session_id=f"s{len(made)}", state="active"))
        await journal.post([], Changes(keys=remember(made[-1]))).committed
        return made[-1]

    try:
        keys = Keys(journal)
        first = await keys.once("start", "k", request(), Started, act)
        again = await keys.once("start", "k", request(), Started, act)
        assert (first.repeated, again.repeated) == (False, True)
        assert again.session_id == first.session_id
        assert len(made) == 1
        with pytest.raises(KeyReused):
            await keys.once("start", "k", request("Else."), Started, act)
        with pytest.raises(UsageError, match="1 to 256 characters"):
            await keys.once("start", "", request(), Started, act)
        with pytest.raises(UsageError, match="1 to 256 characters"):
            await keys.once("start", "k" * 257, request(), Started, act)
        assert len(made) == 1
    finally:
        await journal.aclose()


TAKING = {
    Start: {"prompt": "p", "cwd": "/"},
    Say: {"content": "p"},
    Fork: {"prompt": "p"},
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [(Start, "key"), (Start, "label"), (Say, "key"), (Fork, "key"), (Fork, "label")],
)
def test_a_key_or_a_label_has_one_to_256_characters(kind: type[Any], name: str) -> None:
    given = TAKING[kind]
    for good in ("k", "k" * 256):
        assert getattr(msgspec.convert({**given, name: good}, kind), name) == good
    for bad in ("", "k" * 257):
        with pytest.raises(msgspec.ValidationError, match=name):
            msgspec.convert({**given, name: bad}, kind)


@pytest.mark.parametrize("dollars", [0, -1, -0.01])
def test_a_cap_is_above_zero(dollars: float) -> None:
    with pytest.raises(msgspec.ValidationError, match="session_usd"):
        msgspec.convert({"session_usd": dollars}, Caps)
    with pytest.raises(UsageError, match="above 0"):
        Caps(session_usd=dollars)
    assert Caps(session_usd=0.01).session_usd == 0.01
    assert Caps().session_usd is None
