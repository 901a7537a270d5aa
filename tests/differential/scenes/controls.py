"""Control requests of the host: before, after and during turns, and ill-formed ones."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pilothouse_sim.scenario import Usage, gate, reply, tool
from tests.differential.driver import Cli, Scene, own_uuid
from tests.differential.host import (
    PARTIAL,
    SILENT,
    UNTIL_GO,
    allow,
    bash,
    has_text,
    initialized,
    is_ask,
    script,
    settings,
)

Ask = tuple[str, dict[str, Any]]

CHECKPOINTS = {"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"}

REPORTS: tuple[Ask, ...] = (
    ("get_binary_version", {}),
    ("list_models", {}),
    ("get_settings", {}),
    ("get_status", {}),
    ("get_usage", {}),
    ("get_usage", {"skip_behaviors": True}),
    ("get_session_cost", {}),
    ("get_context_usage", {}),
    ("get_context_usage", {"detail": "summary"}),
    ("get_context_usage", {"detail": "full"}),
    ("list_permission_rules", {}),
    ("get_hooks_listing", {}),
    ("get_plan", {}),
    ("get_workspace_diff", {}),
    ("get_memory_dialog", {}),
    ("get_skills_dialog", {}),
    ("get_sandbox_dialog", {}),
    ("get_chrome_dialog", {}),
    ("export_conversation", {}),
    ("mcp_status", {}),
    ("reload_skills", {}),
    ("reload_output_styles", {}),
    ("reload_plugins", {}),
    ("reload_plugins", {"hold_on_cache_impact": True, "refuse_if_busy": True}),
)

HARMLESS: tuple[Ask, ...] = (
    ("interrupt", {}),
    ("interrupt", {"cancel_queued": True}),
    ("cancel_async_message", {"message_uuid": "nobody"}),
    ("set_max_thinking_tokens", {"max_thinking_tokens": 1000}),
    ("set_max_thinking_tokens", {"max_thinking_tokens": None, "thinking_display": "omitted"}),
    ("set_has_subscribers", {"has_subscribers": True}),
    ("set_has_subscribers", {"has_subscribers": None}),
    ("set_prompt_suggestions_paused", {"paused": True}),
    ("message_rated", {"messageUuid": "x", "sentiment": "positive"}),
    ("stop_task", {"task_id": "nobody"}),
    ("background_tasks", {}),
    ("background_tasks", {"tool_use_id": "nobody"}),
    ("mcp_message", {"server_name": "nobody", "message": {"jsonrpc": "2.0", "method": "x"}}),
    ("mcp_set_servers", {"servers": {}}),
    ("set_mcp_permission_mode_override", {"serverName": "nobody", "mode": "default"}),
    ("set_mcp_permission_mode_override", {"serverName": "nobody", "mode": None}),
    ("seed_read_state", {"path": "nothing", "mtime": 1}),
    ("update_settings", {"source": "localSettings", "settings": {"outputStyle": "Learning"}}),
    ("apply_flag_settings", {"settings": {"cleanupPeriodDays": 7}}),
    ("rename_session", {"title": "The grand tour"}),
)

REFUSED: tuple[Ask, ...] = (
    ("set_color", {"color": "red"}),
    ("claim_session", {}),
    ("get_chrome_browsers", {}),
    ("select_chrome_browser", {"device_id": "x"}),
    ("set_chrome_browser_hints", {}),
    ("get_task_output", {"task_id": "nobody"}),
    ("mcp_reconnect", {"serverName": "nobody"}),
    ("mcp_toggle", {"serverName": "nobody", "enabled": True}),
    ("mcp_call", {"tool": "mcp__nobody__x"}),
    ("mcp_call", {"tool": "Bash"}),
    ("mcp_read_resource", {"serverName": "nobody", "uri": "file://x"}),
    ("mcp_read_resource", {"serverName": "nobody", "uri": "ui://x"}),
    ("channel_enable", {"serverName": "nobody"}),
    ("mcp_authenticate", {"serverName": "nobody"}),
    ("mcp_clear_auth", {"serverName": "nobody"}),
    ("mcp_oauth_callback_url", {"serverName": "nobody", "callbackUrl": "http://x"}),
    ("rewind_files", {"user_message_id": "nobody"}),
    ("rewind_files", {"user_message_id": "nobody", "dry_run": True}),
    ("rename_session", {"title": "X", "session_id": "nobody"}),
    ("set_permission_mode", {"mode": "bypassPermissions"}),
    ("set_mcp_permission_mode_override", {"serverName": "nobody", "mode": "plan"}),
    ("update_settings", {"source": "userSettings", "settings": {"model": "haiku", "env": {}}}),
    ("update_settings", {"source": "projectSettings", "settings": {}}),
    ("no_such_thing", {}),
    ("hook_callback", {}),
    ("can_use_tool", {}),
)

ILL_TYPED: tuple[Ask, ...] = (
    ("initialize", {"hooks": 5}),
    ("initialize", {"hooks": {"PreToolUse": ["x"]}}),
    ("initialize", {"hooks": {"PreToolUse": [{"matcher": 5, "hookCallbackIds": ["x"]}]}}),
    ("interrupt", {"cancel_queued": "x"}),
    ("cancel_async_message", {}),
    ("set_permission_mode", {}),
    ("set_permission_mode", {"mode": 3}),
    ("set_permission_mode", {"mode": "bogus"}),
    ("set_model", {"model": 5}),
    ("set_model", {"model": ""}),
    ("set_model", {"model": "haiku[1m]"}),
    ("set_max_thinking_tokens", {"max_thinking_tokens": "x"}),
    ("set_max_thinking_tokens", {"thinking_display": "bogus"}),
    ("set_mcp_permission_mode_override", {}),
    ("set_mcp_permission_mode_override", {"serverName": "x", "mode": "bogus"}),
    ("apply_flag_settings", {}),
    ("apply_flag_settings", {"settings": 5}),
    ("apply_flag_settings", {"settings": None}),
    ("update_settings", {}),
    ("update_settings", {"settings": {}}),
    ("update_settings", {"source": "localSettings", "settings": {"outputStyle": 5}}),
    ("set_has_subscribers", {}),
    ("set_has_subscribers", {"has_subscribers": "x"}),
    ("set_prompt_suggestions_paused", {}),
    ("set_prompt_suggestions_paused", {"paused": "x"}),
    ("message_rated", {}),
    ("stop_task", {}),
    ("get_task_output", {}),
    ("mcp_set_servers", {}),
    ("mcp_set_servers", {"servers": {"x": 5}}),
    ("mcp_reconnect", {}),
    ("mcp_toggle", {}),
    ("mcp_message", {}),
    ("mcp_call", {}),
    ("mcp_read_resource", {}),
    ("mcp_read_resource", {"serverName": "x"}),
    ("channel_enable", {}),
    ("mcp_authenticate", {}),
    ("mcp_clear_auth", {}),
    ("mcp_oauth_callback_url", {}),
    ("get_context_usage", {"detail": "bogus"}),
    ("file_suggestions", {}),
    ("file_suggestions", {"query": 5}),
    ("read_file", {}),
    ("seed_read_state", {}),
    ("rewind_files", {}),
    ("register_repo_root", {}),
    ("rename_session", {}),
    ("rename_session", {"title": ""}),
    ("generate_session_title", {}),
    ("generate_session_title", {"description": ""}),
    ("side_question", {}),
    ("select_chrome_browser", {}),
    ("set_cwd", {}),
    ("set_cwd", {"path": "{{cwd}}", "trust_accepted": True}),
)


async def ask_all(cli: Cli, requests: tuple[Ask, ...]) -> None:
    """Makes requests one after the other."""
    for subtype, fields in requests:
        filled = json.loads(json.dumps(fields).replace("{{cwd}}", str(cli.cwd)))
        await cli.control(subtype, **filled)


def asks(*requests: Ask) -> Callable[[Cli], Awaitable[None]]:
    """Begins, then makes these requests."""

    async def play(cli: Cli) -> None:
        await cli.control("initialize")
        await ask_all(cli, requests)

    return play


def asks_later(*requests: Ask) -> Callable[[Cli], Awaitable[None]]:
    """Begins, lets a turn pass, then makes these requests, and lets another turn pass."""

    async def play(cli: Cli) -> None:
        await cli.control("initialize")
        cli.prompt("Say hello.")
        await cli.settle()
        await ask_all(cli, requests)
        cli.prompt("And again.")
        await cli.settle()

    return play


async def during_text(cli: Cli) -> None:
    """Asks for everything while the model speaks."""
    await cli.control("initialize")
    cli.prompt("Talk.")
    await cli.until(has_text)
    await ask_all(cli, REPORTS[:-1])
    await ask_all(cli, HARMLESS[2:])
    await ask_all(
        cli,
        (
            ("initialize", {}),
            ("set_permission_mode", {"mode": "acceptEdits"}),
            ("set_model", {"model": "sonnet"}),
            ("reload_plugins", {"refuse_if_busy": True}),
            ("set_cwd", {"path": "{{cwd}}"}),
        ),
    )
    cli.release("talk")
    await cli.settle()
    cli.prompt("And again.")
    await cli.settle()


async def during_a_tool(cli: Cli) -> None:
    """Changes mode and model while a tool runs."""
    await cli.control("initialize")
    cli.prompt("Run it.")
    await cli.exists("started")
    await ask_all(
        cli,
        (
            ("set_permission_mode", {"mode": "plan"}),
            ("set_model", {"model": "haiku"}),
            ("rename_session", {"title": "In the middle"}),
            ("background_tasks", {"tool_use_id": "nobody"}),
        ),
    )
    (cli.cwd / "go").touch()
    await cli.settle()


async def interrupted(cli: Cli) -> None:
    """Interrupts while prompts wait: they go on."""
    await cli.control("initialize")
    cli.prompt("Talk.")
    await cli.until(has_text)
    cli.prompt("First.")
    cli.prompt("Second.")
    await cli.control("interrupt")
    await cli.result()
    await cli.settle()


async def interrupted_for_good(cli: Cli) -> None:
    """Interrupts and takes back what waits."""
    await cli.control("initialize")
    cli.prompt("Talk.")
    await cli.until(has_text)
    cli.prompt("First.")
    cli.prompt("Second.")
    await cli.control("interrupt", cancel_queued=True)
    await cli.settle()
    cli.prompt("Go on.")
    await cli.settle()


async def initialized_while_asking(cli: Cli) -> None:
    """Begins again while a question is open, and gets it told."""
    await cli.control("initialize")
    cli.prompt("Make a file.")
    asked = await cli.until(is_ask)
    await cli.control("initialize")
    await cli.control("set_permission_mode", mode="acceptEdits")
    cli.respond(asked["request_id"], allow(asked["request"]))
    await cli.settle()


async def moved(cli: Cli) -> None:
    """Changes the working directory, which takes trust."""
    other = cli.home / "other"
    other.mkdir()
    await cli.control("initialize")
    cli.prompt("Say hello.")
    await cli.settle()
    await cli.control("set_cwd", path=str(other))
    await cli.control("set_cwd", path=str(other), trusted_directory=str(other))
    await cli.control("set_cwd", path=str(cli.home / "nowhere"))
    # The answer comes while the CLI shows the change, sooner or later.
    trust = {"trust_accepted": True, "trusted_directory": str(other)}
    cli.forget(await cli.control("set_cwd", path=str(other), **trust))
    await cli.idle()
    await cli.control("set_cwd", path=str(other))
    await cli.control("list_permission_rules")
    await cli.control("get_memory_dialog")
    cli.prompt("And again.")
    await cli.settle()


async def ended(cli: Cli) -> None:
    """Ends the session by request."""
    await cli.control("initialize")
    cli.prompt("Say hello.")
    await cli.settle()
    await cli.control("end_session")
    await cli.exited()


async def ended_in_mid_turn(cli: Cli) -> None:
    """Ends the session while the model speaks."""
    await cli.control("initialize")
    cli.prompt("Talk.")
    await cli.until(has_text)
    await cli.control("end_session")
    await cli.exited()


async def rewound(cli: Cli) -> None:
    """Puts a file back, first for show."""
    await cli.control("initialize")
    cli.prompt("Edit it.")
    await cli.settle()
    await ask_all(
        cli,
        (
            ("rewind_files", {"user_message_id": "nobody"}),
            ("rewind_files", {"user_message_id": own_uuid(1), "dry_run": True}),
            ("rewind_files", {"user_message_id": own_uuid(1)}),
            ("rewind_files", {}),
            ("get_usage", {}),
        ),
    )


async def titled(cli: Cli) -> None:
    """Lets the model make titles and answer beside the conversation."""
    await cli.control("initialize")
    await cli.control("generate_session_title", description="the sails")
    await cli.control("generate_session_title", description="the sail is torn")
    cli.prompt("Say hello.")
    await cli.settle()
    await cli.control("generate_session_title", description="the sail is torn")
    await cli.control("side_question", question="Why?")
    cli.prompt("And again.")
    await cli.settle()


def a_harbour(cwd: Path) -> None:
    """Settings in every place, own commands, agents, skills and styles, and a repository."""
    rules = {"allow": ["Bash(ls:*)", "Read"], "deny": ["Bash(rm:*)"], "ask": ["WebFetch"]}
    hook = {"type": "command", "command": "true", "timeout": 5}
    files = {
        "CLAUDE.md": "Be brief.",
        "anchor.txt": "hello\n",
        ".claude/settings.json": {
            "permissions": rules,
            "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]},
            "env": {"A": "b"},
        },
        ".claude/settings.local.json": {"permissions": {"allow": ["Edit(/src/**)"]}},
        "../.claude/settings.json": {
            "permissions": {"allow": ["Bash(git status)"]},
            "theme": "dark",
        },
        ".claude/commands/hey.md": "---\ndescription: says hey\nargument-hint: [name]\n---\nHey.",
        ".claude/commands/sub/ho.md": "Say ho.",
        "../.claude/commands/mine.md": "# Mine\nSay mine.",
        ".claude/skills/knots/SKILL.md": "---\nname: knots\ndescription: ties\n---\nTie.",
        "../.claude/skills/splice/SKILL.md": "---\nname: splice\ndescription: joins\n---\nJoin.",
        ".claude/agents/mate.md": "---\nname: mate\ndescription: first mate\n---\nHelp.",
        ".claude/output-styles/pirate.md": "---\nname: Pirate\ndescription: arr\n---\nArr.",
    }
    for name, content in files.items():
        path = cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def git(cwd: Path, *words: str) -> None:
    """Runs git as somebody."""
    who = ("-c", "user.email=a@example.org", "-c", "user.name=A")
    subprocess.run(["git", *who, *words], cwd=cwd, check=True)


def a_repository(cwd: Path) -> None:
    """A repository with one commit, and a change since."""
    (cwd / "anchor.txt").write_text("hello\n")
    git(cwd, "init", "-q", "-b", "main")
    git(cwd, "add", ".")
    git(cwd, "commit", "-q", "-m", "one")
    (cwd / "anchor.txt").write_text("hello\nworld\n")


async def diffed(cli: Cli) -> None:
    """Looks at the changes of a repository as they come and go."""
    await cli.control("initialize")
    await cli.control("get_workspace_diff")
    (cli.cwd / "anchor.txt").write_text("hello\n")
    (cli.cwd / "new.txt").write_text("new\n")
    await cli.control("get_workspace_diff")
    (cli.cwd / "anchor.txt").unlink()
    git(cli.cwd, "add", "-A")
    await cli.control("get_workspace_diff")
    await cli.control("set_cwd", path=str(cli.cwd / ".git"))


FILES: tuple[Ask, ...] = (
    ("read_file", {"path": "anchor.txt"}),
    ("read_file", {"path": "{{cwd}}/anchor.txt", "max_bytes": 0}),
    ("read_file", {"path": "anchor.txt", "max_bytes": 2}),
    ("read_file", {"path": "anchor.txt", "max_bytes": 3, "encoding": "base64"}),
    ("read_file", {"path": "anchor.txt", "encoding": "base64"}),
    ("read_file", {"path": "nothing.txt"}),
    ("read_file", {"path": "/etc/hostname"}),
    ("read_file", {"path": "."}),
    ("register_repo_root", {"directory": "deck"}),
    ("register_repo_root", {"directory": "{{cwd}}/deck"}),
    ("register_repo_root", {"directory": "{{cwd}}"}),
    ("register_repo_root", {"directory": "anchor.txt"}),
    ("register_repo_root", {"directory": "/usr"}),
    ("register_repo_root", {"directory": "nowhere"}),
    ("list_permission_rules", {}),
)

RULES = "Bash,Bash(npm *),Bash(npm run:*),Bash(make),WebFetch(domain:x.org),mcp__calc,Edit,Task"
MODELS = (
    *("sonnet", "haiku", "fable", "opus", "default", "best", "opusplan", "sonnet[1m]"),
    *("claude-sonnet-4-5", "claude-opus-4-1", "claude-haiku-4-5-20251001", "no-such-model"),
)
SPENT = Usage(
    input_tokens=1000,
    output_tokens=200,
    cache_creation_input_tokens=300,
    cache_read_input_tokens=400,
)


async def many_models(cli: Cli) -> None:
    """Switches from model to model, with a turn on each."""
    await cli.control("initialize")
    for model in MODELS:
        await cli.control("set_model", model=model)
        cli.prompt(f"You are {model}.")
        await cli.settle()
    await cli.control("set_model", model="no-such-model")
    await cli.control("set_model")
    await cli.control("apply_flag_settings", settings={"model": "haiku"})
    await cli.control("apply_flag_settings", settings={"model": None})
    await cli.control("get_usage")
    await cli.control("get_session_cost")


def anchored(cwd: Path) -> None:
    """A file and a folder."""
    (cwd / "anchor.txt").write_text("hällo\n")
    (cwd / "deck").mkdir()


AGENTS = {"rev": {"description": "reviews", "prompt": "Review.", "model": "haiku"}}
FLAGS = {
    "facts_tools": ("--tools", "Bash,Read,Glob"),
    "facts_no_tools": ("--tools", ""),
    "facts_disallowed": ("--disallowedTools", "Bash,WebFetch"),
    "facts_old_model": ("--model", "claude-haiku-4-5-20251001"),
    "facts_unknown_model": ("--model", "no-such-model"),
    "facts_bare": ("--bare",),
    "facts_more": (
        *("--agents", json.dumps(AGENTS), "--betas", "context-1m-2025-08-07"),
        *("--add-dir", "/usr/share", "--permission-mode", "plan"),
    ),
}
HELLO = reply("Hello.")
TALK = reply("One. ", gate("talk"), "Two.")

SCENES = {
    **{name: Scene(script(HELLO), initialized("Hi."), flags) for name, flags in FLAGS.items()},
    "facts_silent": Scene(script(HELLO), initialized("Hi."), base=SILENT),
    "controls_reports": Scene(script(HELLO), asks(*REPORTS), covers="C15"),
    "controls_reports_later": Scene(script(HELLO, HELLO), asks_later(*REPORTS), covers="C15"),
    "controls_harmless": Scene(script(HELLO), asks(*HARMLESS), covers="C8 C9 C11 C15", files=True),
    "controls_harmless_later": Scene(
        script(HELLO, HELLO), asks_later(*HARMLESS), covers="C8 C9 C15"
    ),
    "controls_refused": Scene(script(HELLO), asks(*REFUSED), covers="C12 C13 C15"),
    "controls_refused_later": Scene(script(HELLO, HELLO), asks_later(*REFUSED), covers="C13"),
    "controls_ill_typed": Scene(script(HELLO), asks(*ILL_TYPED), covers="C2 C15"),
    "controls_files": Scene(script(HELLO), asks(*FILES), prepare=anchored, covers="C15"),
    "controls_harbour": Scene(
        script(HELLO, HELLO),
        asks_later(*REPORTS, ("initialize", {})),
        ("--allowedTools", RULES, "--disallowedTools", "Bash(curl:*)", settings(model="haiku")),
        prepare=a_harbour,
        covers="C1 C15",
    ),
    "controls_repository": Scene(script(HELLO), diffed, prepare=a_repository, covers="C15"),
    "controls_during_text": Scene(script(TALK, HELLO), during_text, (PARTIAL,), covers="C6 C7"),
    "controls_during_a_tool": Scene(
        script(reply(bash(UNTIL_GO)), reply("Over.")),
        during_a_tool,
        ("--allowedTools", "Bash"),
        covers="C6 C7",
    ),
    "controls_interrupt_queue": Scene(
        script(TALK, HELLO, HELLO), interrupted, (PARTIAL,), covers="C9"
    ),
    "controls_interrupt_for_good": Scene(
        script(TALK, HELLO), interrupted_for_good, (PARTIAL,), covers="C9"
    ),
    "controls_initialize_while_asking": Scene(
        script(reply(bash("touch made")), HELLO), initialized_while_asking, covers="C1"
    ),
    "controls_models": Scene(
        script(*(reply("Hello.", usage=SPENT) for _ in MODELS)), many_models, covers="C7"
    ),
    "controls_modes": Scene(
        script(HELLO),
        asks(
            *(
                ("set_permission_mode", {"mode": mode})
                for mode in ("acceptEdits", "acceptEdits", "plan", "manual", "auto", "dontAsk")
            ),
        ),
        covers="C6",
    ),
    "controls_set_cwd": Scene(script(HELLO, HELLO), moved, covers="C17"),
    "controls_end_session": Scene(script(HELLO), ended, covers="C15"),
    "controls_end_in_mid_turn": Scene(script(TALK), ended_in_mid_turn, (PARTIAL,), covers="C15"),
    "controls_rewind": Scene(
        script(
            reply(tool("Write", file_path="{{cwd}}/anchor.txt", content="ahoy\nthere\n")), HELLO
        ),
        rewound,
        ("--permission-mode", "acceptEdits"),
        env=CHECKPOINTS,
        covers="C12",
        files=True,
    ),
    "controls_titles": Scene(
        # Titles take no reply of the script.
        script(HELLO, reply("Because."), HELLO),
        titled,
        covers="C15",
    ),
}
