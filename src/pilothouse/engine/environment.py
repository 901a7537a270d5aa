"""Which variables a caller may give a CLI.

Many programs take a variable for code to load, for a program to run or for where that is: PATH,
BASH_ENV, NODE_OPTIONS, GIT_SSH_COMMAND, LD_PRELOAD, and more than anybody has counted. A CLI runs
shells, Node and Git without asking. So while the gate to bypassPermissions is shut, a variable
passes only if it is known to be nothing but data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pilothouse.api.requests import SessionOptions
from pilothouse.errors import InvalidOption
from pilothouse.protocol.wire import as_object

__all__ = ["HARMLESS", "HARMLESS_ENDINGS", "HARMLESS_PREFIXES", "check_environment"]

HARMLESS: Final = frozenset(
    {
        # The place and the terminal
        "CI",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "COLORTERM",
        "COLUMNS",
        "DO_NOT_TRACK",
        "FORCE_COLOR",
        "IS_SANDBOX",
        "LANG",
        "LANGUAGE",
        "LINES",
        "NO_COLOR",
        "SOURCE_DATE_EPOCH",
        "TERM",
        "TZ",
        # Projects
        "DATABASE_URL",
        "HOST",
        "NODE_ENV",
        "PORT",
        "RAILS_ENV",
        "REDIS_URL",
        # The network
        "ALL_PROXY",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "NO_PROXY",
        # Models
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_BEDROCK_BASE_URL",
        "ANTHROPIC_BETAS",
        "ANTHROPIC_CUSTOM_HEADERS",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL",
        "ANTHROPIC_DEFAULT_OPUS_MODEL",
        "ANTHROPIC_DEFAULT_SONNET_MODEL",
        "ANTHROPIC_FOUNDRY_BASE_URL",
        "ANTHROPIC_FOUNDRY_RESOURCE",
        "ANTHROPIC_MODEL",
        "ANTHROPIC_SMALL_FAST_MODEL",
        "ANTHROPIC_VERTEX_BASE_URL",
        "ANTHROPIC_VERTEX_PROJECT_ID",
        "API_TIMEOUT_MS",
        "AWS_ACCESS_KEY_ID",
        "AWS_BEARER_TOKEN_BEDROCK",
        "AWS_DEFAULT_REGION",
        "AWS_REGION",
        "AWS_SECRET_ACCESS_KEY",
        "CLOUD_ML_REGION",
        "GOOGLE_CLOUD_PROJECT",
        "MAX_THINKING_TOKENS",
        # The CLI's tools and reports
        "BASH_DEFAULT_TIMEOUT_MS",
        "BASH_MAX_OUTPUT_LENGTH",
        "BASH_MAX_TIMEOUT_MS",
        "DISABLE_AUTOUPDATER",
        "DISABLE_COST_WARNINGS",
        "DISABLE_ERROR_REPORTING",
        "DISABLE_NON_ESSENTIAL_MODEL_CALLS",
        "DISABLE_PROMPT_CACHING",
        "DISABLE_TELEMETRY",
        "ENABLE_TOOL_SEARCH",
        "MAX_MCP_OUTPUT_TOKENS",
        "MCP_TIMEOUT",
        "MCP_TOOL_TIMEOUT",
        "OTEL_LOGS_EXPORTER",
        "OTEL_METRICS_EXPORTER",
        "OTEL_RESOURCE_ATTRIBUTES",
        "OTEL_SERVICE_NAME",
        "OTEL_TRACES_EXPORTER",
        "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE",
        "CLAUDE_CODE_DISABLE_1M_CONTEXT",
        "CLAUDE_CODE_DISABLE_ADAPTIVE_THINKING",
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
        "CLAUDE_CODE_DISABLE_CLAUDE_MDS",
        "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS",
        "CLAUDE_CODE_DISABLE_FAST_MODE",
        "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "CLAUDE_CODE_DISABLE_THINKING",
        "CLAUDE_CODE_EFFORT_LEVEL",
        "CLAUDE_CODE_ENABLE_TELEMETRY",
        "CLAUDE_CODE_EXTRA_BODY",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
        "CLAUDE_CODE_SKIP_FOUNDRY_AUTH",
        "CLAUDE_CODE_SKIP_VERTEX_AUTH",
        "CLAUDE_CODE_SUBAGENT_MODEL",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_FOUNDRY",
        "CLAUDE_CODE_USE_VERTEX",
    }
)
HARMLESS_PREFIXES: Final = (
    "APP_",
    "CLAUDE_CODE_MAX_",
    "GIT_AUTHOR_",
    "GIT_COMMITTER_",
    "LC_",
    "MY_",
    "OTEL_EXPORTER_",
    "VERTEX_REGION_",
)
HARMLESS_ENDINGS: Final = ("_API_KEY", "_PASSWORD", "_SECRET", "_TOKEN")
"""Credentials, whatever they are for."""
OWN_PREFIXES: Final = ("CLAUDE", "PILOTHOUSE_")
"""Of these the ending of a name means nothing: only those pass that are listed."""

ELSEWHERE: Final = frozenset(
    {
        "ANTHROPIC_CONFIG_DIR",
        "APPDATA",
        "BUN_OPTIONS",
        "HOME",
        "LOCALAPPDATA",
        "NODE_OPTIONS",
        "PWD",
        "USERPROFILE",
        "XDG_CONFIG_DIRS",
        "XDG_CONFIG_HOME",
    }
)
"""Variables with which a CLI would find other settings, or be another program: while the gate is
open they are the only ones that are refused, beside our own."""
ELSEWHERE_PREFIXES: Final = ("LD_", "DYLD_")


def check_environment(
    wanted: SessionOptions, allowed: Sequence[str] = (), *, allow_bypass: bool = False
) -> None:
    """Refuse variables that are not known to be harmless; `allowed` are the operator's own."""
    passes = _is_no_others if allow_bypass else _is_harmless
    for where, names in (
        ("env", wanted.env),
        ("settings.env", as_object(as_object(wanted.settings).get("env"))),
    ):
        for name in names:
            if not passes(name.upper()) and not _is_allowed(name, allowed):
                raise InvalidOption(
                    f"{where} may not set {name}, which is not known to be harmless: it may decide "
                    "where a CLI finds its settings, or what runs; leave it out, set it where the "
                    f"server is started, or let the operator allow it: allowed_env = [{name!r}], "
                    f"or PILOTHOUSE_ALLOWED_ENV={name}"
                )


def _is_harmless(name: str) -> bool:
    if name in HARMLESS or name.startswith(HARMLESS_PREFIXES):
        return True
    return name.endswith(HARMLESS_ENDINGS) and not name.startswith(OWN_PREFIXES)


def _is_no_others(name: str) -> bool:
    if name.startswith(OWN_PREFIXES):
        return _is_harmless(name)
    return name not in ELSEWHERE and not name.startswith(ELSEWHERE_PREFIXES)


def _is_allowed(name: str, allowed: Sequence[str]) -> bool:
    """Whether the operator has named it, or how it begins, with a `*` behind that."""
    return any(
        name.startswith(each[:-1]) if each.endswith("*") else name == each for each in allowed
    )
