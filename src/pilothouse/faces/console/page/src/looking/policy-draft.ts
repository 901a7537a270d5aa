/** The policy text that is being worked on; a reload of the page does not lose it. */

import { signal } from "@preact/signals";

export interface Draft {
  text: string;
  /** The file as it was when the work began. */
  base: string;
}

const KEPT = "pilothouse.policy-draft";

export const draft = signal<Draft | null>(read());

/** Have this text as the draft; none where it is the file's again. */
export function edit(text: string, file: string): void {
  const base = draft.peek()?.base ?? file;
  draft.value = text === file ? null : { text, base };
  if (draft.value) sessionStorage.setItem(KEPT, JSON.stringify(draft.value));
  else sessionStorage.removeItem(KEPT);
}

export function discard(): void {
  draft.value = null;
  sessionStorage.removeItem(KEPT);
}

function read(): Draft | null {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null") as Partial<Draft> | null;
    return kept && typeof kept.text === "string" && typeof kept.base === "string" ? (kept as Draft) : null;
  } catch {
    return null;
  }
}
