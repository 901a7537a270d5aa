"""A conversation as text."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from pilothouse.api.events import Event
from pilothouse.api.questions import Question
from pilothouse.api.records import KINDS, QuestionOpened, encode_record
from pilothouse.faces.mcp.transcripts import LONGEST_PIECE, joined, piece_of

AT = 1_700_000_000_000


def event(kind: str, body: Any, seq: int = 1) -> Event:
    written = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return Event(seq, "s", kind, AT, Raw(written))


def told(kind: str, **body: Any) -> str:
    piece = piece_of(event(kind, body))
    return "" if piece is None else joined([piece])


def assistant(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": list(blocks)}, **more}


def test_a_prompt_says_who_and_when():
    assert (
        told("prompt.said", id="p", content="Do it.") == "## Person, 2023-11-14 22:13 UTC\n\nDo it."
    )
    assert told("prompt.said", id="p", content="Go on.", by="engine").startswith("## Pilothouse,")


def test_an_image_is_named():
    blocks = [{"type": "text", "text": "See:"}, {"type": "image", "source": {}}]
    assert told("prompt.said", content=blocks).endswith("See:\n(image)")


def test_the_model_speaks_and_uses_tools():
    text = told(
        "cli",
        **assistant(
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "echo `date`"}},
        ),
    )
    assert text == '## Claude\n\nI look.\n\n**Bash** ``{"command": "echo `date`"}``'


def test_a_subagent_is_told_apart():
    line = assistant({"type": "text", "text": "Found."}, parent_tool_use_id="t")
    assert told("cli", **line) == "## Claude (subagent)\n\nFound."


def test_results_are_fenced_whatever_is_in_them():
    block = {"type": "tool_result", "tool_use_id": "t", "content": "```\nx\n```"}
    line = {"type": "user", "message": {"content": [block]}}
    assert "Result:\n````\n```\nx\n```\n````" in told("cli", **line)
    block |= {"is_error": True, "content": [{"type": "text", "text": "no"}]}
    assert "Error:\n```\nno\n```" in told("cli", **line)


def test_the_echo_of_a_prompt_is_not_told_twice():
    assert told("cli", type="user", message={"content": "Do it."}) == ""


def test_a_question_and_its_answer_are_told():
    question = Question(
        id="q", session_id="s", kind="tool", state="open", title="Run a command", text="rm -r x"
    )
    _, body = encode_record(QuestionOpened(question=question))
    piece = piece_of(event("question.opened", body))
    assert piece is not None
    assert piece.text == "**Asked:** Run a command\n\n```\nrm -r x\n```"
    answered = {"id": "q", "state": "answered", "by": "mcp:x", "answer": {"kind": "allow"}}
    assert told("question.closed", **answered) == "**Answered** by mcp:x: allow"
    answered["answer"] = {"kind": "deny", "reason": "no", "stop": False}
    assert told("question.closed", **answered).endswith('deny `{"reason": "no"}`')
    gone = {"id": "q", "state": "withdrawn", "because": "the CLI ended"}
    assert told("question.closed", **gone) == "**Not answered:** withdrawn. the CLI ended"


def test_the_models_questions_are_told_with_their_options():
    posed = [{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]
    assert told("question.opened", question={"title": "T", "posed": posed}).endswith(
        "- Which? (A, B)"
    )


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("session.started", {"cwd": "/w"}, "_A session in /w._"),
        ("turn.ended", {"outcome": "finished"}, "_The turn ended: finished._"),
        ("cli.started", {"resumed": True}, "_A CLI took the conversation up again._"),
        ("cli.started", {}, ""),
        ("cli.ended", {"orderly": True}, ""),
        ("cli.ended", {"orderly": False, "reason": "killed"}, "_The CLI ended: killed._"),
        ("options.changed", {"options": {}, "mode": "plan"}, "_Mode: plan._"),
        ("options.changed", {"options": {}}, ""),
        ("interrupt.asked", {}, "_Somebody interrupted._"),
        ("partial", {"type": "assistant"}, ""),
        ("rules.kept", {"rules": ["Bash"]}, ""),
    ],
)
def test_what_happened_is_one_line(kind: str, body: dict[str, Any], text: str):
    assert told(kind, **body) == text


def test_what_is_long_is_cut_with_a_note():
    text = told("cli", **assistant({"type": "text", "text": "x" * 100_000}))
    assert text.endswith("x ... (84000 more characters)")
    many = told("cli", **assistant(*[{"type": "text", "text": "y" * 15_000}] * 10))
    assert len(many) < LONGEST_PIECE + 100


def test_half_a_surrogate_pair_stops_nothing():
    body = b'{"type":"assistant","message":{"content":[{"type":"text","text":"a\\ud800b"}]}}'
    piece = piece_of(event("cli", body))
    assert piece is not None
    assert piece.text == "a?b"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["type", "message", "content", "question", "posed", "options", "answer", "text", "label", "cwd"]
)
VALUES = st.sampled_from(["assistant", "user", "text", "tool_use", "tool_result"]) | JSON


@given(kind=st.sampled_from(KINDS), body=st.dictionaries(NAMES, VALUES) | JSON)
def test_no_line_is_too_odd_to_be_told(kind: str, body: Any):
    piece = piece_of(event(kind, body))
    assert piece is None or piece.text.encode()
