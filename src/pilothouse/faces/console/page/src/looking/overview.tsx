/** What was spent, on what, by whom it was waited for: numbers, charts and the tables behind them. */

import { signal } from "@preact/signals";
import { get } from "../api/http";
import type { Activity, ActivityDay, CostLine, CostReport, Health } from "../api/types";
import { link } from "../routes";
import { amount, money, span } from "../ui/time";
import { DayChart } from "./chart";
import { daysOf, RANGES, since, type Range } from "./days";
import { readHealth } from "./health";
import { useEvery, useLoaded } from "../ui/load";
import { Figure, Page, Pending } from "./page";
import { Shares } from "./shares";

const REFRESH_MS = 60_000;
const HOUR_MS = 3_600_000;

/** It stays as chosen while one looks at other views. */
const range = signal<Range>("30");

export function Overview() {
  const spent = useLoaded(readSpent, [range.value]);
  useEvery(REFRESH_MS, spent.again);
  return (
    <Page title="Overview" tools={<Tools again={spent.again} isBusy={spent.isLoading} />}>
      <Pending of={spent} />
      {spent.value && <Now {...spent.value} />}
      <div class="look-charts">
        {spent.value && <Spent {...spent.value} />}
        {spent.value && <Past {...spent.value} />}
        {spent.value && <Parts {...spent.value} />}
      </div>
    </Page>
  );
}

function Tools(props: { again: () => void; isBusy: boolean }) {
  return (
    <>
      <div class="look-choice" role="group" aria-label="Time that is shown">
        {RANGES.map(([each, name]) => (
          <button key={each} class="button" aria-pressed={range.value === each} onClick={() => (range.value = each)}>
            {name}
          </button>
        ))}
      </div>
      <button class="button" disabled={props.isBusy} onClick={props.again}>
        Refresh
      </button>
    </>
  );
}

// What is read

interface SpentData {
  range: Range;
  health: Health;
  byDay: CostReport;
  byProject: CostReport;
  byModel: CostReport;
  activity: Activity;
}

async function readSpent(abort: AbortSignal): Promise<SpentData> {
  const chosen = range.peek();
  const from = since(chosen) || undefined;
  const cost = (by: string, since?: number) => get<CostReport>("/api/cost", { by, since }, abort);
  const [health, byDay, byProject, byModel, activity] = await Promise.all([
    readHealth(abort),
    // All days, for the sum of all; the server's day may begin at another hour than ours.
    cost("day"),
    cost("project", from),
    cost("model", from),
    get<Activity>("/api/activity", { since: from }, abort),
  ]);
  return { range: chosen, health, byDay, byProject, byModel, activity };
}

// What is shown

const STATE_NAMES: Record<string, string> = {
  awaiting_input: "Waiting for you",
  active: "Working",
  error: "Failed",
  interrupted: "Interrupted",
  done: "Done",
};

function Now(props: SpentData) {
  const { today_usd, total_usd, day_cap_usd } = props.byDay;
  const turns = props.byDay.lines.reduce((sum, line) => sum + line.turns, 0);
  return (
    <section class="look-figures" aria-label="Now">
      <Figure name="Spent today" value={money(today_usd)}>
        {day_cap_usd ? (
          <>
            <meter
              class="look-cap"
              min={0}
              max={day_cap_usd}
              high={day_cap_usd * 0.8}
              value={Math.min(today_usd, day_cap_usd)}
              aria-label="Part of the day's cap"
            />
            of {money(day_cap_usd)} a day
          </>
        ) : (
          "No cap for the day"
        )}
      </Figure>
      <Figure name="Spent in all" value={money(total_usd)}>
        {amount(turns)} {turns === 1 ? "turn" : "turns"}
      </Figure>
      <Figure name="Open questions" value={props.health.questions}>
        <a href={link({ view: "sessions" })}>Go to sessions</a>
      </Figure>
      <Figure name="Sessions" value={props.health.sessions}>
        {props.health.live} with a running CLI
      </Figure>
      <States states={props.health.states ?? {}} />
    </section>
  );
}

function States(props: { states: Record<string, number> }) {
  const known = Object.keys(STATE_NAMES).filter((state) => props.states[state]);
  const other = Object.keys(props.states).filter((state) => !(state in STATE_NAMES));
  return (
    <div class="card look-figure look-states">
      <span class="small quiet">Sessions by state</span>
      <dl>
        {[...known, ...other].map((state) => (
          <div key={state}>
            <dt>
              <i class={`look-dot look-dot-${state}`} />
              {STATE_NAMES[state] ?? state}
            </dt>
            <dd>{props.states[state]}</dd>
          </div>
        ))}
      </dl>
      {!known.length && !other.length && <span class="faint">None yet</span>}
    </div>
  );
}

