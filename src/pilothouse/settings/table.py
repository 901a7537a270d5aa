"""Every setting, in one table: its name, its variable, its default and what it does."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from .kinds import (
    ORIGINS,
    PATH,
    PATHS,
    PROGRAM,
    SWITCH,
    TEXT,
    URL,
    WORDS,
    ValueKind,
    claude_folder,
    in_config,
    number,
    one_of,
    optional,
    state_folder,
    whole,
)

__all__ = ["ROWS", "TABLE", "Setting", "reference"]


class Setting(NamedTuple):
    """One row of the table."""

    name: str
    variable: str
    kind: ValueKind
    default: Any
    """A value, or for a place a function of the environment."""
    doc: str
    default_text: str = ""


TABLE: Final[tuple[Setting, ...]] = (
    Setting(
        "cli_path",
        "CLAUDE_CODE_PATH",
        PROGRAM,
        None,
        "The Claude Code CLI to run. One that is named and not there is an error.",
        "the one on `PATH`, or where its installers put it",
    ),
    Setting(
        "permission_timeout_ms",
        "PERMISSION_TIMEOUT_MS",
        whole(0),
        0,
        "How long a question stays open before it expires and the tool is denied; 0 is forever. "
        "Time in which the server is down does not count.",
    ),
    Setting(
        "max_sessions",
        "MAX_SESSIONS",
        whole(1),
        10,
        "How many CLIs may be alive at once. An idle one is closed to make room.",
    ),
    Setting(
        "log_level",
        "LOG_LEVEL",
        one_of("debug", "info", "warning", "error", warn="warning"),
        "info",
        "The least that is logged, on stderr. `warn` is `warning`.",
    ),
    Setting(
        "log_format",
        "PILOTHOUSE_LOG_FORMAT",
        one_of("auto", "json", "text"),
        "auto",
        "How it is logged: one JSON object a line, or plain text; `auto` is text where stderr is a "
        "terminal, and JSON elsewhere.",
    ),
    Setting(
        "event_buffer_size",
        "EVENT_BUFFER_SIZE",
        whole(1),
        500,
        "How many events one call returns at most (`GET /api/events`), and how many of the newest "
        "ones a status looks through for the lines of output it was asked for.",
    ),
    Setting(
        "host",
        "PILOTHOUSE_HOST",
        TEXT,
        "127.0.0.1",
        "The address to listen on. One that is not loopback needs `tls_cert`, or `insecure`.",
    ),
    Setting(
        "port",
        "PILOTHOUSE_PORT",
        whole(0, 65535),
        8137,
        "The port to listen on; 0 is any free one.",
    ),
    Setting(
        "allow_bypass",
        "PILOTHOUSE_ALLOW_BYPASS",
        SWITCH,
        False,
        "Whether any session may bypass permissions: the one gate for every way to it.",
    ),
    Setting(
        "allowed_roots",
        "PILOTHOUSE_ALLOWED_ROOTS",
        PATHS,
        (),
        "The folders in and below which sessions may work.",
        "any folder",
    ),
    Setting(
        "allowed_env",
        "PILOTHOUSE_ALLOWED_ENV",
        WORDS,
        (),
        "Variables that callers may give their sessions, besides those known to be harmless; "
        "`BOAT_*` is every one that begins so. A variable can decide which program runs.",
        "none more",
    ),
    Setting(
        "idle_close_s",
        "PILOTHOUSE_IDLE_CLOSE_S",
        number(0),
        1800.0,
        "After how many idle seconds a CLI is closed; the next message resumes it. 0 is never.",
    ),
    Setting(
        "server_idle_s",
        "PILOTHOUSE_SERVER_IDLE_S",
        number(0),
        900.0,
        "After how many seconds without a live session, an open question, a watcher or a request "
        "a server that was started in the background ends itself. 0 is never.",
    ),
    Setting(
        "relays",
        "PILOTHOUSE_RELAYS",
        SWITCH,
        True,
        "Whether a server's CLIs run behind relays and go on while it is down. Without them they "
        "end with it.",
    ),
    Setting(
        "last_will_s",
        "PILOTHOUSE_LAST_WILL_S",
        number(1),
        86400.0,
        "After how many seconds without any server a relay ends its CLI in order.",
    ),
    Setting(
        "spool_limit",
        "PILOTHOUSE_SPOOL_LIMIT",
        whole(1024 * 1024),
        1024 * 1024 * 1024,
        "How many bytes a relay keeps for a server that is away. It reads on once there is room.",
    ),
    Setting(
        "runner_lost_s",
        "PILOTHOUSE_RUNNER_LOST_S",
        number(0),
        30.0,
        "After how many seconds without a connection a runner counts as lost.",
    ),
    Setting(
        "state_dir",
        "PILOTHOUSE_STATE_DIR",
        PATH,
        state_folder,
        "Where the journal, the token and the background server's log are.",
        "`$XDG_STATE_HOME/pilothouse`, else `~/.local/state/pilothouse`",
    ),
    Setting(
        "runtime_dir",
        "PILOTHOUSE_RUNTIME_DIR",
        PATH,
        None,
        "Where a running server leaves its address and its lock.",
        "`$XDG_RUNTIME_DIR/pilothouse`, else `run` in `state_dir`",
    ),
    Setting(
        "claude_config_dir",
        "CLAUDE_CONFIG_DIR",
        PATH,
        claude_folder,
        "Where the CLI keeps its transcripts, and engines their locks on sessions.",
        "`~/.claude`",
    ),
    Setting(
        "policy_file",
        "PILOTHOUSE_POLICY_FILE",
        PATH,
        in_config("policy.toml"),
        "The rules that answer questions before a person is asked.",
        "`$XDG_CONFIG_HOME/pilothouse/policy.toml`, else `~/.config/pilothouse/policy.toml`",
    ),
    Setting(
        "retention_days",
        "PILOTHOUSE_RETENTION_DAYS",
        whole(0),
        90,
        "After how many days at rest a session is removed from the journal; 0 keeps everything.",
    ),
    Setting(
        "session_cap_usd",
        "PILOTHOUSE_SESSION_CAP_USD",
        optional(number(0)),
        None,
        "What a session may cost, in dollars, before its next turn is refused.",
    ),
    Setting(
        "day_cap_usd",
        "PILOTHOUSE_DAY_CAP_USD",
        optional(number(0)),
        None,
        "What all sessions of a day may cost, in dollars, before the next turn is refused.",
    ),
    Setting(
        "body_limit",
        "PILOTHOUSE_BODY_LIMIT",
        whole(1024),
        20 * 1024 * 1024,
        "The largest request, in bytes. Prompts carry images.",
    ),
    Setting(
        "hosts",
        "PILOTHOUSE_HOSTS",
        WORDS,
        (),
        "Other names by which requests may call the server.",
        "loopback, and `host`",
    ),
    Setting(
        "origins",
        "PILOTHOUSE_ORIGINS",
        ORIGINS,
        (),
        "Other origins whose pages may use the server.",
        "its own alone",
    ),
    Setting(
        "tls_cert",
        "PILOTHOUSE_TLS_CERT",
        optional(PATH),
        None,
        "The certificate chain to serve https with, as PEM.",
    ),
    Setting(
        "tls_key",
        "PILOTHOUSE_TLS_KEY",
        optional(PATH),
        None,
        "The certificate's key, as PEM, if it is not in the same file.",
    ),
    Setting(
        "insecure",
        "PILOTHOUSE_INSECURE",
        SWITCH,
        False,
        "Whether to listen beyond loopback without TLS: everybody on the way can read the token.",
    ),
    Setting(
        "otel_endpoint",
        "PILOTHOUSE_OTEL_ENDPOINT",
        optional(URL),
        None,
        "Where to send OpenTelemetry traces (OTLP over HTTP).",
    ),
    Setting(
        "simulate",
        "PILOTHOUSE_SIMULATE",
        one_of("auto", "always", "never"),
        "auto",
        "Whether sessions run on the simulator: `auto` where no CLI or no credential is found.",
    ),
    Setting(
        "partials",
        "PILOTHOUSE_PARTIALS",
        SWITCH,
        True,
        "Whether CLIs send their text in pieces while the model writes it.",
    ),
    Setting(
        "controls",
        "PILOTHOUSE_CONTROLS",
        WORDS,
        (),
        "Control requests of the CLI that callers may send, besides those that are allowed anyway.",
        "none more",
    ),
    Setting(
        "mcp_answers",
        "PILOTHOUSE_MCP_ANSWERS",
        one_of("anyone", "person"),
        "anyone",
        "Who may answer questions over MCP: `anyone` who calls `claude_respond`, or only a "
        "`person`, in a form that the MCP client shows. With `person` no caller can allow "
        "beforehand what a person would be asked about, either.",
    ),
    Setting(
        "mcp_model",
        "PILOTHOUSE_MCP_MODEL",
        optional(TEXT),
        None,
        "For `pilothouse mcp`: the model of sessions whose caller names none.",
        "the CLI's own",
    ),
    Setting(
        "mcp_mode",
        "PILOTHOUSE_MCP_MODE",
        optional(
            one_of(
                *("default", "acceptEdits", "plan", "bypassPermissions", "auto", "dontAsk"),
                acceptedits="acceptEdits",
                bypasspermissions="bypassPermissions",
                dontask="dontAsk",
            )
        ),
        None,
        "For `pilothouse mcp`: the permission mode of sessions whose caller names none.",
        "the CLI's own",
    ),
    Setting(
        "mcp_allowed_tools",
        "PILOTHOUSE_MCP_ALLOWED_TOOLS",
        WORDS,
        (),
        "For `pilothouse mcp`: tools that need no approval, where the caller names none.",
        "none",
    ),
    Setting(
        "mcp_disallowed_tools",
        "PILOTHOUSE_MCP_DISALLOWED_TOOLS",
        WORDS,
        (),
        "For `pilothouse mcp`: tools that are blocked, where the caller names none.",
        "none",
    ),
)
ROWS: Final = {row.name: row for row in TABLE}


def reference() -> str:
    """The table as Markdown, for the documentation."""
    head = "| setting | variable | default | takes | what |\n|---|---|---|---|---|\n"
    return head + "".join(f"| {' | '.join(_cells(row))} |\n" for row in TABLE)


def _cells(row: Setting) -> tuple[str, ...]:
    default = row.default_text or ("none" if row.default is None else f"`{_plain(row)}`")
    return (f"`{row.name}`", f"`{row.variable}`", default, row.kind.allowed, row.doc)


def _plain(row: Setting) -> str:
    default = row.default
    return f"{default:g}" if isinstance(default, float) else row.kind.write(default)
