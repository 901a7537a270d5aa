/** The rows of a group. Only those near the screen are drawn: of ten thousand, a few dozen. */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { SessionRow, type RowCursor } from "./session-row";

/** So far beyond the edges of the screen rows are drawn. */
const AHEAD_PX = 800;
/** The list is drawn anew when so many rows have come near, not with each. */
const STEP = 20;
/** The height of a row before one was measured. All are equally high. */
const ROW_PX = 52;

interface Range {
  from: number;
  to: number;
}

export function RowList(props: { name: string; ids: readonly string[]; cursor: RowCursor }) {
  const { ids, cursor } = props;
  const list = useRef<HTMLUListElement>(null);
  const height = useRef(ROW_PX);
  const near = useSignal<Range>({ from: 0, to: 3 * STEP });
  const look = () => {
    if (!list.current) return;
    const row = list.current.querySelector<HTMLElement>(".session-row");
    if (row) height.current = row.offsetHeight || height.current;
    const range = rangeOf(list.current, height.current);
    if (range.from !== near.peek().from || range.to !== near.peek().to) near.value = range;
  };
  useLayoutEffect(look, [ids]);
  useLayoutEffect(() => onScroll(look), []);
  // The row that the keys stand on is always there, or its focus would be lost with it.
  const at = ids.indexOf(cursor.at.value ?? "");
  return (
    <ul ref={list} aria-label={props.name}>
      {/* One list of siblings: a row stays the same element, and keeps the focus, whatever is drawn around it. */}
      {piecesOf(near.value, at, ids.length).flatMap(({ from, to, isDrawn }) =>
        isDrawn
          ? ids.slice(from, to).map((id, index) => (
              <SessionRow key={id} id={id} cursor={cursor} place={{ at: from + index + 1, of: ids.length }} />
            ))
          : [space(from, to, height.current)],
      )}
    </ul>
  );
}

const looks = new Set<() => void>();

/** Other rows are near, as where what is above a list has another height: look at once which. */
export function layoutChanged(): void {
  for (const look of looks) look();
}

/** Call this when what is on the screen changes, once a frame at most; returns how to leave. */
export function onScroll(look: () => void): () => void {
  let frame = 0;
  const soon = () => (frame ||= requestAnimationFrame(() => ((frame = 0), look())));
  // What scrolls is the list, or on a phone the page.
  document.addEventListener("scroll", soon, { capture: true, passive: true });
  addEventListener("resize", soon);
  looks.add(look);
  return () => {
    cancelAnimationFrame(frame);
    document.removeEventListener("scroll", soon, { capture: true });
    removeEventListener("resize", soon);
    looks.delete(look);
  };
}

function rangeOf(list: HTMLElement, height: number): Range {
  const top = list.getBoundingClientRect().top;
  const from = Math.floor((-AHEAD_PX - top) / height / STEP) * STEP;
  const to = Math.ceil((innerHeight + AHEAD_PX - top) / height / STEP) * STEP;
  return { from: Math.max(0, from), to: Math.max(STEP, to) };
}

/** The stretches of a list that are drawn, and those between them. */
function piecesOf(near: Range, at: number, count: number): (Range & { isDrawn: boolean })[] {
  const drawn = [{ from: Math.min(near.from, count), to: Math.min(near.to, count) }];
  if (at >= 0 && at < drawn[0]!.from) drawn.unshift({ from: at, to: at + 1 });
  else if (at >= drawn[0]!.to) drawn.push({ from: at, to: at + 1 });
  const pieces: (Range & { isDrawn: boolean })[] = [];
  let done = 0;
  for (const each of drawn) {
    if (each.from > done) pieces.push({ from: done, to: each.from, isDrawn: false });
    pieces.push({ ...each, isDrawn: true });
    done = each.to;
  }
  if (done < count) pieces.push({ from: done, to: count, isDrawn: false });
  return pieces;
}

function space(from: number, to: number, height: number): JSX.Element {
  return <li key={`${from} to ${to}`} aria-hidden="true" style={{ height: `${(to - from) * height}px` }} />;
}
