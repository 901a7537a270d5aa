"""Every option reaches the CLI where it should, and nothing else does."""

from __future__ import annotations

import json
import os
import stat
import uuid
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pilothouse import Hooks, InvalidOption, Options, __version__
from pilothouse.client.launch import ENCLOSING_SESSION, Launch, prepare

CLI = "/bin/true"
SESSION = "11111111-1111-4111-8111-111111111111"
EARLIER = "22222222-2222-4222-8222-222222222222"


async def answer(_: Any) -> Any: ...


FLAGS: dict[str, tuple[Any, list[str]]] = {
    "add_dirs": (["/a", Path("/b")], ["--add-dir=/a", "--add-dir=/b"]),
    "agent": ("lookout", ["--agent=lookout"]),
    "allow_bypass": (True, ["--allow-dangerously-skip-permissions"]),
    "allowed_tools": (["Bash(ls:*)", "Read"], ["--allowedTools=Bash(ls:*),Read"]),
    "betas": (["one", "two"], ["--betas=one,two"]),
    "channels": (["one", "two"], ["--channels=one,two"]),
    "debug": (True, ["--debug"]),
    "debug_file": (Path("/log"), ["--debug-file=/log"]),
    "disallowed_tools": (["WebFetch"], ["--disallowedTools=WebFetch"]),
    "effort": ("low", ["--effort=low"]),
    "extra_args": (
        {"switch": None, "value": "x", "empty": ""},
        ["--switch", "--value=x", "--empty", ""],
    ),
    "fallback_model": ("haiku", ["--fallback-model=haiku"]),
    "include_hook_events": (True, ["--include-hook-events"]),
    "include_partial_messages": (True, ["--include-partial-messages"]),
    "managed_settings": ({"a": 1}, ['--managed-settings={"a":1}']),
    "max_budget_usd": (1.5, ["--max-budget-usd=1.5"]),
    "max_thinking_tokens": (0, ["--max-thinking-tokens=0"]),
    "max_turns": (3, ["--max-turns=3"]),
    "mcp_config": ([Path("/m.json")], ["--mcp-config=/m.json"]),
    "model": ("opus", ["--model=opus"]),
    "on_permission": (answer, ["--permission-prompt-tool=stdio"]),
    "on_plan": (answer, ["--permission-prompt-tool=stdio"]),
    "on_question": (answer, ["--permission-prompt-tool=stdio"]),
    "permission_mode": ("plan", ["--permission-mode=plan"]),
    "permission_prompt_tool": ("mcp__x__y", ["--permission-prompt-tool=mcp__x__y"]),
    "permission_prompts": ("none", ["--permission-prompts=none"]),
    "persist_session": (False, ["--no-session-persistence"]),
    "plugin_dirs": (["/p"], ["--plugin-dir=/p"]),
    "plugin_dirs_without_mcp": (["/q"], ["--plugin-dir-no-mcp=/q"]),
    "project_config_root": ("/r", ["--project-config-root=/r"]),
    "session_mirror": (True, ["--session-mirror"]),
    "setting_sources": (["user", "local"], ["--setting-sources=user,local"]),
    "strict_mcp_config": (True, ["--strict-mcp-config"]),
    "system_prompt_file": (Path("/s.md"), ["--system-prompt-file=/s.md"]),
    "task_budget": (1000, ["--task-budget=1000"]),
    "thinking": ("disabled", ["--thinking=disabled"]),
    "thinking_display": ("omitted", ["--thinking-display=omitted"]),
    "tools": (["Read", "Bash"], ["--tools=Read,Bash"]),
}
MORE_FLAGS: list[tuple[str, Any, list[str]]] = [
    ("debug", "api,mcp", ["--debug=api,mcp"]),
    ("settings", "/settings.json", ["--settings=/settings.json"]),
    ("settings", Path("/settings.json"), ["--settings=/settings.json"]),
    ("setting_sources", [], ["--setting-sources", ""]),
    ("tools", [], ["--tools", ""]),
    ("tools", "default", ["--tools=default"]),
    ("system_prompt", "", ["--system-prompt", ""]),
]

