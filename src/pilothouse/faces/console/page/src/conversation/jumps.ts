/** From prompt to prompt and from question to question, over what is not loaded yet too. */

import type { Conversation } from "../state/conversation";
import { toast } from "../ui/toasts";

/** So many pages are read in search of one; who wants more presses again. */
const PAGES = 5;

export async function jump(
  conversation: Conversation,
  kind: "prompt" | "question",
  step: 1 | -1,
  go: (id: string) => void,
): Promise<void> {
  for (let page = 0; page <= PAGES; page++) {
    const found = next(conversation, kind, step);
    if (found) return go(found);
    const has = step < 0 ? conversation.earlier : conversation.later;
    if (!has.peek()) break;
    await (step < 0 ? conversation.loadEarlier() : conversation.loadLater());
  }
  // There is no question further down: the first of all is next.
  const again = kind === "question" ? next(conversation, kind, step, -1) : null;
  if (again) return go(again);
  if (kind === "question") toast("No question in what is loaded");
  else toast(step < 0 ? "No prompt before this one" : "No prompt behind this one");
}

function next(conversation: Conversation, kind: string, step: 1 | -1, from = position(conversation)): string | null {
  const ids = conversation.ids.peek();
  for (let at = from + step; at >= 0 && at < ids.length; at += step) {
    if (conversation.item(ids[at]!)?.peek().kind === kind) return ids[at]!;
  }
  return null;
}

/** Where one reads: at the item that has the focus, or else the one in the upper part of the screen. */
function position(conversation: Conversation): number {
  const ids = conversation.ids.peek();
  const focused = document.activeElement?.closest<HTMLElement>("[data-item]") ?? visibleItem();
  const at = focused ? ids.indexOf(focused.dataset.item!) : -1;
  return at < 0 ? ids.length : at;
}

function visibleItem(): HTMLElement | null {
  const scroller = document.querySelector(".scroller");
  if (!scroller) return null;
  const { top, left, width, height } = scroller.getBoundingClientRect();
  const looks = [0.22, 0.3, 0.15, 0.5].map((part) => document.elementFromPoint(left + width / 2, top + height * part));
  return looks.map((element) => element?.closest<HTMLElement>("[data-item]")).find(Boolean) ?? null;
}
