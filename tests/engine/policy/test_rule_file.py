from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.engine.policy import Policy
from pilothouse.engine.policy.rule_file import MEMBERS
from pilothouse.errors import PolicyError
from tests.support.engine.policies import rule


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rule]]\ntool = Bash\n", "policy:2:8: Invalid value"),
        ("[[rule]]\ntool = 'a'\ntool = 'b'\n", "policy:3:"),
        ("a = 1\n", "policy:1: 'a' is not known; a policy has only [[rule]] tables"),
        ("\n[rule]\ntool = 'a'\n", "policy:2: rules are written [[rule]]"),
        ("rule = [1]\n", "policy:1: rule 'rule 1': `rule` must be a table"),
        (rule("tool = 'a'"), 'policy:1: rule \'rule 1\': `action` must be one of "allow", "deny"'),
        (
            rule("tool = 'a'", "action = 'never'"),
            "policy:3: rule 'rule 1': `action` must be one of",
        ),
        (
            rule("name = 'x'", "tool = 'a'", "acton = 'ask'"),
            "policy:4: rule 'x': `acton` is not known; a rule may have name, action",
        ),
        (rule("tool = 1", "action = 'ask'"), "policy:2: rule 'rule 1': `tool` must be a text or"),
        (rule("tool = []", "action = 'ask'"), "`tool` must be a text or a list of texts"),
        (rule("tool = ['a', '']", "action = 'ask'"), "`tool` must be a text or a list of texts"),
        (rule("tool = 're:('", "action = 'ask'"), "`tool` 're:(' is no regular expression"),
        (
            rule(r"tool = 're:(a)\1'", "action = 'ask'"),
            "has '\\\\1' at 3, which is not for a policy",
        ),
        (rule("tool = 're:a{9999}'", "action = 'ask'"), "`tool` 're:a{9999}' is too long"),
        ("many = " + "9" * 5000, "Exceeds the limit"),
        (rule(f"tool = 're:{'(' * 2000}{')' * 2000}'", "action = 'ask'"), "is nested too deeply"),
        (rule(f"tool = '{'a' * 5000}'", "action = 'ask'"), "aaa...' is longer than 4096 char"),
        (rule("mode = 'yolo'", "action = 'ask'"), '`mode` must be one or several of "default"'),
        (rule("kind = 'tol'", "action = 'ask'"), '`kind` must be one or several of "tool"'),
        (rule("name = ''", "action = 'ask'"), "`name` must be a text"),
        (rule("tool = 'a'", "action = 'ask'", "reason = 'x'"), "policy:4: rule 'rule 1': `reason`"),
        (rule("action = 'deny'", "reason = 1"), "`reason` must be a text"),
        (rule("path = 'a/../b'", "action = 'ask'"), "`path` 'a/../b' has '..' in it"),
        (rule("path = 'a/'", "action = 'ask'"), "for all below it write 'a/**'"),
        (rule("directory = 'a'", "action = 'ask'"), "`directory` 'a' must start with /, ~/ or **"),
        (rule("url = 'example.org'", "action = 'ask'"), "https://host/*"),
        (rule("url = 'https://a*'", "action = 'ask'"), "https://host/*"),
        (rule("domain = 'https://a'", "action = 'ask'"), "must be a host alone"),
        (rule("compound = true", "action = 'deny'", "command = 'a'"), "`compound` goes with"),
        (rule("compound = true", "action = 'allow'", "tool = 'a'"), "`compound` goes with"),
        (
            rule("compound = 1", "action = 'allow'", "command = 'a'"),
            "`compound` must be true, false",
        ),
        (rule("input = 'a'", "action = 'ask'"), "`input` must be a table of patterns"),
        (rule("input = {}", "action = 'ask'"), "`input` must be a table of patterns"),
        (rule("input.a = 1.5", "action = 'ask'"), "policy:2: rule 'rule 1': `input.a` must be"),
        (rule("input.command = 'a'", "action = 'ask'"), "write `command = ...`"),
        (rule("input.file_path = 'a'", "action = 'ask'"), "write `path = ...`"),
        (rule("action = 'ask'") + rule("name = 'rule 1'", "action = 'ask'"), "taken by line 1"),
        ("a = " + "[" * 5000, "policy"),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, message: str):
    with pytest.raises(PolicyError) as caught:
        Policy.parse(text)
    assert message in str(caught.value)


def test_the_line_is_that_of_the_rule_which_is_wrong():
    good = rule('tool = "Bash"', "action = 'deny'", 'reason = """', "[[rule]]", 'tool = 1"""')
    text = "# [[rule]]\n" + good + "\n" + rule('label = "x"', "", "tool = 1", "action = 'ask'")
    with pytest.raises(PolicyError, match=r"^my\.toml:12: rule 'rule 2': `tool`"):
        Policy.parse(text, "my.toml")


@given(st.text() | st.lists(st.sampled_from(["[[rule]]", "tool", "=", "'a'", "\n"])).map("".join))
def test_a_text_is_a_policy_or_a_policy_error(text: str):
    with contextlib.suppress(PolicyError):
        assert Policy.parse(text).text == text


# The page

PAGE = (Path(__file__).resolve().parents[3] / "docs/howto-policy.md").read_text()


def test_the_page_has_every_member_of_a_rule():
    assert tuple(re.findall(r"^\| `(\w+)` \|", PAGE.split("\n## ")[1], re.MULTILINE)) == MEMBERS


@pytest.mark.parametrize("example", re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
def test_an_example_of_the_page_is_a_policy(example: str):
    assert Policy.parse(example).rules
