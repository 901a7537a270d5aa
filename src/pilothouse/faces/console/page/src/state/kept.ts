/** What this browser keeps, by name. Storage that is full, refused or written by another version never stops the page. */

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
