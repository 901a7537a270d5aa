/** What was typed for a question and not sent yet. It outlives a reload of the page, its tab, and a restart of the server. */

import { forget, kept, readKept } from "../state/kept";
import { forgetPictures } from "../steering/drafts";

type Draft = Readonly<Record<string, unknown>>;

interface KeptDraft {
  draft?: Draft;
  at?: number;
}

const PREFIX = "pilothouse.card.";
/** A question that was settled while no page was open leaves its draft behind. */
const LASTS_MS = 30 * 86_400_000;
const NONE: KeptDraft = {};

/** A value of the draft for this question, as `useState` has one. */
export function useDraft<T>(id: string, name: string, initial: T): [T, (value: T) => void] {
  const { now, write } = kept(PREFIX + id, NONE);
  const value = now.value.draft?.[name];
  const change = (next: T) => write({ draft: { ...now.peek().draft, [name]: next }, at: Date.now() });
  return [(value === undefined ? initial : value) as T, change];
}

/** What the images of this question's draft are kept by. */
export function picturesName(id: string): string {
  return `question ${id}`;
}

/** The question was answered: nothing of it is left to send. */
export function forgetDraft(id: string): void {
  kept(PREFIX + id, NONE).write(NONE);
  forgetPictures(picturesName(id));
}

function forgetOld(): void {
  for (const name of Object.keys(localStorage).filter((each) => each.startsWith(PREFIX))) {
    const { at = 0 } = readKept<KeptDraft>(name, NONE);
    if (Date.now() - at <= LASTS_MS) continue;
    forget(name);
    forgetPictures(picturesName(name.slice(PREFIX.length)));
  }
}

try {
  forgetOld();
} catch {
  // A browser that refuses storage kept nothing either.
}
