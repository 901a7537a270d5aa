/** What a key means to somebody who types. */

/** The keyboard is on the screen: Enter begins a line there, and a button sends. */
export const isCoarse = matchMedia("(pointer: coarse)");

/** Whether an input method has the key. Of the Enter that ends a conversion Safari says so by its code alone. */
export function isConverting(event: KeyboardEvent): boolean {
  return event.isComposing || event.keyCode === 229;
}

/** Whether a key in a text of several lines sends it. */
export function isToSend(event: KeyboardEvent): boolean {
  if (event.key !== "Enter" || isConverting(event)) return false;
  return event.ctrlKey || event.metaKey || (!event.shiftKey && !isCoarse.matches);
}
