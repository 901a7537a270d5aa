/** The rules of a policy as people read them, by the names that the server gives them. */

import { readEntries, type TomlTable, type TomlValue } from "./toml";

export interface Rule {
  name: string;
  action: string;
  reason: string;
  /** What must hold, each with the values of which one is enough. */
  conditions: [member: string, values: string[]][];
  /** The line of its header, from 0. */
  line: number;
}

const WHAT = ["tool", "command", "path", "url", "domain", "input", "kind"];
const WHERE = ["directory", "label", "mode"];
/** A name that is made of conditions has so many characters of them. */
const SHORT = 60;

/** The rules of a text, or why they cannot be shown. */
export function rulesOf(text: string): Rule[] | Error {
  try {
    return readEntries(text)
      .filter((each) => each.name === "rule")
      .map((each, at) => ruleOf(each.table, at + 1, each.line));
  } catch (error) {
    return error as Error;
  }
}

function ruleOf(table: TomlTable, number: number, line: number): Rule {
  const conditions = [...WHAT, ...WHERE].flatMap((member) => conditionsOf(member, table[member]));
  if (table.compound !== undefined && table.compound !== false) conditions.push(["compound", [String(table.compound)]]);
  return {
    name: typeof table.name === "string" ? table.name : madeName(table, number),
    action: String(table.action ?? ""),
    reason: String(table.reason ?? ""),
    conditions,
    line,
  };
}

function conditionsOf(member: string, value: TomlValue | undefined): [string, string[]][] {
  if (value === undefined) return [];
  if (Array.isArray(value)) return [[member, value.map(String)]];
  if (typeof value !== "object") return [[member, [String(value)]]];
  return Object.entries(value).flatMap(([key, inner]) => conditionsOf(`${member}.${key}`, inner));
}

/** As the server calls a rule without a name, so that its decisions can be counted. */
function madeName(table: TomlTable, number: number): string {
  const shown = [...WHAT, ...WHERE].flatMap((member) => shownOf(table[member]));
  const words = shown.join(", ").split(/\s+/).filter(Boolean).join(" ");
  const short = words.length <= SHORT ? words : words.slice(0, SHORT - 3) + "...";
  return short ? `rule ${number} (${short})` : `rule ${number}`;
}

function shownOf(value: TomlValue | undefined): string[] {
  if (value === undefined) return [];
  if (Array.isArray(value)) return value.map(String);
  if (typeof value !== "object") return [String(value)];
  return Object.entries(value).map(([key, each]) => `${key}=${typeof each === "string" ? each : pythonText(each)}`);
}

/** As Python prints a value: so it stands in the name. */
function pythonText(value: TomlValue): string {
  if (typeof value === "string") return pythonString(value);
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(pythonText).join(", ")}]`;
  if (typeof value !== "object") return String(value);
  return `{${Object.entries(value).map(([key, each]) => `${pythonText(key)}: ${pythonText(each)}`).join(", ")}}`;
}

function pythonString(text: string): string {
  return /^[^"]*'[^"]*$/.test(text) ? `"${text}"` : `'${text.replaceAll("'", "\\'")}'`;
}
