/** A session's time as a strip: when the model worked, when a tool, when a person was waited for, when nobody did. */

import { useState } from "preact/hooks";
import type { Stretch, Timeline as Told } from "../api/types";
import { dateTime, duration, span } from "../ui/time";
import { grownBy, laidOut, type Doing, type Drawn } from "./timeline-spans";

const NAMES: readonly [Doing, string][] = [
  ["model", "Model"],
  ["tool", "Tools"],
  ["person", "Waiting for a person"],
  ["idle", "Idle"],
];
const WORDS = Object.fromEntries(NAMES) as Record<Doing, string>;
const WIDTH = 1000;
const HEIGHT = 24;
const SHOWN = 50;
/** Where a stretch that is drawn shorter than it was has its stripes. */
const BREAKS = [0.35, 0.5, 0.65];

/** `grown`: milliseconds since the server told of it. */
export function Timeline(props: { of: Told; grown: number }) {
  const [asTable, showTable] = useState(false);
  const spans = grownBy(props.of, props.grown);
  if (!spans.length) return <p class="faint">Nothing has a time yet.</p>;
  const totals: Record<string, number> = { ...props.of.totals };
  const last = spans.at(-1)!;
  totals[last.doing] = (totals[last.doing] ?? 0) + last.end - props.of.spans.at(-1)!.end;
  return (
    <section class="timeline" aria-label="Timeline">
      <div class="timeline-legend">
        {NAMES.map(([doing, name]) => (
          <span key={doing} class="timeline-key">
            <i class={`timeline-${doing}`} />
            {name} <b>{length(totals[doing] ?? 0)}</b>
          </span>
        ))}
        <button class="button plain timeline-toggle" aria-pressed={asTable} onClick={() => showTable(!asTable)}>
          {asTable ? "Show as strip" : "Show as table"}
        </button>
      </div>
      {spans.some((each) => each.count) && (
        <p class="faint">There are very many stretches: the shortest are drawn as what they mostly were.</p>
      )}
      {asTable ? <SpanTable spans={spans} /> : <Strip spans={spans} words={inWords(totals)} />}
    </section>
  );
}

function Strip(props: { spans: readonly Stretch[]; words: string }) {
  const drawn = laidOut(props.spans, WIDTH);
  const first = props.spans[0]!.start;
  const last = props.spans.at(-1)!.end;
  return (
    <>
      <svg
        class="timeline-strip"
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={props.words}
      >
        {drawn.map((each) => (
          <Bar key={each.start} of={each} />
        ))}
      </svg>
      <div class="timeline-ends">
        <span>{dateTime(first)}</span>
        {drawn.some((each) => each.isShortened) && <span>Striped: shorter than it was</span>}
        <span>{dateTime(last)}</span>
      </div>
    </>
  );
}

function Bar(props: { of: Drawn }) {
  const { doing, x, width, isShortened } = props.of;
  const y = doing === "idle" ? HEIGHT / 3 : 0;
  const height = doing === "idle" ? HEIGHT / 3 : HEIGHT;
  return (
    <g class={`timeline-${doing}`}>
      <title>{nameOf(props.of)}</title>
      <rect x={x} y={y} width={Math.max(width, 0.5)} height={height} />
      {isShortened &&
        BREAKS.map((at) => (
          <rect key={at} class="timeline-break" x={x + width * at} y={0} width={3} height={HEIGHT} />
        ))}
    </g>
  );
}

function nameOf({ doing, name, count, start, end }: Stretch): string {
  const what = count ? `Mostly ${WORDS[doing].toLowerCase()} (${count} stretches)` : WORDS[doing];
  return `${what}${name ? `: ${name}` : ""}, ${length(end - start)}, from ${dateTime(start)}`;
}

function inWords(totals: Record<string, number>): string {
  return `${NAMES.map(([doing, name]) => `${name} ${length(totals[doing] ?? 0)}`).join(", ")}. The table has each stretch.`;
}

const length = (ms: number) => (ms < 3_600_000 ? duration(ms) : span(ms));

const clock = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});

function SpanTable(props: { spans: readonly Stretch[] }) {
  const [most, setMost] = useState(SHOWN);
  const newest = [...props.spans].reverse();
  const shown = newest.slice(0, most);
  return (
    <div class="timeline-table" tabIndex={0} role="group" aria-label="Stretches of time, the newest first">
      <table class="look-table">
        <thead>
          <tr>
            <th scope="col">From</th>
            <th scope="col">What</th>
            <th scope="col" class="look-number">
              How long
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((each) => (
            <tr key={each.start}>
              <td>{clock.format(each.start)}</td>
              <td class="look-anywhere">
                {WORDS[each.doing]}
                {each.name && `: ${each.name}`}
                {each.count && <span class="faint"> mostly, of {each.count} stretches</span>}
              </td>
              <td class="look-number">{length(each.end - each.start)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {newest.length > shown.length && (
        <button class="button plain" onClick={() => setMost(most + 200)}>
          Show {Math.min(200, newest.length - shown.length)} earlier
        </button>
      )}
    </div>
  );
}
