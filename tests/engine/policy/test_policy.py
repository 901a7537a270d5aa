from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pilothouse.api.answers import Allow, Answer, Decline, Deny
from pilothouse.api.questions import Question
from pilothouse.engine.policy import Decision, JudgedAsk, Policy, PolicyFile, dry_run
from pilothouse.engine.policy.effort import bounded
from pilothouse.engine.policy.policy import LARGEST, read_policy
from pilothouse.errors import PolicyError
from tests.support.engine.policies import bash, rule, scripts, verdict

# Rules and their order


def test_without_rules_a_person_is_asked():
    assert Policy().decide(bash("ls")) == Decision("ask")
    assert Policy.parse("").decide(bash("ls")) == Decision("ask")


def test_the_first_rule_that_matches_decides():
    text = (
        rule('name = "pushes"', 'command = "git push *"', 'action = "deny"', 'reason = "Not you."')
        + rule('tool = "Bash"', 'action = "allow"')
        + rule('tool = "*"', 'action = "deny"')
    )
    policy = Policy.parse(text)
    assert policy.decide(bash("git push origin")) == Decision("deny", "pushes", "Not you.")
    assert policy.decide(bash("git status")) == Decision("allow", "rule 2 (Bash)")
    assert policy.decide(JudgedAsk("Read")).rule == "rule 3 (*)"
    assert policy.decide(JudgedAsk("Read")).reason == "Denied by the policy: rule 3 (*)."


def test_a_rule_that_asks_ends_the_search():
    text = rule('tool = "Write"', 'action = "ask"') + rule('tool = "*"', 'action = "allow"')
    assert Policy.parse(text).decide(JudgedAsk("Write")) == Decision("ask", "rule 1 (Write)")
    assert verdict(text, JudgedAsk("Read")) == "allow"


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (['tool = "Bash"', 'command = ["git", "git *"]'], "rule 1 (Bash, git, git *)"),
        (['input = { a = "x", b = { c = 1 } }'], "rule 1 (a=x, b={'c': 1})"),
        (['label = "ci-*"', 'mode = "plan"', 'directory = "~/a"'], "rule 1 (~/a, ci-*, plan)"),
        (['command = "a\\n  b"'], "rule 1 (a b)"),
        (['command = "' + "long " * 20 + '"'], "rule 1 (" + ("long " * 20)[:57] + "...)"),
        (['name = "mine"', 'tool = "Bash"'], "mine"),
        ([], "rule 1"),
    ],
)
def test_a_rule_without_a_name_is_called_by_its_conditions(lines: list[str], name: str):
    [made] = Policy.parse(rule(*lines, 'action = "deny"')).rules
    assert made.name == name


@pytest.mark.parametrize(
    ("tool", "name", "matches"),
    [
        ('"Bash"', "Bash", True),
        ('"Bash"', "BashOutput", False),
        ('"mcp__github__*"', "mcp__github__get_issue", True),
        ('"mcp__github__*"', "mcp__gitlab__get_issue", False),
        ('["Read", "Glob"]', "Glob", True),
        ('"re:(Edit|Write)"', "Edit", True),
        ('"re:(Edit|Write)"', "MultiEdit", False),
    ],
)
def test_a_tool_is_named_by_glob_list_or_expression(tool: str, name: str, matches: bool):
    text = rule(f"tool = {tool}", 'action = "allow"')
    assert (verdict(text, JudgedAsk(name)) == "allow") is matches


def test_every_condition_of_a_rule_must_hold():
    text = rule('tool = "Bash"', 'label = "ci-*"', 'mode = ["default", "plan"]', 'action = "allow"')
    assert verdict(text, bash("ls", label="ci-7", mode="plan")) == "allow"
    assert verdict(text, bash("ls", label="ci-7")) == "allow"
    assert verdict(text, bash("ls", label="ci-7", mode="acceptEdits")) == "ask"
    assert verdict(text, bash("ls", label="me", mode="plan")) == "ask"
    assert verdict(text, bash("ls", mode="plan")) == "ask"


@pytest.mark.parametrize("kind", ["plan", "questions", "elicitation"])
def test_a_rule_speaks_of_tools_only_unless_it_names_the_kind(kind: Any):
    everything = rule('tool = "*"', 'action = "deny"')
    assert verdict(everything, JudgedAsk("ExitPlanMode", kind=kind)) == "ask"
    assert verdict(rule(f'kind = "{kind}"', 'action = "deny"'), JudgedAsk("", kind=kind)) == "deny"