IN_INITIALIZE: dict[str, tuple[Any, str]] = {
    "agent_progress_summaries": (True, "agentProgressSummaries"),
    "agents": ({"a": {"description": "b", "prompt": "c"}}, "agents"),
    "append_subagent_system_prompt": ("Be brief.", "appendSubagentSystemPrompt"),
    "dialog_kinds": (["a"], "supportedDialogKinds"),
    "exclude_dynamic_sections": (False, "excludeDynamicSections"),
    "forward_subagent_text": (True, "forwardSubagentText"),
    "json_schema": ({"type": "object"}, "jsonSchema"),
    "plan_mode_instructions": ("Think.", "planModeInstructions"),
    "prompt_suggestions": (False, "promptSuggestions"),
    "skills": (["splice"], "skills"),
    "system_prompt_snapshot": (True, "systemPromptSnapshot"),
    "title": ("A title", "title"),
    "tool_aliases": ({"a": "b"}, "toolAliases"),
}

IN_ENVIRONMENT: dict[str, tuple[Any, dict[str, str]]] = {
    "client_app": ("app/1", {"CLAUDE_AGENT_SDK_CLIENT_APP": "app/1"}),
    "cwd": (Path("/somewhere"), {"PWD": "/somewhere"}),
    "enable_file_checkpointing": (True, {"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"}),
    "env": ({"A": "b"}, {"A": "b"}),
}

TESTED_BELOW = {
    "cli_path",
    "continue_latest",
    "fork_session",
    "hooks",
    "inherit_env",
    "resume",
    "resume_drops_turn",
    "resume_session_at",
    "session_id",
}

NOT_FOR_THE_CLI = {
    "close_grace",
    "deadlines",
    "max_line",
    "on_dialog",
    "on_elicitation",
    "on_stderr",
    "stall_after",
    "verbatim_prompts",
}
"""What the client itself goes by. The echo of prompts is always on: turns are told by it."""


@pytest.fixture(autouse=True)
def launches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No start of these tests depends on the machine, and none leaves files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("CLAUDECODE", "1")
    yield
    assert not list(tmp_path.glob("pilothouse-*"))


def launch(**given: Any) -> Launch:
    start = prepare(Options(cli_path=CLI, **{"session_id": SESSION, "inherit_env": False} | given))
    start.clean_up()
    return start


def added(start: Launch) -> list[str]:
    """The arguments over those of a start without options."""
    return [part for part in start.argv if part not in launch().argv]


def said(start: Launch) -> dict[str, Any]:
    said = json.loads(msgspec.json.encode(start.initialize))
    assert said.pop("subtype") == "initialize"
    return said


def test_every_option_is_accounted_for():
    homes = [FLAGS, BY_FILE, IN_INITIALIZE, IN_ENVIRONMENT, TESTED_BELOW, NOT_FOR_THE_CLI]
    named = [name for home in homes for name in home]
    assert sorted(named) == sorted(field.name for field in fields(Options))


def test_a_start_without_options_says_only_what_the_protocol_needs():
    start = launch()
    assert start.argv == [
        CLI,
        "--print",
        "--output-format=stream-json",
        "--input-format=stream-json",
        "--verbose",
        "--replay-user-messages",
        f"--session-id={SESSION}",
    ]
    assert start.env == {
        "CLAUDE_AGENT_SDK_CLIENT_APP": f"pilothouse/{__version__}",
        "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
        "PILOTHOUSE_VERSION": __version__,
    }
    assert start.cwd is None
    assert said(start) == {}


@pytest.mark.parametrize(
    ("name", "value", "flags"),
    [(name, *row) for name, row in FLAGS.items()] + MORE_FLAGS,
)
def test_an_option_becomes_a_flag(name: str, value: Any, flags: list[str]):
    start = launch(**{name: value})
    assert added(start) == flags
    assert (start.env, said(start)) == (launch().env, {})


@pytest.mark.parametrize("name", IN_INITIALIZE)
def test_an_option_goes_into_initialize(name: str):
    value, member = IN_INITIALIZE[name]
    start = launch(**{name: value})
    assert said(start) == {member: value}
    assert (start.argv, start.env) == (launch().argv, launch().env)


