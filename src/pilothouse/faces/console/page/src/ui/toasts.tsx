/** Short words about what just happened, or did not. */

import { signal } from "@preact/signals";
import { errorWords } from "./error-words";

interface Toast {
  id: number;
  words: string;
  isBad: boolean;
}

const LASTS_MS = 6000;
const toasts = signal<readonly Toast[]>([]);
let count = 0;

export function toast(words: string, isBad = false): void {
  const id = ++count;
  toasts.value = [...toasts.peek(), { id, words, isBad }].slice(-4);
  setTimeout(() => (toasts.value = toasts.peek().filter((each) => each.id !== id)), LASTS_MS);
}

export function toastError(error: unknown): void {
  toast(errorWords(error), true);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((each) => (
        <div key={each.id} class={each.isBad ? "toast bad" : "toast"}>
          {each.words}
        </div>
      ))}
    </div>
  );
}
