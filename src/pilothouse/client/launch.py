"""From options to a command line, an environment, and an `initialize` request."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from msgspec import UNSET

from pilothouse import __version__
from pilothouse.errors import InvalidOption
from pilothouse.protocol import Initialize
from pilothouse.protocol.wire import JsonObject, encode_json
from pilothouse.transport.private_files import PrivateFiles

from .bypass import BypassGate
from .locate import cli_command
from .options import Options

__all__ = ["Launch", "prepare"]

ARGUMENT_LIMIT: Final = 128 * 1024
"""Linux refuses a single argument of this size."""

BLANK: Final = "\ufeff \t\r\n"

ENCLOSING_SESSION: Final = frozenset(
    {
        "AI_AGENT",
        "CLAUDECODE",
        "CLAUDE_AGENT_SDK_VERSION",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_CODE_MESSAGING_SOCKET",
        "CLAUDE_CODE_MESSAGING_TOKEN",
        "CLAUDE_CODE_PARENT_SESSION_ID",
        "CLAUDE_CODE_SESSION_ACCESS_TOKEN",
        "CLAUDE_CODE_SESSION_ATTENDED",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_CODE_WEBSOCKET_AUTH_FILE_DESCRIPTOR",
        "CLAUDE_EFFORT",
        "CLAUDE_PID",
    }
)
"""What a CLI tells its own tools. A session started from within one must not take it for its own;
the other CLAUDE_CODE_ variables are the user's settings and stay."""


@dataclass(slots=True)
class Launch:
    """Everything one start needs. `clean_up` removes the files it made."""

    argv: list[str]
    env: dict[str, str]
    cwd: str | None
    session_id: str | None
    """None only with `continue_latest`, where the CLI picks the session."""
    initialize: Initialize
    _files: PrivateFiles

    def read_files(self) -> dict[str, str]:
        """What is in the files that `argv` names and `clean_up` removes, by path."""
        return self._files.read()

    def clean_up(self) -> None:
        self._files.remove()


def prepare(
    options: Options, servers: Sequence[str] = (), *, command: Sequence[str] | None = None
) -> Launch:
    """Check the options and build the start.

    `servers` names the in-process tool servers; `command` starts the CLI if it need not be found.
    """
    _check(options)
    BypassGate(allowed=options.allow_bypass).check_options(options)
    inherited = dict(os.environ) if options.inherit_env else {}
    command = command or cli_command(options.cli_path, {**inherited, **options.env})
    files = PrivateFiles()
    try:
        session_id = _session_id(options)
        argv = [*command, *_flags(options, session_id, servers, files)]
        for argument in argv:
            _check_argument(argument)
        return Launch(
            argv=argv,
            env=_environment(options, inherited),
            cwd=None if options.cwd is None else str(options.cwd),
            session_id=session_id,
            initialize=_initialize(options, servers),
            _files=files,
        )
    except BaseException:
        files.remove()
        raise


def _check(options: Options) -> None:
    if options.resume and options.continue_latest:
        raise InvalidOption("resume and continue_latest exclude each other")
    resumes = bool(options.resume or options.continue_latest)
    if options.fork_session and not resumes:
        raise InvalidOption("fork_session needs resume or continue_latest")
    if options.session_id and resumes and not options.fork_session:
        raise InvalidOption("session_id names a new session; with resume it needs fork_session")
    if (options.resume_session_at or options.resume_drops_turn) and not options.resume:
        raise InvalidOption("resume_session_at and resume_drops_turn need resume")
    if options.session_id and not _is_uuid(options.session_id):
        raise InvalidOption(f"session_id must be a UUID, not {options.session_id!r}")
    if options.system_prompt is not None and options.system_prompt_file is not None:
        raise InvalidOption("system_prompt and system_prompt_file exclude each other")
    if options.permission_prompt_tool and options.answers_permissions:
        raise InvalidOption("permission_prompt_tool and on_permission exclude each other")


