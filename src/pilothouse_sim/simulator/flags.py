"""The real CLI's command line: `--flag value`, `--flag=value`, lists, and words for mistakes."""

from __future__ import annotations

import math
from typing import Any, Final

from msgspec import Struct, convert

__all__ = ["BadFlag", "LaunchFlags", "accepted", "parse", "played"]


class BadFlag(Exception):
    """The command line is refused; the text is what the CLI writes to stderr."""


class LaunchFlags(Struct, frozen=True, kw_only=True):
    """What the command line asks for. Names are the flags', with underscores."""

    prompt: str = ""
    version: bool = False
    help: bool = False
    print: bool = False
    verbose: bool = False
    output_format: str = "text"
    input_format: str = "text"
    include_partial_messages: bool = False
    include_hook_events: bool = False
    replay_user_messages: bool = False
    permission_prompt_tool: str | None = None
    permission_mode: str | None = None
    allow_dangerously_skip_permissions: bool = False
    dangerously_skip_permissions: bool = False
    allowed_tools: list[str] = []
    disallowed_tools: list[str] = []
    tools: list[str] | None = None
    add_dir: list[str] = []
    model: str | None = None
    effort: str | None = None
    max_turns: int | None = None
    max_budget_usd: float | None = None
    system_prompt: str | None = None
    system_prompt_file: str | None = None
    append_system_prompt: str | None = None
    append_system_prompt_file: str | None = None
    session_id: str | None = None
    resume: str | None = None
    resume_session_at: str | None = None
    resume_drops_turn: str | None = None
    continue_: bool = False
    fork_session: bool = False
    no_session_persistence: bool = False
    session_mirror: bool = False
    forward_subagent_text: bool = False
    settings: str | None = None
    setting_sources: str | None = None
    mcp_config: list[str] = []
    strict_mcp_config: bool = False
    agents: str | None = None
    json_schema: str | None = None
    name: str | None = None
    bare: bool = False
    plugin_dir: list[str] = []
    betas: list[str] = []
    sdk_url: str | None = None
    cassette: str | None = None
    """Ours: replay this recording instead of playing a scenario."""
    speed: float | None = None
    """Ours: replay in the recorded time, divided by this."""


