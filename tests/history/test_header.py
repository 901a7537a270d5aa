"""What the two ends of a transcript tell."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.history.header import WINDOW, Header, header_of
from pilothouse.history.lines import completed, decoded
from tests.support.history.transcripts import WHEN_MS, encoded, noted, place, replied, said

BIG = 3 * WINDOW


def header(*lines: Any) -> Header:
    data = encoded(*lines)
    read = header_of(data, b"") if len(data) <= 2 * WINDOW else header_of(*ends(data))
    assert read is not None
    return read


def ends(data: bytes) -> tuple[bytes, bytes]:
    return data[:WINDOW], data[-WINDOW:]


def padding(size: int = BIG) -> bytes:
    return encoded(*[replied("z" * 2000)] * (size // 2000))[:-1]


def test_a_plain_transcript_tells_everything() -> None:
    read = header(said("Weigh anchor"), replied("Aye."))
    assert read == Header(
        cwd="/srv/harbour",
        title="Weigh anchor",
        first_prompt="Weigh anchor",
        created_at=WHEN_MS,
        interactive=False,
        branch="main",
        version="2.1.325",
        is_talk=True,
        last_line="Aye.",
    )


def spoken(model: str, *content: dict[str, Any], **members: Any) -> dict[str, Any]:
    message = {"role": "assistant", "model": model, "content": list(content)}
    return replied("", **members) | {"message": message, **members}


def test_the_model_that_spoke_last_is_known_and_its_last_line() -> None:
    words = {"type": "text", "text": "Aye.\n\nAnchor's aweigh."}
    read = header(
        said("Weigh anchor"),
        spoken("claude-of-old", words),
        spoken("claude-of-now", {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}),
        spoken("claude-small", {"type": "text", "text": "An agent's."}, isSidechain=True),
    )
    assert (read.model, read.last_line) == ("claude-of-now", "Anchor's aweigh.")
    read = header(said("Weigh anchor"), spoken("<synthetic>", words))
    assert (read.model, read.last_line) == (None, "Anchor's aweigh.")


def test_titles_are_preferred_in_the_order_of_the_cli() -> None:
    lines = [
        said("first"),
        noted("summary", summary="in short"),
        noted("last-prompt", lastPrompt="last"),
        noted("ai-title", aiTitle="by the model"),
        noted("custom-title", customTitle="by a person"),
    ]
    titles = [header(*lines[: number + 1]).title for number in range(len(lines))]
    assert titles == ["first", "in short", "last", "by the model", "by a person"]


def test_the_newest_title_counts_and_an_empty_one_takes_it_back() -> None:
    first, second = (
        noted("custom-title", customTitle="one"),
        noted("custom-title", customTitle="two"),
    )
    taken_back = noted("custom-title", customTitle="")
    assert header(said("p"), first, second).title == "two"
    assert header(said("p"), first, second, taken_back).title == "p"


def test_a_title_within_what_somebody_said_is_none() -> None:
    inner = [{"type": "tool_use", "input": {"customTitle": "no", "cwd": "/no", "lastPrompt": "no"}}]
    read = header(said("p"), noted("x", message={"content": inner}, customTitles="no"))
    assert (read.title, read.cwd) == ("p", "/srv/harbour")


def test_titles_are_found_at_both_ends_of_a_long_transcript() -> None:
    title = noted("custom-title", customTitle="name")
    assert header(said("p"), padding(), title).title == "name"
    assert header(said("p"), title, padding()).title == "name"


@pytest.mark.parametrize(
    "line",
    [
        said("meta", isMeta=True),
        said("summary", isCompactSummary=True),
        said("by the system", promptSource="system"),
        said([{"type": "tool_result", "content": "x"}, {"type": "text", "text": "beside it"}]),
        said("<local-command-stdout>x</local-command-stdout>"),
        said("[Request interrupted by user for tool use]"),
        said("<ide_opened_file>a\nb</ide_opened_file>"),
        said("<task-notification>x</task-notification>"),
        said("  \n "),
        said([]),
        said([{"type": "image", "source": {}}]),
        said(None),
        said(["text"]),
        {"type": "user"},
        {"type": "user", "message": 5},
        replied("words"),
    ],
    ids=str,
)
def test_what_no_person_said_is_no_prompt(line: Any) -> None:
    assert header(line).first_prompt == ""
    assert header(line, said("the prompt")).first_prompt == "the prompt"


def test_a_command_is_the_prompt_if_there_is_no_other() -> None:
    command = said("<command-message>x</command-message><command-name>/review</command-name>")
    assert header(command).first_prompt == "/review"
    assert header(command, said("words")).first_prompt == "words"


def test_a_prompt_is_one_short_line() -> None:
    assert header(said("  a\n\n b\t")).first_prompt == "a b"
    assert header(said("é" * 5000)).first_prompt == "é" * 200 + "…"
    opened = {"type": "text", "text": "<ide_opened_file>x</ide_opened_file>"}
    assert header(said([opened, {"type": "text", "text": "Go"}])).first_prompt == "Go"


def test_a_prompt_longer_than_the_window_is_read_as_far_as_it_goes() -> None:
    read = header(said("A " + "long tale " * BIG), replied("Aye."))
    assert read.first_prompt.startswith("A long tale long")
    assert (read.cwd, read.created_at, read.interactive) == ("/srv/harbour", None, False)


def test_a_prompt_that_was_enqueued_counts_when_its_own_line_is_out_of_sight() -> None:
    words = "tale " * BIG
    queued = noted("queue-operation", operation="enqueue", timestamp="2026-11-15T19:16:31Z")
    read = header(queued | {"content": words}, said(words), replied("Aye."))
    assert read.first_prompt.startswith("tale tale")
    assert read.created_at == WHEN_MS - 65
    assert read.cwd == "/srv/harbour"


def test_a_line_longer_than_both_windows_still_tells_where_it_is() -> None:
    read = header(said("x" * BIG, gitBranch='a"b', cwd="/srv/\\é"))
    assert (read.cwd, read.branch, read.version) == ("/srv/\\é", 'a"b', "2.1.325")


def test_a_prompt_behind_the_window_is_found_at_the_end() -> None:
    hooks = noted("attachment", attachment={"x": "y" * BIG})
    assert header(hooks, said("late"), replied("Aye.")).first_prompt == "late"


def test_a_conversation_whose_prompt_is_out_of_sight_is_one() -> None:
    hooks = noted("attachment", attachment={"x": "y" * BIG})
    assert header(hooks, said("late"), padding()).is_talk
    assert not header(noted("attachment")).is_talk


@pytest.mark.parametrize(
    ("entrypoints", "interactive"),
    [
        (["cli"], True),
        (["claude-vscode"], True),
        (["sdk-cli", "cli"], True),
        (["cli", "sdk-cli"], True),
        (["sdk-py"], False),
        ([None], None),
    ],
)
def test_the_entry_point_tells_whether_a_person_sat_at_it(
    entrypoints: list[str | None], interactive: bool | None
) -> None:
    lines = [said("p", entrypoint=each) for each in entrypoints]
    assert header(*lines).interactive is interactive


def test_outside_a_repository_there_is_no_branch() -> None:
    assert header(said("p", gitBranch="HEAD")).branch is None
    assert header(said("p", gitBranch="")).branch is None
    assert header(said("p"), said("q", gitBranch="other")).branch == "other"


def test_a_subagents_transcript_is_recognised() -> None:
    assert header(said("p", isSidechain=True)).is_sidechain
    assert not header(said("p"), said("p", isSidechain=True)).is_sidechain


def test_damaged_lines_are_passed_over_and_damaged_texts_repaired() -> None:
    half = b'{"type":"last-prompt","lastPrompt":"cut \\ud83d"}'
    latin = b'{"type":"user","message":{"content":"caf\xe9"},"cwd":"/srv"}'
    read = header(b"\x00\xff", b"{", b"[]", b"5", latin, half, b'{"type":"custom-title","cust')
    assert (read.first_prompt, read.title, read.cwd) == ("caf\ufffd", "cut \ufffd", "/srv")


def test_a_wrong_type_spoils_its_own_line_alone() -> None:
    assert header(noted("x", cwd=5), said("p")).cwd == "/srv/harbour"


@pytest.mark.parametrize("when", ["", "soon", "0001-01-01T00:00:00+23:59", "0001-01-01", "9" * 400])
def test_a_time_that_is_none_is_left_out(when: str) -> None:
    assert header(said("p", timestamp=when)).created_at is None


@pytest.mark.parametrize(
    "data", [b"\n", b"words\n", b"\xff\xfe\n", b"5", b"[{}]", b'{"a":' * 30_000]
)
def test_a_file_without_any_line_of_a_transcript_has_no_header(data: bytes) -> None:
    assert header_of(data, b"") is None
    assert header_of(data, data) is None


LINES = st.sampled_from(
    [
        encoded(said("prompt \U0001f600"), noted("custom-title", customTitle="\u00e9")),
        encoded(place(type="user", message={"content": [{"type": "text", "text": "t"}]})),
        b'{"type":"last-prompt","lastPrompt":"\\ud83d\\ude00"}',
        b'"cwd":"x","sessionId":"y","version":"z","gitBranch":"\\',
        b'"customTitle" "aiTitle" "type":"summary"',
        b"\n",
        b"{",
        b'{"type":',
    ]
)
BYTES = st.lists(st.binary(max_size=40) | LINES, max_size=12).map(b"".join)


@given(BYTES, BYTES)
def test_arbitrary_bytes_never_raise_and_what_is_read_can_be_kept(head: bytes, tail: bytes) -> None:
    for read in (header_of(head, b""), header_of(head, tail)):
        kept = msgspec.msgpack.encode(read)
        assert msgspec.msgpack.decode(kept, type=Header | None) == read


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, max_size=5), st.booleans(), st.data())
def test_the_beginning_of_an_object_is_completed_wherever_it_is_cut(
    value: dict[str, Any], is_ascii: bool, data: st.DataObject
) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, separators=(",", ":")).encode()
    cut = completed(text[: data.draw(st.integers(1, len(text)))])
    whole = json.loads(cut.decode(errors="replace"))
    assert list(whole) == list(value)[: len(whole)]
    assert all(whole[key] == value[key] for key in list(whole)[:-1])


def test_an_object_nested_without_end_is_given_up() -> None:
    assert decoded(completed(b'{"a":' * 50_000)) is not None
    assert len(completed(b'{"a":' * 50_000)) < 20_000