@pytest.mark.parametrize("kind", ["questions", "elicitation"])
def test_what_needs_words_cannot_be_allowed(kind: str):
    with pytest.raises(PolicyError, match=r"policy:2: rule 'rule 1': `kind` .*in words"):
        Policy.parse(rule(f'kind = ["tool", "{kind}"]', 'action = "allow"'))


def test_an_allowing_rule_says_what_it_allows():
    with pytest.raises(PolicyError, match=r'`action` allows without saying what.*tool = "\*"'):
        Policy.parse(rule('label = "ci"', 'action = "allow"'))


# Other input


def test_members_of_the_input_are_named_with_dots():
    text = rule(
        'tool = "mcp__mail__send"',
        'input.to = ["*@example.org", "me@example.com"]',
        'input.options.priority = "low"',
        "input.draft = true",
        "input.copies = 1",
        'action = "allow"',
    )
    good = {"to": "a@example.org", "options": {"priority": "low"}, "draft": True, "copies": 1}
    assert verdict(text, JudgedAsk("mcp__mail__send", good)) == "allow"
    for changed in (
        {"to": "a@evil.com"},
        {"to": ["a@example.org"]},
        {"options": "low"},
        {"options": {}},
        {"draft": 1},
        {"copies": True},
        {"copies": None},
    ):
        assert verdict(text, JudgedAsk("mcp__mail__send", {**good, **changed})) == "ask"


def test_a_name_with_dots_in_it_hides_no_member():
    text = rule('input = { "a.b" = "good" }', 'action = "allow"')
    assert verdict(text, JudgedAsk("X", {"a": {"b": "good"}})) == "allow"
    assert verdict(text, JudgedAsk("X", {"a.b": "good"})) == "allow"
    assert verdict(text, JudgedAsk("X", {"a.b": "good", "a": {"b": "bad"}})) == "ask"
    guard = text.replace("allow", "deny")
    assert verdict(guard, JudgedAsk("X", {"a.b": "good", "a": {"b": "bad"}})) == "deny"


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | scripts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["command", "file_path", "path", "url", "pattern", "a", "a.b"]) | st.text()
asks = st.builds(
    JudgedAsk,
    tool_name=st.sampled_from(["Bash", "Write", "Glob", "WebFetch", ""]) | st.text(),
    input=st.dictionaries(names, json, max_size=6),
    cwd=st.none() | st.just("/nowhere") | st.text(),
    label=st.none() | st.text(),
    mode=st.none() | st.text(),
    kind=st.sampled_from(["tool", "plan", "questions", "elicitation"]),
)
CONDITIONS = [
    'command = "git *"',
    'command = ["a*", "re:b+"]',
    'path = ["src/**", "~/a", "/b/*", "**/.env"]',
    'url = "https://*.org/*"',
    'domain = "*.org"',
    'input = { a = "x*", "a.b" = 1 }',
    'directory = ["~/**", "**/a", "/nowhere"]',
    'label = "[a-c]*"',
    'mode = "plan"',
    'tool = ["Bash", "*e"]',
]
rules = st.builds(
    lambda conditions, action: rule(*conditions, 'kind = ["tool", "plan"]', f'action = "{action}"'),
    st.lists(st.sampled_from(CONDITIONS), max_size=3, unique_by=lambda line: line.split()[0]),
    st.sampled_from(["allow", "deny", "ask"]),
)


@settings(deadline=None)
@given(st.lists(rules, min_size=1, max_size=5), asks)
def test_the_outcome_is_that_of_the_first_rule_which_matches_alone(
    texts: list[str], ask: JudgedAsk
):
    home = Path("/home/me")
    alone = [Policy.parse(text, home=home).decide(ask) for text in texts]
    first = next((at for at, each in enumerate(alone) if each.rule is not None), None)
    together = Policy.parse("".join(texts), home=home).decide(ask)
    number = together.rule and together.rule.split(" (")[0]
    assert number == (None if first is None else f"rule {first + 1}")
    assert together.verdict == ("ask" if first is None else alone[first].verdict)


