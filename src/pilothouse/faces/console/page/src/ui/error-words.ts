/** What went wrong, in words: what the server said, with its advice. */

import { Refusal } from "../api/http";

export function errorWords(error: unknown): string {
  const words = error instanceof Error ? error.message : String(error);
  return error instanceof Refusal && error.advice ? `${words} (${error.advice})` : words;
}
