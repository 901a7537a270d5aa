/** The first view: what waits for an answer, and what has ended lately. */

import { computed } from "@preact/signals";
import { QuestionList } from "../questions/question-list";
import { link } from "../routes";
import { baseName, sinceOf, titleOf, type Row } from "../state/rows";
import { groupOf, listed, questions, sessions } from "../state/sessions";
import { now } from "../ui/time";
import { isBegun, QuickStart } from "./quick-start";
import { RowBadges, Since } from "./session-row";

const DAY_MS = 86_400_000;
const MOST = 30;

/** The hour is exact enough for what is of the last day. */
const hour = computed(() => Math.floor(now.value / 3_600_000) * 3_600_000);

const ended = computed(() =>
  sessions.value
    .filter((row) => {
      const group = groupOf(row);
      return (group === "done" || group === "failed") && sinceOf(row) > hour.value - DAY_MS;
    })
    .sort((a, b) => sinceOf(b) - sinceOf(a))
    .slice(0, MOST),
);
const working = computed(() => sessions.value.filter((row) => groupOf(row) === "working").length);

export function Inbox() {
  if (!listed.value) return <p class="sessions-note">Loading…</p>;
  const isCalm = !questions.value.length;
  const isFirst = isCalm && !sessions.value.length;
  return (
    <div class={isFirst ? "inbox inbox-calm" : "inbox"}>
      {isFirst ? <Beginning /> : <h1 class="unseen">Inbox</h1>}
      {!isFirst && <QuestionList />}
      {/* The form is one and the same in every state: whoever types in it goes on, whatever is asked meanwhile. */}
      {(isCalm || isBegun.value) && (
        <section class={isFirst ? "" : "inbox-calm"} aria-label="Start a session">
          {isCalm && !isFirst && <Calm />}
          <QuickStart autofocus={isFirst} />
        </section>
      )}
      {isFirst && <FromTerminals />}
      {ended.value.length > 0 && <Lately />}
    </div>
  );
}

function Calm() {
  return (
    <>
      <h2>Nothing waits for you</h2>
      <p class="quiet">
        {working.value === 0 && "No session is at work. "}
        {working.value === 1 && "One session is at work. "}
        {working.value > 1 && `${working.value} sessions are at work. `}
        Questions come up here as soon as they are asked.
      </p>
    </>
  );
}

function Beginning() {
  return (
    <header>
      <h1>Start your first session</h1>
      <p class="quiet">
        Say what you want done and in which directory. Claude works there, asks here before it does anything that needs
        your word, and goes on when this page is closed.
      </p>
    </header>
  );
}

function FromTerminals() {
  return (
    <p class="quiet small">
      Sessions that you begin with <code>claude</code> in a terminal on this machine are listed here as well, and can be
      gone on with.
    </p>
  );
}

function Lately() {
  return (
    <section class="lately">
      <h2>Ended in the last day</h2>
      <ul class="card">
        {ended.value.map((row) => (
          <EndedRow key={row.session_id} row={row} />
        ))}
      </ul>
    </section>
  );
}

function EndedRow(props: { row: Row }) {
  const { row } = props;
  const isBad = groupOf(row) === "failed";
  const outcome = isBad ? "failed" : row.state === "interrupted" ? "interrupted" : "done";
  return (
    <li>
      <a href={link({ view: "session", id: row.session_id })}>
        <span class="session-line">
          <span class={isBad ? "badge bad" : row.state === "interrupted" ? "badge" : "badge good"}>{outcome}</span>
          <span class="session-title cut">{titleOf(row)}</span>
          <RowBadges row={row} />
          <Since at={sinceOf(row)} />
        </span>
        <span class="lately-line cut small quiet">{(isBad ? row.reason : row.last_line) || baseName(row.cwd)}</span>
      </a>
    </li>
  );
}