@settings(deadline=None)
@given(rules, asks)
def test_whatever_an_allowing_rule_matches_its_denying_twin_does_too(text: str, ask: JudgedAsk):
    home = Path("/home/me")
    if verdict(text.replace('"deny"', '"allow"').replace('"ask"', '"allow"'), ask, home) == "allow":
        denying = text.replace('"allow"', '"deny"').replace('"ask"', '"deny"')
        assert verdict(denying, ask, home) == "deny"


# The file

ALLOW = rule('tool = "Bash"', 'action = "allow"')
DENY = rule('tool = "Bash"', 'action = "deny"')


def put(path: Path, text: str, *, mode: int = 0o600) -> None:
    path.write_text(text)
    path.chmod(mode)


def now(file: PolicyFile) -> str:
    file.refresh()
    return file.policy.decide(bash("ls")).verdict


def test_no_file_asks_everything(tmp_path: Path):
    for path in (None, tmp_path / "none.toml"):
        file = PolicyFile(path)
        assert now(file) == "ask"
        assert file.error is None
        assert (file.report().rules, file.report().loaded_at) == (0, None)


def test_a_changed_file_is_in_force_at_once(tmp_path: Path):
    path = tmp_path / "policy.toml"
    file = PolicyFile(path)
    put(path, ALLOW)
    assert now(file) == "allow"
    # As long as before, and within the same tick of many a clock.
    put(path, ALLOW.replace('"allow"', '"deny" '))
    assert now(file) == "deny"
    assert file.report().text == path.read_text()
    assert file.report().rules == 1
    assert file.report().loaded_at


def test_a_bad_file_keeps_the_last_good_rules_and_says_where(tmp_path: Path):
    path = tmp_path / "policy.toml"
    put(path, ALLOW)
    file = PolicyFile(path)
    put(path, DENY + "[[rule]]\ntool = 1\n")
    for _ in range(2):
        assert now(file) == "allow"
        assert file.error == (
            f'{path}:4: rule \'rule 2\': `action` must be one of "allow", "deny", "ask" '
            "(its last good rules stay in force)"
        )
    assert file.report().error == file.error
    assert file.report().text == ALLOW
    put(path, DENY)
    assert now(file) == "deny"
    assert file.error is None


def test_that_the_file_cannot_be_used_is_logged_once_and_that_it_can_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "policy.toml"
    path.write_text(ALLOW_READ)
    file = PolicyFile(path)
    caplog.set_level("INFO")
    path.write_text("[[rule]]\naction = 'maybe'\n")
    for _ in range(3):
        file.refresh()
    path.write_text(ALLOW_READ)
    file.refresh()
    [broken, mended] = [each.getMessage() for each in caplog.records]
    assert broken == f"the policy cannot be used: {file.path}:2: " + broken.partition(":2: ")[2]
    assert broken.endswith("(its last good rules stay in force)")
    assert mended == f"the policy can be used again: {path}"


ALLOW_READ = "[[rule]]\ntool = 'Read'\naction = 'allow'\n"


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_file_is_read_for_a_check_as_it_is_for_use(tmp_path: Path, mode: int):
    path = tmp_path / "policy.toml"
    path.write_text(ALLOW_READ)
    path.chmod(mode)
    with pytest.raises(PolicyError, match="can be written by others"):
        read_policy(path)
    path.chmod(0o600)
    assert len(read_policy(path).rules) == 1


def test_the_same_good_text_again_clears_the_error(tmp_path: Path):
    path = tmp_path / "policy.toml"
    put(path, ALLOW)
    file = PolicyFile(path)
    put(path, "x")
    file.refresh()
    assert file.error
    put(path, ALLOW)
    assert not file.refresh()
    assert file.error is None


def test_a_file_that_is_bad_from_the_start_asks_everything(tmp_path: Path):
    path = tmp_path / "policy.toml"
    put(path, "x")
    file = PolicyFile(path)
    assert now(file) == "ask"
    assert file.error
    assert file.error.endswith("(everything is asked)")


def test_a_file_that_is_gone_keeps_its_rules_and_says_so(tmp_path: Path):
    path = tmp_path / "policy.toml"
    put(path, DENY)
    file = PolicyFile(path)
    path.unlink()
    assert now(file) == "deny"
    assert file.error == f"{path}: is gone (its last good rules stay in force)"
    put(path, DENY)
    assert now(file) == "deny"
    assert file.error is None