const tokensOf = ({ tokens }: CostLine) =>
  (tokens.input ?? 0) + (tokens.output ?? 0) + (tokens.cache_read ?? 0) + (tokens.cache_write ?? 0);

function Spent(props: SpentData) {
  const lines = new Map(props.byDay.lines.map((line) => [line.group, line]));
  const days = daysOf(props.range, lines.keys());
  const valueOf = (of: (line: CostLine) => number) => days.map((day) => (lines.has(day) ? of(lines.get(day)!) : 0));
  return (
    <>
      <DayChart
        title="Cost by day"
        days={days}
        series={[{ name: "Cost", values: valueOf((line) => line.usd) }]}
        label={money}
        axisLabel={axisMoney}
      />
      <DayChart
        title="Tokens by day"
        days={days}
        series={[{ name: "Tokens", values: valueOf(tokensOf), colour: "busy" }]}
        label={tokenWords}
        axisLabel={amount}
        note="Input, output and cache together."
      />
    </>
  );
}

function Parts(props: SpentData) {
  return (
    <>
      <Shares title="Cost by project" what="Project" lines={props.byProject.lines} tokensOf={tokensOf} isPath />
      <Shares title="Cost by model" what="Model" lines={props.byModel.lines} tokensOf={tokensOf} />
    </>
  );
}

function Past(props: SpentData) {
  const known = new Map((props.activity.days ?? []).map((each) => [each.day, each]));
  const days = daysOf(props.range, known.keys());
  const valueOf = (of: (day: ActivityDay) => number) => days.map((day) => (known.has(day) ? of(known.get(day)!) : 0));
  return (
    <>
      <DayChart
        title="Sessions started by day"
        days={days}
        series={[{ name: "Sessions", values: valueOf((each) => each.sessions ?? 0) }]}
        label={(value) => `${amount(value)} ${value === 1 ? "session" : "sessions"}`}
        axisLabel={(value) => (Number.isInteger(value) ? amount(value) : "")}
        note="Sessions from terminals are among them."
      />
      <TimesChart
        days={days}
        waited={valueOf((each) => each.waited_ms ?? 0)}
        worked={valueOf((each) => each.worked_ms ?? 0)}
        activity={props.activity}
      />
    </>
  );
}

function TimesChart(props: { days: string[]; waited: number[]; worked: number[]; activity: Activity }) {
  // In the unit of the axis, so that its marks are at round numbers.
  const most = Math.max(...props.waited, ...props.worked, 0);
  const [unit, sign] = most > 2 * HOUR_MS ? [HOUR_MS, "h"] : [60_000, "min"];
  const inUnits = (times: number[]) => times.map((ms) => ms / unit);
  return (
    <DayChart
      title="Waiting for people against working"
      days={props.days}
      series={[
        { name: "Waited", values: inUnits(props.waited), colour: "ask" },
        { name: "Worked", values: inUnits(props.worked), colour: "busy" },
      ]}
      label={(value) => spentTime(value * unit)}
      axisLabel={(value) => (value ? `${Number(value.toFixed(2))} ${sign}` : "0")}
      note={waitWords(props.activity)}
    />
  );
}

function waitWords({ asked = 0, answered_by_rules = 0, median_wait_ms }: Activity): string {
  const people = `People were asked ${amount(asked)} ${asked === 1 ? "time" : "times"}`;
  const took = median_wait_ms == null ? "" : `; half of the answers came within ${span(median_wait_ms)}`;
  const rules = answered_by_rules ? ` Rules answered ${amount(answered_by_rules)} in their place.` : "";
  return `${people}${took}.${rules} Times of sessions that run side by side are added up.`;
}

const tokenWords = (count: number) => `${amount(count)} tokens`;
const axisMoney = (usd: number) => `$${Number.isInteger(usd) ? usd : usd.toFixed(usd < 0.1 ? 4 : 2)}`;

function spentTime(ms: number): string {
  if (ms < 60_000) return `${Math.round(ms / 1000)} s`;
  if (ms < HOUR_MS) return `${Math.round(ms / 60_000)} min`;
  return `${(ms / HOUR_MS).toFixed(1)} h`;
}
