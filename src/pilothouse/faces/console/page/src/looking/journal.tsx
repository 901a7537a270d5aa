/** The journal as it is: every event, for those who want to see what was said on the wire. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { rowOf, sessions } from "../state/sessions";
import { EventRow } from "./journal-row";
import { JournalFeed, type Filter } from "./journal-feed";
import { Page } from "./page";

const TYPING_MS = 300;
const KINDS = [
  "cli", "partial", "noise", "session.started", "session.stopped", "session.linked", "options.changed", "prompt.said",
  "prompt.sent", "prompt.withdrawn", "interrupt.asked", "cli.started", "cli.ended", "question.opened",
  "question.closed", "question.decided", "turn.ended", "rules.kept", "lines.lost", "session.archived",
];

/** `session`: whose events are shown at first. */
export function Journal(props: { session?: string | undefined }) {
  const [filter, setFilter] = useState<Filter>({ session: props.session ?? "", kind: "", text: "" });
  const feed = useMemo(() => new JournalFeed(filter), [filter]);
  useEffect(() => {
    void feed.open();
    return () => feed.close();
  }, [feed]);
  return (
    <Page title="Journal" tools={<Following feed={feed} />}>
      <FilterBar filter={filter} onChange={setFilter} />
      <Rows feed={feed} onlySession={(session) => setFilter({ ...filter, session })} />
    </Page>
  );
}

function Following(props: { feed: JournalFeed }) {
  const { feed } = props;
  const isPaused = feed.isPaused.value;
  const toggle = () => (isPaused ? void feed.resume() : feed.pause());
  return (
    <>
      <span class={isPaused ? "badge ask" : "badge good"} role="status">
        {isPaused ? "paused" : "following"}
      </span>
      <button class="button" disabled={feed.isLoading.value} onClick={toggle}>
        {isPaused ? "Follow" : "Pause"}
      </button>
    </>
  );
}

function FilterBar(props: { filter: Filter; onChange: (filter: Filter) => void }) {
  const { filter, onChange } = props;
  const [text, setText] = useState(filter.text);
  useEffect(() => {
    if (text === filter.text) return;
    const timer = setTimeout(() => onChange({ ...filter, text }), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <div class="look-journal-filter">
      <SessionChoice chosen={filter.session} onChange={(session) => onChange({ ...filter, session })} />
      <select
        class="field"
        aria-label="Kind"
        value={filter.kind}
        onChange={(event) => onChange({ ...filter, kind: event.currentTarget.value })}
      >
        <option value="">Every kind</option>
        {KINDS.map((kind) => (
          <option key={kind}>{kind}</option>
        ))}
      </select>
      <input
        class="field"
        type="search"
        aria-label="Text in the event"
        placeholder="Text in the event"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
    </div>
  );
}

/** The newest sessions by their titles; any other by its id. */
function SessionChoice(props: { chosen: string; onChange: (session: string) => void }) {
  const [typed, setTyped] = useState(props.chosen);
  useEffect(() => setTyped(props.chosen), [props.chosen]);
  const newest = sessions.value.filter((row) => row.source !== "transcript").slice(0, 50);
  const title = rowOf(props.chosen)?.title;
  return (
    <div class="grow">
      <input
        class="field"
        type="search"
        list="journal-sessions"
        aria-label="Session id"
        placeholder="Every session (paste an id)"
        title={title}
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onChange={(event) => props.onChange(event.currentTarget.value.trim())}
      />
      <datalist id="journal-sessions">
        {newest.map((row) => (
          <option key={row.session_id} value={row.session_id}>
            {row.title}
          </option>
        ))}
      </datalist>
    </div>
  );
}

function Rows(props: { feed: JournalFeed; onlySession: (session: string) => void }) {
  const { feed } = props;
  const rows = feed.rows.value;
  const pause = useMemo(() => () => feed.pause(), [feed]);
  return (
    <div class="card look-journal">
      <div class="look-event-head" aria-hidden="true">
        <span>Event</span>
        <span>Time</span>
        <span>Session</span>
        <span>Kind</span>
        <span class="look-event-size">Size</span>
      </div>
      {rows.map((row) => (
        <EventRow key={row.key} row={row} onOpen={pause} onlySession={props.onlySession} />
      ))}
      <End feed={feed} isEmpty={!rows.length} />
    </div>
  );
}

function End(props: { feed: JournalFeed; isEmpty: boolean }) {
  const { feed } = props;
  const from = feed.from.value;
  if (feed.isLoading.value) return <p class="look-journal-end faint">Reading…</p>;
  return (
    <div class="look-journal-end row wrap">
      <span class="small quiet grow">
        {props.isEmpty ? "Nothing fits. " : ""}
        {from > 0 ? `Looked back to event ${(from + 1).toLocaleString()}.` : "This is the beginning of the journal."}
      </span>
      {from > 0 && (
        <button class="button" onClick={() => void feed.earlier()}>
          Earlier
        </button>
      )}
    </div>
  );
}
