/** What this browser keeps, by name. Storage that is full, refused or written by another version never stops the page. */

import { signal, type ReadonlySignal, type Signal } from "@preact/signals";

/** The value that was kept under a name, if it is of the same kind as the initial one. */
export function readKept<T>(name: string, initial: T): T {
  try {
    const kept = JSON.parse(localStorage.getItem(name) ?? "null") as T | null;
    return kept !== null && kindOf(kept) === kindOf(initial) ? kept : initial;
  } catch {
    return initial;
  }
}

/** False: the browser did not take it, and the page has it only as long as it is open. */
export function keep(name: string, value: unknown): boolean {
  try {
    localStorage.setItem(name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

export function forget(name: string): void {
  try {
    localStorage.removeItem(name);
  } catch {
    // A browser that refuses storage kept nothing either.
  }
}

function kindOf(value: unknown): string {
  return Array.isArray(value) ? "list" : typeof value;
}

/** A value that is the same in all tabs of this browser. */
export interface Kept<T> {
  readonly now: ReadonlySignal<T>;
  /** Have another value; what is as it was at first is not kept. */
  readonly write: (value: T) => void;
}

interface Shared extends Kept<unknown> {
  readonly now: Signal<unknown>;
  readonly initial: unknown;
}

const all = new Map<string, Shared>();

/** What is kept under a name, as a signal. */
export function kept<T>(name: string, initial: T): Kept<T> {
  const known = all.get(name);
  if (known) return known as Kept<T>;
  const now = signal(readKept(name, initial));
  const write = (value: T) => {
    now.value = value;
    if (JSON.stringify(value) === JSON.stringify(initial)) forget(name);
    else keep(name, value);
  };
  const made = { now, write, initial };
  all.set(name, made as unknown as Shared);
  return made;
}

// Another tab has written. What this one has and that one did not know of, nobody takes away.
addEventListener("storage", ({ key, oldValue }) => {
  const own = key === null ? undefined : all.get(key);
  if (!own || JSON.stringify(own.now.peek()) !== (oldValue ?? JSON.stringify(own.initial))) return;
  own.now.value = readKept(key!, own.initial);
});