def test_an_empty_file_has_no_rules(tmp_path: Path):
    path = tmp_path / "policy.toml"
    put(path, DENY)
    file = PolicyFile(path)
    put(path, "")
    assert now(file) == "ask"
    assert file.error is None


@pytest.mark.parametrize("mode", [0o602, 0o620, 0o666])
def test_a_file_that_others_can_write_is_refused(tmp_path: Path, mode: int):
    path = tmp_path / "policy.toml"
    put(path, DENY)
    file = PolicyFile(path)
    put(path, ALLOW, mode=mode)
    assert now(file) == "deny"
    assert file.error
    assert f"can be written by others; run: chmod go-w '{path}'" in file.error
    path.chmod(0o644)
    assert now(file) == "allow"
    assert file.error is None


def test_a_change_of_mode_alone_is_noticed(tmp_path: Path):
    path = tmp_path / "policy.toml"
    put(path, ALLOW)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    file = PolicyFile(path)
    assert file.error is None
    path.chmod(0o666)
    file.refresh()
    assert file.error


def test_a_folder_that_others_can_write_is_refused(tmp_path: Path):
    folder = tmp_path / "open"
    folder.mkdir()
    put(folder / "policy.toml", ALLOW)
    folder.chmod(0o777)
    assert "its folder can be written by others" in (PolicyFile(folder / "policy.toml").error or "")
    folder.chmod(0o1777)
    assert PolicyFile(folder / "policy.toml").error is None


def test_what_is_no_text_file_is_refused(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "bytes").write_bytes(b"\n\n\xff")
    (tmp_path / "bytes").chmod(0o600)
    put(tmp_path / "large", "#" * 2_000_000)
    assert "is not a file" in (PolicyFile(tmp_path / "pipe").error or "")
    assert "is not a file" in (PolicyFile(tmp_path).error or "")
    assert f"{tmp_path / 'bytes'}:3: is not UTF-8" in (PolicyFile(tmp_path / "bytes").error or "")
    assert "is larger than" in (PolicyFile(tmp_path / "large").error or "")


def test_an_old_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "policy.toml"
    put(path, ALLOW)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    file = PolicyFile(path)
    monkeypatch.setattr(os, "open", lambda *_: pytest.fail("was opened"))
    assert not file.refresh()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([ALLOW, DENY, "", "bad", ALLOW + "x", None]), max_size=8))
def test_through_any_versions_the_last_good_one_is_in_force(
    tmp_path: Path, versions: list[str | None]
):
    path = tmp_path / "policy.toml"
    path.unlink(missing_ok=True)
    file, good, loaded = PolicyFile(path), "", False
    for text in versions:
        path.unlink(missing_ok=True) if text is None else put(path, text)
        valid = text in (ALLOW, DENY, "")
        good, loaded = (str(text), True) if valid else (good, loaded)
        file.refresh()
        assert file.policy.text == good
        assert (file.error is None) is (valid or (text is None and not loaded))


def test_home_stands_for_the_tilde(tmp_path: Path):
    put(tmp_path / "policy.toml", rule('directory = "~/a"', 'tool = "*"', 'action = "allow"'))
    file = PolicyFile(tmp_path / "policy.toml", home=tmp_path)
    assert file.policy.decide(bash("ls", cwd=f"{tmp_path}/a")).verdict == "allow"


def test_other_rules_are_read_as_those_of_the_file(tmp_path: Path):
    text = rule('directory = "~/a"', 'tool = "*"', 'action = "allow"')
    changed = PolicyFile(None, home=tmp_path).parse(text)
    assert changed.decide(bash("ls", cwd=f"{tmp_path}/a")).verdict == "allow"


