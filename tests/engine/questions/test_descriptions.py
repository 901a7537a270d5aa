"""What a person is shown of a tool's call, and that it cannot deceive."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.engine.questions import descriptions
from pilothouse.engine.questions.descriptions import (
    Description,
    describe,
    escape,
    one_line,
    shorten,
)

CWD = "/srv/boat"
JOINERS = "\u200c\u200d"


def shown(tool_name: str, **given: Any) -> Description:
    return describe(tool_name, given, CWD)


# Tools


def test_a_command_is_shown_whole_with_what_is_said_about_it() -> None:
    described = shown(
        "Bash",
        command="make test",
        description="Run the tests",
        timeout=90_000,
        run_in_background=True,
        dangerouslyDisableSandbox=True,
    )
    assert described.title == "Run `make test`"
    assert described.format == "command"
    assert described.text == (
        "make test\n\n# Run the tests\n# Timeout: 90 s\n# In the background\n# Outside the sandbox"
    )


def test_a_long_command_is_never_shortened_and_its_title_is() -> None:
    command = "echo " + "x" * 50_000 + "; rm -r ~"
    described = shown("Bash", command=command)
    assert described.text == command
    assert len(described.title) == 120
    assert described.title.endswith("…`")


def test_a_comment_cannot_pass_for_a_line_of_the_command() -> None:
    described = shown("Bash", command="ls", description="List\nrm -r /")
    assert described.text == "ls\n\n# List\\nrm -r /"


def test_a_member_nobody_knows_is_shown_too() -> None:
    assert "# shell: zsh" in shown("Bash", command="ls", shell="zsh").text
    assert "pages: 1-5" in shown("Read", file_path="a.pdf", pages="1-5").text
    assert "replace_how: fast" in shown("Edit", file_path="a", replace_how="fast").text


def test_a_member_of_another_type_than_expected_is_shown_too() -> None:
    assert '# command: ["ls"]' in shown("Bash", command=["ls"]).text
    assert "edits: [1]" in shown("MultiEdit", file_path="a", edits=[1]).text
    assert '# timeout: "soon"' not in shown("Bash", command="ls", timeout="soon").text
    assert "# timeout: soon" in shown("Bash", command="ls", timeout="soon").text


def test_an_edit_is_shown_as_a_diff_with_its_path_from_the_working_directory() -> None:
    described = shown(
        "Edit", file_path=f"{CWD}/src/sail.py", old_string="a\nb\nc", new_string="a\nB\nc"
    )
    assert described == Description(
        "Edit src/sail.py",
        "--- src/sail.py\n+++ src/sail.py\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c",
        "diff",
    )


def test_an_edit_of_every_occurrence_says_so() -> None:
    text = shown("Edit", file_path="a", old_string="x", new_string="y", replace_all=True).text
    assert text.splitlines()[2:] == ["# every occurrence", "@@ -1 +1 @@", "-x", "+y"]


def test_an_edit_that_changes_nothing_says_so() -> None:
    assert shown("Edit", file_path="a", old_string="x", new_string="x").text.endswith("# no change")


def test_several_edits_are_one_diff() -> None:
    edits = [
        {"old_string": "a", "new_string": "b"},
        {"old_string": "", "new_string": "c"},
    ]
    described = shown("MultiEdit", file_path="x.py", edits=edits)
    assert described.title == "Edit x.py in 2 places"
    assert described.text.splitlines() == [
        "--- x.py",
        "+++ x.py",
        "@@ -1 +1 @@",
        "-a",
        "+b",
        "@@ -0,0 +1 @@",
        "+c",
    ]


def test_a_hidden_change_within_a_line_is_seen() -> None:
    text = shown("Edit", file_path="a", old_string="user", new_string="us\u200ber").text
    assert "-user\n+us\\u200ber" in text


def test_an_edit_of_very_many_lines_is_shown_without_looking_for_what_stayed() -> None:
    old = "\n".join("x" for _ in range(descriptions.DIFFED_LINES + 1))
    text = shown("Edit", file_path="a", old_string=old, new_string="y").text
    assert text.startswith(f"--- a\n+++ a\n@@ -1,{descriptions.DIFFED_LINES + 1} +1,1 @@\n-x\n")
    assert text.endswith("-x\n+y")


def test_a_written_file_is_shown_with_its_path_and_content() -> None:
    described = shown("Write", file_path=f"{CWD}/a.txt", content="one\ntwo\n")
    assert described == Description("Write a.txt (2 lines)", "a.txt\n\none\ntwo\n")


def test_long_content_is_shortened_and_says_by_how_much() -> None:
    text = shown("Write", file_path="a", content="x" * (descriptions.LONG + 7)).text
    assert text.endswith("x\n… 7 more characters, not shown here")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"{CWD}/a/b", "a/b"),
        ("a/b", "a/b"),
        (f"{CWD}/../other/a", "/srv/other/a"),
        ("../../etc/passwd", "/etc/passwd"),
        (f"{CWD}-2/a", f"{CWD}-2/a"),
        ("/etc/passwd", "/etc/passwd"),
        ("~/.ssh/id", "~/.ssh/id"),
        (CWD, CWD),
    ],
)
def test_a_path_is_shown_as_where_it_leads(path: str, expected: str) -> None:
    assert shown("Read", file_path=path).title == f"Read {expected}"


def test_a_path_cannot_forge_lines() -> None:
    described = shown("Edit", file_path="a\n+++ b", old_string="x", new_string="y")
    assert described.text.startswith("--- a\\n+++ b\n+++ a\\n+++ b\n@@")


@pytest.mark.parametrize(
    ("tool_name", "given", "title", "text"),
    [
        ("Read", {"file_path": "a", "offset": 3}, "Read a", "a\noffset: 3"),
        (
            "Glob",
            {"pattern": "**/*.py"},
            "List files like **/*.py in .",
            "pattern: **/*.py\npath: .",
        ),
        (
            "Grep",
            {"pattern": "def", "path": f"{CWD}/src", "-i": True},
            "Search for def in src",
            "pattern: def\npath: src\n-i: true",
        ),
        (
            "WebSearch",
            {"query": "tides", "allowed_domains": ["example.com"]},
            "Search the web for tides",
            'query: tides\n\nallowed_domains: ["example.com"]',
        ),
        (
            "Task",
            {"description": "Look", "prompt": "Look\naround", "subagent_type": "Explore"},
            "Start an agent: Look",
            "description: Look\nsubagent_type: Explore\n\nLook\naround",
        ),
        ("Agent", {"prompt": "Look"}, "Start an agent: Look", "Look"),
        (
            "Skill",
            {"skill": "pdf", "args": "a b"},
            "Use the skill pdf",
            "skill: pdf\n\nargs: a b",
        ),
        (
            "NotebookEdit",
            {"notebook_path": "n.ipynb", "cell_id": "c1", "new_source": "1", "edit_mode": "insert"},
            "Insert after cell c1 of n.ipynb",
            "n.ipynb\ncell: c1\nmode: insert\n\n1",
        ),
        ("NotebookEdit", {"notebook_path": "n.ipynb"}, "Edit n.ipynb", "n.ipynb"),
        ("EnterPlanMode", {}, "Enter plan mode", ""),
        ("KillShell", {"shell_id": "b1"}, "Stop the background task b1", "task: b1"),
        ("TaskStop", {"task_id": "b1"}, "Stop the background task b1", "task: b1"),
        (
            "BashOutput",
            {"bash_id": "b1", "filter": "x"},
            "Read the output of the background task b1",
            "task: b1\nfilter: x",
        ),
        (
            "mcp__weather__fore_cast",
            {"city": "Oslo", "note": "a\ncity: Rome", "days": {"n": 3}},
            "Use fore_cast of the MCP server weather",
            'city: Oslo\nnote: a\n    city: Rome\ndays: {"n": 3}',
        ),
        ("mcp__odd", {}, "Use mcp__odd", ""),
        ("Sextant", {"star": {"name": "Vega"}}, "Use Sextant", None),
        ("Sextant", {}, "Use Sextant", ""),
        ("Bash", {}, "Run a command", ""),
    ],
)
def test_each_tool_in_words(
    tool_name: str, given: dict[str, Any], title: str, text: str | None
) -> None:
    described = describe(tool_name, given, CWD)
    assert described.title == title
    if text is not None:
        assert described.text == text


def test_a_tool_nobody_knows_is_shown_with_its_arguments() -> None:
    assert shown("Sextant", star={"name": "Vegä"}).text == (
        '{\n  "star": {\n    "name": "Vegä"\n  }\n}'
    )


def test_a_page_is_shown_by_its_address() -> None:
    described = shown("WebFetch", url="https://example.com/tides", prompt="When\nis low tide?")
    assert described.title == "Fetch https://example.com/tides"
    assert described.format == "url"
    assert described.text == "https://example.com/tides\n\nprompt: When\n    is low tide?"


def test_an_input_that_is_nested_too_deeply_is_still_described() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"in": deep}
    assert shown("Sextant", deep=deep).text == "(nested too deeply to be shown)"
    # Taken apart from outside in: the interpreter would do it from inside out, and fall over.
    while deep:
        deep = deep.pop("in")


# Deception


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x1b[2Kb", "a\\x1b[2Kb"),
        ("a\rb", "a\\rb"),
        ("a\x9bb", "a\\x9bb"),
        ("a\u202eb\u2066", "a\\u202eb\\u2066"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("a\u2028b", "a\\u2028b"),
        ("a\U000e0041b", "a\\U000e0041b"),
        ("a\ud800b", "a\\ud800b"),
        ("rm\u200d x", "rm\\u200d x"),
        ("a\tb\nc", "a\tb\nc"),
        ("schön 船 👩‍💻 می‌خواهم", "schön 船 👩‍💻 می‌خواهم"),
        ("é\u200d\u200c\u200dé", "é\\u200d\\u200c\u200dé"),
    ],
)
def test_what_could_deceive_is_written_as_an_escape(text: str, expected: str) -> None:
    assert escape(text) == expected


def test_what_was_escaped_once_stays() -> None:
    assert escape(escape("\u202ea\x1b")) == escape("\u202ea\x1b")


def test_one_line_is_one_line_and_no_longer_than_asked() -> None:
    assert one_line("a\nb\tc") == "a\\nb\\tc"
    assert one_line("\x1b" * 200, 10) == "\\x1b\\x1b\\…"
    assert shorten("abc", 3) == "abc"


def is_hidden(character: str) -> bool:
    if character in "\n\t":
        return False
    if character in JOINERS:
        return False
    category = unicodedata.category(character)
    # Some format characters of scripts are to be seen, like the Arabic number signs.
    return category in ("Cc", "Cs", "Zl", "Zp") or character in "\u202a\u202b\u202c\u202d\u202e"


TEXTS = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("\x1b\r\n\t\x00\x7f\x9b\u202e\u2066\u200b\u200d\ud800`{}[]-+#: "),
    ),
    max_size=40,
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
MEMBERS = st.sampled_from(
    [
        "command",
        "description",
        "timeout",
        "run_in_background",
        "file_path",
        "old_string",
        "new_string",
        "edits",
        "replace_all",
        "content",
        "notebook_path",
        "cell_id",
        "edit_mode",
        "new_source",
        "pattern",
        "path",
        "url",
        "prompt",
        "query",
        "skill",
        "args",
        "shell_id",
        "task_id",
        "bash_id",
        "subagent_type",
        "limit",
    ]
)
EDITS = st.fixed_dictionaries({"old_string": TEXTS, "new_string": TEXTS, "more": VALUES})
INPUTS = st.dictionaries(MEMBERS | TEXTS, VALUES | TEXTS | st.lists(EDITS, max_size=3), max_size=8)
NAMES = st.sampled_from([*descriptions._TOOLS, "Sextant", "mcp__a__b"]) | TEXTS.map("mcp__".__add__)


@given(NAMES | TEXTS, INPUTS, TEXTS | st.just(CWD))
def test_any_input_is_described_and_nothing_hidden_gets_through(
    tool_name: str, given: dict[str, Any], cwd: str
) -> None:
    described = describe(tool_name, given, cwd)
    assert "\n" not in described.title
    assert "\t" not in described.title
    assert 0 < len(described.title) <= descriptions.TITLE
    assert [each for each in described.title + described.text if is_hidden(each)] == []


@given(TEXTS)
def test_visible_text_is_left_alone(text: str) -> None:
    if text.isprintable() and text.isascii():
        assert escape(text) == text
    assert len(one_line(text, 20)) <= 20


@given(st.dictionaries(MEMBERS, TEXTS.map(lambda text: f"<{text}>"), max_size=6))
def test_a_line_of_an_mcp_tools_argument_cannot_pass_for_another_argument(
    given: dict[str, str],
) -> None:
    lines = describe("mcp__a__b", given, CWD).text.split("\n")
    heads = [line for line in lines if line and not line.startswith("    ")]
    assert [head.partition(":")[0] for head in heads] == list(given)


def test_a_long_path_keeps_its_name_in_the_title() -> None:
    path = f"/srv/{'deep/' * 40}hello.txt"
    shown = describe("Write", {"file_path": path, "content": "Ahoy.\n"}, cwd="/boat")
    assert shown.title.startswith("Write /srv/deep/")
    assert shown.title.endswith("deep/hello.txt (1 line)")
    assert path in shown.text
