/** The filters of the list: a small panel, and what is active of it as chips. */

import { useEffect, useState } from "preact/hooks";
import { get } from "../api/http";
import type { Runner } from "../api/types";
import { baseName } from "../state/rows";
import { Popover } from "../ui/menu";
import { toastError } from "../ui/toasts";
import { clearFilters, filters, isShowingArchived, OWN_MACHINE, setFilter, suggestions, type Filters } from "./filters";

const NAMES: Record<keyof Filters, string> = { cwd: "Directory", label: "Label", machine: "Machine", state: "State" };
const KEYS = Object.keys(NAMES) as (keyof Filters)[];
export const STATES: Record<string, string> = {
  active: "working",
  awaiting_input: "waiting for you",
  done: "done",
  error: "failed",
  interrupted: "interrupted",
};

export function FilterButton() {
  const count = KEYS.filter((key) => filters.value[key]).length + Number(isShowingArchived.value);
  return (
    <Popover
      label={count ? `Filters, ${count} active` : "Filters"}
      class={count ? "button filter-button active" : "button filter-button"}
      panelClass="filter-panel"
      align="right"
      face={
        <svg viewBox="0 0 16 16" aria-hidden="true">
          <path d="M2 3.5h12M4.5 8h7M6.5 12.5h3" />
        </svg>
      }
    >
      {(close) => <Panel close={close} />}
    </Popover>
  );
}

function Panel(props: { close: () => void }) {
  const machines = useMachines();
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        props.close();
      }}
    >
      <Typed name="cwd" />
      <Typed name="label" />
      <Chosen name="machine" choices={machines} />
      <Chosen name="state" choices={Object.keys(STATES)} />
      <label class="row check">
        <input
          type="checkbox"
          checked={isShowingArchived.value}
          onChange={(event) => (isShowingArchived.value = event.currentTarget.checked)}
        />
        Show archived
      </label>
      <div class="row">
        <button
          type="button"
          class="button plain"
          onClick={() => {
            clearFilters();
            isShowingArchived.value = false;
          }}
        >
          Clear
        </button>
        <button class="button main">Done</button>
      </div>
    </form>
  );
}

/** What there may be too many of to choose from: the rows that are here only suggest some. */
function Typed(props: { name: "cwd" | "label" }) {
  const { name } = props;
  // The panel may be drawn anew while one types.
  const [typed, setTyped] = useState(filters.value[name]);
  useEffect(() => setTyped(filters.value[name]), [filters.value[name]]);
  return (
    <label class="stacked">
      <span>{NAMES[name]}</span>
      <input
        class="field"
        list={`filter-${name}`}
        placeholder="Any"
        autocomplete="off"
        spellcheck={false}
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onChange={(event) => setFilter(name, event.currentTarget.value.trim())}
      />
      <datalist id={`filter-${name}`}>
        {suggestions.value[name].map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
    </label>
  );
}

function Chosen(props: { name: "machine" | "state"; choices: readonly string[] }) {
  const { name } = props;
  return (
    <label class="stacked">
      <span>{NAMES[name]}</span>
      <select class="field" value={filters.value[name]} onChange={(event) => setFilter(name, event.currentTarget.value)}>
        <option value="">Any</option>
        {props.choices.map((each) => (
          <option key={each} value={each}>
            {STATES[each] ?? each}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The server's own machine, the runners, and those that were and have sessions still. */
function useMachines(): string[] {
  const [runners, setRunners] = useState<string[]>([]);
  useEffect(() => {
    const abort = new AbortController();
    get<Runner[]>("/api/runners", {}, abort.signal)
      .then((found) => setRunners(found.map((each) => each.name)))
      .catch((error) => abort.signal.aborted || toastError(error));
    return () => abort.abort();
  }, []);
  return [OWN_MACHINE, ...new Set([...runners, ...suggestions.value.machine].sort())];
}

export function ActiveFilters() {
  const active = KEYS.filter((key) => filters.value[key]);
  if (!active.length && !isShowingArchived.value) return null;
  return (
    <div class="row wrap chips">
      {active.map((key) => (
        <Chip key={key} name={`${NAMES[key]}: ${wordFor(key, filters.value[key])}`} drop={() => setFilter(key, "")} />
      ))}
      {isShowingArchived.value && <Chip name="Archived" drop={() => (isShowingArchived.value = false)} />}
    </div>
  );
}

function wordFor(key: keyof Filters, value: string): string {
  if (key === "cwd") return baseName(value);
  return key === "state" ? (STATES[value] ?? value) : value;
}

function Chip(props: { name: string; drop: () => void }) {
  return (
    <button class="chip" aria-label={`Remove the filter ${props.name}`} onClick={props.drop}>
      <span class="cut">{props.name}</span> <span aria-hidden="true">×</span>
    </button>
  );
}
