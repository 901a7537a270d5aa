/** Items as text: for the clipboard and for the export. */

import type { ToolItem, TurnItem } from "../api/types";
import type { Item } from "../state/conversation";
import { money } from "../ui/time";
import { toolDetail, toolName } from "./tool-summary";

/** The item in Markdown. */
export function markdownOf(item: Item): string {
  switch (item.kind) {
    case "prompt":
      return item.text ?? "";
    case "text":
    case "thinking":
      return item.text ?? "";
    case "tool":
      return toolText(item);
    case "question":
      return `${item.question.title} (${item.question.state})`;
    case "turn":
      return turnText(item);
    case "compaction":
      return `The conversation was summarised.\n\n${item.summary ?? ""}`.trim();
    case "retry":
      return `The API failed: ${item.error ?? ""} (attempt ${item.attempt ?? 0})`;
    case "limit":
      return `Rate limit ${item.limit ?? ""}: ${item.status ?? ""}`;
    case "sign_in":
      return ["Signing in", ...(item.output ?? []), item.error ?? ""].filter(Boolean).join("\n");
    case "hook":
      return `Hook ${item.name ?? item.event ?? ""}: ${item.outcome ?? item.state ?? ""}\n${item.output ?? ""}`.trim();
    case "files":
      return (item.files ?? []).join("\n");
    case "notice":
      return item.text ?? "";
    case "gap":
      return `Something is missing here: ${item.reason ?? ""}`;
    default:
      return "";
  }
}

function toolText(item: ToolItem): string {
  const head = `**${toolName(item.tool)}** ${toolDetail(item, "")}`.trim();
  const parts = [head, ...givenText(item)];
  const { view, state = "running" } = item;
  const output = view?.view === "command" ? [view.output, view.errors].filter(Boolean).join("\n") : item.result;
  if (output) parts.push(fenced(output));
  if (state !== "done" && state !== "running") parts.push(`(${state}${item.reason ? `: ${item.reason}` : ""})`);
  return parts.join("\n\n");
}

function givenText(item: ToolItem): string[] {
  const { view } = item;
  if (view?.view === "command") return [fenced(view.command, "bash")];
  if (view?.view === "plan") return [view.plan];
  if (view?.view === "diff") return [fenced((view.hunks ?? []).flatMap((hunk) => hunk.lines ?? []).join("\n"), "diff")];
  const input = item.input ?? {};
  return Object.keys(input).length ? [fenced(JSON.stringify(input, null, 2), "json")] : [];
}

function turnText(item: TurnItem): string {
  const cost = item.cost_usd ? `, ${money(item.cost_usd)}` : "";
  return `Turn ${item.outcome ?? "finished"}${cost}${item.error ? `: ${item.error}` : ""}`;
}

/** A fence that is longer than any in the text. */
export function fenced(text: string, language = ""): string {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map((found) => found[0].length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text.replace(/\n$/, "")}\n${fence}`;
}
