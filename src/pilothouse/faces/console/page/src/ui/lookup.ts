/** Tables that are looked up with names from outside. */

/** What a table has under a name itself: every object has a `constructor`, and a model may say so. */
export function lookUp<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