@pytest.mark.parametrize("name", IN_ENVIRONMENT)
def test_an_option_goes_into_the_environment(name: str):
    value, variables = IN_ENVIRONMENT[name]
    start = launch(**{name: value})
    assert start.env == launch().env | variables
    assert (start.argv, said(start)) == (launch().argv, {})
    assert start.cwd == (str(value) if name == "cwd" else None)


@pytest.mark.parametrize("name", sorted(NOT_FOR_THE_CLI))
def test_an_option_of_the_clients_own_is_not_passed_on(name: str):
    value = {"deadlines": {"x": 1.0}, "verbatim_prompts": True}
    start = launch(**{name: value.get(name, answer if name.startswith("on_") else 7)})
    base = launch()
    assert (start.argv, start.env, said(start)) == (base.argv, base.env, {})


def test_hooks_are_registered_in_initialize():
    hooks = Hooks()

    @hooks.on("PreToolUse", matcher="Bash")
    async def watch(_: Any) -> None:
        return None

    registered = said(launch(hooks=hooks))["hooks"]["PreToolUse"]
    assert [matcher["matcher"] for matcher in registered] == ["Bash"]
    assert len(registered[0]["hookCallbackIds"]) == 1


def test_empty_hooks_are_not_registered():
    assert said(launch(hooks=Hooks())) == {}


def test_in_process_servers_are_named_in_initialize_alone():
    start = prepare(Options(cli_path=CLI, mcp_servers={"mine": object()}), ["mine"])
    assert said(start) == {"sdkMcpServers": ["mine"]}
    assert not [part for part in start.argv if "mcp" in part]


# Sessions


def test_a_session_gets_an_id_of_its_own():
    first, second = (prepare(Options(cli_path=CLI)) for _ in range(2))
    assert first.session_id != second.session_id
    assert str(uuid.UUID(first.session_id)) == first.session_id
    assert f"--session-id={first.session_id}" in first.argv


def test_a_resumed_session_keeps_its_id():
    start = launch(session_id=None, resume=EARLIER)
    assert start.session_id == EARLIER
    assert added(start) == [f"--resume={EARLIER}"]
    assert f"--session-id={SESSION}" not in start.argv


def test_a_fork_has_a_new_id():
    start = launch(resume=EARLIER, fork_session=True)
    assert start.session_id == SESSION
    assert added(start) == [f"--resume={EARLIER}", "--fork-session"]


def test_a_session_can_be_resumed_at_an_earlier_message():
    start = launch(
        session_id=None, resume=EARLIER, resume_session_at="one", resume_drops_turn="two"
    )
    assert added(start)[1:] == ["--resume-session-at=one", "--resume-drops-turn=two"]


def test_the_id_of_the_latest_session_is_not_known_before():
    start = launch(session_id=None, continue_latest=True)
    assert start.session_id is None
    assert added(start) == ["--continue"]


@pytest.mark.parametrize(
    "given",
    [
        {"resume": EARLIER, "continue_latest": True},
        {"fork_session": True},
        {"session_id": SESSION, "resume": EARLIER},
        {"session_id": SESSION, "continue_latest": True},
        {"session_id": "not-a-uuid"},
        {"resume_session_at": "x"},
        {"resume_drops_turn": "x"},
        {"system_prompt": "x", "system_prompt_file": "y"},
        {"permission_prompt_tool": "x", "on_permission": answer},
    ],
    ids=lambda given: "+".join(given),
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, Any]):
    with pytest.raises(InvalidOption):
        prepare(Options(cli_path=CLI, **given))


# What others on the machine must not read in a command line

