/** What was said to a session before: its own prompts, whoever said them and from where. */

import { get, part } from "../api/http";
import type { ConversationPage } from "../api/types";

const LOOKED_AT = 500;
const MOST = 50;

const said = new Map<string, string[]>();
const loading = new Map<string, Promise<void>>();

/** The prompts of a session, the oldest first; undefined until they were read. */
export function saidBefore(id: string): readonly string[] | undefined {
  return said.get(id);
}

/** A message was sent from here. */
export function noteSaid(id: string, text: string): void {
  const known = said.get(id);
  if (known && text.trim()) said.set(id, [...known.filter((each) => each !== text), text].slice(-MOST));
}

export function loadSaid(id: string): Promise<void> {
  let asked = loading.get(id);
  if (!asked) loading.set(id, (asked = read(id).finally(() => loading.delete(id))));
  return asked;
}

async function read(id: string): Promise<void> {
  const page = await get<ConversationPage>(`/api/sessions/${part(id)}/conversation`, { limit: LOOKED_AT });
  const texts = page.items.flatMap((item) => {
    const isOwn = item.kind === "prompt" && !item.agent && (item.by ?? "person") === "person" && !item.cut;
    return isOwn && item.text?.trim() ? [item.text] : [];
  });
  // Of the same words the last time counts.
  said.set(id, [...new Set(texts.reverse())].slice(0, MOST).reverse());
}