@pytest.mark.parametrize("text", ["#" * (LARGEST + 1), "#" + "\u00e9" * (LARGEST // 2)])
def test_a_text_that_is_too_large_is_not_read(text: str):
    with pytest.raises(PolicyError, match=f"^policy: is larger than {LARGEST} bytes, the most"):
        Policy.parse(text)


def test_threads_that_refresh_at_once_read_a_change_once(tmp_path: Path):
    path = tmp_path / "policy.toml"
    put(path, ALLOW)
    file = PolicyFile(path)
    put(path, DENY)
    with ThreadPoolExecutor(8) as pool:
        changed = [pool.submit(file.refresh) for _ in range(32)]
    assert sum(each.result() for each in changed) == 1


# Work


def test_what_takes_too_much_work_is_asked_and_told(caplog: pytest.LogCaptureFixture):
    slow = rule('name = "slow"', 'input.a = "*' + "a" * 3000 + 'b*"', 'action = "deny"')
    policy = Policy.parse(slow + rule('tool = "*"', 'action = "allow"'))
    assert policy.decide(JudgedAsk("X", {"a": "a" * 9_000})).verdict == "allow"
    assert policy.decide(JudgedAsk("X", {"a": "a" * 90_000})) == Decision("ask")
    assert "policy:1: rule 'slow' takes too much work for this X" in caplog.text
    assert policy.decide(JudgedAsk("X")).verdict == "allow"


def test_a_path_of_very_many_names_is_asked():
    text = rule('path = "' + "**/a/" * 200 + 'b"', 'action = "deny"')
    policy = Policy.parse(text + rule('tool = "*"', 'action = "allow"'))
    assert policy.decide(JudgedAsk("Write", {"file_path": "/" + "a/" * 200_000})).verdict == "ask"


def test_many_stars_are_no_more_work_than_one():
    text = rule('command = "' + "*a" * 20 + '*b"', 'action = "deny"')
    with bounded(1_000_000):
        [stars] = Policy.parse(text).rules
        assert not stars.matches(bash("a" * 10_000))
        assert stars.matches(bash("a" * 10_000 + "b"))


# Questions and the dry run


def question(name: str, command: str, answer: Answer | None = None, **more: Any) -> Question:
    return Question(
        id=name,
        session_id="s",
        kind=more.pop("kind", "tool"),
        state="answered" if answer else "open",
        title=f"Run {command}",
        tool_name=more.pop("tool_name", "Bash"),
        input={"command": command},
        answer=answer,
        **more,
    )


def test_an_ask_is_made_of_a_question():
    asked = question("q", "ls", cwd="/a", label="b", mode="plan")
    assert JudgedAsk.of(asked) == JudgedAsk("Bash", {"command": "ls"}, "/a", "b", "plan", "tool")


def test_a_form_of_a_server_comes_from_a_tool_of_its_name():
    asked = Question(
        id="q",
        session_id="s",
        kind="elicitation",
        state="open",
        title="Open a page",
        server_name="github",
        url="https://evil.com/",
    )
    text = rule('kind = "elicitation"', 'tool = "mcp__github*"', 'domain = "evil.com"')
    assert verdict(text + 'action = "deny"', JudgedAsk.of(asked)) == "deny"


def test_a_dry_run_lists_what_would_differ():
    before = Policy.parse(rule('name = "git"', 'command = "git *"', 'action = "allow"'))
    after = Policy.parse(
        rule('name = "no push"', 'command = "git push*"', 'action = "deny"')
        + rule('name = "ls"', 'command = "ls*"', 'action = "allow"')
    )
    told = dry_run(
        [
            question("1", "git push", Allow(), answered_by="policy", rule="git"),
            question("2", "git log", Allow(), answered_by="policy", rule="git"),
            question("3", "ls", Allow(), answered_by="person"),
            question("4", "ls", Deny(reason="no"), answered_by="policy", rule="old"),
            question("5", "ls -l", Allow(), answered_by="policy"),
            question("6", "make"),
            question("7", "git push", Decline(), answered_by="policy", kind="elicitation"),
        ],
        before,
        after,
    )
    assert told.examined == 7
    lines = [(x.question_id, x.before, x.after, x.before_rule, x.after_rule) for x in told.differ]
    assert lines == [
        ("1", "allow", "deny", "git", "no push"),
        ("2", "allow", "ask", "git", None),
        ("3", "ask", "allow", None, "ls"),
        ("4", "deny", "allow", "old", "ls"),
        ("7", "deny", "ask", None, None),
    ]
    assert told.differ[0].title == "Run git push"
    assert told.differ[0].tool_name == "Bash"


def test_an_unchanged_file_differs_in_nothing():
    denying = rule('command = "rm *"', 'action = "deny"')
    policy = Policy.parse(denying + rule('tool = "*"', 'action = "allow"'))
    asked = [
        question("1", "rm x", Deny(), answered_by="policy", rule="rule 1"),
        question("2", "ls", Allow(), answered_by="policy", rule="rule 2"),
    ]
    assert dry_run(asked, policy, policy).differ == []
