/** The policy text that is being worked on; this browser keeps it until it is saved or discarded. */

import { kept } from "../state/kept";

export interface Draft {
  text: string;
  /** The file as it was when the work began. */
  base: string;
}

const { now, write } = kept<Draft | null>("pilothouse.policy-draft", null);

export const draft = now;

/** Have this text as the draft; none where it is the file's again. */
export function edit(text: string, file: string): void {
  const base = draft.peek()?.base ?? file;
  write(text === file ? null : { text, base });
}

export function discard(): void {
  write(null);
}
