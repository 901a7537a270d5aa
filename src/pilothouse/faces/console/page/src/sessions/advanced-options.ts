/** The options of a session that few need: how each is typed, and what it becomes. */

import type { SessionOptions } from "../api/types";

export type Kind = "text" | "long" | "number" | "lines" | "pairs" | "json" | "check" | "choice";

export interface OptionField {
  member: keyof SessionOptions;
  name: string;
  kind: Kind;
  note?: string;
  choices?: readonly string[];
}

export const OPTION_FIELDS: readonly OptionField[] = [
  { member: "effort", name: "Effort", kind: "choice", choices: ["low", "medium", "high", "xhigh", "max"] },
  { member: "fallback_model", name: "Fallback model", kind: "text", note: "Used while the model is overloaded" },
  { member: "max_thinking_tokens", name: "Most thinking tokens", kind: "number" },
  { member: "max_turns", name: "Most steps in a turn", kind: "number" },
  { member: "max_budget_usd", name: "Budget within a turn, USD", kind: "number", note: "The CLI stops in the middle of a turn once it is spent" },
  { member: "allowed_tools", name: "Allowed tools", kind: "lines", note: "One rule a line: Bash(git:*)" },
  { member: "disallowed_tools", name: "Forbidden tools", kind: "lines", note: "One rule a line" },
  { member: "tools", name: "Tools it has at all", kind: "lines", note: "One a line; all if left empty" },
  { member: "add_dirs", name: "Further directories", kind: "lines", note: "One absolute path a line" },
  { member: "append_system_prompt", name: "Added to the system prompt", kind: "long" },
  { member: "system_prompt", name: "In place of the system prompt", kind: "long" },
  { member: "permission_timeout_ms", name: "Questions expire after, ms", kind: "number", note: "0: never" },
  { member: "env", name: "Environment", kind: "pairs", note: "One NAME=value a line" },
  { member: "mcp_servers", name: "MCP servers", kind: "json", note: "JSON: {\"name\": {\"command\": \"...\"}}" },
  { member: "strict_mcp_config", name: "Only these MCP servers", kind: "check" },
  { member: "setting_sources", name: "Settings to read", kind: "lines", note: "user, project, local; one a line" },
  { member: "settings", name: "Settings", kind: "json", note: "JSON" },
  { member: "agents", name: "Agents", kind: "json", note: "JSON: {\"name\": {\"description\": \"...\", \"prompt\": \"...\"}}" },
  { member: "json_schema", name: "Schema of the result", kind: "json", note: "JSON Schema" },
  { member: "via", name: "Reached by", kind: "choice", choices: ["relay", "stdio", "sdk-url", "sdk-url-hybrid"] },
  { member: "flags", name: "Flags of the CLI", kind: "pairs", note: "One name=value a line, a name alone for a switch" },
  { member: "persist_session", name: "Keep no transcript", kind: "check", note: "Nothing can go on with the session once its CLI has ended" },
  { member: "simulate_in_cwd", name: "On the simulator, work in the directory itself", kind: "check" },
];

/** What was typed, by member. */
export type Typed = Record<string, string>;

/** The options that were typed, or what is wrong with them, by member. */
export function optionsOf(typed: Typed): { options: SessionOptions; wrong: Record<string, string> } {
  const options: Record<string, unknown> = {};
  const wrong: Record<string, string> = {};
  for (const field of OPTION_FIELDS) {
    const text = typed[field.member]?.trim();
    if (!text) continue;
    try {
      options[field.member] = read(field, text);
    } catch (error) {
      wrong[field.member] = (error as Error).message;
    }
  }
  return { options: options as SessionOptions, wrong };
}

function read(field: OptionField, text: string): unknown {
  switch (field.kind) {
    case "number":
      if (!Number.isFinite(Number(text))) throw new Error("This is not a number");
      return Number(text);
    case "lines":
      return text.split("\n").map((line) => line.trim()).filter(Boolean);
    case "pairs":
      return Object.fromEntries(text.split("\n").filter((line) => line.trim()).map(pair));
    case "json":
      return parse(text);
    case "check":
      // The form asks what the option denies.
      return field.member !== "persist_session";
    default:
      return text;
  }
}

function pair(line: string): [string, string | null] {
  const at = line.indexOf("=");
  return at < 0 ? [line.trim(), null] : [line.slice(0, at).trim(), line.slice(at + 1)];
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`This is not JSON: ${(error as Error).message}`);
  }
}
