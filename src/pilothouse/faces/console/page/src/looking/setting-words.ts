/** What each setting is for, in a line, and the group it is shown in. */

import { span } from "../ui/time";

export interface Setting {
  name: string;
  value: unknown;
  source: string;
}

/** Group, then name and words. What a newer server has besides is shown without words. */
const WORDS: Record<string, Record<string, string>> = {
  Sessions: {
    cli_path: "The Claude Code CLI to run.",
    max_sessions: "How many CLIs may be alive at once. An idle one is closed to make room.",
    idle_close_s: "After how many idle seconds a CLI is closed; the next message resumes it. 0 is never.",
    permission_timeout_ms: "How long a question stays open before it expires and the tool is denied; 0 is for ever.",
    simulate: "Whether sessions run on the simulator: auto where no CLI or no credential is found.",
    partials: "Whether CLIs send their text in pieces while the model writes it.",
    relays: "Whether CLIs run behind relays and go on while the server is down.",
  },
  "What is allowed": {
    policy_file: "The rules that answer questions before a person is asked.",
    allow_bypass: "Whether any session may bypass permissions.",
    allowed_roots: "The folders in and below which sessions may work.",
    allowed_env: "Variables that callers may give their sessions, besides those known to be harmless.",
    controls: "Control requests of the CLI that callers may send, besides those that are allowed anyway.",
    session_cap_usd: "What a session may cost, in dollars, before its next turn is refused.",
    day_cap_usd: "What all sessions of a day may cost, in dollars, before the next turn is refused.",
  },
  Network: {
    host: "The address to listen on.",
    port: "The port to listen on.",
    hosts: "Other names by which requests may call the server.",
    origins: "Other origins whose pages may use the server.",
    tls_cert: "The certificate chain to serve https with.",
    tls_key: "The certificate's key, if it is not in the same file.",
    insecure: "Whether to listen beyond loopback without TLS.",
    body_limit: "The largest request, in bytes.",
  },
  "Files and journal": {
    state_dir: "Where the journal, the token and the background server's log are.",
    runtime_dir: "Where a running server leaves its address and its lock.",
    claude_config_dir: "Where the CLI keeps its transcripts, and servers their locks on sessions.",
    retention_days: "After how many days at rest a session is removed from the journal; 0 keeps everything.",
    event_buffer_size: "How many events one call returns at most.",
  },
  Machines: {
    runner_lost_s: "After how many seconds without a connection a machine counts as lost.",
    last_will_s: "After how many seconds without any server a relay ends its CLI in order.",
    spool_limit: "How many bytes a relay keeps for a server that is away.",
  },
  "Log and server": {
    log_level: "The least that is logged, on stderr.",
    log_format: "How it is logged: one JSON object a line, or plain text.",
    otel_endpoint: "Where to send OpenTelemetry traces.",
    server_idle_s: "After how many seconds without work a server that was started in the background ends. 0 is never.",
  },
  MCP: {
    mcp_answers: "Who may answer questions over MCP: anyone, or only a person in a form.",
    mcp_model: "The model of sessions whose caller names none.",
    mcp_mode: "The permission mode of sessions whose caller names none.",
    mcp_allowed_tools: "Tools that need no approval, where the caller names none.",
    mcp_disallowed_tools: "Tools that are blocked, where the caller names none.",
  },
};

const ALL: Record<string, string> = Object.assign({}, ...Object.values(WORDS));

type Group = [name: string, isIn: (setting: string) => boolean];

export const GROUPS: readonly Group[] = [
  ...Object.entries(WORDS).map(([group, own]): Group => [group, (setting) => Object.hasOwn(own, setting)]),
  ["Others", (setting) => !Object.hasOwn(ALL, setting)],
];

export function wordsOf(name: string): string {
  return Object.hasOwn(ALL, name) ? ALL[name]! : "";
}

/** A value with its unit, where the name tells it. */
export function shownValue(setting: Setting): string {
  const { name, value } = setting;
  if (value === null || (Array.isArray(value) && !value.length)) return "none";
  if (Array.isArray(value)) return value.join(", ");
  if (typeof value !== "number") return String(value);
  if (name.endsWith("_s") && value >= 60) return `${value} s (${span(value * 1000)})`;
  if (name.endsWith("_s")) return `${value} s`;
  if (name.endsWith("_ms")) return `${value} ms`;
  if (name.endsWith("_usd")) return `$${value}`;
  if (name.endsWith("_days")) return `${value} d`;
  if (name.endsWith("_limit")) return `${value.toLocaleString()} bytes (${Math.round(value / 1_048_576)} MiB)`;
  return String(value);
}
