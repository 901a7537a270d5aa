"""The judge decides as the real CLI was seen to, call by call."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from pilothouse_sim.simulator.permissions import PermissionState, Verdict, judge, load_settings
from tests.sim.simulator.data.permission_suites import SUITES, Suite

DATA = Path(__file__).with_name("data") / "permissions.jsonl"
DIFFERENT = {
    "FOO=$(ls) foo": "a nested command in an assignment is taken for an obstacle",
    "X=1 && foo $X": "variables that the command sets itself are not followed",
    "export PATH=$PATH:x": "the reason for a rare expansion has other words",
}
"""Commands whose shell analysis goes deeper than the judge's."""

Case = dict[str, Any]


def _cases() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = defaultdict(list)
    for line in DATA.read_text().splitlines():
        case = json.loads(line)
        found[case["suite"]].append(case)
    return found


CASES = _cases()


def _fill(value: Any, root: Path) -> Any:
    text = json.dumps(value)
    for name, path in {"cwd": "dev/project", "home": "dev", "root": ""}.items():
        text = text.replace("{" + name + "}", str(root / path))
    return json.loads(text)


def _state(suite: Suite, root: Path) -> PermissionState:
    home = root / "dev"
    for name, content in suite.files.items():
        if name.endswith(("settings.json", "settings.local.json")):
            file = Path(_fill(name, root))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(_fill(content, root)))
    state = PermissionState(
        cwd=str(home / "project"),
        home=str(home),
        config_dir=str(home / ".claude"),
        can_ask=suite.can_ask,
        bypass_allowed=True,
        read_only_tools={"mcp__srv__look"},
    )
    flags = [flag for flag in _fill(list(suite.flags), root) if not flag.startswith("--allow-")]
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    settings = given.get("--settings")
    load_settings(state, flag_settings=json.loads(settings) if settings else None)
    state.set_mode(given.get("--permission-mode", state.mode))
    for flag, behavior in {"--allowedTools": "allow", "--disallowedTools": "deny"}.items():
        state.add(behavior, "cliArg", given[flag].split(",") if flag in given else [])
    if "--add-dir" in given:
        state.directories["cliArg"] = [given["--add-dir"]]
    return state


def _seen(case: Case) -> Any:
    """What the CLI wrote; None where the tool refused the input before anybody was asked."""
    if "ask" in case:
        asked = {name: value for name, value in case["ask"].items() if name != "mcp_server"}
        return "ask", asked, case.get("asked_input", case["input"])
    if "permission_denied" in case:
        told = f"Error: {case['permission_denied']['message']}"
        return "deny", case["permission_denied"], case["meta"], case.get("tool_use_result", told)
    if "permission_decision" in case["meta"]:
        return "quiet", case["meta"], case.get("result")
    result = case.get("result", "")
    return ("missing", result) if "is disabled for this session" in result else None


def _shown(verdict: Verdict) -> Any:
    if verdict.behavior == "ask":
        return "ask", {"display_name": verdict.display_name, **verdict.ask_fields()}, verdict.input
    if verdict.behavior == "deny" and verdict.announced:
        return "deny", verdict.denied_fields(), verdict.meta(), verdict.tool_use_result
    if verdict.decided:
        return "quiet", verdict.meta(), verdict.message or None
    return "missing", verdict.message


def _short(told: Any) -> str:
    """Without the advice that the CLI gives in dontAsk mode: the simulator has its own words."""
    words = json.dumps(told, sort_keys=True)
    return re.sub(r"(running in don't ask mode\.)[^\"]*", r"\1", words)


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_every_measured_call_is_decided_as_the_real_cli_decided_it(
    suite: Suite, tmp_path: Path
) -> None:
    state = _state(suite, tmp_path)
    wrong: list[Any] = []
    for case in CASES[suite.name]:
        case = json.loads(json.dumps(case).replace("/home", str(tmp_path)))
        seen = _seen(case)
        if seen is None or case["input"].get("command") in DIFFERENT:
            continue
        shown = _shown(judge(case["tool"], case["input"], state))
        if _short(shown) != _short(seen):
            wrong.append((case["tool"], case["input"], seen, shown))
        if case["tool"] == "EnterPlanMode":
            state.set_mode("plan")
    assert not wrong


def test_every_suite_was_measured() -> None:
    assert set(CASES) == {suite.name for suite in SUITES}