SERVERS = {"a": {"type": "http", "url": "http://x", "headers": {"Authorization": "hush"}}}
BY_FILE: dict[str, tuple[Any, str, Any]] = {
    "append_system_prompt": ("Be kind, hush.", "append-system-prompt-file", "Be kind, hush."),
    "mcp_servers": (SERVERS, "mcp-config", {"mcpServers": SERVERS}),
    "settings": ({"env": {"KEY": "hush"}}, "settings", {"env": {"KEY": "hush"}}),
    "system_prompt": ("You steer, hush.", "system-prompt-file", "You steer, hush."),
}
MORE_BY_FILE: list[tuple[str, Any, str, Any]] = [
    ("settings", '{"env": {"KEY": "hush"}}', "settings", {"env": {"KEY": "hush"}}),
    (
        "settings",
        '\ufeff\n {"env": {"KEY": "hush"}}',
        "settings",
        '\ufeff\n {"env": {"KEY": "hush"}}',
    ),
    ("mcp_config", ['{"mcpServers": {}, "hush": 1}'], "mcp-config", {"mcpServers": {}, "hush": 1}),
    ("system_prompt", "é" * 200_000 + "hush", "system-prompt-file", "é" * 200_000 + "hush"),
]


@pytest.mark.parametrize(
    ("name", "value", "flag", "content"),
    [(name, *row) for name, row in BY_FILE.items()] + MORE_BY_FILE,
)
def test_what_a_caller_writes_goes_by_a_private_file(
    name: str, value: Any, flag: str, content: Any
):
    umask = os.umask(0)
    try:
        start = prepare(Options(cli_path=CLI, session_id=SESSION, **{name: value}))
    finally:
        os.umask(umask)
    try:
        assert "hush" not in " ".join(start.argv)
        [found] = added(start)
        path = Path(found.removeprefix(f"--{flag}="))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        written = path.read_text("utf-8")
        assert start.read_files() == {str(path): written}
        assert (written if isinstance(content, str) else json.loads(written)) == content
    finally:
        start.clean_up()
    assert not path.parent.exists()


def test_several_configurations_have_a_file_each():
    start = prepare(
        Options(cli_path=CLI, mcp_servers=SERVERS, mcp_config=['{"a": 1}', "/m.json", '{"b": 2}'])
    )
    try:
        named = [part for part in start.argv if part.startswith("--mcp-config=")]
        files = [Path(part.partition("=")[2]) for part in named]
        assert files[2] == Path("/m.json")
        assert [json.loads(files[number].read_text()) for number in (0, 1, 3)] == [
            {"mcpServers": SERVERS},
            {"a": 1},
            {"b": 2},
        ]
    finally:
        start.clean_up()


# The environment


def test_the_options_environment_goes_over_the_inherited_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLAVOUR", "sweet")
    monkeypatch.setenv("KEPT", "yes")
    env = launch(inherit_env=True, env={"FLAVOUR": "salty"}).env
    assert (env["FLAVOUR"], env["KEPT"]) == ("salty", "yes")


def test_nothing_is_inherited_where_that_is_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLAVOUR", "sweet")
    assert "FLAVOUR" not in launch(inherit_env=False).env


@pytest.mark.parametrize("name", sorted(ENCLOSING_SESSION))
def test_what_an_enclosing_session_told_its_tools_is_not_passed_on(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(name, "of another session")
    assert name not in launch(inherit_env=True).env
    assert launch(inherit_env=True, env={name: "mine"}).env[name] == "mine"


def test_a_users_settings_in_the_environment_stay(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CLAUDE_CODE_USE_BEDROCK", "1")
    assert launch(inherit_env=True).env["CLAUDE_CODE_USE_BEDROCK"] == "1"


def test_the_cli_is_found_by_the_environment_it_gets(tmp_path: Path):
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    start = prepare(Options(env={"PATH": str(tmp_path)}, inherit_env=False))
    assert start.argv[0] == str(program)


def test_half_of_a_surrogate_pair_is_refused_by_the_name_of_its_flag():
    with pytest.raises(InvalidOption, match="--system-prompt holds half"):
        launch(system_prompt="\ud83d")


def test_an_argument_no_command_line_can_hold_is_refused():
    with pytest.raises(InvalidOption, match="--allowedTools is too long"):
        launch(allowed_tools=["x" * 1000] * 200)


def test_a_start_that_fails_leaves_no_file(tmp_path: Path):
    with pytest.raises(TypeError):
        prepare(Options(cli_path=CLI, system_prompt="x" * 200_000, settings={"a": object()}))
