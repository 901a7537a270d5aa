"""What clients say to the model, whatever shape it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.scenario import reply
from pilothouse_sim.simulator.prompts import as_sent, words_of
from tests.support.sim.client import sim_client


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("Hello.", "Hello."),
        ([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}], "a\nb"),
        ([5, {"type": "text"}], ""),
        (5, ""),
        (None, ""),
    ],
)
def test_what_is_no_text_has_no_words(content: object, words: str) -> None:
    assert words_of(content) == words


def test_messages_of_another_shape_are_sent_as_one_all_the_same() -> None:
    said = [{"role": "user", "content": content} for content in (5, [6], "x")]
    assert as_sent(said) == [{"role": "user", "content": [6, {"type": "text", "text": "x"}]}]


@pytest.mark.parametrize("content", [5, [5], {"a": 1}])
async def test_a_prompt_of_another_shape_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: Any
) -> None:
    async with sim_client(tmp_path, monkeypatch, reply("Pardon?")) as client:
        assert (await client.ask(content))["result"] == "Pardon?"