_SWITCHES: Final = frozenset(
    [
        "version",
        "help",
        "print",
        "verbose",
        "include-partial-messages",
        "include-hook-events",
        "replay-user-messages",
        "allow-dangerously-skip-permissions",
        "dangerously-skip-permissions",
        "continue",
        "fork-session",
        "no-session-persistence",
        "strict-mcp-config",
        "bare",
        "brief",
        "chrome",
        "no-chrome",
        "ide",
        "safe-mode",
        "restricted",
        "disable-slash-commands",
        "exclude-dynamic-system-prompt-sections",
        "forward-subagent-text",
        "ax-screen-reader",
        "background",
        "await-initialize",
        "managed-settings-in-initialize",
        "session-mirror",
        "init",
        "init-only",
        "maintenance",
        "tmux",
        "assistant",
        "await-claim",
        "enable-auth-status",
        "deep-link-origin",
        "reply-on-resume",
        "include-unsupported-models",
        "allow-other-models",
        "host-auth-is-org-sign-in",
        "enable-auto-mode",
        "agents-view-if-allowed",
        "plan-mode-required",
        "debug-to-stderr",
    ]
)
# What a flag takes, by the name the CLI has for it.
_VALUES: Final = {
    "output-format": "format",
    "input-format": "format",
    "permission-prompt-tool": "tool",
    "permission-mode": "mode",
    "permission-prompts": "target",
    "model": "model",
    "fallback-model": "model",
    "effort": "level",
    "thinking": "mode",
    "thinking-display": "display",
    "task-budget": "tokens",
    "max-turns": "turns",
    "max-budget-usd": "amount",
    "max-thinking-tokens": "tokens",
    "system-prompt": "prompt",
    "system-prompt-file": "file",
    "system-prompt-snapshot": "on|off",
    "append-system-prompt": "prompt",
    "append-system-prompt-file": "file",
    "session-id": "uuid",
    "resume-session-at": "message id",
    "settings": "file-or-json",
    "setting-sources": "sources",
    "managed-settings": "json",
    "agents": "json-or-file",
    "agent": "agent",
    "json-schema": "schema",
    "name": "name",
    "debug-file": "path",
    "sdk-url": "url",
    "project-config-root": "dir",
    "autocompact": "auto|tokens",
    "environment": "environment_id",
    "remote-control-session-name-prefix": "prefix",
    "append-subagent-system-prompt": "prompt",
    "append-subagent-system-prompt-file": "file",
    "plan-mode-instructions": "instructions",
    "inherit-permission-mode": "mode",
    "watch-artifact": "artifact",
    "watch-artifact-no-autoreact": "artifact",
    "prefill": "text",
    "deep-link-repo": "slug",
    "deep-link-last-fetch": "ms",
    "resume-drops-turn": "message id",
    "rewind-files": "user-message-id",
    "fast-mode": "on|off",
    "workload": "tag",
    "client-data-url": "url",
    "advisor": "model",
    "proactivity": "level",
    "messaging-socket-path": "path",
    "agent-id": "id",
    "agent-name": "name",
    "team-name": "name",
    "agent-color": "color",
    "parent-session-id": "id",
    "lead-verify-key": "time.key",
    "teammate-mode": "mode",
    "agent-type": "type",
    "runner-declares": "names",
    "session-began-as-copy": "value",
    "forward-home-settings": "true|false",
    "attach-serve": "session_id",
    "pool": "pool_id",
    "correlation-id": "id",
    "ref": "ref",
    "on-branch": "branch",
    "cassette": "file",
    "speed": "factor",
}
_LISTS: Final = {
    "allowed-tools": "tools...",
    "disallowed-tools": "tools...",
    "tools": "tools...",
    "add-dir": "directories...",
    "mcp-config": "configs...",
    "betas": "betas...",
    "file": "specs...",
    "channels": "servers...",
    "dangerously-load-development-channels": "servers...",
    "plugin-dir": "path",
    "plugin-dir-no-mcp": "path",
    "plugin-url": "url",
}
_OPTIONAL: Final = frozenset(
    [
        "resume",
        "debug",
        "worktree",
        "from-pr",
        "prompt-suggestions",
        "remote-control",
        "teleport",
        "cloud",
        "desktop",
        "remote",
        "rc",
    ]
)
_SPELLINGS: Final = {
    "allowedTools": "allowed-tools",
    "disallowedTools": "disallowed-tools",
    "bg": "background",
}
_FULL_NAMES: Final = {
    "allowed-tools": "--allowedTools, --allowed-tools",
    "disallowed-tools": "--disallowedTools, --disallowed-tools",
    "name": "-n, --name",
    "debug-to-stderr": "-d2e, --debug-to-stderr",
}
_LETTERS: Final = {
    "p": "print",
    "v": "version",
    "h": "help",
    "c": "continue",
    "r": "resume",
    "d": "debug",
    "d2e": "debug-to-stderr",
    "n": "name",
    "w": "worktree",
}
_CHOICES: Final = {
    "output-format": ("text", "json", "stream-json"),
    "input-format": ("text", "stream-json"),
    "permission-mode": ("acceptEdits", "auto", "bypassPermissions", "manual", "dontAsk", "plan"),
    "permission-prompts": ("host", "none"),
    "thinking": ("enabled", "adaptive", "disabled"),
    "thinking-display": ("summarized", "omitted", "highlights"),
}
_UNLISTED: Final = {"permission-mode": ("default",)}
"""Choices that are taken and not named."""
_NUMBERS: Final = frozenset({"max-turns", "max-thinking-tokens"})
_AMOUNTS: Final = {
    "max-budget-usd": "--max-budget-usd must be a positive number greater than 0",
    "task-budget": "--task-budget must be a positive integer",
    "speed": "--speed must be a positive number greater than 0",
}
_COMMA_LISTS: Final = frozenset({"allowed_tools", "disallowed_tools", "tools"})


def played() -> list[str]:
    """The flags that do here what they do there, in their order."""
    return [name for name in _names() if _key(name) in LaunchFlags.__struct_fields__]


def accepted() -> list[str]:
    """The flags that are read and change nothing, in their order."""
    return [name for name in _names() if _key(name) not in LaunchFlags.__struct_fields__]


