/** How the stretches of a session's time are laid out over a width. */

import type { Stretch, Timeline } from "../api/types";

export type Doing = Stretch["doing"];

/** The stretches up to this moment of the page's, which may be later than the server knew of. */
export function grownBy(timeline: Timeline, ms: number): readonly Stretch[] {
  const last = timeline.spans.at(-1);
  if (!last || !timeline.is_going_on || ms <= 0) return timeline.spans;
  return [...timeline.spans.slice(0, -1), { ...last, end: last.end + ms }];
}

/** How wide a stretch is drawn, and whether that is less than it lasted. */
export interface Drawn extends Stretch {
  x: number;
  width: number;
  isShortened: boolean;
}

/** A night of nothing must not hide the work of an hour: a rest is drawn no longer than a part of the work. */
const LONGEST: Partial<Record<Doing, number>> = { idle: 0.12, person: 0.4 };

/** Lay the stretches out over a width. */
export function laidOut(spans: readonly Stretch[], width: number): Drawn[] {
  const work = spans.reduce((sum, { doing, start, end }) => (isWork(doing) ? sum + end - start : sum), 0);
  const most = (doing: Doing) => (work > 0 ? (LONGEST[doing] ?? Infinity) * work : Infinity);
  const lengths = spans.map(({ doing, start, end }) => Math.min(end - start, most(doing)));
  const all = lengths.reduce((sum, each) => sum + each, 0) || 1;
  let x = 0;
  return spans.map((span, at) => {
    const own = (lengths[at]! / all) * width;
    const drawn = { ...span, x, width: own, isShortened: lengths[at]! < span.end - span.start };
    x += own;
    return drawn;
  });
}

const isWork = (doing: Doing) => doing === "model" || doing === "tool";