def _check_argument(argument: str) -> None:
    flag = argument.partition("=")[0]
    try:
        size = len(os.fsencode(argument))
    except UnicodeEncodeError as error:
        raise _no_text(flag) from error
    if "\0" in argument:
        raise InvalidOption(f"{flag} has a null byte, which no command line can hold")
    if size >= ARGUMENT_LIMIT:
        raise InvalidOption(f"{flag} is too long for a command line ({size} bytes)")


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _session_id(options: Options) -> str | None:
    if options.resume and not options.fork_session:
        return options.resume
    if options.continue_latest and not options.fork_session:
        return None
    return options.session_id or str(uuid.uuid4())


# The command line


def _flags(
    options: Options, session_id: str | None, servers: Sequence[str], files: PrivateFiles
) -> Iterator[str]:
    yield "--print"
    yield from ("--output-format=stream-json", "--input-format=stream-json", "--verbose")
    # The echo of each prompt tells which turn took it, on every version.
    yield "--replay-user-messages"
    values = {
        **_session_flags(options, session_id),
        **_model_flags(options),
        **_permission_flags(options),
        **_settings_flags(options, files),
        **_prompt_flags(options, files),
        **_mcp_flags(options, servers, files),
        **options.extra_args,
    }
    for name, value in values.items():
        yield from _flag(name, value)
    for name, on in _switches(options).items():
        if on:
            yield f"--{name}"
    yield from _repeated(options, files)


def _flag(name: str, value: Any) -> Iterator[str]:
    if value is UNSET:
        return
    if value is None:
        yield f"--{name}"
    elif value == "":
        yield from (f"--{name}", "")
    else:
        yield f"--{name}={value}"


def _given(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value is not None}


def _session_flags(options: Options, session_id: str | None) -> dict[str, str]:
    is_new = options.fork_session or not (options.resume or options.continue_latest)
    return _given(
        {
            "session-id": session_id if is_new else None,
            "resume": options.resume,
            "resume-session-at": options.resume_session_at,
            "resume-drops-turn": options.resume_drops_turn,
        }
    )


def _model_flags(options: Options) -> dict[str, str]:
    return _given(
        {
            "model": options.model,
            "fallback-model": options.fallback_model,
            "effort": options.effort,
            "thinking": options.thinking,
            "max-thinking-tokens": options.max_thinking_tokens,
            "thinking-display": options.thinking_display,
            "betas": ",".join(options.betas) or None,
            "max-turns": options.max_turns,
            "max-budget-usd": options.max_budget_usd,
            "task-budget": options.task_budget,
            "agent": options.agent,
        }
    )


def _permission_flags(options: Options) -> dict[str, str]:
    tools = options.tools if options.tools is None or options.tools == "default" else None
    if options.tools is not None and options.tools != "default":
        tools = ",".join(options.tools)
    prompt_tool = "stdio" if options.answers_permissions else options.permission_prompt_tool
    return _given(
        {
            "tools": tools,
            "allowedTools": ",".join(options.allowed_tools) or None,
            "disallowedTools": ",".join(options.disallowed_tools) or None,
            "permission-mode": options.permission_mode,
            "permission-prompt-tool": prompt_tool,
            "permission-prompts": options.permission_prompts,
        }
    )


def _settings_flags(options: Options, files: PrivateFiles) -> dict[str, str]:
    sources = options.setting_sources
    return _given(
        {
            "settings": _json_argument("settings", options.settings, files),
            "setting-sources": None if sources is None else ",".join(sources),
            # No CLI takes a file for these.
            "managed-settings": _json_text(options.managed_settings),
            "project-config-root": options.project_config_root,
            "channels": ",".join(options.channels) or None,
            "debug": options.debug if isinstance(options.debug, str) else None,
            "debug-file": options.debug_file,
        }
    )


# Anybody on the machine can read a command line, so what a caller writes goes by file: headers and
# variables of servers, settings, prompts. Every CLI takes the name of one in the place of the text.


def _prompt_flags(options: Options, files: PrivateFiles) -> dict[str, str]:
    flags = _given({"system-prompt-file": options.system_prompt_file})
    for name, text in (
        ("system-prompt", options.system_prompt),
        ("append-system-prompt", options.append_system_prompt),
    ):
        if text:
            flags[f"{name}-file"] = files.write(f"{name}.md", _encoded(f"--{name}", text))
        elif text is not None:
            flags[name] = text
    return flags


