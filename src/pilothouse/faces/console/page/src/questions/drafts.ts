/** What was typed for a question and not sent yet. It outlives a reload of the page, its tab, and a restart of the server. */

import { signal, type Signal } from "@preact/signals";
import { forget, keep, readKept } from "../state/kept";

type Draft = Readonly<Record<string, unknown>>;

const PREFIX = "pilothouse.card.";
/** A question that was settled while no page was open leaves its draft behind. */
const LASTS_MS = 30 * 86_400_000;
const LARGE = 50_000;
const drafts = new Map<string, Signal<Draft>>();

/** A value of the draft for this question, as `useState` has one. */
export function useDraft<T>(id: string, name: string, initial: T): [T, (value: T) => void] {
  const draft = draftOf(id);
  const value = draft.value[name];
  return [(value === undefined ? initial : value) as T, (next) => write(id, { ...draft.peek(), [name]: next })];
}

/** The question was answered: nothing of it is left to send. */
export function forgetDraft(id: string): void {
  drafts.delete(id);
  forget(PREFIX + id);
}

function draftOf(id: string): Signal<Draft> {
  const known = drafts.get(id);
  if (known) return known;
  const made = signal(readKept<{ draft?: Draft }>(PREFIX + id, {}).draft ?? {});
  drafts.set(id, made);
  return made;
}

function write(id: string, draft: Draft): void {
  draftOf(id).value = draft;
  const at = Date.now();
  if (!keep(PREFIX + id, { draft, at })) keep(PREFIX + id, { draft: words(draft), at });
}

/** Pasted images may be more than the browser stores; what was typed beside them is not. */
function words(draft: Draft): Draft {
  return Object.fromEntries(Object.entries(draft).filter(([, value]) => JSON.stringify(value).length < LARGE));
}

function forgetOld(): void {
  for (const name of Object.keys(localStorage).filter((each) => each.startsWith(PREFIX))) {
    const { at = 0 } = readKept<{ at?: number }>(name, {});
    if (Date.now() - at > LASTS_MS) forget(name);
  }
}

try {
  forgetOld();
} catch {
  // A browser that refuses storage kept nothing either.
}
