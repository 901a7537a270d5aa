"""One gate for every way to bypassPermissions; the operator alone opens it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pilothouse.api.answers import Allow
from pilothouse.api.requests import Fork, Say, SessionOptions, Start
from pilothouse.errors import BypassNotAllowed, DirectoryRefused, InvalidOption
from pilothouse_sim.scenario import reply, tool
from tests.support.engine.harness import OpenEngine

BYPASS: Any = "bypassPermissions"
DEFAULT = {"permissions": {"defaultMode": BYPASS}}
TOUCH = reply(tool("Bash", command="touch made", description="Make it"))

WAYS: list[dict[str, Any]] = [
    {"mode": BYPASS},
    {"flags": {"dangerously-skip-permissions": None}},
    {"flags": {"allow-dangerously-skip-permissions": None}},
    {"flags": {"permission-mode": BYPASS}},
    {"flags": {f"permission-mode={BYPASS}": None}},
    {"flags": {"settings": json.dumps(DEFAULT)}},
    {"settings": DEFAULT},
    {"agents": {"mate": {"description": "d", "prompt": "p", "permissionMode": BYPASS}}},
]


TRICKS: list[dict[str, Any]] = [
    {"flags": {"settings": "{}"}},
    {"flags": {"settings={}": None}},
    {"flags": {"--settings": "{}"}},
    {"flags": {"settings": "/dev/zero"}},
    {"flags": {"managed-settings": "{}"}},
    {"flags": {"setting-sources": "user"}},
    {"flags": {"permission-prompt-tool": "mcp__mine__yes"}},
    {"flags": {"inherit-permission-mode": "auto"}},
    {"flags": {"project-config-root": "elsewhere"}},
    {"flags": {"plugin-dir": "elsewhere"}},
    {"flags": {"name": None}},
    {"flags": {"": None}},
    {"env": {"CLAUDE_CONFIG_DIR": "elsewhere"}},
    {"env": {"HOME": "elsewhere"}},
    {"env": {"PATH": "elsewhere"}},
    {"env": {"BASH_ENV": "elsewhere"}},
    {"settings": {"env": {"GIT_SSH_COMMAND": "elsewhere"}}},
    {"env": {"XDG_CONFIG_HOME": "elsewhere"}},
    {"env": {"CLAUDE_CODE_REMOTE": "1"}},
    {"env": {"CLAUDE_CODE_ENTRYPOINT": "remote"}},
    {"env": {"CLAUDE_CODE_MANAGED_SETTINGS_PATH": "elsewhere"}},
    {"settings": {"env": {"CLAUDE_CONFIG_DIR": "elsewhere"}}},
]
"""Ways around what the engine itself tells a CLI."""


async def test_no_option_starts_a_session_there(house: OpenEngine) -> None:
    it = await house("One.", strict=False)
    for way in WAYS:
        with pytest.raises(BypassNotAllowed, match="PILOTHOUSE_ALLOW_BYPASS"):
            await it.start(**way)
    assert await it.events() == []
    assert (await it.engine.health()).live == 0


async def test_no_option_takes_the_place_of_what_the_engine_says(house: OpenEngine) -> None:
    it = await house("One.", strict=False)
    (it.cli.home / ".claude" / "settings.json").write_text(json.dumps(DEFAULT))
    for trick in TRICKS:
        with pytest.raises(InvalidOption, match=r"use the option|leave it out|give one"):
            await it.start(**trick)
    assert await it.events() == []
    assert (await it.engine.health()).live == 0


async def test_the_refusal_names_what_the_caller_sent(house: OpenEngine) -> None:
    it = await house("One.", strict=False)
    with pytest.raises(BypassNotAllowed, match=r"^flags\['permission-mode'\] would"):
        await it.start(flags={"permission-mode": BYPASS})
    with pytest.raises(BypassNotAllowed, match=r"^mode would"):
        await it.start(mode=BYPASS)


async def test_settings_of_any_depth_are_read_or_refused(house: OpenEngine) -> None:
    it = await house("One.", strict=False)
    deep: Any = DEFAULT
    for _ in range(55):
        deep = {"a": deep}
    with pytest.raises(BypassNotAllowed):
        await it.start(settings=deep)
    for _ in range(345):
        deep = {"a": deep}
    with pytest.raises(InvalidOption, match="settings is nested too deep"):
        await it.start(settings=deep)


@pytest.mark.simulated
async def test_directories_beside_the_working_one_are_within_the_allowed_roots(
    house: OpenEngine, tmp_path: Path
) -> None:
    it = await house("One.", strict=False)
    await it.close()
    await it.open(allowed_roots=str(it.cwd))
    (it.cwd / "within").mkdir()
    for outside in (str(tmp_path), "..", "within/../..", "/no/such/directory"):
        with pytest.raises(DirectoryRefused):
            await it.start(add_dirs=[outside])
        with pytest.raises(DirectoryRefused):
            await it.start(settings={"permissions": {"additionalDirectories": [outside]}})
    await it.done(add_dirs=["within"])


async def test_no_verb_leads_a_session_there(house: OpenEngine) -> None:
    it = await house("One.")
    session_id = await it.done()
    with pytest.raises(BypassNotAllowed):
        await it.engine.set_mode(session_id, BYPASS)
    with pytest.raises(BypassNotAllowed):
        await it.engine.say(session_id, Say(content="more", mode=BYPASS))
    fork = Fork(prompt="aside", options=SessionOptions(mode=BYPASS))
    with pytest.raises(BypassNotAllowed):
        await it.engine.fork(session_id, fork)
    with pytest.raises(BypassNotAllowed):
        await it.engine.control(session_id, "get_status", {"mode": BYPASS})
    assert await it.records(session_id, "options.changed") == []
    assert len(await it.records(session_id, "prompt.said")) == 1
    assert (await it.engine.status(session_id)).mode == "default"


async def test_no_answer_leads_a_session_there(house: OpenEngine) -> None:
    it = await house(TOUCH, "Made.")
    session_id = await it.start()
    question = await it.asked(session_id)
    edited = question.input | {"mode": BYPASS}
    with pytest.raises(BypassNotAllowed):
        await it.engine.answer(question.id, Allow(input=edited))
    await it.answer(session_id, Allow())
    assert (await it.until(session_id, "done")).mode == "default"


@pytest.mark.parametrize("where", ["user", "project", "local"])
async def test_the_settings_files_of_the_cli_lead_no_session_there(
    house: OpenEngine, where: str
) -> None:
    it = await house(TOUCH, "Made.")
    folder = (it.cli.home if where == "user" else it.cwd) / ".claude"
    folder.mkdir(exist_ok=True)
    name = "settings.local.json" if where == "local" else "settings.json"
    (folder / name).write_text(json.dumps(DEFAULT | {"skipDangerousModePermissionPrompt": True}))
    # Without the sandbox no CLI of root would go there anyway.
    session_id = await it.start(env={"IS_SANDBOX": "1"})
    question = await it.answer(session_id, Allow())
    assert question.mode == "default"
    assert (await it.until(session_id, "done")).mode == "default"


async def test_where_the_operator_allows_it_nothing_is_asked(house: OpenEngine) -> None:
    it = await house(TOUCH, "Made.", TOUCH, "Made again.", allow_bypass=True)
    # The CLI lets root do so in what is declared to be a sandbox, as this is.
    request = Start(
        prompt="go",
        cwd=str(it.cwd),
        options=SessionOptions(mode=BYPASS, env={"IS_SANDBOX": "1"}),
    )
    session_id = (await it.engine.start(request)).session_id
    assert (await it.until(session_id, "done")).mode == BYPASS
    assert (it.cwd / "made").exists()
    assert await it.engine.questions(state="any") == []


async def test_a_session_that_was_there_comes_back_without_it_once_it_is_forbidden(
    house: OpenEngine,
) -> None:
    it = await house("One.", TOUCH, "Made.", allow_bypass=True)
    session_id = await it.done(env={"IS_SANDBOX": "1"})
    await it.engine.set_mode(session_id, BYPASS)
    await it.close()
    await it.open()
    with pytest.raises(BypassNotAllowed):
        await it.say(session_id, "more", mode=BYPASS)
    await it.say(session_id, "more")
    await it.answer(session_id, Allow())
    assert (await it.when(session_id, lambda status: status.turns == 2)).mode == "default"