def _mcp_flags(options: Options, servers: Sequence[str], files: PrivateFiles) -> dict[str, str]:
    configured: JsonObject = {
        name: config for name, config in options.mcp_servers.items() if name not in servers
    }
    # In-process servers are named by `initialize` alone: named here too, CLIs up to 2.1.119
    # greet them twice.
    if not configured:
        return {}
    return _given({"mcp-config": _json_argument("mcp-config", {"mcpServers": configured}, files)})


def _json_text(value: JsonObject | None) -> str | None:
    return None if value is None else encode_json(value).decode()


def _json_argument(
    name: str, value: str | Path | JsonObject | None, files: PrivateFiles
) -> str | None:
    """The name of a file with this JSON, unless the value is one."""
    if isinstance(value, dict):
        return files.write(f"{name}.json", encode_json(value))
    if isinstance(value, str) and value.lstrip(BLANK).startswith("{"):
        return files.write(f"{name}.json", _encoded(f"--{name}", value))
    return None if value is None else str(value)


def _encoded(flag: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _no_text(flag) from error


def _no_text(flag: str) -> InvalidOption:
    return InvalidOption(f"{flag} holds half of a surrogate pair, which is no text")


def _switches(options: Options) -> dict[str, bool]:
    return {
        "continue": options.continue_latest,
        "fork-session": options.fork_session,
        "no-session-persistence": not options.persist_session,
        "strict-mcp-config": options.strict_mcp_config,
        "include-partial-messages": options.include_partial_messages,
        "include-hook-events": options.include_hook_events,
        "session-mirror": options.session_mirror,
        "debug": options.debug is True,
        "allow-dangerously-skip-permissions": options.allow_bypass,
    }


def _repeated(options: Options, files: PrivateFiles) -> Iterator[str]:
    for name, paths in (
        ("add-dir", options.add_dirs),
        ("mcp-config", [_json_argument("mcp-config", each, files) for each in options.mcp_config]),
        ("plugin-dir", options.plugin_dirs),
        ("plugin-dir-no-mcp", options.plugin_dirs_without_mcp),
    ):
        for path in paths:
            yield f"--{name}={path}"


# The environment


def _environment(options: Options, inherited: Mapping[str, str]) -> dict[str, str]:
    env = {name: value for name, value in inherited.items() if name not in ENCLOSING_SESSION}
    # Our tag is the client app. CLAUDE_CODE_ENTRYPOINT is left to the CLI, which says `sdk-cli`:
    # under a name it does not know it offers other agents and tools (2.1.119 no Glob, no Grep).
    env["CLAUDE_AGENT_SDK_CLIENT_APP"] = options.client_app or f"pilothouse/{__version__}"
    env["PILOTHOUSE_VERSION"] = __version__
    # Without it no CLI says when it is idle.
    env["CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"] = "1"
    if options.enable_file_checkpointing:
        env["CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"] = "1"
    if options.cwd is not None:
        env["PWD"] = str(Path(options.cwd).absolute())
    return env | dict(options.env)


# The first request


def _initialize(options: Options, servers: Sequence[str]) -> Initialize:
    hooks = options.hooks.registration() if options.hooks is not None else None
    fields: dict[str, Any] = {
        "hooks": hooks or None,
        "sdk_mcp_servers": list(servers) or None,
        "json_schema": options.json_schema,
        "append_subagent_system_prompt": options.append_subagent_system_prompt,
        "exclude_dynamic_sections": options.exclude_dynamic_sections,
        "system_prompt_snapshot": options.system_prompt_snapshot,
        "plan_mode_instructions": options.plan_mode_instructions,
        "tool_aliases": None if options.tool_aliases is None else dict(options.tool_aliases),
        "agents": None if options.agents is None else dict(options.agents),
        "title": options.title,
        "skills": None if options.skills is None else list(options.skills),
        "prompt_suggestions": options.prompt_suggestions,
        "agent_progress_summaries": options.agent_progress_summaries,
        "forward_subagent_text": options.forward_subagent_text,
        "supported_dialog_kinds": list(options.dialog_kinds) or None,
    }
    return Initialize(**{name: value for name, value in fields.items() if value is not None})
