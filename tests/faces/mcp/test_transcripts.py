"""A conversation as text: the items of the fold, as Markdown."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.api.answers import Allow, Answer, Deny
from pilothouse.api.items import (
    CompactionItem,
    FilesItem,
    GapItem,
    HookItem,
    Item,
    LimitItem,
    NoticeItem,
    PromptItem,
    QuestionItem,
    RetryItem,
    SignInItem,
    TaskRun,
    TextItem,
    ThinkingItem,
    ToolItem,
    TurnItem,
)
from pilothouse.api.questions import Option, Posed, Question
from pilothouse.api.records import (
    KINDS,
    CLIEnded,
    CLIStarted,
    InterruptAsked,
    OptionsChanged,
    PromptSaid,
    QuestionClosed,
    QuestionOpened,
    Record,
    TurnEnded,
    encode_record,
)
from pilothouse.api.requests import SessionOptions
from pilothouse.api.tool_views import ImageView
from pilothouse.conversation import Conversation
from pilothouse.faces.mcp.transcripts import LONGEST_PIECE, markdown

AT = 1_700_000_000_000
QUESTION = Question(
    id="q", session_id="s", kind="tool", state="open", title="Run a command", text="rm -r x"
)


def told(*entries: Record | dict[str, Any] | bytes) -> str:
    conversation = Conversation()
    for seq, entry in enumerate(entries, 1):
        kind, body = encode_record(entry) if isinstance(entry, Record) else ("cli", entry)
        written = body if isinstance(body, bytes) else msgspec.json.encode(body)
        conversation.apply(seq, kind, AT, written)
    return markdown(conversation.items)


def assistant(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    message = {"id": "m", "content": list(blocks)}
    return {"type": "assistant", "uuid": "l", "message": message, **more}


def user(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": list(blocks)}, **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def use(tool: str, use_id: str = "t", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": use_id, "name": tool, "input": given}


def result(content: Any, use_id: str = "t", **more: Any) -> dict[str, Any]:
    return user({"type": "tool_result", "tool_use_id": use_id, "content": content, **more})


def test_a_prompt_says_who_and_when():
    said = PromptSaid(id="p", content="Do it.")
    taken = user(text("Do it."), uuid="p")
    assert told(said, taken) == "## Person, 2023-11-14 22:13 UTC, message p\n\nDo it."
    assert told(PromptSaid(id="p", content="Go on.", by="engine")).startswith("## Pilothouse,")


def test_a_prompt_says_what_became_of_it():
    queued = told(PromptSaid(id="p", content="Do it."))
    assert queued.endswith("Do it.\n\n_No turn has taken it yet._")
    back = PromptItem(id="p", seq=1, text="Do it.", state="withdrawn", because="the CLI ended")
    assert (
        markdown([back]) == "## Person, message p\n\nDo it.\n\n_It was taken back. the CLI ended_"
    )


def test_an_image_is_named():
    blocks = [text("See:"), {"type": "image", "source": {}}]
    assert "See:\n\n(image)" in told(PromptSaid(id="p", content=blocks))
    shown = ToolItem(id="t", seq=1, tool="Read", state="done", view=ImageView(path="x.png"))
    assert markdown([shown]).endswith("Result:\n```\n(image)\n```")


def test_the_model_speaks_and_uses_tools():
    line = assistant(
        {"type": "thinking", "thinking": "hm"}, text("I look."), use("Bash", command="echo `date`")
    )
    assert told(line) == '## Claude\n\nI look.\n\n**Bash** ``{"command": "echo `date`"}``'


def test_a_text_is_told_while_it_is_written():
    item = TextItem(id="m/text0", seq=1, text="Half a s", state="streaming")
    assert markdown([item]) == "## Claude\n\nHalf a s\n\n_(still writing)_"
    call = ToolItem(id="t", seq=2, tool="Write", state="writing", written=120)
    assert markdown([call]).endswith("**Write** _(120 characters of its input so far)_")


def test_what_was_taken_back_is_counted_and_not_told():
    item = TextItem(id="m/text0", seq=1, text="secret", state="retracted")
    assert markdown([item]) == "## Claude\n\n_A text of 6 characters was taken back._"


def test_a_subagent_is_told_apart_and_ends_before_the_result_of_its_call():
    text_of = told(
        assistant(use("Task", "outer", description="look")),
        assistant(text("Found."), parent_tool_use_id="outer", uuid="l2"),
        assistant(use("Read", "inner"), parent_tool_use_id="outer", uuid="l3"),
        result("its lines", "inner", parent_tool_use_id="outer"),
        result("all of it", "outer"),
    )
    parts = [each for each in text_of.split("\n\n") if each]
    assert parts == [
        "## Claude",
        '**Task** `{"description": "look"}`',
        "## Claude (subagent)",
        "Found.",
        "**Read** `{}`",
        "Result:\n```\nits lines\n```",
        "## Claude",
        "Result:\n```\nall of it\n```",
    ]


def test_results_are_fenced_whatever_is_in_them():
    call = assistant(use("Bash"))
    assert "Result:\n````\n```\nx\n```\n````" in told(call, result("```\nx\n```"))
    assert "Error:\n```\nno\n```" in told(call, result([text("no")], is_error=True))
    assert told(call, result("")).endswith("Result: nothing.")


def test_the_echo_of_a_prompt_is_not_told_twice():
    said = PromptSaid(id="p", content="Do it.")
    assert told(said, user(text("Do it."), uuid="p")).count("Do it.") == 1


def test_a_question_and_its_answer_are_told():
    def closed(answer: Answer | None, state: Any = "answered", **more: Any) -> str:
        record = QuestionClosed(id="q", state=state, answer=answer, **more)
        return told(QuestionOpened(question=QUESTION), record)

    asked = "**Asked:** Run a command\n\n```\nrm -r x\n```"
    assert told(QuestionOpened(question=QUESTION)) == asked
    assert closed(Allow(), by="mcp:x") == f"{asked}\n\n**Answered** by mcp:x: allow"
    assert closed(Deny(reason="no")).endswith('deny `{"reason": "no"}`')
    assert "by policy (rule 2)" in closed(Deny(), by="policy", rule="2")
    gone = closed(None, "withdrawn", because="the CLI ended")
    assert gone.endswith("**Not answered:** withdrawn. the CLI ended")


def test_a_result_comes_behind_the_question_about_its_call():
    asked = msgspec.structs.replace(QUESTION, tool_use_id="t")
    text_of = told(
        assistant(use("Bash", command="rm -r x")),
        QuestionOpened(question=asked),
        QuestionClosed(id="q", state="answered", answer=Allow(), by="person"),
        result("gone"),
    )
    call, question, answer, end = (
        text_of.index(each) for each in ("**Bash**", "**Asked:**", "**Answered**", "Result:")
    )
    assert call < question < answer < end


def test_a_denied_call_says_so():
    call = ToolItem(id="t", seq=1, tool="Bash", state="denied", result="not on a Friday")
    assert markdown([call]).endswith("Denied:\n```\nnot on a Friday\n```")


def test_the_models_questions_are_told_with_their_options():
    posed = Posed(question="Which?", options=[Option(label="A"), Option(label="B")])
    question = msgspec.structs.replace(QUESTION, text="", posed=[posed])
    assert markdown([QuestionItem(id="q", seq=1, question=question)]).endswith("- Which? (A, B)")


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (TurnEnded(outcome="finished", reason=""), "_The turn ended: finished._"),
        (CLIStarted(resumed=True), "_A CLI took the conversation up again._"),
        (CLIStarted(), ""),
        (CLIEnded(orderly=True, reason="x"), ""),
        (CLIEnded(orderly=False, reason="killed"), "_The CLI ended: killed_"),
        (OptionsChanged(options=SessionOptions(), mode="plan"), "_Mode: plan._"),
        (OptionsChanged(options=SessionOptions()), ""),
        (InterruptAsked(), "_Somebody interrupted._"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Record) else each[:12],
)
def test_what_happened_is_one_line(record: Record, line: str):
    assert told(record) == line


TASK = TaskRun(id="a", type="Explore", state="completed", tool_uses=3, tokens=900)


@pytest.mark.parametrize(
    ("item", "line"),
    [
        (ThinkingItem(id="i", seq=1, text="hm"), ""),
        (
            TurnItem(id="i", seq=1, outcome="failed", error="no credit"),
            "_The turn ended: failed._\n\n```\nno credit\n```",
        ),
        (TurnItem(id="i", seq=1, structured_output={"a": 1}), 'Structured output: `{"a": 1}`'),
        (CompactionItem(id="i", seq=1, state="running"), "_The conversation is being summarised._"),
        (
            CompactionItem(id="i", seq=1, tokens_before=900, tokens_after=90, summary="It was so."),
            "summarised (900 to 90 tokens)._\n\n```\nIt was so.\n```",
        ),
        (CompactionItem(id="i", seq=1, state="failed", error="too short"), "too short_"),
        (
            RetryItem(id="i", seq=1, attempt=2, max_retries=10, error="overloaded"),
            "_The API could not answer (overloaded); attempt 2 of 10._",
        ),
        (LimitItem(id="i", seq=1, status="allowed"), ""),
        (
            LimitItem(id="i", seq=1, status="rejected", limit="five_hour", resets_at=AT),
            "_Rate limit five_hour: rejected; it resets at 2023-11-14 22:13 UTC._",
        ),
        (
            SignInItem(id="i", seq=1, state="failed", error="no browser"),
            "_Signing in: no browser._",
        ),
        (
            HookItem(id="i", seq=1, name="lint", event="Stop", outcome="error", exit_code=2),
            "_The hook lint (Stop): error, exit code 2._",
        ),
        (
            FilesItem(id="i", seq=1, files=["a"], failed={"b": "full"}),
            "_Stored: a. Could not be stored: b (full)._",
        ),
        (NoticeItem(id="i", seq=1, level="output", text="2 files"), "```\n2 files\n```"),
        (NoticeItem(id="i", seq=1, level="unknown", text="system/new"), ""),
        (
            GapItem(id="i", seq=1, reason="retention", count=7),
            "_Something is missing here. 7 entries: retention._",
        ),
        (
            ToolItem(id="i", seq=1, tool="Bash", state="interrupted"),
            "_Bash: interrupted._",
        ),
        (
            ToolItem(id="i", seq=1, tool="Task", state="done", result="x", task=TASK),
            "_The subagent Explore: completed, 3 tools, 900 tokens._",
        ),
    ],
    ids=lambda each: type(each).__name__ if not isinstance(each, str) else each[:12],
)
def test_every_kind_of_item_is_told(item: Item, line: str):
    assert markdown([item]).endswith(line)
    assert bool(markdown([item])) == bool(line)


def test_what_is_long_is_cut_with_a_note():
    text_of = told(assistant(text("x" * 100_000)))
    assert text_of.endswith("x ... (84000 more characters)")
    prompt = PromptItem(id="p", seq=1, text="y" * 20_000, cut=5)
    assert markdown([prompt]).endswith("y ... (4005 more characters)")
    call = ToolItem(id="t", seq=1, tool="Bash", state="done", result="z" * 20_000, cut=7)
    assert "z ... (18007 more characters)" in markdown([call])
    many = [Option(label="o" * 100) for _ in range(1_000)]
    posed = [Posed(question="Which?", options=many) for _ in range(1_000)]
    question = msgspec.structs.replace(QUESTION, posed=posed)
    shown = markdown([QuestionItem(id="q", seq=1, question=question)])
    assert len(shown) < LONGEST_PIECE + 100


def test_half_a_surrogate_pair_stops_nothing():
    item = TextItem(id="m/text0", seq=1, text="a\ud800b")
    assert markdown([item]) == "## Claude\n\na?b"


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
    conversation = Conversation()
    conversation.apply(1, kind, AT, msgspec.json.encode(body))
    assert markdown(conversation.items).encode() is not None
