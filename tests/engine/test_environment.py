"""Which variables a caller may give a CLI."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse.api.requests import SessionOptions
from pilothouse.engine.environment import (
    HARMLESS,
    HARMLESS_ENDINGS,
    HARMLESS_PREFIXES,
    check_environment,
)
from pilothouse.errors import InvalidOption

ELSEWHERE = [
    *("CLAUDE_CONFIG_DIR", "HOME", "XDG_CONFIG_HOME", "USERPROFILE", "PWD", "Home"),
    *("CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_REMOTE", "CLAUDE_CODE_SIMPLE", "CLAUDECODE"),
    *("CLAUDE_CODE_MANAGED_SETTINGS_PATH", "CLAUDE_CODE_PLUGIN_DIRS", "CLAUDE_BG_SOURCE"),
    *("LD_PRELOAD", "NODE_OPTIONS", "BUN_OPTIONS", "PILOTHOUSE_SCENARIO", "PILOTHOUSE_TOKEN"),
    *("DYLD_INSERT_LIBRARIES", "CLAUDE_CODE_SESSION_ACCESS_TOKEN", "CLAUDE_CODE_SHELL"),
]
CODE = [
    *("PATH", "Path", "SHELL", "BASH_ENV", "ENV", "PROMPT_COMMAND", "PS4", "IFS", "TMPDIR"),
    *("ZDOTDIR", "BASH_FUNC_ls%%", "SHELLOPTS", "BASHOPTS", "CDPATH", "COMSPEC", "NODE_PATH"),
    *("NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED", "NODE_REPL_EXTERNAL_MODULE"),
    *("BUN_INSPECT_PRELOAD", "BUN_CONFIG_REGISTRY", "BUN_INSTALL", "npm_config_script_shell"),
    *("NPM_CONFIG_USERCONFIG", "DENO_DIR", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS"),
    *("GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_EXEC_PATH", "GIT_PAGER", "SSH_ASKPASS"),
    *("PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PERL5LIB", "PERL5OPT", "RUBYOPT", "RUBYLIB"),
    *("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH", "MAKEFLAGS", "CC"),
    *("EDITOR", "VISUAL", "PAGER", "MANPAGER", "LESSOPEN", "BROWSER", "GCONV_PATH", "LOCPATH"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "OPENSSL_CONF", "PIP_INDEX_URL", "RIPGREP_CONFIG_PATH"),
    *("AWS_CONFIG_FILE", "GOOGLE_APPLICATION_CREDENTIALS", "DOTNET_STARTUP_HOOKS", "FOO"),
]
"""What some program takes for code, or for where it is, and what nobody knows."""


@pytest.mark.parametrize("name", ELSEWHERE + CODE)
def test_only_what_is_known_to_be_harmless_passes(name: str) -> None:
    with pytest.raises(InvalidOption, match=f"env may not set {name},.*leave it out"):
        check_environment(SessionOptions(env={name: "x"}))
    with pytest.raises(InvalidOption, match=rf"settings\.env may not set {name}"):
        check_environment(SessionOptions(settings={"env": {name: "x"}}))


def test_ordinary_variables_are_free() -> None:
    names = ["LANG", "LC_ALL", "IS_SANDBOX", "MY_TOKEN", "ANTHROPIC_BASE_URL", "HTTPS_PROXY"]
    names += ["CLAUDE_CODE_MAX_OUTPUT_TOKENS", "CLAUDE_CODE_USE_BEDROCK", "BASH_MAX_TIMEOUT_MS"]
    names += ["https_proxy", "GITHUB_TOKEN", "OPENAI_API_KEY", "DATABASE_URL", "APP_ENV"]
    check_environment(SessionOptions(env=dict.fromkeys(names, "1"), settings={"env": None}))


def test_the_operator_allows_more() -> None:
    wanted = SessionOptions(env={"FOO": "x", "BOAT_NAME": "y"}, settings={"env": {"FOO": "z"}})
    check_environment(wanted, ("FOO", "BOAT_*"))
    with pytest.raises(InvalidOption, match="PILOTHOUSE_ALLOWED_ENV=BOAT_NAME"):
        check_environment(wanted, ("FOO", "BOAT_", "BOAT"))
    with pytest.raises(InvalidOption, match=r"allowed_env = \['FOO'\]"):
        check_environment(wanted, ("FO", "BOAT_*"))


def test_behind_an_open_gate_only_other_settings_are_refused() -> None:
    free = SessionOptions(env=dict.fromkeys(("PATH", "FOO", "EDITOR"), "x"))
    check_environment(free, allow_bypass=True)
    for name in ELSEWHERE:
        with pytest.raises(InvalidOption):
            check_environment(SessionOptions(env={name: "x"}), allow_bypass=True)


def test_what_passes_is_documented() -> None:
    told = (Path(__file__).parents[2] / "docs" / "howto-sessions.md").read_text()
    listed = [*sorted(HARMLESS), *HARMLESS_PREFIXES, *HARMLESS_ENDINGS]
    assert [each for each in listed if f"`{each}`" not in told] == []
