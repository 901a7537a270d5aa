/** A rule that fits one question and as little else as possible, in the policy's own words. */

import type { Question } from "../api/types";
import { rulesOf } from "./rules";
import { quoted } from "./toml";

const PATHS = ["file_path", "notebook_path", "path"];
/** More than one command, or something that a shell puts in: only `compound` allows these. */
const JOINED = /[;&|\n]/;
const PUT_IN = /[$`<>(){}#\\\r]/;

export interface Proposal {
  /** The whole text with the rule in it. */
  text: string;
  /** Its name. */
  name: string;
  /** The line it starts at, from 0, and how many it has. */
  line: number;
  lines: number;
}

/** Put a rule for this question where it counts: before the rule that decided, else behind all, a guard before all. */
export function proposeRule(question: Question, text: string): Proposal {
  const name = freeName(question, text);
  const action = actionFor(question);
  const own = [`[[rule]]`, `name = ${quoted(name)}`, ...conditions(question, action), `action = "${action}"`];
  if (action === "deny") own.push(`reason = ${quoted(denialReason(question))}`);
  return { ...inserted(text, own.join("\n") + "\n", question, action), name, lines: own.length };
}

/** As the question was answered; what needs words can only be denied or asked. */
function actionFor(question: Question): "allow" | "deny" | "ask" {
  const needsWords = question.kind === "questions" || question.kind === "elicitation";
  const wasRefused = ["deny", "reject_plan", "skip", "decline", "dismiss"].includes(question.answer?.kind ?? "");
  if (wasRefused && question.answered_by !== "policy") return "deny";
  return needsWords ? "ask" : "allow";
}

function denialReason(question: Question): string {
  const reason = question.answer && "reason" in question.answer ? question.answer.reason : "";
  return reason || "This is for people to do.";
}

function freeName(question: Question, text: string): string {
  const rules = rulesOf(text);
  const taken = new Set(rules instanceof Error ? [] : rules.map((rule) => rule.name));
  const wanted = shortName(question).replace(/\s+/g, " ").trim().slice(0, 60) || "new rule";
  for (let count = 1; ; count++) {
    const name = count === 1 ? wanted : `${wanted} ${count}`;
    if (!taken.has(name)) return name;
  }
}

/** `Bash make test`, `Write hello.txt`, `WebFetch example.org`; else the question's own title. */
function shortName(question: Question): string {
  const input = question.input ?? {};
  const path = PATHS.map((member) => input[member]).find((each) => typeof each === "string") as string | undefined;
  const host = typeof input.url === "string" ? hostOf(input.url) : null;
  const what = typeof input.command === "string" ? input.command : (path?.split("/").at(-1) ?? host);
  return question.kind === "tool" && question.tool_name && what ? `${question.tool_name} ${what}` : question.title;
}

function conditions(question: Question, action: string): string[] {
  const lines: string[] = [];
  if (question.kind !== "tool") lines.push(`kind = "${question.kind}"`);
  const tool = question.tool_name ?? (question.server_name ? `mcp__${question.server_name}` : null);
  if (tool) lines.push(`tool = ${quoted(glob(tool))}`);
  if (question.kind === "tool") lines.push(...inputConditions(question, action));
  if (question.cwd) lines.push(`directory = ${quoted(glob(question.cwd))}`);
  return lines;
}

function inputConditions(question: Question, action: string): string[] {
  const input = question.input ?? {};
  if (typeof input.command === "string") return commandConditions(input.command, action);
  const paths = PATHS.map((member) => input[member]).filter((each): each is string => typeof each === "string");
  if (question.tool_name === "Glob" && !paths.length) return [`path = "**"`];
  if (paths.length) return [`path = ${listed(pathPatterns(question, paths))}`];
  const host = typeof input.url === "string" ? hostOf(input.url) : null;
  return host ? [`domain = ${quoted(host)}`] : [];
}

/** A search looks below its folder as well. */
function pathPatterns(question: Question, paths: readonly string[]): string[] {
  const patterns = paths.map((path) => glob(relative(path, question.cwd)));
  return question.tool_name === "Glob" ? patterns.flatMap((each) => [each, `${each.replace(/\/$/, "")}/**`]) : patterns;
}

function commandConditions(command: string, action: string): string[] {
  const line = `command = ${quoted(glob(command))}`;
  if (action !== "allow") return [line];
  if (PUT_IN.test(command)) return [line, `compound = "whole"`];
  if (!JOINED.test(command)) return [line];
  const parts = command.split(/&&|\|\||[;|&\n]/).map((each) => each.trim()).filter(Boolean);
  // Quotes may hold what looks like an end of a command: then the text as it stands is certain.
  if (/['"]/.test(command)) return [line, `compound = "whole"`];
  return [`command = ${listed(parts.map(glob))}`, "compound = true"];
}

function relative(path: string, cwd: string | null | undefined): string {
  return cwd && path.startsWith(cwd.replace(/\/?$/, "/")) ? path.slice(cwd.replace(/\/?$/, "/").length) : path;
}

function hostOf(url: string): string | null {
  try {
    return new URL(url).hostname || null;
  } catch {
    return null;
  }
}

/** The text itself as a pattern: what means something in one stands in brackets. */
function glob(text: string): string {
  const escaped = text.replace(/[*?[]/g, "[$&]");
  return escaped.startsWith("re:") ? `[r]${escaped.slice(1)}` : escaped;
}

function listed(texts: readonly string[]): string {
  return texts.length === 1 ? quoted(texts[0]!) : `[${texts.map(quoted).join(", ")}]`;
}

function inserted(text: string, rule: string, question: Question, action: string): { text: string; line: number } {
  const read = rulesOf(text);
  const rules = read instanceof Error ? [] : read;
  const before = rules.find((each) => each.name === question.rule || action === "deny");
  if (!before) {
    const kept = text.trim() ? text.replace(/\s*$/, "\n\n") : "";
    return { text: kept + rule, line: kept.split("\n").length - 1 };
  }
  const lines = text.split("\n");
  const at = startWithComments(lines, before.line);
  return { text: [...lines.slice(0, at), ...rule.split("\n"), ...lines.slice(at)].join("\n"), line: at };
}

/** The comment above a rule is the rule's. */
function startWithComments(lines: readonly string[], line: number): number {
  let at = line;
  while (at > 0 && lines[at - 1]!.trimStart().startsWith("#")) at--;
  return at;
}
