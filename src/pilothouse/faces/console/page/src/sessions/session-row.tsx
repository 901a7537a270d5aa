/** One session in the list: what it is, how it stands and for how long, in two lines. */

import { useComputed, type ReadonlySignal } from "@preact/signals";
import { link, route } from "../routes";
import { baseName, modelName, sinceOf, titleOf, waitsOn, type Row } from "../state/rows";
import { firstQuestions, groupOf, rowSignal } from "../state/sessions";
import { lookUp } from "../ui/lookup";
import { money, now, span, dateTime } from "../ui/time";
import { RowMenu } from "./row-menu";

/** The row that the keys stand on. Only it is a stop of the Tab key. */
export interface RowCursor {
  at: ReadonlySignal<string | null>;
  moveTo: (id: string) => void;
}

/** Where a row stands among all of its list, of which only some are drawn. */
interface Place {
  at: number;
  of: number;
}

export function SessionRow(props: { id: string; cursor: RowCursor; place: Place }) {
  const row = rowSignal(props.id).value;
  return row ? <RowLine row={row} cursor={props.cursor} place={props.place} /> : null;
}

export function RowLine(props: { row: Row; cursor: RowCursor; place?: Place }) {
  const { row, cursor } = props;
  const id = row.session_id;
  const isCurrent = useComputed(() => route.value.view === "session" && route.value.id === id).value;
  const isStop = useComputed(() => cursor.at.value === id).value;
  const tabIndex = isStop ? 0 : -1;
  return (
    <li
      class={`session-row ${groupOf(row)} ${row.state ?? ""}`}
      aria-posinset={props.place?.at}
      aria-setsize={props.place?.of}
    >
      <a
        href={link({ view: "session", id })}
        data-session={id}
        aria-current={isCurrent ? "page" : undefined}
        tabIndex={tabIndex}
        onFocus={() => cursor.moveTo(id)}
      >
        <span class="session-line">
          <span class="session-mark" aria-hidden="true" />
          <span class="session-title cut">{titleOf(row)}</span>
          <Since at={sinceOf(row)} />
        </span>
        <span class="session-line second">
          <Directory row={row} />
          <span class="session-last cut">
            <LastLine row={row} />
          </span>
          <RowBadges row={row} />
        </span>
      </a>
      <RowMenu row={row} tabIndex={tabIndex} />
    </li>
  );
}

/** The time in its state; drawn anew when its words change, not with every second. */
export function Since(props: { at: number }) {
  const words = useComputed(() => span(now.value - props.at));
  return (
    <time class="session-since" dateTime={new Date(props.at).toISOString()} title={dateTime(props.at)}>
      {words}
    </time>
  );
}

function LastLine(props: { row: Row }) {
  const { row } = props;
  const asked = useComputed(() => firstQuestions.value.get(row.session_id)?.title ?? null).value;
  const line = asked ?? (row.state === "error" ? row.reason : null) ?? lineOf(row);
  return <>{line}</>;
}

/** The name of its directory; a row without a title has it as its title. */
function Directory(props: { row: Row }) {
  const { row } = props;
  const name = baseName(row.cwd);
  if (!name || name === titleOf(row)) return null;
  return (
    <span class="session-dir cut" title={row.cwd ?? undefined}>
      {name}
    </span>
  );
}

function lineOf(row: Row): string | null {
  if (row.state === "active" && row.waiting_on) return waitsOn(row.waiting_on);
  if (row.last_line) return row.last_line;
  return row.state === "interrupted" ? (row.reason ?? "Interrupted") : null;
}

const SHORT_MODES: Record<string, string> = {
  acceptEdits: "edits",
  bypassPermissions: "bypass",
  dontAsk: "don't ask",
};

export function RowBadges(props: { row: Row }) {
  const { row } = props;
  const context = row.context_percent ?? 0;
  return (
    <>
      {(row.questions ?? 0) > 1 && <span class="badge ask">{row.questions} questions</span>}
      {row.machine && <span class="badge">{row.machine}</span>}
      {row.mode && row.mode !== "default" && (
        <span class={row.mode === "bypassPermissions" ? "badge bad" : "badge"}>{lookUp(SHORT_MODES, row.mode) ?? row.mode}</span>
      )}
      {row.model && <span class="badge">{modelName(row.model)}</span>}
      {context >= 1 && (
        <span class={context >= 80 ? "badge ask" : "badge"} title="Context used">
          {Math.round(context)}%
        </span>
      )}
      {!!row.cost_usd && <span class="session-cost">{money(row.cost_usd)}</span>}
      {row.simulated && (
        <span class="badge" title="No model works on it, and nothing is spent">
          sim
        </span>
      )}
    </>
  );
}
