/** Days as the charts have them: names like `2026-11-18`, in the order of time. */

const DAY_MS = 86_400_000;

export type Range = "7" | "30" | "all";
export const RANGES: readonly [Range, string][] = [
  ["7", "7 days"],
  ["30", "30 days"],
  ["all", "All"],
];

export function dayOf(at: number): string {
  const date = new Date(at);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** When a day begins here. */
export function startOf(day: string): number {
  const [year = 1970, month = 1, date = 1] = day.split("-").map(Number);
  return new Date(year, month - 1, date).getTime();
}

/** The first moment of a range; 0 for all there is. */
export function since(range: Range, now = Date.now()): number {
  return range === "all" ? 0 : startOf(dayOf(startOf(dayOf(now)) - (Number(range) - 1) * DAY_MS + DAY_MS / 2));
}

/** Every day from the range's first, or the first that has something, to today. */
export function daysOf(range: Range, known: Iterable<string>, now = Date.now()): string[] {
  const all = [...known].sort();
  const last = [dayOf(now), all.at(-1) ?? ""].sort().at(-1)!;
  const first = range === "all" ? (all[0] ?? dayOf(now)) : dayOf(since(range, now));
  const days: string[] = [];
  // From noon to noon: a day with a change of the clock is not 24 hours long.
  for (let at = startOf(first) + DAY_MS / 2; days.length < 4000; at += DAY_MS) {
    const day = dayOf(at);
    if (day > last) break;
    days.push(day);
  }
  return days;
}

const long = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short", year: "numeric" });
const short = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

export function dayName(day: string): string {
  return long.format(startOf(day));
}

export function shortDay(day: string): string {
  return short.format(startOf(day));
}
