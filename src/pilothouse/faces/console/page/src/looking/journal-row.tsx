/** One event of the journal in a line, and all of it as JSON once it is opened. */

import { useSignal } from "@preact/signals";
import type { Event, Gap } from "../api/types";
import { link } from "../routes";
import { rowOf } from "../state/sessions";
import { Code } from "../ui/code";
import { dateTime } from "../ui/time";
import type { Row } from "./journal-feed";

/** More text than this is not printed without being asked for: a browser takes long to show it. */
const MOST_PRINTED = 200_000;

interface EventRowProps {
  row: Row;
  onOpen: () => void;
  onlySession: (session: string) => void;
}

export function EventRow(props: EventRowProps) {
  const isOpen = useSignal(false);
  const { row } = props;
  if (row.gap) return <GapRow gap={row.gap} />;
  const event = row.event!;
  const toggle = (now: boolean) => {
    isOpen.value = now;
    // What is being read must not move.
    if (now) props.onOpen();
  };
  return (
    <details class="look-event" onToggle={(toggled) => toggle(toggled.currentTarget.open)}>
      <summary>
        <span>{row.seq}</span>
        <time>{exactTime(event.at)}</time>
        <span class="look-event-session">{event.session_id.slice(0, 8)}</span>
        <span class="look-event-kind">
          <b>{event.kind}</b> {row.what}
        </span>
        <span class="look-event-size">{sizeOf(row.size)}</span>
      </summary>
      {isOpen.value && <Body event={event} onlySession={props.onlySession} />}
    </details>
  );
}

const REASONS: Record<Gap["reason"], string> = {
  partials: "pieces of messages whose turn has ended",
  retention: "older than is kept",
  damage: "the journal is damaged",
  reset: "the journal is another one",
};

function GapRow(props: { gap: Gap }) {
  const { first, last, count, reason } = props.gap;
  const many = count ? `${count.toLocaleString()} events` : "Events";
  return (
    <p class="look-event-gap">
      {many} between {first} and {last} are gone: {REASONS[reason] ?? reason}
    </p>
  );
}

function Body(props: { event: Event; onlySession: (session: string) => void }) {
  const { event } = props;
  const isCut = useSignal(true);
  const all = JSON.stringify(event.body, null, 2) ?? "null";
  const text = isCut.value ? all.slice(0, MOST_PRINTED) : all;
  return (
    <div class="look-event-body">
      <div class="row wrap small">
        <span class="quiet">{dateTime(event.at)}</span>
        <a href={link({ view: "session", id: event.session_id })}>
          {rowOf(event.session_id)?.title || event.session_id}
        </a>
        <button class="button plain small" onClick={() => props.onlySession(event.session_id)}>
          Only this session
        </button>
      </div>
      <Code text={text} language="json" shown={120} />
      {text.length < all.length && (
        <button class="button small" onClick={() => (isCut.value = false)}>
          Show {(all.length - text.length).toLocaleString()} more characters
        </button>
      )}
      {event.raw && (
        <>
          <p class="small quiet">The line byte for byte, in base64, since not every reader of JSON takes it:</p>
          <Code text={event.raw} shown={20} />
        </>
      )}
    </div>
  );
}

const clock = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
});

function exactTime(at: number): string {
  return clock.format(at);
}

function sizeOf(count: number): string {
  return count < 10_000 ? count.toLocaleString() : `${Math.round(count / 1000).toLocaleString()}k`;
}
