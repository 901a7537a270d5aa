/** The head of a session: its title, where it works, with what, how it stands and what it has used. */

import type { Status } from "../api/types";
import { link } from "../routes";
import { waitsOn } from "../state/rows";
import { rowOf } from "../state/sessions";
import { SessionActions } from "../steering/session-actions";
import { amount, dateTime, money, now, span } from "../ui/time";
import { ExportMenu } from "./export";
import { statusOf } from "./session-status";

export function SessionHead(props: { id: string; onSearch: () => void; onTimeline: () => void }) {
  const status = statusOf(props.id).value;
  const row = status ? null : rowOf(props.id);
  const title = status?.title || row?.title || "Session";
  return (
    <header class="session-head">
      <div class="title-line">
        <a class="back button plain" href={link({ view: "sessions" })} aria-label="Back to the sessions">
          ‹
        </a>
        <h1 class="cut" title={title}>
          {title}
        </h1>
        {status && <StateBadge status={status} />}
        <div class="session-buttons">
          {status && <SessionActions id={props.id} status={status} />}
          <button
            type="button"
            class="button plain"
            onClick={props.onSearch}
            aria-label="Search in the conversation"
            title="Search in the conversation (/)"
          >
            <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
              <path d="M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.3 10.3l3.4 3.4" />
            </svg>
          </button>
          <button
            type="button"
            class="button plain"
            onClick={props.onTimeline}
            aria-label="Timeline"
            title="What the time went into (t)"
          >
            <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
              <path d="M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 4.5V8l2.5 1.5" />
            </svg>
          </button>
          <ExportMenu id={props.id} title={title} />
        </div>
      </div>
      <dl class="session-facts">
        <Fact name="Directory" words={status?.cwd ?? row?.cwd ?? ""} isMono />
        {status && <StatusFacts status={status} />}
        <div class="fact">
          <dt class="unseen">Journal</dt>
          <dd>
            <a href={link({ view: "journal", session: props.id })} title="Every line that was written of this session">
              Journal
            </a>
          </dd>
        </div>
      </dl>
      {status?.waiting_on && isAtWork(status) && <p class="session-waits">{waitsOn(status.waiting_on)}</p>}
      {status?.reason && <p class="session-reason">{status.reason}</p>}
    </header>
  );
}

function isAtWork(status: Status): boolean {
  return status.state === "active" || status.state === "awaiting_input";
}

function StatusFacts(props: { status: Status }) {
  const { status } = props;
  return (
    <>
      <Fact name="Machine" words={status.machine ?? ""} />
      <Fact name="Label" words={status.label ?? ""} />
      {isOver(status) && <Fact name="Model" words={status.model ?? ""} />}
      <Context status={status} />
      <Fact name="Cost" words={`${money(status.cost_usd ?? 0)}${status.simulated ? " simulated" : ""}`} />
    </>
  );
}

/** Whose model can be changed has it on a button. */
function isOver(status: Status): boolean {
  return status.resumable === false && !status.live;
}

function Fact(props: { name: string; words: string; isMono?: boolean }) {
  if (!props.words) return null;
  return (
    <div class={props.isMono ? "fact mono" : "fact"} data-fact={props.name} title={`${props.name}: ${props.words}`}>
      <dt class="unseen">{props.name}</dt>
      <dd class="cut">{props.words}</dd>
    </div>
  );
}

function Context(props: { status: Status }) {
  const { context } = props.status;
  if (!context) return null;
  const percent = context.percent ?? (context.window ? (context.tokens / context.window) * 100 : null);
  const all = context.window ? ` of ${amount(context.window)}` : "";
  const exact = [context.tokens, context.window].filter((each) => each != null).map((each) => each!.toLocaleString());
  return (
    <div class="fact" title={`Context: ${exact.join(" of ")} tokens`}>
      <dt class="unseen">Context used</dt>
      <dd class="row">
        {percent != null && <meter min={0} max={100} high={80} value={percent} aria-label="Context used" />}
        <span>
          {amount(context.tokens)}
          {all} tokens
        </span>
      </dd>
    </div>
  );
}

const STATES: Record<Status["state"], [words: string, tone: string]> = {
  active: ["Working", "busy"],
  awaiting_input: ["Waiting for you", "ask"],
  done: ["Done", "good"],
  error: ["Failed", "bad"],
  interrupted: ["Interrupted", ""],
};

function StateBadge(props: { status: Status }) {
  const { status } = props;
  const [words, tone] = status.compacting ? ["Summarising", "busy"] : STATES[status.state];
  return (
    <span class={`badge ${tone}`} title={`Since ${dateTime(status.updated_at)}`}>
      {/* What changes is said aloud; how long it has been so is not, each second. */}
      <span role="status">{words}</span> <Since at={status.updated_at} />
    </span>
  );
}

function Since(props: { at: number }) {
  return <span class="since">{span(now.value - props.at)}</span>;
}
