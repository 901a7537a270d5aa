/** How well a text fits what was typed: letters in their order, better where they begin words or stand together. */

/** From here on, what was typed is in the text as it is. */
export const WHOLE = 500;

/** 0 where it does not fit. */
export function fit(text: string, typed: string): number {
  const lower = text.toLowerCase();
  const whole = lower.indexOf(typed);
  if (whole >= 0) return WHOLE + 500 - Math.min(whole, 400) + (isWordStart(lower, whole) ? 500 : 0) - Math.min(lower.length, 200) / 10;
  let score = 0;
  let at = -1;
  for (const letter of typed) {
    if (letter === " ") continue;
    const next = lower.indexOf(letter, at + 1);
    if (next < 0) return 0;
    score += next === at + 1 ? 8 : isWordStart(lower, next) ? 6 : 1;
    at = next;
  }
  return score;
}

function isWordStart(text: string, at: number): boolean {
  return at === 0 || /[\s/_.-]/.test(text[at - 1]!);
}