def _names() -> list[str]:
    return sorted({*_SWITCHES, *_VALUES, *_LISTS, *_OPTIONAL})


def _key(name: str) -> str:
    return name.replace("-", "_") + ("_" if name == "continue" else "")


def parse(argv: list[str]) -> LaunchFlags:
    """Read a command line; raise `BadFlag` with the CLI's own words for what is wrong in it."""
    found: dict[str, Any] = {}
    words: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            words += rest
            break
        if word.startswith("-") and word != "-":
            _take_flag(word, rest, found)
        else:
            words.append(word)
    if words:
        found["prompt"] = words[0]
    return _build(found)


def _take_flag(word: str, rest: list[str], found: dict[str, Any]) -> None:
    flag, equals, value = word.partition("=")
    name = _name_of(flag, word)
    key = _key(name)
    if name in _SWITCHES and equals:
        raise BadFlag(f"error: unknown option '{word}'\n(Did you mean --{name}?)")
    if name in _SWITCHES:
        found[key] = True
    elif name in _OPTIONAL:
        found[key] = value if equals else _next_value(rest) or ""
    elif name in _LISTS:
        given = [value] if equals else _next_values(name, rest)
        found[key] = [*found.get(key, []), *given]
    elif equals or rest:
        found[key] = _checked(name, value if equals else rest.pop(0))
    else:
        raise _missing(name)


def _checked(name: str, value: str) -> str:
    """A value that the flag may have; of a count its whole part."""
    number = _number(value)
    if name in _NUMBERS and number is not None:
        return str(int(number))
    if name in _AMOUNTS and number is not None and number > 0:
        return str(number)
    complaint = None
    if name in _CHOICES and value not in (*_CHOICES[name], *_UNLISTED.get(name, ())):
        complaint = f"Allowed choices are {', '.join(_CHOICES[name])}."
    elif name in _NUMBERS:
        complaint = "must be a number"
    elif name in _AMOUNTS:
        complaint = _AMOUNTS[name]
    if complaint is not None:
        flag = f"--{name} <{_VALUES[name]}>"
        raise BadFlag(f"error: option '{flag}' argument '{value}' is invalid. {complaint}")
    return "default" if (name, value) == ("permission-mode", "manual") else value


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _name_of(flag: str, word: str) -> str:
    name = flag[2:] if flag.startswith("--") else _LETTERS.get(flag[1:], flag)
    name = _SPELLINGS.get(name, name)
    if not any(name in known for known in (_SWITCHES, _VALUES, _LISTS, _OPTIONAL)):
        raise BadFlag(f"error: unknown option '{word}'")
    return name


def _next_value(rest: list[str]) -> str | None:
    return rest.pop(0) if rest and not rest[0].startswith("-") else None


def _next_values(name: str, rest: list[str]) -> list[str]:
    given: list[str] = []
    is_many = _LISTS[name].endswith("...")
    while (is_many or not given) and (value := _next_value(rest)) is not None:
        given.append(value)
    if not given:
        raise _missing(name)
    return given


def _missing(name: str) -> BadFlag:
    full = _FULL_NAMES.get(name, f"--{name}")
    return BadFlag(f"error: option '{full} <{(_VALUES | _LISTS)[name]}>' argument missing")


def _build(found: dict[str, Any]) -> LaunchFlags:
    for key in _COMMA_LISTS & found.keys():
        found[key] = [entry for given in found[key] for entry in _split_rules(given)]
    if found.get("sdk_url"):
        # What is left out is as a server needs it; what is given is checked.
        found = {"output_format": "stream-json", "input_format": "stream-json", **found}
    known = {key: value for key, value in found.items() if key in LaunchFlags.__struct_fields__}
    return convert(known, LaunchFlags, strict=False)


def _split_rules(given: str) -> list[str]:
    """Cut at commas and blanks, but not inside the parentheses of a rule."""
    entries, depth, entry = [""], 0, 0
    for letter in given:
        depth += (letter == "(") - (letter == ")")
        if depth <= 0 and letter in ", ":
            entries.append("")
            entry += 1
        else:
            entries[entry] += letter
    return [each for each in entries if each]
