"""Rules that answer before a person is asked."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pilothouse.api.answers import Allow
from pilothouse.engine.policy import Rule, policy, rule_file
from pilothouse.errors import NotNow, PolicyError
from pilothouse_sim.scenario import reply, tool
from tests.support.engine.harness import OpenEngine

TOUCH = reply(tool("Bash", command="touch made", description="Make it"))
ALLOW = '[[rule]]\nname = "touching"\ncommand = "touch *"\naction = "allow"\n'
DENY = (
    '[[rule]]\nname = "no touching"\ncommand = "touch *"\naction = "deny"\nreason = "Hands off."\n'
)
ASK = '[[rule]]\nname = "who touches"\ncommand = "touch *"\naction = "ask"\n'


class Rules:
    """The file of the rules."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def write(self, text: str) -> None:
        self.path.write_text(text)

    def open_to_others(self, open: bool) -> None:
        self.path.parent.chmod(0o775 if open else 0o700)


@pytest.fixture
def rules(tmp_path: Path) -> Rules:
    return Rules(tmp_path / "policy.toml")


async def test_what_a_rule_allows_runs_and_is_in_the_journal_with_the_rule(
    house: OpenEngine, rules: Rules
) -> None:
    rules.write(ALLOW)
    it = await house(TOUCH, "Made.", policy_file=str(rules))
    session_id = await it.done()
    assert (it.cwd / "made").exists()
    [question] = await it.engine.questions(session_id=session_id, state="any")
    assert (question.state, question.answered_by, question.rule) == (
        "answered",
        "policy",
        "touching",
    )
    kinds = [each.kind for each in await it.events(session_id)]
    opened = kinds.index("question.opened")
    assert kinds[opened + 1] == "question.closed"
    [closed] = await it.records(session_id, "question.closed")
    assert (closed["by"], closed["rule"]) == ("policy", "touching")


async def test_what_a_rule_denies_does_not_run_and_the_model_reads_why(
    house: OpenEngine, rules: Rules
) -> None:
    rules.write(DENY)
    it = await house(TOUCH, "Then not.", policy_file=str(rules))
    session_id = await it.done()
    assert not (it.cwd / "made").exists()
    assert "Hands off." in it.told()[0]
    [question] = await it.engine.questions(session_id=session_id, state="any")
    assert (question.answered_by, question.rule) == ("policy", "no touching")


@pytest.mark.simulated
async def test_a_rule_that_asks_is_named_in_the_question(house: OpenEngine, rules: Rules) -> None:
    rules.write(ASK + ALLOW)
    it = await house(TOUCH, "Made.", policy_file=str(rules))
    session_id = await it.start()
    question = await it.answer(session_id, Allow())
    assert question.rule == "who touches"
    await it.until(session_id, "done")
    question = await it.engine.question(question.id)
    assert (question.answered_by, question.rule) == ("person", "who touches")


@pytest.mark.simulated
async def test_a_rule_may_speak_of_labels_and_modes(house: OpenEngine, rules: Rules) -> None:
    rules.write(ALLOW + 'label = "ci-*"\nmode = "default"\n')
    it = await house(TOUCH, "Made.", policy_file=str(rules))
    await it.done(label="ci-7")
    assert (it.cwd / "made").exists()


@pytest.mark.simulated
async def test_changed_rules_hold_at_once_and_bad_ones_leave_the_last_good(
    house: OpenEngine, rules: Rules
) -> None:
    rules.write(DENY)
    it = await house(TOUCH, "Then not.", TOUCH, "Made.", TOUCH, "Again.", policy_file=str(rules))
    session_id = await it.done()
    assert not (it.cwd / "made").exists()
    rules.write(ALLOW)
    await it.say(session_id, "and now?")
    await it.when(session_id, lambda status: status.turns == 2)
    assert (it.cwd / "made").exists()
    rules.write(ALLOW + 'actoin = "deny"\n')
    report = await it.engine.policy()
    assert report.error is not None
    assert "actoin" in report.error
    assert (report.rules, report.text) == (1, ALLOW)
    await it.say(session_id, "once more")
    await it.when(session_id, lambda status: status.turns == 3)
    asked = await it.engine.questions(session_id=session_id, state="any")
    assert [each.rule for each in asked] == ["no touching", "touching", "touching"]


@pytest.mark.simulated
async def test_rules_are_saved_and_in_force_at_once(house: OpenEngine, rules: Rules) -> None:
    rules.write("")
    it = await house(TOUCH, "Made.", policy_file=str(rules))
    report = await it.engine.save_policy(ALLOW, replaces="")
    assert (report.rules, report.text, report.error) == (1, ALLOW, None)
    await it.done()
    assert (it.cwd / "made").exists()
    with pytest.raises(NotNow, match="changed meanwhile"):
        await it.engine.save_policy(DENY, replaces="")
    with pytest.raises(PolicyError):
        await it.engine.save_policy("[[rule]]\n", replaces=ALLOW)
    assert rules.path.read_text() == ALLOW
    assert rules.path.stat().st_mode & 0o777 == 0o600
    assert (await it.engine.save_policy("")).rules == 0


@pytest.mark.simulated
async def test_rules_that_would_not_be_in_force_are_not_saved(
    house: OpenEngine, rules: Rules
) -> None:
    rules.write(ALLOW)
    it = await house(policy_file=str(rules))
    rules.open_to_others(True)
    with pytest.raises(PolicyError, match="chmod go-w"):
        await it.engine.save_policy(DENY)
    rules.open_to_others(False)
    assert rules.path.read_text() == ALLOW
    assert (await it.engine.policy()).text == ALLOW


@pytest.mark.simulated
async def test_rules_that_are_kept_elsewhere_are_saved_there(
    house: OpenEngine, rules: Rules, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.toml"
    kept.write_text(DENY)
    kept.chmod(0o600)
    rules.path.symlink_to(kept)
    it = await house(policy_file=str(rules))
    await it.engine.save_policy(ALLOW, replaces=DENY)
    assert rules.path.is_symlink()
    assert kept.read_text() == ALLOW


@pytest.mark.simulated
async def test_a_dry_run_lists_what_would_have_been_decided_otherwise(house: OpenEngine) -> None:
    it = await house(TOUCH, "Made.")
    session_id = await it.start()
    question = await it.answer(session_id, Allow())
    await it.until(session_id, "done")
    run = await it.engine.policy_dry_run(DENY)
    assert run.examined == 1
    [line] = run.differ
    assert (line.question_id, line.before, line.after) == (question.id, "ask", "deny")
    assert line.after_rule == "no touching"
    assert (await it.engine.policy_dry_run(ASK)).differ == []
    with pytest.raises(PolicyError):
        await it.engine.policy_dry_run("[[rule]]\n")
    with pytest.raises(PolicyError, match="the most a policy may have"):
        await it.engine.policy_dry_run("#" * 1_048_577)


@pytest.mark.simulated
async def test_a_dry_run_knows_the_same_home_and_reads_beside_the_loop(
    house: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = await house(TOUCH, "Made.")
    session_id = await it.start()
    await it.answer(session_id, Allow())
    await it.until(session_id, "done")
    threads: list[int] = []
    parse = rule_file.parse_rules

    def noted(text: str, source: str, home: Path | None) -> tuple[Rule, ...]:
        threads.append(threading.get_ident())
        return parse(text, source, it.cwd if home else None)

    monkeypatch.setattr(policy, "parse_rules", noted)
    run = await it.engine.policy_dry_run(ALLOW + 'directory = "~"\n')
    assert [line.after for line in run.differ] == ["allow"]
    assert threads[0] != threading.get_ident()
