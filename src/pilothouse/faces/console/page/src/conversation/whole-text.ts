/** What was left out of items: their whole texts, from the lines that they were made of. */

import type { ConversationPage, Hunk, ItemSource, ToolItem } from "../api/types";
import type { Item } from "../state/conversation";
import { hunkOf, linesOf, objectOf, sourceOf } from "./item-source";

type Source = Pick<ItemSource, "entries" | "transcript">;

/** So many are read at a time. */
const AT_ONCE = 4;

/** Characters, or members of a list, that the item does not have. */
export function leftOutOf(item: Item): number {
  const own = "cut" in item ? (item.cut ?? 0) : 0;
  const ofView = item.kind === "tool" && item.view && "cut" in item.view ? (item.view.cut ?? 0) : 0;
  return Math.max(own, ofView);
}

/** An item that was cut, with the lines that have all of it. */
export interface Completed {
  item: Item;
  source: Source;
}

/** The lines of all items that were cut; of some there may be none any more. */
export async function readCut(
  sessionId: string,
  items: ConversationPage["items"],
  tell: (count: number) => void,
): Promise<Map<string, Completed>> {
  const cut = items.filter((item) => leftOutOf(item) > 0);
  const found = new Map<string, Completed>();
  let at = 0;
  const reader = async () => {
    for (let item = cut[at++]; item; item = cut[at++]) {
      const { entries = [], transcript = [] } = await sourceOf(sessionId, item.id);
      if (entries.length || transcript.length) found.set(item.id, { item, source: { entries, transcript } });
      tell(found.size);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, reader));
  return found;
}

/** The item with all of its text; null where the lines do not have it in a form that is known. */
export function wholeOf({ item, source }: Completed): Item | null {
  if (item.kind === "prompt") return withText(item, promptIn(source));
  if (item.kind !== "tool") return null;
  const { view } = item;
  if (view?.view === "diff") {
    const hunks = hunksIn(source);
    return hunks && { ...item, cut: 0, view: { ...view, hunks, cut: 0 } };
  }
  const result = resultIn(source, item);
  if (result === null) return null;
  const output = view?.view === "command" ? { ...view, output: result, errors: "", cut: 0 } : view;
  return { ...item, result, cut: 0, view: output ?? null };
}

function withText<T extends Item & { text?: string }>(item: T, text: string | null): T | null {
  return text === null || text.length < (item.text ?? "").length ? null : { ...item, text, cut: 0 };
}

function promptIn(source: Source): string | null {
  for (const line of linesOf(source)) {
    const said = objectOf(line.message)?.content ?? line.content;
    const words = wordsOf(said);
    if (words !== null) return words;
  }
  return null;
}

function resultIn(source: Source, item: ToolItem): string | null {
  for (const line of linesOf(source)) {
    const blocks = objectOf(line.message)?.content;
    const all = Array.isArray(blocks) ? blocks.map(objectOf) : [];
    const own = all.find((block) => block?.type === "tool_result" && item.id.endsWith(String(block.tool_use_id)));
    const words = own ? wordsOf(own.content) : null;
    if (words !== null) return words;
  }
  return null;
}

function hunksIn(source: Source): Hunk[] | null {
  for (const line of linesOf(source)) {
    const told = objectOf(line.tool_use_result ?? line.toolUseResult);
    const hunks = told?.structuredPatch;
    if (Array.isArray(hunks) && hunks.length) return hunks.map(hunkOf);
  }
  return null;
}

/** A text, or the text blocks of a list. */
function wordsOf(content: unknown): string | null {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return null;
  const texts = content.map(objectOf).filter((block) => block?.type === "text" && typeof block.text === "string");
  return texts.length ? texts.map((block) => block!.text as string).join("\n") : null;
}
