/** A call of a tool in a few words: its name, and what it is about. */

import type { TodoView, ToolItem } from "../api/types";
import { lookUp } from "../ui/lookup";

const MCP = "mcp__";

export function toolName(tool: string): string {
  if (!tool.startsWith(MCP)) return lookUp(NAMES, tool) ?? tool;
  const [server, ...rest] = tool.slice(MCP.length).split("__");
  return rest.length ? `${server}: ${rest.join("__")}` : tool;
}

const NAMES: Record<string, string> = {
  AskUserQuestion: "Question",
  BashOutput: "Output of a command",
  ExitPlanMode: "Plan",
  KillShell: "Stop a command",
  StructuredOutput: "Structured output",
  TodoWrite: "To do",
  WebFetch: "Fetch",
  WebSearch: "Web search",
};

/** What the call does, in one line; `places` are directories that paths are shown without. */
export function toolDetail(item: ToolItem, places: string): string {
  const { view } = item;
  switch (view?.view) {
    case "command":
      return firstLine(view.command);
    case "diff":
    case "file":
      return shortPath(view.path, places);
    case "image":
      return shortPath(view.path ?? "", places);
    case "search":
      return view.pattern + (view.where ? ` in ${shortPath(view.where, places)}` : "");
    case "web":
      return view.url || view.query || "";
    case "todo":
      return todoDetail(view);
    case "plan":
      return firstLine(view.plan.replace(/^#+\s*/, ""));
    case "choice":
      return questionsOf(item);
    default:
      return firstWords(item.input ?? {}, places);
  }
}

/** Whether the detail is something for machines, shown in their type. */
export function isCode(item: ToolItem): boolean {
  const view = item.view?.view;
  return view === "command" || view === "diff" || view === "file" || view === "image" || view === "search";
}

export function shortPath(path: string, places: string): string {
  for (const place of places ? places.split("\n") : []) {
    if (path === place) return ".";
    if (path.startsWith(`${place}/`)) return path.slice(place.length + 1);
  }
  return path;
}

function todoDetail(view: TodoView): string {
  const todos = view.todos ?? [];
  const done = todos.filter((todo) => todo.state === "completed").length;
  const current = todos.find((todo) => todo.state === "in_progress");
  return `${done} of ${todos.length} done${current ? `, now: ${current.text}` : ""}`;
}

function questionsOf(item: ToolItem): string {
  const asked = item.input?.questions;
  const first = Array.isArray(asked) ? (asked[0] as { question?: unknown } | undefined)?.question : undefined;
  return typeof first === "string" ? first : "";
}

/** The member that says most of an input that has no view of its own. */
const TELLING = ["description", "skill", "command", "file_path", "path", "query", "url", "pattern", "prompt", "name"];

function firstWords(input: Record<string, unknown>, places: string): string {
  const named = TELLING.map((name) => input[name]).find(isText);
  const found = named ?? Object.values(input).find(isText);
  return found ? shortPath(firstLine(found), places) : "";
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

/** Nobody reads a line of thousands of characters, and the browser would lay it out. */
const LONGEST = 300;

export function firstLine(text: string): string {
  const line = text.trimStart().split("\n", 1)[0]!;
  return line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line;
}
